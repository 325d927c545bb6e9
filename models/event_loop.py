"""The single-threaded event loop: wait, accept, read, answer, close; one loop for every mechanism.

    wait ─► listener: accept ─► watch [─► read]     until EAGAIN, or accept_limit times
       │              └─► hand over: another loop watches
       └──► connection: read ─► user code ─► write ─► [unwatch ─► close]

Workers that are told by signals may hand the listener on: after each accept the next one owns it.
The listener is served before or after the rest of its batch. A reply that does not fit the send
buffer waits for the descriptor to become writable; a server that writes when told waits for that
with every reply (Gammo et al. 2004, userver). calibration/servers is the same loop in C, at once.
Sources: Chandra and Mosberger 2001, §3 (uservers); Brecht, Pariag and Gammo 2004 (accept limit);
Provos and Lever 2000, §4 (phhttpd hands its listener round); memcached 1.6 (sim/handing_over.py).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..sim.costs import sending_ns
from ..sim.handing_over import hand_over, hands_over, read_eventfd, take_handed
from ..sim.interest_set import takes_no_more
from ..sim.jitable import jitable
from ..sim.kinds import NONE, READABLE, WRITABLE, Activity, Count
from ..sim.listen_queue import pass_listener
from ..sim.mechanism import Mechanism, Program, not_noted
from ..sim.processor import Worker
from ..sim.request_timeouts import is_late, next_late, take_expiry
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
from .overload_control import control, is_unwanted, note_reply, note_told

_USER, _ACCEPT, _READ = int(Activity.USER), int(Activity.ACCEPT), int(Activity.READ)
_WRITE, _CLOSE, _WATCH = int(Activity.WRITE), int(Activity.CLOSE), int(Activity.WATCH)
_REWATCH, _UNWATCH = int(Activity.REWATCH), int(Activity.UNWATCH)
_WATCHES, _REWATCHES = int(Count.WATCHES), int(Count.REWATCHES)
_UNWATCHES, _SHED = int(Count.UNWATCHES), int(Count.SHED)
_LATE = int(Count.LATE)
_WATCH_NO_SPACE = int(Count.WATCH_NO_SPACE)


@functools.cache
def event_loop(mechanism: Mechanism) -> Program:  # noqa: PLR0915 (its parts are closures)
    """Return the event loop that waits with *mechanism*."""
    wait, blocked, close_ns = mechanism.wait, mechanism.blocked, mechanism.close_ns
    watch_ns, watch = mechanism.watch_ns, mechanism.watch
    pass_ns, notify = mechanism.pass_ns, mechanism.notify
    rewatch_ns, rewatch = mechanism.rewatch_ns, mechanism.rewatch
    unwatch_ns, unwatch = mechanism.unwatch_ns, mechanism.unwatch
    is_bounded = mechanism.in_epoll
    tells_changes, sees_queue = mechanism.blocked is not not_noted, mechanism.in_kernel

    @jitable
    def turn_away(world: World, worker: Worker, fd: int, why: int) -> Iterator[int]:
        """Close a connection that was accepted just now, and count it."""
        worker.activity = _CLOSE
        yield world.costs.call.close_ns
        if why == _SHED:
            shed(world, fd)
        else:
            world.counts[why] += 1
        close(world, worker, fd)

    @jitable
    def accept_connections(  # noqa: PLR0912 (nesting is paid for)
        world: World, worker: Worker
    ) -> Iterator[int]:
        """Accept up to the limit, watch each and, if so told, read from it at once."""
        call, server = world.costs.call, world.server
        n_accepted, n_max = 0, server.accept_limit
        if server.accept_each_signal:
            if worker.n_listener_signals > 0:
                n_max = worker.n_listener_signals
            elif worker.n_listener_left > 0:
                return  # each of those in the queue has a signal that is yet to be taken
        while n_max == 0 or n_accepted < n_max:
            worker.activity = _ACCEPT
            found_empty = worker.listener.n_queued == 0
            if found_empty and sees_queue:
                return
            look_ns = max(0, call.accept_again_ns - call.accept_after_ns)
            yield look_ns if found_empty else call.accept_ns
            fd = accept(world, worker)
            if fd < 0:
                if fd == NONE:
                    # At once, as with a reply that does not fit.
                    blocked(world, worker.interests, worker.listener_fd, READABLE)
                    if call.accept_after_ns > 0:
                        yield call.accept_after_ns
                return
            if found_empty and call.accept_ns > look_ns:
                yield call.accept_ns - look_ns  # one came just before the look
            n_accepted += 1
            if server.passes_listener and len(world.workers) > 1:
                worker.activity = _REWATCH
                yield pass_ns(world, worker.listener_fd)
                pass_listener(worker.listener, worker.number)
            if is_unwanted(world, worker, fd):
                for cost_ns in turn_away(world, worker, fd, _SHED):
                    yield cost_ns
                continue
            if hands_over(world):
                worker.activity = _WRITE
                yield call.read_again_ns  # nobody has timed this write, which does as little
                notify(world, hand_over(world, worker, fd))
                continue
            world.counts[_WATCHES] += 1
            worker.activity = _WATCH
            call_ns = watch_ns(world, fd)
            if call_ns > 0:
                yield call_ns
            if is_bounded and takes_no_more(world):
                for cost_ns in turn_away(world, worker, fd, _WATCH_NO_SPACE):
                    yield cost_ns
                continue
            watch(world, worker.interests, fd, READABLE)
            if server.read_after_accept:
                for cost_ns in serve_connection(world, worker, fd):
                    yield cost_ns

    @jitable
    def take_over(world: World, worker: Worker) -> Iterator[int]:
        """Watch each connection that the listening thread has handed over by now."""
        worker.activity = _READ
        yield world.costs.call.read_again_ns  # of eight bytes
        for _ in range(read_eventfd(world, worker)):
            fd = take_handed(worker)
            world.counts[_WATCHES] += 1
            worker.activity = _WATCH
            call_ns = watch_ns(world, fd)
            if call_ns > 0:
                yield call_ns
            if is_bounded and takes_no_more(world):
                for cost_ns in turn_away(world, worker, fd, _WATCH_NO_SPACE):
                    yield cost_ns
            else:
                watch(world, worker.interests, fd, READABLE)

    @jitable
    def serve_connection(  # noqa: PLR0912, PLR0915 (nesting is paid for)
        world: World, worker: Worker, fd: int
    ) -> Iterator[int]:
        """Read once and answer a whole request, or go on with a reply that did not fit.

        Written as one generator, as each level of nesting is paid for at every step.
        """
        call = world.costs.call
        leaves = False
        if reply_unsent(world, fd) and hung_up(world, fd):
            worker.activity = _WRITE
            yield call.write_ns  # it fails
            leaves = True
        elif not reply_unsent(world, fd):
            worker.activity = _READ
            yield call.read_ns if world.state[fd] & READABLE else call.read_again_ns
            found = read(world, fd)
            if found == NONE:
                blocked(world, worker.interests, fd, READABLE)
                return
            if found == PART:
                if world.interest[fd] != READABLE:  # disarmed by its event
                    world.counts[_REWATCHES] += 1
                    worker.activity = _REWATCH
                    call_ns = rewatch_ns(world, fd)
                    if call_ns > 0:
                        yield call_ns
                    rewatch(world, worker.interests, fd, READABLE)
                return
            if found == END_OF_FILE:
                leaves = True
            else:
                if world.costs.application.request_ns > 0:
                    worker.activity = _USER
                    yield world.costs.application.request_ns
                if world.server.writes_when_told:
                    world.counts[_REWATCHES] += 1
                    worker.activity = _REWATCH
                    call_ns = rewatch_ns(world, fd)
                    if call_ns > 0:
                        yield call_ns
                    rewatch(world, worker.interests, fd, WRITABLE)
                    return
        if not leaves:
            n_bytes = writable_bytes(world, fd)
            worker.activity = _WRITE
            yield sending_ns(call, n_bytes)
            left = write(world, fd, n_bytes)
            if left > 0:
                # At once: what a handler hears before the call is over must not be forgotten.
                blocked(world, worker.interests, fd, WRITABLE)
            if call.write_after_ns > 0:
                yield call.write_after_ns
            note_reply(world, worker, fd, left)
            leaves = left == 0 and all_answered(world, fd)
            wanted = WRITABLE if left > 0 else READABLE
            if not leaves and world.interest[fd] != wanted:
                world.counts[_REWATCHES] += 1
                worker.activity = _REWATCH
                call_ns = rewatch_ns(world, fd)
                if call_ns > 0:
                    yield call_ns
                rewatch(world, worker.interests, fd, wanted)
        if leaves:
            world.counts[_UNWATCHES] += 1
            worker.activity = _UNWATCH
            known_ns = close_ns(world, fd)  # of what the kernel knows now
            call_ns = unwatch_ns(world, fd)
            if call_ns > 0:
                yield call_ns
            unwatch(world, worker.interests, fd)
            worker.activity = _CLOSE
            yield closing_ns(world, worker) + known_ns
            close(world, worker, fd)

    @jitable
    def close_late(world: World, worker: Worker) -> Iterator[int]:
        """Walk the table of connections, and close those that have not sent a request in time."""
        call, interests = world.costs.call, worker.interests
        worker.activity = _READ
        yield call.read_ns
        take_expiry(world, interests)
        blocked(world, interests, interests.timer_fd, READABLE)
        if world.interest[interests.timer_fd] == 0:  # disarmed by its event
            world.counts[_REWATCHES] += 1
            worker.activity = _REWATCH
            call_ns = rewatch_ns(world, interests.timer_fd)
            if call_ns > 0:
                yield call_ns
            rewatch(world, interests, interests.timer_fd, READABLE)
        fd = 0
        while fd < world.next_fd:
            late = next_late(world, interests, fd)
            worker.activity = _USER
            if (late - fd) * world.costs.application.look_ns > 0:
                yield (late - fd) * world.costs.application.look_ns
            fd = late + 1
            if late == world.next_fd or not is_late(world, interests, late):
                continue  # the end, or what it did not know has changed
            world.counts[_UNWATCHES] += 1
            worker.activity = _UNWATCH
            known_ns = close_ns(world, late)
            call_ns = unwatch_ns(world, late)
            if call_ns > 0:
                yield call_ns
            unwatch(world, interests, late)
            worker.activity = _CLOSE
            yield closing_ns(world, worker) + known_ns
            world.counts[_LATE] += 1
            close(world, worker, late)

    @jitable
    def serve(  # noqa: PLR0912 (nesting is paid for)
        world: World, worker: Worker
    ) -> Iterator[int]:
        """Yield the CPU time, in ns, of each step of the loop; SLEEP blocks in the wait."""
        last = world.server.listener_last
        while True:
            for cost_ns in wait(world, worker):
                yield cost_ns
            n_events = worker.n_events
            note_told(world, worker, worker.n_notices if tells_changes else n_events)
            listener = worker.listener_fd
            timer = worker.interests.timer_fd
            listener_ready = timer_expired = False
            for i in range(n_events):
                if worker.event_fd[i] == listener:
                    listener_ready = True
                elif worker.event_fd[i] == timer:
                    timer_expired = True
            if listener_ready and worker.number > 0 and hands_over(world):
                for cost_ns in take_over(world, worker):
                    yield cost_ns
            elif listener_ready and not last:
                for cost_ns in accept_connections(world, worker):
                    yield cost_ns
            for i in range(n_events):
                fd = worker.event_fd[i]
                if fd == timer:
                    continue
                if fd != listener:
                    for cost_ns in serve_connection(world, worker, fd):
                        yield cost_ns
            if listener_ready and last and not (worker.number > 0 and hands_over(world)):
                for cost_ns in accept_connections(world, worker):
                    yield cost_ns
            if timer_expired:
                # Last, as events of the same batch are of connections that it may close.
                for cost_ns in close_late(world, worker):
                    yield cost_ns

    return Program(serve, mechanism, control)
