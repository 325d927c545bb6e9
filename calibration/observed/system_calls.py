"""The system calls of a server, one by one, as strace or bpftrace wrote them down.

    strace:     PID name(arguments) = result [ERROR (words)]
                PID name(arguments <unfinished ...>      PID <... name resumed>arguments) = result
    bpftrace:   THREAD NUMBER RESULT A B C FLAGS

A traced server is several times as slow, so nothing here is a time; what it calls for a request
does not depend on that, where it serves few clients at a time. The program of bpftrace runs in the
kernel, so the server is not stopped at each call as under strace. Calls have numbers there, which
the C library's headers name.

Sources: strace(1), the format of `strace -f -o FILE`; bpftrace(8); Linux 6.8
include/uapi/linux/eventpoll.h.
"""

from __future__ import annotations

import errno
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..records.measured_runs import DataError

_RESULT = r"(0x[0-9a-f]{1,16}|-?\d{1,20}|\?)(?![0-9a-fx])"
_WHOLE = re.compile(rf"(\d{{1,10}}) +(\w+)\((.*)\) += {_RESULT}(?: (E[A-Z]+))?.*")
_BEGUN = re.compile(r"(\d{1,10}) +(\w+)\((.*?) *<unfinished \.\.\.>")
_RESUMED = re.compile(rf"(\d{{1,10}}) +<\.\.\. (\w+) resumed>(.*)\) += {_RESULT}(?: (E[A-Z]+))?.*")
_OTHER = re.compile(r"\d+ +(?:---|\+\+\+|<\.\.\. \w+ resumed>|\w+\().*")
_LINE_SHOWN = 60


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
                f'{line[:_LINE_SHOWN]}"'
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
                f'{line[:_LINE_SHOWN]}"'
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
