"""Run a scenario over its replications, and mechanisms against each other.

    seeds ─► central costs ─► mean ± t interval      how much the arrivals decide
    draws ─► drawn costs   ─► 2.5 ... 97.5 %         how much the calibration leaves open

The two are different kinds of not knowing and stand side by side: more replications shrink the
first and never the second. Compared mechanisms meet the same arrivals and the same draws of the
costs (common random numbers), so differences are paired. Sentences under the table say why a
verdict is what it is, and what it hides (`reasons`).

Sources: Law 2015, "Simulation Modeling and Analysis", §9.4 (replications), §10.2 (paired t).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..calibration.profiles.cost_tables import CostSource
from ..calibration.running.compiling import Side, compile_engines
from ..calibration.running.preparation import (
    Job,
    Replication,
    StoppedJob,
    check_mechanisms,
    comparable,
    job_of,
    profile_of,
    rule_of,
    run_job,
    trace_of,
    warnings_of,
    with_engine,
)
from ..models.simulate import Engine
from ..scenario.errors import ScenarioError, UserError
from ..scenario.metrics import MAIN, METRICS
from ..scenario.scenario import Scenario, check_scenario
from ..scenario.sections import path_names
from ..sim.engine.c.library import why_no_engine
from ..sim.figures.metrics import OVERLOADED_SHARE, Summary, Verdict, middle_verdict
from ..sim.files.parallel import run_all
from .estimates import Estimate, estimate, path_estimates

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


_IDLE_SHARE = 0.1
"""Of the CPU: with more to spare it is not for want of CPU that clients fail."""
_PAUSE_SEEN = 200
"""Replies a second; of fewer an interval may have none by chance."""
_OF_CLIENTS = ("descriptors", "ports")


@dataclass(frozen=True, repr=False)
class Result:
    """What the simulator says of a scenario."""

    scenario: Scenario
    profile: str
    replications: tuple[Replication, ...]
    drawn: tuple[Replication, ...]
    estimates: dict[str, Estimate]
    verdict: Verdict
    warnings: tuple[str, ...]

    @property
    def engine(self) -> str:
        """What simulated: "fast" or "reference", or both."""
        return ", ".join(sorted({r.engine for r in (*self.replications, *self.drawn)}))

    @property
    def paths(self) -> dict[str, dict[str, Estimate]]:
        """What is said of the clients of each path, by its name: `metrics.OF_CONNECTIONS`."""
        names = path_names(self.scenario.path)
        central = [r.summary for r in self.replications]
        return path_estimates(names, central, [r.summary for r in self.drawn])

    @property
    def frame(self) -> pd.DataFrame:
        """One row a figure: its mean, and both intervals."""
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
        """Return plain Python values with all that is needed to run it again."""
        return {
            "format": "dispatchsim-result/2",
            "version": version("dispatchsim"),
            "engine": self.engine,
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "seeds": [r.seed for r in self.replications],
            "cost_draws": len(self.drawn),
            "verdict": str(self.verdict),
            "warnings": list(self.warnings),
            "estimates": {name: estimate.to_dict() for name, estimate in self.estimates.items()},
            "paths": {
                name: {figure: known.to_dict() for figure, known in figures.items()}
                for name, figures in self.paths.items()
            },
            "replications": [replication_to_dict(r) for r in (*self.replications, *self.drawn)],
        }


@dataclass(frozen=True, repr=False)
class Comparison:
    """Mechanisms under one scenario; `differences` are paired, each less the baseline's."""

    baseline: str
    results: dict[str, Result]
    differences: dict[str, dict[str, Estimate]]

    @property
    def frame(self) -> pd.DataFrame:
        """One row a mechanism and figure: mean, intervals, and the difference from the baseline."""
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
        """Return the picture: *figure* of each mechanism, with its interval."""
        from .pictures import comparison_figure

        warnings = dict.fromkeys(w for result in self.results.values() for w in result.warnings)
        values = {name: result.estimates[figure] for name, result in self.results.items()}
        return comparison_figure(values, figure, warnings=list(warnings))

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


def replication_to_dict(replication: Replication) -> dict[str, Any]:
    """Return the figures of one run as plain Python values."""
    return {
        "seed": replication.seed,
        "cost_draw": replication.draw,
        "engine": replication.engine,
        "summary": replication.summary.to_dict(),
    }


