"""Mechanisms (or other settings) against each other: under one scenario, or over a grid.

    one scenario ─► each mechanism ─┐                                compare, run
                                    ├─► the same arrivals ─► paired ─► differences from a baseline
    grid of the others ─► each ─────┘                     ─► paired ─► which may be the best

Compared mechanisms get the same arrivals and the same cost samples (common random numbers), so
differences are paired. At each point of a grid contenders are compared with a corrected error rate
(sim/output_analysis/comparison.py): with 95% confidence all statements about that point are right.
Pairs have equal seeds; only seeds that all contenders have are used.

Source: Law 2015, "Simulation Modeling and Analysis", §10.2 (paired t).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..calibration.profiles.cost import CostSource
from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.preparation import (
    Replication,
    check_mechanisms,
    comparable,
    job_of,
    profile_of,
    rule_of,
    run_job,
    trace_of,
    with_engine,
)
from ..models.catalogue import named
from ..models.simulate import Engine
from ..scenario.errors import ScenarioError, UserError
from ..scenario.metrics import ASKED_AS, LEVEL_METRIC, MAIN, METRICS, check_metric
from ..scenario.scenario import Scenario, check_scenario
from ..sim.engine.reference import Extension
from ..sim.figures.summary import Summary
from ..sim.output_analysis.comparison import rank
from ..store.records import runs_of
from ..store.work import Progress, simulate_each
from .factors import MECHANISM, Factor, Levels, Value, read_factors, words_of
from .objective import Aim
from .result import Result, result_of
from .rows import Estimate, Swept, estimate
from .sweep import Sweep, sweep

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

_LARGEST = ("throughput_per_s",)
Keep = Callable[[str, Replication], None]
"""Takes the mechanism of a run that has ended, and its results."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Mechanisms under one scenario; `differences` are paired, each less the baseline's."""

    baseline: str
    results: dict[str, Result]
    differences: dict[str, dict[str, Estimate]]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all results, each once."""
        return tuple(dict.fromkeys(w for each in self.results.values() for w in each.warnings))

    @property
    def frame(self) -> pd.DataFrame:
        """One row per mechanism and metric: mean, intervals, difference from the baseline."""
        import pandas as pd

        rows = []
        for name, result in self.results.items():
            for figure, known in result.estimates.items():
                row = {"mechanism": name, "figure": figure, **known.__dict__}
                if name in self.differences:
                    difference = self.differences[name][figure]
                    row["difference"] = difference.mean
                    row["difference_half_width"] = difference.half_width
                rows.append(row)
        return pd.DataFrame(rows).set_index(["mechanism", "figure"])

    def plot(self, figure: str = "p99_ns") -> Figure:
        """Return the picture: the metric *figure* of each mechanism, with its interval."""
        from .pictures import comparison_figure

        values = {name: result.estimates[figure] for name, result in self.results.items()}
        return comparison_figure(values, figure, warnings=self.warnings)

    def _repr_html_(self) -> str:
        return self.frame["mean"].unstack("figure").to_html()

    def __repr__(self) -> str:
        """Return what it is in short: all of its runs would fill a screen."""
        return f"<Comparison of {len(self.results)} mechanisms: .frame, .plot()>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-comparison/2",
            "baseline": self.baseline,
            "results": {name: result.to_dict() for name, result in self.results.items()},
            "differences": {
                name: {figure: difference.to_dict() for figure, difference in figures.items()}
                for name, figures in self.differences.items()
            },
        }


@dataclass(frozen=True)
class Round:
    """One point of the grid: its contenders, by value, and those that may be the best."""

    levels: Levels
    contenders: dict[Value, Swept]
    perhaps_best: tuple[Value, ...]

    @property
    def words(self) -> str:
        """Its levels in words."""
        return words_of(self.levels)


@dataclass(frozen=True, repr=False)
class Contest:
    """All rounds, and the sweep behind them."""

    field: str
    figure: str
    sweep: Sweep
    rounds: tuple[Round, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the sweep."""
        return self.sweep.warnings

    @property
    def frame(self) -> pd.DataFrame:
        """One row per contender and point, with whether it may be the best there."""
        best = {
            id(swept): value in each.perhaps_best
            for each in self.rounds
            for value, swept in each.contenders.items()
        }
        frame = self.sweep.frame
        frame.insert(
            len(self.sweep.points[0].levels),
            "may_be_best",
            [best[id(point)] for point in self.sweep.points],
        )
        return frame

    def plot(self) -> Figure:
        """Return the picture: a line for each contender."""
        return self.sweep.plot(self.figure)

    def _repr_html_(self) -> str:
        return self.frame.to_html(max_rows=60, max_cols=12)

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<Contest at {len(self.rounds)} points: .frame, .plot()>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            **self.sweep.to_dict(),
            "format": "dispatchsim-contest/2",
            "field": self.field,
            "figure": self.figure,
            "rounds": [
                {"levels": each.levels, "may_be_best": list(each.perhaps_best)}
                for each in self.rounds
            ],
        }


