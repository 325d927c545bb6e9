"""From a program to its loaded engine: translated, compiled, kept.

    built-in program ─► in the wheel, by a hash of all sources? loaded, and nothing is compiled
                     ─► its C is kept by that hash ─────────────┐
    a program of one's own ─► translated in each process ───────┴─► sim/native: library of that text

Programs of users run with every index and assertion checked; the tests check built-in ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...native import cache, trust
from ...native.compiler import Compiler, CompilerFailedError, NoCompilerError, find_compiler
from ...native.library import is_ready, is_shipped, load, load_shipped
from ...state.mechanism import Program
from ...state.world import World
from .folding import assumptions, fits
from .shapes import Record
from .source import SOURCE_FOLDERS, Reads, is_of_package
from .translate import FRAME_BYTES_MAX

CHECKED_VARIABLE = "DISPATCHSIM_CHECKED"
"""Set to 1: all engines are checked, as those of the tests are."""
# gcc's own limits leave many small functions of models uninlined; clang ignores these options.
# Records are written member by member, and vector stores to them delay the loads that follow.
# A limit of 300 without vectors makes folded engines 6 to 8% faster than one of 200 with them; with
# more growth of the whole they take 2% fewer instructions a connection (callgrind).
ENGINE_FLAGS = (
    f"-Werror=frame-larger-than={FRAME_BYTES_MAX}",
    "-finline-limit=300",
    "--param=inline-unit-growth=100",
    "-fno-tree-vectorize",
)
_CHECKED_FLAGS = (*ENGINE_FLAGS, "-O1", "-DCHECK")

_Key = tuple[Program, Record, bool]
_texts: dict[_Key, tuple[str, Reads]] = {}
"""The C of each engine, with what it rests on: global constants are written into it."""
_turn = threading.RLock()
_here = threading.local()
_failures: dict[tuple[Compiler, str], str] = {}
"""Why a compiler has failed in this process: by the text of a program of one's own, else by ""."""
_announced: set[str] = set()
"""Texts that are compiled, or were: several threads may ask for one at once."""
_warned: set[str] = set()


class NoEngineWarning(UserWarning):
    """Runs use the reference engine, as the fast one is unavailable; the message has the cure."""


