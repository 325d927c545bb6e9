"""From fit runs to forecasts of everything else, and those beside what was measured.

    fit.jsonl ──► fit_application ──► profile ─┐
    calls.jsonl ─► changes of interest ────────┴─► profile of a back end ─► forecasts ─┐
    heldout.jsonl ─────────────────────────────────────────────────────────────────────┴─► Compared

Held-out runs are looked at only where forecasts stand beside them: median and worst error, and the
order wherever measured ranges separate.

A request may change what the server waits for: libevent's evhttp takes its connection off and puts
it back. With epoll each change is a call, and the fit counts it as the request's own; poll and
select have the change for nothing. So it is taken off the request where the back end is another.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ...calibration.fit.request_fit import SIMULATED_NS
from ...calibration.observed.application_fit import ApplicationFit, fit_application
from ...calibration.observed.observed_run import ObservedRun
from ...calibration.observed.operating_point import point_of
from ...calibration.points.point import Point
from ...calibration.profiles.cost import REQUEST, Cost
from ...calibration.profiles.cost_profile import Profile
from ..forecast.forecast import Forecast, Request, forecasts, lengths_of
from .plan import Case

EPOLL = "epoll"
LEVEL = "epoll_level"
DRAWS = 20
_CHANGES = {"ADD": "add_ns", "MOD": "modify_ns", "DEL": "delete_ns"}


@dataclass(frozen=True)
class Forecasts:
    """What was said before anyone looked.

    Attributes
    ----------
    fit:
        To the fit runs.
    changes_ns:
        CPU time of a request that its changes of interest take at the fitted back end.
    of_case:
        By case.
    """

    fit: ApplicationFit
    changes_ns: int
    of_case: Mapping[Case, Forecast]


def forecast_all(
    machine: Profile,
    cases: Sequence[Case],
    fit_runs: Sequence[ObservedRun],
    counted_runs: Sequence[ObservedRun],
    *,
    draws: int = DRAWS,
    simulated_ns: int = SIMULATED_NS,
) -> Forecasts:
    """Return the forecasts of all *cases* of one server, from what a fit may see of it.

    Parameters
    ----------
    machine:
        What calls cost where the runs were made.
    cases:
        To be forecast; those that are fitted, too.
    fit_runs, counted_runs:
        Of the fitted variant without idle connections, timed and traced.
    draws:
        As of `forecast`.
    simulated_ns:
        As of `fit_application`.

    Raises
    ------
    FitError
        If the fit runs do not tell what a request takes.
    """
    server = cases[0].server
    fit = fit_application(
        machine, fit_runs, server.fitted.habits, name=server.name, simulated_ns=simulated_ns
    )
    changes_ns = 0
    kept = max((case for case in cases if case.is_fitted), key=lambda case: case.requests)
    for run in counted_runs:
        if kept.is_of(run):
            changes_ns = round(changes_of_request_ns(fit.profile, run, kept))
    points = {case: point_of(case.asked, case.variant.habits) for case in cases}
    found: dict[Case, Forecast] = {}
    for is_epoll in (True, False):
        profile = fit.profile if is_epoll else without_changes(fit.profile, changes_ns)
        own = [
            case
            for case, point in points.items()
            if point.server.mechanism.startswith(EPOLL) == is_epoll
        ]
        requests = {case: _request(points[case], draws) for case in own}
        made = dict(forecasts(list(dict.fromkeys(requests.values())), profile))
        found |= {case: made[request] for case, request in requests.items()}
    return Forecasts(fit, changes_ns, found)


def _request(point: Point, draws: int) -> Request:
    return Request(point, (1,), draws, lengths_of(point))


def changes_of_request_ns(profile: Profile, run: ObservedRun, case: Case) -> float:
    """Return the CPU time of changes of interest for a request that no model makes, in ns.

    The models add a connection once and delete it once; what is beyond that is of its requests.
    """
    mechanism = case.variant.habits.mechanism
    if mechanism != LEVEL:
        return 0.0
    costs = profile.costs(mechanism, open_connections=case.load.users).mechanism
    n_accepted = run.calls.get("accept4", 0) + run.calls.get("accept", 0)
    total_ns = 0.0
    for operation, cost in _CHANGES.items():
        n_done = run.calls.get(f"epoll_ctl EPOLL_CTL_{operation}", 0)
        n_modelled = 0 if operation == "MOD" else n_accepted
        total_ns += max(0, n_done - n_modelled) * float(getattr(costs, cost))
    return total_ns / run.replied


def without_changes(profile: Profile, changes_ns: int) -> Profile:
    """Return *profile* with requests that take *changes_ns* less."""
    tables = {table: dict(costs) for table, costs in profile.cost.items()}
    cost = tables["application"][REQUEST]

    def less(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(max(0.0, value - changes_ns) for value in values)

    tables["application"][REQUEST] = Cost(
        at=cost.at,
        value=less(cost.value),
        low=less(cost.low),
        high=less(cost.high),
        residual=cost.residual,
        source=f"{cost.source}; less {changes_ns} ns of changes that only epoll is told of",
    )
    return profile.model_copy(update={"cost": tables})


@dataclass(frozen=True)
class Compared:
    """One case: replies a second of its undisturbed runs, and its forecast."""

    case: Case
    rates_per_s: tuple[float, ...]
    n_disturbed: int
    forecast: Forecast

    @property
    def measured_per_s(self) -> float:
        """Return the median of the repeats."""
        return statistics.median(self.rates_per_s)

    @property
    def forecast_per_s(self) -> float:
        """Return what was forecast."""
        return self.forecast.central.throughput_per_s

    @property
    def spread(self) -> float:
        """Return half the range of the repeats, relative to their median; NaN of a single run."""
        if len(self.rates_per_s) == 1:
            return math.nan
        return (max(self.rates_per_s) - min(self.rates_per_s)) / 2 / self.measured_per_s

    @property
    def error(self) -> float:
        """Return the relative error of the forecast capacity, + where it is too high."""
        return self.forecast_per_s / self.measured_per_s - 1


@dataclass(frozen=True)
class Summary:
    """Of the held-out cases of one server, or of all.

    Attributes
    ----------
    n_cases:
        That were measured.
    median, worst:
        Absolute relative errors of capacity; None without a case.
    noise:
        The median half range of the repeats, of cases with several; None without such a case.
    pairs, ordered:
        Pairs of cases of several repeats whose measured ranges separate, and those of them that
        are forecast in their order.
    """

    n_cases: int
    median: float | None
    worst: float | None
    noise: float | None
    pairs: int
    ordered: int


def compared(
    forecasts: Mapping[Case, Forecast],
    runs: Iterable[ObservedRun],
    cases: Sequence[Case],
) -> list[Compared]:
    """Return each of *cases* that was measured without disturbance, beside its forecast."""
    found = []
    everything = list(runs)
    for case in cases:
        own = [run for run in everything if case.is_of(run)]
        rates = tuple(run.throughput_per_s for run in own if run.accepted)
        if rates:
            n_disturbed = len(own) - len(rates)
            found.append(Compared(case, rates, n_disturbed, forecasts[case]))
    return found


def summary(entries: Iterable[Compared]) -> Summary:
    """Return how well the held-out ones of *entries* were forecast."""
    held_out = [e for e in entries if not e.case.is_fitted]
    errors = [abs(e.error) for e in held_out]
    spreads = [e.spread for e in held_out if not math.isnan(e.spread)]
    pairs = [pair for pair in combinations(held_out, 2) if _separate(*pair)]
    return Summary(
        n_cases=len(held_out),
        median=statistics.median(errors) if errors else None,
        worst=max(errors, default=None),
        noise=statistics.median(spreads) if spreads else None,
        pairs=len(pairs),
        ordered=sum(_in_order(*pair) for pair in pairs),
    )


def _separate(one: Compared, other: Compared) -> bool:
    """Return whether two cases that are alike but for their variant or idle count separate.

    A single run has no range: it would separate from everything.
    """
    return (
        one.case.server is other.case.server
        and one.case.requests == other.case.requests
        and min(len(one.rates_per_s), len(other.rates_per_s)) > 1
        and (
            min(one.rates_per_s) > max(other.rates_per_s)
            or min(other.rates_per_s) > max(one.rates_per_s)
        )
    )


def _in_order(one: Compared, other: Compared) -> bool:
    measured = one.measured_per_s - other.measured_per_s
    forecast = one.forecast_per_s - other.forecast_per_s
    return measured * forecast > 0
