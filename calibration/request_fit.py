"""What no microbenchmark prices: the throughput of the server at its fit points gives it.

    fit point          one request a connection    ─► unpriced time of both together
    kept fit point     four requests a connection  ─► how much of it is of the connection
    of a mechanism     where a target has them     ─► the whole of that mechanism's requests

User code takes its part, and so does all that the microbenchmarks, alone on a quiet machine, do not
see of the kernel's work. Without runs of the kept fit point all of it counts as of the request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..models.simulate import simulate
from ..sim.costs import ApplicationCosts, Costs
from ..sim.metrics import summarise
from ..sim.units import SECOND_NS, round_ns
from .cost import Cost
from .cost_profile import Profile
from .cost_source import CostSource
from .cost_tables import CONNECTION, REQUEST
from .curve_fit import bootstrap
from .point_runs import settings_of, trace_for
from .points import KEPT_FIT_POINT, Point

REPLICATES = 200
"""Resamples of the rounds for an interval."""
SIMULATED_NS = 500_000_000
_WARM_UP_NS = 50_000_000
_TOLERANCE = 0.001  # of the throughput: a batch more or less in the window is as much
_MISFIT_SAID = 0.02
_TRIES_MAX = 12

Report = Callable[[str], None]


class RequestFit(NamedTuple):
    """The user code of a request, and the relative error of the throughput that it leaves."""

    request_ns: int
    misfit: float


def with_requests(
    profile: Profile,
    rates_per_s: Mapping[Point, Sequence[float]],
    *,
    simulated_ns: int = SIMULATED_NS,
    replicates: int = REPLICATES,
    seed: int = 1,
    say: Report = lambda _: None,
) -> Profile:
    """Return *profile* with what application code takes, as the throughput at fit points gives it.

    Parameters
    ----------
    profile:
        With all other costs.
    rates_per_s:
        Of the repeats of each fit point. The first point is for all mechanisms, KEPT_FIT_POINT
        says how much of that is of the connection, and others are for their own mechanisms.
    simulated_ns, replicates, seed, say:
        As of `fit_profile`.
    """
    tables = {name: dict(costs) for name, costs in profile.cost.items()}
    how = _How(simulated_ns, replicates, seed, say)
    for number, (point, rates) in enumerate(rates_per_s.items()):
        if point != KEPT_FIT_POINT:
            found = fit_request(profile, point, rates, how)
            tables[point.mechanism if number else "application"][REQUEST] = found
    if KEPT_FIT_POINT in rates_per_s:
        whole = tables["application"][REQUEST]
        tables["application"] |= share_out(profile, whole, rates_per_s[KEPT_FIT_POINT], how)
    return profile.model_copy(update={"cost": tables})


class _How(NamedTuple):
    simulated_ns: int
    replicates: int
    seed: int
    say: Report


def fit_request(profile: Profile, point: Point, rates_per_s: Sequence[float], how: _How) -> Cost:
    """Return request_ns at a fit point, with the interval that the repeats' spread gives it.

    At saturation a longer service time lengthens the time per reply by as much, so the interval
    of the measured time per reply is that of request_ns.
    """
    costs = profile.costs(point.mechanism, open_connections=point.idle + point.users)
    target_per_s = float(np.median(rates_per_s))

    def throughput_per_s(request_ns: int) -> float:
        priced = costs._replace(application=ApplicationCosts(request_ns))
        rate_per_s = simulated_rate_per_s(point, priced, profile, target_per_s, how.simulated_ns)
        how.say(
            f"request_ns {request_ns}: {rate_per_s:.0f}/s simulated, {target_per_s:.0f}/s measured"
        )
        return rate_per_s

    found = solve_request_ns(throughput_per_s, target_per_s)
    source = f"throughput of {point.label}, {len(rates_per_s)} runs"
    if abs(found.misfit) > _MISFIT_SAID:
        how.say(
            f"request_ns {found.request_ns}: misses its fit point by {found.misfit:+.1%}, no better"
        )
    if found.request_ns == 0 and found.misfit < -_TOLERANCE:
        source += f"; 0 is the least: simulated {-found.misfit:.1%} below the measured throughput"
    low_ns, high_ns = _spread_ns(rates_per_s, how)
    return whole_cost(
        found.request_ns,
        found.request_ns + low_ns,
        found.request_ns + high_ns,
        abs(found.misfit),
        source,
    )


def share_out(
    profile: Profile, whole: Cost, rates_per_s: Sequence[float], how: _How
) -> dict[str, Cost]:
    """Return what of the *whole* cost of one request on one connection is of which.

    With n requests a connection, a nanosecond that is of the connection is paid once for all n.
    """
    point = KEPT_FIT_POINT
    costs = profile.costs(point.mechanism, open_connections=point.idle + point.users)
    target_per_s = float(np.median(rates_per_s))
    whole_ns, share = int(whole.value[0]), 1 - 1 / point.requests
    connection_ns, best_ns, best = 0, 0, math.inf
    for _ in range(_TRIES_MAX):
        application = ApplicationCosts(whole_ns - connection_ns, connection_ns=connection_ns)
        rate_per_s = simulated_rate_per_s(
            point, costs._replace(application=application), profile, target_per_s, how.simulated_ns
        )
        how.say(
            f"connection_ns {connection_ns}: {rate_per_s:.0f}/s simulated, {target_per_s:.0f}/s "
            "measured"
        )
        misfit = rate_per_s / target_per_s - 1
        if abs(misfit) < abs(best):
            best_ns, best = connection_ns, misfit
        step_ns = (SECOND_NS / rate_per_s - SECOND_NS / target_per_s) / share
        next_ns = min(whole_ns, max(0, connection_ns + round_ns(step_ns)))
        if abs(misfit) <= _TOLERANCE or next_ns == connection_ns:
            break
        connection_ns = next_ns
    source = f"throughput of {point.label}, {len(rates_per_s)} runs"
    if abs(best) > _TOLERANCE and best_ns in (0, whole_ns):
        source += f"; {best_ns} is the most or least: simulated {best:+.1%} of the measured one"
    low_ns, high_ns = (end_ns / share for end_ns in _spread_ns(rates_per_s, how))
    ends_ns = (best_ns + low_ns, best_ns + high_ns)
    return {
        REQUEST: whole.model_copy(
            update={
                name: tuple(max(0.0, value - best_ns) for value in getattr(whole, name))
                for name in ("value", "low", "high")
            }
        ),
        CONNECTION: whole_cost(best_ns, *ends_ns, abs(best), source),
    }


def _spread_ns(rates_per_s: Sequence[float], how: _How) -> tuple[float, float]:
    """Return how far the ends of the interval of the time per reply lie from its median."""
    rates = np.array(rates_per_s)
    low, high = bootstrap(
        lambda drawn: [SECOND_NS / float(np.median(rates[drawn]))],
        len(rates),
        replicates=how.replicates,
        seed=how.seed,
        name="fit point",
    )
    per_reply_ns = SECOND_NS / float(np.median(rates))
    return min(0.0, low[0] - per_reply_ns), max(0.0, high[0] - per_reply_ns)


def solve_request_ns(throughput_per_s: Callable[[int], float], target_per_s: float) -> RequestFit:
    """Return the whole request_ns >= 0 at which *throughput_per_s* comes closest to its target.

    Each step corrects by the difference in time per reply, which is right for a saturated server,
    and halves the bracket where that leads out of it.
    """
    low, high = 0, None  # simulated too fast at low; too slow at high
    request_ns, best = 0, RequestFit(0, math.inf)
    for _ in range(_TRIES_MAX):
        rate_per_s = throughput_per_s(request_ns)
        misfit = rate_per_s / target_per_s - 1
        if abs(misfit) < abs(best.misfit):
            best = RequestFit(request_ns, misfit)
        if abs(misfit) <= _TOLERANCE or (request_ns == 0 and misfit < 0):
            break
        if misfit > 0:
            low = request_ns
        else:
            high = request_ns
        step_ns = SECOND_NS / target_per_s - SECOND_NS / rate_per_s
        request_ns += round_ns(step_ns) or int(math.copysign(1, step_ns))
        if high is not None and not low < request_ns < high:
            request_ns = (low + high) // 2
        if request_ns == low:
            break
    return best


def simulated_rate_per_s(
    point: Point, costs: Costs, machine: CostSource, expected_per_s: float, simulated_ns: int
) -> float:
    """Return the simulated throughput of a closed-loop *point* on the *machine* of a profile."""
    duration_ns = _WARM_UP_NS + simulated_ns
    settings = settings_of(
        point,
        warm_up_ns=_WARM_UP_NS,
        window_ns=simulated_ns,
        network_delay_ns=machine.network_delay_ns,
        kernel=machine.kernel,
    )._replace(sample_every_ns=0)
    n = point.users + math.ceil(2 * expected_per_s * duration_ns / SECOND_NS)
    while True:
        trace = trace_for(point, 0, duration_ns / SECOND_NS, rows=n)
        outcome = simulate(point.mechanism, trace, costs, settings)
        if outcome.intended_ns.size < n:
            return summarise(outcome).throughput_per_s
        n *= 2  # the trace ran out before the time did


def whole_cost(value: float, low: float, high: float, residual: float, source: str) -> Cost:
    """Return a cost of one value, of whole nanoseconds and none below 0."""
    low, high = max(0.0, float(round(low))), float(round(high))
    return Cost(
        at=(0,),
        value=(float(value),),
        low=(low,),
        high=(high,),
        residual=round(residual, 4),
        source=source,
    )