def run(
    scenario: Scenario,
    *,
    profile: CostSource | None = None,
    draws: int = 0,
    engine: Engine | None = None,
    extend: Extension | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
    keep: Keep | None = None,
) -> Result:
    """Return the result of simulating *scenario*.

    Parameters
    ----------
    scenario:
        It is run under each of its seeds.
    profile:
        The costs; None: the profile that the scenario names.
    draws:
        Further runs, each at a cost sample; 0: no interval of uncertain costs.
    engine:
        "fast", "reference" or "auto"; None: the scenario's. The results are the same.
    extend:
        Called with (env, world) before each run: a place to start SimPy processes, with time in ns.
        Only the reference engine has an environment; runs are then made here, one after the other.
        A closed loop that runs out of generated connections restarts, and calls it again.
    executor, progress:
        As for `store.work.simulate_all`.
    keep:
        Called with (mechanism, replication) as runs end.

    Raises
    ------
    ScenarioError, ProfileError, TraceError
        If the scenario cannot be run.
    UserError
        If *extend* is given with another engine, an executor or a progress.
    """
    check_scenario(scenario)
    if extend is not None:
        for name, given in (("executor", executor), ("progress", progress)):
            if given is not None:
                raise UserError(f"{name}: must be absent with extend, which runs in this process")
        profile = profile or profile_of(scenario)
        return _extended(scenario, profile, extend, draws=draws, engine=engine, keep=keep)
    name = scenario.server.mechanism
    comparison = compare(
        scenario,
        [name],
        profile=profile,
        draws=draws,
        engine=engine,
        executor=executor,
        progress=progress,
        keep=keep,
    )
    return comparison.results[name]


def _extended(
    scenario: Scenario,
    profile: CostSource,
    extend: Extension,
    *,
    draws: int,
    engine: Engine | None,
    keep: Keep | None,
) -> Result:
    """Return the result of the reference engine for *scenario* beside processes of the caller."""
    for key, asked in (("engine", engine), ("run.engine", None if engine else scenario.run.engine)):
        if asked == "fast":
            raise UserError(
                f'{key}: must be "reference" or "auto" with extend, got "fast": only the reference '
                "engine runs on SimPy"
            )
    scenario = with_engine(scenario, "reference")
    replications = []
    for each in runs_of(scenario, profile, len(scenario.seeds), draws):
        job = job_of(scenario, profile, each.seed, draw=each.draw)
        replications.append(run_job(job, extend=extend))
        if keep:
            keep(scenario.server.mechanism, replications[-1])
    return result_of(scenario, profile, replications, draws)


def compare(
    scenario: Scenario,
    mechanisms: Sequence[str] | None = None,
    *,
    profile: CostSource | None = None,
    draws: int = 0,
    engine: Engine | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
    keep: Keep | None = None,
) -> Comparison:
    """Return the results of *scenario* under each of *mechanisms*, and their differences.

    The first one is the baseline of the differences. By default they are all mechanisms that can
    serve the scenario and that the profile has costs for, the scenario's own first. The other
    parameters are those of `run`.
    """
    check_scenario(scenario)
    if draws < 0:
        raise UserError(f"cost samples: must be at least 0, got {draws}")
    profile = profile or profile_of(scenario)
    if mechanisms is None:
        mechanisms, _ = comparable(scenario, profile)
    scenario = with_engine(scenario, engine)
    variants = variants_of(scenario, mechanisms)
    runs = []
    for variant in variants.values():
        seeds = variant.seeds
        job_of(variant, profile, seeds[0])  # missing costs are reported before the first run
        runs += runs_of(variant, profile, len(seeds), draws)
    done: dict[int, Replication] = {}

    def kept(indices: Sequence[int], replications: Sequence[Replication]) -> None:
        for index, replication in zip(indices, replications, strict=True):
            done[index] = replication
            if keep:
                keep(runs[index].scenario.server.mechanism, replication)

    simulate_each(runs, kept, executor=executor, progress=progress, one_by_one=True)
    n_each = len(runs) // len(variants)
    results = {
        name: result_of(
            variant, profile, [done[index] for index in range(i * n_each, (i + 1) * n_each)], draws
        )
        for i, (name, variant) in enumerate(variants.items())
    }
    baseline = next(iter(variants))
    differences = {
        name: _differences(result, results[baseline])
        for name, result in results.items()
        if name != baseline
    }
    return Comparison(baseline, results, differences)


