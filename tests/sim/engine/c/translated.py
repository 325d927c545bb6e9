"""Translated functions in a library of their own, called from Python, and the same by CPython."""

from __future__ import annotations

import ctypes
import inspect
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from tests.sim.engine.c.worlds import World, world_of

from dispatchsim.sim.engine.c import tree
from dispatchsim.sim.engine.c.emit import Structures, c_of
from dispatchsim.sim.engine.c.infer import Inference
from dispatchsim.sim.engine.c.layout import Memory
from dispatchsim.sim.engine.c.run import Failure, error_of
from dispatchsim.sim.engine.c.shapes import BOOL, INT, Record, Records, Shape
from dispatchsim.sim.engine.c.source import FaultError
from dispatchsim.sim.engine.c.translate import NO_STEP, REPLACED, STEP, reached, runtime_file
from dispatchsim.sim.native.compiler import FLAGS

Function = Callable[..., Any]


def functions_c(
    wanted: Sequence[tuple[Callable[..., Any], Sequence[Shape]]], world: Record
) -> tuple[str, list[tree.Function]]:
    """Return the C of functions without an engine around them, and what each is called there.

    C that is put behind it has to define `fail`, `return_to_python`, `step` and `no_step`
    (engine/prelude.h and engine/step.h document them).

    Parameters
    ----------
    wanted:
        Functions, each with the types of its arguments.

    Raises
    ------
    CannotTranslateError
        As `engine_c`.
    """
    inference = Inference(world, STEP, NO_STEP, replaced=dict(REPLACED))
    found = []
    for python, kinds in wanted:
        try:
            found.append(inference.function(python, list(kinds)))
        except FaultError as fault:
            code = python.__code__
            errors = inference.errors
            errors.add(code.co_filename, code.co_firstlineno, python.__name__, str(fault))
    inference.errors.raise_if_any()
    structures = Structures()
    taken = f"({structures.declared(world, '')}, struct R_Worker *, int64_t);"
    declared = [f"static void {name}{taken}" for name in ("step", "no_step")]
    needed = reached(found)
    functions = [c_of(f, structures) for f in inference.functions if f in needed]
    return "\n".join([runtime_file("prelude.h"), structures.text(), *declared, *functions]), found


# A failure ends the call by a jump back to where it came from; so does a loop without an end.
_AROUND = """
#include <setjmp.h>
static _Thread_local jmp_buf back;
static _Thread_local struct failure failed;
static _Thread_local int64_t turns;

static _Noreturn void fail(const char *what, int64_t value, int64_t bound,
                           const char *file, int line)
{
    failed = (struct failure){what, value, bound, file, line};
    longjmp(back, 1);
}

static void return_to_python(void)
{
    if (--turns < 0) {
        fail("turns", 0, 0, "", 0);
    }
}

static void step(struct R_World *world, struct R_Worker *worker, int64_t step_ns)
{
    (void)worker;
    world->m_now_ns += step_ns & 1023;
    ENTRY(world->m_steps, world->m_n_steps) = step_ns;
    world->m_n_steps++;
}

static void no_step(struct R_World *world, struct R_Worker *worker, int64_t step_ns)
{
    (void)world, (void)worker, (void)step_ns;
}

#define EXPORTED __attribute__((visibility("default")))
EXPORTED const struct failure *failure(void) { return &failed; }
"""
_CALL = """
EXPORTED int call_{n}(struct R_World *world, int64_t worker, const int64_t *given, int64_t *result)
{{
    struct R_Worker *const self = world->m_workers.p[worker].v;
    (void)self; (void)given;
    turns = 10000000;
    if (setjmp(back)) {{ return 1; }}
    {returned}f_{name}({arguments});
    return 0;
}}
"""


def kinds_of(function: Function, world: Record) -> list[Shape]:
    """Return the types of the arguments: `world`, `worker`, `is_...` and `has_...`, numbers."""
    workers = world.member("workers")
    assert isinstance(workers, Records)
    known: dict[str, Shape] = {"world": world, "worker": workers.record}
    names = inspect.signature(function).parameters
    truths = {name: BOOL for name in names if name.startswith(("is_", "has_"))}
    return [{**known, **truths}.get(name, INT) for name in names]


class Translated:
    """Functions in C.

    Parameters
    ----------
    functions:
        With arguments named as `kinds_of` says.
    compiler, flags:
        What compiles them, after the fixed flags.
    is_checked:
        Whether indices, divisors, assertions and narrow stores are checked.
    """

    def __init__(
        self,
        functions: Sequence[Function],
        *,
        compiler: str = "gcc",
        flags: Sequence[str] = ("-O1",),
        is_checked: bool = True,
    ) -> None:
        world = Memory(world_of(lists=False)).record
        self.text, found = functions_c([(f, kinds_of(f, world)) for f in functions], world)
        self.numbers = {function: n for n, function in enumerate(functions)}
        parts = [self.text, _AROUND]
        for n, (function, made) in enumerate(zip(functions, found, strict=True)):
            given = iter(range(99))
            names = inspect.signature(function).parameters
            own = {"world": "world", "worker": "self"}
            texts = [own.get(name) or f"given[{next(given)}]" for name in names]
            if made.hidden_world:
                texts.insert(0, "world")
            returned = "*result = " if made.returns in (INT, BOOL) else ""
            parts.append(
                _CALL.format(n=n, name=made.name, returned=returned, arguments=", ".join(texts))
            )
        # What a failed check leaves unfinished is never read: warnings tell of it all the same.
        checked = ["-DCHECK"] if is_checked else []
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "functions.c"), Path(folder, "functions.so")
            source.write_text("\n".join(parts))
            program = shutil.which(compiler)
            assert program is not None
            command = [program, *FLAGS, *flags, *checked, "-w", "-o", str(library), str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            self._library = ctypes.CDLL(str(library))
        self._library.failure.restype = ctypes.POINTER(Failure)

    def __call__(self, function: Function, *given: int, world: World | None = None) -> Any:
        """Return what *function* returns in C; raise what a check has found there."""
        world = world or world_of(lists=False)
        memory = Memory(world)
        numbers = (ctypes.c_int64 * max(1, len(given)))(*given)
        result = ctypes.c_int64(0)
        call = self._library[f"call_{self.numbers[function]}"]
        call.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        status = call(memory.address, 1, ctypes.addressof(numbers), ctypes.addressof(result))
        memory.read()
        if status:
            failure = self._library.failure().contents
            raise TimeoutError if failure.what == b"turns" else error_of(failure)
        return result.value


def by_cpython(function: Function, *given: int, world: World | None = None) -> Any:
    """Return what *function* returns in CPython, a generator driven to its end."""
    world = world or world_of(lists=True)
    numbers = iter(given)
    own: dict[str, Any] = {"world": world, "worker": world.workers[1]}
    values: list[Any] = [own[name] if name in own else next(numbers) for name in _names(function)]
    returned: Any = function(*values)
    if not isinstance(returned, Generator):
        return returned
    while True:
        try:
            step_ns = next(returned)
        except StopIteration as stop:
            return stop.value
        world.now_ns += step_ns & 1023
        world.steps[world.n_steps] = step_ns
        world.n_steps += 1


def _names(function: Function) -> list[str]:
    return list(inspect.signature(function).parameters)
