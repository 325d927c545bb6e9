"""The application's part of a request: CPU time, and a process of SimPy that it waits for.

    read ─► request_ns of the CPU ─► [sleep ... the process ... wake up] ─► write

The process is one of the user's, in Python: a query to a database that is a `simpy.Resource`. The
worker sleeps meanwhile as in a system call, and its CPU goes to another thread or is idle. An event
loop that sleeps serves no other connection; with a thread for each, the other threads go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..state.kinds import activity
from ..state.mechanism import spend
from ..state.world import Worker, World
from .sleeping import fall_asleep, on_cpu_ns
from .sockets import request_ns


def user_code(world: World, worker: Worker, fd: int) -> Iterable[int]:
    """Run the application's part of the request that was read from *fd*; C has bodies.py."""
    cost_ns = request_ns(world, fd)
    if world.calendar.work is None:
        return spend(worker, activity.USER, cost_ns)
    return _with_process(world, worker, fd, cost_ns)


def _with_process(world: World, worker: Worker, fd: int, cost_ns: int) -> Iterator[Any]:
    """Spend the CPU time, then sleep until the process of this request has ended."""
    yield from spend(worker, activity.USER, cost_ns)
    event = world.calendar.work(worker, fd)
    saved_ns = world.costs.handover_ns
    yield from fall_asleep(world, worker, saved_ns)
    if event.processed:
        yield from spend(worker, activity.WAKE, world.costs.interrupt.wake_ns)
    else:
        while not event.processed:  # what comes for its descriptors meanwhile does not end the wait
            yield event
        yield from spend(worker, activity.WAKE, on_cpu_ns(world, worker, saved_ns))
    worker.timed_out = False  # nor does the time of a read
