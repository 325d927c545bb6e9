"""Requests that come in pieces: of clients that are slow, or that mean to hold a server up.

    client   piece ── pause ── piece ── pause ── ... ── last piece
    server   event, read;      event, read;             event, read, reply

Each piece is a packet, an event and a read; nothing is answered before the last has come. In what
order they come after losses does not matter: the request is whole when all are there.

Sources: Hansen 2009, slowloris (a header that does not end); RFC 9112, section 9.5.
"""

from __future__ import annotations

from ..state.flows import thousandth_of
from ..state.world import World


def pieces_of(world: World, c: int) -> int:
    """Return in how many pieces each request of *c* comes: some of the clients send them whole."""
    some = thousandth_of(world, c, 7_919)
    return world.client.request_pieces if some < world.client.pieces_permille else 1


def is_part(world: World, c: int) -> bool:
    """Take a piece of a request of *c*; return whether more of it is to come."""
    world.came_pieces[c] += 1
    if world.came_pieces[c] < pieces_of(world, c):
        world.part[c] = 1
        return True
    world.came_pieces[c] = 0
    return False
