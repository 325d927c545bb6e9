"""From a program and the layout of its world to one C file.

    prelude.h, structures, calendar.h, stacks.h, step.h, translated functions, loop.h

The file is the same wherever and whenever it is made: its text is the key under which the compiled
library is kept. A worker gets as much stack as its calls are deep: nothing recurs, and the compiler
bounds every frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

from ...cpu.processor import due_ns, first_due
from ...cpu.scheduling import begin_step, block, end_step
from ...kernel.user_code import user_code
from ...state import columns, event_calendar, mechanism
from ...state.mechanism import Program
from ..beginning import beginning
from ..happenings import happen, telling
from ..other_threads import resumes, start_other_cpus
from . import bodies
from .emit import Structures, c_of
from .infer import Inference
from .shapes import BOOL, INT, Record, Records, Reference
from .source import FaultError, Reads
from .tree import Function, Native

STEP, NO_STEP = Native("step"), Native("no_step", pure=True)
_NATIVES: dict[Callable[..., Any], Native] = {
    columns.heap_push: Native("give_fd"),
    columns.heap_pop: Native("take_fd", INT),
    event_calendar.schedule: Native("schedule"),
    event_calendar.first_due_ns: Native("first_due_ns", INT, pure=True),
}
REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    columns.fill: bodies.fill,
    columns.fill_range: bodies.fill_range,
    columns.sort_prefix: bodies.sort_prefix,
    mechanism.spend: bodies.spend,
    mechanism.step: bodies.step,
    event_calendar.is_led: bodies.is_led,
    event_calendar.call_python: bodies.call_python,
    user_code: bodies.user_code,
}


SELDOM = frozenset(
    {
        "_drop_or_refuse",
        "_is_left",
        "answer",
        "client_lost",
        "clock_happening",
        "give_up",
        "idle_closes",
        "idle_may_return",
        "packet_handled",
        "reset_forgotten",
        "sent_again",
        "server_reset",
        "shed",
        "syn_lost",
        "syn_sent_again",
        "timeout",
        "wake_other",
    }
)
"""Functions that most connections never call: inlined, they would keep others from being so."""


def engine_c(
    program: Program, world: Record, assumed: dict[str, int] | None = None
) -> tuple[str, Reads]:
    """Return the C of the engine of *program* over worlds of the type *world*, and its reads.

    Parameters
    ----------
    assumed:
        "Record.member" -> its value in every run of this engine, folded into the code.

    Raises
    ------
    CannotTranslateError
        If something in the source has no translation: all of it, with file and line.
    """
    inference = Inference(
        world,
        STEP,
        NO_STEP,
        dict(_NATIVES),
        dict(REPLACED),
        assumed=dict(assumed or {}),
    )
    roots = _roots(inference, program, world)
    inference.errors.raise_if_any()
    structures = Structures()
    needed = reached(roots.values())
    for kind in _needed_by_engine(world):  # first, so that they have the names of engine/*.h
        structures.c(kind)
    functions = [
        c_of(f, structures, seldom=f.label in SELDOM) for f in inference.functions if f in needed
    ]
    sizes = f"enum {{ STACK_BYTES = {stack_bytes(_depth(inference.functions))} }};"
    constants = [
        _constant("N_CPUS", "(world)->m_cpus.n", inference, "len World.cpus"),
        _constant("N_WORKERS", "(world)->m_workers.n", inference, "len World.workers"),
    ]
    names = [f"#define model_{name} f_{function.name}" for name, function in roots.items()]
    parts = [
        runtime_file("prelude.h"),
        structures.text(),
        sizes,
        runtime_file("calendar.h"),
        runtime_file("stacks.h"),
        runtime_file("step.h"),
        *functions,
        *constants,
        *names,
        runtime_file("loop.h"),
    ]
    return "\n".join(parts), inference.reads


def _roots(inference: Inference, program: Program, world: Record) -> dict[str, Function]:
    """Translate what the engine calls, and all that these call."""
    worker, cpu = _record_of_list(world, "workers"), _record_of_list(world, "cpus")
    wanted: dict[str, tuple[Any, list[Any]]] = {
        "begin": (beginning(program), [world, INT]),
        "serve": (program.serve, [world, worker]),
        "happen": (happen, [world, INT, INT]),
        "notify": (program.mechanism.notify, [world, INT]),
        "tell": (telling(program), [world]),
        "block": (block, [world, cpu]),
        "begin_step": (begin_step, [world, cpu, INT]),
        "end_step": (end_step, [world, cpu]),
        "resumes": (resumes, [world, cpu]),
        "due_ns": (due_ns, [cpu]),
        "first_due": (first_due, [world]),
        "start_other_cpus": (start_other_cpus, [world]),
    }
    found = {}
    for name, (python, kinds) in wanted.items():
        try:
            found[name] = inference.function(python, kinds)
        except FaultError as fault:
            inference.errors.add(f"<{program.mechanism.name}>", 0, name, str(fault))
    if "notify" in found and found["notify"].returns not in (BOOL, INT):
        notify = found["notify"]
        inference.errors.add(
            notify.file, notify.line, notify.label, "must return whether a worker was woken"
        )
    return found


def reached(roots: Iterable[Function]) -> set[Function]:
    """Return the functions that are called: not those of which only a constant was left."""
    found: set[Function] = set()
    waiting = list(roots)
    while waiting:
        function = waiting.pop()
        if function not in found:
            found.add(function)
            waiting += function.called
    return found


def _record_of_list(world: Record, name: str) -> Record:
    kind = world.member(name)
    assert isinstance(kind, Records)
    return kind.record


def _needed_by_engine(world: Record) -> list[Record]:
    calendar = world.member("calendar")
    assert isinstance(calendar, Reference)
    return [world, calendar.record]


def _constant(name: str, otherwise: str, inference: Inference, known: str) -> str:
    """Return the definition of what is a constant in a folded variant."""
    if known not in inference.assumed:
        return f"#define {name}(world) ({otherwise})"
    return f"#define {name}(world) {inference.assumed[known]}"


def _depth(functions: list[Function]) -> int:
    """Return how deep the calls of *functions* go."""
    depth: dict[Function, int] = {}
    for function in functions:  # each behind those that it calls
        depth[function] = 1 + max((depth[called] for called in function.called), default=0)
    return max(depth.values(), default=0)


def runtime_file(name: str) -> str:
    """Return the C file *name* of the engine."""
    text = resources.files(__package__).joinpath("runtime", name).read_text(encoding="utf-8")
    return f'#line 1 "sim/engine/c/runtime/{name}"\n{text}'


FRAME_BYTES_MAX = 2048
"""The compiler refuses a function whose frame takes more."""
_ENGINE_FRAMES = 8
_SIGNAL_BYTES = 64 * 1024
"""Room for the frame of a signal: registers of AVX-512 and AMX take some 11 KB."""
_PAGE_BYTES = 4096


def stack_bytes(depth: int) -> int:
    """Return what a worker needs whose translated functions call each other *depth* deep."""
    # A program spends from its innermost call, and what happens meanwhile is as deep again.
    frames = 2 * depth + _ENGINE_FRAMES
    needed = frames * FRAME_BYTES_MAX + _SIGNAL_BYTES
    return -(-needed // _PAGE_BYTES) * _PAGE_BYTES
