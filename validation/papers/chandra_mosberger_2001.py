"""Chandra and Mosberger, "Scalability of Linux Event-Dispatch Mechanisms", USENIX ATC 2001.

A Pentium-III of 400 MHz, small servers that differ only in their event mechanism. The conditions of
the paper come first, with runs that decide its open questions; then its claims.
"""

from __future__ import annotations

import math

from .paper import (
    ALL,
    COUNT,
    KEPT,
    LESS,
    LINEAR,
    LOST,
    MUCH,
    RATE,
    SAME,
    TIMEOUT,
    Claim,
    Condition,
    Hypothesis,
    Question,
    Unstated,
    Values,
    arrivals,
    described,
)
from .quantities import Curve, Quantity, flat, last_kept, straight, within

SELECT, MASEL, DEV_POLL = "select", "masel", "/dev/poll"
RT, PER_FD = "RT signals", "signal-per-fd"
_ALL_EVENTS = 65_536
"""All events of a select are served, without a bound, before the next call."""
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

_ARRIVALS = arrivals("ten of them together are between even and random")


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
        warm_up_s=12,  # at 3400/s the first signal is lost after five seconds
    )


SLOW, FAST = _persistent(500), _persistent(1000)
FEW, MANY = _idle(252), _idle(6000)
BIG = _idle(6000, "6344 B", "6000 idle, 6 KB")._replace(
    at=(500.0, 1000.0, 1500.0, 2000.0, 3000.0),
    few_at=(500.0, 1500.0, 3000.0),
    seconds=20,
    few_seconds=15,
)
LOST_EVENTS = FEW._replace(
    name="overflow",
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
    at=(4000.0,),
    few_at=(),
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
    """Return the open questions of the paper, with the results that decide them."""

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
                    "signals are lost repeatedly, as in table 1",
                    (ENDS.curve("overflows", name) >= 0.2,),
                )
                for name in ("one round", "until calm")
            ),
        ),
    )


_BEFORE = 2800.0
"""The highest rate of table 1 that is clearly below saturation."""
_TABLE = 0.01
"""Tolerance of calls per request at two rates, which differ by 0.04% in table 1."""
_AFTER = 3400.0
"""The lowest rate that is clearly above saturation."""
_LOW = 2000.0
"""The limit of "at all loads": impossible above two thirds of the saturation of RT signals."""


def _persistent_claims() -> tuple[Claim, ...]:
    def cpu(server: str, condition: Condition = FAST) -> Curve:
        return condition.curve("cpu", server)

    def replies(server: str, condition: Condition = FAST) -> Curve:
        return condition.curve("reply_rate", server)

    def response(server: str, condition: Condition = FAST) -> Curve:
        return condition.curve("request_response_ms", server)

    both = ((SLOW, 500.0), (FAST, 1000.0))
    rises = tuple(
        comparison
        for condition, _ in both
        for server in (SELECT, DEV_POLL)
        for comparison in (
            cpu(server, condition).last() >= ALL,
            cpu(server, condition).first() <= LESS * cpu(server, condition).last(),
        )
    )
    kept = tuple(
        replies(server, condition) >= KEPT * rate
        for condition, rate in both
        for server in (SELECT, RT)
    )
    lost = tuple(replies(DEV_POLL, condition).min() <= LOST * rate for condition, rate in both)
    return (
        Claim("CM01-01", "V", "E1", "reply rate",
              "select and RT signals reply to every request, with 250 to 3000 connections",
              kept, "rates to 5%", "§3, figure 3"),
        Claim("CM01-02", "V", "E1", "reply rate",
              "/dev/poll drops below the offered rate past some number of connections",
              lost, "loses a tenth", "§3, figure 3"),
        Claim("CM01-03", "V", "E1", "CPU",
              "that of select and of /dev/poll rises with connections, then saturates",
              rises, "97% is saturated", "§3, figure 4"),
        Claim("CM01-03b", "V", "E1", "CPU and reply rate",
              "select is saturated and still replies to all; /dev/poll is saturated and does not",
              (cpu(SELECT).last() >= ALL, replies(SELECT).last() >= KEPT * 1000.0,
               cpu(DEV_POLL).last() >= ALL, replies(DEV_POLL).last() <= LOST * 1000.0),
              "as 01 to 03", "§3, figures 3 and 4"),
        Claim("CM01-04 flat", "V", "E1", "CPU", "that of RT signals is the same at 250 to 3000",
              tuple(x for condition, _ in both for x in flat(cpu(RT, condition), RATE)),
              "10%; its level sets a cost", "§3, figure 4"),
        Claim("CM01-08 flat", "V", "E1", "mean response time",
              "that of RT signals is the same at 250 to 3000",
              tuple(x for condition, _ in both for x in flat(response(RT, condition), RATE)),
              "10%; its level sets the delay of the link", "§3, figure 5"),
        Claim("CM01-06", "V", "E1", "CPU", "RT signals take dramatically less at all points",
              tuple(cpu(RT, condition) <= MUCH * cpu(server, condition)
                    for condition, _ in both for server in (SELECT, DEV_POLL)),
              "at most two thirds", "§3, figure 4"),
        Claim("CM01-07", "V", "E1", "mean response time",
              "that of select and of /dev/poll rises with connections",
              tuple(response(server, condition).first() <= MUCH * response(server, condition).last()
                    for condition, _ in both for server in (SELECT, DEV_POLL)),
              "by half at least", "§3, figure 5"),
    )  # fmt: skip


