"""What a server's own code takes, from runs that were observed of it: a profile for that server.

    machine's profile ── prices of calls, interrupts, wake-ups ──┐
    runs of one request a connection ────────────────────────────┼─► request_ns, connection_ns
    runs of several requests a connection ───────────────────────┘

Both are what the simulated server lacks against the real one when both are saturated: parsing, its
calls that no model makes, its caches. A profile with them is a machine's profile like any other, so
every question can be asked of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...sim.metrics import Verdict
from ..cost_profile import Profile
from ..cost_tables import REQUEST
from ..micro_medians import FitError
from ..points import Point
from ..request_fit import REPLICATES, SIMULATED_NS, Report, with_requests
from .observed_run import ObservedRun

_BUSY_MIN = 0.97
_KEPT_MAX = 1000
"""Requests a connection, where a run says no more than that connections are kept."""


@dataclass(frozen=True)
class Habits:
    """How the server does it, as it was recognised or as its owner says.

    Attributes
    ----------
    mechanism:
        By the names of the catalogue.
    accept_limit:
        Connections for one notice; 0: until there is none.
    reads_after_accept:
        Whether it reads before it waits again.
    """

    mechanism: str
    accept_limit: int = 0
    reads_after_accept: bool = False


@dataclass(frozen=True)
class ApplicationFit:
    """A profile for the server, and what is to be known of it.

    `next_run` says which further run would tell most.
    """

    profile: Profile
    points: dict[Point, int]
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
    return Point(
        mechanism=run.server.mechanism or habits.mechanism,
        accept_limit=habits.accept_limit,
        read_after_accept=habits.reads_after_accept,
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
        If no run can be used: none is saturated, or none was left undisturbed.
    """
    rates_per_s: dict[Point, list[float]] = {}
    reasons = []
    for run in runs:
        why = _why_unusable(run)
        if why:
            reasons.append(f"{_name(run)}: {why}")
            continue
        rates_per_s.setdefault(point_of(run, habits), []).append(run.throughput_per_s)
    if not rates_per_s:
        raise FitError(
            f"no run tells what a request takes: {reasons[0] if reasons else 'there is none'}"
        )
    ordered = dict(sorted(rates_per_s.items(), key=lambda item: (item[0].requests, item[0].idle)))
    chosen = _chosen(ordered)
    tables = {table: dict(costs) for table, costs in machine.cost.items()}
    for costs in tables.values():
        costs.pop(REQUEST, None)  # of the machine's own server
    tables["application"] = {REQUEST: machine.cost["application"][REQUEST].nothing()}
    bare = machine.model_copy(update={"cost": tables, "name": name})
    profile = with_requests(
        bare, chosen, simulated_ns=simulated_ns, replicates=replicates, seed=seed, say=say
    )
    counts = {point: len(rates) for point, rates in chosen.items()}
    return ApplicationFit(profile, counts, _next_run(profile, counts))


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


def _chosen(
    rates_per_s: dict[Point, list[float]],
) -> dict[Point, list[float]]:
    """Return the fit points: fewest requests a connection first, then the most."""
    points = list(rates_per_s)
    first = points[0]
    alike = [p for p in points if (p.mechanism, p.idle) == (first.mechanism, first.idle)]
    kept = max(alike, key=lambda point: point.requests)
    return {point: rates_per_s[point] for point in dict.fromkeys((first, kept))}


def _next_run(profile: Profile, counts: dict[Point, int]) -> str:
    """Return a sentence: which further run would shrink the interval most."""
    points = list(counts)
    if len(points) == 1:
        other = "several requests" if points[0].requests == 1 else "one request"
        return (
            f"runs with {other} a connection: without them what a connection takes and what a "
            "request takes cannot be told apart"
        )
    widths = {
        point: cost.high[0] - cost.low[0]
        for point, cost in zip(
            points, (profile.cost["application"][name] for name in ("connection_ns", REQUEST)),
            strict=True,
        )
    }  # fmt: skip
    widest = max(points, key=lambda point: widths[point])
    n = counts[widest]
    shrinks = 1 - (n / (n + 1)) ** 0.5
    return (
        f"another run of {widest.label}: its interval of {widths[widest] / 1e3:.1f} us would "
        f"shrink by about {shrinks:.0%}"
    )


def _name(run: ObservedRun) -> str:
    return run.source.file or run.server.name or run.source.tool
