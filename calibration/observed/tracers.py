"""The programs that write a server's system calls down, bpftrace or strace, and what they write.

    keeper ──► tracer ──► attached? ──► the load ──► INT ──► file ──► calls

    strace:     PID name(arguments) = result [ERROR (words)]
                PID name(arguments <unfinished ...>      PID <... name resumed>arguments) = result
    bpftrace:   THREAD NUMBER RESULT A B C FLAGS

bpftrace disturbs a server least: its program runs in the kernel, where calls have numbers, which
the C library's headers name. strace stops the server at each call. `perf trace` does not see the
flags of epoll_ctl, so it is not used. The keeper ends a tracer when this process is no more: a
server that was there before must not be left with one.

A traced server is several times as slow, so nothing here is a time; what it calls for a request
does not depend on that, where it serves few clients at a time.

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
    """One call that has returned.

    Attributes
    ----------
    thread:
        Who called, as the kernel numbers threads.
    name, arguments:
        As strace writes them.
    result:
        What it returned; -1 with an `error` such as EAGAIN.
    """

    thread: int
    name: str
    arguments: str
    result: int
    error: str = ""

    @property
    def fd(self) -> int:
        """The descriptor that it is about, if it is its first argument; else -1."""
        match = re.match(r"(\d{1,10})\b", self.arguments)
        return int(match[1]) if match else -1


def read_calls(text: str, where: str) -> list[Call]:
    """Return the calls in *text* in the order of their ends; *where* begins an error's message.

    What had not ended when tracing did is left out, signals and exits are, too.

    Raises
    ------
    DataError
        If a line is nothing that strace writes, or there is no call at all.
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
                f'{where} line {number}: no system call as strace -f -o writes it: "'
                f'{line[:_TEXT_SHOWN]}"'
            )
        if result != "?":
            value = int(result, 16 if result.startswith("0x") else 10)
            calls.append(Call(int(thread), name, arguments, value, error or ""))
    if not calls:
        raise DataError(f"{where}: no system call: was the server asked for anything?")
    return calls


READY = "ready"
"""The first line that it prints, once it sees every call."""
_BPFTRACE_LINE = re.compile(
    r"(\d{1,10}) (\d{1,5}) (-?\d{1,20}) (-?\d{1,20}) (-?\d{1,20}) (-?\d{1,20}) (\d{1,10})"
)
_LOST = re.compile(r"Lost (\d{1,20}) events")
_EPOLL = {0x1: "EPOLLIN", 0x4: "EPOLLOUT", 1 << 31: "EPOLLET", 1 << 30: "EPOLLONESHOT",
          1 << 28: "EPOLLEXCLUSIVE"}  # fmt: skip
_CHANGES = {1: "EPOLL_CTL_ADD", 2: "EPOLL_CTL_DEL", 3: "EPOLL_CTL_MOD"}
_INT_BITS = 32


def bpftrace_program(pids: Sequence[int]) -> str:
    """Return the program that writes down the calls of *pids*."""
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
    """Return the names of system calls by their numbers here, from the C library's headers.

    Raises
    ------
    DataError
        If there is no compiler, or it does not know them.
    """
    try:
        finished = subprocess.run(
            ["gcc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"],
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise DataError("gcc does not tell the numbers of system calls") from error
    found = re.findall(r"^#define __NR_(\w+) (\d+)$", finished.stdout, re.MULTILINE)
    return {int(number): name for name, number in found}


def read_bpftrace(text: str, where: str, names: Mapping[int, str]) -> list[Call]:
    """Return the calls in *text*, in the order of their ends; *where* begins an error's message.

    Arguments are written as strace does, so far as they are known.

    Raises
    ------
    DataError
        If a line is nothing that our program prints, calls were lost, or there is none.
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
                f'{where} line {number}: no system call as written by bpftrace: "'
                f'{line[:_TEXT_SHOWN]}"'
            )
        thread, call, result, *arguments = map(int, match.groups())
        name = names.get(call, f"call_{call}")
        error = errno.errorcode.get(-result, "") if result < 0 else ""
        value = -1 if error else result
        calls.append(Call(thread, name, _arguments(name, arguments), value, error))
    if not calls:
        raise DataError(f"{where}: no system call: was the server asked for anything?")
    return calls


def _arguments(name: str, arguments: Sequence[int]) -> str:
    """Return the first arguments as strace writes them.

    >>> _arguments("epoll_ctl", [7, 1, 11, 0x80000001])
    '7, EPOLL_CTL_ADD, 11, {events=EPOLLIN|EPOLLET}'
    >>> _arguments("read", [11, 140, 16384, 0])
    '11, 140, 16384'
    """
    *first, flags = arguments
    # The kernel has registers of 64 bits, of which a descriptor takes the lower half.
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
