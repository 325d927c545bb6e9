"""The requests of clients that a window saw: when each was wanted, when its reply was there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..sim.attempts import first_known
from ..sim.kinds import NONE, Status
from ..sim.world import World


class Request(NamedTuple):
    """One request of a connection, of several attempts the first.

    Attributes
    ----------
    connection, number:
        Which one of which connection, from 0.
    due_ns, reply_ns:
        When its client wanted to send it, and when it had the whole reply; the latter NONE if that
        did not come within the window.
    """

    connection: int
    number: int
    due_ns: int
    reply_ns: int


def requests_of(world: World, begin_ns: int, end_ns: int) -> tuple[Request, ...]:
    """Return the requests that were due or under way within the window, in order of their due.

    Those of connections that had ended before it, without a reply, are none of it.
    """
    first, each = world.n_idle, world.rows_each
    requests = np.array(world.requests[first : world.end_row], np.int64)
    due_ns = first_known(np.array(world.due_ns, np.int64), requests, each)
    reply_ns = first_known(np.array(world.reply_ns, np.int64), requests, each)
    of_each = requests[::each]
    row = np.repeat(np.arange(of_each.size), of_each)
    number = np.arange(row.size) - np.repeat(np.cumsum(of_each) - of_each, of_each)
    # Free clients know their future: what lies beyond the end has not happened.
    reply_ns = np.where(reply_ns >= end_ns, NONE, reply_ns)
    is_seen = (due_ns != NONE) & (due_ns < end_ns) & ((reply_ns == NONE) | (reply_ns >= begin_ns))
    found = [
        Request(first + int(row[i]) * each, int(number[i]), int(due_ns[i]), int(reply_ns[i]))
        for i in np.flatnonzero(is_seen)
    ]
    seen = [one for one in found if one.reply_ns != NONE or _was_open(world, one, begin_ns)]
    return tuple(sorted(seen, key=lambda one: (one.due_ns, one.connection, one.number)))


def _was_open(world: World, request: Request, begin_ns: int) -> bool:
    """Return whether the client of a request without a reply still waited for it at *begin_ns*."""
    attempts = range(request.connection, request.connection + world.rows_each)
    used = [c for c in attempts if world.intended_ns[c] != NONE]
    last = used[-1] if used else request.connection
    return world.status[last] == Status.OPEN or world.done_ns[last] >= begin_ns
