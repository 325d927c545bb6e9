"""A pool of threads at a completion port: each takes a packet, goes on with it, and comes back.

    packet of the listener ─► accept done: the next one issued, bound to the port, receive issued
           of a receive    ─► request: user code ─► send issued   │ end of file: close
           of a send       ─► all answered: close                 │ else receive issued

Every call is overlapped, and each has a packet of its own, a send too that was done at once. Who
takes a packet does the rest of its call, in the kernel; a send that did not fit goes on when there
is room, as part of the call that waits for packets. Where sends block instead (`sends_block`) a
thread sleeps until the whole reply is in the send buffer, and the port lets another one run.

Left out: accepts that are too few (there is always one under way), packets taken several at a time
(GetQueuedCompletionStatusEx), calls done at once that post none.
Sources: as of models/completion_port.py; Microsoft, AcceptEx, WSARecv, WSASend.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..sim.costs import copying_ns, sending_ns
from ..sim.jitable import jitable
from ..sim.kinds import NONE, READABLE, WRITABLE, Activity, Count
from ..sim.mechanism import Mechanism, Program
from ..sim.processor import Worker
from ..sim.sockets import (
    END_OF_FILE,
    PART,
    accept,
    all_answered,
    close,
    closing_ns,
    hung_up,
    read,
    reply_unsent,
    shed,
    writable_bytes,
    write,
)
from ..sim.world import World
from .completion_port import is_sent, post, receive, send, sleep_in_call
from .overload_control import control, is_unwanted

_USER, _ACCEPT, _READ = int(Activity.USER), int(Activity.ACCEPT), int(Activity.READ)
_WRITE, _CLOSE, _WATCH = int(Activity.WRITE), int(Activity.CLOSE), int(Activity.WATCH)
_WATCHES, _UNWATCHES = int(Count.WATCHES), int(Count.UNWATCHES)


@functools.cache
def port_pool(mechanism: Mechanism) -> Program:  # noqa: PLR0915 (its parts are closures)
    """Return the program of threads that wait with *mechanism*, a completion port."""
    wait, watch, unwatch = mechanism.wait, mechanism.watch, mechanism.unwatch

    @jitable
    def accept_connection(world: World, worker: Worker) -> Iterator[int]:
        """Do the rest of an accept: the connection is in hand then, or nobody (EMFILE)."""
        call = world.costs.call
        worker.activity = _ACCEPT
        yield max(0, call.accept_ns - call.accept_again_ns)
        fd = accept(world, worker)
        worker.event_fd[0] = max(fd, NONE)
        if fd < 0:
            yield 1  # it is tried again: without this, time could stand still
            if worker.listener.n_queued > 0:
                post(world, worker.interests, worker.listener_fd)

    @jitable
    def begin_connection(world: World, worker: Worker) -> Iterator[int]:
        """Issue the next accept, and bind the new connection with a receive under way."""
        call, fd = world.costs.call, worker.event_fd[0]
        worker.activity = _ACCEPT
        yield call.accept_again_ns
        if is_unwanted(world, worker, fd):
            worker.activity = _CLOSE
            yield call.close_ns
            shed(world, fd)
            close(world, worker, fd)
            return
        world.counts[_WATCHES] += 1
        worker.activity = _WATCH
        yield world.costs.mechanism.add_ns
        worker.activity = _READ
        yield call.read_again_ns
        watch(world, worker.interests, fd, READABLE)

    @jitable
    def send_reply(world: World, worker: Worker) -> Iterator[int]:
        """Send what fits; the rest when there is room, by whoever is told, or by this thread."""
        call, fd = world.costs.call, worker.event_fd[0]
        n_bytes = writable_bytes(world, fd)
        worker.activity = _WRITE
        yield sending_ns(call, n_bytes)
        left = write(world, fd, n_bytes)
        if call.write_after_ns > 0:
            yield call.write_after_ns
        if world.server.sends_block:
            while left > 0:
                for cost_ns in sleep_in_call(world, worker, fd, WRITABLE):
                    yield cost_ns
                if hung_up(world, fd):
                    break
                n_bytes = writable_bytes(world, fd)
                worker.activity = _WRITE
                yield copying_ns(call, n_bytes)
                left = write(world, fd, n_bytes)
            for cost_ns in go_on(world, worker):
                yield cost_ns
        else:
            send(world, worker, fd, left)

    @jitable
    def send_rest(world: World, worker: Worker) -> Iterator[int]:
        """Send more of a reply that did not fit, to a client that is still there."""
        call, fd = world.costs.call, worker.event_fd[0]
        if hung_up(world, fd):
            for cost_ns in go_on(world, worker):
                yield cost_ns
            return
        n_bytes = writable_bytes(world, fd)
        worker.activity = _WRITE
        yield copying_ns(call, n_bytes)
        send(world, worker, fd, write(world, fd, n_bytes))

    @jitable
    def go_on(world: World, worker: Worker) -> Iterator[int]:
        """Issue the next receive on the connection in hand, whose send is over; or close it."""
        call, fd = world.costs.call, worker.event_fd[0]
        if reply_unsent(world, fd) or all_answered(world, fd):
            for cost_ns in close_connection(world, worker):
                yield cost_ns
        else:
            worker.activity = _READ
            yield call.read_again_ns
            receive(world, worker.interests, fd)

    @jitable
    def close_connection(world: World, worker: Worker) -> Iterator[int]:
        """Close the connection in hand."""
        fd = worker.event_fd[0]
        worker.activity = _CLOSE
        yield closing_ns(world, worker)
        world.counts[_UNWATCHES] += 1
        unwatch(world, worker.interests, fd)
        close(world, worker, fd)

    @jitable
    def serve_received(world: World, worker: Worker) -> Iterator[int]:
        """Do the rest of a receive; answer the request, or close who has closed."""
        call, fd = world.costs.call, worker.event_fd[0]
        worker.activity = _READ
        yield max(0, call.read_ns - call.read_again_ns)
        found = read(world, fd)
        if found == END_OF_FILE:
            for cost_ns in close_connection(world, worker):
                yield cost_ns
            return
        if found == PART:
            yield call.read_again_ns
            receive(world, worker.interests, fd)
            return
        if world.costs.application.request_ns > 0:
            worker.activity = _USER
            yield world.costs.application.request_ns
        for cost_ns in send_reply(world, worker):
            yield cost_ns

    @jitable
    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time, in ns, of each step of a thread; SLEEP blocks it."""
        while True:
            for cost_ns in wait(world, worker):
                yield cost_ns
            fd = worker.event_fd[0]
            if fd == worker.listener_fd:
                for cost_ns in accept_connection(world, worker):
                    yield cost_ns
                if worker.event_fd[0] != NONE:
                    for cost_ns in begin_connection(world, worker):
                        yield cost_ns
            elif not is_sent(worker, fd):
                for cost_ns in serve_received(world, worker):
                    yield cost_ns
            elif reply_unsent(world, fd):
                for cost_ns in send_rest(world, worker):
                    yield cost_ns
            else:
                for cost_ns in go_on(world, worker):
                    yield cost_ns

    return Program(serve, mechanism, control)
