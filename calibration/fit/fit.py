"""From raw results to a profile: microbenchmarks give nearly all costs, fit points the rest.

    micro.jsonl ─► medians ─► equations of the target     ─► costs ─┐
                      └─► resampled rounds ─► 95% intervals         ├─► profile
    flood.jsonl ─► costs of datagrams (packets.py) ─────────────────┤
    fit.jsonl ──► throughput at saturation ─► request_ns, connection_ns ┘

The equations are in micro_costs.py, those of the emulated target in counted_costs.py. Two costs
cover user code and everything else without a bench, per request and per connection. Their values
make the simulated fit points serve as many requests/s as the real ones (request_fit.py). A profile
takes only these two costs from runs of the server. A target with a fit point for each mechanism
gives each mechanism a request cost of its own (select.request_ns, ...).
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
from .fit_interrupts import interrupt_warnings
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
    step: Report = lambda _: None,
) -> Profile:
    """Return the profile of a machine from its raw results.

    Parameters
    ----------
    machine:
        Facts of machine.json.
    micro:
        All results of micro.jsonl; the fit uses medians over rounds.
    fit_runs:
        Runs of fit.jsonl; the fit uses accepted runs of the fit points with a quiet cache.
    floods:
        All floods of flood.jsonl; calibration floods, if any, give the costs of datagrams.
    name, command:
        Name of the profile (default: the machine's id), and its recorded command.
    replicates, seed:
        Number of resamples, and seed.
    simulated_ns:
        Length of the simulated window at the fit point.
    report:
        Called with a sentence for each part of the fit, and for each warning.
    step:
        Called with a sentence for each step of a search.

    Raises
    ------
    FitError
        If a bench is missing, or all runs of the fit point are.
    DataError
        If there are calibration floods, but too few.
    """
    say = report or (lambda _: None)
    fit_rates_per_s(fit_runs)  # report problems of the runs before the fit
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
        say(f"no accepted runs of {KEPT_FIT_POINT.label}: all other CPU time counts per request")
    profile = with_requests(
        profile,
        rates_per_s,
        simulated_ns=simulated_ns,
        replicates=replicates,
        seed=seed,
        say=say,
        step=step,
    )
    used = [run for run in fit_runs if run.point in rates_per_s and _is_quiet(run)]
    for sentence in interrupt_warnings(profile, used, simulated_ns=simulated_ns):
        say(sentence)
    return profile


def mixture_of_clients(steering: str, runs: Sequence[RunRecord]) -> list[str]:
    """Return a warning if *runs* had other clients than the microbenchmarks.

    The kernel of a client receives on the server's CPU, so each cost of a packet includes its work.
    Packet clients have no kernel.

    Parameters
    ----------
    steering:
        Steering of the microbenchmarks; empty if not recorded.
    """
    others = sorted({run.steering for run in runs} - {steering})
    if not steering or not others:
        return []
    return [
        f"microbenchmarks with steering {steering}, fit points with {', '.join(others)}: their "
        "clients differ in kernel work, so the costs of packets do not fit the runs"
    ]


def fit_rates_per_s(
    runs: Sequence[RunRecord], *, mechanisms: Container[str] | None = None
) -> dict[Point, list[float]]:
    """Return the throughput of every accepted run, by fit point.

    Parameters
    ----------
    mechanisms
        Mechanisms whose fit points must have runs, and are returned (None: those that have runs).
        The target's first fit point is always among them.

    Raises
    ------
    FitError
        If a fit point has no run, or a run is of a point that a fit must not use.
    """
    for run in runs:
        allowed = FIT_POINTS_OF[run.steering]
        if run.point not in (*allowed, *RATE_POINTS):
            labels = ", ".join(point.label for point in allowed)
            raise FitError(
                f"fit.jsonl: point: must be {labels}, got {run.point.label}: "
                "other points serve to validate the profile"
            )
    first, *others = FIT_POINTS_OF[runs[0].steering if runs else "namespaces"]
    if mechanisms is None:
        mechanisms = {run.point.server.mechanism for run in runs}
    rates_per_s: dict[Point, list[float]] = {
        point: []
        for point in (first, *others)
        if point == first or point.server.mechanism in mechanisms
    }
    for run in runs:
        if run.point in rates_per_s and _is_quiet(run):
            rates_per_s[run.point].append(run.result.reply_rate_per_s.mean)
    if rates_per_s.get(KEPT_FIT_POINT) == []:
        del rates_per_s[KEPT_FIT_POINT]  # all other CPU time then counts per request
    for point, rates in rates_per_s.items():
        if not rates or min(rates) <= 0:
            raise FitError(
                f"fit.jsonl: {point.label}: must have at least 1 accepted run with replies, "
                f"got {sum(rate > 0 for rate in rates)} of {len(runs)}"
            )
    return rates_per_s


def _is_quiet(run: RunRecord) -> bool:
    """Return whether a fit uses *run*, which must be as quiet as the microbenchmarks.

    They are medians on a quiet machine. With a busy shared cache the server serves some 4% less,
    which request_ns would count as user code.
    """
    return run.accepted and run.noise.memory_ratio < NoiseLimits().memory_ratio_max


def with_intervals(
    costs_of: Callable[[Medians], Mapping[str, Fitted]],
    table: MicroTable,
    *,
    replicates: int,
    seed: int,
) -> dict[str, Cost]:
    """Return the costs with their 95% intervals, to a tenth of a nanosecond.

    Rounds are resampled. With a single round on a noisy machine, the scatter within each bench
    replaces the scatter of rounds. Counts of the emulated target have no scatter.
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
    """Return the facts of machine.json as plain entries: tables as text, unknown ones omitted.

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
