"""Any fields of a scenario, varied: a grid or a Latin hypercube, each point with its interval.

    factors ─► points ─► seeds 1..n each ─► records ─► precise enough? ─ no ─► more seeds
                                                            └ yes, or too many ─► one row per point

All points use the same seeds and cost samples (common random numbers), so they differ only by the
varied fields. With `within`, seeds are added until a metric has this precision
(sim/output_analysis/sequential.py). An overloaded point stops with the first seeds: its latencies
grow with run length, and no number of runs makes them precise.

Source: Law 2015, "Simulation Modeling and Analysis", §10.4 (common random numbers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..calibration.profiles.cost_profile import Profile
from ..scenario.errors import UserError
from ..scenario.metrics import LEVEL_METRIC, check_metric
from ..scenario.scenario import Scenario, check_scenario
from ..sim.figures.summary import Verdict
from ..sim.output_analysis.sequential import Answer, SequentialMean
from ..store.records import Record, Run, runs_of
from ..store.work import Progress, simulate_all
from .factors import (
    Factor,
    Point,
    check_profile,
    design,
    names_of,
    points_of,
    points_warnings,
    profiles_of,
    read_factors,
)
from .rows import Swept

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

REPLICATIONS_MAX = 80


class Precision(NamedTuple):
    """When a point is precise enough.

    Attributes
    ----------
    figure:
        A metric of a run.
    within:
        Largest error as a share of the mean.
    most:
        Number of replications after which the point counts as not converged.
    """

    figure: str = LEVEL_METRIC
    within: float = 0.1
    most: int = REPLICATIONS_MAX


@dataclass(frozen=True, repr=False)
class Sweep:
    """All points of a study, in the order given.

    `connections_max` is the largest number of open connections that the profile was measured with.
    """

    scenario: Scenario
    profile: str
    factors: tuple[Factor, ...]
    points: tuple[Swept, ...]
    warnings: tuple[str, ...]
    connections_max: int | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row per point: its levels, and the mean and 95% interval of each metric."""
        import pandas as pd

        rows = []
        for point in self.points:
            row: dict[str, Any] = {**point.levels, "verdict": str(point.verdict)}
            row["replications"] = len(point.central)
            row["is_precise"] = point.is_precise
            for figure, known in point.estimates.items():
                row[figure] = known.mean
                row[f"{figure}_half_width"] = known.half_width
                if len(point.records) > len(point.central):
                    row[f"{figure}_low"], row[f"{figure}_high"] = known.low, known.high
            rows.append(row)
        return pd.DataFrame(rows)

    def plot(self, figure: str = LEVEL_METRIC) -> Figure:
        """Return the picture: the metric *figure* over the first numeric factor."""
        from .pictures import sweep_figure

        return sweep_figure(
            self.points,
            figure,
            connections_max=self.connections_max,
            warnings=self.warnings,
        )

    def _repr_html_(self) -> str:
        return self.frame.to_html(max_rows=30, max_cols=12)

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<Sweep of {len(self.points)} points: .frame, .plot()>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-sweep/2",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "warnings": list(self.warnings),
            "points": [
                {
                    "levels": point.levels,
                    "verdict": str(point.verdict),
                    "replications": len(point.central),
                    "is_precise": point.is_precise,
                    "estimates": {
                        figure: known.to_dict() for figure, known in point.estimates.items()
                    },
                }
                for point in self.points
            ],
        }


