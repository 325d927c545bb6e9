"""The programs that write a server's system calls down: bpftrace or strace, whichever is there.

    keeper ──► tracer ──► attached? ──► the load ──► INT ──► file ──► calls

bpftrace disturbs a server least; strace stops it at each call. `perf trace` does not see the flags
of epoll_ctl, so it is not used. The keeper ends a tracer when this process is no more: a server
that was there before must not be left with one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..testbed.c_build import Programs
from ..testbed.processes import RunError
from .server_process import BlackBox, descendants
from .system_calls import READY, Call, bpftrace_program, call_names, read_bpftrace, read_calls

_ATTACH_SECONDS_MAX = 20.0
_END_SECONDS_MAX = 20.0
_TRACE_SECONDS_MAX = 120
_LOOK_S = 0.02
_CATCH_UP_SECONDS_MAX = 2.0
_QUIET_S = 0.3
_BUFFER_PAGES = "1024"
"""Of 4 KB, for each processor or thread: the tracer computes when the server does not."""
_LINE_SHOWN = 160


@dataclass(frozen=True)
class Tracer:
    """A program that writes system calls down.

    Attributes
    ----------
    name:
        Of its program.
    command:
        From the processes to look at and the file to write, its command line.
    is_attached:
        From its own number, the processes and the file, whether it sees every call.
    read:
        From what it has written and where, the calls.
    prints:
        Whether it writes to its standard output.
    """

    name: str
    command: Callable[[Sequence[int], Path], list[str]]
    is_attached: Callable[[int, Sequence[int], Path], bool]
    read: Callable[[str, str], list[Call]]
    prints: bool = False


def _bpftrace_command(pids: Sequence[int], _output: Path) -> list[str]:
    # Into a file of its own (-o) it would not write line by line.
    return ["bpftrace", "-q", "-B", "line", "-e", bpftrace_program(pids)]


def _bpftrace_is_attached(_tracer: int, _pids: Sequence[int], output: Path) -> bool:
    # What is written at its begin comes last, after all probes are in place.
    return output.is_file() and output.read_text(errors="replace").lstrip().startswith(READY)


def _strace_command(pids: Sequence[int], output: Path) -> list[str]:
    targets = [word for pid in pids for word in ("-p", str(pid))]
    return ["strace", "-f", "-o", str(output), *targets]


def _strace_is_attached(_tracer: int, pids: Sequence[int], _output: Path) -> bool:
    return all(_tracer_of(pid, thread) for pid in pids for thread in _threads(pid))


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _tracer_of(pid: int, thread: str) -> int:
    """Return who traces a thread, 0 if nobody does; of one that has ended, 1."""
    try:
        lines = Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines()
    except OSError:
        return 1
    return next((int(line.split()[1]) for line in lines if line.startswith("TracerPid:")), 0)


TRACERS = {
    tracer.name: tracer
    for tracer in (
        Tracer(
            "bpftrace",
            _bpftrace_command,
            _bpftrace_is_attached,
            lambda text, where: read_bpftrace(text, where, call_names()),
            prints=True,
        ),
        Tracer("strace", _strace_command, _strace_is_attached, read_calls),
    )
}
"""By their programs' names; the one to be tried first comes first."""


@contextlib.contextmanager
def tracing(
    tracer: Tracer, box: BlackBox, output: Path, *, programs: Programs, cpu: int
) -> Iterator[None]:
    """Have *tracer* write the calls of *box* to *output* during the block; it runs on *cpu*.

    Raises
    ------
    RunError
        If it is not there, or may not look at these processes.
    """
    if shutil.which(tracer.name) is None:
        raise RunError(f"{tracer.name} is not installed")
    pids = box.processes()
    keeper = [programs.path("keeper"), "--cpu", str(cpu), "--seconds-max", str(_TRACE_SECONDS_MAX)]
    with tempfile.TemporaryFile() as said, output.open("wb") as written:
        process = subprocess.Popen(
            [*keeper, "--", *tracer.command(pids, output)],
            stdin=subprocess.DEVNULL,
            stdout=written if tracer.prints else said,
            stderr=said,
            start_new_session=True,
            env={**os.environ, "BPFTRACE_PERF_RB_PAGES": _BUFFER_PAGES},
        )

        def why() -> str:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            words = [line for line in lines if not line.startswith("keeper:")]
            return words[-1][:_LINE_SHOWN] if words else "it does not say why"

        try:
            deadline = time.monotonic() + _ATTACH_SECONDS_MAX
            while not any(
                tracer.is_attached(pid, pids, output) for pid in descendants(process.pid)
            ):
                if process.poll() is not None:
                    raise RunError(f"{tracer.name} cannot look at {box.name}: {why()}")
                if time.monotonic() > deadline:
                    raise RunError(
                        f"{tracer.name} did not begin within {_ATTACH_SECONDS_MAX:.0f} s: {why()}"
                    )
                time.sleep(_LOOK_S)
            yield
            _await_written(output)
        finally:
            _end(process)


def _await_written(output: Path) -> None:
    """Wait until the tracer has caught up: what it has not read when it is ended is lost."""
    deadline = time.monotonic() + _CATCH_UP_SECONDS_MAX
    n_bytes = -1
    while n_bytes != (n_bytes := output.stat().st_size) and time.monotonic() < deadline:
        time.sleep(_QUIET_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the tracer to write down what it has, then the keeper to end whatever is left."""
    for pid in descendants(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    try:
        process.wait(_END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
