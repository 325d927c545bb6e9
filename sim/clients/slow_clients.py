"""Slow clients: requests in pieces, and clients that stop reading for a time.

    client   piece ── pause ── piece ── pause ── ... ── last piece
    server   event, read;      event, read;             event, read, reply

Each piece is a packet, an event and a read; the server replies after the last piece. After losses
their order does not matter: the request is whole when all pieces have arrived.

    write() ─► send buffer ─► client's kernel: as much as its receive window ─► client, in time
                    │ short,            │ acknowledges that, and the rest
                    ▼ not WRITABLE      ▼ when its client reads on

Replies to a client that stops reading fill buffers, first its own. The hash of the flow selects
these clients, so a run has no extra randomness, and a retrying client stays the same. Without a
receive window, data is acknowledged only when the client reads again: then only the send buffer
bounds it. A reply arrives when its client reads it.

Sources: Hansen 2009, slowloris (a header that does not end); RFC 9112, section 9.5; RFC 9293,
section 3.8.6 (a window of zero). Left out: probes of that window, and that a client which closes a
connection without having read all of it resets it.
"""

from __future__ import annotations

from ..state.settings import FaultKind
from ..state.world import World
from ..wire.way import thousandth_of


def pieces_of(world: World, c: int) -> int:
    """Return the number of pieces of each request of *c*: some clients send whole requests."""
    some = thousandth_of(world, c, 7_919)
    return world.client.request_pieces if some < world.client.pieces_permille else 1


def is_part(world: World, c: int) -> bool:
    """Take a piece of a request of *c*; return whether more pieces follow."""
    world.came_pieces[c] += 1
    if world.came_pieces[c] < pieces_of(world, c):
        world.part[c] = 1
        return True
    world.came_pieces[c] = 0
    return False


def read_ns(world: World, c: int, at_client_ns: int) -> int:
    """Return when the client of *c* reads data that its kernel has at *at_client_ns*."""
    return _reads_on_ns(world, c, at_client_ns) if world.some_stop_reading else at_client_ns


def taken_ns(world: World, c: int, n_bytes: int, at_client_ns: int) -> int:
    """Return when the client's kernel acknowledges *n_bytes* that are there at *at_client_ns*."""
    reads_ns = read_ns(world, c, at_client_ns)
    if reads_ns == at_client_ns:
        return at_client_ns
    if world.held_until_ns[c] != reads_ns:
        world.held_until_ns[c] = reads_ns
        world.held[c] = 0
    world.held[c] += n_bytes
    fits = world.held[c] <= world.network.receive_window_bytes
    return at_client_ns if fits else reads_ns


def room_of(world: World, c: int, n_bytes: int) -> int:
    """Return for how many of *n_bytes* the kernel of the client of *c* has room now."""
    if not world.some_stop_reading or world.held_until_ns[c] <= world.now_ns:
        return n_bytes
    return max(0, min(n_bytes, world.network.receive_window_bytes - world.held[c]))


def _reads_on_ns(world: World, c: int, at_client_ns: int) -> int:
    """Return when the client of *c* reads, from *at_client_ns* on: after all faults that last."""
    share = thousandth_of(world, c, 15_485_863)
    reads_ns = at_client_ns
    again = True
    while again:  # one fault may begin before another is over, and be listed before it
        again = False
        for i in range(len(world.fault_kind)):
            begin_ns = world.fault_at_ns[i]
            end_ns = begin_ns + world.fault_length_ns[i]
            stops = world.fault_kind[i] == FaultKind.READING and share < world.fault_value[i]
            if stops and begin_ns <= reads_ns < end_ns:
                reads_ns = end_ns
                again = True
    return reads_ns
