"""The CPU time of a server's own code, fitted to observed runs: a profile for that server.

    machine's profile ── costs of calls, interrupts, wake-ups ───┐
    runs of one request a connection ────────────────────────────┼─► request_ns, connection_ns
    runs of several requests a connection ───────────────────────┘

Both are what the simulated server lacks against the real one when both are saturated: parsing,
system calls that are not modelled, cache misses. In a saturated server an extra nanosecond of
request_ns lengthens the time of a reply by one, and an extra nanosecond of connection_ns by its
share of one request. Non-negative least squares solves for the difference between simulated and
measured times. The runs are simulated again until the costs no longer change.

The new profile has the same form as a machine's profile, so every command accepts it.
`scenario_text` writes a scenario that uses it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from ...scenario.formats import time_text
from ...sim.figures.summary import Verdict
from ...sim.state.units import SECOND_NS
from ..fit.medians import FitError
from ..fit.request_fit import SIMULATED_NS, Report, simulated_rate_per_s, whole_cost
from ..points.point import Point, point_at
from ..profiles.cost import CONNECTION, DISPLACED, REQUEST
from ..profiles.cost_profile import Profile
from ..running.preparation import open_connections
from .cost_intervals import HalfWidths, Kind, NextRun, Scatter, half_widths, next_run, scatter_of
from .observed_run import Habits, ObservedRun
from .operating_point import counted, point_of, what_failed, why_unusable

_BUSY_MIN = 0.97
_LOAD_SHARE = 0.5
"""The load of the written scenario, as a share of the highest measured reply rate: it is stable."""
_SETTLED = 0.001
"""A share of the time of a reply: one more batch in the window changes it by as much."""
_TRIES_MAX = 10
_GAIN_MAX = 5.0
_MISFIT_SAID = 0.02
_OTHERS = (1, 100)
"""Requests a connection of further runs that may narrow the intervals."""


@dataclass(frozen=True)
class ApplicationFit:
    """A profile for the server, and the quality of its fit.

    Attributes
    ----------
    profile:
        Like any other profile; `machine` records the server and the points of the fit.
    points:
        The points that were fitted, with the number of runs of each.
    rates_per_s:
        Replies a second: the median of the runs at each point.
    misfits:
        Relative errors that remain at each point.
    scatter:
        The scatter of repeats, from which the intervals follow.
    half_widths:
        Half the width of each 95% interval.
    notes:
        Runs that were left out, with reasons, and assumptions.
    next_run:
        The further run that would narrow the intervals most.
    """

    profile: Profile
    points: dict[Point, int]
    rates_per_s: dict[Point, float]
    misfits: dict[Point, float]
    scatter: Scatter
    half_widths: HalfWidths
    notes: tuple[str, ...]
    next_run: NextRun


def fit_application(
    machine: Profile,
    runs: Sequence[ObservedRun],
    habits: Habits,
    *,
    name: str,
    simulated_ns: int = SIMULATED_NS,
    step: Report = lambda _: None,
) -> ApplicationFit:
    """Return a profile of the server in *runs*, on the machine of *machine*.

    Parameters
    ----------
    machine:
        The costs of calls on the machine of the runs.
    runs:
        Runs that keep the server busy; disturbed runs are left out.
    habits:
        The server's habits, where a run does not record them.
    name:
        The name of the new profile.
    simulated_ns, step:
        See `fit_profile`.

    Raises
    ------
    FitError
        If no run can be used (none is saturated, or all were disturbed), or *machine* has no
        costs for the server's mechanism.
    """
    rates_per_s, notes = _usable(runs, habits)
    if not rates_per_s:
        raise FitError(
            f"no run shows the CPU time of a request. {'; '.join(notes) or 'There are no runs'}. "
            "`dispatchsim measure server` makes runs that keep the server busy"
        )
    chosen = _chosen(rates_per_s)
    if missing := machine.missing_for(next(iter(chosen)).server.mechanism):
        raise FitError(
            f"{machine.name}: {missing[0]}: must be present for a server that waits with "
            f"{next(iter(chosen)).server.mechanism}"
        )
    notes += [
        f"{point.label} is left out: a fit uses one load, at few and at many requests a connection"
        for point in rates_per_s
        if point not in chosen
    ]
    bare = _without_application(machine, name)
    found = _solved(bare, chosen, simulated_ns, step)
    # All repeats count: their scatter does not depend on the load.
    scatter = scatter_of(rates_per_s.values())
    kinds = [
        Kind(p.load.requests, SECOND_NS / float(np.median(rates)), len(rates))
        for p, rates in chosen.items()
    ]
    widths = half_widths(kinds, scatter)
    profile = _priced(bare, runs, chosen, found, widths)
    foreseen = {
        n: SECOND_NS
        / _rate_per_s(point_at(next(iter(chosen)), requests=n), bare, found, kinds[0], simulated_ns)
        for n in _OTHERS
        if n not in [point.load.requests for point in chosen]
    }
    notes += [
        f"{point.label}: the simulated server sends {abs(misfit):.1%} "
        f"{'more' if misfit > 0 else 'fewer'} replies than the measured one, and no cost of its "
        "own code corrects that: the machine's costs do not match these runs"
        for point, misfit in found.misfits.items()
        if abs(misfit) > _MISFIT_SAID
    ]
    return ApplicationFit(
        profile,
        {point: len(rates) for point, rates in chosen.items()},
        {point: float(np.median(rates)) for point, rates in chosen.items()},
        dict(found.misfits),
        scatter,
        widths,
        tuple(dict.fromkeys(notes)),
        next_run(kinds, scatter, foreseen),
    )


def _usable(
    runs: Sequence[ObservedRun], habits: Habits
) -> tuple[dict[Point, list[float]], list[str]]:
    """Return the rates at each point, and notes on left-out runs and assumptions."""
    rates_per_s: dict[Point, list[float]] = {}
    remarks: list[tuple[ObservedRun, str]] = []
    for run in runs:
        if why := why_unusable(run) or _why_not_saturated(run):
            remarks.append((run, f"left out, {why}"))
            continue
        try:
            point = point_of(run, habits)
        except FitError as error:
            remarks.append((run, f"left out, {error}"))
            continue
        rates_per_s.setdefault(point, []).append(run.throughput_per_s)
        if run.busy_share is None and run.load.loop == "closed":
            remarks.append((run, "the server's CPU was not observed: it is assumed busy"))
        if remark := what_failed(run):
            remarks.append((run, remark))
        if run.load.idle is None:
            remarks.append((run, "the number of idle connections is not recorded: 0 is assumed"))
    return rates_per_s, counted(remarks)


def _why_not_saturated(run: ObservedRun) -> str:
    """Return why *run* does not show the server's capacity, or an empty string."""
    if run.busy_share is not None and run.busy_share < _BUSY_MIN:
        return f"the server was busy for only {run.busy_share:.0%} of the time: it needs more users"
    if run.load.loop == "open" and run.verdict is None:
        return "it has fewer replies than were due: its client may have had too few connections"
    if run.verdict not in (None, Verdict.OVERLOADED):
        return f"an open loop that the server kept up with ({run.verdict}) shows no capacity"
    return ""


