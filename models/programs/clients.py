"""Clients that the simulated machine runs: one event loop, or a thread for each user.

    loop      connect ─► watch ─┐
                                ▼
              wait ─┬─► established: write a request
                    └─► a reply: read ─► user code ─► write the next ─┐ until it has all its replies
                                          └─► unwatch ─► close ─► connect
    threads   connect ─► write ─► read ─► user code ─► write ... close ─► connect

Each user of a closed loop has one connection at a time, and sends its next request as soon as it
has a reply. It sends `requests` of the trace, then opens another connection. The mechanisms are
those of servers, so a scan costs a client as much as a server. There is one thread for each user
from the start. Threads sleep in connect() and read(); the running thread continues until it sleeps.
Sources: Bello 2019 (clients with select, poll and epoll in one thread, and with a thread for each
connection); connect(2); models/programs/event_loop.py and thread_per_connection.py are the other
side.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...sim.kernel import sockets
from ...sim.kernel.calling import connect, hang_up, has_all_replies, send_request, take_reply
from ...sim.state.costs import sending_ns
from ...sim.state.kinds import READABLE, SLEEP, WRITABLE, activity, count
from ...sim.state.mechanism import Mechanism, Program, spend
from ...sim.state.world import Worker, World
from ..threads.blocking import take


def write_request(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Write the next request on *fd*."""
    costs, n_bytes = world.costs.call, world.request_bytes[world.connection_of[fd]]
    yield from spend(worker, activity.WRITE, sending_ns(costs, n_bytes))
    send_request(world, fd)
    yield from spend(worker, activity.WRITE, costs.write_after_ns)


@functools.cache
def client_loop(mechanism: Mechanism) -> Program:
    """Return the client that waits with *mechanism*."""
    wait, watch = mechanism.wait, mechanism.watch
    rewatch, unwatch = mechanism.rewatch, mechanism.unwatch

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Connect for each user; then wait and serve the events, in a loop."""
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
        """Write a request, and watch for its reply."""
        yield from write_request(world, worker, fd)
        if world.interest[fd] != READABLE:
            world.counts[count.REWATCHES] += 1
            yield from rewatch(world, worker, fd, READABLE)

    def leave(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Close a connection that has all its replies."""
        world.counts[count.UNWATCHES] += 1
        yield from unwatch(world, worker, fd)
        yield from spend(worker, activity.CLOSE, sockets.closing_ns(world, worker, fd))
        hang_up(world, worker, fd)

    return Program(serve, mechanism, calls=True)


@functools.cache
def client_threads(mechanism: Mechanism) -> Program:
    """Return the client whose threads block in their calls, by *mechanism*."""
    wait, watch = mechanism.wait, mechanism.watch
    rewatch, unwatch = mechanism.rewatch, mechanism.unwatch

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Connect and send requests until the trace has no more connections."""
        while world.next_row < world.end_row:
            due_ns = world.now_ns
            yield from spend(worker, activity.CONNECT, world.costs.call.connect_ns)
            if world.next_row == world.end_row:
                break  # another thread has taken the last one meanwhile
            fd = connect(world, due_ns)
            take(world, worker, fd)
            yield from watch(world, worker, fd, WRITABLE)
            yield from converse(world, worker, fd)
        while True:
            yield SLEEP

    def converse(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Sleep in connect(), send all requests of the connection, close."""
        yield from wait(world, worker)
        yield from rewatch(world, worker, fd, READABLE)
        while not has_all_replies(world, fd):
            yield from ask(world, worker, fd)
        yield from spend(worker, activity.CLOSE, sockets.closing_ns(world, worker, fd))
        yield from unwatch(world, worker, fd)
        hang_up(world, worker, fd)
        worker.n_events = 0

    def ask(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Write a request, read its reply."""
        call = world.costs.call
        yield from write_request(world, worker, fd)
        found_empty = world.state[fd] & READABLE == 0
        check_ns = call.read_again_ns if found_empty else call.read_ns
        yield from spend(worker, activity.READ, check_ns)
        yield from wait(world, worker)
        take_reply(world, fd)
        yield from spend(worker, activity.READ, max(0, call.read_ns - check_ns))
        yield from spend(worker, activity.USER, world.costs.application.request_ns)

    return Program(serve, mechanism, calls=True)
