"""The result of a scenario over its replications: metrics, verdict, warnings.

    seeds        ─► central costs ─► mean ± t interval    uncertainty from random arrivals
    cost samples ─► sampled costs ─► 2.5 ... 97.5 %       uncertainty from the calibration

The two uncertainties are shown side by side: more replications shrink the first, never the second.
Sentences under the table give the reasons for a verdict and its caveats (`reasons`).

Source: Law 2015, "Simulation Modeling and Analysis", §9.4 (replications).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..calibration.profiles.cost import CostSource
from ..calibration.running.preparation import Replication, StoppedJob, warnings_of
from ..scenario.formats import number_text, share_text
from ..scenario.metrics import MAIN, METRICS, OF_CLASSES, OF_PATHS, metric_text
from ..scenario.scenario import Scenario
from ..scenario.sections import path_names
from ..sim.engine.c.library import why_no_engine
from ..sim.figures.summary import OVERLOADED_SHARE, Summary, Verdict, middle_verdict
from .past_errors import far_p99
from .rows import Estimate, estimates_of
from .waiting import BUSIEST, bottleneck, figures_for

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_Figures = TypeVar("_Figures")
_IDLE_SHARE = 0.1
"""Idle share of the CPU above which failures of clients have another cause than the CPU."""
_PAUSE_SEEN = 200
"""Replies per second; at lower rates an interval may have no reply by chance."""
_OF_CLIENTS = ("descriptors", "ports")
_FAILED_OF_P99 = 0.01
"""Share of failed requests above which p99 is infinite."""


@dataclass(frozen=True, repr=False)
class Result:
    """The result of simulating a scenario."""

    scenario: Scenario
    profile: str
    replications: tuple[Replication, ...]
    drawn: tuple[Replication, ...]
    estimates: dict[str, Estimate]
    verdict: Verdict
    warnings: tuple[str, ...]

    @property
    def engine(self) -> str:
        """The engine that ran: "fast" or "reference", or both."""
        return ", ".join(sorted({r.engine for r in (*self.replications, *self.drawn)}))

    @property
    def paths(self) -> dict[str, dict[str, Estimate]]:
        """Metrics of the clients of each path, by its name: `metrics.OF_PATHS`."""
        names = path_names(self.scenario.path)
        central = [r.summary.paths for r in self.replications]
        return estimates_of_each(names, OF_PATHS, central, [r.summary.paths for r in self.drawn])

    @property
    def clients(self) -> dict[str, dict[str, Estimate]]:
        """Metrics of each class of clients, by its name: `metrics.OF_CLASSES`."""
        names = self.scenario.class_names
        central = [r.summary.classes for r in self.replications]
        return estimates_of_each(
            names, OF_CLASSES, central, [r.summary.classes for r in self.drawn]
        )

    @property
    def worker_shares(self) -> list[float]:
        """Mean share of the connections that each worker served; empty for one worker."""
        each = [r.summary.connections.of_workers for r in self.replications]
        shares = [np.array(numbers) / sum(numbers) for numbers in each if numbers]
        return np.mean(shares, axis=0).tolist() if shares else []

    @property
    def sentence(self) -> str:
        """The answer in words: throughput, p99 and CPU use."""
        known, side = self.estimates, self.scenario.machine.role
        answered = number_text(known["throughput_per_s"].mean)
        offered = fmean(r.summary.offered * 1e9 / r.summary.window_ns for r in self.replications)
        of = "" if self.verdict is Verdict.STABLE else f" of {number_text(offered)}"
        failed = known["failed_share"].mean
        cpu = "CPU" if self.scenario.machine.cpus == 1 else "busiest CPU"
        words = (
            f"{self.verdict}: {answered}{of} requests/s are served, p99 {self._p99}; "
            f"the {side}'s {cpu} is {share_text(known['cpu_busiest'].mean)} busy"
        )
        if failed > 0:
            words += f", and {share_text(failed)} fail"
        figures = {name: known[name].mean for name in figures_for(self.scenario)}
        busy = bottleneck(self.scenario, figures)
        return f"{words}; {busy}" if busy else words

    @property
    def _p99(self) -> str:
        """The value of p99 in words, with its range over cost samples, and what it is of."""
        known = self.estimates
        p99 = known["p99_ns"]
        notes = []
        if math.isinf(p99.mean):
            where = "" if known["failed_share"].mean > _FAILED_OF_P99 else " in a run"
            notes.append(f"more than 1% of requests failed{where}")
        elif known["throughput_per_s"].mean == 0 and not math.isnan(p99.mean):
            notes.append("the time that requests have waited so far")
        if not math.isnan(p99.low) and not (p99.low == p99.high == p99.mean):
            notes.append(" to ".join(metric_text("p99_ns", x) for x in (p99.low, p99.high)))
        text = metric_text("p99_ns", p99.mean)
        return f"{text} ({'; '.join(notes)})" if notes else text

    @property
    def frame(self) -> pd.DataFrame:
        """One row per metric: its mean and both intervals."""
        import pandas as pd

        rows = {name: known.__dict__ for name, known in self.estimates.items()}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("figure")

    def plot(self) -> Figure:
        """Return the picture: quantiles of the latency, with both intervals."""
        from .pictures import result_figure

        title = f"{self.scenario.server.mechanism}: {self.verdict}"
        return result_figure(self.estimates, title=title, warnings=self.warnings)

    def _repr_html_(self) -> str:
        return f"<p>{self.scenario.server.mechanism}: {self.verdict}</p>{self.frame.to_html()}"

    def __repr__(self) -> str:
        """Return what it is in short: all of its runs would fill a screen."""
        return f"<Result of {self.scenario.server.mechanism}, {self.verdict}: .frame, .plot()>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, enough to run it again."""
        return {
            "format": "dispatchsim-result/2",
            "version": version("dispatchsim"),
            "engine": self.engine,
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "seeds": [r.seed for r in self.replications],
            "cost_draws": len(self.drawn),
            "verdict": str(self.verdict),
            "answer": self.sentence,
            "warnings": list(self.warnings),
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "paths": {
                name: {figure: known.to_dict() for figure, known in figures.items()}
                for name, figures in self.paths.items()
            },
            "clients": {
                name: {figure: known.to_dict() for figure, known in figures.items()}
                for name, figures in self.clients.items()
            },
            "worker_shares": self.worker_shares,
            "replications": [replication_to_dict(r) for r in (*self.replications, *self.drawn)],
        }


