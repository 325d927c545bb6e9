# mypy: disable-error-code="attr-defined, no-untyped-call"
"""Compiled code kept on disk, so that only the first run of a version waits for the compiler.

    <cache>/dispatchsim/code-<hash of all that decides the code>/<engine>.bin

Numba's own cache looks at the file of the function it compiles and would not notice a change in
another module that was compiled into it. Here the folder is named by a hash of every source file,
of the compiler and of the processor: another version never finds the wrong code. Files are
written whole; one that cannot be read is compiled anew. Of processes that want the same engine
one compiles it, and the others wait for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pickle
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from ..whole_files import write_whole

CACHE_VARIABLE = "DISPATCHSIM_CACHE_DIR"
"""Names the folder for compiled code; unset: the user's cache folder."""
_OLD_S = 30 * 24 * 3600.0


def cache_root() -> Path:
    """Return where compiled code is kept, existing or not (XDG Base Directory Specification)."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError:  # no home at all
        return Path(os.devnull)
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "dispatchsim"


@functools.cache
def source_hash() -> str:
    """Return the hash of whatever decides what the compiler makes of the built-in models."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for folder in ("sim", "models"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(package)}\0".encode())
            digest.update(path.read_bytes())
    versions = (numba.__version__, llvmlite.__version__, np.__version__)
    digest.update(repr((versions, platform.python_version(), bool(config.BOUNDSCHECK))).encode())
    return digest.hexdigest()[:20]


class CodeCache:
    """Where one engine is kept: what a Numba dispatcher asks before and after it compiles.

    Parameters
    ----------
    name:
        The engine's; with the hash of the sources it says what the code is.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """Wait until no other process compiles this engine; then it finds it kept."""
        with contextlib.ExitStack() as open_files:
            # Where nothing can be kept, each compiles for itself.
            with contextlib.suppress(OSError):
                folder = _folder()
                _make(folder)
                turn = open_files.enter_context((folder / f"turn-{self.name}").open("w"))
                # The kernel ends it with the process, however that ends.
                fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the kept compile result, or None."""
        path = self._path(signature, target)
        if not _trusted(path.parent):
            return None
        target.refresh()
        # Whatever is wrong with the file, compiling helps.
        with contextlib.suppress(Exception):
            return CompileResult._rebuild(target, *pickle.loads(path.read_bytes()))
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compile result if there is a place for it."""
        path = self._path(signature, result.target_context)
        with contextlib.suppress(OSError):
            _make(path.parent)
            if _trusted(path.parent):
                write_whole(path, dumps(result._reduce()))

    def _path(self, signature: Any, target: Any) -> Path:
        processor = repr((signature, target.codegen().magic_tuple()))
        mark = hashlib.sha256(processor.encode()).hexdigest()[:12]
        return _folder() / f"{self.name}-{mark}.bin"


def is_kept(name: str) -> bool:
    """Return whether this version's code of an engine whose name begins so is on disk."""
    return any(_folder().glob(f"{name}-*.bin"))


def _folder() -> Path:
    return cache_root() / f"code-{source_hash()}"


def _make(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_old(folder)


def _trusted(folder: Path) -> bool:
    """Return whether nobody else can put code there, which this process would run."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _forget_old(current: Path) -> None:
    """Remove the code of versions that have not been used to compile for a month."""
    for folder in current.parent.glob("code-*"):
        with contextlib.suppress(OSError):
            if folder != current and time.time() - folder.stat().st_mtime > _OLD_S:
                shutil.rmtree(folder, ignore_errors=True)
