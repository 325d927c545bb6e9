"""The planner's question: up to which load, or how many idle connections, a service keeps its word.

    load   ├──── objective kept ────┤ low ··· high ├──── broken ────┤
            1. longer and longer steps until both are known   2. bisect, all at one seed

Each replication is a search of its own, with its own seed and its own draw of the costs. At one
seed arrivals at two rates are the same arrivals, nearer together, so p99 hardly ever falls when
the rate rises and bisection is safe. The answer is where a further search would end with 95%:
arrivals and calibration are both in it.

Source: Hahn and Meeker 1991, §4.7 (prediction interval; of logarithms, as loads are ratios).
"""

from __future__ import annotations

import dataclasses
import html
import math
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..calibration.profiles.cost import CostSource
from ..calibration.running.compiling import Side, compile_engines
from ..calibration.running.preparation import job_of, profile_of, run_job, warnings_of, with_engine
from ..models.simulate import Engine
from ..scenario.errors import ScenarioError, UserError
from ..scenario.metrics import metrics_of
from ..scenario.quantities import DURATION
from ..scenario.scenario import Scenario, check_scenario
from ..sim.figures.summary import OVERLOADED_SHARE, Verdict
from ..sim.files.parallel import run_all
from ..sim.output_analysis.interval import prediction_interval
from .axis import RATE_FIELD, Axis, axis_of
from .objective import Objective, read_objective
from .rows import Found, Search, Tried

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PRECISION = 0.02
"""Relative width at which a search ends."""
RUNS_MAX = 24
FALLS_BEHIND = "the server falls behind"
"""Why a load breaks an objective of which every clause is kept."""
_SEARCHES_MIN = 5
"""For an interval with 95%: Student's t of fewer is wider than anybody can use."""


class SearchTask(NamedTuple):
    """What one search needs, in whatever process."""

    scenario: Scenario
    profile: CostSource
    objective: Objective
    axis: Axis
    seed: int
    draw: int | None
    begin: float
    growth: float
    precision: float
    seconds_max: float


