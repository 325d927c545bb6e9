"""Server programs of the literature, as what a scenario file says of them.

    [server]
    program = "phhttpd"        ──►  mechanism = "rt_signals", read_after_accept = true, ...

Each stands for keys of [server]; all others are free. What a source says of how a program learns of
readiness, accepts and recovers is here; what it does with a request is `application.request_ns` of
the profile. Where a source leaves open what a program did, so does this.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from .errors import nearest


class ServerProgram(NamedTuple):
    """A program, and the keys of [server] that it stands for."""

    about: str
    source: str
    keys: Mapping[str, Any]


_PHHTTPD = {
    "mechanism": "rt_signals",
    "signal_numbers": 1,
    "accept_each_signal": True,
    "read_after_accept": True,
    "remembers": False,
    "pass_listener": True,
    "recovery_array": "rebuilt",
}
"""Keys of every phhttpd. A handler runs for each signal of the listener and accepts one connection.

The other connections that wait keep their signals in the queue. Only so does a call return many
signals under load, on which the limiter of `phhttpd_limited` rests.
"""
_PHHTTPD_012 = _PHHTTPD | {"recovery": "poll", "recovery_thread": "same"}
_CM = "Chandra and Mosberger 2001"
_GAMMO = "Gammo et al. 2004"
_PROVOS = "Provos, Lever and Tweedie 2000"

_USERVERS = {
    "2004_select": "select",
    "2004_poll": "poll",
    "epoll_level": "epoll_level",
    "epoll_edge": "epoll_edge",
    "epoll_once": "epoll_once",
    "epoll_ctlv": "epoll_ctlv",
    "epoll_close": "epoll_close",
}
"""Of Gammo et al. 2004, by the rest of the program's name."""


def _writing(mechanism: str) -> dict[str, str]:
    """Return when a userver writes: §2 and table 1 count three epoll_ctl for each connection."""
    return {} if mechanism == "epoll_edge" else {"writes": "when told"}


PROGRAMS: dict[str, ServerProgram] = {
    "thttpd": ServerProgram(
        "one process, which builds the array for poll anew each time",
        "Provos and Lever 2000, §4",
        {"mechanism": "poll", "array": "rebuilt"},
    ),
    "thttpd_dev_poll": ServerProgram(
        "thttpd with its set in /dev/poll", "Provos and Lever 2000, §4", {"mechanism": "dev_poll"}
    ),
    "phhttpd_old": ServerProgram(
        "RT signals of one number; an overflow hands all over to a sibling that polls for ever",
        "Provos and Lever 2000, §5",
        _PHHTTPD | {"recovery": "poll for ever", "recovery_thread": "sibling"},
    ),
    "phhttpd": ServerProgram(
        "version 0.1.2: the same thread polls all once after an overflow",
        f"{_PROVOS}, §2",
        _PHHTTPD_012,
    ),
    "phhttpd_sigtimedwait4": ServerProgram(
        "phhttpd that takes up to 500 signals in a call",
        f"{_PROVOS}, §5",
        _PHHTTPD_012 | {"mechanism": "sigtimedwait4", "max_events": 500},
    ),
    "phhttpd_limited": ServerProgram(
        "phhttpd that resets connections by a running mean of the signals in a call, at most 23",
        f"{_PROVOS}, §5",
        _PHHTTPD_012
        | {
            "mechanism": "sigtimedwait4",
            "max_events": 23,
            "limiter_gain": 0.3,
            "limiter_threshold": 18,
        },
    ),
    "userver_select": ServerProgram(
        "select, one accept for each time the listener is ready",
        f"{_CM}, §4",
        {"mechanism": "select", "accept_limit": 1},
    ),
    "userver_masel": ServerProgram(
        "select, accepting until nobody waits",
        f"{_CM}, §4",
        {"mechanism": "select", "accept_limit": 0},
    ),
    "userver_dev_poll": ServerProgram("/dev/poll", f"{_CM}, §4", {"mechanism": "dev_poll"}),
    "userver_rt_signals": ServerProgram(
        "RT signals; an overflow is a flush, then one round of multi-accept select",
        f"{_CM}, §4, table 1: all that sigwaitinfo returns in overload is SIGIO",
        {
            "mechanism": "rt_signals",
            "accept_each_signal": True,
            "remembers": False,
            "recovery": "poll",
        },
    ),
    "userver_signal_per_fd": ServerProgram(
        "one queued signal a descriptor, which stands for all its events",
        f"{_CM}, §5",
        {"mechanism": "signal_per_fd", "accept_limit": 0, "recovery": "poll"},
    ),
    **{
        f"userver_{name}": ServerProgram(
            f"{mechanism}; how many it accepts at a time is tunable",
            f"{_GAMMO}, §3",
            {"mechanism": mechanism} | _writing(mechanism),
        )
        for name, mechanism in _USERVERS.items()
    },
    "hybrid": ServerProgram(
        "RT signals while few are queued, polls from a full queue on, until it is calm",
        "Provos and Lever 2000, §5 (imagined, not built)",
        {
            "mechanism": "rt_signals",
            "signal_queue": 1024,
            "poll_above": 1024,
            "recovery": "poll until calm",
        },
    ),
}
"""By name, in the order of the literature."""


def without_program(content: Mapping[str, Any], keep: Collection[str]) -> dict[str, Any]:
    """Return the keys of [server] in *content* that stay when it is given another program.

    Its mechanism goes, and what its program before stood for, but for the keys in *keep*.

    >>> without_program({"program": "thttpd", "mechanism": "poll", "backlog": 5}, ["backlog"])
    {'program': 'thttpd', 'backlog': 5}
    """
    before = PROGRAMS[content["program"]].keys if "program" in content else {}
    goes = {"mechanism", *before} - set(keep)
    return {key: value for key, value in content.items() if key not in goes}


def check_program(name: str) -> None:
    """Refuse a *name* that no program has.

    Raises
    ------
    ValueError
        With the nearest name.
    """
    if name not in PROGRAMS:
        raise ValueError(
            f"server.program: must be one of {', '.join(PROGRAMS)}{nearest(name, PROGRAMS)}, "
            f"got {json.dumps(name)}"
        )


def with_program(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of [server] in *content*, with those that its program stands for.

    Raises
    ------
    ValueError
        If the program is unknown, or a key that it stands for has another value.
    """
    name = content.get("program")
    if not isinstance(name, str):
        return dict(content)
    check_program(name)
    keys = PROGRAMS[name].keys
    for key, value in keys.items():
        if key in content and content[key] != value:
            raise ValueError(
                f"server.{key}: must be {json.dumps(value)} where server.program is "
                f'"{name}" ({PROGRAMS[name].source}), got {json.dumps(content[key], default=str)}'
            )
    return {**keys, **content}