def _chosen(rates_per_s: Mapping[Point, list[float]]) -> dict[Point, list[float]]:
    """Return the fit points: the one with the fewest requests a connection, and those like it.

    All differ only in their requests; the crowd with the most users keeps a server busiest.
    """
    first = min(
        rates_per_s,
        key=lambda p: (
            p.server.workers,
            p.load.loop,
            p.idle.connections,
            p.load.requests,
            -p.users,
            -p.rate_per_s,
        ),
    )
    alike = [p for p in rates_per_s if point_at(p, requests=first.load.requests) == first]
    return {p: rates_per_s[p] for p in sorted(alike, key=lambda p: p.load.requests)}


def _without_application(machine: Profile, name: str) -> Profile:
    """Return *machine* without the costs of its own server's code."""
    tables = {table: dict(costs) for table, costs in machine.cost.items()}
    for costs in tables.values():
        costs.pop(REQUEST, None)
    tables["interrupt"].pop(DISPLACED, None)
    tables["application"] = {REQUEST: machine.cost["application"][REQUEST].nothing()}
    return machine.model_copy(update={"cost": tables, "name": name})


@dataclass(frozen=True)
class _Found:
    request_ns: float
    connection_ns: float
    misfits: dict[Point, float]


def _solved(
    bare: Profile, chosen: Mapping[Point, list[float]], simulated_ns: int, step: Report
) -> _Found:
    """Return the costs at which simulated times of a reply are nearest to the measured times.

    With one kind of runs, the whole time is attributed to the request.
    """
    kinds = {
        p: Kind(p.load.requests, SECOND_NS / float(np.median(r)), len(r)) for p, r in chosen.items()
    }
    shares = np.array([(1.0, 1 / p.load.requests if len(kinds) > 1 else 0.0) for p in kinds])
    times_ns = np.array([kind.reply_ns for kind in kinds.values()])
    weights = 1 / (times_ns * [kind.relative_error for kind in kinds.values()])
    costs_ns, gain, last = np.zeros(2), 1.0, (np.zeros(2), np.zeros(len(kinds)))
    best = _Found(0.0, 0.0, dict.fromkeys(kinds, math.inf))
    for _ in range(_TRIES_MAX):
        now = _Found(costs_ns[0], costs_ns[1], {})
        simulated_ns_each = np.array(
            [SECOND_NS / _rate_per_s(p, bare, now, kind, simulated_ns) for p, kind in kinds.items()]
        )
        misfits = times_ns / simulated_ns_each - 1
        step(
            f"request_ns {costs_ns[0]:.0f}, connection_ns {costs_ns[1]:.0f}: simulated throughput "
            + ", ".join(f"{misfit:+.1%}" for misfit in misfits)
        )
        if float((misfits**2).sum()) < sum(m**2 for m in best.misfits.values()):
            best = replace(now, misfits=dict(zip(kinds, misfits.tolist(), strict=True)))
        # With several workers a reply takes only a part of a cost; a server that serves clients
        # which have given up pays the cost for them, too.
        step_ns = shares @ (costs_ns - last[0])
        if np.abs(step_ns / times_ns).max() > _SETTLED:
            gain = float(step_ns @ (simulated_ns_each - last[1]) / (step_ns @ step_ns))
            gain = min(max(gain, 1 / _GAIN_MAX), _GAIN_MAX)
        last = costs_ns, simulated_ns_each
        lacking_ns = (times_ns - simulated_ns_each) / gain + shares @ costs_ns
        solved, _ = nnls(shares * weights[:, None], lacking_ns * weights)
        if np.abs(shares @ (solved - costs_ns) / times_ns).max() < _SETTLED:
            break
        costs_ns = np.round(solved)
    return best