def part_to_dict(stop: StoppedJob) -> dict[str, Any]:
    """Return what is known of a run that was stopped, as plain Python values."""
    return {
        "format": "dispatchsim-part/2",
        "scenario": stop.job.scenario.to_dict(),
        "stopped_ns": stop.stopped_ns,
        "duration_ns": stop.job.scenario.run.duration,
        "replication": replication_to_dict(stop.part) if stop.part else None,
    }


Keep = Callable[[str, Replication], None]
Progress = Callable[[int, int], None]


def run(
    scenario: Scenario,
    *,
    profile: CostSource | None = None,
    draws: int = 0,
    engine: Engine | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> Result:
    """Return what the simulator says of *scenario*.

    Parameters
    ----------
    scenario:
        What is run, under each of its seeds.
    profile:
        What things cost; None: what the scenario names.
    draws:
        Further runs at costs drawn from what the calibration leaves open; 0: no such interval.
    engine:
        "fast", "reference" or "auto"; None: what the scenario says. The figures are the same.
    executor:
        Where runs are simulated; None: here, one after the other.
    progress:
        Called with (runs done, runs in all) as runs end.
    keep:
        Called with (mechanism, replication) as runs end.

    Raises
    ------
    ScenarioError, ProfileError, TraceError
        If the scenario cannot be run.
    """
    check_scenario(scenario)
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


def compare(
    scenario: Scenario,
    mechanisms: Sequence[str] | None = None,
    *,
    profile: CostSource | None = None,
    draws: int = 0,
    engine: Engine | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> Comparison:
    """Return what the simulator says of *scenario* under each of *mechanisms*.

    The first one is the baseline of the differences; by default they are all that can serve the
    scenario and that the profile prices, its own first. The other parameters are those of `run`.
    """
    check_scenario(scenario)
    if draws < 0:
        raise UserError(f"draws must be at least 0, got {draws}")
    profile = profile or profile_of(scenario)
    if mechanisms is None:
        mechanisms, _ = comparable(scenario, profile)
    scenario = with_engine(scenario, engine)
    variants = variants_of(scenario, mechanisms)
    jobs = [job for variant in variants.values() for job in _jobs(variant, profile, draws)]
    if executor is not None:
        side, asked = Side.of(scenario), scenario.run.engine
        compile_engines(mechanisms, profile, side=side, engine=asked)
    done: list[Replication | None] = [None] * len(jobs)
    for n_done, (index, replication) in enumerate(run_all(run_job, jobs, executor), start=1):
        done[index] = replication
        if keep:
            keep(jobs[index].scenario.server.mechanism, replication)
        if progress:
            progress(n_done, len(jobs))
    results = {}
    n_each = len(jobs) // len(variants)
    for i, (name, variant) in enumerate(variants.items()):
        part = [r for r in done[i * n_each : (i + 1) * n_each] if r is not None]
        results[name] = _result(variant, profile, part, draws)
    baseline = mechanisms[0]
    differences = {
        name: _differences(result, results[baseline])
        for name, result in results.items()
        if name != baseline
    }
    return Comparison(baseline, results, differences)


def variants_of(scenario: Scenario, mechanisms: Sequence[str]) -> dict[str, Scenario]:
    """Return *scenario* with each of *mechanisms*; all that can be wrong is found here.

    Raises
    ------
    UserError
        If a mechanism is unknown, named twice or cannot serve the scenario.
    ScenarioError, TraceError, OSError
        If the scenario's trace file cannot be used.
    """
    check_mechanisms(mechanisms)
    if scenario.load.trace is not None:
        trace_of(scenario, scenario.run.seed, rows=1)
    found = {}
    for name in mechanisms:
        try:
            found[name] = scenario.with_values(server={"mechanism": name})
        except ScenarioError as error:
            raise UserError(f"{name} cannot serve this scenario: {rule_of(error)}") from None
    return found


def _jobs(scenario: Scenario, profile: CostSource, draws: int) -> list[Job]:
    """Return the runs of a scenario: the central ones by seed, then one for each draw."""
    seeds = scenario.seeds
    central = [job_of(scenario, profile, seed) for seed in seeds]
    drawn = [job_of(scenario, profile, seeds[i % len(seeds)], draw=i) for i in range(draws)]
    return central + drawn


def _result(
    scenario: Scenario, profile: CostSource, replications: list[Replication], draws: int
) -> Result:
    n_central = len(replications) - draws
    central, drawn = replications[:n_central], replications[n_central:]
    estimates = {
        name: estimate(
            [METRICS[name].of(r.summary) for r in central],
            [METRICS[name].of(r.summary) for r in drawn],
            least=0,
        )
        for name in MAIN
    }
    verdicts = sorted((r.summary.verdict for r in central), key=list(Verdict).index)
    return Result(
        scenario=scenario,
        profile=profile.name,
        replications=tuple(central),
        drawn=tuple(drawn),
        estimates=estimates,
        verdict=middle_verdict(verdicts),
        warnings=tuple(_warnings(scenario, profile, replications, verdicts)),
    )


def _warnings(
    scenario: Scenario,
    profile: CostSource,
    replications: Sequence[Replication],
    verdicts: Sequence[Verdict],
) -> list[str]:
    found = warnings_of(scenario, profile)
    takes_reference = any(r.engine == "reference" for r in replications)
    # What is missing here was said before the first run; on a cluster it may be missing there.
    if scenario.run.engine != "reference" and takes_reference and not why_no_engine():
        found.append(
            "the fast engine could not be compiled, so runs took the reference engine, with equal "
            "results and some 200 times slower: run it with --engine fast to see why"
        )
    found += reasons([r.summary for r in replications[: len(verdicts)]])
    if verdicts[-1] is Verdict.STRANDED:
        found.append(_who_is_stranded(scenario, replications))
    if not scenario.is_random and scenario.run.replications > 1:
        found.append(
            "nothing in this scenario is random, so one replication was run and "
            "there is no interval over replications"
        )
    return found


def _who_is_stranded(scenario: Scenario, replications: Sequence[Replication]) -> str:
    runs = [r for r in replications if r.summary.verdict is Verdict.STRANDED]
    counts = runs[0].summary.stranded
    waits = ", ".join(f"{n} to {word}" for word, n in counts.items() if n > 0)
    return (
        f"in {len(runs)} of {len(replications)} runs connections are stranded: "
        f"{scenario.server.mechanism} will never hear of an event that they wait for; "
        f"in the first of these runs it would have to tell of connections {waits}"
    )


def _differences(result: Result, baseline: Result) -> dict[str, Estimate]:
    """Return the paired differences of each figure, run by run of equal seed and draw."""

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


def reasons(summaries: Sequence[Summary]) -> list[str]:
    """Return what to know of the verdicts of runs at central costs."""
    found = []
    if failed := [summary for summary in summaries if sum(summary.errors.values()) > 0]:
        found.append(_who_failed(failed))
    overloaded = [summary for summary in summaries if summary.verdict is Verdict.OVERLOADED]
    if any(not _fails(s) or s.fates["open"] > OVERLOADED_SHARE * s.offered for s in overloaded):
        found.append(
            "more connections were left unanswered at the end than at the beginning: the server "
            "falls behind and latencies say how long the run was, or the run is too short to "
            "tell (lengthen run.duration)"
        )
    rates = [summary.reply_rate_per_s for summary in summaries]
    if any(rate.min == 0 and rate.mean > _PAUSE_SEEN for rate in rates):
        found.append(
            "for some time nobody was answered (lowest reply rate 0/s): quantiles hold who "
            "waited meanwhile, and the verdict says how it ended"
        )
    return found


def _fails(summary: Summary) -> bool:
    """Return whether failed connections make an overload by themselves."""
    return sum(summary.errors.values()) > OVERLOADED_SHARE * summary.offered


def _who_failed(failed: Sequence[Summary]) -> str:
    errors = Counter[str]()
    for summary in failed:
        errors.update(summary.errors)
    share = errors.total() / max(1, sum(summary.offered for summary in failed))
    kinds = ", ".join(f"{n} {word}" for word, n in errors.most_common() if n > 0)
    sentence = f"{share:.2%} of the connections failed ({kinds})"
    if sum(errors[word] for word in _OF_CLIENTS) > 0.5 * errors.total():
        return (
            f"{sentence}: most of them for want of descriptors or ports of the clients, which "
            "says how long connections last, not what the server can do"
        )
    if all(_fails(s) and s.cpu_busy < 1 - _IDLE_SHARE for s in failed):
        return f"{sentence}, and not for want of CPU: {failed[0].cpu_busy:.0%} of it was busy"
    return sentence
