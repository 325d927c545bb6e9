"""Connections that their clients keep open, with requests at a rate independent of the server.

    a request is due ─► its connection is free ─► sent ─► reply ─► the next that waits
             └────────► it is busy, or lost ─► waits at its client, in order

The wait at the client counts: a request's latency runs from its due time. A lost connection is
opened again at once, or after a second if it was refused or received no SYN-ACK.

Sources: wrk2 (-R), mutilate, memtier_benchmark (--rate-limiting), which keep their connections and
send at a rate.
"""

from __future__ import annotations

from ..state.event_calendar import schedule
from ..state.kinds import NONE, occurrence
from ..state.units import SECOND_NS
from ..state.world import World
from .asking import number_request
from .classes import are_of_users, take_class

AGAIN_NS = SECOND_NS
"""Wait after a failed connect() until the client opens another connection."""


def keeps(world: World, c: int) -> bool:
    """Return whether the client of *c* keeps its connections open."""
    return world.is_kept and world.user_of[c] != NONE


def plan_request(world: World) -> None:
    """Plan when the next request of kept connections is due, if there is another."""
    if world.next_arrival < len(world.arrival_ns):
        schedule(world, world.arrival_ns[world.next_arrival], occurrence.REQUEST_DUE, NONE)


def request_due(world: World) -> None:
    """Let the next request be due now: it is sent, or waits at its client."""
    user = world.arrival_user[world.next_arrival]
    world.next_arrival += 1
    plan_request(world)
    request = number_request(world, world.now_ns)
    c = world.row_of[user]
    if c != NONE and world.is_usable[c] and world.request_of[c] == NONE:
        _send(world, c, request, world.now_ns)
    elif world.first_waiting[user] == NONE:
        world.first_waiting[user] = world.last_waiting[user] = request
    else:
        world.waits_before[world.last_waiting[user]] = request
        world.last_waiting[user] = request


def send_next(world: World, c: int, at_ns: int) -> None:
    """Let the client of *c*, which is free from *at_ns* on, send its oldest waiting request.

    A request that has timed out has failed already (`figures.outcome.requests_of`).
    """
    user = world.user_of[c]
    world.request_of[c] = NONE
    request = world.first_waiting[user]
    while request != NONE and _is_over(world, request, at_ns):
        request = _behind(world, user, request)
    if request != NONE:
        world.first_waiting[user] = _behind(world, user, request)
        _send(world, c, request, at_ns)
    else:
        world.first_waiting[user] = NONE


def _behind(world: World, user: int, request: int) -> int:
    """Return the request that waits behind *request* at the same client, or NONE."""
    return NONE if request == world.last_waiting[user] else world.waits_before[request]


def _is_over(world: World, request: int, at_ns: int) -> bool:
    """Return whether the client has given up *request*, which it has not sent, by *at_ns*."""
    timeout_ns = world.client.timeout_ns
    return 0 < timeout_ns <= at_ns - world.due_ns[request]


def _send(world: World, c: int, request: int, at_ns: int) -> None:
    world.request_of[c] = request
    world.asked_on[request] = c
    if world.client.timeout_ns > 0:
        over_ns = world.due_ns[request] + world.client.timeout_ns
        schedule(world, over_ns, occurrence.TIMEOUT, c)
    schedule(world, at_ns, occurrence.CONNECTED, c)


def keep_open(world: World, c: int, ended_ns: int) -> None:
    """After the end of *c*, let its client open another connection, if the trace has one."""
    user = world.user_of[c]
    next_c = world.next_row
    if next_c == world.end_row:
        world.row_of[user] = NONE
        return
    world.next_row += 1
    came_to_be = world.connected_ns[c] != NONE
    due_ns = ended_ns + (1 if came_to_be else AGAIN_NS)
    world.user_of[next_c] = user
    world.row_of[user] = next_c
    if are_of_users(world):
        take_class(world, next_c, world.class_of_user[user])
    world.intended_ns[next_c] = due_ns
    schedule(world, due_ns, occurrence.START, next_c)


def begin_kept(world: World, n_sets: int) -> None:
    """Open the first connection of each client before the run.

    Users take turns at *n_sets* interest sets, each with a contiguous range of connections.
    """
    n, user = world.n_users, 0
    for place in range(n * n_sets):
        i, j = place % n_sets, place // n_sets
        c = n * i // n_sets + j
        if c >= n * (i + 1) // n_sets or user == n:
            continue
        c += world.n_idle
        if are_of_users(world):
            take_class(world, c, world.class_of_user[user])
        world.user_of[c] = user
        world.row_of[user] = c
        world.is_usable[c] = 1
        world.intended_ns[c] = 0
        world.started_ns[c] = 0
        world.connected_ns[c] = 0
        user += 1
    world.next_row = world.n_idle + world.n_users
    world.n_open += world.n_users
    if world.client.ports > 0:
        world.n_ports += world.n_users
    plan_request(world)


def is_old(world: World, c: int) -> bool:
    """Return whether *c*, which is not idle, was open before the run."""
    return world.is_kept and c < world.n_idle + world.n_users


def n_before(world: World) -> int:
    """Return the number of connections open at the start of the run: idle and kept ones."""
    return world.n_idle + world.n_users if world.is_kept else world.n_idle