def variants_of(scenario: Scenario, mechanisms: Sequence[str]) -> dict[str, Scenario]:
    """Return *scenario* with each of *mechanisms*, by name, checked.

    Raises
    ------
    UserError
        If a mechanism is unknown, named twice or cannot serve the scenario.
    ScenarioError, TraceError, OSError
        If the scenario's trace file cannot be used.
    """
    names = check_mechanisms(mechanisms)
    if scenario.load.trace is not None:
        trace_of(scenario, scenario.run.seed, rows=1)
    found = {}
    for name in names:
        try:
            found[name] = scenario.with_values(server={"mechanism": name})
        except ScenarioError as error:
            raise UserError(f"{name} cannot serve this scenario: {rule_of(error)}") from None
    return found


def contest(
    scenario: Scenario,
    contenders: Sequence[Value],
    vary: Sequence[Factor | str],
    *,
    field: str = MECHANISM,
    figure: str = LEVEL_METRIC,
    within: float | None = None,
    profile: Profile | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Contest:
    """Return which contender is best at each point.

    Parameters
    ----------
    contenders:
        Values of *field*: mechanisms, by default.
    vary:
        The grid at whose points they are compared.
    figure:
        A metric of a run: smaller is better, except for throughput_per_s.
    within, profile, store, executor, progress:
        As for `sweep.sweep`.

    Raises
    ------
    UserError, ScenarioError
        If there are fewer than two contenders, or as `sweep.sweep`.
    """
    check_metric(figure)
    known = {metric.name for metric in ASKED_AS.values()}
    if not METRICS[figure].short:
        raise UserError(
            f"metric: must be one with a better direction ({', '.join(sorted(known))}), "
            f"got {figure}"
        )
    if field == MECHANISM:
        contenders = [named(str(each)) for each in contenders]
    if len(set(contenders)) < 2:
        raise UserError(
            f"{field}: must be at least two, to be compared, got {len(set(contenders))}"
        )
    swept = sweep(
        scenario,
        [*read_factors(vary), Factor(field, tuple(contenders))],
        within=within,
        figure=figure,
        profile=profile,
        store=store,
        executor=executor,
        progress=progress,
    )
    groups: dict[str, list[Swept]] = {}
    for point in swept.points:
        rest = {f: v for f, v in point.levels.items() if f != field}
        groups.setdefault(repr(rest), []).append(point)
    rounds = tuple(_round(members, field, figure) for members in groups.values())
    return Contest(field, figure, swept, rounds)


def _round(members: Sequence[Swept], field: str, figure: str) -> Round:
    contenders = {member.levels[field]: member for member in members}
    levels = {f: v for f, v in members[0].levels.items() if f != field}
    aim = Aim.of(METRICS[figure], largest=figure in _LARGEST, scenario=members[0].scenario)
    # Pairs have equal seeds: only those that all members have.
    n = min(len(member.central) for member in members)
    table = [[aim.value(member.central[k]) for member in members] for k in range(n)]
    if n < 2 and members[0].scenario.is_random:
        return Round(levels, contenders, tuple(contenders))  # one run each: all may be the best
    if n < 2:
        best = max(table[0]) if aim.largest else min(table[0])
        equal = [v for v, x in zip(contenders, table[0], strict=True) if x == best]
        return Round(levels, contenders, tuple(equal))
    values = list(contenders)
    order = rank(table, largest=aim.largest).perhaps_best
    return Round(levels, contenders, tuple(values[i] for i in order))


def _differences(result: Result, baseline: Result) -> dict[str, Estimate]:
    """Return the paired differences of each metric, over runs of equal seed and cost sample."""

    def pairs(
        ours: Sequence[Replication],
        theirs: Sequence[Replication],
        figure: Callable[[Summary], float],
    ) -> list[float]:
        return [figure(a.summary) - figure(b.summary) for a, b in zip(ours, theirs, strict=True)]

    return {
        name: estimate(
            pairs(result.replications, baseline.replications, METRICS[name].of),
            pairs(result.drawn, baseline.drawn, METRICS[name].of),
        )
        for name in MAIN
    }
