"""What a server's own code takes, from runs that were observed of it: a profile for that server.

    machine's profile ── prices of calls, interrupts, wake-ups ──┐
    runs of one request a connection ────────────────────────────┼─► request_ns, connection_ns
    runs of several requests a connection ───────────────────────┘

Both are what the simulated server lacks against the real one when both are saturated: parsing, its
calls that no model makes, its caches. A profile with them is a machine's profile like any other, so
every question can be asked of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...sim.metrics import Verdict
from ..cost_profile import Profile
from ..cost_tables import REQUEST
from ..micro_medians import FitError
from ..points import Point
from ..request_fit import REPLICATES, SIMULATED_NS, Report, with_requests
from .habits import Habits, habits_of
from .observed_run import ObservedRun

_BUSY_MIN = 0.97
_KEPT_MAX = 1000
"""Requests a connection, where a run says no more than that connections are kept."""


@dataclass(frozen=True)
class ApplicationFit:
    """A profile for the server, and what is to be known of it.

    Attributes
    ----------
    profile:
        Like any other.
    points:
        What it was fitted to, and how many runs there were of each.
    notes:
        What was left out and why, and what is taken for granted.
    next_run:
        Which further run would tell most.
    """

    profile: Profile
    points: dict[Point, int]
    notes: tuple[str, ...]
    next_run: str


def point_of(run: ObservedRun, habits: Habits) -> Point:
    """Return the operating point that *run* was at, of a server with *habits*.

    Raises
    ------
    FitError
        If the run does not say how many users there were, or at which rate they came.
    """
    load = run.load
    if load.loop == "closed" and load.users is None:
        raise FitError(f"{_name(run)}: load.users: must be known of a closed loop")
    own = habits_of(run.server, habits)
    return Point(
        mechanism=own.mechanism,
        accept_limit=own.accept_limit,
        read_after_accept=own.reads_after_accept,
        idle=load.idle or 0,
        loop=load.loop,
        users=load.users or 0 if load.loop == "closed" else 0,
        rate_per_s=load.rate_per_s or 0 if load.loop == "open" else 0,
        requests=load.requests or _KEPT_MAX,
    )


def fit_application(
    machine: Profile,
    runs: Sequence[ObservedRun],
    habits: Habits,
    *,
    name: str,
    simulated_ns: int = SIMULATED_NS,
    replicates: int = REPLICATES,
    seed: int = 1,
    say: Report = lambda _: None,
) -> ApplicationFit:
    """Return a profile of the server that *runs* are of, on the machine of *machine*.

    Parameters
    ----------
    machine:
        What calls cost where the runs were made.
    runs:
        Of closed loops that keep the server busy; what others have disturbed is left out.
    habits:
        What the server does, where a run does not say.
    name:
        Of the new profile.
    simulated_ns, replicates, seed, say:
        As of `fit_profile`.

    Raises
    ------
    FitError
        If no run can be used: none is known to be saturated, or none was left undisturbed.
    """
    rates_per_s: dict[Point, list[float]] = {}
    notes = []
    for run in runs:
        why = _why_unusable(run)
        if why:
            notes.append(f"{_name(run)} is left out: {why}")
            continue
        rates_per_s.setdefault(point_of(run, habits), []).append(run.throughput_per_s)
        if run.busy_share is None and run.load.loop == "closed":
            notes.append(f"{_name(run)}: nobody saw whether the server was busy; it is taken to be")
    if not rates_per_s:
        raise FitError(
            f"no run tells what a request takes: {notes[0] if notes else 'there is none'}"
        )
    chosen = _chosen(rates_per_s)
    notes += [
        f"{point.label} is left out: a fit is of one load, with few and with many requests each"
        for point in rates_per_s
        if point not in chosen
    ]
    tables = {table: dict(costs) for table, costs in machine.cost.items()}
    for costs in tables.values():
        costs.pop(REQUEST, None)  # of the machine's own server
    tables["application"] = {REQUEST: machine.cost["application"][REQUEST].nothing()}
    bare = machine.model_copy(update={"cost": tables, "name": name})
    profile = with_requests(
        bare, chosen, simulated_ns=simulated_ns, replicates=replicates, seed=seed, say=say
    )
    counts = {point: len(rates) for point, rates in chosen.items()}
    return ApplicationFit(profile, counts, tuple(dict.fromkeys(notes)), _next_run(chosen))


def _why_unusable(run: ObservedRun) -> str:
    """Return why a fit cannot use *run*, or an empty string."""
    if not run.accepted:
        return f"it was disturbed: {run.reason}"
    if run.busy_share is not None and run.busy_share < _BUSY_MIN:
        return f"the server was busy for {run.busy_share:.0%} only: it needs more users"
    if run.verdict not in (None, Verdict.OVERLOADED):
        return f"an open loop that it kept up with ({run.verdict}) says nothing of its capacity"
    if run.errors.get("status"):
        return f"{run.errors['status']} replies were errors"
    return ""


def _chosen(rates_per_s: dict[Point, list[float]]) -> dict[Point, list[float]]:
    """Return the fit points: of the fewest requests a connection, and of the most beside it.

    They are alike in all else; the crowd with the most users keeps a server busiest.
    """
    first = min(rates_per_s, key=lambda point: (point.requests, point.idle, -point.users))
    alike = [p for p in rates_per_s if replace(p, requests=first.requests) == first]
    kept = max(alike, key=lambda point: point.requests)
    return {point: rates_per_s[point] for point in dict.fromkeys((first, kept))}


def _next_run(rates_per_s: dict[Point, list[float]]) -> str:
    """Return a sentence: what would tell most, another kind of run or one more of those there are.

    Of these it is a run at the point whose median is known worst.
    """
    points = list(rates_per_s)
    if len(points) == 1:
        other = "several requests" if points[0].requests == 1 else "one request"
        return (
            f"runs with {other} a connection: without them what a connection takes and what a "
            "request takes cannot be told apart"
        )
    single = [point for point in points if len(rates_per_s[point]) == 1]
    if single:
        return f"another run of {single[0].label}: of one, nobody knows how far it may be off"

    def error(point: Point) -> float:
        rates = np.array(rates_per_s[point])
        return float(rates.std(ddof=1) / rates.mean() / math.sqrt(rates.size))

    worst = max(points, key=error)
    n = len(rates_per_s[worst])
    return (
        f"another run of {worst.label}: its mean is known to {error(worst):.1%}, and would be to "
        f"{error(worst) * math.sqrt(n / (n + 1)):.1%}"
    )


def _name(run: ObservedRun) -> str:
    return run.source.file or run.server.name or run.source.tool
