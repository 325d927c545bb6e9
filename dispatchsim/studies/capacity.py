"""Capacity: the load, or the number of idle connections, up to which a service meets its objective.

    searches (studies/searching.py) ─► the load of each ─► 90% of further searches ─┐
    past forecast errors (studies/past_errors.py) ─► the load with each error ──────┴─► one interval

Each replication is one search with its own seed and its own cost sample, so the spread of searches
holds random arrivals and calibration. It does not hold errors of the model: the answer is centred
on the median of past forecast errors, and as wide as the wider of the two intervals.

Source: Hahn and Meeker 1991, §4.7 (prediction interval; of logarithms, as loads are ratios).
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.compiling import Side, compile_engines
from ..calibration.running.preparation import profile_of, warnings_of, with_engine
from ..models.simulate import Engine
from ..scenario.errors import ScenarioError, UserError
from ..scenario.formats import number_text, share_text
from ..scenario.metrics import METRICS
from ..scenario.percentiles import percentile_of
from ..scenario.quantities import DURATION
from ..scenario.scenario import Scenario, check_scenario
from ..scenario.sections import LENGTH_MAX
from ..sim.output_analysis.interval import prediction_interval
from ..validation.scoring.error_files import misses_for
from ..validation.scoring.misses import LEVEL, Known, Miss
from .axis import RATE_FIELD, Axis, axis_of
from .objective import Objective, read_objective
from .past_errors import PastErrors, mostly_work, past_errors, unlike_past
from .rows import Found, Search, Tried
from .searching import FALLS_BEHIND, RUNS_MAX, SearchTask, Simulating, kept_above, search_all
from .stated import most_per_s
from .waiting import BUSIEST, bottleneck

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..store.store import Store

PRECISION = 0.02
"""Relative width at which a search ends."""
_SEARCHES_MIN = 5
"""For an interval: with fewer searches Student's t is too wide to be useful."""
_ABOVE_MOST = 1.1
"""A run of a second may bear this factor of the load at which all CPU time is the application's."""


