"""What each occurrence does to the world: one table for all engines.

An engine calls `happen`, then lets the mechanism know of the descriptors in `world.posted`.
"""

from __future__ import annotations

from .calling import answer
from .clients import (
    connected,
    idle_closes,
    reply_arrives,
    server_closed,
    server_reset,
    start,
    syn_sent_again,
    timeout,
)
from .closing import fin_arrives, fin_handled, last_ack_arrives
from .event_calendar import schedule
from .faults import fault
from .flood import burst_arrives
from .interest_set import n_listed
from .interrupts import handled_connection, packet_kind, take_ledger
from .jitable import jitable
from .kinds import NONE, Count, Occurrence
from .listen_queue import (
    ack_arrives,
    ack_handled,
    gone_arrives,
    gone_handled,
    request_arrives,
    request_handled,
    syn_ack_arrives,
    syn_ack_handled,
    syn_arrives,
    syn_handled,
)
from .other_threads import deliver
from .receiving import NO_CONNECTION, tick
from .request_timeouts import timer_expires
from .sockets import acked_arrives, acked_handled
from .world import World

_START, _SYN, _SEND = int(Occurrence.START), int(Occurrence.SYN), int(Occurrence.CONNECTED)
_ACK, _REQUEST, _REPLY = int(Occurrence.ACK), int(Occurrence.REQUEST), int(Occurrence.REPLY)
_ACKED, _GONE, _TIMEOUT = int(Occurrence.ACKED), int(Occurrence.GONE), int(Occurrence.TIMEOUT)
_IDLE_CLOSE, _MARK = int(Occurrence.IDLE_CLOSE), int(Occurrence.MARK)
_SAMPLE, _HANDLED = int(Occurrence.SAMPLE), int(Occurrence.HANDLED)
_TIMER = int(Occurrence.TIMER)
_PORT_FREE, _SYN_ACK = int(Occurrence.PORT_FREE), int(Occurrence.SYN_ACK)
_SYN_AGAIN = int(Occurrence.SYN_AGAIN)
_ANSWER, _DATAGRAM = int(Occurrence.ANSWER), int(Occurrence.DATAGRAM)
_TICK, _FAULT = int(Occurrence.TICK), int(Occurrence.FAULT)
_DELIVERY = int(Occurrence.DELIVERY)
_EOF, _FIN, _LAST_ACK = int(Occurrence.EOF), int(Occurrence.FIN), int(Occurrence.LAST_ACK)
_TIME_WAIT_OVER, _RST = int(Occurrence.TIME_WAIT_OVER), int(Occurrence.RST)
_CONNECTIONS_OPEN = int(Count.CONNECTIONS_OPEN)


@jitable
def happen(world: World, kind: int, subject: int) -> None:  # noqa: PLR0912, PLR0915 (one per kind)
    """Let the occurrence *kind* befall *subject* now; most frequent kinds first."""
    world.n_posted = 0
    if kind == _REQUEST:
        request_arrives(world, subject)
    elif kind == _SYN:
        syn_arrives(world, subject)
    elif kind == _ACK:
        ack_arrives(world, subject)
    elif kind == _SYN_ACK:
        syn_ack_arrives(world, subject)
    elif kind == _SYN_AGAIN:
        syn_sent_again(world, subject)
    elif kind == _GONE:
        gone_arrives(world, subject)
    elif kind == _HANDLED:
        packet_handled(world, packet_kind(subject), handled_connection(world, subject))
    elif kind == _SEND:
        connected(world, subject)
    elif kind == _REPLY:
        reply_arrives(world, subject, world.now_ns)
    elif kind == _START:
        start(world, subject)
    elif kind == _ACKED:
        acked_arrives(world, subject)
    elif kind == _ANSWER:
        answer(world, subject)
    elif kind == _EOF:
        server_closed(world, subject)
    elif kind == _RST:
        server_reset(world, subject)
    elif kind == _FIN:
        fin_arrives(world, subject)
    elif kind == _LAST_ACK:
        last_ack_arrives(world, subject)
    elif kind == _TIME_WAIT_OVER:
        world.n_time_wait -= 1
    elif kind == _PORT_FREE:
        world.n_ports -= 1
    elif kind == _TIMEOUT:
        timeout(world, subject)
    elif kind == _IDLE_CLOSE:
        idle_closes(world, subject)
    elif kind == _DATAGRAM:
        burst_arrives(world)
    elif kind == _SAMPLE:
        take_sample(world)
    elif kind == _TICK:
        tick(world, world.cpus[NO_CONNECTION - subject])
    elif kind == _TIMER:
        timer_expires(world, world.workers[NO_CONNECTION - subject])
    elif kind == _DELIVERY:
        deliver(world, world.cpus[NO_CONNECTION - subject])
    elif kind == _FAULT:
        fault(world, NO_CONNECTION - subject)
    elif kind == _MARK:
        _begin_window(world)


@jitable
def _begin_window(world: World) -> None:
    world.mark_ns = world.now_ns
    for k in range(len(world.cpus)):
        take_ledger(world, world.cpus[k], world.cpus[k].ledger_mark_ns)
    for i in range(len(world.counts)):
        world.counts_mark[i] = world.counts[i]


@jitable
def packet_handled(world: World, kind: int, c: int) -> None:
    """Let a packet of *c*, that arrived a while ago, have its effect."""
    if kind == _REQUEST:
        request_handled(world, c)
    elif kind == _SYN:
        syn_handled(world, c, world.now_ns)
    elif kind == _ACK:
        ack_handled(world, c)
    elif kind == _SYN_ACK:
        syn_ack_handled(world, c)
    elif kind == _GONE:
        gone_handled(world, c)
    elif kind == _ACKED:
        acked_handled(world, c)
    elif kind == _FIN:
        fin_handled(world, c)


SAMPLE_COLUMNS = ("at_ns", "half_open", "accept_queue", "ready_list", "connections_open")
"""The columns of a sample of queue lengths."""


@jitable
def take_sample(world: World) -> None:
    """Append the queue lengths of now to the samples, and plan the next look."""
    n_half, n_queued, n_ready = 0, 0, 0
    for i in range(len(world.listeners)):
        n_half += world.listeners[i].n_half
        n_queued += world.listeners[i].n_queued
    for i in range(len(world.sets)):
        n_ready += n_listed(world.sets[i])
    row = world.n_samples * len(SAMPLE_COLUMNS)
    world.samples[row] = world.now_ns
    world.samples[row + 1] = n_half
    world.samples[row + 2] = n_queued
    world.samples[row + 3] = n_ready
    world.samples[row + 4] = world.counts[_CONNECTIONS_OPEN]
    world.n_samples += 1
    schedule(world, world.now_ns + world.sample_every_ns, _SAMPLE, NONE)
