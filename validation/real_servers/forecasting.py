"""From fit runs to forecasts of all other cases, and their errors.

    fit.jsonl ──► fit_application ──► profile ─┐
    calls.jsonl ─► changes of interest ────────┴─► profile of a back end ─► forecasts ─┐
    heldout.jsonl ─────────────────────────────────────────────────────────────────────┴─► Compared

Held-out runs are read only for the comparison: median and worst error, and the order where measured
ranges separate.

A request may change the set of watched descriptors: libevent's evhttp removes its connection and
adds it again. With epoll each change is a call, which the fit includes in the cost of the request.
With poll and select the change is free, so it is subtracted for these back ends.
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
    """The forecasts made before the held-out runs are read.

    Attributes
    ----------
    fit:
        The fit to the fit runs.
    changes_ns:
        CPU time of a request for changes of interest at the fitted back end.
    of_case:
        The forecast of each case.
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
    """Return the forecasts of all *cases* of one server, from its fit runs.

    Parameters
    ----------
    machine:
        The costs of the machine that made the runs.
    cases:
        The cases to forecast, including the fitted ones.
    fit_runs, counted_runs:
        Runs of the fitted variant without idle connections, timed and traced.
    draws:
        As of `forecast`.
    simulated_ns:
        As of `fit_application`.

    Raises
    ------
    FitError
        If the fit runs do not determine the cost of a request.
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
    """Return the CPU time per request, in ns, of changes of interest that no model makes.

    The models add and delete a connection once; further changes belong to its requests.
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
    """Return *profile* with *changes_ns* less for each request."""
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
        source=f"{cost.source}; less {changes_ns} ns of changes that are calls with epoll only",
    )
    return profile.model_copy(update={"cost": tables})


@dataclass(frozen=True)
class Compared:
    """One case: replies per second of its undisturbed runs, and its forecast."""

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
        """Return the forecast replies per second."""
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
    """The accuracy over the held-out cases of one server, or of all.

    Attributes
    ----------
    n_cases:
        The number of measured cases.
    median, worst:
        Absolute relative errors of capacity; None without a case.
    noise:
        The median half range of repeats, over cases with several; None without such a case.
    pairs, ordered:
        Pairs of cases with several repeats and separate measured ranges, and those of them that
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
    """Return each of *cases* that was measured without disturbance, with its forecast."""
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
    """Return the accuracy over the held-out *entries*."""
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
    """Return whether two cases differ in variant or idle count only, and separate.

    A single run has no range, so it would separate from everything.
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
