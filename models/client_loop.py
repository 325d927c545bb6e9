"""The client as an event loop: one process that asks on many connections, and waits for any reply.

    connect ─► watch ─┐
                      ▼
    wait ─┬─► established: write a request
          └─► a reply: read ─► user code ─► write the next ─┐ until the connection has had its own
                                └─► unwatch ─► close ─► connect

Each user of a closed loop has one connection at a time, and asks again as soon as it has a reply:
`requests` of the trace says how often before it connects anew. The mechanisms are those of servers,
so what a scan costs a server it costs a client, too.
Sources: Bello 2019 (clients with select, poll and epoll in one thread); models/event_loop.py is the
other side.
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
from ..sim.kinds import READABLE, WRITABLE, Activity, Count
from ..sim.mechanism import Mechanism, Program
from ..sim.processor import Worker
from ..sim.sockets import closing_ns
from ..sim.world import World

_USER, _CONNECT, _READ = int(Activity.USER), int(Activity.CONNECT), int(Activity.READ)
_WRITE, _CLOSE, _WATCH = int(Activity.WRITE), int(Activity.CLOSE), int(Activity.WATCH)
_REWATCH, _UNWATCH = int(Activity.REWATCH), int(Activity.UNWATCH)
_WATCHES, _REWATCHES = int(Count.WATCHES), int(Count.REWATCHES)
_UNWATCHES = int(Count.UNWATCHES)


@functools.cache
def client_loop(mechanism: Mechanism) -> Program:  # noqa: PLR0915 (its parts are closures)
    """Return the client that waits with *mechanism*."""
    wait, watch_ns, watch = mechanism.wait, mechanism.watch_ns, mechanism.watch
    rewatch_ns, rewatch = mechanism.rewatch_ns, mechanism.rewatch
    unwatch_ns, unwatch = mechanism.unwatch_ns, mechanism.unwatch

    @jitable
    def call(world: World, worker: Worker) -> Iterator[int]:
        """Connect for one user; there may be no more to ask for."""
        if world.next_row == world.end_row:
            return
        due_ns = world.now_ns
        worker.activity = _CONNECT
        yield world.costs.call.connect_ns
        fd = connect(world, due_ns)
        world.counts[_WATCHES] += 1
        worker.activity = _WATCH
        call_ns = watch_ns(world, fd)
        if call_ns > 0:
            yield call_ns
        watch(world, worker.interests, fd, WRITABLE)

    @jitable
    def ask(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Write a request, and wait for its reply from now on."""
        costs = world.costs.call
        n_bytes = world.request_bytes[world.connection_of[fd]]
        worker.activity = _WRITE
        yield sending_ns(costs, n_bytes)
        send_request(world, fd)
        if costs.write_after_ns > 0:
            yield costs.write_after_ns
        if world.interest[fd] != READABLE:
            world.counts[_REWATCHES] += 1
            worker.activity = _REWATCH
            call_ns = rewatch_ns(world, fd)
            if call_ns > 0:
                yield call_ns
            rewatch(world, worker.interests, fd, READABLE)

    @jitable
    def leave(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Close a connection that has had all its replies."""
        world.counts[_UNWATCHES] += 1
        worker.activity = _UNWATCH
        call_ns = unwatch_ns(world, fd)
        if call_ns > 0:
            yield call_ns
        unwatch(world, worker.interests, fd)
        worker.activity = _CLOSE
        yield closing_ns(world, worker)
        hang_up(world, worker, fd)

    @jitable
    def go_on(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Do what is next on *fd*, of which the wait has told."""
        if world.interest[fd] == READABLE:
            worker.activity = _READ
            yield world.costs.call.read_ns
            if not take_reply(world, fd):
                return
            if world.costs.application.request_ns > 0:
                worker.activity = _USER
                yield world.costs.application.request_ns
        if not has_all_replies(world, fd):
            for cost_ns in ask(world, worker, fd):
                yield cost_ns
            return
        for cost_ns in leave(world, worker, fd):
            yield cost_ns
        for cost_ns in call(world, worker):
            yield cost_ns

    @jitable
    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time, in ns, of each step of the loop; SLEEP blocks in the wait."""
        for _ in range(world.n_users):
            for cost_ns in call(world, worker):
                yield cost_ns
        while True:
            for cost_ns in wait(world, worker):
                yield cost_ns
            for i in range(worker.n_events):
                for cost_ns in go_on(world, worker, worker.event_fd[i]):
                    yield cost_ns

    return Program(serve, mechanism, calls=True)
