"""Compiled libraries: shipped; or by their C text, kept from an earlier run or compiled now.

    load_shipped(name) ─► in a wheel for this machine   no compiler is needed

    load(name, text) ─► in the cache?                  key: text, flags, compiler and its version
                     ─► compile there, once for all processes
                     ─► no place to keep it?           compile for this process alone, in memory

A stored library is loaded by its path: debuggers look for it there, and `trust` has checked every
folder on the way. Libraries in the cache that are not trusted, damaged or for another processor are
compiled again.

Sources: dlopen(3); memfd_create(2); elf(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from ..files.whole_files import write_whole
from . import cache, trust
from .cache import CacheWarning, DamagedError
from .compiler import COMPILE_SECONDS_MAX, FLAGS, Compiler, CompilerFailedError, find_compiler

KEEP_VARIABLE = "DISPATCHSIM_KEEP_C"
"""Set to 1: the C file stays beside its library."""
SHIPPED_FOLDER = Path(__file__).parent / "shipped"
"""In a wheel: a folder for each machine, as `platform.machine()` names it."""
_NO_EXEC = "failed to map segment"
_MEMORY_FOLDER = Path("/dev/shm")

_loaded: dict[tuple[str, str, tuple[str, ...]], ctypes.CDLL] = {}
_memory: list[int] = []
"""Descriptors of libraries that have no file."""


def load(name: str, text: str, *, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Return the library compiled from the C *text*, with more *flags*.

    *name* is part of its file names. Exported functions need the attribute
    `visibility("default")`. Any number of threads and processes may call this at once.

    Raises
    ------
    NoCompilerError
        If it has to be compiled and there is no compiler.
    CompilerFailedError
        If it does not compile.
    """
    if not re.fullmatch(r"\w+", name):
        raise ValueError(f"name: must be of letters, digits and _, got {name!r}")
    identity = (name, text, flags)
    if identity not in _loaded:
        library = _kept_or_compiled(name, text, flags)
        _loaded.setdefault(identity, library)
    return _loaded[identity]


def is_ready(name: str, text: str, *, flags: tuple[str, ...] = ()) -> bool:
    """Return whether `load` need not compile.

    Errors of the compiler as for `load`.
    """
    if (name, text, flags) in _loaded:
        return True
    compiler = find_compiler()
    try:
        return (cache.engine_folder() / _entry_name(name, text, flags, compiler)).exists()
    except OSError:
        return False


def load_shipped(name: str) -> ctypes.CDLL | None:
    """Return the library *name* of the installed wheel; None if none can be loaded here."""
    return _loaded_shipped(SHIPPED_FOLDER / platform.machine() / f"{name}.so")


def is_shipped(pattern: str) -> bool:
    """Return whether the installed wheel has a library whose name matches *pattern*."""
    return any((SHIPPED_FOLDER / platform.machine()).glob(f"{pattern}.so"))


@functools.cache
def _loaded_shipped(path: Path) -> ctypes.CDLL | None:
    if path.is_file():
        try:
            return _loaded_file(path, path.read_bytes())
        except OSError as error:
            warnings.warn(f"{path}: cannot be loaded here: {error}", CacheWarning, stacklevel=3)
    return None


