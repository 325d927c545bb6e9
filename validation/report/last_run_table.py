"""The table of another run as if it were the forecast, beside the model's forecast."""

from __future__ import annotations

from collections.abc import Sequence

from ...scenario.formats import time_text
from ...sim.files.tables import Column, Table
from ..scoring.knee import KneeErrors
from ..scoring.last_run import Pair
from ..scoring.targets import CPU_WORST_MAX
from ..scoring.value_verdicts import WITHIN, signed, unsigned
from .point_tables import FIGURE_NAMES, REGIME_NAMES

_NOTE = (
    "At points with two runs or more, the last run is compared with the first, and so is the "
    "forecast. Two runs of a load differ: their arrivals differ, and the machine changes. The "
    "difference of two runs has the noise of both, the error of a forecast has the noise of one. "
    "So a forecast without an error of its own would have 0.7 to 0.8 times the median error of the "
    "other run."
)


def last_run_table(pairs: Sequence[Pair], cpu: Sequence[tuple[int, int]]) -> Table:
    """Return the errors of the last run and of the forecast, against the first run of each point.

    *cpu* has the points with CPU busy within its limit and all points, of the one and of the other.
    """
    columns: list[Column[Pair]] = [
        Column("error of", _name, words=True),
        Column("load", _load, words=True),
        Column("points", lambda pair: pair[0].n),
    ]
    for index, who in enumerate(("other run", "forecast")):
        columns += _errors(index, who)
    (n_last, n_of_last), (n_model, n_of_model) = cpu
    counts = (
        f"CPU busy is within {100 * CPU_WORST_MAX:.0f} percentage points at {n_last} of "
        f"{n_of_last} points by the other run, and at {n_model} of {n_of_model} by the forecast."
    )
    return Table.of(
        "Another run of the same load as the forecast of the first",
        pairs,
        columns,
        f"{_NOTE} {counts}",
    )


def _errors(index: int, who: str) -> list[Column[Pair]]:
    return [
        Column(f"{who}: median error", lambda pair: pair[index].median, unsigned),
        Column("median with sign", lambda pair: pair[index].signed, signed),
        Column("worst", lambda pair: pair[index].worst, unsigned),
        Column(f"within {WITHIN:.0%}", lambda pair: pair[index].n_within),
    ]


def _name(pair: Pair) -> str:
    row = pair[0]
    if isinstance(row, KneeErrors):
        return f"load at which p99 exceeds {time_text(row.bound_ns, trim=True)}"
    return FIGURE_NAMES[row.figure]


def _load(pair: Pair) -> str:
    row = pair[0]
    return "" if isinstance(row, KneeErrors) else REGIME_NAMES[row.regime]
