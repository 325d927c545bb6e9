"""The one place where an error becomes a sentence and an exit code.

    0    done
    2    a mistake in the request: one sentence each, no traceback, no partial files
    130  stopped by Ctrl-C: one sentence with the place of finished work

Any other exception is our own fault and keeps its traceback (`known_errors`).

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
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer
from typer.core import TyperGroup

from ..scenario.errors import UserError
from .old_spellings import hint, renewed
from .usage_errors import WORDS, as_typed, usage_sentence

_LIBRARY = __name__.partition(".")[0]
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_MIB = 1 << 20
LOGGED_EVERY_S = 30.0
"""Time between two lines of progress in a log."""
_SETTINGS = {_M_MMAP_THRESHOLD: 32 * _MIB, _M_TRIM_THRESHOLD: 1024 * _MIB, _M_TOP_PAD: 64 * _MIB}


def keep_freed_memory() -> None:
    """Set malloc to keep freed memory for the next run, not to return it to the kernel.

    A run has a hundred columns of up to a few megabytes. By default each is mapped and unmapped
    anew: the kernel clears and maps its pages again and again, and the threads of a process wait
    for each other meanwhile. Columns of 32 MiB or more are still mapped, and pages that no run
    touches take no memory.

    The setting holds for the whole process, so the command line makes it and the library does not.
    C libraries other than glibc have no such settings. Source: mallopt(3).
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for number, value in _SETTINGS.items():
            mallopt(number, value)


if TYPE_CHECKING:  # `--help` needs none of them
    from rich.console import Console


class Stopped(Exception):  # noqa: N818 (not an error: the user asked for it)
    """Ctrl-C; the message names the finished work."""


class Door(TyperGroup):
    """The command line's group: every command is called through `invoke`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse *args* up to the command; words in an old spelling are renewed, with a hint."""
        if extra.get("resilient_parsing"):  # to complete words, or to make a page
            return super().make_context(info_name, args, parent, **extra)
        words = renewed(args)
        if words != list(args):
            typer.echo(hint(args, words), err=True)
        try:
            context = super().make_context(info_name, words, parent, **extra)
        except Exception as error:
            _refuse_usage(error)
            raise
        context.meta[WORDS] = words
        return context

    def invoke(self, ctx: Any) -> Any:
        """Call the command; turn a user's mistake into one line on standard error."""
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
                said = as_typed(" ".join(each.split()), ctx)
                typer.echo(f"error: {said}", err=True)
            raise typer.Exit(2) from None
        except Exception as error:
            _refuse_usage(error)
            raise


def _refuse_usage(error: Exception) -> None:
    """End with a sentence if *error* is of the parser: a mistake in the command line."""
    if not hasattr(error, "format_message"):  # Typer brings its own copy of Click's classes
        return
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
    else:
        typer.echo(f"error: {usage_sentence(error)}", err=True)
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
    if ours is not signal.default_int_handler:  # the caller has a handler of its own
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_unraisable, hook)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        # A later repeat would interrupt a process that has ended normally.
        while _repeats:
            _repeats.pop().cancel()
        signal.signal(signal.SIGINT, ours)


def _interrupt(number: int, frame: Any) -> None:
    _interrupts.append(number)
    raise KeyboardInterrupt


_AGAIN_S = 0.05
_repeats: list[threading.Timer] = []


def _unraisable(hook: Callable[[Any], object], ignored: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C that Python had to drop, as in callbacks of a compiler that loads code.

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
    """Return whether *error* comes from Ctrl-C."""
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
    """Return the console for everything but results: progress, options, warnings."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


@contextlib.contextmanager
def keeping(folder: Path | None, *, hint: str = "") -> Iterator[None]:
    """Report on Ctrl-C where finished work is; without a folder, *hint* names the option for it."""
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
    """Print, while it lasts, that the engines of *mechanisms* are being compiled."""
    each = " each" if len(mechanisms) > 1 else ""
    text = f"compiling the fast engine for {', '.join(mechanisms)} (once, about 2 seconds{each})"
    console = notes()
    if not console.is_terminal:  # an animation would spoil a log
        console.print(text, markup=False, soft_wrap=True)
        yield
        return
    with console.status(text):
        yield


class Bar(Protocol):
    """A progress bar."""

    def __call__(
        self, done: int, total: int, known: int = 0, seconds_left: float | None = None
    ) -> None:
        """Show how much is *done*, how much of it was *known* before, and the time left."""


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Bar]:
    """Yield a callback that shows a progress bar on standard error, or in a log a line at times.

    The time left is the callback's (NaN: not known yet), or the bar's own estimate if it gives
    none.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from ..scenario.formats import duration_text

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    last = TextColumn("{task.fields[left]}")
    console = notes()
    off = not console.is_terminal  # a bar would spoil a log
    with Progress(*columns, last, console=console, transient=True, disable=off) as bar:
        task = bar.add_task(what, total=None, left="")
        shown_s = time.monotonic()

        def show(done: int, total: int, known: int = 0, seconds_left: float | None = None) -> None:
            nonlocal shown_s
            bar.update(task, completed=done, total=total)
            if seconds_left is None:
                expected = bar.tasks[task].time_remaining
                seconds_left = math.nan if expected is None else expected
            words = [f"{known} known"] if known else []
            if not math.isnan(seconds_left):
                words.append(f"{duration_text(seconds_left)} left")
            bar.update(task, left=", ".join(words))
            if off and done < total and time.monotonic() >= shown_s + LOGGED_EVERY_S:
                shown_s = time.monotonic()
                line = ", ".join([f"{what}: {done} of {total}", *words])
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield show


@contextlib.contextmanager
def search_steps(console: Console, what: str) -> Iterator[Callable[[str], None]]:
    """Yield a callback that shows a step of the search for *what*, until the next; not in a log."""
    from rich.markup import escape

    with console.status(what) as status:
        yield lambda step: status.update(f"{what}: {escape(step)}")


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
    """Return the sentence for the user about *error*; None if it is our own fault.

    >>> sentence_of(UserError("backlog must be at least 1, got 0"))
    'backlog must be at least 1, got 0'
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, known_errors()):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        file = error.filename2 or error.filename  # of a renaming: the name that people know
        return f"{file}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return None
