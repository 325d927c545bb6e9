"""One run on the fast engine: portions in C, and Python in between.

    run_begin ─► run_on ─► Python: room, rows, progress, signals ─► run_on ─► ... ─► run_end

C never calls Python. It returns when memory has to grow, when rows run out, and at intervals, for
Ctrl-C and progress; exceptions are Python's own.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator

from ...native.compiler import CompilerFailedError, NoCompilerError
from ...state.mechanism import Program
from ...state.world import World
from .heap_calendar import MARGIN, N_UNTIL_RETURN, heap_calendar
from .layout import Memory, record_type
from .library import engine_is_ready, engine_of
from .source import CannotTranslateError

_OVER, _NEEDS_PYTHON, _NEEDS_ROOM, _RETURNS_TO_PYTHON, _FAILED = range(5)


class CannotCompileError(RuntimeError):
    """A program that the fast engine cannot run here; the message has the reason."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `world` holds what had happened until `world.now_ns`."""

    def __init__(self, world: World) -> None:
        super().__init__(f"stopped at {world.now_ns} ns of simulated time")
        self.world = world


class Failure(ctypes.Structure):
    """What a check in C has found: struct failure of engine/prelude.h."""

    _fields_ = [
        ("what", ctypes.c_char_p),
        ("value", ctypes.c_int64),
        ("bound", ctypes.c_int64),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_int64),
    ]


class CRun:
    """One run of *program* over *world*.

    Parameters
    ----------
    program:
        The server program with its mechanism.
    world:
        As built by `build_world` with columns that are arrays; it holds the outcome.
    duration_ns:
        When the run ends.
    warm_up_ns:
        When the measured window begins.
    folded:
        Whether flags that are constant in a run are folded into the code: True, False, or None,
        if they are as in the folded variant.
    kept_as:
        The name of a built-in program: `library.engine_of`.
    refill:
        Called when the rows of the trace run out, if more may come.

    Raises
    ------
    CannotCompileError
        If the program is not written in the restricted Python, or if there is no C compiler, or it
        fails.
    ValueError
        If the folded variant was asked for and does not fit.
    """

    def __init__(
        self,
        program: Program,
        world: World,
        *,
        duration_ns: int,
        warm_up_ns: int = 0,
        folded: bool | None = None,
        kept_as: str | None = None,
        refill: Callable[[], None] | None = None,
    ) -> None:
        self.world = world
        self._warm_up_ns = warm_up_ns
        self._refill = refill
        at_once = world.n_users + (world.n_idle if world.client.idle_life_ns > 0 else 0)
        n_faults = len(world.fault_at_ns)
        self._calendar = world.calendar = heap_calendar(1024 + 2 * at_once + 2 * n_faults)
        self._calendar.stop_ns = duration_ns
        with _explained(program):
            self._memory = Memory(world)
            record = self._memory.record
            self._engine = engine_of(program, world, record, folded=folded, kept_as=kept_as)

    def run(self, progress: Callable[[int], None] | None = None) -> World:
        """Run to the end and return the world; *progress* is called with the simulated time.

        What *progress* raises ends the run.

        Raises
        ------
        Interrupted
            On Ctrl-C, within a fraction of a second, with the world as it is then.
        IndexError, AssertionError, ZeroDivisionError, OverflowError, ValueError
            For a fault of a program of one's own, with its file and line.
        """
        engine = self._engine
        state = engine.run_begin(self._memory.address, self._warm_up_ns)
        if not state:
            raise MemoryError(f"no memory for the stacks of {len(self.world.workers)} workers")
        try:
            while status := engine.run_on(state):
                if status == _FAILED:
                    failure = ctypes.cast(engine.run_failure(state), ctypes.POINTER(Failure))
                    raise error_of(failure.contents)
                if status == _NEEDS_PYTHON:
                    self._do_what_needs_python(progress)
                elif status == _NEEDS_ROOM:  # in the middle of a step
                    self._memory.read()
                    self._calendar.take_call()
                    self._calendar.enlarge()
                    self._memory.write()
                elif progress is not None:  # a loop that has taken long without a step
                    progress(self.world.now_ns)
        except KeyboardInterrupt:
            self._memory.read()
            raise Interrupted(self.world) from None
        finally:
            engine.run_end(state)
        self._memory.read()
        self.world.now_ns = self._calendar.stop_ns
        if progress is not None:
            progress(self.world.now_ns)
        return self.world

    def _do_what_needs_python(self, progress: Callable[[int], None] | None) -> None:
        """Do what the engine cannot: enlarge the calendar, draw rows, report progress."""
        self._memory.read()
        self._calendar.n_until_return = N_UNTIL_RETURN
        self._calendar.take_call()
        if self._calendar.n >= self._calendar.full:
            self._calendar.enlarge()
        if self._refill is not None and wants_rows(self.world):
            self._refill()
        if progress is not None:
            progress(self.world.now_ns)
        self._memory.write()


def wants_rows(world: World) -> bool:
    """Return whether a streamed run has come to the end of its rows, or of room for requests."""
    return world.next_row >= world.refill_row or world.n_requests >= world.refill_request


def is_at_hand(program: Program, world: World, *, kept_as: str | None = None) -> bool:
    """Return whether a run need not compile its engine; parameters as for `CRun`.

    Raises
    ------
    CannotCompileError
        If it cannot be compiled.
    """
    world.calendar = heap_calendar(MARGIN)
    with _explained(program):
        return engine_is_ready(program, world, record_type(world), kept_as=kept_as)


@contextlib.contextmanager
def _explained(program: Program) -> Iterator[None]:
    """Raise all obstacles to an engine as one kind of error."""
    try:
        yield
    except CannotTranslateError as error:
        raise CannotCompileError(
            f"the fast engine cannot run {program.mechanism.name}: {error}"
        ) from error
    except (NoCompilerError, CompilerFailedError) as error:
        raise CannotCompileError(f"there is no fast engine here: {error}") from error


def error_of(failure: Failure) -> Exception:
    """Return the exception that Python would have raised, with file and line."""
    where = f"{failure.file.decode()}, line {failure.line}"
    match failure.what:
        case b"index":
            return IndexError(f"{where}: there is no entry {failure.value} of {failure.bound}")
        case b"store":
            return OverflowError(
                f"{where}: {failure.value} does not fit the {failure.bound} bits of the column"
            )
        case b"division":
            return ZeroDivisionError(f"{where}: division by zero")
        case b"step":
            return ValueError(
                f"{where}: a step must be a whole number (int) of nanoseconds, at least 0, got "
                f"{failure.value}: take max(0, ...) of it"
            )
        case b"shift":
            return ValueError(f"{where}: shift by {failure.value} bits")
    if "/c/bodies.py" in where:  # the one of `spend`, which does not know where it was called
        where = (
            "spend: a cost must be a whole number (int) of nanoseconds, at least 0, and "
            'engine="reference" names the line'
        )
    return AssertionError(f"{where}: the assertion does not hold")
