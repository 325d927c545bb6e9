"""The fast engine: a world in compact arrays, run by compiled code, same outcome to the nanosecond.

Here it is set up, run in portions that leave room for Ctrl-C and progress, and read out;
sim/compiled has the engine itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numba.core import config

from .compiled.code_cache import CodeCache, is_kept
from .compiled.engine import (
    FRAME_BYTES,
    SIGNATURE,
    TOO_LARGE,
    compiled_source,
    python_engine,
)
from .compiled.heap_calendar import PATIENCE, enlarge, heap_calendar
from .compiled.layout import Memory
from .mechanism import Program
from .world import World

_engines: dict[tuple[Program, str, bool], Any] = {}
_serials: dict[Program, int] = {}


class CannotCompileError(TypeError):
    """A program that the fast engine cannot run; the message says what stands in the way."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; `world` holds what had happened until `world.now_ns`."""

    def __init__(self, world: World) -> None:
        super().__init__(f"stopped at {world.now_ns} ns of simulated time")
        self.world = world


class FastRun:
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
    kept_as:
        Under which name its code is kept on disk: for programs whose every source is part of
        this version. None: it is compiled anew in each process.
    refill:
        Called when the rows of the trace run out, if more may come.

    Raises
    ------
    CannotCompileError
        If Numba cannot compile the program.
    """

    def __init__(
        self,
        program: Program,
        world: World,
        *,
        duration_ns: int,
        warm_up_ns: int = 0,
        kept_as: str | None = None,
        refill: Callable[[], None] | None = None,
    ) -> None:
        self.world = world
        self._warm_up_ns = warm_up_ns
        self._progress: Callable[[int], None] | None = None
        self._refill = refill
        self._memory: Memory | None = None
        self._ended_by: BaseException | None = None
        at_once = world.n_users + (world.n_idle if world.client.idle_life_ns > 0 else 0)
        self._calendar = world.calendar = heap_calendar(1024 + 2 * at_once)
        self._calendar.stop_ns = duration_ns
        # Kept here: the address in the calendar does not keep it alive.
        self._on_pause = ctypes.CFUNCTYPE(ctypes.c_int64)(self._pause)
        self._calendar.on_pause = ctypes.cast(self._on_pause, ctypes.c_void_p).value or 0
        self._engine = self._find_engine(program, kept_as)

    def run(self, progress: Callable[[int], None] | None = None) -> World:
        """Run to the end and return the world; *progress* is told the simulated time.

        Raises
        ------
        Interrupted
            On Ctrl-C, within a fraction of a second, with the world as it is then.
        """
        self._progress = progress
        try:
            with self._interrupts_noted():
                returned = self._engine()
        finally:
            # A run happens once. Without this it would refer to itself, and keep its world until
            # the garbage collector looks for such circles.
            del self._engine, self._on_pause
        if self._memory is not None:
            self._memory.read()
        if returned == TOO_LARGE:
            raise MemoryError(f"the program's generator takes more than {FRAME_BYTES} bytes")
        if isinstance(self._ended_by, KeyboardInterrupt):
            raise Interrupted(self.world) from None
        if self._ended_by is not None:
            raise self._ended_by
        self.world.now_ns = self._calendar.stop_ns
        if progress is not None:
            progress(self.world.now_ns)
        return self.world

    @contextlib.contextmanager
    def _interrupts_noted(self) -> Iterator[None]:
        """Have Ctrl-C noted while compiled code runs, for `_pause` to see.

        As an exception it could come up before the first line of `_pause`, and nothing that
        passes through compiled code could catch it.
        """
        before = signal.getsignal(signal.SIGINT)
        in_main_thread = threading.current_thread() is threading.main_thread()
        if not in_main_thread or before in (signal.SIG_IGN, signal.SIG_DFL, None):
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._ended_by = self._ended_by or KeyboardInterrupt()

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _find_engine(self, program: Program, kept_as: str | None) -> Callable[[], int]:
        world = self.world
        alone = len(world.workers) == 1
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            python = python_engine(program, one_worker=alone, pause=lambda _: bool(self._pause()))
            return lambda: python(world, [], self._warm_up_ns)
        serial = _serials.setdefault(program, len(_serials))
        memory = Memory(world, f"_{kept_as or f'of_{serial}'}")
        compiled = compiled_engine(program, memory, kept_as, one_worker=alone)
        frames = np.zeros(len(world.workers) * FRAME_BYTES // 8, np.int64)
        self._memory = memory
        return lambda: compiled(memory.address, frames.ctypes.data, self._warm_up_ns)

    def _pause(self) -> int:
        """Care for what the engine stopped for; return 1 to end the run."""
        try:
            if self._memory is not None:
                self._memory.read()
            self._calendar.patience = PATIENCE
            if self._calendar.n >= self._calendar.full:
                enlarge(self._calendar)
            if self.world.next_row >= self.world.refill_row and self._refill is not None:
                self._refill()
            if self._progress is not None:
                self._progress(self.world.now_ns)
            if self._memory is not None:
                self._memory.write()
            if self._ended_by is not None:
                return 1
        except BaseException as error:
            # No exception can pass through compiled code: the run ends, and `run` raises it.
            self._ended_by = error
            return 1
        return 0


def code_is_kept(kept_as: str, workers: int = 1) -> bool:
    """Return whether this version's code of that name, for so many workers, is on disk."""
    return is_kept(f"{kept_as}-{_style(workers == 1)}")


