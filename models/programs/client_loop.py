"""The client as an event loop: one process sends on many connections, and waits for any reply.

    connect ─► watch ─┐
                      ▼
    wait ─┬─► established: write a request
          └─► a reply: read ─► user code ─► write the next ─┐ until it has all its replies
                                └─► unwatch ─► close ─► connect

Each user of a closed loop has one connection at a time, and sends its next request as soon as it
has a reply: `requests` of the trace is how many it sends before it connects anew. The mechanisms
are those of servers, so a scan costs a client what it costs a server.
Sources: Bello 2019 (clients with select, poll and epoll in one thread);
models/programs/event_loop.py is the other side.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...sim.kernel.calling import connect, hang_up, has_all_replies, send_request, take_reply
from ...sim.kernel.sockets import closing_ns
from ...sim.state import activity, count
from ...sim.state.costs import sending_ns
from ...sim.state.kinds import READABLE, WRITABLE
from ...sim.state.mechanism import Mechanism, Program
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World


@functools.cache
def client_loop(mechanism: Mechanism) -> Program:
    """Return the client that waits with *mechanism*."""
    wait, watch = mechanism.wait, mechanism.watch
    rewatch, unwatch = mechanism.rewatch, mechanism.unwatch

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Connect for each user; then wait, and serve the events of the wait, again and again."""
        for _ in range(world.n_users):
            yield from call(world, worker)
        while True:
            yield from wait(world, worker)
            for i in range(worker.n_events):
                yield from go_on(world, worker, worker.event_fd[i])

    def call(world: World, worker: Worker) -> Iterator[int]:
        """Connect for one user, unless the trace has no more connections."""
        if world.next_row == world.end_row:
            return
        due_ns = world.now_ns
        yield from spend(worker, activity.CONNECT, world.costs.call.connect_ns)
        fd = connect(world, due_ns)
        world.counts[count.WATCHES] += 1
        yield from watch(world, worker, fd, WRITABLE)

    def go_on(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Serve an event of *fd*: it is established, or has a reply to read."""
        if world.interest[fd] == READABLE:
            yield from spend(worker, activity.READ, world.costs.call.read_ns)
            if not take_reply(world, fd):
                return
            yield from spend(worker, activity.USER, world.costs.application.request_ns)
        if has_all_replies(world, fd):
            yield from leave(world, worker, fd)
            yield from call(world, worker)
        else:
            yield from ask(world, worker, fd)

    def ask(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Write a request, and wait for its reply from now on."""
        costs, n_bytes = world.costs.call, world.request_bytes[world.connection_of[fd]]
        yield from spend(worker, activity.WRITE, sending_ns(costs, n_bytes))
        send_request(world, fd)
        yield from spend(worker, activity.WRITE, costs.write_after_ns)
        if world.interest[fd] != READABLE:
            world.counts[count.REWATCHES] += 1
            yield from rewatch(world, worker, fd, READABLE)

    def leave(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Close a connection that has all its replies."""
        world.counts[count.UNWATCHES] += 1
        yield from unwatch(world, worker, fd)
        yield from spend(worker, activity.CLOSE, closing_ns(world, worker))
        hang_up(world, worker, fd)

    return Program(serve, mechanism, calls=True)