@dataclass(frozen=True, repr=False)
class Capacity:
    """The answer: the objective is first broken between `low` and `high`.

    From five searches on that is with 95%: where a further one would end. The first search is at
    central costs, the others each at a draw of what the calibration leaves open. Where a search
    ended at a limit, the range is open on that side (0 or infinity).
    """

    scenario: Scenario
    profile: str
    objective: Objective
    axis: Axis
    searches: tuple[Search, ...]
    warnings: tuple[str, ...]

    @property
    def range(self) -> tuple[float, float]:
        """Where a further search would end with 95%; of few searches, where those ended."""
        low = min(s.low for s in self.searches)
        high = max(s.high for s in self.searches)
        # The first one is at central costs, and so none of them.
        middles = [math.log(s.middle) for s in self.searches[1:] if s.middle > 0]
        are_all = all(s.found is Found.BETWEEN for s in self.searches)
        if not are_all or len(middles) < _SEARCHES_MIN - 1:
            return low, high
        first, last = prediction_interval(middles)
        return min(low, math.exp(first)), max(high, math.exp(last))

    @property
    def low(self) -> float:
        """The load up to which the objective is kept in all likelihood."""
        return self.range[0]

    @property
    def high(self) -> float:
        """The load from which on it is broken in all likelihood."""
        return self.range[1]

    @property
    def sentence(self) -> str:
        """The answer in words."""
        kinds = {s.found for s in self.searches}
        says = str(self.objective)
        low, high = self.range
        if kinds == {Found.NEVER_BROKEN}:
            most = self.axis.value(low)
            return f"{says}: is kept up to {self.axis.field} = {most}, the most there can be"
        if kinds == {Found.ALWAYS_BROKEN}:
            return (
                f"{says}: is never kept, from {self.axis.text(high)} on, the lowest tried"
                f"{self._why_broken}"
            )
        if low == 0 and math.isinf(high):
            text = f"{says}: nothing is known of where it breaks"
        elif low == 0:
            text = f"{says}: breaks below {self.axis.text(high)}"
        elif math.isinf(high):
            text = f"{says}: breaks above {self.axis.text(low)}"
        else:
            text = f"{says}: breaks between {self.axis.text(low)} and {self.axis.text(high)}"
        if Found.OUT_OF_BUDGET in kinds:
            text += " (the search ended early: there was no more time)"
        elif len(self.searches) < _SEARCHES_MIN:
            text += f" (where {len(self.searches)} searches ended; an interval takes five)"
        return text

    @property
    def _why_broken(self) -> str:
        broken = {t.broken for s in self.searches for t in s.tried.values() if t.broken}
        clauses = ", ".join(sorted(broken - {FALLS_BEHIND}))
        parts = [f"{clauses} broken"] if clauses and len(self.objective.clauses) > 1 else []
        parts += [FALLS_BEHIND] if FALLS_BEHIND in broken else []
        hint = f" ({'; '.join(parts)})" if parts else ""
        return (
            hint + " (who fails or is still open counts as late: `dispatchsim run` says how many)"
        )

    @property
    def frame(self) -> pd.DataFrame:
        """Every load that was tried: one row each."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "seed": s.seed,
                    "cost_draw": s.draw,
                    self.axis.field: x,
                    **tried.figures,
                    "is_kept": tried.broken is None,
                }
                for s in self.searches
                for x, tried in sorted(s.tried.items())
            ]
        ).convert_dtypes()

    def plot(self) -> Figure:
        """Return the picture: what was tried, the bound, and the answer shaded."""
        from .pictures import capacity_figure

        return capacity_figure(
            self.searches,
            self.axis,
            self.objective,
            self.range,
            mechanism=self.scenario.server.mechanism,
            warnings=self.warnings,
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.sentence)}</p>{self.frame.to_html(max_rows=30)}"

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<Capacity: {self.sentence}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        low, high = self.range
        return {
            "format": "dispatchsim-capacity/2",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "objective": str(self.objective),
            "of": self.axis.field,
            "answer": self.sentence,
            "low": low,
            "high": high,
            "warnings": list(self.warnings),
            "searches": [
                {
                    "seed": s.seed,
                    "cost_draw": s.draw,
                    "found": str(s.found),
                    "low": s.low,
                    "high": s.high,
                    "tried": [
                        {"at": x, **tried.figures, "broken": tried.broken}
                        for x, tried in sorted(s.tried.items())
                    ],
                }
                for s in self.searches
            ],
        }


def capacity(
    scenario: Scenario,
    objective: Objective | str,
    *,
    of: str = RATE_FIELD,
    profile: CostSource | None = None,
    replications: int = 6,
    precision: float = PRECISION,
    seconds_max: float = 300.0,
    engine: Engine | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Capacity:
    """Return between which loads *scenario* first breaks *objective*.

    Parameters
    ----------
    scenario:
        Its own value of the field is where the search begins.
    objective:
        Such as "p99 < 50 ms and errors < 0.1%".
    of:
        The field that grows: load.rate, idle.connections, or another that is a number.
    profile:
        What things cost; None: what the scenario names.
    replications:
        Searches; the first at central costs, the others each at a draw of the costs.
    precision:
        Relative width at which a search ends.
    seconds_max:
        Wall time of each search, after which it says how far it came.
    engine, executor, progress:
        As for `running.run`.

    Raises
    ------
    ScenarioError, ProfileError
        If the scenario has no rate or cannot be run.
    UserError
        If the objective or the field cannot be read.
    """
    check_scenario(scenario)
    scenario = with_engine(scenario, engine)
    wanted = read_objective(objective) if isinstance(objective, str) else objective
    axis = axis_of(scenario, of)
    if replications < 1:
        raise UserError(f"replications must be at least 1, got {replications}")
    if not 0 < precision < 1:
        raise UserError(f"precision must be between 0 and 1, got {precision}")
    _check_window(scenario, wanted)
    for clause in wanted.clauses:
        if clause.sign == ">":
            raise UserError(
                f"objective: must be of upper bounds, which more load breaks, got {clause}"
            )
    profile = profile or profile_of(scenario)
    if executor is not None:
        side, asked = Side.of(scenario), scenario.run.engine
        compile_engines([scenario.server.mechanism], profile, side=side, engine=asked)
    first = SearchTask(
        scenario=scenario,
        profile=profile,
        objective=wanted,
        axis=axis,
        seed=scenario.run.seed,
        draw=None,
        begin=axis.begin,
        growth=2.0,
        precision=precision,
        seconds_max=seconds_max,
    )
    found = {0: next(iter(run_all(search, [first], executor)))[1]}
    # The others begin where the first one ended, with small steps: four runs instead of twelve.
    begin = found[0].low or found[0].high
    others = [
        first._replace(seed=first.seed + i, draw=i - 1, begin=begin, growth=1.05)
        for i in range(1, replications)
    ]
    if progress:
        progress(1, replications)
    for index, ended in run_all(search, others, executor):
        found[index + 1] = ended
        if progress:
            progress(len(found), replications)
    searches = tuple(found[i] for i in range(replications))
    answer = Capacity(scenario, profile.name, wanted, axis, searches, ())
    furthest = min(answer.high, max(x for s in searches for x in s.tried))
    warnings = warnings_of(axis.at(scenario, furthest), profile)
    return dataclasses.replace(answer, warnings=tuple(warnings))


def _check_window(scenario: Scenario, objective: Objective) -> None:
    bound_ns = objective.bound_of("p99")
    window_ns = scenario.run.duration - scenario.run.warm_up
    if bound_ns is not None and window_ns < 10 * bound_ns:
        raise ScenarioError(
            "run.duration: must leave a window of at least ten times the bound on p99 "
            f"({DURATION.format(10 * bound_ns)}) after the warm-up, "
            f"got {DURATION.format(window_ns)}"
        )


def search(task: SearchTask) -> Search:
    """Return between which loads one replication first breaks its objective."""
    until_s = time.monotonic() + task.seconds_max
    axis, tried = task.axis, dict[float, Tried]()
    low, high, growth = 0.0, math.inf, task.growth
    x = min(max(task.begin, axis.floor), axis.ceiling)
    while True:
        tried[x] = try_at(task, x)
        if tried[x].broken is None:
            low = x
        else:
            high = x
        found = None
        if low >= axis.ceiling:
            found = Found.NEVER_BROKEN
        elif high <= axis.floor:
            found = Found.ALWAYS_BROKEN
        elif (
            not math.isinf(high) and (low > 0 or axis.floor in tried) and _are_near(task, low, high)
        ):
            found = Found.BETWEEN
        elif time.monotonic() > until_s or len(tried) >= RUNS_MAX:
            found = Found.OUT_OF_BUDGET
        if found:
            return Search(task.seed, task.draw, found, low, high, tried)
        if math.isinf(high):
            x, growth = axis.above(low, growth), min(growth**2, 2.0)
        elif low == 0 and axis.floor not in tried:
            x, growth = axis.below(high, growth), min(growth**2, 2.0)
        else:
            x = axis.between(low, high)
            if x in tried:  # as near as numbers can be written
                return Search(task.seed, task.draw, Found.BETWEEN, low, high, tried)


def _are_near(task: SearchTask, low: float, high: float) -> bool:
    return high - low <= max(task.precision * high, 1.0 if task.axis.is_whole else 0.0)


def _falls_behind(verdict: Verdict, errors: float) -> bool:
    """Return whether more comes than is served though few have failed yet.

    A bound on errors alone is kept then in a run that is shorter than the patience of its clients.
    """
    return verdict is Verdict.OVERLOADED and errors <= OVERLOADED_SHARE


def try_at(task: SearchTask, x: float) -> Tried:
    """Return what the task's objective says of its scenario at another load."""
    job = job_of(task.axis.at(task.scenario, x), task.profile, task.seed, draw=task.draw)
    summary = run_job(job).summary
    figures = metrics_of(summary)
    clause = task.objective.broken_by(figures)
    broken = str(clause) if clause else None
    if broken is None and _falls_behind(summary.verdict, figures["failed_share"]):
        broken = FALLS_BEHIND
    names = {clause.figure for clause in task.objective.clauses}
    return Tried({name: figures[name] for name in sorted(names)}, broken)
