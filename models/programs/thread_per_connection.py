"""A thread for each connection: it reads, replies and closes, and blocks in these calls.

    pool        accept ─► read ─► user code ─► write ─► read ... close ─┐ each thread for itself
                   ▲────────────────────────────────────────────────────┘
    on demand   accept ─► spawn ─► accept ...          one thread; or a process for each
                            └─► read ─► user code ─► write ─► read ... close ─► exit

For a request that needs the backend the thread takes a connection to it, or sleeps until one is
free. It writes the query and sleeps in the read of the reply. It does not check its client
meanwhile.

If no thread can start, the connection is closed. Without a free descriptor (EMFILE) accept is tried
again at once, as most servers do.

Sources: Chandra and Mosberger 2001, §1; Hu et al. 1997 (threads on demand, pools); Apache's prefork
and worker modules; accept(2), pthread_create(3), fork(2).
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator

from ...sim.kernel import backend_connections as to_backend
from ...sim.kernel import sockets
from ...sim.kernel.descriptors import accept_fails
from ...sim.kernel.request_timeouts import was_in_vain
from ...sim.kernel.sleeping import fall_asleep
from ...sim.kernel.user_code import user_code
from ...sim.state.costs import copying_ns
from ...sim.state.family_settings import Threads
from ...sim.state.kinds import READABLE, SLEEP, WRITABLE, activity, count
from ...sim.state.mechanism import Mechanism, Program, spend
from ...sim.state.world import Worker, World
from ..remembering.overload import control, is_unwanted, turn_away
from ..threads.blocking import (
    ThreadTable,
    back_on_cpu_ns,
    end,
    has_connection,
    sleep_in_call,
    spawn,
    stack_freed_ns,
    stack_ns,
    take,
    wake_asker,
)

_POOL, _PROCESSES = int(Threads.POOL), int(Threads.PROCESSES)
COMMON_POOL = 0
"""The connections to the backend, which all threads share."""
NOTHING = 0
"""The interest in a client while its thread sleeps in other calls."""
TOO_LATE = 3
"""Result of a read at the request time-out."""


@functools.cache
def thread_per_connection(mechanism: Mechanism) -> Program:
    """Return the program of threads that block in their calls, by *mechanism*."""
    wait, watch = mechanism.wait, mechanism.watch
    rewatch, unwatch = mechanism.rewatch, mechanism.unwatch

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Run a thread of the pool, the accepting thread, or a thread that it starts."""
        if world.blocking.threads != _POOL and worker.number > 0:
            yield from live(world, worker)
        while True:
            if not has_connection(worker):
                yield from accept_connection(world, worker)
            if has_connection(worker):
                yield from serve_connection(world, worker)

    def live(world: World, worker: Worker) -> Iterator[int]:
        """Start with a connection in hand, serve it and end, in a loop."""
        costs = world.costs.mechanism
        is_process = world.blocking.threads == _PROCESSES
        while True:
            if not has_connection(worker):
                yield SLEEP
                yield from spend(worker, activity.WAKE, back_on_cpu_ns(world, worker))
            yield from serve_connection(world, worker)
            exit_ns = costs.process_exit_ns if is_process else costs.exit_ns
            exit_ns += stack_freed_ns(world, worker)
            yield from spend(worker, activity.SPAWN, exit_ns)
            yield from fall_asleep(world, worker, costs.saved_ns)
            end(worker)

    def accept_connection(world: World, worker: Worker) -> Iterator[int]:
        """Accept one connection, and take it in hand or start a thread for it."""
        fd = yield from accept_call(world, worker)
        if fd < 0:
            return
        if is_unwanted(world, worker, fd):
            yield from turn_away(world, worker, fd)
        elif world.blocking.threads == _POOL:
            take(world, worker, fd)
            yield from watch(world, worker, fd, READABLE)
        else:
            yield from begin_thread(world, worker, fd)

    def accept_call(world: World, worker: Worker) -> Generator[int, None, int]:
        """Call accept, and sleep in it; return the descriptor, or a negative number."""
        call, found_none = world.costs.call, sockets.accepts_none(world, worker)
        check_ns = call.accept_ns
        if found_none:
            check_ns = max(0, call.accept_again_ns - call.accept_after_ns)
        if world.now_ns > 0 or not found_none:  # or it has been in the call since before
            yield from spend(worker, activity.ACCEPT, check_ns)
        if not accept_fails(world):
            yield from wait(world, worker)
        fd = sockets.accept(world, worker)
        if fd >= 0:
            rest_ns = max(0, call.accept_ns - check_ns)
            rest_ns += sockets.cold_accept_ns(world, worker) + sockets.displaced_ns(world, fd)
            yield from spend(worker, activity.ACCEPT, rest_ns)
        return fd

    def begin_thread(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Start a thread or a process for *fd*; close it at the limit of threads (EAGAIN)."""
        costs = world.costs.mechanism
        threads: ThreadTable = worker.interests.own
        if threads.n_gone == 0:
            yield from spend(worker, activity.SPAWN, costs.refused_ns)
            world.counts[count.SPAWN_AGAIN] += 1
            yield from sockets.spend_closing(world, worker, fd, world.costs.call.close_ns)
            sockets.close(world, worker, fd)
            return
        is_process = world.blocking.threads == _PROCESSES
        begin_ns = costs.fork_ns if is_process else costs.spawn_ns
        begin_ns += stack_ns(world, worker)
        yield from spend(worker, activity.SPAWN, begin_ns)
        world.counts[count.SPAWNS] += 1
        yield from watch(world, worker, fd, READABLE)
        spawn(world, worker.interests, fd)

    def serve_connection(world: World, worker: Worker) -> Iterator[int]:
        """Read, reply and read again, until all replies are sent or the client is gone; close."""
        fd = worker.event_fd[0]
        found = yield from read_call(world, worker, fd)
        while found in (sockets.WHOLE_REQUEST, sockets.PART):
            if found == sockets.WHOLE_REQUEST:
                yield from user_code(world, worker, fd)
                if world.backend.connections > 0 and to_backend.needs_backend(world, fd):
                    yield from ask_backend(world, worker, fd)
                yield from send_reply(world, worker, fd)
                if sockets.reply_unsent(world, fd) or sockets.all_answered(world, fd):
                    break
            found = yield from read_call(world, worker, fd)
        yield from sockets.spend_closing(world, worker, fd, sockets.closing_ns(world, worker, fd))
        yield from unwatch(world, worker, fd)
        if found == TOO_LATE:
            world.counts[count.LATE] += 1
        sockets.close(world, worker, fd)
        worker.n_events = 0

    def read_call(world: World, worker: Worker, fd: int) -> Generator[int, None, int]:
        """Call read, and sleep in it; return what it found, or TOO_LATE."""
        call, found_empty = world.costs.call, world.state[fd] & READABLE == 0
        check_ns = call.read_again_ns if found_empty else call.read_ns
        if world.now_ns > 0 or not found_empty:  # or it has been in the call since before
            yield from spend(worker, activity.READ, check_ns)
        yield from wait(world, worker)
        if was_in_vain(world, worker, fd):
            return TOO_LATE
        found = sockets.read(world, fd)
        # After the sleep in the call, which cools the caches.
        rest_ns = max(0, call.read_ns - check_ns) + sockets.cold_read_ns(world, worker)
        yield from spend(worker, activity.READ, rest_ns)
        return found

    def ask_backend(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Send the request of *fd* to the backend, and sleep until its reply."""
        yield from rewatch(world, worker, fd, NOTHING)
        to_backend.ask(world, COMMON_POOL, fd)
        while world.asks[fd] == to_backend.IN_LINE:
            yield from sleep_in_call(world, worker)
        k = world.asks[fd]
        yield from to_backend.write_query(world, worker, k)
        yield from read_from_backend(world, worker, k)
        if to_backend.hand_on(world, COMMON_POOL, k):
            wake_asker(world, worker.interests, k)
        yield from rewatch(world, worker, fd, READABLE)

    def read_from_backend(world: World, worker: Worker, k: int) -> Iterator[int]:
        """Call read on connection *k* to the backend, and sleep in it."""
        call, backend_fd = world.costs.call, to_backend.backend_fd(world, k)
        has_come = world.state[backend_fd] & READABLE != 0
        check_ns = call.read_ns if has_come else call.read_again_ns
        yield from spend(worker, activity.READ, check_ns)
        while world.state[backend_fd] & READABLE == 0:
            yield from sleep_in_call(world, worker)
            yield from spend(worker, activity.READ, world.costs.mechanism.block_ns)
        to_backend.read_reply(world, k)
        yield from spend(worker, activity.READ, max(0, call.read_ns - check_ns))

    def send_reply(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Call write, and sleep in it until the whole reply is in the send buffer, or it fails."""
        n_bytes = sockets.writable_bytes(world, fd)
        yield from spend(worker, activity.WRITE, sockets.writing_ns(world, worker, fd, n_bytes))
        n_left = sockets.write(world, fd, n_bytes)
        if n_left == sockets.FAILED:
            return
        if n_left > 0:
            yield from rewatch(world, worker, fd, WRITABLE)
            yield from copy_rest(world, worker, fd)
            yield from rewatch(world, worker, fd, READABLE)
        yield from spend(worker, activity.WRITE, world.costs.call.write_after_ns)

    def copy_rest(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Sleep and copy in a loop; a part is left if the client is gone."""
        n_left = world.unsent[world.connection_of[fd]]
        while n_left > 0:
            yield from wait(world, worker)
            if sockets.hung_up(world, fd):
                return
            n_bytes = sockets.writable_bytes(world, fd)
            yield from spend(worker, activity.WRITE, copying_ns(world.costs.call, n_bytes))
            n_left = sockets.write(world, fd, n_bytes)

    return Program(serve, mechanism, control, asks_backend=True)
