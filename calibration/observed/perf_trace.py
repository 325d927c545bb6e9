"""The system calls of a server, as `perf trace` wrote them down.

    TIME (DURATION ms): NAME/THREAD call(argument: value, ...) = result [ERROR (words)]
    TIME (           ): NAME/THREAD call(argument: value, ...)  ...
       ? (           ): NAME/THREAD  ... [continued]: call())   = result

Of a server that is a single thread it leaves NAME/THREAD out.

It disturbs a server less than strace does, and does not look at what arguments point to: neither
the flags of an epoll_ctl nor the descriptors of a poll are seen.

Source: perf-trace(1); Linux 6.1 tools/perf/builtin-trace.c, trace__sys_exit and trace__fprintf_*.
"""

from __future__ import annotations

import re

from ..records.measured_runs import DataError
from .system_calls import Call

_RESULT = r"(-?\d{1,20}|0x[0-9a-f]{1,16}|\?)(?![0-9a-fx])(?: (E[A-Z0-9]+))?.*"
_HEAD = r" *(?:\?|[0-9.]{1,20}) \( *(?:[0-9.]{1,20} ms)? *\): +(?:[^(]{0,16}?/(\d{1,10}) +)?"
_WHOLE = re.compile(rf"{_HEAD}(\w+)\((.*)\) += {_RESULT}")
_BEGUN = re.compile(rf"{_HEAD}(\w+)\((.*)\) +\.\.\.")
_RESUMED = re.compile(rf"{_HEAD}\.\.\. \[continued\]: (\w+)\(\)\) += {_RESULT}")
_LOST = re.compile(r"LOST (\d{1,20}) events!")
_NAMED = re.compile(r"(?:^|(?<=, ))(\w{1,40}): ")
_PATH = re.compile(r"(\b\d{1,10})<[^>]*>")
_CHANGE = re.compile(r"^(\d+), (ADD|MOD|DEL), (\d+).*")
_ALONE = "0"  # of a single thread, which perf trace does not name
_LINE_SHOWN = 60


def read_perf_trace(text: str, where: str) -> list[Call]:
    """Return the calls in *text* in the order of their ends; *where* begins an error's message.

    Arguments are written as strace does, so far as they are known.

    Raises
    ------
    DataError
        If a line is nothing that perf trace writes, calls were lost, or there is none.
    """
    begun: dict[tuple[str, str], str] = {}
    calls = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if lost := _LOST.fullmatch(line.strip()):
            raise DataError(f"{where} line {number}: perf trace lost {lost[1]} calls")
        if match := _RESUMED.fullmatch(line):
            thread, name, result, error = match.groups()
            arguments = begun.pop((thread or _ALONE, name), "")
        elif match := _WHOLE.fullmatch(line):
            thread, name, arguments, result, error = match.groups()
        elif match := _BEGUN.fullmatch(line):
            begun[match[1] or _ALONE, match[2]] = match[3]
            continue
        else:
            raise DataError(
                f'{where} line {number}: no system call as perf trace writes it: "'
                f'{line[:_LINE_SHOWN]}"'
            )
        if result != "?":
            value = int(result, 16 if result.startswith("0x") else 10)
            calls.append(Call(int(thread or _ALONE), name, _plain(arguments), value, error or ""))
    if not calls:
        raise DataError(f"{where}: no system call: was the server asked for anything?")
    return calls


def _plain(arguments: str) -> str:
    """Return arguments without their names and without what descriptors stand for.

    >>> _plain("epfd: 7<anon_inode:[eventpoll]>, op: ADD, fd: 11<socket:[5]>, event: 0x7f")
    '7, EPOLL_CTL_ADD, 11'
    """
    bare = _NAMED.sub("", _PATH.sub(r"\1", arguments))
    return _CHANGE.sub(r"\1, EPOLL_CTL_\2, \3", bare)