def _saturates(condition: Condition, server: str) -> Quantity:
    return last_kept(condition.curve("connection_rate", server), KEPT)


def _idle_claims() -> tuple[Claim, ...]:
    def cpu(condition: Condition, server: str) -> Curve:
        return condition.curve("cpu", server)

    def replies(condition: Condition, server: str) -> Curve:
        return condition.curve("connection_rate", server)

    def response(condition: Condition, server: str) -> Curve:
        return condition.curve("response_ms", server)

    def few(figure: str, server: str = RT) -> Curve:
        return FEW.curve(figure, server)

    calls = few("signal_calls")
    scans = (SELECT, MASEL, DEV_POLL)
    signals = (RT, PER_FD)
    return (
        Claim("CM01-10", "V", "E2, E3", "reply rate",
              "select levels off at a much lower rate than RT signals",
              tuple(replies(c, SELECT).max() <= MUCH * replies(c, s).max()
                    for c in (FEW, MANY) for s in signals),
              "at most two thirds", "§4, figures 6 and 7"),
        Claim("CM01-12", "V", "E2, E3", "reply rate",
              "select that accepts all waiting connections sustains a rate similar to RT signals",
              tuple(x for c in (FEW, MANY)
                    for x in within(replies(c, MASEL).max(), replies(c, RT).max(), RATE)),
              "10%", "§4, figures 6 and 7"),
        Claim("CM01-14", "V", "E2, E3", "CPU",
              "RT signals take much less than all others, until they are saturated themselves",
              tuple(cpu(c, s).where(high=_LOW) <= MUCH * cpu(c, o).where(high=_LOW)
                    for c in (FEW, MANY) for s in signals for o in scans),
              "at most two thirds, up to 2000/s", "§4, figures 6 and 7"),
        Claim("CM01-15", "V", "E3", "CPU",
              "with 6000 idle all three scanning servers are at 100% from the lowest rate on",
              tuple(cpu(MANY, server) >= ALL for server in scans), "97%", "§4, figure 7"),
        Claim("CM01-16", "V", "E3", "CPU", "that of both RT variants is linear in the load",
              tuple(straight(cpu(MANY, s).where(high=_BEFORE)) >= LINEAR for s in signals),
              "R² of 0.98", "§4, figure 7"),
        Claim("CM01-17", "V", "E2", "saturation",
              "RT signals saturate at a slightly smaller load than signal-per-fd",
              (_saturates(FEW, RT) <= _saturates(FEW, PER_FD),
               _saturates(FEW, RT) >= (1 - COUNT) * _saturates(FEW, PER_FD),
               replies(FEW, RT).where(_AFTER).mean() < replies(FEW, PER_FD).where(_AFTER).mean()),
              "less, by at most a fifth", "§4, figure 6"),
        Claim("CM01-20", "M", "E2, 252 idle", "calls",
              "sigwaitinfo calls per request are equal at 3000/s and 2800/s, without SIGIO; from "
              "3400/s on there are as many calls as SIGIOs, 39 or 40 per run",
              (*within(calls.point(3000) / 3000, calls.point(2800) / 2800, _TABLE),
               few("overflows").where(high=3000.0) <= 0,
               *within(calls.where(_AFTER), few("overflows").where(_AFTER), COUNT),
               *within(few("overflows").where(_AFTER) * 504728 / calls.point(2800), 39.5, COUNT)),
              "calls per request to 1%: 540,576 / 3000 and 504,728 / 2800 differ by 0.04%; other "
              "counts to 20%; a run lasts as long as its 504,728 calls at 2800/s",
              "§4, table 1"),
        Claim("CM01-23", "M", "E2", "SIGIO of sigwaitinfo",
              "none up to 3000/s; at high load every call returns it",
              (few("overflows").where(high=3000.0) <= 0,
               few("overflows").where(_AFTER) >= (1 - COUNT) * calls.where(_AFTER)),
              "counts to 20%", "§4, table 1"),
        Claim("CM01-24", "V", "E2, overload", "reply rate, response time",
              "in overload RT signals behave like their fall-back, multi-accept select",
              (*within(replies(FEW, RT).where(_AFTER), replies(FEW, MASEL).where(_AFTER), SAME),
               *within(response(FEW, RT).where(_AFTER), response(FEW, MASEL).where(_AFTER), RATE)),
              "rates to 5%, times to 10%", "§4"),
        Claim("CM01-25", "V", "E2, E3", "all", "both RT variants are alike until they saturate",
              tuple(x for c in (FEW, MANY)
                    for f, band in (("cpu", SAME), ("connection_rate", SAME), ("response_ms", RATE))
                    for x in within(c.curve(f, RT).where(high=_BEFORE),
                                    c.curve(f, PER_FD).where(high=_BEFORE), band)),
              "rates and CPU to 5%, times to 10%", "§4"),
        Claim("CM01-27", "V", "E2", "mean response time",
              "select is overloaded at a relatively low load, the others at much higher ones",
              tuple(_saturates(FEW, SELECT) <= MUCH * _saturates(FEW, server)
                    for server in (MASEL, DEV_POLL, *signals)),
              "at most two thirds", "§4, figure 8"),
        Claim("CM01-28", "V", "E3", "mean response time", "select is overloaded at every load",
              (replies(MANY, SELECT) <= LOST * replies(MANY, SELECT).axis,
               response(MANY, SELECT) >= (1 / MUCH) * response(MANY, RT)),
              "a tenth is lost, and replies take 1.5 times as long", "§4, figure 9"),
        Claim("CM01-29", "V", "E2", "mean response time", "that of /dev/poll is small at low load",
              (response(FEW, DEV_POLL).first() <= 0.1 * response(FEW, SELECT).max(),),
              "a tenth of what select's becomes", "§4, figure 8"),
        Claim("CM01-30", "V", "E2", "mean response time",
              "that of multi-accept select is low up to very high loads",
              (response(FEW, MASEL).where(high=_BEFORE).max()
               <= 0.1 * response(FEW, SELECT).max(),),
              "a tenth of what select's becomes", "§4, figure 8"),
        Claim("CM01-33", "V", "E2, E3", "mean response time",
              "that of both RT variants is the lowest until they are overloaded",
              tuple(response(c, s).where(high=_BEFORE) <= response(c, o).where(high=_BEFORE)
                    for c in (FEW, MANY) for s in signals for o in scans),
              "none", "§4, figures 8 and 9"),
        Claim("CM01-35", "M", "E2", "select calls per reply, descriptors per call",
              "with multi-accept select, calls per reply fall and descriptors per call rise "
              "with load",
              (few("waits_per_reply", MASEL).last() <= MUCH * few("waits_per_reply", MASEL).first(),
               few("events_per_wait", MASEL).last()
               >= (1 / MUCH) * few("events_per_wait", MASEL).first()),
              "by half at least", "§4"),
        Claim("CM01-36", "V", "overflow", "reply rate",
              "without recovery lost events are never reported again, and the rate goes to 0",
              (replies(LOST_EVENTS, "no recovery") <= 0.05 * 4000.0,),
              "a twentieth of the offered rate, after 15 s", "§3"),
        Claim("CM01-41", "V", "overflow", "reply rate",
              "a costly way back can make an overload worse",
              (replies(LOST_EVENTS, "recovery by hand-over") < replies(LOST_EVENTS, RT),),
              "none", "§3"),
        Claim("CM01-46", "V", "overflow", "reply rate",
              "in saturation the reply rate of RT signals is that of their fall-back",
              within(replies(LOST_EVENTS, RT), replies(LOST_EVENTS, MASEL), RATE),
              "10%", "§4"),
    )  # fmt: skip


PAPER = described(
    "chandra_mosberger_2001",
    conditions=(SLOW, FAST, FEW, MANY, BIG, LOST_EVENTS),
    claims=(*_persistent_claims(), *_idle_claims()),
    questions=questions(),
)