def sweep(
    scenario: Scenario,
    vary: Sequence[Factor | str],
    *,
    samples: int | None = None,
    within: float | None = None,
    figure: str = LEVEL_METRIC,
    draws: int = 0,
    profile: Profile | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Return the results of every point.

    Parameters
    ----------
    scenario:
        Everything that is not varied; every point uses its seeds.
    vary:
        Fields and values: "load.rate=1000/s..8000/s:8".
    samples:
        Points of a Latin hypercube; None: all combinations.
    within:
        Relative half-width of the 95% interval of *figure* at which replications end; None: the
        scenario's replications.
    figure:
        A metric of a run; p99_ns counts failed requests as late.
    draws:
        Further runs of each point, each at a cost sample.
    profile:
        The costs; None: the profile that the scenario names.
    store:
        Holds finished runs, which are not simulated again; None: no store.
    executor, progress:
        As for `store.work.simulate_all`.

    Raises
    ------
    UserError, ScenarioError
        If a factor cannot be read, there are too many points, or one breaks a rule.
    """
    check_scenario(scenario)
    factors = read_factors(vary)
    check_profile(factors, profile)
    check_metric(figure)
    levels = list(design(factors, samples, scenario.run.seed))
    points = points_of(scenario, iter(levels))
    precision = None if within is None else Precision(figure, within)
    if within is not None and not 0 < within < 1:
        raise UserError(f"within: must be a share between 0 and 1, got {within}")
    profiles = profiles_of(points, profile)
    found = replicate(
        points,
        profiles,
        figures=[figure],
        draws=draws,
        precision=precision,
        store=store,
        executor=executor,
        progress=progress,
    )
    warnings = points_warnings(points, profiles)
    if len(points) < len(levels):
        warnings.append(
            f"--samples {len(levels)}: the samples of these values hold only {len(points)} "
            "different combinations; a range LOW..HIGH has more"
        )
    most = min(each.range.open_connections_max for each in profiles)
    return Sweep(scenario, names_of(profiles), tuple(factors), tuple(found), tuple(warnings), most)


def replicate(
    points: Sequence[Point],
    profiles: Sequence[Profile],
    *,
    figures: Sequence[str] = (),
    draws: int = 0,
    precision: Precision | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Swept]:
    """Return every point with its own number of replications, or as many as *precision* takes."""
    growing = [
        _Growing(point, profile, draws, precision)
        for point, profile in zip(points, profiles, strict=True)
    ]
    while True:
        runs = [(point, run) for point in growing for run in point.next_runs()]
        if not runs:
            break
        wanted = [run for _, run in runs]
        found = simulate_all(
            wanted, figures=figures, store=store, executor=executor, progress=progress
        )
        for (point, _), record in zip(runs, found, strict=True):
            point.records.append(record)
    return [
        Swept(g.point.levels, g.point.scenario, tuple(g.records), g.is_precise) for g in growing
    ]


class _Growing:
    """A point whose replications are added until it is precise."""

    def __init__(
        self, point: Point, profile: Profile, draws: int, precision: Precision | None
    ) -> None:
        self.point = point
        self.records: list[Record] = []
        self.is_precise = precision is None or not point.scenario.is_random
        self._profile = profile
        self._draws = draws
        self._precision = precision
        self._n_seen = 0
        self._mean = None
        if precision is not None:
            self._mean = SequentialMean(relative=precision.within, budget=precision.most)

    def next_runs(self) -> list[Run]:
        """Return the next runs; none if the point is precise or given up."""
        scenario, first = self.point.scenario, self.point.scenario.run.seed
        if self._mean is None or self._precision is None or not scenario.is_random:
            n, done = len(scenario.seeds), bool(self.records)
            return [] if done else runs_of(scenario, self._profile, n, self._draws)
        central = [r for r in self.records if r.draw is None]
        overloaded = sum(r.verdict == Verdict.OVERLOADED for r in central)
        if 2 * overloaded > len(central):
            return []
        new = [r.figures[self._precision.figure] for r in central[self._n_seen :]]
        if not all(map(math.isfinite, new)):
            return []  # some run has no reply: there will be no mean
        self._n_seen = len(central)
        now = self._mean.add(new)
        self.is_precise = now.answer is Answer.REACHED
        if not central:
            return runs_of(scenario, self._profile, now.n_more, self._draws)
        seeds = range(first + len(central), first + len(central) + now.n_more)
        return [Run(scenario, self._profile, seed) for seed in seeds]
