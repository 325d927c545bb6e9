"""What Chandra and Mosberger 2001 ran, and what was run here to tell their open ends apart."""

from __future__ import annotations

import math

from .httperf import TIMEOUT, arrivals
from .paper import Condition, Hypothesis, Question, Unstated, Values
from .words import ALL, KEPT, LOST

SELECT, MASEL, DEV_POLL = "select", "masel", "/dev/poll"
RT, PER_FD = "RT signals", "signal-per-fd"
_ALL_EVENTS = 65_536
"""What a select found is served without a bound before the next call."""
_PROGRAM: dict[str, Values] = {
    SELECT: {"server.program": "userver_select"},
    MASEL: {"server.program": "userver_masel"},
    DEV_POLL: {"server.mechanism": "dev_poll_unhinted"},
    RT: {"server.program": "userver_rt_signals", "server.max_events": _ALL_EVENTS},
    PER_FD: {"server.program": "userver_signal_per_fd", "server.max_events": _ALL_EVENTS},
}
_ONE_A_SIGNAL: Values = {
    "server.max_events": _ALL_EVENTS,
    "server.mechanism": "rt_signals",
    "server.accept_each_signal": True,
    "server.remembers": False,
}
_USERS = (250.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3000.0)
_RATES = (
    *(500.0, 1000.0, 1500.0, 2000.0, 2500.0, 2800.0),
    *(3000.0, 3200.0, 3400.0, 3600.0, 3800.0, 4000.0),
)

_BACKLOG = Unstated(
    "server.backlog",
    1024,
    2048,
    "",
    "above the signals' bound: see the question of the accept queue",
)

_ARRIVALS = arrivals("ten of them come to something between")


def _persistent(rate: int) -> Condition:
    seconds, warm_up = 40, 30
    return Condition(
        name=f"persistent, {rate}/s",
        scenario="chandra_mosberger_2001_persistent",
        servers={name: _PROGRAM[name] for name in (SELECT, DEV_POLL, RT)},
        axis="load.users",
        at=_USERS,
        few_at=(250.0, 1000.0, 3000.0),
        also={
            users: {
                "load.think_time": f"{users / rate:g} s",
                "load.requests": max(4, math.ceil(2 * seconds * rate / users)),
            }
            for users in _USERS
        },
        seconds=seconds,
        few_seconds=36,
        warm_up_s=warm_up,
    )


def _idle(connections: int, reply: str = "201 B", name: str = "") -> Condition:
    return Condition(
        name=name or f"{connections} idle",
        scenario="chandra_mosberger_2001_idle",
        servers={
            server: {**keys, "idle.connections": connections, "load.reply_size": reply}
            for server, keys in _PROGRAM.items()
        },
        axis="load.rate",
        at=_RATES,
        unit="/s",
        few_at=(500.0, 1500.0, 2800.0, 3000.0, 3400.0, 4000.0),
        unstated=(TIMEOUT, _BACKLOG, _ARRIVALS),
        seconds=60,
        few_seconds=30,
        warm_up_s=12,  # at 3400/s it takes five seconds until the first signal is lost
    )


SLOW, FAST = _persistent(500), _persistent(1000)
FEW, MANY = _idle(252), _idle(6000)
BIG = _idle(6000, "6344 B", "6000 idle, 6 KB")._replace(
    at=(500.0, 1000.0, 1500.0, 2000.0, 3000.0),
    few_at=(500.0, 1500.0, 3000.0),
    seconds=20,
    few_seconds=15,
)
LOST_EVENTS = Condition(
    name="overflow",
    scenario="chandra_mosberger_2001_idle",
    servers={
        "no recovery": {**_ONE_A_SIGNAL, "server.recovery": "nothing"},
        "recovery by hand-over": {
            **_ONE_A_SIGNAL,
            "server.recovery": "poll",
            "server.recovery_thread": "sibling",
        },
        RT: _PROGRAM[RT],
        MASEL: _PROGRAM[MASEL],
    },
    axis="load.rate",
    at=(4000.0,),
    unit="/s",
    unstated=(TIMEOUT, _BACKLOG, _ARRIVALS),
    seconds=60,
    few_seconds=30,
    warm_up_s=15,
)

_ROOMS = (1, 2, 4, 64)
_PORTS: dict[str, Values] = {
    f"{hints}, {room} a call": {"server.mechanism": mechanism, "server.max_events": room}
    for hints, mechanism in (("hints", "dev_poll"), ("no hints", "dev_poll_unhinted"))
    for room in _ROOMS
}
DEV_POLLS = FAST._replace(name="/dev/poll, 3000 at 1000/s", servers=_PORTS, at=(3000.0,), few_at=())
_QUEUES = (128, 512, 1024, 2048)
QUEUES = FEW._replace(
    name="accept queue",
    servers={
        f"backlog {n}": {**_PROGRAM[RT], "server.backlog": n, "idle.connections": 252}
        for n in _QUEUES
    },
    at=(3600.0,),
    few_at=(),
    unstated=(TIMEOUT, _ARRIVALS),
)
ENDS = FEW._replace(
    name="end of the fall-back",
    servers={
        "one round": {**_PROGRAM[RT], "idle.connections": 252},
        "until calm": {
            **_ONE_A_SIGNAL,
            "idle.connections": 252,
            "server.recovery": "poll until calm",
        },
    },
    at=(3600.0,),
    few_at=(),
)


def questions() -> tuple[Question, ...]:
    """Return what the paper leaves open, and what tells the answers apart."""

    def port(name: str, *, full: bool, loses: bool) -> Hypothesis:
        cpu, rate = DEV_POLLS.curve("cpu", name), DEV_POLLS.curve("reply_rate", name)
        return Hypothesis(
            name,
            f"CPU {'full' if full else 'not full'}, load {'lost' if loses else 'kept'}",
            (
                cpu >= ALL if full else cpu < ALL,
                rate <= LOST * 1000.0 if loses else rate >= KEPT * 1000.0,
            ),
        )

    return (
        Question(
            "/dev/poll",
            "Why did /dev/poll fill the CPU and lose load here, where it led on the K6-2?",
            (DEV_POLLS,),
            (
                port("hints, 64 a call", full=False, loses=False),
                port("hints, 1 a call", full=True, loses=True),
                port("no hints, 64 a call", full=True, loses=False),
                port("no hints, 4 a call", full=True, loses=True),
                port("no hints, 2 a call", full=True, loses=True),
                port("no hints, 1 a call", full=True, loses=True),
            ),
        ),
        Question(
            "accept queue",
            "How long must the accept queue be for the queue of 1024 signals to overflow?",
            (QUEUES,),
            tuple(
                Hypothesis(
                    f"backlog {n}",
                    "signals are lost at 3600/s",
                    (QUEUES.curve("overflows", f"backlog {n}") > 0,),
                )
                for n in _QUEUES
            ),
        ),
        Question(
            "end of the fall-back",
            "When did the server go back from multi-accept select to signals?",
            (ENDS,),
            tuple(
                Hypothesis(
                    name,
                    "signals are lost again and again, as in table 1",
                    (ENDS.curve("overflows", name) >= 0.2,),
                )
                for name in ("one round", "until calm")
            ),
        ),
    )
