"""A wheel runs its engines without a compiler, and never those of other sources."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from shipping import wheel_file
from shipping.engines import Target, compile_all, sources

from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.sim.native.compiler import Compiler

MACHINE = platform.machine()
NO_COMPILER = "no-such-compiler"
NO_SUCH = f"CC: must name a C compiler, but there is no program {NO_COMPILER}"
SCRIPT = """
import warnings
warnings.simplefilter("error")
import dispatchsim
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.load.workload import closed_loop

print(dispatchsim.__file__)
costs = example_profile().costs("epoll_level", open_connections=0, free_clients={free})
run = closed_loop(users=4, connections=400), costs, RunSettings(duration_ns=10**9)
fast = simulate("epoll_level", *run, engine="fast")
print(fast.same_as(simulate("epoll_level", *run, engine="reference")))
"""


class Built(NamedTuple):
    """What `make wheels` makes, with the engines of one mechanism, compiled by gcc."""

    sdist: Path
    pure: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("wheels")
    # Less optimized than what is shipped: gcc takes 2 s for each engine instead of 7.
    target = Target(MACHINE, Compiler((gcc,), "gcc", ("-O1",)))
    engines = compile_all(list(sources(["epoll_level"])), [target], folder / "engines")
    sdist, pure = wheel_file.build(Path(__file__).parents[2], folder)
    wheel = wheel_file.with_engines(pure, engines, MACHINE, "linux", folder)
    return Built(sdist, pure, wheel)


@pytest.fixture
def installed(built: Built, tmp_path: Path) -> Path:
    """Return the folder of an installed wheel."""
    with zipfile.ZipFile(built.wheel) as archive:
        archive.extractall(tmp_path / "site")
    return tmp_path / "site"


def finished(installed: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run *script* on the installed wheel, where there is no compiler."""
    environment = {
        "PATH": "/nowhere",
        "PYTHONPATH": str(installed),
        "HOME": str(installed.parent),
        "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(installed.parent)),
    }
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd="/",
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def shipped(installed: Path) -> list[Path]:
    return sorted((installed / "dispatchsim/sim/native/shipped").rglob("*.so"))


@pytest.mark.parametrize("free", [False, True], ids=["general", "folded"])
def test_a_wheel_runs_its_engines_without_a_compiler(installed: Path, free: bool) -> None:
    ran = finished(installed, SCRIPT.format(free=free))
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [str(installed / "dispatchsim/__init__.py"), "True"]
    assert not (installed.parent / ".cache/dispatchsim").exists()


def test_engines_of_other_sources_are_not_used(installed: Path) -> None:
    with (installed / "dispatchsim/models/epoll_level.py").open("a") as source:
        source.write("# changed\n")
    ran = finished(installed, SCRIPT.format(free=False), CC=NO_COMPILER)
    assert f"CannotCompileError: there is no fast engine here: {NO_SUCH}" in ran.stderr
    again = finished(installed, SCRIPT.format(free=False), PATH=os.environ["PATH"])
    assert again.stderr == (
        "dispatchsim: compiling the fast engine for epoll_level (once, about two seconds)\n"
    )
    assert again.stdout.splitlines()[1] == "True"


def test_checked_engines_are_not_the_shipped_ones(installed: Path) -> None:
    checked = {"CC": NO_COMPILER, "DISPATCHSIM_CHECKED": "1"}
    ran = finished(installed, SCRIPT.format(free=False), **checked)
    assert f"CannotCompileError: there is no fast engine here: {NO_SUCH}" in ran.stderr


def test_a_wheel_adds_two_engines_of_each_program_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive, zipfile.ZipFile(built.pure) as pure:
        assert archive.testzip() is None
        added = sorted(set(archive.namelist()) - set(pure.namelist()))
        assert set(pure.namelist()) <= set(archive.namelist())
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        lines = archive.read(metadata).decode().splitlines()
    general, folded = (Path(name) for name in added)
    assert general.parent == folded.parent == Path(f"dispatchsim/sim/native/shipped/{MACHINE}")
    assert folded.name.startswith("epoll_level-folded-")
    assert {f"Tag: py3-none-linux_{MACHINE}", "Root-Is-Purelib: false"} <= set(lines)
    assert built.wheel.name.endswith(f"-py3-none-linux_{MACHINE}.whl")


def test_a_wheel_carries_no_reports_and_only_the_runs_that_are_read(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if "/reported/" in name]
    folders = {name.rpartition("/")[0] for name in names if "/measured/" in name}
    assert folders == {f"dispatchsim/calibration/measured/{example_profile().name}"}
    assert "dispatchsim/validation/effects.toml" in names
    assert [name for name in names if name.startswith("dispatchsim/calibration/profiles/misses/")]


def test_the_sdist_has_no_engine(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = archive.getnames()
    assert [name for name in names if name.endswith(".so") or "/shipping/" in name] == []
    assert any(name.endswith("/sim/native/library.py") for name in names)


def test_the_same_engines_make_the_same_bytes(built: Built, tmp_path: Path) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        archive.extractall(tmp_path / "first")
    engines = shipped(tmp_path / "first")
    gcc = shutil.which("gcc")
    assert gcc is not None
    # Less optimized than what is shipped: gcc takes 2 s for each engine instead of 7.
    target = Target(MACHINE, Compiler((gcc,), "gcc", ("-O1",)))
    told: list[tuple[int, int, Path]] = []
    again = compile_all(
        list(sources(["epoll_level"])),
        [target],
        tmp_path / "engines",
        lambda *progress: told.append(progress),
    )
    assert [(n_done, n_all) for n_done, n_all, _ in told] == [(1, 2), (2, 2)]
    assert {path for _, _, path in told} == set(again)
    assert {path.name: path.read_bytes() for path in again} == {
        path.name: path.read_bytes() for path in engines
    }
    wheel = wheel_file.with_engines(built.pure, again, MACHINE, "linux", tmp_path)
    assert wheel.read_bytes() == built.wheel.read_bytes()
