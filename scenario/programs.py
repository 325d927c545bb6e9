"""Published server programs, as keys of a scenario file.

    [server]
    program = "phhttpd"        ──►  mechanism = "rt_signals", read_after_accept = true, ...

Each program sets keys of [server]; all other keys are free. The keys are how the program learns of
readiness, accepts and recovers, as its source describes it. The work for a request is
`application.request_ns` of the profile. A key that the source leaves open is not set.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from .errors import one_of


class ServerProgram(NamedTuple):
    """A program, and the keys of [server] that it sets."""

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

The other waiting connections keep their signals in the queue. The limiter of `phhttpd_limited`
depends on it: otherwise a call does not return many signals under load.
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
"""The userver programs of Gammo et al. 2004 -> their mechanisms, by the end of the name."""


def _writing(mechanism: str) -> dict[str, str]:
    """Return the key of a userver's writes: §2 and table 1 count three epoll_ctl a connection."""
    return {} if mechanism == "epoll_edge" else {"writes": "when told"}


PROGRAMS: dict[str, ServerProgram] = {
    "thttpd": ServerProgram(
        "one process; it rebuilds the array before each poll",
        "Provos and Lever 2000, §4",
        {"mechanism": "poll", "array": "rebuilt"},
    ),
    "thttpd_dev_poll": ServerProgram(
        "thttpd with /dev/poll", "Provos and Lever 2000, §4", {"mechanism": "dev_poll"}
    ),
    "phhttpd_old": ServerProgram(
        "one RT signal number; after an overflow a sibling thread polls permanently",
        "Provos and Lever 2000, §5",
        _PHHTTPD | {"recovery": "poll for ever", "recovery_thread": "sibling"},
    ),
    "phhttpd": ServerProgram(
        "version 0.1.2: after an overflow the same thread polls all descriptors once",
        f"{_PROVOS}, §2",
        _PHHTTPD_012,
    ),
    "phhttpd_sigtimedwait4": ServerProgram(
        "phhttpd with up to 500 signals in a call",
        f"{_PROVOS}, §5",
        _PHHTTPD_012 | {"mechanism": "sigtimedwait4", "max_events": 500},
    ),
    "phhttpd_limited": ServerProgram(
        "phhttpd with at most 23 signals in a call; resets connections above a running mean",
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
        "select, one accept each time the listener is ready",
        f"{_CM}, §4",
        {"mechanism": "select", "accept_limit": 1},
    ),
    "userver_masel": ServerProgram(
        "select, accepts until the queue is empty (multi-accept)",
        f"{_CM}, §4",
        {"mechanism": "select", "accept_limit": 0},
    ),
    "userver_dev_poll": ServerProgram("/dev/poll", f"{_CM}, §4", {"mechanism": "dev_poll"}),
    "userver_rt_signals": ServerProgram(
        "RT signals; an overflow causes a flush, then one round of multi-accept select",
        f"{_CM}, §4, table 1: in overload sigwaitinfo returns only SIGIO",
        {
            "mechanism": "rt_signals",
            "accept_each_signal": True,
            "remembers": False,
            "recovery": "poll",
        },
    ),
    "userver_signal_per_fd": ServerProgram(
        "one queued signal for all events of a descriptor",
        f"{_CM}, §5",
        {"mechanism": "signal_per_fd", "accept_limit": 0, "recovery": "poll"},
    ),
    **{
        f"userver_{name}": ServerProgram(
            f"{mechanism}; accept_limit is tunable",
            f"{_GAMMO}, §3",
            {"mechanism": mechanism} | _writing(mechanism),
        )
        for name, mechanism in _USERVERS.items()
    },
    "hybrid": ServerProgram(
        "RT signals; polls from a full queue on until few descriptors are ready",
        "Provos and Lever 2000, §5 (proposed, not built)",
        {
            "mechanism": "rt_signals",
            "signal_queue": 1024,
            "poll_above": 1024,
            "recovery": "poll until calm",
        },
    ),
}
"""The programs by name, oldest publication first."""


def without_program(content: Mapping[str, Any], keep: Collection[str]) -> dict[str, Any]:
    """Return the keys of [server] in *content* that stay when its program is replaced.

    The mechanism and the keys of the old program go, except those in *keep*.

    >>> without_program({"program": "thttpd", "mechanism": "poll", "backlog": 5}, ["backlog"])
    {'program': 'thttpd', 'backlog': 5}
    """
    before = PROGRAMS[content["program"]].keys if "program" in content else {}
    goes = {"mechanism", *before} - set(keep)
    return {key: value for key, value in content.items() if key not in goes}


def check_program(name: str) -> None:
    """Refuse a *name* that is no program's.

    Raises
    ------
    ValueError
        With the nearest name.
    """
    if name not in PROGRAMS:
        raise ValueError(f"server.program: {one_of(name, PROGRAMS)}, got {json.dumps(name)}")


def with_program(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of [server] in *content*, with those that its program sets.

    Raises
    ------
    ValueError
        If the program is unknown, or a key that it sets has another value.
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
