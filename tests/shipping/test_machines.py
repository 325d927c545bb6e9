"""Engines of each compiler, and those that are shipped on the processor that they are for.

All give the outcome of the reference engine. The engine of another processor runs in an emulator of
user programs, with the C library of that processor.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import itertools
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from shipping.engines import Target, compile_all, sources, target
from tests.scenes import Scene, comes_at, on_reference, scenes
from tests.shipping.other_process import DRIVER, OtherProcess

from dispatchsim.models.simulate import prepare_world, program_of
from dispatchsim.sim.engine.c import run
from dispatchsim.sim.engine.c.folding import fits
from dispatchsim.sim.engine.c.heap_calendar import heap_calendar
from dispatchsim.sim.engine.c.layout import Memory
from dispatchsim.sim.engine.c.library import Engine
from dispatchsim.sim.figures.outcome import Outcome, outcome_of
from dispatchsim.sim.native.compiler import Compiler
from dispatchsim.sim.state.columns import as_arrays
from dispatchsim.sim.state.settings import RunSettings

EMULATED = "zig for aarch64, emulated"
MECHANISMS = {
    "gcc": ("epoll_level", "blocking"),
    "clang": ("select", "blocking"),
    "zig": ("epoll_level", "select"),
    EMULATED: ("select", "blocking"),
}
"""By compiler: an event loop or a scan with tables of its own, general and folded; and in general
alone the scan, or threads that switch stacks."""
OF_AARCH64 = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
ROOM = 1 << 14
"""Of the calendar: it need not grow in any scene."""

MakeEngine = Callable[[Path, Memory], Any]


class Engines:
    """The engines of two mechanisms made for one target, and how they are run."""

    def __init__(
        self, mechanisms: tuple[str, str], made_for: Target, folder: Path, make: MakeEngine
    ) -> None:
        self._make = make
        first, second = mechanisms
        variants = ((first, False), (first, True), (second, False))
        made = list(itertools.islice(sources(mechanisms), len(variants)))
        compiled = compile_all(made, [made_for], folder)
        self._libraries = dict(zip(variants, compiled, strict=True))

    def outcome(self, scene: Scene, *, folded: bool = False) -> Outcome:
        """Return the outcome of *scene* on these engines."""
        program, duration_ns = program_of(scene.mechanism), scene.run.duration_ns
        world = prepare_world(program, scene.trace, scene.costs, scene.run, as_arrays)
        assert not (folded and fits(world))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "engine_of", lambda *_, **__: None)
            patch.setattr(run, "heap_calendar", lambda _: heap_calendar(ROOM))
            begun = run.CRun(
                program, world, duration_ns=duration_ns, warm_up_ns=scene.run.warm_up_ns
            )
        world.calendar.n_until_return = 1 << 62  # nothing but the end stops it
        begun._memory.write()
        library = self._libraries[scene.mechanism, folded]
        assert f"-{begun._memory.record.hash}-" in library.name
        begun._engine = self._make(library, begun._memory)
        return outcome_of(begun.run(), duration_ns, program.mechanism)


def in_this_process(library: Path, _: Memory) -> Engine:
    return Engine(ctypes.CDLL(str(library)))


def named(name: str) -> Target:
    """Return this machine with the compiler *name*."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return Target(platform.machine(), Compiler((path,), name))


def zig(machine: str) -> Target:
    """Return *machine* with zig."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip('ziglang is not installed: pip install "dispatchsim[wheels]"')
    return target(machine)


def driver(made_for: Target, folder: Path) -> str:
    """Return the path of the program that runs engines in a process of its own."""
    folder.mkdir()
    compiler, path = made_for.compiler, folder / "driver"
    flags = [*compiler.own_flags, "-std=c11", "-Wall", "-Wextra", "-Werror"]
    command = [*compiler.command, *flags, "-o", str(path), str(DRIVER), "-ldl"]
    subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    return str(path)


@functools.cache
def engines(who: str, folder: Path) -> Engines:
    """Return the engines that *who* makes and runs."""
    if who != EMULATED:
        made_for = zig(platform.machine()) if who == "zig" else named(who)
        return Engines(MECHANISMS[who], made_for, folder, in_this_process)
    if shutil.which(OF_AARCH64[0]) is None or not Path(OF_AARCH64[-1]).is_dir():
        pytest.skip("there is no aarch64 here: apt-get install qemu-user libc6-arm64-cross")
    made_for = zig("aarch64")
    command = (*OF_AARCH64, driver(made_for, folder))
    return Engines(
        MECHANISMS[who],
        made_for,
        folder,
        lambda path, memory: OtherProcess([*command, str(path)], memory),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("engines")
    engines.cache_clear()


@pytest.mark.parametrize("who", MECHANISMS)
@settings(
    max_examples=20,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_engines_of_every_compiler_agree_with_the_reference(
    who: str, folder: Path, data: st.DataObject
) -> None:
    made = engines(who, folder / who)
    for mechanism in MECHANISMS[who]:
        scene = data.draw(scenes(mechanism))
        assert made.outcome(scene).same_as(on_reference(scene)[0])


@pytest.mark.parametrize("who", MECHANISMS)
def test_folded_engines_agree_with_the_reference(who: str, folder: Path) -> None:
    mechanism = MECHANISMS[who][0]
    arrivals = comes_at(*range(0, 40_000, 700), requests=2)
    scene = Scene(mechanism, arrivals, RunSettings(duration_ns=10**8))
    outcome = engines(who, folder / who).outcome(scene, folded=True)
    assert outcome.same_as(on_reference(scene)[0])
    assert outcome.reply_ns.size == 2 * 58
