"""Requests: each gets a number when it is due, and a connection carries one at a time.

    due ─► sent on a connection ─► reply
      └──── failure: the client's next attempt takes it over, if there is one

A run has entries only for requests that have become due, not for all possible requests.
"""

from __future__ import annotations

from ..state.event_calendar import call_python
from ..state.kinds import NONE
from ..state.world import Column, World
from ..wire.way import drawn


def has_room(world: World) -> bool:
    """Return whether the run can hold another request.

    If not, the client falls silent, and the run must be repeated with more room.
    """
    if world.n_requests < len(world.due_ns):
        return True
    world.n_silent += 1
    return False


def number_request(world: World, due_ns: int) -> int:
    """Return the number of a request that is due at *due_ns*, for which there is room."""
    request = world.n_requests
    world.n_requests += 1
    world.due_ns[request] = due_ns
    world.reply_ns[request] = NONE
    world.asked_on[request] = NONE
    if world.n_requests >= world.refill_request:
        call_python(world)
    return request


def new_request(world: World, c: int, due_ns: int) -> None:
    """Make a request of the client of *c* due at *due_ns*."""
    request = number_request(world, due_ns)
    world.asked_on[request] = c
    world.request_of[c] = request


def n_of_attempts_before(world: World, c: int) -> int:
    """Return the number of requests with a reply in attempts before that of row *c*.

    Random numbers depend on a request's number on its connection of the trace, not on the attempt.
    """
    if world.rows_each == 1:
        return 0
    first = c - (c - world.n_idle) % world.rows_each
    return world.requests[first] - world.requests[c]


def drawn_for_request(world: World, draws: Column, c: int) -> int:
    """Return the table's random value for the current request of *c*."""
    number = n_of_attempts_before(world, c) + world.answered[c]
    return drawn(draws, world.row[c] // world.rows_each, number)


def take_over(world: World, c: int, next_c: int) -> None:
    """Continue with the request of *c* on *next_c*, and with the requests after it.

    A request after a pause is due with this attempt: its client sends it as it connects.
    """
    request = world.request_of[c]
    world.due_ns[request] = min(world.due_ns[request], world.intended_ns[next_c])
    world.request_of[next_c] = request
    world.asked_on[request] = next_c
    world.left[next_c] = world.left[c]
    world.requests[next_c] = world.left[c]
