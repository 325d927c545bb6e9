"""What was measured of somebody else's server, for people: its runs, and what it was seen to do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from rich.table import Table
from rich.text import Text

from ..scenario.formats import rate_text, share_text, time_text

if TYPE_CHECKING:
    from ..calibration.observed.observed_run import ObservedRun


def runs_table(runs: Sequence[ObservedRun]) -> Table:
    """Return a row for each load: what was answered, how far repeats differ, whose CPU it took."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("load", overflow="fold")
    for heading in ("runs", "answered", "spread", "errors", "p50", "p99", "server", "CPU"):
        table.add_column(heading, justify="right")
    groups: dict[str, list[ObservedRun]] = {}
    for run in runs:
        groups.setdefault(_load_text(run), []).append(run)
    for label, group in groups.items():
        table.add_row(*map(Text, _row(label, group)))
    return table


def _load_text(run: ObservedRun) -> str:
    load = run.load
    who = rate_text(load.rate_per_s or 0.0) if load.loop == "open" else f"{load.users} users"
    idle = f", {load.idle} idle" if load.idle else ""
    tool = "" if run.source.tool == "dispatchsim" else f" by {run.source.tool}"
    return f"{who}, {load.requests or 'all'} requests{idle}{tool}"


def _row(label: str, group: Sequence[ObservedRun]) -> list[str]:
    good = [run for run in group if run.accepted]
    shown = [label, f"{len(good)} of {len(group)}"]
    if not good:
        return [*shown, *["none"] * 7]
    rates = [run.throughput_per_s for run in good]
    middle = statistics.median(rates)
    spread = (max(rates) - min(rates)) / middle if middle else 0.0

    def of(value: Callable[[ObservedRun], float | None], text: Callable[[float], str]) -> str:
        known = [found for run in good if (found := value(run)) is not None]
        return text(statistics.median(known)) if known else "unknown"

    def quantile(share: str) -> Callable[[ObservedRun], float | None]:
        return lambda run: run.latency_ns.quantiles.get(share) if run.latency_ns else None

    return [
        *shown,
        rate_text(middle),
        share_text(spread) if len(rates) > 1 else "unknown",
        f"{sum(sum(run.errors.values()) for run in good):,}",
        of(quantile("0.5"), time_text),
        of(quantile("0.99"), time_text),
        of(
            _server_share,
            share_text,
        ),
        of(lambda run: run.busy_share, share_text),
    ]


def _server_share(run: ObservedRun) -> float | None:
    return run.process_ns / run.window_ns if run.process_ns else None


def recognised_sentences(run: ObservedRun | None) -> list[str]:
    """Return sentences: what the server does, what the counting took, what is to be said."""
    if run is None:
        return ["its system calls were not counted: say what you know of it (--mechanism ...)"]
    server = run.server
    seen = [
        f"waits with {server.mechanism}" if server.mechanism else "",
        _accepts(server.accept_limit),
        {True: "reads from it before it waits again", False: "waits again before it reads"}.get(
            cast("bool", server.reads_after_accept), ""
        ),
        {True: "closes before its clients do", False: "leaves closing to its clients"}.get(
            cast("bool", server.closes_first), ""
        ),
        f"{server.workers} threads serve" if (server.workers or 0) > 1 else "",
        "another thread accepts for those that serve" if server.share == "handed over" else "",
    ]
    per_request = sorted(run.calls.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{n / run.replied:.2g} {name}" for name, n in per_request[:6])
    found = [
        f"recognised: {', '.join(filter(None, seen)) or 'nothing'}",
        f"system calls of a request (one connection in two requests): {shown}",
        f"counted by {run.counted_by} in a run apart, {run.slow_down or 0:.1f} times as slow",
    ]
    return found + [f"not seen: {_with_option(doubt)}" for doubt in run.doubts]


def _with_option(doubt: str) -> str:
    """Return *doubt* with the option by which its owner may say it."""
    for field, option in _OPTIONS.items():
        doubt = doubt.replace(f"({field})", f"(say it: {option})")
    return doubt


_OPTIONS = {"server.mechanism": "--mechanism", "server.accept_limit": "--accept-limit"}


def _accepts(limit: int | None) -> str:
    if limit is None:
        return ""
    return f"accepts {limit} at a time" if limit else "accepts until there is none"
