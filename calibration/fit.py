"""From raw results to a profile: microbenchmarks give all costs but one, the fit point gives that.

    micro.jsonl ─► medians ─► equations of the target     ─► costs ─┐
                      └─► resampled rounds ─► 95% intervals         ├─► profile
    flood.jsonl ─► prices of datagrams (datagram_costs.py) ─────────┤
    fit.jsonl ──► throughput at saturation ─► request_ns ───────────┘

The equations are in micro_costs.py, of the emulated target in emulated/counted_costs.py.
application.request_ns is what user code and everything unpriced take for a request: the value at
which the simulated fit point answers as many requests a second as the real one. It is the only
number that a profile takes from a run of the server, or where a target has a fit point for each
mechanism that the microbenchmarks price, one for each (select.request_ns, ...).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.simulate import simulate
from ..sim.costs import ApplicationCosts, Costs
from ..sim.metrics import summarise
from ..sim.units import SECOND_NS, round_ns
from .cost import Cost
from .cost_profile import Fact, Profile
from .cost_source import CostSource
from .cost_tables import REQUEST, unit_of
from .curve_fit import Floats, bootstrap
from .datagram_costs import SINCE, datagram_costs
from .emulated.counted_costs import counted_connections_max, counted_costs
from .flood_records import FloodRecord
from .measured_runs import MicroResult, RunRecord
from .micro_costs import micro_costs, open_connections_max
from .micro_medians import FitError, Medians, MicroTable
from .micro_solution import Fitted
from .noise import NoiseLimits
from .point_runs import settings_of, trace_for
from .points import FIT_POINTS_OF, RATE_POINTS, Point

REPLICATES = 200
"""Resamples of the rounds for an interval."""
SIMULATED_NS = 500_000_000
_WARM_UP_NS = 50_000_000
_TOLERANCE = 0.001  # of the throughput: a batch more or less in the window is as much
_MISFIT_SAID = 0.02
_TRIES_MAX = 12
_APPLICATION = f"application.{REQUEST}"

Report = Callable[[str], None]


class RequestFit(NamedTuple):
    """The user code of a request, and the relative error of the throughput that it leaves."""

    request_ns: int
    misfit: float


def fit_profile(
    machine: Mapping[str, object],
    micro: Sequence[MicroResult],
    fit_runs: Sequence[RunRecord],
    floods: Sequence[FloodRecord] = (),
    *,
    name: str = "",
    command: str = "dispatchsim calibrate",
    replicates: int = REPLICATES,
    seed: int = 1,
    simulated_ns: int = SIMULATED_NS,
    report: Report | None = None,
) -> Profile:
    """Return the profile of a machine from its raw results.

    Parameters
    ----------
    machine:
        The facts of machine.json.
    micro:
        All results of micro.jsonl; medians over the rounds are fitted.
    fit_runs:
        The runs of fit.jsonl; accepted runs of the fit points with a quiet cache count.
    floods:
        All of flood.jsonl; those for calibration give the prices of datagrams, if there are any.
    name, command:
        Of the profile (default: the machine's id), and what it says it was made with.
    replicates, seed:
        Of the bootstrap.
    simulated_ns:
        Length of the simulated window at the fit point.
    report:
        Called with a sentence at each step.

    Raises
    ------
    FitError
        If a bench or every run of the fit point is missing.
    DataError
        If there are floods for calibration, but too few.
    """
    say = report or (lambda _: None)
    fit_rates_per_s(fit_runs)  # what is wrong with the runs is said before anything is fitted
    table = MicroTable(micro)
    of_datagrams = datagram_costs(floods, replicates=replicates, seed=seed)
    costs_of: Callable[[Medians], Mapping[str, Fitted]]
    connections_max_of = open_connections_max
    costs_of = functools.partial(micro_costs, since=_fitted(of_datagrams.get(SINCE)))
    if table.steering == "emulated":
        costs_of, connections_max_of = counted_costs, counted_connections_max
    say(f"fitting {len(micro)} results of microbenchmarks, {table.n_rounds} rounds")
    costs = with_intervals(costs_of, table, replicates=replicates, seed=seed) | of_datagrams
    facts = {
        **machine_table(machine),
        "date": max(row.date for rows in (micro, fit_runs, floods) for row in rows),
        "command": command,
    }
    profile = Profile(
        name=name or str(machine.get("id", "machine")),
        machine=facts,
        range={"open_connections_max": connections_max_of(table.medians())},  # type: ignore[arg-type]
        cost=_tables({**costs, _APPLICATION: _whole_cost(0, 0, 0, 0.0, "")}),
    )
    rates_per_s = fit_rates_per_s(fit_runs, mechanisms=profile.cost)
    return with_requests(
        profile, rates_per_s, simulated_ns=simulated_ns, replicates=replicates, seed=seed, say=say
    )


def with_requests(
    profile: Profile,
    rates_per_s: Mapping[Point, Sequence[float]],
    *,
    simulated_ns: int = SIMULATED_NS,
    replicates: int = REPLICATES,
    seed: int = 1,
    say: Report = lambda _: None,
) -> Profile:
    """Return *profile* with request_ns as the throughput at the fit points gives it.

    That of the first point is for all mechanisms, those of others for their own.
    """
    tables = {name: dict(costs) for name, costs in profile.cost.items()}
    for number, (point, rates) in enumerate(rates_per_s.items()):
        tables[point.mechanism if number else "application"][REQUEST] = fit_request(
            profile,
            point,
            rates,
            simulated_ns=simulated_ns,
            replicates=replicates,
            seed=seed,
            say=say,
        )
    return profile.model_copy(update={"cost": tables})


def fit_rates_per_s(
    runs: Sequence[RunRecord], *, mechanisms: Container[str] | None = None
) -> dict[Point, list[float]]:
    """Return the throughput of every accepted run, by fit point.

    Parameters
    ----------
    mechanisms
        Those whose fit points must be there, and are returned (None: those that have runs). The
        first of the target's fit points is, whatever they are.

    Raises
    ------
    FitError
        If there is none of a fit point, or a run that a fit must not see.
    """
    for run in runs:
        allowed = FIT_POINTS_OF[run.steering]
        if run.point not in (*allowed, *RATE_POINTS):
            labels = ", ".join(point.label for point in allowed)
            raise FitError(
                f"fit.jsonl: point: must be {labels}, got {run.point.label}: "
                "a profile is judged by its predictions of other points"
            )
    # The microbenchmarks are medians of a quiet machine, so the fit point must be one of it, too:
    # with a busy shared cache it answers some 4% fewer, which request_ns would take for user code.
    quiet = NoiseLimits().memory_ratio_max
    first, *others = FIT_POINTS_OF[runs[0].steering if runs else "namespaces"]
    if mechanisms is None:
        mechanisms = {run.point.mechanism for run in runs}
    rates_per_s: dict[Point, list[float]] = {
        point: [] for point in (first, *others) if point == first or point.mechanism in mechanisms
    }
    for run in runs:
        if run.point in rates_per_s and run.accepted and run.noise.memory_ratio < quiet:
            rates_per_s[run.point].append(run.result.reply_rate_per_s.mean)
    for point, rates in rates_per_s.items():
        if not rates or min(rates) <= 0:
            raise FitError(
                f"fit.jsonl: {point.label}: at least 1 accepted run with replies must be there, "
                f"got {sum(rate > 0 for rate in rates)} of {len(runs)}"
            )
    return rates_per_s


def with_intervals(
    costs_of: Callable[[Medians], Mapping[str, Fitted]],
    table: MicroTable,
    *,
    replicates: int,
    seed: int,
) -> dict[str, Cost]:
    """Return the costs with the 95% intervals of resampled rounds, to a tenth of a nanosecond."""
    fitted = costs_of(table.medians())

    def estimate(rounds: NDArray[np.int64]) -> list[float]:
        again = costs_of(table.medians(rounds))
        return [value for key in fitted for value in again[key].value]

    low, high = bootstrap(
        estimate, table.n_rounds, replicates=replicates, seed=seed, name="microbenchmarks"
    )
    costs, begin = {}, 0
    for key, cost in fitted.items():
        part = slice(begin, begin + len(cost.at))
        begin = part.stop
        values = np.array(cost.value)
        costs[key] = Cost(
            unit=unit_of(*key.split(".")),
            at=cost.at,
            value=_tenths(values),
            low=_tenths(np.minimum(low[part], values)),
            high=_tenths(np.maximum(high[part], values)),
            residual=round(cost.residual, 4),
            source=cost.source,
        )
    return costs


def fit_request(
    profile: Profile,
    point: Point,
    rates_per_s: Sequence[float],
    *,
    simulated_ns: int,
    replicates: int,
    seed: int,
    say: Report,
) -> Cost:
    """Return request_ns at a fit point, with the interval that the repeats' spread gives it.

    At saturation a longer service time lengthens the time per reply by as much, so the interval
    of the measured time per reply is that of request_ns.
    """
    costs = profile.costs(point.mechanism, open_connections=point.idle + point.users)
    target_per_s = float(np.median(rates_per_s))

    def throughput_per_s(request_ns: int) -> float:
        priced = costs._replace(application=ApplicationCosts(request_ns))
        rate_per_s = simulated_rate_per_s(point, priced, profile, target_per_s, simulated_ns)
        say(f"request_ns {request_ns}: {rate_per_s:.0f}/s simulated, {target_per_s:.0f}/s measured")
        return rate_per_s

    found = solve_request_ns(throughput_per_s, target_per_s)
    source = f"throughput of {point.label}, {len(rates_per_s)} runs"
    if abs(found.misfit) > _MISFIT_SAID:
        say(
            f"request_ns {found.request_ns}: misses its fit point by {found.misfit:+.1%}, no better"
        )
    if found.request_ns == 0 and found.misfit < -_TOLERANCE:
        source += f"; 0 is the least: simulated {-found.misfit:.1%} below the measured throughput"
    rates = np.array(rates_per_s)
    low, high = bootstrap(
        lambda drawn: [SECOND_NS / float(np.median(rates[drawn]))],
        len(rates),
        replicates=replicates,
        seed=seed,
        name="fit point",
    )
    per_reply_ns = SECOND_NS / target_per_s
    return _whole_cost(
        found.request_ns,
        found.request_ns + min(0.0, low[0] - per_reply_ns),
        found.request_ns + max(0.0, high[0] - per_reply_ns),
        abs(found.misfit),
        source,
    )


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


def machine_table(machine: Mapping[str, object]) -> dict[str, Fact]:
    """Return the facts of machine.json as plain entries: tables as text, nothing for unknown.

    >>> machine_table({"caches": {"L1": "48K", "L2": "1M"}, "timer_hz": None})
    {'caches': 'L1 48K, L2 1M'}
    """
    facts: dict[str, Fact] = {}
    for key, fact in machine.items():
        if key in ("format", "date") or fact is None:
            continue
        if isinstance(fact, Mapping):
            facts[key] = ", ".join(f"{name} {value}" for name, value in fact.items())
        else:
            facts[key] = fact if isinstance(fact, str | int | float) else str(fact)
    return facts


def _tables(costs: Mapping[str, Cost]) -> dict[str, dict[str, Cost]]:
    tables: dict[str, dict[str, Cost]] = {}
    for key, cost in costs.items():
        table, name = key.split(".")
        tables.setdefault(table, {})[name] = cost
    return tables


def _fitted(cost: Cost | None) -> Fitted | None:
    if cost is None:
        return None
    return Fitted(cost.at, cost.value, cost.residual, cost.source)


def _whole_cost(value: float, low: float, high: float, residual: float, source: str) -> Cost:
    low, high = max(0.0, float(round(low))), float(round(high))
    return Cost(
        at=(0,),
        value=(float(value),),
        low=(low,),
        high=(high,),
        residual=round(residual, 4),
        source=source,
    )


def _tenths(values: Floats) -> tuple[float, ...]:
    return tuple(round(float(value), 1) for value in values)
