"""A forecast to stake money on: arrivals, calibration, and what past forecasts missed.

    seeds at central costs ─► simulated ──► moved by the median miss: the forecast
    a seed and a draw each ─► 90% of single runs, moved as much ─┬─► the widest, as one interval
    misses at held-out points of that machine ───────────────────┘

The draws say how much the calibration leaves open, the misses what the model itself gets wrong
(`validation.scoring.misses`). A machine that was never validated has no misses of its own: then
those of all validated ones are taken, and it is said. Misses leave alone what the scenario states
(`stated.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.preparation import profile_of, warnings_of
from ..scenario.errors import UserError
from ..scenario.metric import Kind
from ..scenario.metrics import METRICS
from ..scenario.scenario import Scenario, check_scenario
from ..sim.figures.summary import Verdict, middle_verdict
from ..sim.output_analysis.interval import prediction_interval
from ..store.records import Record, Run, runs_of
from ..store.work import Progress, simulate_all
from ..validation.scoring.misses import FIGURES, LEVEL, Known, Miss, allowance, misses_for
from .past_errors import unlike_past
from .rows import Expected
from .stated import Stated, stated_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

_BUSY = "cpu_busy"
_ANSWERED = "throughput_per_s"
"""Below capacity it is what is offered, of which nothing is missed."""
DRAWS = 20


@dataclass(frozen=True, repr=False)
class ForecastAnswer:
    """What is expected of a scenario, figure by figure."""

    scenario: Scenario
    profile: str
    level: float
    verdict: Verdict
    expected: tuple[Expected, ...]
    warnings: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """One row a figure."""
        import pandas as pd

        return pd.DataFrame(self.expected).set_index("figure")

    def plot(self) -> Figure:
        """Return the picture: each figure's intervals relative to its mean."""
        from .pictures import forecast_figure

        return forecast_figure(self.expected, self.level, warnings=self.warnings)

    def _repr_html_(self) -> str:
        return self.frame.to_html()

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<ForecastAnswer: {len(self.expected)} figures: .frame, .plot()>"

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
    """Return between what the median of measured runs will lie, with *level* at least.

    Parameters
    ----------
    level:
        Of the intervals, such as 0.9.
    draws:
        Runs, each at other costs and arrivals.
    misses:
        Of forecasts of that machine; None: the shipped ones.

    Raises
    ------
    UserError
        If level is not between 0.5 and 0.99, or there are fewer than 3 draws.
    """
    check_scenario(scenario)
    if not 0.5 <= level <= 0.99:
        raise UserError(f"level: must be from 0.5 to 0.99, got {level}")
    if draws < 3:
        raise UserError(f"draws: must be at least 3, got {draws}")
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
    per_s = _mean(central, _ANSWERED) / (1 if scenario.load.connections else scenario.requests_each)
    stated = stated_of(scenario, per_s, scenario.machine.cpus * _mean(central, _BUSY))
    # No response time with a backend in it was ever missed: its delay is no cost of the server.
    of_others = {f for f in FIGURES if _has_backend(scenario) and METRICS[f].kind is Kind.TIME}
    if of_others:
        warnings.append(
            "past forecast errors are of servers without a backend: none are in the response times"
        )
    expected = tuple(
        _expected(each, central, drawn, [] if each in of_others else is_like, level, stated=stated)
        for each in FIGURES
    )
    left_out = of_others if is_busy else {*of_others, _ANSWERED}
    if any(each.missed is None for each in expected if each.figure not in left_out):
        warnings.append(
            f"too few runs were measured for an interval of {level:.0%} of what forecasts missed: "
            "the interval holds arrivals and calibration alone"
        )
    verdict = middle_verdict(Verdict(r.verdict) for r in central)
    if verdict is Verdict.OVERLOADED:
        warnings.append("overloaded: latencies say how long the run was, of whatever run")
    if any(math.isnan(each.calibration[0]) for each in expected):
        warnings.append("in some runs nobody was answered: there is no interval of a latency")
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
) -> Expected:
    simulated = _mean(central, figure)
    values = [r.figures[figure] for r in drawn]
    low, high = math.nan, math.nan
    if not any(map(math.isnan, [simulated, *values])):  # an interval of some would be another
        low, high = prediction_interval(values, level)
    most = 1.0 if figure == _BUSY else math.inf
    calibration = max(low, 0.0), min(high, most)
    allowed = allowance(known, figure, level=level)
    if allowed is None:
        return Expected(figure, simulated, *calibration, simulated, calibration, None)
    missed = (
        stated.measured(figure, simulated, allowed.low),
        stated.measured(figure, simulated, allowed.high),
    )
    # Both intervals have their middle where forecasts were right, by the median.
    first, last = (stated.measured(figure, end, allowed.middle) for end in calibration)
    mean = stated.measured(figure, simulated, allowed.middle)
    return Expected(
        figure, mean, min(first, missed[0]), max(last, missed[1]), simulated, calibration, missed
    )
