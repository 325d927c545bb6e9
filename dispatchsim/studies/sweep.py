"""Any fields of a scenario, varied: a grid or a Latin hypercube, each point with its interval.

    factors ─► points ─► seeds 1..n each ─► records ─► precise enough? ─ no ─► more seeds
                                                            └ yes, or too many ─► one row a point

All points meet the same seeds and draws (common random numbers), so that differences between them
are of what is varied. With `within`, points go on until the 95% interval of a figure is that narrow
relative to its mean; an overloaded point stops with the first seeds, as its latencies say how long
the run was and no number of runs makes them precise.

Sources: Law 2015 §9.4.1 (stopping at a relative half-width); §10.4 (common random numbers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..calibration.cost_profile import Profile
from ..errors import UserError
from ..estimates import Estimate, estimate
from ..preparation import warnings_of
from ..scenario import Scenario, check_scenario
from ..sim.metrics import Verdict
from ..store.records import Record, Run
from ..store.store import Store
from ..store.work import Progress, simulate_all
from .factors import Factor, Levels, Point, grid, latin_hypercube, points_of, read_factor
from .profiles import profile_for

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

LEVEL_FIGURE = "p99_due_ns"
_FIRST = 5
REPLICATIONS_MAX = 80


class Precision(NamedTuple):
    """When a point is known well enough.

    Attributes
    ----------
    figure:
        Of a record.
    within:
        Half-width of its 95% interval over its mean.
    most:
        Replications after which it is given up: "not converged".
    """

    figure: str = LEVEL_FIGURE
    within: float = math.inf
    most: int = REPLICATIONS_MAX

    def is_met(self, records: Sequence[Record]) -> bool:
        """Return whether the central runs of a point are enough."""
        if math.isinf(self.within):
            return True
        known = estimate([r.figures[self.figure] for r in records if r.draw is None])
        return known.half_width <= self.within * abs(known.mean)


@dataclass(frozen=True)
class Swept:
    """One point: what is its own, its runs and what they say."""

    levels: Levels
    scenario: Scenario
    records: tuple[Record, ...]
    is_precise: bool

    @property
    def central(self) -> list[Record]:
        """Its runs at central costs, by seed."""
        return [r for r in self.records if r.draw is None]

    @property
    def verdict(self) -> Verdict:
        """The middle one of the verdicts of its runs."""
        verdicts = sorted((Verdict(r.verdict) for r in self.central), key=list(Verdict).index)
        return verdicts[len(verdicts) // 2]

    def estimate(self, figure: str) -> Estimate:
        """Return what its runs say of a figure."""
        return estimate(
            [r.figures[figure] for r in self.central],
            [r.figures[figure] for r in self.records if r.draw is not None],
            least=0,
        )


@dataclass(frozen=True)
class Sweep:
    """All points of a study, in the order in which they were asked for.

    `connections_max` is up to how many open connections the profile was measured.
    """

    scenario: Scenario
    profile: str
    factors: tuple[Factor, ...]
    points: tuple[Swept, ...]
    warnings: tuple[str, ...]
    connections_max: int | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row a point: its levels, and of each figure the mean and the 95% interval."""
        import pandas as pd

        rows = []
        for point in self.points:
            row: dict[str, Any] = {**point.levels, "verdict": str(point.verdict)}
            row["replications"] = len(point.central)
            row["is_precise"] = point.is_precise
            for figure in point.records[0].figures:
                known = point.estimate(figure)
                row[figure] = known.mean
                row[f"{figure}_half_width"] = known.half_width
                if len(point.records) > len(point.central):
                    row[f"{figure}_low"], row[f"{figure}_high"] = known.low, known.high
            rows.append(row)
        return pd.DataFrame(rows)

    def plot(self, figure: str = LEVEL_FIGURE) -> Figure:
        """Return the picture: *figure* over the first factor that is a number."""
        from .pictures import sweep_figure

        return sweep_figure(self, figure)

    def _repr_html_(self) -> str:
        return self.frame.to_html(max_rows=30, max_cols=12)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-sweep/1",
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
                        figure: point.estimate(figure).to_dict()
                        for figure in point.records[0].figures
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
    figure: str = LEVEL_FIGURE,
    draws: int = 0,
    profile: Profile | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Return what the simulator says of every point.

    Parameters
    ----------
    scenario:
        All that is not varied; its seeds are those of every point.
    vary:
        Fields and values: "load.rate=1000/s..8000/s:8".
    samples:
        Points of a Latin hypercube; None: all combinations.
    within:
        Relative half-width of the 95% interval of *figure* up to which replications are added;
        None: the scenario's replications.
    figure:
        Of a record; p99_due_ns counts who fails as late.
    draws:
        Further runs of each point at costs drawn from what the calibration leaves open.
    profile:
        What things cost; None: what the scenario names.
    store:
        Where finished runs are kept and looked for; None: nowhere.
    executor, progress:
        As for `store.work.simulate_all`.

    Raises
    ------
    UserError, ScenarioError
        If a factor cannot be read, there are too many points, or one breaks a rule.
    """
    check_scenario(scenario)
    factors = [read_factor(each, "vary") if isinstance(each, str) else each for each in vary]
    levels = (
        grid(factors) if samples is None else latin_hypercube(factors, samples, scenario.run.seed)
    )
    points = points_of(scenario, levels)
    precision = Precision(figure, math.inf if within is None else within)
    if within is not None and not 0 < within < 1:
        raise UserError(f"within: must be a share between 0 and 1, got {within}")
    source = {point.scenario.machine.profile: None for point in points}
    profiles = {name: profile or profile_for(name) for name in source}
    found = replicate(
        points,
        [profiles[point.scenario.machine.profile] for point in points],
        draws=draws,
        precision=precision,
        store=store,
        executor=executor,
        progress=progress,
    )
    warnings = dict.fromkeys(
        warning
        for point in points
        for warning in warnings_of(point.scenario, profiles[point.scenario.machine.profile])
    )
    names = ", ".join(dict.fromkeys(each.name for each in profiles.values()))
    most = min(each.range.open_connections_max for each in profiles.values())
    return Sweep(scenario, names, tuple(factors), tuple(found), tuple(warnings), most)


def replicate(
    points: Sequence[Point],
    profiles: Sequence[Profile],
    *,
    draws: int = 0,
    precision: Precision | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Swept]:
    """Return every point with as many replications as *precision* asks for."""
    precision = precision or Precision()
    records: list[list[Record]] = [[] for _ in points]
    open_ones = list(range(len(points)))
    is_first = True
    while open_ones:
        runs: list[Run] = []
        owners: list[int] = []
        for i in open_ones:
            new = _runs(
                points[i].scenario, profiles[i], records[i], draws if is_first else 0, precision
            )
            runs += new
            owners += [i] * len(new)
        found = simulate_all(runs, store=store, executor=executor, progress=progress)
        for i, record in zip(owners, found, strict=True):
            records[i].append(record)
        is_first = False
        open_ones = [i for i in open_ones if _goes_on(points[i], records[i], precision)]
    return [
        Swept(point.levels, point.scenario, tuple(own), precision.is_met(own))
        for point, own in zip(points, records, strict=True)
    ]


def _runs(
    scenario: Scenario, profile: Profile, known: Sequence[Record], draws: int, precision: Precision
) -> list[Run]:
    """Return the next runs of a point: its first seeds and draws, then as many seeds again."""
    first = scenario.run.seed
    n_known = sum(r.draw is None for r in known)
    if n_known == 0:
        n = len(scenario.seeds)
        if math.isfinite(precision.within) and scenario.is_random:
            n = max(n, _FIRST)
        seeds = range(first, first + n)
        drawn = [Run(scenario, profile, first + i % n, i) for i in range(draws)]
        return [Run(scenario, profile, seed) for seed in seeds] + drawn
    n = min(wanted(known, precision), precision.most) - n_known
    return [Run(scenario, profile, first + n_known + i) for i in range(n)]


def wanted(known: Sequence[Record], precision: Precision) -> int:
    """Return how many replications a point will need: at most twice as many as it has."""
    central = [r.figures[precision.figure] for r in known if r.draw is None]
    now = estimate(central)
    if not now.mean > 0 or math.isnan(now.half_width):
        return 2 * len(central)
    needed = len(central) * (now.half_width / (precision.within * now.mean)) ** 2
    return min(2 * len(central), max(len(central) + 1, math.ceil(needed)))


def _goes_on(point: Point, records: Sequence[Record], precision: Precision) -> bool:
    central = [r for r in records if r.draw is None]
    if precision.is_met(records) or len(central) >= precision.most or not point.scenario.is_random:
        return False
    overloaded = sum(r.verdict == Verdict.OVERLOADED for r in central)
    return 2 * overloaded <= len(central)