class Engine:
    """A loaded engine: its functions, with their types."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.run_begin = library.run_begin
        self.run_begin.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self.run_begin.restype = ctypes.c_void_p
        self.run_on = library.run_on
        self.run_on.argtypes = [ctypes.c_void_p]
        self.run_on.restype = ctypes.c_int64
        self.run_end = library.run_end
        self.run_end.argtypes = [ctypes.c_void_p]
        self.run_end.restype = None
        self.run_failure = library.run_failure
        self.run_failure.argtypes = [ctypes.c_void_p]
        self.run_failure.restype = ctypes.c_void_p


def engine_of(
    program: Program,
    world: World,
    record: Record,
    *,
    folded: bool | None = None,
    kept_as: str | None = None,
) -> Engine:
    """Return the engine of *program* for *world*, whose type is *record*.

    Parameters
    ----------
    folded:
        Whether it is the folded variant; None: if that fits.
    kept_as:
        The name of a built-in program: so its C need not be made anew.

    Raises
    ------
    CannotTranslateError
        If the program is not written in the restricted Python.
    NoCompilerError, CompilerFailedError
        If the engine has to be compiled, and cannot be.
    ValueError
        If the folded variant does not fit, and was asked for.
    """
    misfits = fits(world)
    if folded and misfits:
        raise ValueError(f"the folded engine does not fit this run: {', '.join(misfits)}")
    is_folded = not misfits if folded is None else folded
    flags = _flags(program)
    shipped = _shipped(kept_as, record, flags, folded=is_folded)
    if shipped is not None:
        return Engine(shipped)
    text = engine_text(program, record, folded=is_folded, kept_as=kept_as)
    name = _file_name(program, folded=is_folded)
    if is_ready(name, text, flags=flags):
        return Engine(load(name, text, flags=flags))
    key = find_compiler(), "" if kept_as else text
    if key in _failures:  # it would fail again, and take its time for each run
        raise CompilerFailedError(_failures[key])
    _announce(program.mechanism.name, text)
    try:
        return Engine(load(name, text, flags=flags))
    except CompilerFailedError as error:
        _failures[key] = str(error)
        raise


def engine_is_ready(
    program: Program, world: World, record: Record, *, kept_as: str | None = None
) -> bool:
    """Return whether `engine_of` need not compile; errors as there."""
    folded, flags = not fits(world), _flags(program)
    if _shipped(kept_as, record, flags, folded=folded) is not None:
        return True
    text = engine_text(program, record, folded=folded, kept_as=kept_as)
    return is_ready(_file_name(program, folded=folded), text, flags=flags)


def _shipped(
    kept_as: str | None, record: Record, flags: tuple[str, ...], *, folded: bool
) -> ctypes.CDLL | None:
    if kept_as is None or flags != ENGINE_FLAGS:
        return None
    return load_shipped(built_in_name(kept_as, record, folded=folded))


def engine_text(
    program: Program, record: Record, *, folded: bool = False, kept_as: str | None = None
) -> str:
    """Return the C of the engine of *program*.

    A built-in program is defined by its sources: its constants are not read again.

    Raises
    ------
    CannotTranslateError
        If the program is not written in the restricted Python.
    """
    key = program, record, folded
    with _turn:
        if key not in _texts or not _texts[key][1].are_unchanged():
            _texts[key] = (
                _built_in_text(key, built_in_name(kept_as, record, folded=folded))
                if kept_as
                else _translated(key)
            )
        return _texts[key][0]


def _built_in_text(key: _Key, name: str) -> tuple[str, Reads]:
    """Return the C of a built-in program, which is kept as *name*."""
    text = _kept_text(name)
    if text is None:
        text, _ = _translated(key)
        _keep_text(name, text)
    return text, Reads()


def _translated(key: _Key) -> tuple[str, Reads]:
    # The translator takes a while to import, and most runs find what it made.
    from .translate import engine_c

    program, record, folded = key
    return engine_c(program, record, assumptions() if folded else None)


def _file_name(program: Program, *, folded: bool) -> str:
    name = "".join(letter if letter.isalnum() else "_" for letter in program.mechanism.name)
    return f"{name}_folded" if folded else name


def why_no_engine() -> str:
    """Return what is missing for fast engines here, "" if nothing is, as far as was tried.

    A wheel may bring the engines of these sources; those of a program of one's own it does not.
    """
    if not _all_are_checked() and is_shipped(f"*-{SOURCES_HASH}"):
        return ""
    try:
        return _failures.get((find_compiler(), ""), "")
    except (NoCompilerError, CompilerFailedError) as error:
        return str(error)


def share_failures() -> Callable[[], None]:
    """Return the function that a new process calls, so that it does not repeat failures here."""
    return functools.partial(_take_failures, dict(_failures))


def _take_failures(found: dict[tuple[Compiler, str], str]) -> None:
    _failures.update(found)


def warn_if_no_engine() -> bool:
    """Warn that runs take the reference engine if there is no other; return whether that is so.

    A process warns once, before its first run, and not in each of its workers.
    """
    why = why_no_engine()
    if why and why not in _warned and multiprocessing.parent_process() is None:
        _warned.add(why)
        warnings.warn(
            "there is no fast engine here, so runs take the reference engine, with equal results "
            f"and some 200 times slower: {why}",
            NoEngineWarning,
            stacklevel=3,
        )
    return bool(why)


@contextlib.contextmanager
def announced_elsewhere() -> Iterator[None]:
    """Suppress messages about compiling in this thread: the caller reports it."""
    before, _here.is_quiet = getattr(_here, "is_quiet", False), True
    try:
        yield
    finally:
        _here.is_quiet = before


def _announce(mechanism: str, text: str) -> None:
    with _turn:
        is_known = text in _announced
        _announced.add(text)
    if is_known or getattr(_here, "is_quiet", False):
        return
    print(
        f"dispatchsim: compiling the fast engine for {mechanism} (once, about two seconds)",
        file=sys.stderr,
        flush=True,
    )


def _flags(program: Program) -> tuple[str, ...]:
    is_checked = _all_are_checked() or not _is_built_in(program)
    return _CHECKED_FLAGS if is_checked else ENGINE_FLAGS


def _all_are_checked() -> bool:
    return os.environ.get(CHECKED_VARIABLE) == "1"


def _is_built_in(program: Program) -> bool:
    """Return whether all functions of *program* and its mechanism are of this package."""
    parts: list[Any] = [*program, *program.mechanism]
    files = [part.__code__.co_filename for part in parts if hasattr(part, "__code__")]
    return all(is_of_package(file) for file in files)


# -- the C of built-in programs, kept by a hash of all that it is made from -------------------


def _hash_of_sources() -> str:
    """Return what changes when any source of engines changes."""
    digest = hashlib.sha256()
    for folder in SOURCE_FOLDERS:
        for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.h"))):
            digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


# Computed when the modules are imported: they match these sources, even if files are edited while
# the process runs.
SOURCES_HASH = _hash_of_sources()


def built_in_name(kept_as: str, record: Record, *, folded: bool) -> str:
    """Return the name of what is kept or shipped of the engine of a built-in program."""
    return f"{kept_as}{'-folded' if folded else ''}-{record.hash}-{SOURCES_HASH}"


def _text_path(kept: str) -> Path:
    return cache.engine_folder() / f"{kept}.engine"


def _kept_text(kept: str) -> str | None:
    try:
        return cache.read(_text_path(kept)).decode()
    except (OSError, cache.DamagedError):
        return None


def _keep_text(kept: str, text: str) -> None:
    """Keep *text* for the next process; where that cannot be, it is made again."""
    if _hash_of_sources() != SOURCES_HASH:
        return  # the text may be of the old sources, of the new ones or of both
    try:
        path = _text_path(kept)
        cache.make_folder(path.parent)
        trust.check_folder(path.parent)
        with cache.locked(cache.lock_of(path), wait_s=0):
            cache.write(path, text.encode())
        cache.tidy(path.parent, "*.engine")
    except OSError:
        return
