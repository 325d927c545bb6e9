"""Build the C programs once a source version, into the user's cache.

    Makefile, servers/, load/, micro/, flood/, keeper/ ──hash──► ~/.cache/dispatchsim/c-HASH/build/

The folder is named by a hash of the sources, so an edited source can never be measured under
the name of another, and a raw result can say which sources it came from (its `code` field).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE_FOLDER = Path(__file__).resolve().parent
PROGRAM_NAMES = ("server", "load", "idle", "micro", "flood", "progress", "keeper")
_DEBIAN_PACKAGES = {"gcc": "gcc", "make": "make"}
_BUILD_SECONDS_MAX = 300


class BuildError(RuntimeError):
    """The C programs could not be built; the message is one sentence."""


@dataclass(frozen=True)
class Programs:
    """Where the built programs are, and the name of the sources they were built from."""

    folder: Path
    code: str

    def path(self, name: str) -> str:
        """Return the path of the program *name*."""
        return str(self.folder / name)

    def list_output(self, name: str, *options: str) -> list[str]:
        """Return the lines that the program *name* prints with *options*."""
        finished = subprocess.run(
            [self.path(name), *options], capture_output=True, text=True, timeout=20, check=True
        )
        return finished.stdout.split()


def source_files(folder: Path = SOURCE_FOLDER) -> list[Path]:
    """Return the files that decide what is built, in a fixed order."""
    sources = [folder / "Makefile"]
    for part in ("servers", "load", "micro", "flood", "keeper"):
        sources += (folder / part).rglob("*.[ch]")
    # what the server and modules of the kernel agree on
    sources += (folder / "emulated" / "kernel_mechanisms").rglob("*.h")
    return sorted(path for path in sources if path.is_file())


def source_hash(folder: Path = SOURCE_FOLDER) -> str:
    """Return twelve hexadecimal digits that change when any C source changes."""
    digest = hashlib.sha256()
    for path in source_files(folder):
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def cache_folder() -> Path:
    """Return the per-user folder that holds what can be built again."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dispatchsim"


def missing_tools() -> list[str]:
    """Return the names of the needed programs that are not installed."""
    return [tool for tool in _DEBIAN_PACKAGES if shutil.which(tool) is None]


def build(folder: Path = SOURCE_FOLDER) -> Programs:
    """Return the C programs, building them if this version of the sources was not built yet.

    Raises
    ------
    BuildError
        If gcc or make is missing, or if a source does not compile.
    """
    code = source_hash(folder)
    target = cache_folder() / f"c-{code}"
    if not all((target / "build" / name).is_file() for name in PROGRAM_NAMES):
        for tool in missing_tools():
            raise BuildError(
                f"{tool} is not installed, and the C programs are built with it: "
                f"apt-get install {_DEBIAN_PACKAGES[tool]}"
            )
        if not (folder / "Makefile").is_file():
            raise BuildError(f"the C sources are not there: no Makefile in {folder}")
        _build_into(target, folder)
    return Programs(folder=target / "build", code=f"c-{code}")


def _build_into(target: Path, folder: Path) -> None:
    """Copy the sources beside *target*, compile them there and move the result into place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch_name:
        scratch = Path(scratch_name) / "c"
        for path in source_files(folder):
            copy = scratch / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        finished = subprocess.run(
            ["make", "-C", str(scratch), f"BUILD={scratch / 'build'}"],
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS_MAX,
            check=False,
        )
        if finished.returncode != 0:
            raise BuildError(f"the C programs do not build: {first_error(finished.stderr, 'make')}")
        absent = [name for name in PROGRAM_NAMES if not (scratch / "build" / name).is_file()]
        if absent:
            raise BuildError(
                f"make succeeded but built no {', '.join(absent)}: does `gcc --version` print one?"
            )
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)


def first_error(stderr: str, program: str) -> str:
    """Return the first line of what *program* printed that names an error, or its first line."""
    lines = stderr.strip().splitlines() or [f"{program} printed nothing"]
    return next((line for line in lines if "error" in line), lines[0])
