"""The one place where what goes wrong becomes a sentence and an exit code.

    0    done
    2    asked for something that cannot be: one sentence, no traceback, nothing half-written
    130  stopped by Ctrl-C: says where finished work is

Anything else is a fault of ours and keeps its traceback (`known_errors`).

The allocator of the C library is set here, too, for many short runs: freed memory is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer
from typer.core import TyperGroup

from ..scenario.errors import UserError

_LIBRARY = __name__.partition(".")[0]
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_MIB = 1 << 20
_SETTINGS = {_M_MMAP_THRESHOLD: 32 * _MIB, _M_TRIM_THRESHOLD: 1024 * _MIB, _M_TOP_PAD: 64 * _MIB}


def keep_freed_memory() -> None:
    """Tell malloc to give freed memory to the next run, not to the kernel.

    A run has a hundred columns of up to a few megabytes. By default each is mapped and unmapped
    anew: the kernel clears and maps its pages again and again, and the threads of a process wait
    for each other meanwhile. Columns of 32 MiB or more are still mapped, and what they hold of
    connections that are never looked at takes no memory.

    It is of the whole process, so the command line does it and the library does not. Other C
    libraries than glibc have no such settings: they stay as they are. Source: mallopt(3).
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for number, value in _SETTINGS.items():
            mallopt(number, value)


if TYPE_CHECKING:  # `--help` needs none of them
    from rich.console import Console


class Stopped(Exception):  # noqa: N818 (not an error: the user asked for it)
    """Ctrl-C; the message says what is left of the work."""


class Door(TyperGroup):
    """The command line's group: every command is called through `invoke`."""

    def invoke(self, ctx: Any) -> Any:
        """Call the command; turn what the user can mend into one line on standard error."""
        keep_freed_memory()
        try:
            with _noting_interrupts(), _plain_warnings():
                return super().invoke(ctx)
        except Stopped as stop:
            typer.echo(f"stopped; {stop}", err=True)
            raise typer.Exit(130) from None
        except typer.Exit:  # of --help: a RuntimeError, and no fault
            raise
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None
        except (TypeError, ValueError, RuntimeError, OSError) as error:
            if _is_interrupt(error):
                typer.echo("stopped", err=True)
                raise typer.Exit(130) from None
            sentence = sentence_of(error)
            if sentence is None:
                raise
            for each in error.mistakes if isinstance(error, UserError) else [sentence]:
                typer.echo(f"error: {' '.join(each.split())}", err=True)
            raise typer.Exit(2) from None


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print each warning of this package as a sentence; those of others keep file and line."""
    before = warnings.formatwarning

    def formatted(message: Any, category: type[Warning], *where: Any, **more: Any) -> str:
        if category.__module__.partition(".")[0] == _LIBRARY:
            return f"warning: {message}\n"
        return before(message, category, *where, **more)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = before


_interrupts: list[int] = []
"""Each Ctrl-C of this command: libraries (pydantic) may turn its exception into one of theirs."""


@contextlib.contextmanager
def _noting_interrupts() -> Iterator[None]:
    _interrupts.clear()
    ours = signal.getsignal(signal.SIGINT)
    if ours is not signal.default_int_handler:  # somebody has other plans
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_unraisable, hook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        # A repeat that is still to come would strike a process that has ended in good order.
        while _repeats:
            _repeats.pop().cancel()
        signal.signal(signal.SIGINT, ours)


def _interrupt(number: int, frame: Any) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


_AGAIN_S = 0.05
_repeats: list[threading.Timer] = []


def _unraisable(hook: Callable[[Any], object], ignored: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C that Python had to drop, as in what the compiler calls while it loads code.

    An exception cannot pass through a caller that is not Python (`sys.unraisablehook`).
    """
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        hook(ignored)
        return
    again = threading.Timer(_AGAIN_S, _interrupt_again)
    again.daemon = True
    _repeats.append(again)
    again.start()


def _interrupt_again() -> None:
    # A signal, since `_thread.interrupt_main` only sets a flag: a main thread that sleeps or
    # waits for a lock would go on to the end of its wait.
    main = threading.main_thread().ident
    assert main is not None, "the main thread has started"
    signal.pthread_kill(main, signal.SIGINT)


