"""Summary tables: what is wrong, what to suspect, errors by load, the worst points.

A report has a table for each curve. A terminal has room for the answer and for where to look.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...sim.files.tables import DASH, Column, Table
from ..scoring.equal_cpu import GONE, REMAINS, EqualCpu
from ..scoring.regimes import (
    CLOSED,
    CPU,
    EVENTS,
    INTERRUPTS,
    PAST,
    RESPONSE_TIMES,
    RegimeErrors,
    regime_of,
    value_of,
)
from ..scoring.scoring import PointScore
from ..scoring.suspects import IN_OPEN_LOOPS, METRICS, SYMPTOMS, Suspicion, Symptom
from ..scoring.value_verdicts import WITHIN, Judged, factor_of, signed
from .page import count_text, microseconds, number, percent, tenths
from .point_tables import FIGURE_MEANINGS, FIGURE_NAMES, REGIME_MEANINGS, REGIME_NAMES, server_text


@dataclass(frozen=True)
class SuspectWords:
    """The words of a table of suspects.

    Attributes
    ----------
    names:
        The names of metrics.
    noise, beyond:
        The size up to which a median error counts as right; what a larger error is.
    """

    names: Mapping[str, str]
    noise: str
    beyond: str


OF_REPEATS = SuspectWords(METRICS, "noise", "larger than its noise")
"""The words for runs with noise."""


def suspect_table(found: Sequence[Suspicion], words: SuspectWords = OF_REPEATS) -> Table:
    """Return the wrong medians in the order of a search, each with its symptom and suspects."""
    columns: list[Column[Suspicion]] = [
        Column("wrong", functools.partial(_symptom, words.names), words=True),
        Column("load", lambda s: REGIME_NAMES[s.wrong.regime], words=True),
        Column("points", lambda s: s.wrong.n),
        Column("median error", lambda s: s.wrong.error, signed),
        Column(words.noise, lambda s: s.wrong.noise, tenths),
        Column("suspect", functools.partial(_suspects, words.names), words=True),
    ]
    not_read = ", ".join(words.names[figure] for figure in IN_OPEN_LOOPS)
    note = (
        "Search from the top: the error of a metric shifts those below it. A forecast with + is "
        "too high. A metric has one row, the first that fits, with the median of the named "
        "points. The table of errors by load has all loads. docs/how-to/find-the-wrong-cost.md "
        "shows how to go on."
        if found
        else f"No metric is wrong for certain: its median error must be {words.beyond} and have "
        "one sign at several points."
    )
    note += f" Not read in closed loops: {not_read}."
    return Table.of("What is wrong, and what to suspect", found, columns, note)


def _symptom(names: Mapping[str, str], found: Suspicion) -> str:
    return names[found.wrong.figure] if found.symptom is None else found.symptom.wrong(names)


def _suspects(names: Mapping[str, str], found: Suspicion) -> str:
    if found.symptom is None:
        return f"first mend {' and '.join(names[figure] for figure in found.first)}, also wrong"
    suspects = found.symptom.suspects(found.wrong.error)
    if not found.unknown:
        return suspects
    unknown = " and ".join(
        names[figure] if regime == found.wrong.regime else f"{names[figure]} at other loads"
        for figure, regime in found.unknown
    )
    return f"first check {unknown}, not known to be right; then {suspects}"


def symptom_table() -> Table:
    """Return the table of symptoms and suspects, as a page shows it."""

    def suspects(error: float) -> Column[Symptom]:
        side = "high" if error > 0 else "low"
        return Column(
            f"suspect if the forecast is too {side}",
            lambda s: s.suspects(error, "`{}`".format),
            words=True,
        )

    columns: list[Column[Symptom]] = [
        Column("wrong", Symptom.wrong, words=True),
        Column("while", lambda s: s.meanwhile, words=True),
        suspects(1.0),
        suspects(-1.0),
    ]
    return Table.of("", SYMPTOMS, columns)


def load_table(errors: Sequence[RegimeErrors]) -> Table:
    """Return the median errors of all metrics: a row for each metric, a column for each load."""
    cells = {(row.figure, row.regime): row for row in errors}

    def of(regime: str) -> Column[str]:
        return Column(REGIME_NAMES[regime], lambda figure: _cell(cells.get((figure, regime))))

    figures = [figure for figure in FIGURE_NAMES if any(figure == row.figure for row in errors)]
    regimes = [regime for regime in REGIME_NAMES if any(regime == row.regime for row in errors)]
    columns = [Column[str]("error of", FIGURE_NAMES.__getitem__, words=True), *map(of, regimes)]
    note = (
        f"Median error with its sign, and how many points are within {WITHIN:.0%}. "
        f"{REGIME_MEANINGS} {FIGURE_MEANINGS}"
    )
    return Table.of("Median errors by metric and load", figures, columns, note)


def _cell(errors: RegimeErrors | None) -> str:
    return DASH if errors is None else f"{signed(errors.signed)}, {errors.n_within}/{errors.n}"


_Worst = tuple[str, PointScore, Judged]


def worst_points_table(scores: Sequence[PointScore]) -> Table:
    """Return the point of each metric with the largest error.

    Response times count in open loops up to the capacity only: above it they depend on the length
    of the run.
    """
    columns: list[Column[_Worst]] = [
        Column("error of", lambda row: FIGURE_NAMES[row[0]], words=True),
        Column("worst point", lambda row: row[1].measured.point.label, words=True),
        Column("measured", lambda row: _text(row[0], getattr(row[1].measured.median, row[0]))),
        Column("forecast", lambda row: _text(row[0], getattr(row[1].forecast.central, row[0]))),
        Column("error", lambda row: row[2].error, signed),
    ]
    rows = [row for figure in FIGURE_NAMES if (row := _worst(scores, figure))]
    note = "Response times: up to the capacity."
    return Table.of("Worst points", rows, columns, note)


def _worst(scores: Iterable[PointScore], figure: str) -> _Worst | None:
    """Return the held-out point at which the error of *figure* is the largest factor."""
    left_out = (PAST, CLOSED) if figure in RESPONSE_TIMES else ()
    rows = [
        (figure, score, judged)
        for score in scores
        if score.role != "fit" and regime_of(score) not in (None, *left_out)
        if (judged := value_of(score, figure)) is not None and judged.error > -1
    ]
    return max(rows, key=lambda row: factor_of(row[2].error), default=None)


def _text(figure: str, value: float) -> str:
    """Return a value in the unit of `FIGURE_NAMES`."""
    if figure in RESPONSE_TIMES:
        return microseconds(value)
    if figure == CPU:
        return percent(value)
    return count_text(value) if figure in (INTERRUPTS, EVENTS) else number(value)


def server_and_idle(score: PointScore) -> str:
    """Return the server of a point with its number of idle connections."""
    return f"{server_text(score)}, {score.measured.point.idle.connections} idle"


def equal_cpu_table(found: Sequence[EqualCpu]) -> Table:
    """Return the equal-CPU test of each server."""
    columns: list[Column[EqualCpu]] = [
        Column("server", lambda e: e.server, words=True),
        Column("points", lambda e: e.n),
        Column("noise", lambda e: e.noise, tenths),
        Column("p50 error at equal load", lambda e: e.at_equal_load, signed),
        Column("p50 error at equal CPU", lambda e: e.at_equal_cpu, signed),
        Column("load shift for equal CPU", lambda e: e.shift_cpu, signed),
        Column("cause", lambda e: e.cause, words=True),
    ]
    note = (
        "Medians over the points of open loops up to the capacity. At equal CPU: the forecast at "
        f"the load at which its CPU is as busy as measured. Up to {GONE:.0%} of the error left: "
        f"costs; {REMAINS:.0%} or more: delays without work, or the model; between: both. Right: "
        "within the noise at equal load."
    )
    return Table.of("Equal-CPU test: costs, or delays and the model", found, columns, note)


def equal_cpu_points_table(scores: Sequence[PointScore]) -> Table:
    """Return the equal-CPU test of each point of *scores*."""

    def place(score: PointScore) -> tuple[str, float]:
        return server_and_idle(score), score.measured.point.rate_per_s

    columns: list[Column[PointScore]] = [
        Column("server", server_and_idle, words=True),
        Column("rate/s", lambda s: s.measured.point.rate_per_s, number),
        Column("load", lambda s: s.load_share, percent),
        Column("CPU", lambda s: s.measured.median.cpu_busy, percent),
        Column("forecast CPU", lambda s: s.forecast.central.cpu_busy, percent),
        Column("p50 µs", lambda s: s.measured.median.p50_ns, microseconds),
        Column("forecast µs", lambda s: s.forecast.central.p50_ns, microseconds),
        Column("error at equal load", lambda s: s.errors.p50, signed),
        Column("load shift", lambda s: s.load_shift_cpu, signed),
        Column("error at equal CPU", lambda s: s.p50_at_equal_cpu, signed),
    ]
    note = "Load shift: the change of load at which the forecast CPU is as busy as measured."
    return Table.of("The same, point by point", sorted(scores, key=place), columns, note)


def equal_cpu_text(found: Sequence[EqualCpu]) -> str:
    """Return at how many servers p50 is wrong for each cause, in a sentence; empty without any.

    >>> equal_cpu_text([EqualCpu("poll", 5, 0.03, 0.4, 0.05, -0.1)])
    'Equal-CPU test of p50: costs too high at 1 of 1 servers (`dispatchsim lab equal-cpu`).'
    """
    counts = Counter(each.cause for each in found).most_common()
    causes = ", ".join(f"{cause} at {n}" for cause, n in counts)
    where = f"of {len(found)} servers (`dispatchsim lab equal-cpu`)"
    return f"Equal-CPU test of p50: {causes} {where}." if found else ""
