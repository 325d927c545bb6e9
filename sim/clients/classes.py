"""Classes of clients in a run: the requests of a user's connections, and its pauses.

    open loop    a connection has the class that the trace has chosen for it
    users        a connection has the class of its user, and takes its requests from tables

The tables are those of sim/load/client_classes.py, made before the run.
"""

from __future__ import annotations

from ..state.kinds import NONE
from ..state.world import World
from ..wire.way import drawn, flow_hash


def are_of_users(world: World) -> bool:
    """Return whether there are several classes, and each user is of one."""
    return world.n_classes > 1 and world.n_users > 0


def drawn_of_class(world: World, draws: list[int], c: int, number: int) -> int:
    """Return the random value of *number* for *c* from the table of its class.

    All attempts at a connection have the same values.
    """
    row = world.row[c] // world.rows_each
    if world.n_classes == 1:
        return drawn(draws, row, number)
    n = len(draws) // world.n_classes
    return draws[world.class_of[c] * n + flow_hash(flow_hash(row) + number) % n]


def first_class(world: World, user: int) -> int:
    """Return the class of *user*, of those that begin the run in order of their start."""
    return world.class_of_user[user] if are_of_users(world) else 0


def due_user(client_class: int) -> int:
    """Return the subject of the start of a connection by some user of *client_class*.

    It is below all connections; the first class, or the only one, is NONE.
    """
    return NONE - client_class


def take_class(world: World, c: int, client_class: int) -> None:
    """Give *c*, which begins, and its attempts the requests of a connection of *client_class*.

    The pause after its last request has the number 0.
    """
    for attempt in range(world.rows_each):
        world.class_of[c + attempt] = client_class
    requests = drawn_of_class(world, world.class_requests, c, 0)
    reply_bytes = drawn_of_class(world, world.class_reply_bytes, c, 0)
    think_ns = drawn_of_class(world, world.pause_ns, c, 0)
    for attempt in range(world.rows_each):
        row = c + attempt
        world.requests[row] = requests
        world.left[row] = requests
        world.request_bytes[row] = world.class_request_bytes[client_class]
        world.reply_bytes[row] = reply_bytes
        world.think_ns[row] = think_ns
