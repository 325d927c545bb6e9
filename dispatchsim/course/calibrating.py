"""Lesson 10: the costs of a machine, and forecasts of runs that no fit has used.

    microbenchmarks ──► costs of calls, packets, scans ─┐
    one fit point   ──► the rest of a request's time   ─┴─► profile ──► held-out runs: forecast,
                                                                        measured, and a formula

The raw results are those of one machine, shipped with the project; the commands at the end of the
lesson measure another one.

Sources: calibration/README.md; Banga and Mogul 1998, §2 (the formula of one wait per request).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import calibration
from ..calibration.fit.fit import fit_profile
from ..calibration.points.point import Point, point_at
from ..calibration.profiles.cost_profile import Profile
from ..calibration.records.measured_runs import MicroResult, RunRecord, read_rows
from ..calibration.running.preparation import job_of, run_job
from ..sim.state.units import MILLISECOND_NS
from ..validation.forecast.baselines import BASELINES, baselines
from ..validation.forecast.forecast import Lengths
from ..validation.points.measured_points import MeasuredPoint, group, held_out_runs
from .drawing import Picture, lines_figure
from .exercises import HiddenAnswer, answer

if TYPE_CHECKING:
    import pandas as pd

MACHINE = "epyc-family26-2cpu-linux-6.18"
SHOWN = ("call.accept_ns", "call.read_ns", "call.write_ns", "call.close_ns",
         "interrupt.entry_ns", "interrupt.wake_ns", "epoll_level.call_ns")  # fmt: skip
_LENGTHS = Lengths(warm_up_ns=50 * MILLISECOND_NS, window_ns=150 * MILLISECOND_NS)
_USERS = 64
ONE_WAIT = BASELINES[0]


@dataclass(frozen=True, eq=False)
class Judgement:
    """Forecasts beside measurements at points that no fit has used.

    Attributes
    ----------
    frame:
        One row per point: replies per second, measured, forecast and by a formula, and the errors
        of both in percent.
    """

    frame: pd.DataFrame

    @property
    def worst_percent(self) -> float:
        """The largest error of a forecast."""
        return float(self.frame["error_percent"].abs().max())

    @property
    def formula_worst_percent(self) -> float:
        """The largest error of the formula."""
        return float(self.frame["formula_error_percent"].abs().max())

    def picture(self, mechanism: str) -> Picture:
        """Return the picture of one mechanism: capacity by idle connections."""
        own = self.frame[self.frame["mechanism"] == mechanism]
        idle = own["idle"].astype(float).tolist()
        named = {"measured": "measured", "forecast": "forecast", f"formula: {ONE_WAIT}": "formula"}
        lines = {name: (idle, own[f"{of}_per_s"].tolist()) for name, of in named.items()}
        title = f"{mechanism}, {_USERS} users"
        drawing = lines_figure(
            title, "idle connections", "replies per second", lines,
            ticks={at: f"{at:,g}" for at in idle if at != 250}, without_line=["measured"],
        )  # fmt: skip
        return Picture(drawing, f"{title}: the forecast is close to the measurement at each point")

    def _repr_html_(self) -> str:
        names = self.frame["mechanism"].unique()
        pictures = "".join(self.picture(name)._repr_html_() for name in names)
        table = self.frame.to_html(index=False, border=0, float_format="{:,.0f}".format)
        return f"{pictures}<details><summary>The numbers</summary>{table}</details>"


def raw_folder(machine: str = MACHINE) -> Path:
    """Return the folder of the raw results of a machine."""
    (home,) = calibration.__path__
    return Path(home) / "measured" / machine


@cache
def fitted(*, replicates: int = 20) -> Profile:
    """Return the profile of `MACHINE`, fitted from its raw results.

    Parameters
    ----------
    replicates:
        Number of resampled rounds for the intervals.
    """
    folder = raw_folder()
    return fit_profile(
        json.loads((folder / "machine.json").read_text(encoding="utf-8")),
        read_rows(folder / "micro.jsonl", MicroResult).rows,
        read_rows(folder / "fit.jsonl", RunRecord).rows,
        replicates=replicates,
        simulated_ns=200 * MILLISECOND_NS,
    )


def prices(profile: Profile, keys: Sequence[str] = SHOWN) -> pd.DataFrame:
    """Return some costs of *profile* with their intervals, in ns, and their sources."""
    import pandas as pd

    rows = {}
    for key in (*keys, "application.request_ns"):
        table, name = key.split(".")
        cost = profile.cost[table][name]
        rows[key] = (cost.value[0], cost.low[0], cost.high[0], cost.source)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["ns", "low", "high", "source"])
    return frame.rename_axis("cost")


def judged(profile: Profile, mechanisms: Sequence[str] = ("poll", "epoll_level")) -> Judgement:
    """Return forecasts of closed loops that no fit has used, beside the measurements.

    Parameters
    ----------
    profile:
        The costs.
    mechanisms:
        Mechanisms of the servers.
    """
    import pandas as pd

    points = [
        entry
        for entry in _measured()
        if entry.measured and entry.point.server.mechanism in mechanisms and _is_plain(entry.point)
    ]
    points.sort(
        key=lambda entry: (
            mechanisms.index(entry.point.server.mechanism),
            entry.point.idle.connections,
        )
    )
    frame = pd.DataFrame([_held_out(entry, profile) for entry in points])
    for error, of in (("error_percent", "forecast"), ("formula_error_percent", "formula")):
        frame[error] = 100 * (frame[f"{of}_per_s"] / frame["measured_per_s"] - 1)
    return Judgement(frame)


def with_changed_cost(profile: Profile, key: str, factor: float) -> Profile:
    """Return *profile* with one cost multiplied by *factor*."""
    table, name = key.split(".")
    cost = profile.cost[table][name]
    changed = cost.model_copy(update={"value": tuple(factor * ns for ns in cost.value)})
    tables = {**profile.cost, table: {**profile.cost[table], name: changed}}
    return profile.model_copy(update={"cost": tables})


def answer_for_wrong_price() -> HiddenAnswer:
    """Return the answer to "Which points show that the cost of a scan is wrong by half?"."""
    wrong = with_changed_cost(fitted(), "poll.scan", 0.5)
    of = judged(wrong, ("poll",))
    errors = of.frame.set_index("idle")["error_percent"]
    return answer(
        "With 6,000 idle connections the forecast is {many}% too high, without any it is {none}% "
        "off. An error that grows with the number of uses of a cost points to that cost: this is "
        "the way to find a wrong cost.",
        shows=of,
        many=errors[6_000],
        none=errors[0],
    )


def answer_for_unpriced() -> HiddenAnswer:
    """Return the answer to "How much of a request has no measured cost of its own?"."""
    cost = fitted().cost["application"]["request_ns"]
    return answer(
        "application.request_ns is {value} ns, between {low} and {high}: the time at the fit point "
        "that no microbenchmark explains. It is one number from one point; all other costs in the "
        "forecasts were measured separately.",
        value=cost.value[0],
        low=cost.low[0],
        high=cost.high[0],
    )


def _measured() -> list[MeasuredPoint]:
    return group(held_out_runs(raw_folder()))


def _is_plain(point: Point) -> bool:
    return point == point_at(
        mechanism=point.server.mechanism, idle=point.idle.connections, loop="closed", users=_USERS
    )


def _held_out(entry: MeasuredPoint, profile: Profile) -> dict[str, Any]:
    point = entry.point
    asked = point.lasting(*_LENGTHS)
    job = job_of(asked, profile, 1)
    summary = run_job(job).summary
    said = baselines(point, job.costs, job.network_delay_ns, None)[ONE_WAIT].throughput_per_s
    return {
        "mechanism": point.server.mechanism,
        "idle": point.idle.connections,
        "measured_per_s": entry.median.throughput_per_s,
        "forecast_per_s": summary.throughput_per_s,
        "formula_per_s": np.nan if said is None else said,
    }
