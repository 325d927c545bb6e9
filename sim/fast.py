"""The fast engine: a world in compact arrays, run by compiled code, same outcome to the nanosecond.

Here it is set up, run in portions that leave room for Ctrl-C and progress, and read out;
sim/compiled has the engine itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import config
from numba.core.errors import NumbaError

from .compiled.code_cache import CodeCache
from .compiled.engine import (
    BEGUN,
    CALENDAR_FULL,
    DONE,
    FRAME_BYTES,
    SIGNATURE,
    check_size,
    engine_source,
    python_engine,
)
from .compiled.heap_calendar import enlarge, heap_calendar
from .compiled.layout import Memory
from .mechanism import Program
from .world import World

_BUDGET = 1_000_000
"""Steps and occurrences between two looks at what the user wants: about a tenth of a second."""

_engines: dict[tuple[Program, str], Any] = {}
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
    ) -> None:
        self.world = world
        self.duration_ns = duration_ns
        self._warm_up_ns = warm_up_ns
        at_once = world.n_users + (world.n_idle if world.client.idle_life_ns > 0 else 0)
        world.calendar = heap_calendar(1024 + 2 * at_once)
        self._memory: Memory | None = None
        self._advance = self._compiled(program, kept_as)

    def _compiled(self, program: Program, kept_as: str | None) -> Callable[[int, int], int]:
        world = self.world
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            engine = python_engine(program)
            frames: list[Any] = []
            return lambda stop_ns, budget: engine(world, frames, self._warm_up_ns, stop_ns, budget)
        serial = _serials.setdefault(program, len(_serials))
        self._memory = memory = Memory(world, f"_{kept_as or f'of_{serial}'}")
        compiled = compiled_engine(program, memory, kept_as)
        memory_of_frames = np.zeros(len(world.workers) * FRAME_BYTES // 8, np.int64)
        return lambda stop_ns, budget: compiled(
            memory.address,
            memory_of_frames.ctypes.data,
            self._warm_up_ns,
            stop_ns,
            budget,
        )

    def run(self, progress: Callable[[int], None] | None = None) -> World:
        """Run to the end and return the world; *progress* is told the simulated time.

        Raises
        ------
        Interrupted
            On Ctrl-C, within a fraction of a second, with the world as it is then.
        """
        world = self.world
        reason = -1
        try:
            while reason != DONE:
                reason = self._advance(self.duration_ns, _BUDGET)
                self._warm_up_ns = BEGUN
                check_size(reason)
                if reason == CALENDAR_FULL:
                    self._enlarge_calendar()
                if progress:
                    progress(self._now_ns())
        except KeyboardInterrupt:
            self._read_back()
            raise Interrupted(world) from None
        self._read_back()
        world.now_ns = self.duration_ns
        return world

    def _now_ns(self) -> int:
        self._read_back()
        return self.world.now_ns

    def _read_back(self) -> None:
        if self._memory is not None:
            self._memory.read_back()

    def _enlarge_calendar(self) -> None:
        self._read_back()
        enlarge(self.world.calendar)
        if self._memory is not None:
            self._memory.refresh(self.world.calendar, "entries", "room")


def compiled_engine(program: Program, memory: Memory, kept_as: str | None) -> Any:
    """Return the compiled engine of *program*, from memory, from disk or from the compiler."""
    known = program, memory.record.name
    if known not in _engines:
        engine = engine_source(program, memory.record)
        if kept_as:
            engine._cache = _Announced(kept_as, memory.record.name)
        else:
            _announce(program.mechanism.name)
        try:
            engine.compile(SIGNATURE)
        except (NumbaError, TypeError, AssertionError) as error:
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
        f"dispatchsim: compiling the fast engine for {mechanism} (once, some ten seconds)",
        file=sys.stderr,
        flush=True,
    )


def _one_sentence(program: Program, error: BaseException) -> str:
    """Return what the compiler says, without its path through our own code."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    noise = ("During:", "File ", "Failed in", "[", "This error", "def ", "<source", "^", "-", "*")
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(noise)]
    what = told[0] if told else type(error).__name__
    return f"the fast engine cannot run {program.serve.__qualname__}: {what}{where}"