def _rate_per_s(point: Point, bare: Profile, found: _Found, kind: Kind, simulated_ns: int) -> float:
    """Return the simulated replies a second of a server with the costs in *found*."""
    costs = bare.costs(point.server.mechanism, open_connections=open_connections(point))
    application = costs.application._replace(
        request_ns=round(found.request_ns), connection_ns=round(found.connection_ns)
    )
    expected_per_s = max(SECOND_NS / kind.reply_ns, point.rate_per_s * point.load.requests)
    return simulated_rate_per_s(
        point, costs._replace(application=application), bare, expected_per_s, simulated_ns
    )


def _priced(
    bare: Profile,
    runs: Sequence[ObservedRun],
    chosen: Mapping[Point, list[float]],
    found: _Found,
    widths: HalfWidths,
) -> Profile:
    """Return the profile with both costs, and a record of its server."""
    residual = math.sqrt(sum(m**2 for m in found.misfits.values()) / len(found.misfits))
    n_runs = sum(map(len, chosen.values()))
    source = f"throughput of {'; '.join(p.label for p in chosen)}, {n_runs} runs"
    values = {REQUEST: (found.request_ns, widths.request_ns)}
    if math.isfinite(widths.connection_ns):
        values[CONNECTION] = found.connection_ns, widths.connection_ns
    application = {
        key: whole_cost(value, value - half_width, value + half_width, residual, source)
        for key, (value, half_width) in values.items()
    }
    facts = {
        **bare.machine,
        "server": next(filter(None, map(_server_of, runs)), ""),
        "fitted_to": "; ".join(map(_exactly, chosen)),
    }
    return bare.model_copy(
        update={"cost": {**bare.cost, "application": application}, "machine": facts}
    )


