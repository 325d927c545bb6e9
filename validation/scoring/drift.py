"""Drift of a machine during a campaign, and the noise that remains after correcting for it.

    around ─► run ─► around       a reply at the reference point took r ns around this run and
                                  R ns in the median of the campaign: it was slower by r / R

    raw        replies per second; the scatter of repeats includes drift of the machine
    relative   replies per second x r / R: corrected to constant speed

If the relative values scatter less, drift was most of the noise. If not, drift is faster than a
run, or the reference run is as noisy as the run itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...calibration.measure.surroundings import REFERENCE
from ...calibration.records.measured_runs import RunRecord
from ...calibration.records.precision import Scatter, by_point, scatter
from ...scenario.formats import share_text
from ...sim.files.tables import Column, Table
from ..forecast.hour_prices import prices_beside


class Drift(NamedTuple):
    """The range of the costs measured around runs, over their median in the campaign.

    `low` and `high` are the 10th and the 90th percentile over all runs.
    """

    name: str
    n: int
    low: float
    high: float


def drifts(runs: Iterable[RunRecord]) -> list[Drift]:
    """Return the range of each cost during a campaign; empty without measured costs."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, price_ns in prices_beside(run).items():
            found.setdefault(name, []).append(price_ns)
    return [
        Drift(name, len(prices), *(np.quantile(prices, (0.1, 0.9)) / np.median(prices)).tolist())
        for name, prices in found.items()
    ]


def scatter_of(runs: Iterable[RunRecord]) -> Scatter | None:
    """Return the scatter of repeats of closed loops, where the server limits the rate.

    None without reference runs around them.
    """
    usable = [
        run
        for run in runs
        if run.accepted and run.point.load.loop == "closed" and REFERENCE in (run.around or {})
    ]
    return scatter(
        [(run.result.replied / run.window_ns, prices_beside(run)[REFERENCE]) for run in own]
        for own in by_point(usable).values()
    )


def drift_table(found: Sequence[Drift], scattered: Scatter | None) -> Table:
    """Return the table of *found*; its note has the noise of repeats, raw and corrected."""
    columns: list[Column[Drift]] = [
        Column("around each run", lambda d: d.name, words=True),
        Column("runs", lambda d: d.n),
        Column("p10 over median", lambda d: d.low, "{:.2f}".format),
        Column("p90 over median", lambda d: d.high, "{:.2f}".format),
    ]
    note = (
        "Costs from short benchmarks, and of a reply at the reference point, during the campaign."
    )
    if scattered is not None:
        note += (
            f" Replies/s of repeats scatter by {share_text(scattered.raw)} (median over "
            f"{scattered.n_points} closed loops), and by {share_text(scattered.relative)} relative "
            "to the reference runs around them."
        )
    return Table.of("Drift of the machine", found, columns, note)
