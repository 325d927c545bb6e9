"""What a flood leaves to a process that computes: measured beside forecast, rate by rate.

    flood.jsonl ─┬─ calibration ─► prices (flood_costs.py) ─► timeline ─► forecast
                 └─ held out ───────────────────────────────► measured, median over rounds

    python -m dispatchsim.validation.interrupt_load FOLDER [--figure FILE.png]

Source of the experiment: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an
interrupt-driven kernel", sections 6 and 7.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..calibration.flood_costs import FloodPrices, fit_flood_prices
from ..calibration.flood_points import FloodPoint, flood_points
from ..calibration.flood_records import FLOOD_FILE, FloodRecord, read_floods
from ..calibration.measured_runs import DataError
from .flood_timeline import Forecast, flood_forecast

WITHIN = 0.10
"""What is wanted: progress within a tenth of what was measured, at every rate."""
FORECAST_NS = 200_000_000


@dataclass(frozen=True)
class FloodScore:
    """One held-out flood: progress measured in each round, and forecast.

    `sent_per_s` are packets a second that were in fact sent, in the median.
    """

    point: FloodPoint
    measured: tuple[float, ...]
    sent_per_s: float
    forecast: float

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.measured)

    @property
    def error(self) -> float:
        """The relative error of the forecast."""
        return self.forecast / self.median - 1

    @property
    def is_within(self) -> bool:
        """Tell whether the forecast is as near as is wanted."""
        return abs(self.error) <= WITHIN


def read_machine(folder: Path) -> list[FloodRecord]:
    """Return the floods measured in *folder*.

    Raises
    ------
    DataError
        If there are none.
    """
    rows = read_floods(folder / FLOOD_FILE).rows
    if not rows:
        raise DataError(f"{folder / FLOOD_FILE}: is missing or empty: `dispatchsim measure flood`")
    return rows


def score_floods(records: Sequence[FloodRecord]) -> list[FloodScore]:
    """Return measured and forecast progress of each held-out flood, in the order of a campaign."""
    prices = fit_flood_prices(records)
    held_out = [r for r in records if r.accepted and r.point.use == "heldout"]
    known = [point for point in flood_points() if any(r.point == point for r in held_out)]
    others = dict.fromkeys(r.point for r in held_out if r.point not in known)
    scores = []
    for point in [*known, *others]:
        rows = [r for r in held_out if r.point == point]
        scores.append(
            FloodScore(
                point=point,
                measured=tuple(r.victim.progress for r in rows),
                sent_per_s=statistics.median(
                    r.sender.sent / r.sender.elapsed_ns * 1e9 for r in rows
                ),
                forecast=forecast_of(point, prices).progress,
            )
        )
    return scores


def forecast_of(point: FloodPoint, prices: FloodPrices) -> Forecast:
    """Return the forecast of a flood; its first round stands for all."""
    return flood_forecast(
        point.due_ns(0, FORECAST_NS).tolist(),
        prices,
        segments=point.segments,
        nice=point.nice,
    )


def table(scores: Sequence[FloodScore]) -> list[str]:
    """Return the lines of a table, and how many floods are within what is wanted."""
    lines = [
        f"{'flood':<44} {'sent/s':>8} {'measured':>9} {'(low, high)':>16} "
        f"{'forecast':>9} {'error':>7}"
    ]
    for score in scores:
        low, high = min(score.measured), max(score.measured)
        verdict = "" if score.is_within else "  more than 10%"
        lines.append(
            f"{score.point.label:<44} {score.sent_per_s:>8,.0f} {score.median:>9.3f} "
            f"({low:>6.3f}, {high:>6.3f}) {score.forecast:>9.3f} {score.error:>+7.1%}{verdict}"
        )
    n_within = sum(score.is_within for score in scores)
    errors = [abs(score.error) for score in scores]
    lines.append(
        f"{n_within} of {len(scores)} within {WITHIN:.0%}; median {np.median(errors):.1%}, "
        f"worst {max(errors):.1%}"
    )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of a machine's folder."""
    parser = argparse.ArgumentParser(description="progress under floods, measured and forecast")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        records = read_machine(options.folder)
        scores = score_floods(records)
    except DataError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(table(scores)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
