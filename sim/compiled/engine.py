# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc, call-arg, var-annotated"
"""The compiled engine: the loop of `sim.reference` without SimPy, around the same program.

    heap of occurrences ─┐
                         ├─ whichever is due first ─► happen, or the end of a CPU's step
    CPUs and their steps ┘

A run is one call. Now and then it calls back, to have something grow, to show progress, and to
let Ctrl-C through; what is called then may end the run.
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
from ..other_threads import resumes, start_other_cpus
from ..processor import due_ns, first_due
from ..scheduling import begin_step, block, end_step
from . import containers as _bodies  # noqa: F401 (registers what compiled code calls)
from .direct_style import NotDirectError, direct_style
from .generators import call_back, keep, kept
from .heap_calendar import drop_first, wants_care
from .records import RecordType, record_at

FRAME_BYTES = 16_384
"""Memory for the state of one worker's generator."""
TOO_LARGE = -1
"""What a run returns if a generator does not fit that memory; otherwise 0."""
SIGNATURE = types.int64(*[types.int64] * 3)
_ENDED = -(1 << 62)  # no step that a program could yield


Function = Callable[..., Any]


def _happening(program: Program) -> Function:
    """Return the function that lets the first occurrence of the calendar happen."""
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

    return happen_next


def _alone(program: Program, pause: Function) -> Function:
    """Return the function that lets a step of the only worker pass: what direct style calls.

    It says whether the run is over, and so does *pause*, which is called when something wants care.
    """
    happen_next = _happening(program)

    @jitable
    def spend(world, worker, step_ns):
        done_ns = world.now_ns + step_ns
        calendar = world.calendar
        if (
            step_ns >= 0
            and calendar.entries[0] > done_ns
            and done_ns <= calendar.stop_ns
            and calendar.n < calendar.full
            and world.n_others == 0
        ):
            world.now_ns = done_ns
            worker.cpu.ledger_ns[worker.activity] += step_ns
            return False
        return spend_interrupted(world, worker, step_ns)

    @jitable
    def spend_interrupted(world, worker, step_ns):
        cpu = worker.cpu
        goes_on = block(world, cpu) if step_ns == _ENDED else begin_step(world, cpu, step_ns)
        if goes_on and resumes(world, cpu):
            return False
        while True:
            # Before anything goes on: steps plan what follows from them, too.
            if wants_care(world) and pause(world):
                return True
            if len(world.cpus) > 1:
                cpu = first_due(world)
            at_ns = due_ns(cpu)
            first_ns = world.calendar.entries[0]
            if first_ns <= at_ns and first_ns <= world.calendar.stop_ns:
                happen_next(world)
            elif at_ns > world.calendar.stop_ns:
                return True
            else:
                world.now_ns = at_ns
                end_step(world, cpu)
                if resumes(world, cpu):
                    return False

    return spend


def _in_turns(program: Program, resume: Function, pause: Function) -> Function:
    """Return the loop over several workers, each a generator.

    *resume* is (world, frames, worker number) -> the next step of its program, in ns.
    """
    happen_next = _happening(program)

    @jitable
    def go_on(world, frames, cpu):
        goes_on = True
        while goes_on:
            step_ns = resume(world, frames, cpu.running)
            goes_on = block(world, cpu) if step_ns == _ENDED else begin_step(world, cpu, step_ns)
            goes_on = goes_on and resumes(world, cpu)

    @jitable
    def run_in_turns(world, frames):
        for i in range(len(world.cpus)):
            if world.cpus[i].running != NONE and resumes(world, world.cpus[i]):
                go_on(world, frames, world.cpus[i])
        while True:
            if wants_care(world) and pause(world):
                return
            cpu = first_due(world)
            at_ns = due_ns(cpu)
            first_ns = world.calendar.entries[0]
            if first_ns <= at_ns and first_ns <= world.calendar.stop_ns:
                happen_next(world)
            elif at_ns > world.calendar.stop_ns:
                return
            else:
                world.now_ns = at_ns
                end_step(world, cpu)
                if resumes(world, cpu):
                    go_on(world, frames, cpu)

    return run_in_turns


def python_engine(program: Program, *, one_worker: bool, pause: Function) -> Function:
    """Return the engine of *program* as plain Python: for tests without the compiler."""

    def resume(world, frames, number):
        return next(frames[number], _ENDED)

    begin = beginning(program)
    spend = _alone(program, pause)
    serve_alone = _serve_alone(program, spend) if one_worker else None
    run_in_turns = _in_turns(program, resume, pause)

    def run(world, frames, warm_up_ns):
        begin(world, warm_up_ns)
        if serve_alone is None:
            frames.extend(program.serve(world, worker) for worker in world.workers)
            run_in_turns(world, frames)
            return 0
        start_other_cpus(world)
        if not serve_alone(world, world.workers[0]):
            spend(world, world.workers[0], _ENDED)
        return 0

    return run


def compiled_source(program: Program, record: RecordType, *, one_worker: bool) -> Any:
    """Return the engine of *program* over worlds of the layout *record*, to be compiled.

    Its arguments: the addresses of world and frames, and the end of the warm-up in ns.
    """
    world_at = record_at(record)
    begin = beginning(program)

    @jitable
    def pause(world):
        return call_back(world.calendar.on_pause) != 0

    spend = _alone(program, pause)
    serve_alone = _serve_alone(program, spend) if one_worker else None
    if serve_alone is None:
        return _compiled_in_turns(program, pause, world_at)

    @njit()
    def run(address, frames, warm_up_ns):
        world = world_at(address)
        begin(world, warm_up_ns)
        start_other_cpus(world)
        if not serve_alone(world, world.workers[0]):
            spend(world, world.workers[0], _ENDED)
        return 0

    return run


def _compiled_in_turns(program: Program, pause: Function, world_at: Function) -> Any:
    serve = program.serve
    begin = beginning(program)

    @jitable
    def resume(world, frames, number):
        generator = kept(serve(world, world.workers[number]), frames + number * FRAME_BYTES)
        for step_ns in generator:
            return step_ns
        return _ENDED

    run_in_turns = _in_turns(program, resume, pause)

    @njit()
    def run(address, frames, warm_up_ns):
        world = world_at(address)
        begin(world, warm_up_ns)
        for i in range(len(world.workers)):
            place = frames + i * FRAME_BYTES
            size = keep(serve(world, world.workers[i]), place, FRAME_BYTES)
            if size > FRAME_BYTES:
                return TOO_LARGE
        run_in_turns(world, frames)
        return 0

    return run


def _serve_alone(program: Program, spend: Function) -> Function | None:
    try:
        return direct_style(program.serve, spend)
    except NotDirectError:
        return None