def _style(one_worker: bool) -> str:
    return "one" if one_worker else "several"


def compiled_engine(
    program: Program, memory: Memory, kept_as: str | None, *, one_worker: bool
) -> Any:
    """Return the compiled engine of *program*, from memory, from disk or from the compiler."""
    known = program, memory.record.name, one_worker
    if known not in _engines:
        try:
            engine = compiled_source(program, memory.record, one_worker=one_worker)
        except Exception as error:
            raise CannotCompileError(_one_sentence(program, error)) from error
        turn: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if kept_as:
            engine._cache = _Announced(kept_as, f"{_style(one_worker)}-{memory.record.name}")
            turn = engine._cache.in_turn()
        else:
            _announce(program.mechanism.name)
        try:
            with turn:
                engine.compile(SIGNATURE)
        except Exception as error:  # Numba's have no ancestor in common
            raise CannotCompileError(_one_sentence(program, error)) from error
        _engines[known] = engine
    return _engines[known]


class _Announced(CodeCache):
    """Says so when the compiler is about to work."""

    def __init__(self, mechanism: str, record: str) -> None:
        super().__init__(f"{mechanism}-{record}")
        self._mechanism = mechanism

    def load_overload(self, signature: Any, target: Any) -> Any:
        found = super().load_overload(signature, target)
        if found is None:
            _announce(self._mechanism)
        return found


def _announce(mechanism: str) -> None:
    print(
        f"dispatchsim: compiling the fast engine for {mechanism} (once, about 20 seconds)",
        file=sys.stderr,
        flush=True,
    )


def _one_sentence(program: Program, error: BaseException) -> str:
    """Return what the compiler says of the user's own source: the innermost thing it names."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = str(Path(__file__).parent)
    what, where = lines[0] if lines else type(error).__name__, ""
    for i, line in enumerate(lines):
        place = re.match(r'File "([^"]+)", line (\d+)', line)
        if place and i > 0 and not str(Path(place[1]).resolve()).startswith(own):
            what, where = lines[i - 1], f" ({place[1]}, line {place[2]})"
            break
    # Without a place of the user's own it is a function that compiled code cannot call.
    hint = "" if where else "; does every function that it calls carry @register_jitable?"
    return f"the fast engine cannot run {program.serve.__qualname__}: {what}{where}{hint}"
