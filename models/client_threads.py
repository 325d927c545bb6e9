"""The client as threads: one for each user, which sleeps in connect() and in read() itself.

    connect ─► write ─► read ─► user code ─► write ... close ─► connect

As many threads as users, all there from the beginning; who has the CPU goes on until it sleeps.
Sources: Bello 2019 (a client with a thread for each connection); connect(2);
models/thread_per_connection.py is the other side.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..sim.calling import (
    connect,
    hang_up,
    has_all_replies,
    send_request,
    take_reply,
)
from ..sim.costs import sending_ns
from ..sim.jitable import jitable
from ..sim.kinds import READABLE, SLEEP, WRITABLE, Activity
from ..sim.mechanism import Mechanism, Program
from ..sim.processor import Worker
from ..sim.sockets import closing_ns
from ..sim.world import World
from .threads import take

_USER, _CONNECT, _READ = int(Activity.USER), int(Activity.CONNECT), int(Activity.READ)
_WRITE, _CLOSE = int(Activity.WRITE), int(Activity.CLOSE)


@functools.cache
def client_threads(mechanism: Mechanism) -> Program:
    """Return the client whose threads sleep by *mechanism* in their calls."""
    wait, watch = mechanism.wait, mechanism.watch
    rewatch, unwatch = mechanism.rewatch, mechanism.unwatch

    @jitable
    def ask(world: World, worker: Worker) -> Iterator[int]:
        """Write a request, read its reply."""
        call, fd = world.costs.call, worker.event_fd[0]
        n_bytes = world.request_bytes[world.connection_of[fd]]
        worker.activity = _WRITE
        yield sending_ns(call, n_bytes)
        send_request(world, fd)
        if call.write_after_ns > 0:
            yield call.write_after_ns
        worker.activity = _READ
        found_empty = world.state[fd] & READABLE == 0
        yield call.read_again_ns if found_empty else call.read_ns
        for cost_ns in wait(world, worker):
            yield cost_ns
        take_reply(world, fd)
        if found_empty and call.read_ns > call.read_again_ns:
            yield call.read_ns - call.read_again_ns
        if world.costs.application.request_ns > 0:
            worker.activity = _USER
            yield world.costs.application.request_ns

    @jitable
    def converse(world: World, worker: Worker) -> Iterator[int]:
        """Sleep in connect(), ask for all that the trace says, close."""
        fd = worker.event_fd[0]
        for cost_ns in wait(world, worker):
            yield cost_ns
        rewatch(world, worker.interests, fd, READABLE)
        while not has_all_replies(world, fd):
            for cost_ns in ask(world, worker):
                yield cost_ns
        worker.activity = _CLOSE
        yield closing_ns(world, worker)
        unwatch(world, worker.interests, fd)
        hang_up(world, worker, fd)
        worker.n_events = 0

    @jitable
    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time, in ns, of each step of a thread; SLEEP blocks it in a call."""
        while world.next_row < world.end_row:
            due_ns = world.now_ns
            worker.activity = _CONNECT
            yield world.costs.call.connect_ns
            if world.next_row == world.end_row:
                break  # another one has had the last of the trace meanwhile
            fd = connect(world, due_ns)
            take(world, worker, fd)
            watch(world, worker.interests, fd, WRITABLE)
            for cost_ns in converse(world, worker):
                yield cost_ns
        while True:
            yield SLEEP

    return Program(serve, mechanism, calls=True)