@dataclass(frozen=True, repr=False)
class Capacity:
    """The answer: the objective is first violated between `low` and `high`.

    With five searches or more this is a 90% interval. The first search runs at central costs, each
    other at a cost sample. Where a search ended at a limit, the range is open on that side (0 or
    infinity).
    """

    scenario: Scenario
    profile: str
    objective: Objective
    axis: Axis
    searches: tuple[Search, ...]
    past: PastErrors | None
    warnings: tuple[str, ...]

    @property
    def simulated(self) -> tuple[float, float]:
        """The 90% interval of a further search; with few searches, the range of these."""
        low = min(s.low for s in self.searches)
        high = max(s.high for s in self.searches)
        # The first one runs at central costs, so it is not one of the cost samples.
        middles = [math.log(s.middle) for s in self.searches[1:] if s.middle > 0]
        are_all = all(s.found is Found.BETWEEN for s in self.searches)
        if not are_all or len(middles) < _SEARCHES_MIN - 1:
            return low, high
        first, last = prediction_interval(middles, LEVEL)
        return min(low, math.exp(first)), self._possible(max(high, math.exp(last)))

    @property
    def range(self) -> tuple[float, float]:
        """The 90% interval of the load that violates the objective, past errors included."""
        low, high = self.simulated
        if self.past is None:
            return low, high
        moved = self.past.middle / self.typical or 1.0
        low, high = min(moved * low, self.past.low), max(moved * high, self.past.high)
        return self._possible(low), self._possible(high)

    @property
    def most(self) -> float:
        """The load at which the application alone takes all CPUs; infinite if nothing shows it.

        A server that turns requests away may take more: then a search ends well above it. One that
        ends a little above it only shows that a run is too short for a queue to grow.
        """
        most = most_per_s(self.scenario) if self.axis.field == RATE_FIELD else math.inf
        is_limit = all(s.low <= _ABOVE_MOST * most for s in self.searches)
        return most if is_limit else math.inf

    def _possible(self, load: float) -> float:
        """Return *load*, or `most` if the application's work permits no more."""
        return load if math.isinf(load) else min(load, self.most)

    @property
    def low(self) -> float:
        """The load up to which the objective is met in all likelihood."""
        return self.range[0]

    @property
    def high(self) -> float:
        """The load from which it is violated in all likelihood."""
        return self.range[1]

    @property
    def centre(self) -> float | None:
        """The load at which a typical search ended, moved by past errors; None if at a limit."""
        if self.searches[0].found is not Found.BETWEEN:
            return None
        return self.typical if self.past is None else self._possible(self.past.middle)

    @property
    def typical(self) -> float:
        """The median load at which the searches ended: the arrivals of one may be unusual."""
        return typical_load(self.searches)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        kinds = {s.found for s in self.searches}
        objective = str(self.objective)
        holds = "hold" if len(self.objective.clauses) > 1 else "holds"
        low, high = self.range
        if kinds == {Found.ALWAYS_BROKEN}:
            return f"{objective} {holds} at no load: {self._at_least_load}"
        if kinds == {Found.NEVER_BROKEN}:
            text = f"{objective} {holds} up to {self._load_text(low)}, the highest possible"
            if self.axis.field in ("machine.cpus", "server.workers"):
                text += (
                    f" (`dispatchsim sweep --vary {self.axis.field}=1,2,4,8` shows how few suffice)"
                )
        elif low == 0 and math.isinf(high):
            text = f"the load that violates {objective} is unknown"
        elif low == 0:
            text = f"{objective} {holds} up to {self._load_text(high)} at most"
        elif math.isinf(high):
            text = f"{objective} {holds} up to {self._load_text(low)} at least"
        else:
            text = f"{objective} {holds} up to {self._between(low, high)}"
        if Found.OUT_OF_BUDGET in kinds:
            text += f" (a search stopped early, after {RUNS_MAX} runs or at its time limit)"
        elif len(self.searches) < _SEARCHES_MIN and kinds == {Found.BETWEEN}:
            n = len(self.searches)
            ended = "1 search" if n == 1 else f"{n} searches"
            needed = f"an interval needs --replications {_SEARCHES_MIN}"
            text += f" (range of {ended}; {needed}{self._may_be_lower})"
        elif kinds == {Found.BETWEEN}:
            text += f" ({LEVEL:.0%} interval{self._may_be_lower})"
        return text + self._full + self._today

    @property
    def _may_be_lower(self) -> str:
        """What is not simulated on several CPUs, as the end of a bracket."""
        several = self.scenario.machine.cpus > 1
        return "; contention between CPUs may lower it" if several else ""

    def _between(self, low: float, high: float) -> str:
        """Return an interval of loads in words."""
        ends = f"between {self._number(low)} and {self._number(high)}"
        if self.axis.field == RATE_FIELD:
            return f"a load {ends} {self._noun}"
        if self.axis.field == "idle.connections":
            return f"{ends} {self._noun}"
        return f"a value of {self.axis.field} {ends}"

    def _load_text(self, load: float) -> str:
        """Return a load with its unit in words."""
        if self.axis.field in (RATE_FIELD, "idle.connections"):
            return f"{self._number(load)} {self._noun}"
        return f"{self.axis.field} = {self._number(load)}"

    def _number(self, load: float) -> str:
        """Return a load without its unit, or a value as the scenario has it."""
        if self.axis.field == RATE_FIELD:
            return number_text(load)
        if self.axis.field == "idle.connections":
            return number_text(load, trim=True)
        return self.axis.text(load)

    @property
    def _noun(self) -> str:
        if self.axis.field == "idle.connections":
            return "idle connections"
        has_requests = self.scenario.load.connections is not None or self.scenario.has_one_request
        return "requests/s" if has_requests else "connections/s"

    @property
    def _full(self) -> str:
        """The link or backend that is full at the load found, as part of a sentence."""
        central = self.searches[0]
        tried = central.tried.get(central.low)
        if central.found is not Found.BETWEEN or tried is None:
            return ""
        busy = bottleneck(self.scenario, tried.figures)
        return f", where {busy}" if busy else ""

    @property
    def _today(self) -> str:
        """The CPU that the scenario's own load uses, as the end of a sentence."""
        begin = self.axis.begin
        tried = self.searches[0].tried.get(begin)
        if tried is None:
            return ""
        now = f". With {self._load_text(begin)}, as in the scenario,"
        if tried.broken is not None:
            return f"{now} {_why(self.objective, tried)}"
        used = share_text(tried.figures[BUSIEST])
        cpu = "the CPU" if self.scenario.machine.cpus == 1 else "the busiest CPU"
        steady = self.scenario.load.arrivals in {"poisson", "constant"}
        mean = "" if steady else " on average"
        return f"{now} {cpu} is {used} busy{mean}"

    @property
    def _at_least_load(self) -> str:
        """Why the lowest load violates the objective, as the end of a sentence."""
        tried = self.searches[0].tried
        least = min(tried)
        if self.axis.field == RATE_FIELD:
            at = f"on an idle server ({self.axis.text(least)})"
        else:
            at = f"even with {self._load_text(least)}"
        return f"{at} {_why(self.objective, tried[least])}{self._slow_backend(tried[least])}"

    def _slow_backend(self, tried: Tried) -> str:
        """Name the backend's delay if it exceeds the bound alone, as the end of a sentence."""
        clause, backend = self.objective.broken_by(tried.figures), self.scenario.backend
        percentile = percentile_of(clause.name) if clause else None
        if clause is None or percentile is None:
            return ""
        key, delay_ns = "delay", backend.delay
        if backend.delay_spread != "constant":
            # Lower percentiles of a spread may be below its mean.
            key, delay_ns = "delay_p99", backend.delay_p99 if float(percentile.rank) >= 99 else None
        if delay_ns is None or delay_ns < clause.bound:
            return ""
        return f"; backend.{key} alone is {DURATION.format(delay_ns)}"

    @property
    def reckoning(self) -> list[str]:
        """The parts of the answer, one sentence each; none if a search ended at a limit."""
        if self.centre is None:
            return []
        low, high = map(number_text, self.simulated)
        simulated = f"simulated: {self.axis.text(self.typical)} ({LEVEL:.0%}: {low} ... {high})"
        if self.past is None:
            return [f"{simulated}; no past forecast errors are known"]
        corrected = f"corrected by past forecast errors: {self.axis.text(self.centre)}"
        found = [f"{simulated}; {corrected}", *self.past.sentences]
        if self.high == self.most < math.inf:
            found.append(
                f"the interval ends at {self.axis.text(self.most)}, where the application alone "
                "takes all CPUs"
            )
        return found

    @property
    def frame(self) -> pd.DataFrame:
        """One row for each load tried."""
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
        """Return the picture: loads tried, the bound, and the answer shaded."""
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
            "format": "dispatchsim-capacity/3",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "objective": str(self.objective),
            "of": self.axis.field,
            "answer": self.sentence,
            "low": low,
            "centre": self.centre,
            "high": high,
            "simulated": list(self.simulated),
            "past_errors": None if self.past is None else _past_to_dict(self.past),
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


