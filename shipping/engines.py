"""The engines of built-in programs, compiled for the machines that wheels are made for.

    every built-in program, general and folded ─► C ─► zig cc, for each machine ─► NAME.so

The name of a library holds a hash of all sources (`built_in_name`), so an engine runs with its own
sources only. The same sources and the same zig make the same bytes.

Sources: PEP 600, manylinux_2_17; zig cc, which has the symbols of every release of glibc.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dispatchsim.models.built_in import built_in_programs
from dispatchsim.sim.engine.c.folding import assumptions
from dispatchsim.sim.engine.c.layout import record_type
from dispatchsim.sim.engine.c.library import ENGINE_FLAGS, built_in_name
from dispatchsim.sim.engine.c.translate import engine_c
from dispatchsim.sim.native.cache import BUILDING
from dispatchsim.sim.native.compiler import ZIG_FLAGS, Compiler

MACHINES = ("x86_64", "aarch64")
"""The names that `platform.machine()` returns."""
_GLIBC = "2.17"
PLATFORM = f"manylinux_{_GLIBC.replace('.', '_')}"
"""Pip's tag, without the machine, of systems with that release of glibc or a later one."""
_STRIP = "-s"


class Source(NamedTuple):
    """An engine: the name of its library, and its C."""

    name: str
    text: str


@dataclass(frozen=True)
class Target:
    """A machine, and the compiler for it."""

    machine: str
    compiler: Compiler


def target(machine: str) -> Target:
    """Return the target for *machine*, with zig as its compiler."""
    own_flags = (*ZIG_FLAGS, "-target", f"{machine}-linux-gnu.{_GLIBC}", _STRIP)
    command = (sys.executable, "-m", "ziglang", "cc")
    return Target(machine, Compiler(command, f"zig for {machine}", own_flags))


def sources(programs: Sequence[str] = ()) -> Iterator[Source]:
    """Yield both variants of the engines of *programs*, or of all programs.

    Raises
    ------
    ValueError
        If a name is not that of a built-in program.
    """
    known = {built_in.kept_as: built_in for built_in in built_in_programs()}
    for name in programs or known:
        if name not in known:
            raise ValueError(f'program must be one of {", ".join(known)}, got "{name}"')
        _, program, world = known[name]
        record = record_type(world)
        for assumed in (None, assumptions()):
            library = built_in_name(name, record, folded=assumed is not None)
            text, _ = engine_c(program, record, assumed)
            yield Source(library, text)


def compile_all(
    made: Sequence[Source],
    targets: Sequence[Target],
    folder: Path,
    progress: Callable[[int, int, Path], None] | None = None,
) -> list[Path]:
    """Compile all of *made* for all *targets* in parallel; return FOLDER/MACHINE/NAME.so.

    After each engine *progress* is called with its number, the number of engines and its library.
    """
    tasks = [(source, each, folder / each.machine) for each in targets for source in made]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        compiled = [threads.submit(_compile, *task) for task in tasks]
        try:
            for n_done, each in enumerate(as_completed(compiled), start=1):
                library = each.result()
                if progress is not None:
                    progress(n_done, len(tasks), library)
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
        return [each.result() for each in compiled]


def _compile(source: Source, target: Target, folder: Path) -> Path:
    # All builds share zig's cache if the folder has this suffix.
    building = folder / f"{source.name}{BUILDING}"
    building.mkdir(parents=True)
    text, library = building / "engine.c", folder / f"{source.name}.so"
    text.write_text(source.text)
    made = building / "engine.so"
    target.compiler.compile(text, made, ENGINE_FLAGS)
    made.rename(library)
    return library
