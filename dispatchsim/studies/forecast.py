"""Forecasts with one interval for random arrivals, calibration and past forecast errors.

    seeds at central costs ──────────► simulated ──► moved by the median error: the forecast
    a seed and a cost sample each ───► 90% of single runs, moved as much ─┬─► the widest interval
    errors at held-out points of that machine ────────────────────────────┘

Cost samples give the uncertainty of the calibration; past errors give that of the model
(`validation.scoring.misses`). A machine that was never validated borrows the errors of all
validated ones, with a warning. Errors do not apply to times that the scenario states (`stated.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.preparation import profile_of, warnings_of
from ..scenario.errors import UserError
from ..scenario.metric import Kind
from ..scenario.metrics import METRICS
from ..scenario.percentiles import ascending, ends_in_order
from ..scenario.scenario import Scenario, check_scenario
from ..sim.figures.summary import Verdict, middle_verdict
from ..sim.output_analysis.interval import prediction_interval
from ..store.records import Record, Run, runs_of
from ..store.work import Progress, simulate_all
from ..validation.scoring.error_files import misses_for
from ..validation.scoring.misses import FIGURES, LEVEL, Known, Miss, allowance
from .past_errors import mostly_work, unlike_past
from .rows import Expected
from .stated import Stated, most_per_s, stated_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

_BUSY = "cpu_busy"
_ANSWERED = "throughput_per_s"
"""Below capacity it equals the offered load, so it has no forecast error."""
DRAWS = 20
LEVELS = (0.5, 0.99)
"""The least and the highest level of an interval."""


@dataclass(frozen=True, repr=False)
class ForecastAnswer:
    """The forecast of a scenario, metric by metric."""

    scenario: Scenario
    profile: str
    level: float
    verdict: Verdict
    expected: tuple[Expected, ...]
    warnings: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per metric."""
        import pandas as pd

        return pd.DataFrame(self.expected).set_index("figure")

    def plot(self) -> Figure:
        """Return the picture: the intervals of each metric relative to its mean."""
        from .pictures import forecast_figure

        return forecast_figure(self.expected, self.level, warnings=self.warnings)

    def _repr_html_(self) -> str:
        return self.frame.to_html()

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<ForecastAnswer: {len(self.expected)} metrics: .frame, .plot()>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-forecast/3",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "level": self.level,
            "verdict": str(self.verdict),
            "expected": [each._asdict() for each in self.expected],
            "warnings": list(self.warnings),
        }


