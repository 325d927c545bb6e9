"""What each occurrence does to the world: one table for all engines.

An engine calls `happen`, then notifies the mechanism of the descriptors in `world.posted`: the
function that `telling` returns does.
"""

from __future__ import annotations

from collections.abc import Callable

from ..clients import clients
from ..clients.acknowledging import ack_due
from ..clients.backend import count_backend_times
from ..clients.kept import request_due
from ..cpu.gaps import gap
from ..cpu.interrupts import handled_connection, take_ledger
from ..cpu.receiving import tick
from ..figures.queue_lengths import take_sample
from ..kernel.calling import answer
from ..kernel.request_timeouts import timer_expires
from ..state.kinds import NO_CONNECTION, NONE, count, occurrence, packet_kind
from ..state.mechanism import Program
from ..state.program_settings import Wakes
from ..state.world import World
from ..tcp.arriving import backend_replies, packet_arrives, packet_handled
from ..tcp.handshake import syn_ack_timer
from .disturbances import burst_arrives, fault
from .other_threads import deliver, tick_of_turns

PACKETS = (
    occurrence.REQUEST,
    occurrence.SYN,
    occurrence.ACK,
    occurrence.SYN_ACK,
    occurrence.GONE,
    occurrence.ACKED,
    occurrence.REPLY_ACK,
    occurrence.FIN,
    occurrence.LAST_ACK,
)
"""Packets of connections that reach the server, the most frequent first."""

OF_CLIENTS = (
    occurrence.CONNECTED,
    occurrence.REPLY,
    occurrence.REQUEST_DUE,
    occurrence.START,
    occurrence.EOF,
    occurrence.RST,
    occurrence.ANSWER,
    occurrence.TIMEOUT,
    occurrence.SYN_AGAIN,
    occurrence.IDLE_CLOSE,
    occurrence.PORT_FREE,
    occurrence.ACK_DUE,
)
"""What befalls clients, or the client machine that the server itself has called."""


def happen(world: World, kind: int, subject: int) -> None:
    """Let the occurrence *kind* befall *subject* now."""
    world.n_posted = 0
    if kind in PACKETS:
        packet_arrives(world, kind, subject)
    elif kind in OF_CLIENTS:
        client_happening(world, kind, subject)
    elif kind == occurrence.HANDLED:
        packet_handled(world, packet_kind(subject), handled_connection(world, subject))
    else:
        clock_happening(world, kind, subject)


def telling(program: Program) -> Callable[[World], int]:
    """Return the function (world) that notifies the mechanism, and returns how many it woke.

    Where a new connection wakes one worker, the other descriptors of that listener notify nobody.
    """
    notify = program.mechanism.notify

    def tell(world: World) -> int:
        n_woken = 0
        woken_at = NONE  # the listener that has woken one
        for i in range(world.n_posted):
            fd = world.posted[i]
            if woken_at != NONE and world.listens_at[fd] == woken_at:
                continue
            if notify(world, fd):
                n_woken += 1
                if world.program.wakes == Wakes.ONE and woken_at == NONE:
                    woken_at = world.listens_at[fd]
        return n_woken

    return tell


def client_happening(world: World, kind: int, c: int) -> None:
    """Let the client of *c* receive or send something, or give up."""
    if kind == occurrence.CONNECTED:
        clients.connected(world, c)
    elif kind == occurrence.REQUEST_DUE:
        request_due(world)
    elif kind == occurrence.REPLY:
        clients.reply_arrives(world, c, world.now_ns)
    elif kind == occurrence.START:
        clients.start(world, c)
    elif kind == occurrence.EOF:
        clients.server_closed(world, c)
    elif kind == occurrence.RST:
        clients.server_reset(world, c)
    elif kind == occurrence.ANSWER:
        answer(world, c)
    elif kind == occurrence.TIMEOUT:
        clients.timeout(world, c)
    elif kind == occurrence.SYN_AGAIN:
        clients.syn_sent_again(world, c)
    elif kind == occurrence.IDLE_CLOSE:
        clients.idle_closes(world, c)
    elif kind == occurrence.PORT_FREE:
        world.n_ports -= 1
    elif kind == occurrence.ACK_DUE:
        ack_due(world, c)


def clock_happening(world: World, kind: int, subject: int) -> None:
    """Let a clock, a device, the backend or a fault act on the server, or the run be measured."""
    if kind == occurrence.TIME_WAIT_OVER:
        world.n_time_wait -= 1
    elif world.backend.connections > 0 and kind == occurrence.BACKEND_REPLY:
        # Without the first condition the folded engine has two calls, and inlines none: 3% slower.
        backend_replies(world, NO_CONNECTION - subject)
    elif kind == occurrence.DATAGRAM:
        burst_arrives(world)
    elif kind == occurrence.DELIVERY:
        deliver(world, world.cpus[NO_CONNECTION - subject])
    elif kind == occurrence.TICK:
        tick(world, world.cpus[NO_CONNECTION - subject])
    elif kind == occurrence.SYN_ACK_TIMER:
        syn_ack_timer(world, subject)
    elif kind == occurrence.TURN:
        tick_of_turns(world, world.cpus[NO_CONNECTION - subject])
    elif kind == occurrence.TIMER:
        timer_expires(world, world.workers[NO_CONNECTION - subject])
    elif kind == occurrence.GAP:
        gap(world, world.cpus[NO_CONNECTION - subject])
    elif kind == occurrence.FAULT:
        fault(world, NO_CONNECTION - subject)
    elif kind == occurrence.SAMPLE:
        take_sample(world)
    elif kind == occurrence.MARK:
        _begin_window(world)


def _begin_window(world: World) -> None:
    world.mark_ns = world.now_ns
    count_backend_times(world)
    for k in range(len(world.cpus)):
        take_ledger(world, world.cpus[k], world.cpus[k].ledger_mark_ns)
    for i in range(len(world.counts)):
        world.counts_mark[i] = world.counts[i]
    world.counts[count.SIGNAL_QUEUE_MAX] = world.counts[count.SIGNALS_QUEUED]
