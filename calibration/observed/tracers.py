"""The tracers of a server's system calls, bpftrace and strace, and their output.

    keeper ──► tracer ──► attached? ──► the load ──► INT ──► file ──► calls

    strace:     PID name(arguments) = result [ERROR (words)]
                PID name(arguments <unfinished ...>      PID <... name resumed>arguments) = result
    bpftrace:   THREAD NUMBER RESULT A B C FLAGS

bpftrace disturbs a server least: its program runs in the kernel. There, calls have numbers, whose
names are in the C library's headers. strace stops the server at each call. `perf trace` is not
used, as it does not show the flags of epoll_ctl. The keeper ends a tracer when this process ends: a
server that ran before must not be left with a tracer.

A traced server is several times as slow, so no times are taken here. Its calls for a request do
not depend on the speed, as long as it serves few clients at a time.

Sources: strace(1), the format of `strace -f -o FILE`; bpftrace(8); Linux 6.8
include/uapi/linux/eventpoll.h.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..records.measured_runs import DataError
from ..testbed.c_build import Programs
from ..testbed.processes import RunError
from .server_process import BlackBox, descendants

_RESULT = r"(0x[0-9a-f]{1,16}|-?\d{1,20}|\?)(?![0-9a-fx])"
_WHOLE = re.compile(rf"(\d{{1,10}}) +(\w+)\((.*)\) += {_RESULT}(?: (E[A-Z]+))?.*")
_BEGUN = re.compile(r"(\d{1,10}) +(\w+)\((.*?) *<unfinished \.\.\.>")
_RESUMED = re.compile(rf"(\d{{1,10}}) +<\.\.\. (\w+) resumed>(.*)\) += {_RESULT}(?: (E[A-Z]+))?.*")
_OTHER = re.compile(r"\d+ +(?:---|\+\+\+|<\.\.\. \w+ resumed>|\w+\().*")
_TEXT_SHOWN = 60


class Call(NamedTuple):
    """One system call that has returned.

    Attributes
    ----------
    thread:
        The kernel's number of the calling thread.
    name, arguments:
        In strace's notation.
    result:
        The returned value; -1 with an `error` such as EAGAIN.
    """

    thread: int
    name: str
    arguments: str
    result: int
    error: str = ""

    @property
    def fd(self) -> int:
        """The descriptor that is its first argument; else -1."""
        match = re.match(r"(\d{1,10})\b", self.arguments)
        return int(match[1]) if match else -1


def read_calls(text: str, where: str) -> list[Call]:
    """Return the calls in *text*, ordered by when they returned; *where* begins error messages.

    Signals, exits and calls that had not returned at the end of the trace are left out.

    Raises
    ------
    DataError
        If a line is not in strace's format, or there is no call at all.
    """
    begun: dict[tuple[int, str], str] = {}
    calls = []
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _WHOLE.fullmatch(line):
            thread, name, arguments, result, error = match.groups()
        elif match := _BEGUN.fullmatch(line):
            begun[int(match[1]), match[2]] = match[3]
            continue
        elif match := _RESUMED.fullmatch(line):
            thread, name, rest, result, error = match.groups()
            arguments = begun.pop((int(thread), name), "") + rest
        elif _OTHER.fullmatch(line) or not line.strip():
            continue
        else:
            raise DataError(
                f'{where} line {number}: is no system call in the format of strace -f -o: "'
                f'{line[:_TEXT_SHOWN]}"'
            )
        if result != "?":
            value = int(result, 16 if result.startswith("0x") else 10)
            calls.append(Call(int(thread), name, arguments, value, error or ""))
    if not calls:
        raise DataError(f"{where}: has no system call: did the server get any requests?")
    return calls


READY = "ready"
"""The first line of the program's output, printed once it sees every call."""
_BPFTRACE_LINE = re.compile(
    r"(\d{1,10}) (\d{1,5}) (-?\d{1,20}) (-?\d{1,20}) (-?\d{1,20}) (-?\d{1,20}) (\d{1,10})"
)
_LOST = re.compile(r"Lost (\d{1,20}) events")
_EPOLL = {0x1: "EPOLLIN", 0x4: "EPOLLOUT", 1 << 31: "EPOLLET", 1 << 30: "EPOLLONESHOT",
          1 << 28: "EPOLLEXCLUSIVE"}  # fmt: skip
_CHANGES = {1: "EPOLL_CTL_ADD", 2: "EPOLL_CTL_DEL", 3: "EPOLL_CTL_MOD"}
_INT_BITS = 32


def bpftrace_program(pids: Sequence[int]) -> str:
    """Return the bpftrace program that prints the calls of *pids*."""
    own = " || ".join(f"pid == {pid}" for pid in pids)
    entered = "; ".join(f"@{name}[tid] = args->args[{i}]" for i, name in enumerate("abc"))
    written = ", ".join(
        ("tid", "args->id", "args->ret", "@a[tid]", "@b[tid]", "@c[tid]", "@e[tid]")
    )
    return f"""
BEGIN {{ printf("{READY}\\n"); }}
tracepoint:raw_syscalls:sys_enter /{own}/ {{ {entered}; @e[tid] = (uint64)0; }}
tracepoint:syscalls:sys_enter_epoll_ctl /{own}/ {{ @e[tid] = (uint64)*(uint32*)uptr(args->event); }}
tracepoint:raw_syscalls:sys_exit /{own}/ {{
  printf("%d %d %ld %ld %ld %ld %lu\\n", {written});
}}
END {{ clear(@a); clear(@b); clear(@c); clear(@e); }}
"""


