"""A thread for each connection: it reads, answers and closes, and sleeps in the calls themselves.

    pool        accept ─► read ─► user code ─► write ─► read ... close ─┐ each thread for itself
                   ▲────────────────────────────────────────────────────┘
    on demand   accept ─► spawn ─► accept ...          one thread; or a process for each
                            └─► read ─► user code ─► write ─► read ... close ─► exit

Where no thread can be begun the connection is closed. Where there is no descriptor (EMFILE) accept
is tried again at once, as by most servers.

Sources: Chandra and Mosberger 2001, §1; Hu et al. 1997 (threads on demand, pools); Apache's prefork
and worker modules; accept(2), pthread_create(3), fork(2).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..sim.costs import copying_ns, sending_ns
from ..sim.jitable import jitable
from ..sim.kinds import READABLE, SLEEP, WRITABLE, Activity, Count
from ..sim.mechanism import Mechanism, Program
from ..sim.processor import Worker
from ..sim.request_timeouts import was_in_vain
from ..sim.settings import Threads
from ..sim.sleeping import off_cpu_ns
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
from .blocking import back_on_cpu_ns
from .overload_control import control, is_unwanted
from .threads import ThreadTable, end, has_connection, spawn, take

_USER, _ACCEPT, _READ = int(Activity.USER), int(Activity.ACCEPT), int(Activity.READ)
_WRITE, _CLOSE, _SPAWN = int(Activity.WRITE), int(Activity.CLOSE), int(Activity.SPAWN)
_SLEEP, _WAKE = int(Activity.SLEEP), int(Activity.WAKE)
_SPAWNS, _SPAWN_AGAIN = int(Count.SPAWNS), int(Count.SPAWN_AGAIN)
_LATE = int(Count.LATE)
_POOL, _PROCESSES = int(Threads.POOL), int(Threads.PROCESSES)


@functools.cache
def thread_per_connection(mechanism: Mechanism) -> Program:  # noqa: PLR0915 (parts are closures)
    """Return the program of threads that sleep by *mechanism* in their calls."""
    wait, watch = mechanism.wait, mechanism.watch
    rewatch, unwatch = mechanism.rewatch, mechanism.unwatch

    @jitable
    def accept_connection(world: World, worker: Worker) -> Iterator[int]:
        """Accept one connection, and have it in hand or begin a thread that has."""
        call = world.costs.call
        worker.activity = _ACCEPT
        look_ns = max(0, call.accept_again_ns - call.accept_after_ns)
        found_empty = worker.listener.n_queued == 0
        if not found_empty:
            yield call.accept_ns
        elif world.now_ns > 0:
            yield look_ns
        for cost_ns in wait(world, worker):
            yield cost_ns
        fd = accept(world, worker)
        if found_empty and call.accept_ns > look_ns:
            yield call.accept_ns - look_ns
        if fd < 0:
            return
        if is_unwanted(world, worker, fd):
            worker.activity = _CLOSE
            yield call.close_ns
            shed(world, fd)
            close(world, worker, fd)
        elif world.server.threads == _POOL:
            take(world, worker, fd)
            watch(world, worker.interests, fd, READABLE)
        else:
            for cost_ns in begin_thread(world, worker, fd):
                yield cost_ns

    @jitable
    def begin_thread(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Begin a thread or a process for *fd*; close it if there are too many already."""
        costs = world.costs.mechanism
        threads: ThreadTable = worker.interests.own
        worker.activity = _SPAWN
        if threads.n_gone == 0:
            if costs.refused_ns > 0:
                yield costs.refused_ns
            world.counts[_SPAWN_AGAIN] += 1
            worker.activity = _CLOSE
            yield world.costs.call.close_ns
            close(world, worker, fd)
            return
        yield costs.fork_ns if world.server.threads == _PROCESSES else costs.spawn_ns
        world.counts[_SPAWNS] += 1
        watch(world, worker.interests, fd, READABLE)
        spawn(world, worker.interests, fd)

    @jitable
    def send_reply(world: World, worker: Worker) -> Iterator[int]:
        """Write until all of a reply is in the send buffer; part stays behind if that fails."""
        call, fd = world.costs.call, worker.event_fd[0]
        n_bytes = writable_bytes(world, fd)
        worker.activity = _WRITE
        yield sending_ns(call, n_bytes)
        left = write(world, fd, n_bytes)
        if left > 0:
            rewatch(world, worker.interests, fd, WRITABLE)
            while left > 0:
                for cost_ns in wait(world, worker):
                    yield cost_ns
                if hung_up(world, fd):
                    break
                n_bytes = writable_bytes(world, fd)
                yield copying_ns(call, n_bytes)
                left = write(world, fd, n_bytes)
            rewatch(world, worker.interests, fd, READABLE)
        if call.write_after_ns > 0:
            yield call.write_after_ns

    @jitable
    def serve_connection(world: World, worker: Worker) -> Iterator[int]:
        """Read, answer and read again, until all is answered or the client is gone; close."""
        call, fd = world.costs.call, worker.event_fd[0]
        leaves = late = False
        while not leaves:
            worker.activity = _READ
            found_empty = world.state[fd] & READABLE == 0
            if not found_empty:
                yield call.read_ns
            elif world.now_ns > 0:
                yield call.read_again_ns
            for cost_ns in wait(world, worker):
                yield cost_ns
            late = was_in_vain(world, worker, fd)
            if late:
                break
            found = read(world, fd)
            if found_empty and call.read_ns > call.read_again_ns:
                yield call.read_ns - call.read_again_ns
            if found == END_OF_FILE:
                break
            if found == PART:
                continue
            if world.costs.application.request_ns > 0:
                worker.activity = _USER
                yield world.costs.application.request_ns
            for cost_ns in send_reply(world, worker):
                yield cost_ns
            leaves = reply_unsent(world, fd) or all_answered(world, fd)
        worker.activity = _CLOSE
        yield closing_ns(world, worker)
        unwatch(world, worker.interests, fd)
        if late:
            world.counts[_LATE] += 1
        close(world, worker, fd)
        worker.n_events = 0

    @jitable
    def live(world: World, worker: Worker) -> Iterator[int]:
        """Begin when there is a connection in hand, serve it and end; again and again."""
        costs = world.costs.mechanism
        while True:
            if not has_connection(worker):
                yield SLEEP
                worker.activity = _WAKE
                yield back_on_cpu_ns(world, worker)
            for cost_ns in serve_connection(world, worker):
                yield cost_ns
            is_process = world.server.threads == _PROCESSES
            worker.activity = _SPAWN
            yield costs.process_exit_ns if is_process else costs.exit_ns
            worker.activity = _SLEEP
            yield off_cpu_ns(world, worker, costs.saved_ns)
            end(worker)

    @jitable
    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time, in ns, of each step of a thread; SLEEP blocks it in a call."""
        if world.server.threads != _POOL and worker.number > 0:
            for cost_ns in live(world, worker):
                yield cost_ns
        while True:
            if not has_connection(worker):
                for cost_ns in accept_connection(world, worker):
                    yield cost_ns
            if has_connection(worker):
                for cost_ns in serve_connection(world, worker):
                    yield cost_ns

    return Program(serve, mechanism, control)
