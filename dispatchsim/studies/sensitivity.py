"""The costs and settings that drive a metric, ranked by Sobol indices.

    costs of the profile ─┐
    settings in ranges  ──┴─► n (d + 2) runs at one seed ─► share of the variance that each explains

The first-order index of a cost is the share of the variance that would vanish if the cost were
known exactly; the total index includes its interactions with others. An index whose interval
reaches 0 may be 0. All runs have the same arrivals, so only costs and settings cause variance.

Sources: Sobol' 1993; Saltelli et al. 2010 (the estimator, as in scipy.stats.sobol_indices).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calibration.profiles.cost import MECHANISM_TABLES, Cost
from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.preparation import profile_of, warnings_of
from ..scenario.errors import UserError
from ..scenario.metrics import check_metric
from ..scenario.scenario import Scenario, check_scenario
from ..store.records import Run
from ..store.work import Progress, simulate_all
from .factors import Factor, at, check_profile, points_of, read_factors
from .rows import Index

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

_SHARED = ("interrupt", "call", "cold", "application", "client", "sharing")
SAMPLES = 64
_LEVEL = 0.95
_RESAMPLES = 500
_TOO_WIDE = 0.5


@dataclass(frozen=True, repr=False)
class Sensitivity:
    """Indices, the largest first; `mean` and `deviation` are those of the metric over all runs."""

    scenario: Scenario
    profile: str
    figure: str
    mean: float
    deviation: float
    indices: tuple[Index, ...]
    runs: int
    warnings: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per cost or setting."""
        import pandas as pd

        return pd.DataFrame(self.indices)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        if self.deviation == 0:
            return f"{self.figure} does not depend on any of them"
        certain = [i for i in self.indices if i.total_low > 0.01]
        if not certain:
            return f"no index of {self.figure} is certainly above 0: use more --samples"
        named = ", ".join(f"{i.name} ({i.total:.0%})" for i in certain[:3])
        return f"{self.figure} depends most on {named}"

    def plot(self) -> Figure:
        """Return the picture: total indices with their intervals."""
        from .pictures import sensitivity_figure

        return sensitivity_figure(self.indices, self.figure, warnings=self.warnings)

    def _repr_html_(self) -> str:
        return self.frame.to_html()

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<Sensitivity: {self.sentence}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-sensitivity/2",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "figure": self.figure,
            "mean": self.mean,
            "deviation": self.deviation,
            "runs": self.runs,
            "answer": self.sentence,
            "warnings": list(self.warnings),
            "indices": [index._asdict() for index in self.indices],
        }