def typical_load(searches: Sequence[Search]) -> float:
    """Return the median load at which the *searches* ended that ended between two loads."""
    middles = [s.middle for s in searches if s.found is Found.BETWEEN]
    return median(middles) if middles else searches[0].middle


def _lower_limits(past: PastErrors) -> str:
    """Return the warning on past errors of which only the least size is known."""
    text = (
        f"in {past.n_least} of {past.allowed.n} past comparisons p99 did not exceed the bound at "
        "the measured rates, measured or forecast: only the least size of these errors is known"
    )
    if not past.n_too_high:
        return f"{text}, so the interval may be too narrow"
    return (
        f"{text}. In {past.n_too_high} of them the forecast load was too high by at least that "
        "size, so the lower end of the interval may be too high"
    )


def _why(objective: Objective, tried: Tried) -> str:
    """Return why a load violates the objective, as the end of a sentence."""
    clause = next((c for c in objective.clauses if str(c) == tried.broken), None)
    if clause is None:
        return FALLS_BEHIND
    return f"{clause.name} is {METRICS[clause.figure].text(tried.figures[clause.figure])}"


def _past_to_dict(past: PastErrors) -> dict[str, Any]:
    return {
        "metric": "load_at_which_p99_breaks" if past.knee_ns else past.figure,
        "p99_bound_ns": past.knee_ns or None,
        "n_known_at_least": past.n_least,
        "of_other_machines": past.is_of_others,
        "errors": past.allowed._asdict(),
        "low": past.low,
        "middle": past.middle,
        "high": past.high,
        "stated_share": past.stated,
    }