def call_names() -> dict[int, str]:
    """Return the names of this machine's system calls by number, from the C library's headers.

    Raises
    ------
    DataError
        If the compiler is missing or fails.
    """
    try:
        finished = subprocess.run(
            ["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"],
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError("gcc does not print the numbers of system calls") from error
    found = re.findall(r"^#define __NR_(\w+) (\d+)$", finished.stdout, re.MULTILINE)
    return {int(number): name for name, number in found}


def read_bpftrace(text: str, where: str, names: Mapping[int, str]) -> list[Call]:
    """Return the calls in *text*, ordered by when they returned; *where* begins error messages.

    Arguments are in strace's notation, as far as they are known.

    Raises
    ------
    DataError
        If a line is not in our program's format, calls were lost, or there are none.
    """
    calls = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line == READY:
            continue
        if lost := _LOST.match(line):
            raise DataError(f"{where} line {number}: bpftrace lost {lost[1]} calls")
        match = _BPFTRACE_LINE.fullmatch(line)
        if match is None:
            raise DataError(
                f'{where} line {number}: is no system call in the format of our bpftrace program: "'
                f'{line[:_TEXT_SHOWN]}"'
            )
        thread, call, result, *arguments = map(int, match.groups())
        name = names.get(call, f"call_{call}")
        error = errno.errorcode.get(-result, "") if result < 0 else ""
        value = -1 if error else result
        calls.append(Call(thread, name, _arguments(name, arguments), value, error))
    if not calls:
        raise DataError(f"{where}: has no system call: did the server get any requests?")
    return calls


def _arguments(name: str, arguments: Sequence[int]) -> str:
    """Return the first arguments in strace's notation.

    >>> _arguments("epoll_ctl", [7, 1, 11, 0x80000001])
    '7, EPOLL_CTL_ADD, 11, {events=EPOLLIN|EPOLLET}'
    >>> _arguments("read", [11, 140, 16384, 0])
    '11, 140, 16384'
    """
    *first, flags = arguments
    # Registers have 64 bits; a descriptor is in the lower half.
    fd = first[0] % (1 << _INT_BITS)
    if name == "epoll_ctl" and first[1] in _CHANGES:
        events = "|".join(text for bit, text in _EPOLL.items() if flags & bit) or "0"
        told = "" if first[1] == 2 else f", {{events={events}}}"
        return f"{fd}, {_CHANGES[first[1]]}, {first[2]}{told}"
    return f"{fd}, {first[1]}, {first[2]}"


_ATTACH_SECONDS_MAX = 20.0
_END_SECONDS_MAX = 20.0
_TRACE_SECONDS_MAX = 120
_LOOK_S = 0.02
_CATCH_UP_SECONDS_MAX = 2.0
_QUIET_S = 0.3
_BUFFER_PAGES = "1024"
"""Pages of 4 KB for each processor or thread: the tracer only runs when the server does not."""
_LINE_SHOWN = 160


@dataclass(frozen=True)
class Tracer:
    """A program that records system calls.

    Attributes
    ----------
    name:
        The name of its program.
    command:
        Returns its command line for the processes to trace and its output file.
    is_attached:
        Returns whether it sees every call, from its own number, the processes and the file.
    read:
        Returns the calls in its output; the second argument begins error messages.
    prints:
        Whether it writes to its standard output.
    """

    name: str
    command: Callable[[Sequence[int], Path], list[str]]
    is_attached: Callable[[int, Sequence[int], Path], bool]
    read: Callable[[str, str], list[Call]]
    prints: bool = False


def _bpftrace_command(pids: Sequence[int], _output: Path) -> list[str]:
    # With a file of its own (-o) it would not write line by line.
    return ["bpftrace", "-q", "-B", "line", "-e", bpftrace_program(pids)]


def _bpftrace_is_attached(_tracer: int, _pids: Sequence[int], output: Path) -> bool:
    # Its BEGIN line is printed last, after all probes are in place.
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
    """Return the process that traces a thread: 0 if there is none, 1 if the thread has ended."""
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
"""The tracers by name, in the order in which they are tried."""


@contextlib.contextmanager
def tracing(
    tracer: Tracer, box: BlackBox, output: Path, *, programs: Programs, cpu: int
) -> Iterator[None]:
    """Let *tracer* write the calls of *box* to *output* during the block; it runs on *cpu*.

    Raises
    ------
    RunError
        If it is not installed, or has no permission to trace these processes.
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
            return words[-1][:_LINE_SHOWN] if words else "it printed no reason"

        try:
            deadline = time.monotonic() + _ATTACH_SECONDS_MAX
            while not any(
                tracer.is_attached(pid, pids, output) for pid in descendants(process.pid)
            ):
                if process.poll() is not None:
                    raise RunError(f"{tracer.name} cannot trace {box.name}: {why()}")
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
    """Wait until the tracer has caught up: at its end it loses calls that it has not read."""
    deadline = time.monotonic() + _CATCH_UP_SECONDS_MAX
    n_bytes = -1
    while n_bytes != (n_bytes := output.stat().st_size) and time.monotonic() < deadline:
        time.sleep(_QUIET_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the tracer to write its remaining calls, then the keeper to end all processes."""
    for pid in descendants(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    try:
        process.wait(_END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