def _is_interrupt(error: BaseException) -> bool:
    """Return whether *error* is what Ctrl-C has become."""
    ours = isinstance(error, Stopped | typer.Exit)
    return isinstance(error, KeyboardInterrupt) or (bool(_interrupts) and not ours)


_FILE_COLUMNS = 110


def people() -> Console:
    """Return the console for results; a file has room for the widest table."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_COLUMNS
    return console


def notes() -> Console:
    """Return the console for what is not the result: progress, options, warnings."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@contextlib.contextmanager
def keeping(folder: Path | None, *, hint: str = "") -> Iterator[None]:
    """Say on Ctrl-C where finished work is; without a folder, *hint* says how to keep it."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not _is_interrupt(error):
            raise
        if folder is None:
            raise Stopped(f"nothing was kept{hint}") from None
        n = sum(path.is_file() for path in folder.rglob("*")) if folder.is_dir() else 0
        raise Stopped(
            f"finished work is in {folder}" if n else "nothing was finished yet"
        ) from None


@contextlib.contextmanager
def compiling(mechanisms: Sequence[str]) -> Iterator[None]:
    """Say, while it lasts, that the engines of *mechanisms* are being compiled."""
    each = " each" if len(mechanisms) > 1 else ""
    text = f"compiling the fast engine for {', '.join(mechanisms)} (once, about 2 seconds{each})"
    console = notes()
    if not console.is_terminal:  # a log has no use for what moves
        console.print(text, markup=False, soft_wrap=True)
        yield
        return
    with console.status(text):
        yield


class Bar(Protocol):
    """What draws how far work is."""

    def __call__(
        self, done: int, total: int, known: int = 0, seconds_left: float | None = None
    ) -> None:
        """Draw how much is *done*, how much of it was *known* before, and the time left."""


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Bar]:
    """Yield a callback that draws a bar on standard error while work goes on.

    The time left is what the work says (NaN if it does not know it yet), or what the bar expects
    if the work says nothing of it.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ..scenario.formats import duration_text

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    last = TextColumn("{task.fields[left]}")
    console = notes()
    off = not console.is_terminal  # a log has no use for a bar
    with Progress(*columns, last, console=console, transient=True, disable=off) as bar:
        task = bar.add_task(what, total=None, left="")

        def show(done: int, total: int, known: int = 0, seconds_left: float | None = None) -> None:
            bar.update(task, completed=done, total=total)
            if seconds_left is None:
                expected = bar.tasks[task].time_remaining
                seconds_left = math.nan if expected is None else expected
            words = [f"{known} known"] if known else []
            if not math.isnan(seconds_left):
                words.append(f"{duration_text(seconds_left)} left")
            bar.update(task, left=", ".join(words))

        yield show


def known_errors() -> tuple[type[Exception], ...]:
    """Return the classes whose message is a sentence for the user.

    They come from every part of the library, which is imported only when something went wrong.
    """
    from ..calibration.emulated.kernel_source import TargetError
    from ..calibration.fit.medians import FitError
    from ..calibration.measure.campaign import CampaignError
    from ..calibration.profiles.cost_profile import ProfileError
    from ..calibration.records.measured_runs import DataError
    from ..calibration.testbed.c_build import BuildError
    from ..calibration.testbed.testbed import TestbedError
    from ..sim.engine.c.run import CannotCompileError
    from ..sim.files.parallel import WorkerDiedError
    from ..sim.load.workload import TraceError
    from ..sim.native.compiler import CompilerFailedError, NoCompilerError
    from ..sim.native.trust import UntrustedError

    return (
        UserError,
        BuildError,
        CampaignError,
        CannotCompileError,
        CompilerFailedError,
        DataError,
        FitError,
        NoCompilerError,
        ProfileError,
        TargetError,
        TestbedError,
        TraceError,
        UntrustedError,
        WorkerDiedError,
    )


def sentence_of(error: Exception) -> str | None:
    """Return what to tell the user of *error*, None if it is a fault of ours.

    >>> sentence_of(UserError("backlog must be at least 1, got 0"))
    'backlog must be at least 1, got 0'
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, known_errors()):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return None