def result_of(
    scenario: Scenario, profile: CostSource, replications: Sequence[Replication], draws: int
) -> Result:
    """Return the result of *replications*, the last *draws* of them at cost samples."""
    n_central = len(replications) - draws
    central, drawn = replications[:n_central], replications[n_central:]
    summaries = [r.summary for r in replications]
    estimates = estimates_of(
        {name: METRICS[name].of for name in MAIN}, summaries[:n_central], summaries[n_central:]
    )
    verdicts = sorted((r.summary.verdict for r in central), key=list(Verdict).index)
    return Result(
        scenario=scenario,
        profile=profile.name,
        replications=tuple(central),
        drawn=tuple(drawn),
        estimates=estimates,
        verdict=middle_verdict(verdicts),
        warnings=(
            *_warnings(scenario, profile, replications, verdicts),
            *far_p99(scenario, profile, estimates[BUSIEST].mean),
        ),
    )


def _warnings(
    scenario: Scenario,
    profile: CostSource,
    replications: Sequence[Replication],
    verdicts: Sequence[Verdict],
) -> list[str]:
    found = warnings_of(scenario, profile)
    takes_reference = any(r.engine == "reference" for r in replications)
    # A compiler missing here was reported before the first run; it may be missing on a cluster.
    if scenario.run.engine != "reference" and takes_reference and not why_no_engine():
        found.append(
            "the fast engine could not be compiled, so runs used the reference engine: equal "
            "results, about 200 times slower. Run it with --engine fast to see why"
        )
    found += reasons([r.summary for r in replications[: len(verdicts)]])
    if verdicts[-1] is Verdict.STRANDED:
        found.append(_who_is_stranded(scenario, replications))
    if not scenario.is_random and scenario.run.replications > 1:
        found.append(
            "nothing in this scenario is random, so it has one replication and no interval over "
            "replications"
        )
    return found


