"""The event loop of completions: the kernel has accepted and read already, and will write.

    wait ─► a connection that was accepted: receive submitted
       ├──► a request that was received: user code ─► reply submitted
       └──► the end of a connection: close submitted

The kernel makes the calls that an event loop makes one by one, for what was armed or submitted. So
there is no accept limit, and no order of listener and connections.
Source: as of models/completions/io_uring.py.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...sim.kernel.sockets import reply_unsent
from ...sim.state import activity
from ...sim.state.mechanism import Mechanism, Program
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..completions.io_uring import submit
from ..overload.overload_control import control, note_batch


@functools.cache
def completion_loop(mechanism: Mechanism) -> Program:
    """Return the loop that waits for completions with *mechanism*."""
    wait = mechanism.wait

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Wait, and submit what follows each completion; again and again."""
        while True:
            yield from wait(world, worker)
            note_batch(world, worker, worker.n_events)
            for i in range(worker.n_events):
                yield from serve_completion(world, worker, worker.event_fd[i])

    def serve_completion(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Run the user code if a request was received; submit the reply, or what else is next."""
        if fd != worker.listener_fd and reply_unsent(world, fd):
            yield from spend(worker, activity.USER, world.costs.application.request_ns)
        submit(worker, fd)

    return Program(serve, mechanism, control)
