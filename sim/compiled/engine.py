# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, call-arg, var-annotated"
"""The compiled engine: the loop of `sim.reference` without SimPy, around the same program.

    heap of occurrences ─┐
                         ├─ whichever is due first ─► happen, or the end of a CPU's step
    CPUs and their steps ┘

A call runs a while and returns: because its time is up, because it has done as much as it was
allowed to (so that Ctrl-C and progress get a turn), or because something must grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types

from ..beginning import beginning
from ..event_calendar import RANK_SHIFT
from ..happenings import happen
from ..jitable import inlined, jitable
from ..kinds import NONE
from ..mechanism import Program
from ..processor import begin_step, block, comes_back, due_ns, end_step, first_due
from . import containers as _bodies  # noqa: F401 (registers what compiled code calls)
from .generators import keep, kept
from .heap_calendar import MARGIN, drop_first, next_ns
from .records import RecordType, record_at

DONE, MORE, CALENDAR_FULL, ROWS_WANTED = 0, 1, 2, 3
"""Why a call of the engine returned."""
FRAME_BYTES = 16_384
"""Memory for the state of one worker's generator."""
BEGUN = -1
"""In place of the end of the warm-up: this run goes on."""
_ENDED = -2
_TOO_LARGE = -1

Advance = Callable[[Any, Any, int, int], int]


def engine_loop(
    program: Program, resume: Callable[[Any, Any, int], int]
) -> tuple[Callable[[Any, Any], None], Advance]:
    """Return the functions that begin and advance a run of *program*.

    *resume* is (world, frames, worker number) -> next step of that worker's program, in ns.
    """
    notify = program.mechanism.notify

    @inlined
    def happen_next(world):
        entries = world.calendar.entries
        world.now_ns = entries[0]
        kind, subject = entries[1] >> RANK_SHIFT, entries[2]
        drop_first(world.calendar)
        happen(world, kind, subject)
        for i in range(world.n_posted):
            if notify(world, world.posted[i]) and world.server.wake_one:
                break

    @jitable
    def go_on(world, frames, cpu):
        goes_on = True
        while goes_on:
            step_ns = comes_back(world, cpu)
            if step_ns == NONE:
                step_ns = resume(world, frames, cpu.running)
            goes_on = block(world, cpu) if step_ns == _ENDED else begin_step(world, cpu, step_ns)

    @jitable
    def start(world, frames):
        for i in range(len(world.cpus)):
            if world.cpus[i].running != NONE:
                go_on(world, frames, world.cpus[i])

    @jitable
    def advance(world, frames, stop_ns, budget):
        several = len(world.cpus) > 1
        cpu = world.cpus[0]
        calendar = world.calendar
        for _ in range(budget):
            if several:
                cpu = first_due(world)
            at_ns = due_ns(cpu)
            first_ns = next_ns(calendar)
            if first_ns <= at_ns and first_ns <= stop_ns:
                if calendar.n + MARGIN > calendar.room:
                    return CALENDAR_FULL
                if world.next_row >= world.refill_row:
                    return ROWS_WANTED
                happen_next(world)
            elif at_ns > stop_ns:
                return DONE
            else:
                world.now_ns = at_ns
                end_step(world, cpu)
                go_on(world, frames, cpu)
        return MORE

    return start, advance


def python_engine(program: Program) -> Callable[..., int]:
    """Return the engine of *program* as plain Python: for tests without the compiler."""

    def resume(world, frames, number):
        return next(frames[number], _ENDED)

    start, advance = engine_loop(program, resume)
    begin = beginning(program.mechanism)

    def run(world, frames, warm_up_ns, stop_ns, budget):
        if warm_up_ns != BEGUN:
            begin(world, warm_up_ns)
            frames.extend(program.serve(world, worker) for worker in world.workers)
            start(world, frames)
        return advance(world, frames, stop_ns, budget)

    return run


SIGNATURE = types.int64(*[types.int64] * 5)


def engine_source(program: Program, record: RecordType) -> Any:
    """Return the engine of *program* over worlds of the layout *record*, to be compiled.

    Its arguments: addresses of world and frames, the end of the warm-up (BEGUN after the first
    call), when to stop (both in ns), and how many steps and occurrences to take at most.
    """
    serve = program.serve
    world_at = record_at(record)

    @jitable
    def resume(world, frames, number):
        generator = kept(serve(world, world.workers[number]), frames + number * FRAME_BYTES)
        for step_ns in generator:
            return step_ns
        return _ENDED

    start, advance = engine_loop(program, resume)
    begin = beginning(program.mechanism)

    @njit()
    def run(address, frames, warm_up_ns, stop_ns, budget):
        world = world_at(address)
        if warm_up_ns != BEGUN:
            begin(world, warm_up_ns)
            for i in range(len(world.workers)):
                worker = world.workers[i]
                size = keep(serve(world, worker), frames + i * FRAME_BYTES)
                if size > FRAME_BYTES:
                    return _TOO_LARGE
            start(world, frames)
        return advance(world, frames, stop_ns, budget)

    return run


def check_size(reason: int) -> None:
    """Raise MemoryError if the engine returned because a program's state is too large for it."""
    if reason == _TOO_LARGE:
        raise MemoryError(f"the program's generator takes more than {FRAME_BYTES} bytes")