def _who_is_stranded(scenario: Scenario, replications: Sequence[Replication]) -> str:
    runs = [r for r in replications if r.summary.verdict is Verdict.STRANDED]
    counts = runs[0].summary.stranded
    waits = ", ".join(f"{n} to {word}" for word, n in counts.items() if n > 0)
    return (
        f"{len(runs)} of {len(replications)} runs have stranded connections (in the first: "
        f"{waits}): {scenario.server.mechanism} is never notified of their events"
    )


def reasons(summaries: Sequence[Summary]) -> list[str]:
    """Return the reasons for the verdicts of runs at central costs, and their caveats."""
    found = []
    if failed := [summary for summary in summaries if sum(summary.errors.values()) > 0]:
        found.append(_who_failed(failed))
    overloaded = [summary for summary in summaries if summary.verdict is Verdict.OVERLOADED]
    if any(not _fails(s) or s.fates["open"] > OVERLOADED_SHARE * s.offered for s in overloaded):
        found.append(
            "more requests were waiting at the end than at the beginning, or than had been served: "
            "the server falls behind and latencies grow with run length, or the run is too short "
            "(lengthen run.duration)"
        )
    rates = [summary.reply_rate_per_s for summary in summaries]
    if any(rate.min == 0 and rate.mean > _PAUSE_SEEN for rate in rates):
        found.append(
            "the server sent no reply for 100 ms or more: the percentiles include requests that "
            "waited through the stall"
        )
    return found


def _fails(summary: Summary) -> bool:
    """Return whether failed connections alone make the run overloaded."""
    return sum(summary.errors.values()) > OVERLOADED_SHARE * summary.offered


def _who_failed(failed: Sequence[Summary]) -> str:
    errors = Counter[str]()
    for summary in failed:
        errors.update(summary.errors)
    share = errors.total() / max(1, sum(summary.offered for summary in failed))
    kinds = ", ".join(f"{n} {word}" for word, n in errors.most_common() if n > 0)
    sentence = f"{share:.2%} of the requests failed ({kinds})"
    if sum(errors[word] for word in _OF_CLIENTS) > 0.5 * errors.total():
        return (
            f"{sentence}, most because clients ran out of descriptors or ports: this shows how "
            "long connections last, not the limit of the server"
        )
    if all(_fails(s) and s.cpu_busy < 1 - _IDLE_SHARE for s in failed):
        return f"{sentence}, but not for lack of CPU, which was {failed[0].cpu_busy:.0%} busy"
    return sentence


def estimates_of_each(
    names: Sequence[str],
    metrics: Mapping[str, Callable[[_Figures], float]],
    central: Sequence[Sequence[_Figures]],
    drawn: Sequence[Sequence[_Figures]],
) -> dict[str, dict[str, Estimate]]:
    """Return the metrics of the clients of each path, or of each class, by its name.

    Parameters
    ----------
    names:
        Names of the paths or classes.
    metrics:
        Name of a metric -> its computation for one path or class.
    central, drawn:
        Runs at central costs, and at cost samples: the values of each, in the order of *names*.
    """
    return {
        name: estimates_of(metrics, [run[i] for run in central], [run[i] for run in drawn])
        for i, name in enumerate(names)
    }


def replication_to_dict(replication: Replication) -> dict[str, Any]:
    """Return the metrics of one run as plain Python values."""
    return {
        "seed": replication.seed,
        "cost_draw": replication.draw,
        "engine": replication.engine,
        "summary": replication.summary.to_dict(),
    }


def part_to_dict(stop: StoppedJob) -> dict[str, Any]:
    """Return the partial result of a stopped run as plain Python values."""
    return {
        "format": "dispatchsim-part/2",
        "scenario": stop.job.scenario.to_dict(),
        "stopped_ns": stop.stopped_ns,
        "duration_ns": stop.job.scenario.run.duration,
        "replication": replication_to_dict(stop.part) if stop.part else None,
    }
