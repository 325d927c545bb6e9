"""The C compiler: found once a process, always called with the same flags, with a time-out.

    $CC ─► cc ─► gcc ─► clang ─► ziglang, a package of Python's that holds one

Flags and environment are ours alone: CFLAGS and search paths that a shell exports for other
programs would give other results, or none. No -march=native and no -ffast-math, as they change
results from one processor to the next; signed overflow wraps, as it does in NumPy.

Sources: GCC manual 3.2, 3.13, 3.19; Clang's user manual; environ(7); GCC manual 3.21, environment.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .cache import BUILDING

FLAGS = (
    "-std=gnu11", "-O2", "-fwrapv", "-ffp-contract=off", "-fPIC", "-shared",
    "-fvisibility=hidden", "-fno-semantic-interposition",
)  # fmt: skip
ZIG_FOLDER = "zig"
ZIG_FLAGS = ("-mcpu=baseline", "-fno-sanitize=undefined", "-fomit-frame-pointer")
"""Unasked, zig compiles for this very processor, with checks and a frame pointer."""
COMPILE_SECONDS_MAX = 300.0
_VERSION_SECONDS_MAX = 20.0
_CURE = 'apt-get install gcc libc6-dev, or pip install "dispatchsim[compiler]"'
_NOT_UNDERSTOOD = ("unrecognized", "unknown argument", "invalid value", "invalid option")
_SIGNALS_SHELL = 128
"""A shell reports the end of a program by signal n as exit status 128 + n."""


class NoCompilerError(RuntimeError):
    """There is no C compiler; the message is one sentence that names what to install."""


class CompilerFailedError(RuntimeError):
    """The C compiler failed; the message is one sentence."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler.

    Attributes
    ----------
    command:
        Its absolute path and what belongs to it, as `cc` of zig.
    identity:
        Its full version and the machine it compiles for: part of the key of what it made.
    own_flags:
        That make it compile as others do.
    """

    command: tuple[str, ...]
    identity: str
    own_flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called in a message."""
        return " ".join(self.command)

    def compile(self, source: Path, library: Path, flags: Sequence[str] = ()) -> None:
        """Make the *library* of the *source* beside it; *flags* come after the fixed ones.

        Raises
        ------
        CompilerFailedError
            If it refuses, crashes, or has not ended after five minutes.
        OSError
            If the disk is full.
        """
        arguments = [*FLAGS, *self.own_flags, *flags, "-o", library.name, source.name, "-lm"]
        command = [*self.command, *arguments]
        status, messages = finished(command, source.parent, COMPILE_SECONDS_MAX)
        if status != 0:
            if os.strerror(errno.ENOSPC) in messages:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source.parent))
            raise CompilerFailedError(_why_failed(self.name, status, messages))
        if not library.is_file():
            raise CompilerFailedError(
                f"{self.name} reports success but has made no library: is it a C compiler?"
            )


def find_compiler() -> Compiler:
    """Return the C compiler of this process: that of `$CC`, or the first that is installed.

    Raises
    ------
    NoCompilerError
        If there is none, or none of the name in `$CC`.
    CompilerFailedError
        If it does not print its version.
    """
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", os.defpath))


@functools.cache
def _find(asked: str, search_path: str) -> Compiler:
    if words := shlex.split(asked):
        program = shutil.which(words[0], path=search_path)
        if program is None:
            raise NoCompilerError(
                f"CC: must name a C compiler, but there is no program {words[0]}: unset it, or "
                f"{_CURE}"
            )
        return _identified((os.path.abspath(program), *words[1:]))
    for name in ("cc", "gcc", "clang"):
        if program := shutil.which(name, path=search_path):
            return _identified((os.path.abspath(program),))
    # It takes as long to import as the rest of this package, and is seldom needed.
    import importlib.metadata

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        identity = f"ziglang {importlib.metadata.version('ziglang')} {platform.machine()}"
        return Compiler((sys.executable, "-m", "ziglang", "cc"), identity, ZIG_FLAGS)
    raise NoCompilerError(f"there is no C compiler (cc, gcc, clang or $CC): {_CURE}")


def _identified(command: tuple[str, ...]) -> Compiler:
    # At once the version, the target and how it was configured, of gcc as of clang.
    status, messages = finished([*command, "-v"], None, _VERSION_SECONDS_MAX)
    if status != 0:
        raise CompilerFailedError(_why_failed(" ".join(command), status, messages))
    is_zig = any(Path(word).name in ("zig", "ziglang") for word in command)
    return Compiler(command, "\n".join([*command, messages]), ZIG_FLAGS if is_zig else ())


def finished(command: Sequence[str], folder: Path | None, seconds_max: float) -> tuple[int, str]:
    """Return the exit status and the messages of *command*, run in *folder*.

    It and all that it starts end with this call, and what it makes is for this user alone.

    Raises
    ------
    CompilerFailedError
        If it cannot be run, or has not ended after *seconds_max*.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder or "/",
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            umask=0o077,
            # A compiler starts others; what ends one has to end all.
            process_group=0,
        )
    except OSError as error:
        raise CompilerFailedError(f"{command[0]} cannot be run: {error.strerror}") from None
    try:
        _, messages = process.communicate(timeout=seconds_max)
    except BaseException as error:  # Ctrl-C, too
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise CompilerFailedError(
                f"{command[0]} has not ended after {seconds_max:.0f} s and was stopped"
            ) from None
        raise
    return process.returncode, messages


def _environment(folder: Path | None) -> dict[str, str]:
    """Return the complete environment of a compiler that works in *folder*."""
    known = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    if folder is None:
        return known
    # Zig compiles its own run-time library first, once for all where that is kept. Nothing is
    # taken from beside a temporary folder, where anybody could have put it.
    shared = folder.parent if folder.suffix == BUILDING else folder
    return {
        **known,
        # What a killed compiler leaves is removed with the folder.
        "TMPDIR": str(folder),
        "ZIG_GLOBAL_CACHE_DIR": str(shared / ZIG_FOLDER),
        "ZIG_LOCAL_CACHE_DIR": str(folder / ZIG_FOLDER),
    }


def _why_failed(name: str, status: int, messages: str) -> str:
    if number := -status if status < 0 else max(0, status - _SIGNALS_SHELL):
        with contextlib.suppress(ValueError):
            return f"{name} was ended by {signal.Signals(number).name}"
    error = first_error(messages, name)
    if any(words in error for words in _NOT_UNDERSTOOD) and any(flag in error for flag in FLAGS):
        return f"{name} is too old, gcc 5 or clang 11 is needed: {error}"
    if ".h: No such file" in error:
        return f"{name} lacks the headers of the C library, apt-get install libc6-dev: {error}"
    return f"{name} fails with exit status {status}: {error}"


def first_error(messages: str, program: str) -> str:
    r"""Return the first line of *messages* of *program* that names an error, or its first line.

    >>> first_error("a.c: In function 'f':\na.c:1:2: error: expected ';'", "cc")
    "a.c:1:2: error: expected ';'"
    """
    lines = messages.strip().splitlines() or [f"{program} printed nothing"]
    # What only counts or repeats the errors of others names none.
    errors = (line for line in lines if "error" in line and not line.startswith("collect2:"))
    return next(errors, lines[0])
