"""The client as threads: one for each user, which sleeps in connect() and in read() itself.

    connect ─► write ─► read ─► user code ─► write ... close ─► connect

As many threads as users, all there from the beginning; the running one goes on until it sleeps.
Sources: Bello 2019 (a client with a thread for each connection); connect(2);
models/programs/thread_per_connection.py is the other side.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...sim.kernel.calling import connect, hang_up, has_all_replies, send_request, take_reply
from ...sim.kernel.sockets import closing_ns
from ...sim.state import activity
from ...sim.state.costs import sending_ns
from ...sim.state.kinds import READABLE, SLEEP, WRITABLE
from ...sim.state.mechanism import Mechanism, Program
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..threads.threads import take


@functools.cache
def client_threads(mechanism: Mechanism) -> Program:
    """Return the client whose threads sleep by *mechanism* in their calls."""
    wait, watch = mechanism.wait, mechanism.watch
    rewatch, unwatch = mechanism.rewatch, mechanism.unwatch

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Connect and converse until the trace has no more connections."""
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
        yield from spend(worker, activity.CLOSE, closing_ns(world, worker))
        yield from unwatch(world, worker, fd)
        hang_up(world, worker, fd)
        worker.n_events = 0

    def ask(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Write a request, read its reply."""
        call, n_bytes = world.costs.call, world.request_bytes[world.connection_of[fd]]
        yield from spend(worker, activity.WRITE, sending_ns(call, n_bytes))
        send_request(world, fd)
        yield from spend(worker, activity.WRITE, call.write_after_ns)
        found_empty = world.state[fd] & READABLE == 0
        check_ns = call.read_again_ns if found_empty else call.read_ns
        yield from spend(worker, activity.READ, check_ns)
        yield from wait(world, worker)
        take_reply(world, fd)
        yield from spend(worker, activity.READ, max(0, call.read_ns - check_ns))
        yield from spend(worker, activity.USER, world.costs.application.request_ns)

    return Program(serve, mechanism, calls=True)