def forecast(
    scenario: Scenario,
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    misses: Sequence[Miss] | Known | None = None,
    profile: Profile | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ForecastAnswer:
    """Return the interval of the median of measured runs, at a confidence of *level* or more.

    Parameters
    ----------
    level:
        Confidence level, such as 0.9.
    draws:
        Number of runs, each with its own cost sample and arrivals.
    misses:
        Past forecast errors of that machine; None: the shipped ones.

    Raises
    ------
    UserError
        If level is not between 0.5 and 0.99, or there are fewer than 3 cost samples.
    """
    check_scenario(scenario)
    if not LEVELS[0] <= level <= LEVELS[1]:
        raise UserError(f"level: must be from {LEVELS[0]} to {LEVELS[1]}, got {level}")
    if draws < 3:
        raise UserError(f"cost samples: must be at least 3, got {draws}")
    profile = profile or profile_of(scenario)
    warnings = warnings_of(scenario, profile)
    known, whose = misses_for(profile, misses)
    warnings += [*whose, *unlike_past(scenario), *profile.machine_warnings]
    first = scenario.run.seed
    runs = runs_of(scenario, profile, len(scenario.seeds))
    runs += [Run(scenario, profile, first + i, i) for i in range(draws)]
    records = simulate_all(runs, store=store, executor=executor, progress=progress)
    central = [r for r in records if r.draw is None]
    drawn = [r for r in records if r.draw is not None]
    is_busy = Miss("", _mean(central, _BUSY), {}).is_busy
    is_like = [miss for miss in known.points if miss.is_busy == is_busy]
    replies_each = 1 if scenario.load.connections else scenario.requests_each
    per_s = _mean(central, _ANSWERED) / replies_each
    stated = stated_of(scenario, per_s, scenario.machine.cpus * _mean(central, _BUSY))
    most = most_per_s(scenario)
    limits = {_BUSY: 1.0}
    if per_s <= most:  # a server that turns requests away may have more replies
        limits[_ANSWERED] = most * replies_each
    # No past error holds a backend: its delay is no cost of the server.
    of_others = {f for f in FIGURES if _has_backend(scenario) and METRICS[f].kind is Kind.TIME}
    if of_others:
        warnings.append(
            "past forecast errors come from servers without a backend: response times include none"
        )
    expected = _in_order(
        _expected(
            each,
            central,
            drawn,
            [] if each in of_others else is_like,
            level,
            stated=stated,
            most=limits.get(each, math.inf),
        )
        for each in FIGURES
    )
    if any(each.missed is not None for each in expected):
        warnings += mostly_work(stated.share)
    left_out = of_others if is_busy else {*of_others, _ANSWERED}
    if any(each.missed is None for each in expected if each.figure not in left_out):
        warnings.append(
            f"too few runs were measured for a {level:.0%} interval of past forecast errors: "
            "the interval holds only arrivals and calibration"
        )
    verdict = middle_verdict(Verdict(r.verdict) for r in central)
    if verdict is Verdict.OVERLOADED:
        warnings.append("overloaded: latencies grow with run length, in measured runs too")
    if any(math.isnan(each.calibration[0]) for each in expected):
        warnings.append("some runs have no reply: there is no interval of latencies")
    return ForecastAnswer(scenario, profile.name, level, verdict, expected, tuple(warnings))


def _has_backend(scenario: Scenario) -> bool:
    return scenario.backend.connections is not None


def _mean(records: Sequence[Record], figure: str) -> float:
    return math.fsum(r.figures[figure] for r in records) / len(records)


def _expected(
    figure: str,
    central: Sequence[Record],
    drawn: Sequence[Record],
    known: Sequence[Miss],
    level: float,
    *,
    stated: Stated,
    most: float,
) -> Expected:
    simulated = _mean(central, figure)
    values = [r.figures[figure] for r in drawn]
    low, high = math.nan, math.nan
    if not any(map(math.isnan, [simulated, *values])):  # an interval of some would differ
        low, high = prediction_interval(values, level)
    calibration = max(low, 0.0), min(high, most)
    allowed = allowance(known, figure, level=level)
    if allowed is None:
        return Expected(figure, simulated, *calibration, simulated, calibration, None)
    allowed = allowed.beside_work(figure, stated.share)
    missed = (
        stated.measured(figure, simulated, allowed.low),
        stated.measured(figure, simulated, allowed.high),
    )
    # Both intervals are centred by the median of past errors.
    first, last = (stated.measured(figure, end, allowed.middle) for end in calibration)
    mean = min(most, stated.measured(figure, simulated, allowed.middle))
    low, high = min(most, first, missed[0]), min(most, max(last, missed[1]))
    return Expected(figure, mean, low, high, simulated, calibration, missed)


def _in_order(expected: Iterable[Expected]) -> tuple[Expected, ...]:
    """Return *expected* with the intervals and the mean of percentiles in order of rank."""
    rows = {each.figure: each for each in expected}
    mean = ascending({figure: each.mean for figure, each in rows.items()})
    whole = ends_in_order({figure: (each.low, each.high) for figure, each in rows.items()})
    calibration = ends_in_order({figure: each.calibration for figure, each in rows.items()})
    missed = ends_in_order({figure: each.missed for figure, each in rows.items() if each.missed})
    return tuple(
        each._replace(
            mean=_kept_inside(mean[figure], each, low, high),
            low=low,
            high=high,
            calibration=calibration[figure],
            missed=missed.get(figure),
        )
        for (figure, each), (low, high) in zip(rows.items(), whole.values(), strict=True)
    )


def _kept_inside(mean: float, each: Expected, low: float, high: float) -> float:
    """Return *mean*, moved into the new interval if the one of *each* held its own mean."""
    # A lower rank may raise the mean of a percentile whose upper end stays or falls.
    is_held = each.low <= each.mean <= each.high
    return max(min(mean, high), low) if is_held else mean
