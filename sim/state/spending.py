"""How a program on the server spends CPU time: what for, and how much, in one call.

A program is a generator of steps. `yield from spend(worker, activity.READ, cost_ns)` is the step
of one system call, or of a piece of user code.
"""

from __future__ import annotations

from collections.abc import Iterable

from .threads import Worker


def spend(worker: Worker, activity: int, cost_ns: int) -> Iterable[int]:
    """Spend *cost_ns* of CPU time on *activity*: one step, or none if it costs nothing."""
    if cost_ns <= 0:
        return ()
    worker.activity = activity
    # A tuple, not a generator: Python walks through it in half the time.
    return (cost_ns,)


def step(worker: Worker, activity: int, cost_ns: int) -> Iterable[int]:
    """Spend *cost_ns* of CPU time on *activity* in a step, even if it is 0.

    What is due at this nanosecond then happens before the next line: a wait that costs nothing
    still finds it.
    """
    worker.activity = activity
    return (cost_ns,)
