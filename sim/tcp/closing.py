"""The server's side of an orderly close: a FIN each way, and TIME_WAIT for the first side.

    server closes first   reply, FIN ─► client ─► FIN and ACK ─► TIME_WAIT at the server
    client closes first   FIN ─► end of file ─► server closes: FIN ─► client ─► ACK
    half-close            request, FIN ─► reply, FIN ─► client ─► ACK
    client has given up   FIN ─► ... a reply nevertheless ─► client ─► reset
    client is late        server closes: FIN ─► client, without its reply ─► FIN ─► TIME_WAIT there

A FIN is no reset: earlier data can be read, and a reply can be sent. The acknowledgement of a FIN
travels with the FIN of the other side, as programs close at once (tcp_fin() delays it). A client
that gets the server's FIN before its own is sent is in LAST_ACK, otherwise in TIME_WAIT.

Costs: an arriving FIN costs as much as a reset, its acknowledgement as much as the last packet of a
handshake; no bench separates them. TIME_WAIT takes memory, and its timer takes no CPU time.

Left out: FINs that cross (who closes first is a setting), connections that are half open when their
client gives up (they end as if reset), FINs that are acknowledged apart, tcp_max_tw_buckets.

Sources: RFC 9293, section 3.6; shutdown(2), epoll_ctl(2) (EPOLLRDHUP); Linux net/ipv4/tcp_input.c
tcp_fin(), tcp_rcv_state_process(), tcp_minisocks.c tcp_time_wait(), include/net/tcp.h
(TCP_TIMEWAIT_LEN).
"""

from __future__ import annotations

from ..state.event_calendar import post, schedule
from ..state.kinds import (
    CLIENT_CLOSED,
    IS_GONE,
    NONE,
    READABLE,
    SENDS_NO_MORE,
    SERVER_RESET,
    WRITABLE,
    count,
    occurrence,
    stage,
)
from ..state.units import SECOND_NS
from ..state.world import World
from .listen_queue import leaves_half_open, listener_of

TIME_WAIT_NS = 60 * SECOND_NS
"""Linux TCP_TIMEWAIT_LEN, which no setting changes."""


def fin_handled(world: World, c: int) -> None:
    """Report to the server that the client of *c* sends no more, closed or half-closed."""
    if world.ended[c]:
        return
    world.ended[c] = SENDS_NO_MORE
    if world.stage[c] == stage.ACCEPTED:
        post(world, world.fd_of[c], READABLE)
    elif world.stage[c] == stage.CLOSED and world.ending[c] & SERVER_RESET == 0:
        world.n_time_wait += 1
        world.counts[count.TIME_WAITS] += 1
        schedule(world, world.now_ns + TIME_WAIT_NS, occurrence.TIME_WAIT_OVER, NONE)
    else:
        _forget_half_open(world, c)


def gone_handled(world: World, c: int) -> None:
    """Report to the server's side of *c* that its client is gone."""
    if world.requests[c] == 0 and world.ending[c] & CLIENT_CLOSED == 0:
        return  # an idle one, which the server had closed meanwhile: it is open anew, or on its way
    if world.ended[c] != IS_GONE:
        world.n_unacked -= world.unacked[c]
    world.ended[c] = IS_GONE
    if world.stage[c] == stage.ACCEPTED:
        post(world, world.fd_of[c], READABLE | WRITABLE)  # hung up: an event for every interest
    else:
        _forget_half_open(world, c)


def _forget_half_open(world: World, c: int) -> None:
    """Forget *c* if its handshake is not complete: its client has closed or reset it."""
    if world.stage[c] == stage.HALF_OPEN:
        leaves_half_open(world, listener_of(world, c), c)
        world.stage[c] = stage.CLOSED
    elif world.stage[c] in (stage.BY_COOKIE, stage.EXPIRED):
        world.stage[c] = stage.CLOSED
