"""CPU left to a computing process beside a flood, measured and forecast, rate by rate.

    flood.jsonl ─┬─ calibration ─► costs (packets.py) ────┐
                 │                              profile ──┴─► engine ─► forecast
                 └─ held out ───────────────────────────────► measured, median over rounds

    dispatchsim lab interrupt-load FOLDER --profile PROFILE [--plot FILE.png]

Source of the experiment: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an
interrupt-driven kernel", sections 6 and 7.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...calibration.fit.packets import FloodPrices, fit_flood_prices
from ...calibration.points.flood_points import ALL_IT_CAN_PER_S, HIGH, FloodPoint, flood_points
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.flood_records import FLOOD_FILE, FloodRecord
from ...calibration.records.measured_runs import DataError, read_rows
from ...sim.files.tables import Column, Table
from ..drawing.looks import nth_look
from .flood_simulated import simulated_progress

WITHIN = 0.10
"""The target: progress within a tenth of the measurement at every rate."""
FORECAST_NS = 200_000_000


@dataclass(frozen=True)
class FloodScore:
    """One held-out flood: progress measured in each round, and forecast.

    `sent_per_s` is the median of the packets per second that were sent.
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
        """Whether the forecast meets the target."""
        return abs(self.error) <= WITHIN


def read_machine(folder: Path) -> list[FloodRecord]:
    """Return the floods measured in *folder*.

    Raises
    ------
    DataError
        If there are no floods.
    """
    rows = read_rows(folder / FLOOD_FILE, FloodRecord).rows
    if not rows:
        raise DataError(
            f"{folder / FLOOD_FILE}: must hold runs beside floods of packets, got none: "
            f"`dispatchsim measure flood --output {folder}` writes them"
        )
    return rows


def score_floods(records: Sequence[FloodRecord], profile: Profile) -> list[FloodScore]:
    """Return measured and forecast progress of each held-out flood, in the order of a campaign.

    Costs of packets come from the calibration among *records*, all others from *profile*.
    """
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
                forecast=_forecast(point, prices, profile),
            )
        )
    return scores


def _forecast(point: FloodPoint, prices: FloodPrices, profile: Profile) -> float:
    """Return the simulated progress of the process, the mean over the costs of each run."""
    due_ns = point.due_ns(0, FORECAST_NS).tolist()  # all rounds have the arrivals of the first
    return statistics.mean(
        simulated_progress(due_ns, run_prices, point, profile)
        for run_prices in prices.of_each_run()
    )


def table(scores: Sequence[FloodScore]) -> Table:
    """Return the table of all floods; its note has the number that meet the target."""
    columns: list[Column[FloodScore]] = [
        Column("flood", lambda s: s.point.label, words=True),
        Column("packets sent/s", lambda s: f"{s.sent_per_s:,.0f}"),
        Column("measured", lambda s: f"{s.median:.3f}"),
        Column("(lowest, highest)", lambda s: f"({min(s.measured):.3f}, {max(s.measured):.3f})"),
        Column("forecast", lambda s: f"{s.forecast:.3f}"),
        Column("error", lambda s: f"{s.error:+.1%}"),
    ]
    sizes = np.abs([score.error for score in scores])
    note = (
        f"forecast: {int((sizes <= WITHIN).sum())} of {len(scores)} within {WITHIN:.0%}; "
        f"median {np.median(sizes):.1%}, worst {sizes.max():.1%}"
    )
    return Table.of("Floods", scores, columns, note)


FIGURE_CAPTION = (
    "Floods of datagrams: share of the CPU left to a computing process, against packets sent. "
    "Points: median of the rounds, with bars from the lowest to the highest. Lines: forecast from "
    "the costs of single packets. Right: packets of several datagrams at the highest rate that can "
    "be sent, which is more than can be handled."
)


def flood_figure(scores: Sequence[FloodScore]) -> Figure:
    """Return progress against rate, measured and forecast, and overload by datagrams."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    by_rate, overload = figure.subplots(1, 2, width_ratios=(2, 1), sharey=True)
    single = [s for s in scores if s.point.segments == 1 and s.point.train == 1]
    for number, law in enumerate(("constant", "poisson")):
        chosen = [s for s in single if s.point.law == law and s.point.nice == HIGH]
        chosen.sort(key=lambda s: s.sent_per_s)
        _draw(by_rate, number, law, [s.sent_per_s for s in chosen], chosen)
    by_rate.set(xscale="log", xlabel="packets sent per second", ylabel="progress (share)")
    full = [s for s in scores if s.point.rate_per_s == ALL_IT_CAN_PER_S and s.point.segments > 1]
    for number, nice in enumerate((HIGH, 0), start=2):
        chosen = sorted((s for s in full if s.point.nice == nice), key=lambda s: s.point.segments)
        _draw(overload, number, f"nice {nice}", [s.point.segments for s in chosen], chosen)
    overload.set(xlabel="datagrams per packet", ylim=(0, 1.05))
    for axes in (by_rate, overload):
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def _draw(
    axes: Axes, number: int, label: str, at: Sequence[float], scores: Sequence[FloodScore]
) -> None:
    look = nth_look(number)
    middle = np.array([s.median for s in scores])
    low = middle - [min(s.measured) for s in scores]
    high = np.array([max(s.measured) for s in scores]) - middle
    axes.errorbar(
        at, middle, yerr=(low, high), fmt=look.marker, color=look.colour, label=f"{label}, measured"
    )
    axes.plot(
        at,
        [s.forecast for s in scores],
        color=look.colour,
        ls=look.dashes,
        label=f"{label}, forecast",
    )