def capacity(
    scenario: Scenario,
    objective: Objective | str,
    *,
    of: str = RATE_FIELD,
    misses: Sequence[Miss] | Known | None = None,
    profile: Profile | None = None,
    replications: int = 6,
    precision: float = PRECISION,
    seconds_max: float = 300.0,
    engine: Engine | None = None,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Capacity:
    """Return the interval of loads in which *scenario* first violates *objective*.

    Parameters
    ----------
    scenario:
        The search begins at its own value of the field.
    objective:
        Such as "p99 < 50 ms and errors < 0.1%".
    of:
        The field that grows: load.rate, idle.connections, or another number.
    misses:
        Past forecast errors of that machine; None: the shipped ones. A sequence of `Miss` holds
        no errors of the load at which p99 exceeds a bound; a `Known` may.
    profile:
        The costs; None: the profile that the scenario names.
    replications:
        Number of searches: the first at central costs, each other at a cost sample.
    precision:
        Relative width at which a search ends.
    seconds_max:
        Wall time limit of each search; at the limit it returns the range so far.
    store:
        Runs that it holds are not simulated again; every finished run is added.
    engine, executor:
        As for `running.run`.
    progress:
        Called with the number of searches that have ended, and of all.

    Raises
    ------
    ScenarioError, ProfileError
        If the scenario has no rate or cannot be run.
    UserError
        If the objective or field cannot be read, or a higher value of the field helps.
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
                f"objective: must have upper bounds only, such as p99 < 50 ms: the search raises "
                f"the load until a bound is exceeded, got {clause}"
            )
    profile = profile or profile_of(scenario)
    if executor is not None:
        side, asked = Side.of(scenario), scenario.run.engine
        compile_engines([scenario.server.mechanism], profile, side=side, engine=asked)
    known, told = misses_for(profile, misses)
    where = Simulating(store, executor)

    def ended(n: int) -> None:
        if progress:
            progress(n, replications)

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
    (central,) = search_all([first], where)
    if central.found is Found.ALWAYS_BROKEN and of != RATE_FIELD:
        far = kept_above(first, where)
        if far is not None:
            least, most = axis.text(min(central.tried)), axis.text(far)
            raise UserError(
                f"of {of}: must be a field whose higher values violate {wanted}, but higher values "
                f"help: {most} meets it, {least} does not (`tune --vary {of}={least},{most}` "
                "compares values)"
            )
    ended(1)
    # The others begin where the first one ended, with steps as wide as a search may end: most
    # take two to four runs instead of twelve.
    begin = central.low or central.high
    others = [
        first._replace(seed=first.seed + i, draw=i - 1, begin=begin, growth=1 + precision)
        for i in range(1, replications)
    ]
    searches = (central, *search_all(others, where, lambda n: ended(1 + n)))
    past = past_errors(first, central, known, where)
    if past is not None:
        past = past.of_loads(typical_load(searches) / central.middle)
    answer = Capacity(scenario, profile.name, wanted, axis, searches, past, ())
    furthest = min(answer.high, max(x for s in searches for x in s.tried))
    warnings = [*warnings_of(axis.at(scenario, furthest), profile), *profile.machine_warnings]
    if past is not None:
        warnings += [*told, *unlike_past(scenario), *mostly_work(past.stated)]
        if past.n_least:
            warnings.append(_lower_limits(past))
    elif central.found is Found.BETWEEN:
        warnings.append(
            "the interval leaves out past forecast errors: too few are known of this metric for a "
            f"{LEVEL:.0%} interval. It has random arrivals and uncertain costs only"
        )
        if scenario.machine.cpus > 1:
            warnings += unlike_past(scenario)
    return dataclasses.replace(answer, warnings=tuple(warnings))


def _check_window(scenario: Scenario, objective: Objective) -> None:
    window_ns = scenario.run.duration - scenario.run.warm_up
    for clause in objective.clauses:
        least_ns = 10 * clause.bound
        if percentile_of(clause.name) is None or window_ns >= least_ns:
            continue
        if scenario.run.warm_up + least_ns > DURATION.parse(LENGTH_MAX):
            raise UserError(
                f"objective: {clause.name}: the bound is too large: a run lasts {LENGTH_MAX} at "
                "most and needs ten times the bound after the warm-up, "
                f"got {DURATION.format(clause.bound)}"
            )
        raise ScenarioError(
            f"run.duration: must leave {DURATION.format(least_ns)} (ten times the bound on "
            f"{clause.name}) after the warm-up, but leaves {DURATION.format(window_ns)}: try --set "
            f"'run.duration={DURATION.format(scenario.run.warm_up + least_ns)}'"
        )