def sensitivity(
    scenario: Scenario,
    vary: Sequence[Factor | str] = (),
    *,
    figure: str = "p99_answered_ns",
    costs: Sequence[str] | None = None,
    samples: int = SAMPLES,
    profile: Profile | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sensitivity:
    """Return the share of each cost and setting in the variance of the metric *figure*.

    Parameters
    ----------
    scenario:
        It is run under its first seed.
    vary:
        Settings, besides the costs: "network.delay=10 us..1 ms".
    figure:
        A metric of a run.
    costs:
        Names such as "call.accept_ns"; None: all uncertain costs of the run. Each is sampled from
        its interval.
    samples:
        Base sample size, a power of 2; there are samples x (costs and settings + 2) runs.

    Raises
    ------
    UserError
        If a name is unknown, samples is no power of 2, or a run has no value of the metric.
    """
    check_scenario(scenario)
    if samples < 2 or samples & (samples - 1):
        raise UserError(f"samples: must be a power of 2 (8, 16, 32 ...), got {samples}")
    check_metric(figure)
    profile = profile or profile_of(scenario)
    known = uncertain_costs(profile, scenario.server.mechanism)
    names = list(known) if costs is None else list(costs)
    for name in names:
        if name not in known:
            raise UserError(f"costs: must be one of {', '.join(known)}, got {name}")
    factors = read_factors(vary)
    check_profile(factors, profile)
    if not names and not factors:
        raise UserError(f"{profile.name} has no uncertain costs: name settings to vary")
    if len(names) + len(factors) < 2:
        raise UserError(
            "costs and vary: must be at least two together, as one alone has the whole variance"
        )

    def runs_of(x: np.ndarray[Any, Any]) -> list[Run]:
        found = []
        for column in x.T.tolist():
            drawn = scaled(profile, dict(zip(names, column, strict=False)))
            levels = {
                f.field: at(f, share)
                for f, share in zip(factors, column[len(names) :], strict=True)
            }
            (point,) = points_of(scenario, iter([levels]))
            found.append(Run(point.scenario, drawn, scenario.run.seed))
        return found

    every: list[np.ndarray[Any, Any]] = []

    def function(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        records = simulate_all(
            runs_of(x), figures=[figure], store=store, executor=executor, progress=progress
        )
        values = np.array([record.figures[figure] for record in records])
        if not np.isfinite(values).all():
            raise UserError(
                f"{figure}: some runs have none, as they have no reply: use a lower load or "
                "narrower ranges"
            )
        every.append(values.copy())  # the returned array is modified by the caller
        return values

    from scipy.stats import norm, sobol_indices, uniform  # takes its time to import

    dists: list[Any] = [norm()] * len(names) + [uniform()] * len(factors)
    sobol_indices(func=function, n=samples, dists=dists, rng=scenario.run.seed)
    values = np.concatenate(every)
    indices = _indices([*names, *(f.field for f in factors)], every, scenario.run.seed)
    warnings = warnings_of(scenario, profile)
    widest = max(i.total_high - i.total_low for i in indices)
    if widest > _TOO_WIDE:
        warnings.append(f"{samples} samples are too few: intervals are up to {widest:.1f} wide")
    return Sensitivity(
        *(scenario, profile.name, figure, float(values.mean()), float(values.std())),
        tuple(indices),
        values.size,
        tuple(warnings),
    )


def _indices(names: Sequence[str], every: Sequence[np.ndarray[Any, Any]], seed: int) -> list[Index]:
    """Return the indices with percentile intervals of a bootstrap over the samples."""
    from scipy.stats import sobol_indices

    f_a, f_b = every[0], every[1]
    f_ab = every[2].reshape(len(f_a), len(names)).T  # in the order of sobol_indices
    if np.concatenate(every).std() == 0:
        return [Index(name, *(0.0,) * 6) for name in names]

    def indices(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        given: Any = {"f_A": f_a[rows][None], "f_B": f_b[rows][None], "f_AB": f_ab[:, None, rows]}
        with np.errstate(divide="ignore", invalid="ignore"):
            found = sobol_indices(func=given, n=len(rows))
        return np.array([np.ravel(found.first_order), np.ravel(found.total_order)])

    n = len(f_a)
    central = indices(np.arange(n))
    rng = np.random.default_rng(seed)
    resampled = np.array([indices(rng.integers(0, n, n)) for _ in range(_RESAMPLES)])
    low, high = np.quantile(resampled, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    columns = (central[0], low[0], high[0], central[1], low[1], high[1])
    rows = np.array(columns).T.tolist()
    return sorted(
        (Index(name, *row) for name, row in zip(names, rows, strict=True)),
        key=lambda index: -index.total,
    )


def uncertain_costs(profile: Profile, mechanism: str) -> dict[str, Cost]:
    """Return the uncertain costs of a run with *mechanism*."""
    tables = [*(t for t in _SHARED if t in profile.cost), mechanism]
    return {
        f"{table}.{name}": cost
        for table in tables
        for name, cost in profile.table(table).items()
        if any(
            high > low and value > 0
            for low, high, value in zip(cost.low, cost.high, cost.value, strict=True)
        )
    }


def scaled(profile: Profile, normals: Mapping[str, float]) -> Profile:
    """Return *profile* with each named cost moved by its number of standard deviations."""
    tables = {table: dict(costs) for table, costs in profile.cost.items()}
    for key, normal in normals.items():
        table, name = key.split(".")
        cost = profile.table(table)[name]
        factor = cost.factor(normal)
        value = tuple(v * factor for v in cost.value)
        if table in MECHANISM_TABLES and table not in tables:
            tables[table] = dict(profile.table(table))
        tables[table][name] = cost.model_copy(update={"value": value, "low": value, "high": value})
    # A name of its own, so that results do not take different costs for one profile.
    digest = hashlib.sha256(repr(sorted(normals.items())).encode()).hexdigest()[:8]
    name = f"{profile.name}, varied {digest}"
    return profile.model_copy(update={"name": name, "cost": tables})