def _entry_name(name: str, text: str, flags: tuple[str, ...], compiler: Compiler) -> str:
    return f"{name}-{_digest(text, compiler.identity, *FLAGS, *compiler.own_flags, *flags)}.so"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _kept_or_compiled(name: str, text: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    compiler = find_compiler()
    try:
        folder = cache.engine_folder()
        cache.make_folder(folder)
        trust.check_folder(folder)
        path = folder / _entry_name(name, text, flags, compiler)
        if _keeps_text():
            with contextlib.suppress(OSError):  # it may have the library all the same
                write_whole(path.with_suffix(".c"), text)
        return _kept(path) or _kept_now(compiler, path, text, flags)
    except OSError as error:
        warnings.warn(
            "compiled code cannot be stored, so every process compiles it again: "
            f"{cache.sentence(error)} ({cache.CACHE_VARIABLE}=FOLDER names another folder)",
            CacheWarning,
            stacklevel=3,
        )
    return _in_memory(compiler, name, text, flags)


def _keeps_text() -> bool:
    asked = os.environ.get(KEEP_VARIABLE, "")
    if asked not in ("", "0", "1"):
        warnings.warn(
            f"{KEEP_VARIABLE}: must be 1 to keep the C beside its library, got {asked}",
            CacheWarning,
            stacklevel=4,
        )
    return asked == "1"


def _kept_now(compiler: Compiler, path: Path, text: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Return the library *path*, compiled by this process or by one that was there before."""
    with cache.locked(cache.lock_of(path), wait_s=COMPILE_SECONDS_MAX):
        try:
            return _opened(path)
        except (FileNotFoundError, DamagedError):
            pass
        except trust.UntrustedError as error:
            warnings.warn(f"compiled again: {error}", CacheWarning, stacklevel=4)
        _make(compiler, path, text, flags)
        try:
            library = _opened(path)
        except DamagedError as error:
            raise CompilerFailedError(
                f"what {compiler.name} made cannot be loaded: {error}"
            ) from None
    cache.tidy(path.parent, "*.so")
    return library


def _kept(path: Path) -> ctypes.CDLL | None:
    """Return the library stored at *path*, None if it is absent or not to be used."""
    try:
        return _opened(path)
    except (FileNotFoundError, DamagedError, trust.UntrustedError):
        return None


def _opened(path: Path) -> ctypes.CDLL:
    content = cache.read(path)
    try:
        return _loaded_file(path, content)
    except OSError as error:
        raise DamagedError(str(error)) from None


def _loaded_file(path: Path, content: bytes) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        if _NO_EXEC in str(error):  # the folder is mounted noexec
            return _loaded_from_memory(path.name, content)
        raise


def _make(compiler: Compiler, path: Path, text: str, flags: tuple[str, ...]) -> None:
    """Put the library at *path*, completely or not at all."""
    # A unique name: a compiler that survives its parent disturbs no later build.
    building = Path(
        tempfile.mkdtemp(prefix=f"{path.stem}.", suffix=cache.BUILDING, dir=path.parent)
    )
    try:
        cache.write(path, _compiled(compiler, building, path.stem, text, flags))
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _compiled(
    compiler: Compiler, folder: Path, name: str, text: str, flags: tuple[str, ...]
) -> bytes:
    source, library = folder / f"{name}.c", folder / "library.so"
    source.write_text(text)
    compiler.compile(source, library, flags)
    return library.read_bytes()


def _in_memory(compiler: Compiler, name: str, text: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Return the library, compiled in a temporary folder and kept by this process alone."""
    failed = ""
    for parent in _temporary_folders():
        try:
            with tempfile.TemporaryDirectory(prefix="dispatchsim-", dir=parent) as folder:
                trust.check_folder(Path(folder))
                content = _compiled(compiler, Path(folder), name, text, flags)
            return _loaded_from_memory(name, content)
        except OSError as error:
            failed = cache.sentence(error)
    raise CompilerFailedError(f"there is no place to compile {name} in: {failed}")


def _temporary_folders() -> Iterator[str]:
    with contextlib.suppress(OSError):  # there is none that is writable
        yield tempfile.gettempdir()
    yield str(_MEMORY_FOLDER)


def _loaded_from_memory(name: str, content: bytes) -> ctypes.CDLL:
    descriptor = os.memfd_create(name)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    _memory.append(descriptor)
    # The loader takes a known path for the library already loaded. A number can be reused
    # after a close, so each path is spelled differently.
    return ctypes.CDLL(f"/proc/self/fd/{'./' * len(_memory)}{descriptor}")