def was_fitted_to(profile: Profile, runs: Sequence[ObservedRun]) -> Callable[[Point], bool]:
    """Return whether *profile* was fitted to a point of the servers of *runs*, as a function.

    A profile of another server has used none of these runs.
    """
    is_theirs = profile.machine.get("server", "") in {_server_of(run) for run in runs}
    known = str(profile.machine.get("fitted_to", "")).split("; ") if is_theirs else []
    return lambda point: _exactly(point) in known


def _server_of(run: ObservedRun) -> str:
    return run.server.command or run.server.name


def _exactly(point: Point) -> str:
    """Return all that a run records of *point*: two points may share one label."""
    reads = " reads after accept" if point.server.read_after_accept else ""
    thinks = f" think {point.load.think_time} ns" if point.load.think_time else ""
    return f"{point.label}{reads}{thinks}"


def scenario_text(fit: ApplicationFit, *, closes_first: bool | None, profile_path: Path) -> str:
    """Return a scenario file of the server that *fit* is of.

    Parameters
    ----------
    closes_first:
        Whether it closes a connection before its client does; None: unknown.
    profile_path:
        The path of its profile, relative to the scenario's folder.
    """
    point = next(iter(fit.points))
    server: dict[str, object] = {"mechanism": point.server.mechanism}
    server |= {"accept_limit": point.server.accept_limit} if point.server.accept_limit else {}
    server |= {"read_after_accept": True} if point.server.read_after_accept else {}
    server |= {"closes_first": closes_first} if closes_first is not None else {}
    if point.server.workers > 1:
        server |= {"workers": point.server.workers, "share": point.server.share}
        server |= {"wake": "one"} if point.server.wake == "one" else {}
    sections: dict[str, dict[str, object]] = {
        "server": server,
        "load": _load(point, fit.rates_per_s[point]),
        "idle": {"connections": point.idle.connections},
        "machine": {"profile": str(profile_path)},
        "run": {"duration": "2.5 s", "warm_up": "500 ms", "seed": 1, "replications": 5},
    }
    head = (
        f"# {fit.profile.name}: a server as calibrated from {sum(fit.points.values())} runs.",
        f"# Its profile includes the CPU time of its own code: {_own_code(fit)}.",
        "# server.request_cpu and server.connection_cpu add to it.",
        "# Change load.rate and idle.connections, then run it again: dispatchsim run, capacity.",
    )
    text = "\n".join(
        [
            *head,
            *(
                line
                for name, keys in sections.items()
                for line in ("", f"[{name}]", *(f"{k} = {_literal(v)}" for k, v in keys.items()))
            ),
        ]
    )
    return text + "\n"


def _own_code(fit: ApplicationFit) -> str:
    """Return the costs of the server's own code, each with its 95% interval."""
    costs = fit.profile.cost["application"]
    nouns = {REQUEST: "a request", CONNECTION: "a connection"}
    return ", ".join(
        f"{time_text(costs[key].value[0])} {noun} "
        f"({time_text(costs[key].low[0])} to {time_text(costs[key].high[0])})"
        for key, noun in nouns.items()
        if key in costs
    )


def _load(point: Point, rate_per_s: float) -> dict[str, object]:
    connections_per_s = _LOAD_SHARE * rate_per_s / point.load.requests
    rate = f"{max(connections_per_s, 1 / 60):.3g}"
    load: dict[str, object] = {"loop": "open", "rate": f"{float(rate):.10g}/s"}
    load |= {"requests": point.load.requests} if point.load.requests > 1 else {}
    return load | {"timeout": "4 s"}


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
