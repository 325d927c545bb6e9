"""Overload judged: every metric, measured and simulated, with its bound and verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...sim.files.tables import DASH, Column, Table
from ..points.measured_points import MISSED, REACHED
from ..scoring.value_verdicts import judge, signed
from .overload import (
    CPU_WITHIN,
    GOODPUT_WITHIN,
    LATENCY_WITHIN,
    SHARE_LEAST,
    SHARE_WITHIN,
    Compared,
    syn_seconds,
)

_SHARES = ("at_once", "second", "third", "fourth", "never")
_PAST_CAPACITY = 1.1
NOTE = (
    "Medians over accepted runs, in brackets half the range of the measured runs. Goodput is in "
    "units of the capacity. Targets: goodput within 10%; shares of connections by the SYN that "
    "connected them within 15% of the measured share, if either is at least 1%; CPU within 5 "
    "points; p50 below the capacity within 15%. p99, and p50 past the capacity, are within the "
    "noise (half the range), within 15%, or missed. Errors: + means that the simulation is above "
    "the measurement; of CPU in points; beyond a factor of two as that factor. "
    f"{DASH}: nothing was measured."
)


class JudgedFigure(NamedTuple):
    """One metric of one point; an empty verdict: shown, not judged."""

    point: str
    load: float
    figure: str
    measured: float
    simulated: float
    scatter: float
    verdict: str

    @property
    def error(self) -> float:
        """The relative error; NaN if nothing was measured."""
        if not self.measured or math.isnan(self.measured):
            return math.nan
        return self.simulated / self.measured - 1


def judged_figures(compared: Sequence[Compared]) -> list[JudgedFigure]:
    """Return every metric of every point with its verdict."""
    return [row for entry in compared for row in _rows(entry)]


def _rows(entry: Compared) -> Iterator[JudgedFigure]:
    measured, simulated, scatter = entry.measured, entry.simulated, entry.scatter

    def row(name: str, field: str, *, counts: bool, within: float) -> JudgedFigure:
        a, b = getattr(measured, field), getattr(simulated, field)
        found = JudgedFigure(entry.point.label, entry.load, name, a, b, getattr(scatter, field), "")
        if not counts or math.isnan(a):
            return found
        if a == 0:
            return found._replace(verdict=MISSED if b else REACHED)
        return found._replace(verdict=REACHED if abs(found.error) <= within else MISSED)

    def of_noise(row: JudgedFigure) -> JudgedFigure:
        ends = row.measured * (1 - row.scatter), row.measured * (1 + row.scatter)
        value = judge(row.measured, row.simulated, ends)
        return row._replace(verdict=value.verdict if value else "")

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
    p50 = row("p50", "p50_ns", counts=stable, within=LATENCY_WITHIN)
    yield p50 if stable else of_noise(p50)
    yield of_noise(row("p99", "p99_ns", counts=False, within=LATENCY_WITHIN))
    cpu = row("CPU busy", "cpu_busy", counts=False, within=CPU_WITHIN)
    if not math.isnan(cpu.measured):
        far = abs(cpu.simulated - cpu.measured) > CPU_WITHIN
        yield cpu._replace(verdict=MISSED if far else REACHED)


def counts_of(rows: Sequence[JudgedFigure]) -> list[tuple[str, int, int]]:
    """Return the number of metrics of each kind within their bound: (name, within, judged)."""
    kinds: dict[str, Callable[[JudgedFigure], bool]] = {
        f"goodput past {_PAST_CAPACITY} of the capacity": lambda row: (
            _is_steady(row) and row.load >= _PAST_CAPACITY
        ),
        f"goodput up to {_PAST_CAPACITY} of the capacity": lambda row: (
            _is_steady(row) and row.load < _PAST_CAPACITY
        ),
        "goodput of storms": lambda row: row.figure == "goodput" and not _is_steady(row),
        "share by the first SYN": lambda row: row.figure == "by the first SYN",
        "share by a later SYN": lambda row: row.figure.startswith("by the SYN after"),
        "share never connected": lambda row: row.figure == "never",
        "CPU busy": lambda row: row.figure == "CPU busy",
        "p50 below the capacity": lambda row: row.figure == "p50" and row.load < 1,
        "p50 past the capacity": lambda row: row.figure == "p50" and row.load >= 1,
        "p99 below the capacity": lambda row: row.figure == "p99" and row.load < 1,
        "p99 past the capacity": lambda row: row.figure == "p99" and row.load >= 1,
    }
    verdicts = {
        name: [row.verdict for row in rows if row.verdict and is_of(row)]
        for name, is_of in kinds.items()
    }
    return [(n, len(found) - found.count(MISSED), len(found)) for n, found in verdicts.items()]


def _is_steady(row: JudgedFigure) -> bool:
    """Return whether a row is goodput under a load without a surge."""
    return row.figure == "goodput" and "surge" not in row.point


def overload_tables(compared: Sequence[Compared]) -> list[Table]:
    """Return the counts within the bounds, and every metric of every point."""
    rows = judged_figures(compared)
    counts = [(name, f"{within} of {n}") for name, within, n in counts_of(rows)]
    return [
        Table.of_cells("Overload: metrics within their bounds", ("metric", "within"), counts),
        Table.of("Overload: every point", rows, _COLUMNS, NOTE),
    ]


def _measured(row: JudgedFigure) -> str:
    around = "" if math.isnan(row.scatter) else f" (±{row.scatter:.0%})"
    return f"{_text(row, row.measured)}{around}"


def _error(row: JudgedFigure) -> str:
    if math.isnan(row.error):
        return DASH
    if row.figure == "CPU busy":
        return f"{100 * (row.simulated - row.measured):+.1f}"
    return signed(row.error)


def _text(row: JudgedFigure, value: float) -> str:
    if math.isnan(value):
        return DASH
    if row.figure in ("p50", "p99"):
        return f"{value / 1e6:.2f} ms"
    return f"{value:.3f}" if row.figure == "goodput" else f"{value:.2%}"


_COLUMNS: list[Column[JudgedFigure]] = [
    Column("point", lambda row: row.point, words=True),
    Column("metric", lambda row: row.figure, words=True),
    Column("measured load", lambda row: f"{row.load:.2f}"),
    Column("measured", _measured),
    Column("simulated", lambda row: _text(row, row.simulated)),
    Column("error", _error),
    Column("verdict", lambda row: row.verdict or DASH),
]
