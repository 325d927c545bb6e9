"""The CPU time that no microbenchmark covers, from the server's throughput at its fit points.

    fit point          one request a connection    ─► remaining time of both together
    kept fit point     four requests a connection  ─► the connection's share of it
    of a mechanism     if a target has them        ─► the remaining time of its requests

The remaining time is user code, and kernel work that microbenchmarks on a quiet machine do not
measure. Without runs of the kept fit point all of it counts per request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...models.simulate import simulate
from ...sim.figures.summary import Summary, summarise
from ...sim.load.streams import generator
from ...sim.state.costs import ApplicationCosts, Costs
from ...sim.state.units import SECOND_NS, round_ns
from ..points.point import Point
from ..profiles.cost import CONNECTION, DISPLACED, REQUEST, Cost, CostSource
from ..profiles.cost_profile import Profile
from ..running.preparation import open_connections, settings_at
from .curve_fit import bootstrap

REPLICATES = 200
"""The number of resamples of the rounds for an interval."""
SIMULATED_NS = 500_000_000
_WARM_UP_NS = 50_000_000
_TOLERANCE = 0.001  # of the throughput; a batch more or less in the window
_MISFIT_SAID = 0.02
_TRIES_MAX = 12
_DIVISIONS_MAX = 5
_SETTLED = 0.01
"""Change of the sum of both costs below which it counts as settled."""

Report = Callable[[str], None]


class RequestFit(NamedTuple):
    """The user code of a request, and the remaining relative error of the throughput."""

    request_ns: int
    misfit: float

    @property
    def side(self) -> str:
        """The error of the simulated throughput, as "8.3% too low"."""
        return f"{abs(self.misfit):.1%} too {'high' if self.misfit > 0 else 'low'}"


def with_requests(
    profile: Profile,
    rates_per_s: Mapping[Point, Sequence[float]],
    *,
    simulated_ns: int = SIMULATED_NS,
    replicates: int = REPLICATES,
    seed: int = 1,
    say: Report = lambda _: None,
    step: Report = lambda _: None,
    displaces: bool = True,
) -> Profile:
    """Return *profile* with the application's costs, fitted to the throughput at fit points.

    Of a machine whose clients are packets, the connection's cost becomes interrupt.displaced_ns.

    Parameters
    ----------
    profile:
        Profile with all other costs.
    rates_per_s:
        Throughputs of the repeats of each fit point. The first point is for all mechanisms. A later
        point with several requests a connection gives the connection's share. Others are for their
        own mechanisms.
    simulated_ns, replicates, seed, `say`, step:
        As in `fit_profile`.
    displaces:
        False: the connection's cost is application.connection_ns for every machine.
    """
    tables = {name: dict(costs) for name, costs in profile.cost.items()}
    tables["interrupt"].pop(DISPLACED, None)
    displaces = displaces and "ack_ns" in tables.get("client", {})
    how = FitSettings(simulated_ns, replicates, seed, say, step, displaces)
    for number, (point, rates) in enumerate(rates_per_s.items()):
        if number == 0 or point.load.requests == 1:
            found = fit_request(profile, point, rates, how)
            tables[point.server.mechanism if number else "application"][REQUEST] = found
    kept = next((point for point in list(rates_per_s)[1:] if point.load.requests > 1), None)
    if kept is not None:
        whole = tables["application"][REQUEST]
        tables["application"] |= _divided(profile, whole, kept, rates_per_s, how)
        if displaces:
            tables["interrupt"][DISPLACED] = tables["application"].pop(CONNECTION)
    return profile.model_copy(update={"cost": tables})


def _divided(
    profile: Profile,
    whole: Cost,
    kept: Point,
    rates_per_s: Mapping[Point, Sequence[float]],
    how: FitSettings,
) -> dict[str, Cost]:
    """Return the costs of a request and of a connection that meet both fit points.

    The division changes how many packets share an interrupt, and so the throughput. The sum is
    therefore fitted again with the latest division, until it changes by at most 1%.
    """
    first = next(iter(rates_per_s))
    shares = share_out(profile, whole, kept, rates_per_s, how)
    for _ in range(_DIVISIONS_MAX):
        total_ns = whole.value[0]
        of_connection = shares[CONNECTION].value[0] / max(1.0, total_ns)
        whole = fit_request(profile, first, rates_per_s[first], how, of_connection)
        shares = share_out(profile, whole, kept, rates_per_s, how)
        if abs(whole.value[0] - total_ns) <= _SETTLED * total_ns:
            break
    else:
        how.say("the costs of a request and of a connection do not meet both fit points")
    return shares


class FitSettings(NamedTuple):
    """Length of the simulation, resampling, and report functions; see `fit_profile`.

    With `displaces`, a connection's cost is interrupt.displaced_ns, not application.connection_ns.
    """

    simulated_ns: int
    replicates: int
    seed: int
    say: Report
    step: Report
    displaces: bool = False


def _simulating(
    profile: Profile, point: Point, target_per_s: float, how: FitSettings
) -> Callable[[int, int, str], float]:
    """Return the function (request_ns, connection_ns, name) that gives the throughput at *point*.

    It reports the throughput beside the measured one, under that name.
    """
    costs = profile.costs(point.server.mechanism, open_connections=open_connections(point))

    def rate_per_s(request_ns: int, connection_ns: int, name: str) -> float:
        if how.displaces:
            interrupt = costs.interrupt._replace(displaced_ns=connection_ns)
            priced = costs._replace(interrupt=interrupt, application=ApplicationCosts(request_ns))
        else:
            application = ApplicationCosts(request_ns, connection_ns=connection_ns)
            priced = costs._replace(application=application)
        found_per_s = simulated_rate_per_s(point, priced, profile, target_per_s, how.simulated_ns)
        how.step(f"{name}: {found_per_s:.0f}/s simulated, {target_per_s:.0f}/s measured")
        return found_per_s

    return rate_per_s


def fit_request(
    profile: Profile,
    point: Point,
    rates_per_s: Sequence[float],
    how: FitSettings,
    of_connection: float = 0.0,
) -> Cost:
    """Return request_ns at a fit point, with an interval from the spread of the repeats.

    *of_connection* is the share spent once per connection. Connections have one request here.

    At saturation a longer service time lengthens the time per reply equally. So request_ns has the
    interval of the measured time per reply.
    """
    target_per_s = float(np.median(rates_per_s))
    rate_per_s = _simulating(profile, point, target_per_s, how)

    def throughput_per_s(request_ns: int) -> float:
        connection_ns = round_ns(request_ns * of_connection)
        return rate_per_s(request_ns - connection_ns, connection_ns, f"request_ns {request_ns}")

    found = solve_request_ns(throughput_per_s, target_per_s)
    source = f"throughput of {point.label}, {len(rates_per_s)} runs"
    if abs(found.misfit) > _MISFIT_SAID:
        how.say(
            f"request_ns {found.request_ns}: the simulated throughput at the fit point is "
            f"{found.side}; no other request_ns is closer"
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
    profile: Profile,
    whole: Cost,
    point: Point,
    rates_per_s: Mapping[Point, Sequence[float]],
    how: FitSettings,
) -> dict[str, Cost]:
    """Divide the *whole* cost of one request on one connection between the two.

    With n requests a connection at *point*, the connection's cost is paid once for all n. Both
    intervals come from one resampling of the repeats of both points. Cost samples of a profile
    treat the two as independent.
    """
    target_per_s = float(np.median(rates_per_s[point]))
    whole_ns = int(whole.value[0])
    rate_per_s = _simulating(profile, point, target_per_s, how)

    def throughput_per_s(request_ns: int) -> float:
        own_ns = min(request_ns, whole_ns)
        connection_ns = whole_ns - own_ns
        return rate_per_s(
            own_ns, connection_ns, f"request {own_ns} ns, connection {connection_ns} ns"
        )

    found = solve_request_ns(throughput_per_s, target_per_s)
    request_ns = min(found.request_ns, whole_ns)
    connection_ns = whole_ns - request_ns
    source = f"throughput of {point.label}, {len(rates_per_s[point])} runs"
    if abs(found.misfit) > _MISFIT_SAID:
        how.say(
            f"kept connections: the simulated throughput at their fit point is "
            f"{found.side}; no other share is closer"
        )
        source += f"; no share meets it: simulated {found.misfit:+.1%} off the measured throughput"
    request, connection = _shared_spread_ns(point, rates_per_s, how)
    residual = max(abs(found.misfit), whole.residual)
    return {
        REQUEST: whole_cost(
            request_ns, request_ns + request[0], request_ns + request[1], residual, whole.source
        ),
        CONNECTION: whole_cost(
            connection_ns,
            connection_ns + connection[0],
            connection_ns + connection[1],
            residual,
            source,
        ),
    }


def _shared_spread_ns(
    kept: Point, rates_per_s: Mapping[Point, Sequence[float]], how: FitSettings
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of the intervals relative to the costs of a request and a connection.

    A saturated server's time per reply is request + connection at the first point, and request +
    connection / n at the other.
    """
    share = 1 - 1 / kept.load.requests
    first, others = (np.array(rates_per_s[point]) for point in (next(iter(rates_per_s)), kept))

    def resampled_ns(rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the difference of the time per reply from its median, by resample."""
        drawn = random.integers(rates.size, size=(how.replicates, rates.size))
        times_ns = SECOND_NS / np.median(rates[drawn], axis=1)
        return np.asarray(times_ns - SECOND_NS / np.median(rates), np.float64)

    random = generator(how.seed, "bootstrap fit points")
    whole_ns = resampled_ns(first)
    connection_ns = (whole_ns - resampled_ns(others)) / share
    return _ends(whole_ns - connection_ns), _ends(connection_ns)


def _ends(longer_ns: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the 95% percentile interval, extended to include 0."""
    low, high = np.quantile(longer_ns, (0.025, 0.975))
    return min(0.0, float(low)), max(0.0, float(high))


def _spread_ns(rates_per_s: Sequence[float], how: FitSettings) -> tuple[float, float]:
    """Return the ends of the interval of the time per reply relative to its median."""
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
    """Return the integer request_ns >= 0 whose *throughput_per_s* is closest to the target.

    Each step corrects by the difference in time per reply, which is exact for a saturated server. A
    step outside the bracket halves it instead.
    """
    low, high = 0, None  # too fast at low; too slow at high
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
    """Return the simulated replies/s of a closed-loop *point* on a profile's *machine*."""
    summary = simulated_summary(point, costs, machine, expected_per_s, simulated_ns)
    if point.load.requests == 1:
        return summary.throughput_per_s  # counted by clients
    return summary.calls["replies"] * SECOND_NS / summary.window_ns  # counted by the server


def simulated_summary(
    point: Point, costs: Costs, machine: CostSource, expected_per_s: float, simulated_ns: int
) -> Summary:
    """Return the summary of a closed-loop *point*, simulated on a profile's *machine*."""
    duration_ns = _WARM_UP_NS + simulated_ns
    asked = point.lasting(_WARM_UP_NS, simulated_ns)
    settings = settings_at(asked, machine.network_delay_ns, kernel=machine.kernel)
    settings = settings._replace(sample_every_ns=0)
    n = point.users + math.ceil(2 * expected_per_s / point.load.requests * duration_ns / SECOND_NS)
    while True:
        trace = point.trace(0, duration_ns / SECOND_NS, rows=n)
        outcome = simulate(point.server.mechanism, trace, costs, settings)
        if outcome.intended_ns.size < n:
            return summarise(outcome)
        n *= 2  # the trace ended before the run


def whole_cost(value: float, low: float, high: float, residual: float, source: str) -> Cost:
    """Return a constant cost in whole nanoseconds, at least 0."""
    low, high = max(0.0, float(round(low))), float(round(high))
    return Cost(
        at=(0,),
        value=(float(value),),
        low=(low,),
        high=(high,),
        residual=round(residual, 4),
        source=source,
    )
