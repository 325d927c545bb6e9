"""The operating point at which an observed run is simulated.

run's load ──────┐
habits ──────────┴─► Point      the same for a fit, a forecast and a score
"""

from __future__ import annotations

from collections.abc import Sequence

from ...models.catalogue import CATALOGUE
from ...scenario.errors import ScenarioError
from ...sim.figures.summary import Verdict
from ...sim.state.mechanism import Trait
from ..fit.medians import FitError
from ..points.point import BLOCKING, Point, point_at
from .observed_run import SERVER_ERRORS, Habits, ObservedRun, habits_of

KEPT = 1000
"""Requests a connection, where a run only records that connections are kept open."""


def point_of(run: ObservedRun, habits: Habits) -> Point:
    """Return the operating point of *run*, for a server with *habits*.

    Requests at a rate on kept connections, as from wrk2, equal users of a closed loop while the
    server is behind: each user has its next request ready.

    Raises
    ------
    FitError
        If the run does not record the number of users or the rate; if it kept its connections
        and the server kept up with the rate; or if no simulated server has these habits.
    """
    load = run.load
    is_open = load.loop == "open"
    if is_open and load.requests == 0:
        if run.verdict is not Verdict.OVERLOADED:
            raise FitError(
                "load.requests: must be known for an open loop that the server "
                "kept up with (requests at a rate on connections that are kept are not simulated)"
            )
        is_open = False
    if not is_open and load.users is None:
        raise FitError("load.users: must be known for a closed loop")
    if is_open and not load.rate_per_s:
        raise FitError("load.rate_per_s: must be above 0")
    own = habits_of(run.server, habits)
    blocks = own.mechanism == BLOCKING
    if blocks and own.share == "handed over":
        raise FitError(
            'server.share: must not be "handed over" where the server is blocking (a thread for '
            "each connection is not fitted)"
        )
    several = own.loops > 1 and not blocks
    watch_one_queue = several and own.share == "accept queue"
    if (
        watch_one_queue
        and own.wake == "one"
        and Trait.WAKES_ONE not in CATALOGUE[own.mechanism].mechanism.traits
    ):
        raise FitError(
            f'server.wake: must be "all" where workers wait with {own.mechanism}, got "one"'
        )
    # Programs without an event loop cannot choose when to read and how many to accept.
    loops = CATALOGUE[own.mechanism].runs_event_loop
    try:
        return point_at(
            mechanism=own.mechanism,
            accept_limit=own.accept_limit if loops else 0,
            # A loop that accepts for others does not read.
            read_after_accept=own.reads_after_accept and own.share != "handed over" and loops,
            idle=load.idle or 0,
            loop="open" if is_open else "closed",
            users=0 if is_open else load.users or 0,
            rate_per_s=load.rate_per_s or 0 if is_open else 0,
            requests=load.requests or KEPT,
            think_ns=0 if is_open else load.think_ns or 0,
            workers=own.loops if several or blocks else 0,
            share=own.share if several else "accept queue",
            wake=own.wake if watch_one_queue else "all",
        )
    except ScenarioError as error:
        raise FitError("; ".join(each.removeprefix("point: ") for each in error.mistakes)) from None


def name_of(run: ObservedRun) -> str:
    """Return a name of *run* for messages."""
    name = run.source.file or run.server.name or run.source.tool
    return f"{name} of {run.source.date}" if run.source.date else name


def why_unusable(run: ObservedRun) -> str:
    """Return why *run* does not show the server's speed, or an empty string."""
    if not run.accepted:
        return f"it was disturbed: {run.reason}"
    if run.calls:
        return "its calls were counted, which slows a server down"
    if run.replied == 0:
        return "the server sent no replies"
    if run.errors.get("status"):
        return f"{run.errors['status']} replies were errors"
    return ""


def what_failed(run: ObservedRun) -> str:
    """Return a remark on the failed connections of a closed loop, or an empty string."""
    failed = [name for name in SERVER_ERRORS if run.errors.get(name)]
    if run.load.loop == "open" or not failed:
        return ""
    return f"connections failed ({', '.join(failed)}): their cost counts as that of the others"


def counted(remarks: Sequence[tuple[ObservedRun, str]]) -> list[str]:
    """Return *remarks* as sentences; runs with the same remark share one."""
    about: dict[str, list[ObservedRun]] = {}
    for run, remark in remarks:
        about.setdefault(remark, []).append(run)
    return [
        f"{name_of(runs[0])}{f' and {len(runs) - 1} more' if len(runs) > 1 else ''}: {remark}"
        for remark, runs in about.items()
    ]
