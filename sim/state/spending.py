"""How a program on the server spends CPU time: what for, and how much, in one call.

A program is a generator of steps. `yield from spend(worker, activity.READ, cost_ns)` is the step
of one system call, or of a piece of user code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from .threads import Worker


def spend(worker: Worker, activity: int, cost_ns: int) -> Iterable[int]:
    """Spend *cost_ns* of CPU time on *activity*: one step, or none if it costs nothing."""
    if cost_ns <= 0:
        if cost_ns < 0:
            raise _error(sys._getframe(1), cost_ns)
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


def step_error(program: Any, step_ns: object) -> ValueError:
    """Return what is wrong with a step that the generator *program*, or one in it, has yielded."""
    while hasattr(inner := program.gi_yieldfrom, "gi_yieldfrom"):
        program = inner
    return _error(program.gi_frame, step_ns)


def _error(frame: FrameType, step_ns: object) -> ValueError:
    code = frame.f_code
    cures = {int: "take max(0, ...) of it", float: "divide with //, or round() it"}
    cure = cures.get(type(step_ns), "convert it by int()")
    return ValueError(
        f"{code.co_qualname} ({code.co_filename}, line {frame.f_lineno}): a step must be a whole "
        f"number (int) of nanoseconds, at least 0, got {step_ns!r}: {cure}"
    )
