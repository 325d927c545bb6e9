"""From raw results to a profile: microbenchmarks give nearly all costs, fit points the rest.

    micro.jsonl ─► medians ─► equations of the target     ─► costs ─┐
                      └─► resampled rounds ─► 95% intervals         ├─► profile
    flood.jsonl ─► prices of datagrams (packets.py) ────────────────┤
    fit.jsonl ──► throughput at saturation ─► request_ns, connection_ns ┘

The equations are in micro_costs.py, of the emulated target in emulated/counted_costs.py. What user
code and everything unpriced take for a request and for a connection are the values at which the
simulated fit points answer as many requests a second as the real ones (request_fit.py). They are
all that a profile takes from runs of the server, but where a target has a fit point for each
mechanism that the microbenchmarks price: there it takes one for each (select.request_ns, ...).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np

from ...sim.load.streams import generator
from ..points.point import Point
from ..points.points import FIT_POINTS_OF, KEPT_FIT_POINT, RATE_POINTS
from ..profiles.cost import REQUEST, Cost, unit_of
from ..profiles.cost_profile import MEASURED, QUICKLY, Fact, Profile
from ..records.flood_records import FloodRecord
from ..records.measured_runs import MicroResult, RunRecord
from ..records.noise import NoiseLimits
from .counted_costs import counted_connections_max, counted_costs
from .curve_fit import bootstrap, ends, tenths
from .medians import FitError, Fitted, Medians, MicroTable
from .micro_costs import micro_costs, open_connections_max
from .packets import SINCE, datagram_costs
from .request_fit import REPLICATES, SIMULATED_NS, Report, whole_cost, with_requests

_APPLICATION = f"application.{REQUEST}"


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
    for sentence in mixture_of_clients(table.steering, fit_runs):
        say(sentence)
    say(f"fitting {len(micro)} results of microbenchmarks, {table.n_rounds} rounds")
    costs = with_intervals(costs_of, table, replicates=replicates, seed=seed) | of_datagrams
    facts = {
        **machine_table(machine),
        "date": max(row.date for rows in (micro, fit_runs, floods) for row in rows),
        "command": command,
    }
    if all(row.is_quick for row in micro):
        facts[MEASURED] = QUICKLY
    profile = Profile(
        name=name or str(machine.get("id", "machine")),
        machine=facts,
        range={"open_connections_max": connections_max_of(table.medians())},  # type: ignore[arg-type]
        cost=_tables({**costs, _APPLICATION: whole_cost(0, 0, 0, 0.0, "")}),
    )
    rates_per_s = fit_rates_per_s(fit_runs, mechanisms=profile.cost)
    if KEPT_FIT_POINT not in rates_per_s and table.steering != "emulated":
        say(f"no accepted runs of {KEPT_FIT_POINT.label}: what is unpriced counts as of requests")
    return with_requests(
        profile, rates_per_s, simulated_ns=simulated_ns, replicates=replicates, seed=seed, say=say
    )


def mixture_of_clients(steering: str, runs: Sequence[RunRecord]) -> list[str]:
    """Return a sentence if the clients of *runs* are not those of the microbenchmarks.

    The kernel of a client receives on the server's CPU, so its part is in each cost of a packet;
    the far end has none.

    Parameters
    ----------
    steering:
        Of the microbenchmarks; empty where they do not record it.
    """
    others = sorted({run.steering for run in runs} - {steering})
    if not steering or not others:
        return []
    return [
        f"microbenchmarks with steering {steering}, fit points with {', '.join(others)}: costs of "
        "packets hold another work of the clients' kernel than the runs had"
    ]


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
        mechanisms = {run.point.server.mechanism for run in runs}
    rates_per_s: dict[Point, list[float]] = {
        point: []
        for point in (first, *others)
        if point == first or point.server.mechanism in mechanisms
    }
    for run in runs:
        if run.point in rates_per_s and run.accepted and run.noise.memory_ratio < quiet:
            rates_per_s[run.point].append(run.result.reply_rate_per_s.mean)
    if rates_per_s.get(KEPT_FIT_POINT) == []:
        del rates_per_s[KEPT_FIT_POINT]  # all that is unpriced is then of the request
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
    """Return the costs with their 95% intervals, to a tenth of a nanosecond.

    Rounds are resampled. A single round of a machine that is noisy says nothing of others: there
    the scatter within each bench stands for that of rounds. Counts of the emulated target have
    none.
    """
    fitted = costs_of(table.medians())

    def values_of(medians: Medians) -> list[float]:
        again = costs_of(medians)
        return [value for key in fitted for value in again[key].value]

    name = "microbenchmarks"
    if table.n_rounds == 1 and table.steering != "emulated":
        random = generator(seed, f"one round of {name}")
        low, high = ends([values_of(table.disturbed(random)) for _ in range(max(1, replicates))])
    else:
        low, high = bootstrap(
            lambda rounds: values_of(table.medians(rounds)),
            table.n_rounds,
            replicates=replicates,
            seed=seed,
            name=name,
        )
    costs, begin = {}, 0
    for key, cost in fitted.items():
        part = slice(begin, begin + len(cost.at))
        begin = part.stop
        values = np.array(cost.value)
        costs[key] = Cost(
            unit=unit_of(*key.split(".")),
            at=cost.at,
            value=tenths(values),
            low=tenths(np.minimum(low[part], values)),
            high=tenths(np.maximum(high[part], values)),
            residual=round(cost.residual, 4),
            source=cost.source,
        )
    return costs


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
