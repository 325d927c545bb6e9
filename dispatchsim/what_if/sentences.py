"""What a view says, in two sentences: who keeps up with what, and how long clients wait."""

from __future__ import annotations

import math

from ..scenario.formats import listed, number_text, rate_text, time_text
from ..sim.figures.tally import FAILURES
from .answers import Answer, Row
from .series import FATES

_FAILED = frozenset(status.name.lower() for status in FAILURES)
_ALIKE = 1.1
"""Latencies within a tenth of each other are said to be about the same."""


def said(answer: Answer) -> str:
    """Return what is known so far, for people: two sentences, or that it is too early."""
    if not answer.mechanisms:
        return "None of the chosen mechanisms can be simulated here."
    if not answer.is_first_known:
        return "Simulating."
    if not answer.chosen:
        return f"There is nothing to say of {listed(answer.mechanisms)}: its runs failed."
    return f"{_capacities(answer)} {_latencies(answer)}"


def bounds(answer: Answer, mechanism: str) -> tuple[int | None, int | None]:
    """Return the highest load that *mechanism* keeps up with, and the next, which is too much.

    None where no load that was looked at is such a one.
    """
    kept = None
    for row in answer.rows(mechanism):
        if not row.keeps_up:
            return kept, row.rate
        kept = row.rate
    return kept, None


def _capacities(answer: Answer) -> str:
    who: dict[tuple[int | None, int | None], list[str]] = {}
    for name in answer.mechanisms:
        who.setdefault(bounds(answer, name), []).append(name)
    # The best first, and each said once.
    ordered = sorted(who.items(), key=lambda each: -(each[0][0] or 0) - (each[0][1] is None))
    parts = []
    for (kept, lost), names in ordered:
        verb = "keeps" if len(names) == 1 else "keep"
        if kept is None:
            parts.append(f"{listed(names)} {verb} up with none of these loads")
        elif lost is None:
            parts.append(f"{listed(names)} {verb} up with all loads to {rate_text(kept)}")
        else:
            parts.append(
                f"{listed(names)} {verb} up to {rate_text(kept)}, but not at {rate_text(lost)}"
            )
    return "; ".join(parts) + "."


def _latencies(answer: Answer) -> str:
    found = []
    for row in answer.chosen:
        p99_ns = row.estimate("p99_ns").mean  # who fails is one of the slowest
        if row.keeps_up and math.isfinite(p99_ns):
            found.append((p99_ns, row.mechanism))
    at = f"At {rate_text(answer.view.rate)}"
    if not found:
        return _troubles(answer, at)
    found.sort()
    (best_ns, best), (worst_ns, worst) = found[0], found[-1]
    fast, slow = (time_text(ns, trim=True) for ns in (best_ns, worst_ns))
    first = f"{at}, 99% of the clients have their reply within {fast} with {best}"
    if len(found) == 1:
        return f"{first}."
    if worst_ns < _ALIKE * best_ns:
        others = listed([name for _, name in found[1:]])
        return f"{first}, and about the same with {others}."
    times = number_text(round(worst_ns / best_ns, 1), trim=True)
    return f"{first}; with {worst} it takes {times} times as long ({slow})."


def _troubles(answer: Answer, at: str) -> str:
    """Return what becomes of the clients where no mechanism keeps up: not all of them wait."""
    who: dict[str, list[str]] = {}
    for row in answer.chosen:
        who.setdefault(_trouble(row), []).append(row.mechanism)
    if len(who) == 1:
        return f"{at} {next(iter(who))}."
    return f"{at} {'; '.join(f'{what} with {listed(names)}' for what, names in who.items())}."


def _trouble(row: Row) -> str:
    failed = {name: share for name, share in row.fates.items() if name in _FAILED}
    waiting = row.fates.get("open", 0.0)
    if sum(failed.values()) > waiting:
        most = max(failed, key=failed.__getitem__)
        return f"{sum(failed.values()):.0%} of the clients fail (mostly: {FATES[most]})"
    if not row.fates:
        return "no client came while it was measured"
    if row.fates.get("stranded", 0.0) > waiting:
        return "the server never notices some of the clients"
    return "clients wait longer and longer"
