"""Whether there is a steady state, when it begins, and how precise the mean of one run is.

    n runs without warm-up ─► number in the system over time ─► does it grow?
                           ─► latencies in order, averaged over runs ─► where the transient ends
                           ─► the rest of the first run ─► its mean, by overlapping batches

A study of a steady state needs all three before it averages; a study of a transient (a flash crowd,
a stall) needs none of them.

Source: Law 2015, "Simulation Modeling and Analysis", §9.5; each procedure in sim/output_analysis.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.preparation import Job, job_of, profile_of, record_job, with_engine
from ..models.simulate import Engine
from ..scenario.errors import UserError
from ..scenario.formats import time_text
from ..scenario.quantities import DURATION
from ..scenario.scenario import Scenario, check_scenario
from ..sim.figures.summary import OVERLOADED_SHARE, Verdict
from ..sim.files.parallel import run_all
from ..sim.output_analysis.interval import Interval, batch_means_interval, mean_interval
from ..sim.output_analysis.steady_state import drift, mser5, verdict_of_drift
from ..sim.state.kinds import Status
from ..sim.state.units import MILLISECOND_NS, SECOND_NS
from .rows import RunSeries

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS = 10
_SAMPLES = 500
_MOST_FAILED = OVERLOADED_SHARE


@dataclass(frozen=True, repr=False)
class Steady:
    """Whether a scenario has a steady state, and how to measure it.

    Attributes
    ----------
    growth:
        Growth of the number in the system per simulated second; mean over runs, 95%.
    warm_up_ns:
        The time that MSER-5 removes, averaged over runs; None if it fails, because of `refused`.
    one_run, all_runs:
        The mean latency in ns, with 95%: of the first run by overlapping batches (None without a
        warm-up), and over the runs' means; both without the warm-up.
    """

    scenario: Scenario
    profile: str
    runs: tuple[RunSeries, ...]
    verdict: Verdict
    growth: Interval
    warm_up_ns: int | None
    refused: str | None
    one_run: Interval | None
    all_runs: Interval

    @property
    def sentences(self) -> list[str]:
        """The answer in words."""
        meaning = {
            Verdict.STABLE: "the number in the system does not grow significantly",
            Verdict.BACKLOGGED: "the number in the system grows, slowly",
            Verdict.OVERLOADED: "the number in the system grows: there is no steady state",
        }
        low, growth, high = self.growth.low, self.growth.estimate, self.growth.high
        found = [
            f"{self.verdict}: {meaning[self.verdict]} "
            f"({growth:.3g}/s, 95%: {low:.3g} ... {high:.3g})"
        ]
        has = self.scenario.run.warm_up
        if self.warm_up_ns is None:
            found.append(f"warm-up: unknown from these runs, as {self.refused}")
        else:
            needs = time_text(self.warm_up_ns, 2, trim=True)
            enough = "is enough"
            if has < self.warm_up_ns:
                longer = DURATION.format(-(-self.warm_up_ns // MILLISECOND_NS) * MILLISECOND_NS)
                enough = f'is too short: use --set "run.warm_up={longer}"'
            found.append(
                f"warm-up: {needs} by MSER-5; run.warm_up = {DURATION.format(has)} {enough}"
            )
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """Empty: the sentences hold everything."""
        return ()

    def plot(self) -> Figure:
        """Return the picture: number in the system and latencies over time, means of the runs."""
        from .pictures import steady_figure

        return steady_figure(self.runs, self.scenario.run.duration, self.warm_up_ns)

    def __repr__(self) -> str:
        """Return the answer in short: all of its runs would fill a screen."""
        return f"<Steady: {self.sentences[0]}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""

        def interval(of: Interval | None) -> dict[str, Any] | None:
            return None if of is None else {"estimate": of.estimate, "95": [of.low, of.high]}

        return {
            "format": "dispatchsim-steady/2",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "runs": len(self.runs),
            "verdict": str(self.verdict),
            "growth_per_s": interval(self.growth),
            "warm_up_ns": self.warm_up_ns,
            "refused": self.refused,
            "mean_answered_ns": {
                "one run": interval(self.one_run),
                "over runs": interval(self.all_runs),
            },
        }


def steady(
    scenario: Scenario,
    *,
    runs: int = RUNS,
    profile: Profile | None = None,
    engine: Engine | None = None,
    executor: Executor | None = None,
) -> Steady:
    """Return whether *scenario* has a steady state, and when it begins.

    Parameters
    ----------
    runs:
        Number of seeds, from the scenario's first.

    Raises
    ------
    UserError
        If there are fewer than 2 runs, nothing in them is random, or too many requests fail.
    """
    check_scenario(scenario)
    if runs < 2:
        raise UserError(f"runs: must be at least 2, got {runs}")
    if not scenario.is_random:
        raise UserError("nothing in this scenario is random: it has one run and no interval")
    profile = profile or profile_of(scenario)
    whole = with_engine(scenario, engine).with_values(run={"warm_up": "0 s"})
    jobs = [job_of(whole, profile, scenario.run.seed + i) for i in range(runs)]
    found: list[RunSeries | None] = [None] * runs
    for index, series in run_all(series_of, jobs, executor):
        found[index] = series
    known = [series for series in found if series is not None]
    failed = max(series.failed_share for series in known)
    if failed > _MOST_FAILED:
        raise UserError(
            f"{failed:.1%} of the requests fail in some run: the others alone cannot show a "
            "steady state"
        )
    return _answer(scenario, profile.name, known)


def series_of(job: Job) -> RunSeries:
    """Simulate one run, perhaps in a process of its own, and return its series."""
    _, outcome = record_job(job)
    ended_ns, fates = outcome.request_ends()
    answered = fates == Status.REPLIED
    order = np.argsort(outcome.due_ns[answered], kind="stable")
    due = outcome.due_ns[answered][order]
    latency = ended_ns[answered][order] - due
    at = np.linspace(0, outcome.duration_ns, _SAMPLES, endpoint=False).astype(np.int64)
    begun = np.searchsorted(np.sort(outcome.due_ns), at, side="right")
    ended = np.searchsorted(np.sort(ended_ns[ended_ns >= 0]), at, side="right")
    known = max(1, len(answered))
    failed = int(np.count_nonzero(~answered & (ended_ns >= 0)))
    return RunSeries(due, latency, begun - ended, failed / known)


def _answer(scenario: Scenario, profile: str, runs: Sequence[RunSeries]) -> Steady:
    n = min(len(series.latency_ns) for series in runs)
    if n == 0:
        raise UserError("some run has no reply: there is no latency to average")
    latencies = np.array([series.latency_ns[:n] for series in runs], dtype=float)
    warm_up = mser5(latencies.mean(axis=0))
    k = warm_up.n_removed
    step_s = scenario.run.duration / SECOND_NS / _SAMPLES
    first = k * _SAMPLES // n
    slopes = [drift(series.in_system[first:], step_s).estimate for series in runs]
    growth = mean_interval(slopes)
    per_s = n / (scenario.run.duration / SECOND_NS)
    means = mean_interval(latencies[:, k:].mean(axis=1))
    one, warm_up_ns = None, None
    if warm_up.refused is None:
        one = batch_means_interval(runs[0].latency_ns[k:].astype(float))
        warm_up_ns = int(np.mean([series.intended_ns[k] for series in runs])) if k else 0
    return Steady(
        scenario=scenario,
        profile=profile,
        runs=tuple(runs),
        verdict=verdict_of_drift(growth, per_s),
        growth=growth,
        warm_up_ns=warm_up_ns,
        refused=warm_up.refused,
        one_run=one,
        all_runs=means,
    )
