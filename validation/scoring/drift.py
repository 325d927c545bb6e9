"""How a machine drifted during a campaign, and what is left of it relative to the neighbours.

    around ─► run ─► around       a reply took r ns at the reference point beside this run, and
                                  R ns in the median of the campaign: the machine was r / R as slow

    raw        replies a second of repeats scatter by what the machine did meanwhile, too
    relative   replies a second x r / R: as if it had always been as fast

If the relative figures scatter less, drift was most of the noise; if not, drift is faster than a
run lasts, or a neighbour's run is as noisy as the run itself.
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
    """How far the prices beside runs went, each over its median in the campaign.

    `low` and `high` are the tenth and the ninetieth percentile, over all runs.
    """

    name: str
    n: int
    low: float
    high: float


def drifts(runs: Iterable[RunRecord]) -> list[Drift]:
    """Return how far each price went during a campaign; none without prices."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for name, price_ns in prices_beside(run).items():
            found.setdefault(name, []).append(price_ns)
    return [
        Drift(name, len(prices), *(np.quantile(prices, (0.1, 0.9)) / np.median(prices)).tolist())
        for name, prices in found.items()
    ]


def scatter_of(runs: Iterable[RunRecord]) -> Scatter | None:
    """Return how repeats of closed loops, which are as fast as the server, scatter.

    None without reference runs beside them.
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
    """Return the table of *found*, and below it what is left of the noise of repeats."""
    columns: list[Column[Drift]] = [
        Column("beside each run", lambda d: d.name, words=True),
        Column("runs", lambda d: d.n),
        Column("p10 over median", lambda d: d.low, "{:.2f}".format),
        Column("p90 over median", lambda d: d.high, "{:.2f}".format),
    ]
    note = "Prices of short benches and of a reply at the reference point, during the campaign."
    if scattered is not None:
        note += (
            f" Replies/s of repeats scatter by {share_text(scattered.raw)} (median over "
            f"{scattered.n_points} closed loops), and by {share_text(scattered.relative)} relative "
            "to the reference runs beside them."
        )
    return Table.of("How the machine drifted", found, columns, note)
