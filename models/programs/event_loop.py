"""The single-threaded event loop: wait, accept, read, reply, close; one loop for every mechanism.

    wait ─► listener: accept ─► watch [─► read]     until EAGAIN, or accept_limit times
       │              └─► hand over: another loop watches
       └──► connection: read ─► user code ─► write ─► [unwatch ─► close]

A request that needs the backend does not block the loop. The worker writes the query to one of its
free connections, or queues the request for one. The reply of the backend is an event on that
connection's descriptor.

    read ─► user code ─► query ─► other events ... ─► reply of the backend ─► next query ─► write

If a client closes while its request is at the backend, the server closes, too, as nginx (status
499).

Workers that are notified by signals may hand the listener on: after each accept the next worker
owns it. The listener is served before or after the rest of its batch. A reply that does not fit the
send buffer waits until the descriptor is writable; with `writes_when_told` every reply does (Gammo
et al. 2004, userver). calibration/c/servers is the same loop in C.
Sources: Chandra and Mosberger 2001, §3 (uservers); Brecht, Pariag and Gammo 2004 (accept limit);
Provos and Lever 2000, §4 (phhttpd hands its listener round); memcached 1.6
(sim/kernel/handing_over.py).
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator

from ...sim.kernel import backend_connections as to_backend
from ...sim.kernel import sockets
from ...sim.kernel.handing_over import hand_over, hands_over, read_eventfd, take_handed
from ...sim.kernel.request_timeouts import is_late, next_late, take_expiry
from ...sim.kernel.user_code import user_code
from ...sim.state.kinds import NONE, READABLE, WRITABLE, activity, count
from ...sim.state.mechanism import Mechanism, Program, Trait, not_noted, spend
from ...sim.state.world import Worker, World
from ...sim.tcp.listen_queue import pass_listener
from ..remembering.overload import control, is_unwanted, note_batch, note_reply, turn_away

UNLIMITED = 1 << 62


@functools.cache
def event_loop(mechanism: Mechanism) -> Program:
    """Return the event loop that waits with *mechanism*."""
    watch, rewatch, unwatch = mechanism.watch, mechanism.rewatch, mechanism.unwatch
    wait, notify, blocked = mechanism.wait, mechanism.notify, mechanism.blocked
    close_ns, pass_ns = mechanism.close_ns, mechanism.pass_ns
    notifies_of_changes = blocked is not not_noted
    sees_accept_queue = Trait.IN_KERNEL in mechanism.traits

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Wait and serve the events, in a loop."""
        while True:
            yield from wait(world, worker)
            note_batch(world, worker, worker.n_notices if notifies_of_changes else worker.n_events)
            timer_fd = worker.interests.timer_fd
            listener_is_ready = has_event(worker, worker.listener_fd)
            timer_is_ready = timer_fd != NONE and has_event(worker, timer_fd)
            listener_last = world.program.listener_last and not is_handed_connections(world, worker)
            if listener_is_ready and not listener_last:
                yield from serve_listener(world, worker)
            for i in range(worker.n_events):
                fd = worker.event_fd[i]
                if fd not in (worker.listener_fd, timer_fd):
                    if world.backend.connections > 0:
                        yield from serve_beside_backend(world, worker, fd)
                    else:
                        yield from serve_connection(world, worker, fd)
            if listener_is_ready and listener_last:
                yield from serve_listener(world, worker)
            if timer_is_ready:
                # Last, as it may close connections that have an event in the same batch.
                yield from close_late(world, worker)

    def serve_listener(world: World, worker: Worker) -> Iterator[int]:
        """Accept connections, or take over connections that the listening thread has accepted."""
        if is_handed_connections(world, worker):
            yield from take_over(world, worker)
            return
        n_left = accepts_allowed(world, worker)
        while n_left > 0:
            if sees_accept_queue and worker.listener.n_queued == 0:
                return
            fd = yield from accept_connection(world, worker)
            if fd < 0:
                return
            n_left -= 1
            if world.signals.passes_listener and worker.listener.n_fds > 1:
                yield from spend(worker, activity.REWATCH, pass_ns(world, worker.listener_fd))
                pass_listener(worker.listener, worker.number)
            if is_unwanted(world, worker, fd):
                yield from turn_away(world, worker, fd)
            elif hands_over(world):
                # This write of eight bytes is not measured; its cost is that of such a read.
                yield from spend(worker, activity.WRITE, world.costs.call.read_again_ns)
                notify(world, hand_over(world, worker, fd))
            else:
                is_watched = yield from watch_connection(world, worker, fd)
                if is_watched and world.program.read_after_accept:
                    yield from serve_connection(world, worker, fd)

    def take_over(world: World, worker: Worker) -> Iterator[int]:
        """Watch each connection that the listening thread has handed over so far."""
        # The read of eight bytes costs about as much as a read that finds nothing.
        yield from spend(worker, activity.READ, world.costs.call.read_again_ns)
        for _ in range(read_eventfd(world, worker)):
            yield from watch_connection(world, worker, take_handed(worker))

    def accept_connection(world: World, worker: Worker) -> Generator[int, None, int]:
        """Call accept once; return the descriptor, or a negative number if there is none."""
        call, found_none = world.costs.call, sockets.accepts_none(world, worker)
        check_ns = max(0, call.accept_again_ns - call.accept_after_ns)
        accept_ns = check_ns if found_none else call.accept_ns
        accept_ns += sockets.cold_accept_ns(world, worker)
        yield from spend(worker, activity.ACCEPT, accept_ns)
        fd = sockets.accept(world, worker)
        if fd == NONE:
            # Before the call returns, as for a reply that does not fit.
            blocked(world, worker.interests, worker.listener_fd, READABLE)
            yield from spend(worker, activity.ACCEPT, call.accept_after_ns)
        elif fd >= 0 and found_none:  # one came just before the check
            yield from spend(worker, activity.ACCEPT, max(0, call.accept_ns - check_ns))
        if fd >= 0:
            yield from spend(worker, activity.ACCEPT, sockets.displaced_ns(world, fd))
        return fd

    def watch_connection(world: World, worker: Worker, fd: int) -> Generator[int, None, bool]:
        """Watch a new connection; close it and return False if the kernel has no room (ENOSPC)."""
        world.counts[count.WATCHES] += 1
        yield from watch(world, worker, fd, READABLE)
        if world.watched_by[fd] != NONE:
            return True
        yield from sockets.spend_closing(world, worker, fd, world.costs.call.close_ns)
        world.counts[count.WATCH_NO_SPACE] += 1
        sockets.close(world, worker, fd)
        return False

    def serve_connection(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Read once and reply to a whole request, or continue a reply that did not fit."""
        if not sockets.reply_unsent(world, fd):
            if (yield from read_request(world, worker, fd)):
                yield from send_reply(world, worker, fd)
        else:
            yield from send_reply(world, worker, fd)

    def read_request(world: World, worker: Worker, fd: int) -> Generator[int, None, bool]:
        """Read once, and run the user code of a request; return whether to send its reply now."""
        call, finds_data = world.costs.call, world.state[fd] & READABLE != 0
        read_ns = call.read_ns if finds_data else call.read_again_ns
        read_ns += sockets.cold_read_ns(world, worker)
        yield from spend(worker, activity.READ, read_ns)
        found = sockets.read(world, fd)
        if found == NONE:
            blocked(world, worker.interests, fd, READABLE)
        elif found == sockets.PART:
            yield from want(world, worker, fd, READABLE)  # its event may have disarmed it
        elif found == sockets.END_OF_FILE:
            yield from leave(world, worker, fd)
        else:
            yield from user_code(world, worker, fd)
            if world.backend.connections > 0 and to_backend.needs_backend(world, fd):
                yield from ask_backend(world, worker, fd)
            elif world.program.writes_when_told:
                yield from want(world, worker, fd, WRITABLE)
            else:
                return True
        return False

    def serve_beside_backend(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Serve a connection to the backend, or a client whose request may be at the backend."""
        if to_backend.is_backend(world, fd):
            yield from read_from_backend(world, worker, fd)
        elif world.watched_by[fd] != worker.interests.number:
            return  # its reply, which came in the same batch, was the last: it is closed
        elif world.asks[fd] != NONE:
            yield from look_for_end(world, worker, fd)
        else:
            yield from serve_connection(world, worker, fd)

    def ask_backend(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Send the request of *fd* to the backend, or queue it for a connection."""
        k = to_backend.ask(world, worker.interests.number, fd)
        if k != NONE:
            yield from to_backend.write_query(world, worker, k)

    def read_from_backend(world: World, worker: Worker, backend_fd: int) -> Iterator[int]:
        """Read a reply of the backend, send the next query, and reply to the client."""
        call, has_come = world.costs.call, world.state[backend_fd] & READABLE != 0
        yield from spend(worker, activity.READ, call.read_ns if has_come else call.read_again_ns)
        k = to_backend.number_of(world, backend_fd)
        fd = to_backend.read_reply(world, k)
        # A reply is whole: a read that returns less than the buffer holds need not be repeated.
        blocked(world, worker.interests, backend_fd, READABLE)
        if fd == to_backend.NO_REPLY:
            return
        yield from want(world, worker, backend_fd, READABLE)
        if to_backend.hand_on(world, worker.interests.number, k):
            yield from to_backend.write_query(world, worker, k)
        if fd != NONE and world.program.writes_when_told:
            yield from want(world, worker, fd, WRITABLE)
        elif fd != NONE:
            yield from send_reply(world, worker, fd)

    def look_for_end(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Read from a client whose request is at the backend: the read can only find its end."""
        call, finds_end = world.costs.call, world.state[fd] & READABLE != 0
        yield from spend(worker, activity.READ, call.read_ns if finds_end else call.read_again_ns)
        found = sockets.read(world, fd)
        if found == sockets.END_OF_FILE:
            yield from leave(world, worker, fd)
        else:
            assert found == NONE  # a client has one request at a time
            blocked(world, worker.interests, fd, READABLE)

    def send_reply(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Write the part of a reply that fits; then wait for room or the next request, or close."""
        n_bytes = sockets.writable_bytes(world, fd)
        yield from spend(worker, activity.WRITE, sockets.writing_ns(world, worker, fd, n_bytes))
        n_left = sockets.write(world, fd, n_bytes)
        if n_left == sockets.FAILED:
            yield from leave(world, worker, fd)
            return
        if n_left > 0:
            # Before the call returns: a signal handler may note meanwhile that there is room.
            blocked(world, worker.interests, fd, WRITABLE)
        yield from spend(worker, activity.WRITE, world.costs.call.write_after_ns)
        note_reply(world, worker, fd, n_left)
        if n_left == 0 and sockets.all_answered(world, fd):
            yield from leave(world, worker, fd)
        else:
            yield from want(world, worker, fd, WRITABLE if n_left > 0 else READABLE)

    def want(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
        """Watch *fd* for *interest*, unless it is watched for that already."""
        if world.interest[fd] != interest:
            world.counts[count.REWATCHES] += 1
            yield from rewatch(world, worker, fd, interest)

    def leave(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Close a connection."""
        world.counts[count.UNWATCHES] += 1
        more_ns = close_ns(world, fd)  # the kernel may queue something for it before the next call
        yield from unwatch(world, worker, fd)
        taken_ns = sockets.closing_ns(world, worker, fd) + more_ns
        yield from sockets.spend_closing(world, worker, fd, taken_ns)
        sockets.close(world, worker, fd)

    def close_late(world: World, worker: Worker) -> Iterator[int]:
        """Read the timer, and close the connections whose request is incomplete for too long."""
        interests = worker.interests
        yield from spend(worker, activity.READ, world.costs.call.read_ns)
        take_expiry(world, interests)
        blocked(world, interests, interests.timer_fd, READABLE)
        yield from want(world, worker, interests.timer_fd, READABLE)
        fd = 0
        while fd < world.next_fd:
            late = next_late(world, interests, fd)
            scan_ns = (late - fd) * world.costs.application.look_ns
            yield from spend(worker, activity.USER, scan_ns)
            # At the end of the table there is none; and a request may have come meanwhile.
            if late < world.next_fd and is_late(world, interests, late):
                yield from leave(world, worker, late)
                world.counts[count.LATE] += 1
            fd = late + 1

    return Program(serve, mechanism, control, asks_backend=True)


def has_event(worker: Worker, fd: int) -> bool:
    """Return whether *fd* is among the events of the last wait."""
    i = 0
    while i < worker.n_events and worker.event_fd[i] != fd:
        i += 1
    return i < worker.n_events


def is_handed_connections(world: World, worker: Worker) -> bool:
    """Return whether *worker* accepts nothing itself: another thread accepts for it."""
    return worker.number > 0 and hands_over(world)


def accepts_allowed(world: World, worker: Worker) -> int:
    """Return the number of connections that *worker* may accept before it serves others."""
    if world.signals.accept_each_signal and worker.n_listener_signals > 0:
        return worker.n_listener_signals
    if world.signals.accept_each_signal and worker.n_listener_left > 0:
        return 0  # each connection in the queue has a signal that is yet to be taken
    limit = world.program.accept_limit
    return limit if limit > 0 else UNLIMITED
