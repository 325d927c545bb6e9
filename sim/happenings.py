"""What each occurrence does to the world: one table for all engines, and how a run begins.

An engine calls `happen`, then lets the mechanism know of the descriptor in `world.posted`.
"""

from __future__ import annotations

from numba.extending import register_jitable

from .clients import (
    connected,
    idle_closes,
    idle_life,
    plan_arrival,
    reply_arrives,
    start,
    timeout,
    user_is_due,
)
from .descriptors import FIRST_FD, open_fd
from .event_calendar import schedule
from .interrupts import take_ledger
from .kinds import NONE, READABLE, WRITABLE, Count, Occurrence, Stage
from .listen_queue import ack_arrives, gone_arrives, request_arrives, syn_arrives
from .mechanism import Mechanism
from .sockets import acked_arrives
from .world import World

_START, _SYN, _SEND = int(Occurrence.START), int(Occurrence.SYN), int(Occurrence.CONNECTED)
_ACK, _REQUEST, _REPLY = int(Occurrence.ACK), int(Occurrence.REQUEST), int(Occurrence.REPLY)
_ACKED, _GONE, _TIMEOUT = int(Occurrence.ACKED), int(Occurrence.GONE), int(Occurrence.TIMEOUT)
_IDLE_CLOSE, _MARK = int(Occurrence.IDLE_CLOSE), int(Occurrence.MARK)
_SAMPLE = int(Occurrence.SAMPLE)
_ACCEPTED = int(Stage.ACCEPTED)
_CONNECTIONS_OPEN = int(Count.CONNECTIONS_OPEN)


@register_jitable
def happen(world: World, kind: int, subject: int) -> None:  # noqa: PLR0912 (one per kind)
    """Let the occurrence *kind* befall *subject* now; most frequent kinds first."""
    world.posted = NONE
    if kind == _REQUEST:
        request_arrives(world, subject)
    elif kind == _SYN:
        syn_arrives(world, subject)
    elif kind == _ACK:
        ack_arrives(world, subject)
    elif kind == _GONE:
        gone_arrives(world, subject)
    elif kind == _SEND:
        connected(world, subject)
    elif kind == _REPLY:
        reply_arrives(world, subject, world.now_ns)
    elif kind == _START:
        start(world, subject)
    elif kind == _ACKED:
        acked_arrives(world, subject)
    elif kind == _TIMEOUT:
        timeout(world)
    elif kind == _IDLE_CLOSE:
        idle_closes(world, subject)
    elif kind == _SAMPLE:
        take_sample(world)
    elif kind == _MARK:
        world.mark_ns = world.now_ns
        take_ledger(world, world.ledger_mark_ns)
        for i in range(len(world.counts)):
            world.counts_mark[i] = world.counts[i]


SAMPLE_COLUMNS = ("at_ns", "half_open", "accept_queue", "ready_list", "connections_open")
"""The columns of a sample of queue lengths."""


@register_jitable
def take_sample(world: World) -> None:
    """Append the queue lengths of now to the samples, and plan the next look."""
    row = world.n_samples * len(SAMPLE_COLUMNS)
    world.samples[row] = world.now_ns
    world.samples[row + 1] = world.n_half
    world.samples[row + 2] = world.n_queued
    world.samples[row + 3] = world.n_ready
    world.samples[row + 4] = world.counts[_CONNECTIONS_OPEN]
    world.n_samples += 1
    schedule(world, world.now_ns + world.sample_every_ns, _SAMPLE, NONE)


def begin(world: World, mechanism: Mechanism, warm_up_ns: int, duration_ns: int) -> None:
    """Open the listener, have the idle population connected, and let the first clients be due.

    Raises
    ------
    ValueError
        If the idle population does not fit the server's descriptors.
    """
    world.next_fd = FIRST_FD
    world.listener = open_fd(world)
    mechanism.open(world)
    mechanism.watch(world, world.listener, READABLE)
    _connect_idle(world, mechanism)
    if warm_up_ns > 0:
        schedule(world, warm_up_ns, _MARK, NONE)
    if world.sample_every_ns > 0:
        n_samples = duration_ns // world.sample_every_ns + 2
        world.samples.extend([0] * (n_samples * len(SAMPLE_COLUMNS)))
        schedule(world, 0, _SAMPLE, NONE)
    if world.n_users == 0:
        plan_arrival(world)
    for _ in range(min(world.n_users, world.n_traced)):
        user_is_due(world, 0)


def _connect_idle(world: World, mechanism: Mechanism) -> None:
    """Set the idle population up in whole slices: a million of them cost the simulator little."""
    n_idle = world.client.idle
    if n_idle == 0:
        return
    first_fd, end_fd = world.next_fd, world.next_fd + n_idle
    room = min(world.server.fd_limit, len(world.state))
    if end_fd > room:
        raise ValueError(
            f"idle must leave the server a descriptor: {n_idle} idle connections "
            f"need {end_fd + 1} descriptors, fd_limit is {world.server.fd_limit}"
        )
    first_c, end_c = world.n_traced, world.n_traced + n_idle
    fds, connections = range(first_fd, end_fd), range(first_c, end_c)
    world.next_fd = end_fd
    world.fd_of[first_c:end_c] = fds
    world.stage[first_c:end_c] = [_ACCEPTED] * n_idle
    world.connection_of[first_fd:end_fd] = connections
    world.state[first_fd:end_fd] = [WRITABLE] * n_idle
    world.interest[first_fd:end_fd] = [READABLE] * n_idle
    world.n_watched += n_idle
    world.counts[_CONNECTIONS_OPEN] += n_idle
    mechanism.watch_idle(world, first_fd, end_fd)
    if world.client.idle_life_ns > 0:
        for c in connections:
            schedule(world, idle_life(world, c), _IDLE_CLOSE, c)
