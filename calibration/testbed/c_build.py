"""Build the C programs once for each version of their sources, into the user's cache.

    c/Makefile, c/servers/, c/load/, ... ──hash──► ~/.cache/dispatchsim/c-HASH/build/

The folder's name is a hash of the sources, so results of different sources never share a name, and
a raw result identifies its sources (field `code`). Programs are run, perhaps by root, only from a
folder that no other user can write to.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

from ...sim.native import cache, trust
from ...sim.native.compiler import CompilerFailedError, finished, first_error

SOURCE_FOLDER = Path(__file__).resolve().parents[1]
PROGRAM_NAMES = (
    "server",
    "load",
    "far_end",
    "idle",
    "micro",
    "flood",
    "progress",
    "keeper",
    "rules",
    "memory",
)
_DEBIAN_PACKAGES = {"gcc": "gcc", "make": "make"}
_BUILD_SECONDS_MAX = 1800  # over 300 s were seen on a host that gave a quarter of each CPU
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


class BuildError(RuntimeError):
    """The C programs could not be built. The message is one sentence."""


@dataclass(frozen=True)
class Programs:
    """The folder of the built programs, and the name of their sources."""

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
    """Return the source files of the build, in a fixed order."""
    sources = [folder / "c/Makefile"]
    for part in ("servers", "load", "far_end", "micro", "flood", "keeper", "rules", "memory"):
        sources += (folder / "c" / part).rglob("*.[ch]")
    # interfaces between the server and kernel modules
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
    """Return the user's cache folder, whose contents can be built again."""
    return cache.user_folder()


def missing_tools() -> list[str]:
    """Return the names of required programs that are not installed."""
    return [tool for tool in _DEBIAN_PACKAGES if shutil.which(tool) is None]


def build(folder: Path = SOURCE_FOLDER) -> Programs:
    """Return the C programs; build them if this version of the sources is not built yet.

    Raises
    ------
    BuildError
        If gcc or make is missing, a source does not compile, or the cache is not writable or is
        writable by other users.
    """
    code = f"c-{source_hash(folder)}"
    try:
        target = cache_folder() / code
        cache.make_folder(target.parent)
        trust.check_folder(target.parent)
        if not _is_built(target):
            with cache.locked(cache.lock_of(target), wait_s=_BUILD_SECONDS_MAX):
                # Another process may have built them meanwhile.
                if not _is_built(target):
                    _build_into(target, folder)
                    _is_built(target)
            cache.tidy(target.parent, "c-*")
    except OSError as error:
        cure = (
            ": set XDG_CACHE_HOME to a folder that this user can write to"
            if error.errno in _NOT_WRITABLE
            else ""
        )
        raise BuildError(f"the C programs cannot be kept: {cache.sentence(error)}{cure}") from None
    return Programs(folder=target / "build", code=code)


def _is_built(target: Path) -> bool:
    """Return whether *target* has all programs, written by this user only; mark it as used."""
    try:
        for name in PROGRAM_NAMES:
            os.close(trust.open_file(target / "build" / name))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except trust.UntrustedError as error:
        warnings.warn(f"built again: {error}", cache.CacheWarning, stacklevel=3)
        return False
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return cache.hold(descriptor)
    finally:
        os.close(descriptor)


def _build_into(target: Path, folder: Path) -> None:
    """Copy the sources beside *target*, compile them there and move the result into place."""
    for tool in missing_tools():
        raise BuildError(
            f"{tool} is not installed, but building the C programs needs it: "
            f"apt-get install {_DEBIAN_PACKAGES[tool]}"
        )
    if not (folder / "c/Makefile").is_file():
        raise BuildError(f"the C sources are missing: no c/Makefile in {folder}")
    scratch = Path(
        tempfile.mkdtemp(prefix=f"{target.name}.", suffix=cache.BUILDING, dir=target.parent)
    )
    try:
        whole = scratch / "c"
        cache.make_folder(whole)
        for path in source_files(folder):
            copy = whole / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        _make(whole)
        # Remove a link, not its target.
        if target.is_symlink() or target.is_file():
            target.unlink()
        shutil.rmtree(target, ignore_errors=True)
        whole.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make(whole: Path) -> None:
    """Compile the sources in *whole* into its folder `build`."""
    side_by_side = f"-j{len(os.sched_getaffinity(0))}"
    command = ["make", side_by_side, "-C", str(whole / "c"), f"BUILD={whole / 'build'}"]
    try:
        status, messages = finished(command, whole.parent, _BUILD_SECONDS_MAX)
    except CompilerFailedError as error:
        raise BuildError(f"the C programs do not build: {error}") from None
    if status != 0:
        raise BuildError(f"the C programs do not build: {first_error(messages, 'make')}")
    absent = [name for name in PROGRAM_NAMES if not (whole / "build" / name).is_file()]
    if absent:
        raise BuildError(
            f"make succeeded but did not build {', '.join(absent)}: does `gcc --version` work?"
        )
