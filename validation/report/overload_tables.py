"""The tables of overload: every figure measured beside simulated, with its bound and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..overload.overload import (
    CPU_WITHIN,
    GOODPUT_WITHIN,
    LATENCY_WITHIN,
    SHARE_LEAST,
    SHARE_WITHIN,
    Compared,
    syn_seconds,
)
from .tables import DASH, TextTable

_SHARES = ("at_once", "second", "third", "fourth", "never")
_PAST_CAPACITY = 1.1
REACHED, MISSED = "reached", "missed"
NOTE = (
    "Medians over accepted runs, in brackets half the range of the measured ones. Goodput is in "
    "units of the capacity, wanted within 10%; shares of connections by the SYN "
    "that got through within 15% of the measured share, where either is at least 1%; CPU within 5 "
    "points, p50 below the capacity within 15%. "
    "+ means that the simulation is above the measurement; of CPU the error is in points. "
    f"{DASH}: nothing is promised, or nothing was measured."
)


class Judged(NamedTuple):
    """One figure of one point; an empty verdict: it is shown and not judged."""

    point: str
    load: float
    figure: str
    measured: float
    simulated: float
    scatter: float
    verdict: str

    @property
    def error(self) -> float:
        """The relative error; NaN where nothing was measured."""
        if not self.measured or math.isnan(self.measured):
            return math.nan
        return self.simulated / self.measured - 1


def judged(compared: Sequence[Compared]) -> list[Judged]:
    """Return every figure of every point with its verdict."""
    return [row for entry in compared for row in _rows(entry)]


def _rows(entry: Compared) -> Iterator[Judged]:
    measured, simulated, scatter = entry.measured, entry.simulated, entry.scatter

    def row(name: str, field: str, *, counts: bool, within: float) -> Judged:
        a, b = getattr(measured, field), getattr(simulated, field)
        found = Judged(entry.point.label, entry.load, name, a, b, getattr(scatter, field), "")
        if not counts or math.isnan(a):
            return found
        if a == 0:
            return found._replace(verdict=MISSED if b else REACHED)
        return found._replace(verdict=REACHED if abs(found.error) <= within else MISSED)

    yield row("goodput", "goodput", counts=True, within=GOODPUT_WITHIN)
    if entry.point.kind == "backlog":
        names = [
            "by the first SYN",
            *(f"by the SYN after {s} s" for s in syn_seconds(entry.point)[1:]),
        ]
        for name, field in [*zip(names, _SHARES, strict=False), ("never", "never")]:
            if max(getattr(measured, field), getattr(simulated, field)) >= SHARE_LEAST:
                yield row(name, field, counts=True, within=SHARE_WITHIN)
    stable = entry.load < 1
    yield row("p50", "p50_ns", counts=stable, within=LATENCY_WITHIN)
    yield row("p99", "p99_ns", counts=False, within=LATENCY_WITHIN)
    cpu = row("CPU busy", "cpu_busy", counts=False, within=CPU_WITHIN)
    if not math.isnan(cpu.measured):
        far = abs(cpu.simulated - cpu.measured) > CPU_WITHIN
        yield cpu._replace(verdict=MISSED if far else REACHED)


def counts_of(rows: Sequence[Judged]) -> list[tuple[str, int, int]]:
    """Return how many of each kind of figure are within their bound: (name, within, judged)."""

    def of(name: str, chosen: Sequence[Judged]) -> tuple[str, int, int]:
        known = [row for row in chosen if row.verdict]
        return name, sum(row.verdict == REACHED for row in known), len(known)

    goodput = [row for row in rows if row.figure == "goodput" and "surge" not in row.point]
    later = [row for row in rows if row.figure.startswith("by the SYN after")]
    return [
        of(
            f"goodput past {_PAST_CAPACITY} of the capacity",
            [r for r in goodput if r.load >= _PAST_CAPACITY],
        ),
        of(
            f"goodput up to {_PAST_CAPACITY} of the capacity",
            [r for r in goodput if r.load < _PAST_CAPACITY],
        ),
        of("goodput of storms", [r for r in rows if r.figure == "goodput" and "surge" in r.point]),
        of("share by the first SYN", [r for r in rows if r.figure == "by the first SYN"]),
        of("share by a later SYN", later),
        of("share that never got through", [r for r in rows if r.figure == "never"]),
        of("CPU busy", [r for r in rows if r.figure == "CPU busy"]),
        of("p50 below the capacity", [r for r in rows if r.figure == "p50"]),
    ]


def overload_tables(compared: Sequence[Compared]) -> list[TextTable]:
    """Return what was wanted and reached, and every figure of every point."""
    rows = judged(compared)
    summary = [(name, f"{within} of {n}") for name, within, n in counts_of(rows)]
    return [
        TextTable("Overload: figures within their bounds", "", ("figure", "within"), summary),
        TextTable(
            "Overload: every point",
            NOTE,
            ("point", "figure", "measured load", "measured", "simulated", "error", "verdict"),
            [_cells(row) for row in rows],
            n_text=2,
        ),
    ]


def _cells(row: Judged) -> tuple[str, ...]:
    error = DASH if math.isnan(row.error) else f"{row.error:+.1%}"
    if row.figure == "CPU busy" and error != DASH:
        error = f"{100 * (row.simulated - row.measured):+.1f}"
    around = "" if math.isnan(row.scatter) else f" (±{row.scatter:.0%})"
    return (
        row.point, row.figure, f"{row.load:.2f}", f"{_text(row, row.measured)}{around}",
        _text(row, row.simulated), error, row.verdict or DASH,
    )  # fmt: skip


def _text(row: Judged, value: float) -> str:
    if math.isnan(value):
        return DASH
    if row.figure in ("p50", "p99"):
        return f"{value / 1e6:.2f} ms"
    return f"{value:.3f}" if row.figure == "goodput" else f"{value:.2%}"


def overload_lines(compared: Sequence[Compared]) -> Iterator[str]:
    """Yield the comparison as lines of text: every point, then how many figures are within."""
    yield NOTE
    yield ""
    yield f"    {'figure':<22}{'measured':>20} |{'simulated':>12} |{'error':>9} | verdict"
    for entry in compared:
        yield (
            f"{entry.point.label}: {entry.n_runs} accepted, {entry.n_rejected} rejected, "
            f"capacity {entry.capacity_per_s:,.0f}/s, measured load {entry.load:.3f}"
        )
        for row in _rows(entry):
            _point, figure, _load, measured, simulated, error, verdict = _cells(row)
            yield f"    {figure:<22}{measured:>20} |{simulated:>12} |{error:>9} | {verdict}"
    yield ""
    for name, within, n in counts_of(judged(compared)):
        yield f"{name:<32}{within:>3} of {n} within"
