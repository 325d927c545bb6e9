"""The requests of clients that a window saw: when each was wanted, when its reply was there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..sim.figures.outcome import first_known
from ..sim.state.kinds import NONE, Status
from ..sim.state.world import World

_OPEN: dict[str, Any] = {"end_ns": NONE, "status": Status.OPEN}


class Request(NamedTuple):
    """One request of a connection, of several attempts the first.

    Attributes
    ----------
    connection, number:
        Which one of which connection, from 0.
    due_ns, end_ns:
        When its client wanted to send it, and when it had the whole reply or gave up; the latter
        NONE if neither came within the window.
    status:
        How it ended; OPEN if it did not within the window.
    """

    connection: int
    number: int
    due_ns: int
    end_ns: int
    status: Status

    @property
    def replied(self) -> bool:
        """Whether the whole reply came within the window."""
        return self.status is Status.REPLIED


def requests_of(world: World, begin_ns: int, end_ns: int) -> tuple[Request, ...]:
    """Return the requests that were due or under way within the window, in order of their due.

    Those that had ended before it, with a reply or without one, are none of it.
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
    is_near = (due_ns != NONE) & (due_ns < end_ns) & ((reply_ns == NONE) | (reply_ns >= begin_ns))
    connection = first + row * each
    found = [
        _request(world, int(connection[i]), int(number[i]), int(due_ns[i]), int(reply_ns[i]))
        for i in np.flatnonzero(is_near)
    ]
    known = [one if one.end_ns < end_ns else one._replace(**_OPEN) for one in found]
    seen = [one for one in known if one.end_ns == NONE or one.end_ns >= begin_ns]
    return tuple(sorted(seen, key=lambda one: (one.due_ns, one.connection, one.number)))


def _request(world: World, connection: int, number: int, due_ns: int, reply_ns: int) -> Request:
    """Return the request of that *number*, whose client has no reply if *reply_ns* is NONE."""
    if reply_ns != NONE:
        return Request(connection, number, due_ns, reply_ns, Status.REPLIED)
    attempts = range(connection, connection + world.rows_each)
    used = [c for c in attempts if world.intended_ns[c] != NONE]
    last = used[-1] if used else connection
    status = Status(int(world.status[last]))
    if status in (Status.OPEN, Status.REPLIED):  # a reply that is planned for after the window
        return Request(connection, number, due_ns, **_OPEN)
    return Request(connection, number, due_ns, int(world.done_ns[last]), status)
