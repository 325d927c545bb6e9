"""The event loop of completions: the kernel has accepted and read already, and will write.

    wait ─► a connection that was accepted: receive submitted
       ├──► a request that was received: user code ─► reply submitted
       └──► the end of a connection: close submitted

What an event loop asks for call by call is done by the kernel for what was armed or submitted, so
there is no accept limit, and no order of listener and connections.
Source: as of models/io_uring.py.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ..sim.jitable import jitable
from ..sim.kinds import Activity
from ..sim.mechanism import Mechanism, Program
from ..sim.processor import Worker
from ..sim.sockets import reply_unsent
from ..sim.world import World
from .io_uring import submit
from .overload_control import control, note_told

_USER = int(Activity.USER)


@functools.cache
def completion_loop(mechanism: Mechanism) -> Program:
    """Return the loop that waits for completions with *mechanism*."""
    wait = mechanism.wait

    @jitable
    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time, in ns, of each step of the loop; SLEEP blocks in the wait."""
        while True:
            for cost_ns in wait(world, worker):
                yield cost_ns
            note_told(world, worker, worker.n_events)
            for i in range(worker.n_events):
                fd = worker.event_fd[i]
                asked = fd != worker.listener_fd and reply_unsent(world, fd)
                if asked and world.costs.application.request_ns > 0:
                    worker.activity = _USER
                    yield world.costs.application.request_ns
                submit(worker, fd)

    return Program(serve, mechanism, control)
