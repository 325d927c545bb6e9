"""Server programs on completions: the loop of a ring, and the pool of threads at a completion port.

The loop: the kernel has already accepted and read, and will write.

    wait ─► a connection that was accepted: receive submitted
       ├──► a request that was received: user code ─► reply submitted
       └──► the end of a connection: close submitted

The kernel makes the armed or submitted calls that an event loop makes one by one. So there is no
accept limit, and no order of listener and connections.

The pool: each thread takes a packet, serves it, and comes back.

    packet of the listener ─► accept done: the next one issued, bound to the port, receive issued
           of a receive    ─► request: user code ─► send issued   │ end of file: close
           of a send       ─► all replies sent: close             │ else receive issued

Every call is overlapped and has its own packet, even a send that completes at once. The thread that
takes a packet finishes its call in the kernel. A send that did not fit continues when there is
room, as part of the call that waits for packets. With `sends_block` a thread sleeps until the whole
reply is in the send buffer, and the port lets another thread run.

Left out: a shortage of pending accepts (there is always one), several packets at a time
(GetQueuedCompletionStatusEx), calls that complete at once without a packet.
Sources: as for models/completions/io_uring.py and completion_port.py; Microsoft, AcceptEx, WSARecv,
WSASend.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator

from ...sim.kernel import sockets
from ...sim.kernel.user_code import user_code
from ...sim.state.costs import copying_ns
from ...sim.state.kinds import NONE, READABLE, WRITABLE, activity, count
from ...sim.state.mechanism import Mechanism, Program, spend
from ...sim.state.world import Worker, World
from ..completions.completion_port import is_sent, post, receive, send, sleep_in_call
from ..completions.io_uring import submit
from ..remembering.overload import control, is_unwanted, note_batch, turn_away


@functools.cache
def completion_loop(mechanism: Mechanism) -> Program:
    """Return the loop that waits for completions with *mechanism*."""
    wait = mechanism.wait

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Wait, and submit the next call after each completion, in a loop."""
        while True:
            yield from wait(world, worker)
            note_batch(world, worker, worker.n_events)
            for i in range(worker.n_events):
                yield from serve_completion(world, worker, worker.event_fd[i])

    def serve_completion(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Run the user code if a request was received; submit the reply or the next call."""
        if fd != worker.listener_fd and sockets.reply_unsent(world, fd):
            yield from user_code(world, worker, fd)
        submit(worker, fd)

    return Program(serve, mechanism, control)


@functools.cache
def port_pool(mechanism: Mechanism) -> Program:
    """Return the program of threads that wait with *mechanism*, a completion port."""
    wait, watch, unwatch = mechanism.wait, mechanism.watch, mechanism.unwatch

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Wait for a packet, and finish its call, in a loop."""
        while True:
            yield from wait(world, worker)
            yield from serve_packet(world, worker, worker.event_fd[0])

    def serve_packet(world: World, worker: Worker, fd: int) -> Iterator[int]:
        if fd == worker.listener_fd:
            yield from accept_connection(world, worker)
        elif not is_sent(worker, fd):
            yield from serve_received(world, worker, fd)
        elif sockets.reply_unsent(world, fd):
            yield from send_rest(world, worker, fd)
        else:
            yield from go_on(world, worker, fd)

    def accept_connection(world: World, worker: Worker) -> Iterator[int]:
        """Finish an accept, which fails if there is no free descriptor (EMFILE)."""
        call = world.costs.call
        accept_ns = max(0, call.accept_ns - call.accept_again_ns)
        accept_ns += sockets.cold_accept_ns(world, worker)
        yield from spend(worker, activity.ACCEPT, accept_ns)
        fd = sockets.accept(world, worker)
        worker.event_fd[0] = max(fd, NONE)
        if fd >= 0:
            yield from spend(worker, activity.ACCEPT, sockets.displaced_ns(world, fd))
            yield from begin_connection(world, worker, fd)
            return
        # The thread tries again: without this nanosecond, time could stand still.
        yield from spend(worker, activity.ACCEPT, 1)
        if worker.listener.n_queued > 0:
            post(world, worker.interests, worker.listener_fd)

    def begin_connection(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Issue the next accept; bind the new connection and issue its receive, or reset it."""
        call = world.costs.call
        yield from spend(worker, activity.ACCEPT, call.accept_again_ns)
        if is_unwanted(world, worker, fd):
            yield from turn_away(world, worker, fd)
        else:
            world.counts[count.WATCHES] += 1
            yield from watch(world, worker, fd, READABLE)

    def serve_received(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Finish a receive; then reply to the request, or close."""
        call = world.costs.call
        read_ns = max(0, call.read_ns - call.read_again_ns) + sockets.cold_read_ns(world, worker)
        yield from spend(worker, activity.READ, read_ns)
        found = sockets.read(world, fd)
        if found == sockets.END_OF_FILE:
            yield from close_connection(world, worker, fd)
        elif found == sockets.PART:
            yield from issue_receive(world, worker, fd)
        else:
            yield from user_code(world, worker, fd)
            yield from send_reply(world, worker, fd)

    def issue_receive(world: World, worker: Worker, fd: int) -> Iterator[int]:
        yield from spend(worker, activity.READ, world.costs.call.read_again_ns)
        receive(world, worker.interests, fd)

    def send_reply(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Send the part that fits; send the rest later, in another packet or in this thread."""
        n_bytes = sockets.writable_bytes(world, fd)
        yield from spend(worker, activity.WRITE, sockets.writing_ns(world, worker, fd, n_bytes))
        n_left = sockets.write(world, fd, n_bytes)
        if n_left == sockets.FAILED:
            yield from go_on(world, worker, fd)  # nothing of the reply was sent: it closes
            return
        yield from spend(worker, activity.WRITE, world.costs.call.write_after_ns)
        if world.completions.sends_block:
            yield from send_blocking(world, worker, fd, n_left)
            yield from go_on(world, worker, fd)
        else:
            send(world, worker, fd, n_left)

    def send_blocking(world: World, worker: Worker, fd: int, n_left: int) -> Iterator[int]:
        """Sleep and copy until the whole reply is in the send buffer, or its client is gone."""
        n_rest = n_left
        while n_rest > 0:
            yield from sleep_in_call(world, worker, fd, WRITABLE)
            if sockets.hung_up(world, fd):
                return
            n_rest = yield from copy(world, worker, fd)

    def send_rest(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Send more of a reply that did not fit, unless its client is gone."""
        if sockets.hung_up(world, fd):
            yield from go_on(world, worker, fd)
        else:
            n_left = yield from copy(world, worker, fd)
            send(world, worker, fd, n_left)

    def copy(world: World, worker: Worker, fd: int) -> Generator[int, None, int]:
        """Copy what fits into the send buffer; return how many bytes are left."""
        n_bytes = sockets.writable_bytes(world, fd)
        yield from spend(worker, activity.WRITE, copying_ns(world.costs.call, n_bytes))
        return sockets.write(world, fd, n_bytes)

    def go_on(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Issue the next receive after a send, or close the connection."""
        if sockets.reply_unsent(world, fd) or sockets.all_answered(world, fd):
            yield from close_connection(world, worker, fd)
        else:
            yield from issue_receive(world, worker, fd)

    def close_connection(world: World, worker: Worker, fd: int) -> Iterator[int]:
        yield from sockets.spend_closing(world, worker, fd, sockets.closing_ns(world, worker, fd))
        world.counts[count.UNWATCHES] += 1
        yield from unwatch(world, worker, fd)
        sockets.close(world, worker, fd)

    return Program(serve, mechanism, control)
