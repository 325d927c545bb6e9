"""Build what runs inside a guest: static programs, since a guest has no library.

    sources of one program ──gcc -static──► ~/.cache/dispatchsim/guest-HASH/NAME

The folder is named by a hash of all C sources, the options and the compiler, so that no program
is run under the name of another. The programs hold no path and no date: built anywhere, the same
sources give the same bytes, and with them the same layout in memory.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...sim.native.compiler import first_error
from ..testbed.c_build import SOURCE_FOLDER, cache_folder
from .errors import TargetError, TargetMissingError

GUEST_FOLDER = Path(__file__).resolve().parent / "guest"
_HASHED_FOLDERS = ("c/servers", "c/load", "c/micro", "emulated")
_OPTIONS = (
    "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
    "-Wconversion", "-Wstrict-prototypes", "-Werror", "-static", "-fno-pie", "-no-pie", "-pthread",
    "-Wl,--build-id=none",
)  # fmt: skip
_BUILD_SECONDS_MAX = 300


def init_program() -> Path:
    """Return the first program of a guest, built if need be."""
    shared = [SOURCE_FOLDER / "c/load/trace.c", SOURCE_FOLDER / "c/servers/program.c"]
    return build_program("init", [*sorted(GUEST_FOLDER.glob("*.c")), *shared])


def server_program() -> Path:
    """Return the micro web server as a static program, from the same sources as everywhere."""
    return build_program("server", sorted((SOURCE_FOLDER / "c/servers").glob("*.c")))


def guest_code() -> str:
    """Return the name of this version of all C sources, such as `guest-0123456789ab`."""
    digest = hashlib.sha256(" ".join(_OPTIONS).encode() + _compiler_version())
    for folder in _HASHED_FOLDERS:
        for path in sorted((SOURCE_FOLDER / folder).rglob("*.[ch]")):
            digest.update(path.relative_to(SOURCE_FOLDER).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return f"guest-{digest.hexdigest()[:12]}"


def build_program(name: str, sources: Sequence[Path]) -> Path:
    """Return the static program *name* made from *sources*, building it if it is not there.

    Raises
    ------
    TargetMissingError
        If gcc is not installed.
    TargetError
        If a source does not compile.
    """
    if not sources:
        raise TargetError(f"the program {name} has no sources: is the package complete?")
    return compiled(
        cache_folder() / guest_code() / name,
        [*_OPTIONS, f"-ffile-prefix-map={SOURCE_FOLDER}=.", *map(str, sources), "-lm"],
        name=f"the guest's program {name}",
        seconds_max=_BUILD_SECONDS_MAX,
    )


def counter_names(server: Path) -> tuple[str, ...]:
    """Return the names of the server's counters, in the order of their file."""
    finished = subprocess.run(
        [server, "--counters-layout"], capture_output=True, text=True, timeout=60, check=True
    )
    return tuple(finished.stdout.split())


def _compiler_version() -> bytes:
    if shutil.which("gcc") is None:
        raise TargetMissingError(
            "gcc is not installed, and the programs of the emulated target are built with it: "
            "apt-get install gcc libc6-dev"
        )
    return subprocess.run(["gcc", "--version"], capture_output=True, timeout=20, check=True).stdout


def compiled(target: Path, arguments: Sequence[str], *, name: str, seconds_max: float) -> Path:
    """Return *target*, which gcc made of *arguments* if it was not there.

    *name* is what does not build, for people.

    Raises
    ------
    TargetError
        If a source does not compile.
    """
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        built = Path(scratch, target.name)
        finished = subprocess.run(
            ["gcc", *arguments, "-o", str(built)],
            capture_output=True, text=True, timeout=seconds_max, check=False,
        )  # fmt: skip
        if finished.returncode != 0:
            raise TargetError(f"{name} does not build: {first_error(finished.stderr, 'gcc')}")
        os.replace(built, target)
    return target
