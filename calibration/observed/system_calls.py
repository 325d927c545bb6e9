"""The system calls of a server, as strace wrote them down: one by one, with what they returned.

    PID name(arguments) = result [ERROR (words)]
    PID name(arguments <unfinished ...>      PID <... name resumed>arguments) = result

A traced server is several times as slow, so nothing here is a time; what it calls for a request
does not depend on that, where it serves few clients at a time.

Source: strace(1), the format of `strace -f -o FILE`.
"""

from __future__ import annotations

import re
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
