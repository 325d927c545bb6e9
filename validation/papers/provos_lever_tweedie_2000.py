"""Provos, Lever and Tweedie, "Analyzing the Overload Behavior of a Simple Web Server", ALS 2000.

The K6-2 of `provos_lever_2000`, phhttpd 0.1.2 and 1 KB per connection: one signal per call, many
per call, and a limiter that resets new connections while calls return many signals.
"""

from __future__ import annotations

from .paper import (
    DROP,
    LESS,
    MUCH,
    RATE,
    TIMEOUT,
    Claim,
    Condition,
    Hypothesis,
    Question,
    described,
)
from .provos_lever_2000 import ARRIVALS, BACKLOG
from .quantities import Curve, flat, within

ONE, MANY, LIMITED = "sigwaitinfo", "sigtimedwait4", "limited"
_EACH = {"server.accept_each_signal": True}
_PROGRAM = {
    ONE: {"server.program": "phhttpd"},
    MANY: {"server.program": "phhttpd_sigtimedwait4"},
    LIMITED: {"server.program": "phhttpd_limited"},
}
_BARE = {
    "server.mechanism": "rt_signals",
    "server.read_after_accept": True,
    "server.remembers": False,
    **_EACH,
}
"""The settings of phhttpd that variants start from."""
_RATES = (800.0, 1000.0, 1200.0, 1300.0, 1400.0, 1500.0, 1600.0, 1700.0, 1800.0)
_UNSTATED = (TIMEOUT, BACKLOG, ARRIVALS)
_RATE = "connection_rate"
"""The rate of replies in time. The server also writes replies to clients that have given up."""
_TENTH = 0.1
"""Largest share of the other for "much, much less" (a double sign in the register)."""

CURVES = Condition(
    name="graphs 1 to 4",
    scenario="provos_lever_tweedie_2000",
    servers=_PROGRAM,
    axis="load.rate",
    at=_RATES,
    unit="/s",
    few_at=(800.0, 1200.0, 1400.0, 1600.0, 1800.0),
    unstated=_UNSTATED,
    seconds=25,
    few_seconds=15,
    warm_up_s=5,
)
BATCHES = CURVES._replace(
    name="signals a call",
    servers={
        f"{n} signals": {
            "server.mechanism": "sigtimedwait4",
            "server.max_events": n,
            "server.read_after_accept": True,
            "server.remembers": False,
            **_EACH,
        }
        for n in (10, 100, 500)
    },
    few_at=(800.0, 1400.0, 1800.0),
)
INACTIVE = Condition(
    name="inactive",
    scenario="provos_lever_tweedie_2000",
    servers={
        f"{rate}/s": {**_PROGRAM[ONE], "load.rate": f"{rate}/s", "server.request_timeout": "60 s"}
        for rate in (500, 1000)
    },
    axis="idle.connections",
    at=(1.0, 251.0, 501.0, 1001.0),
    few_at=(1.0, 501.0),
    unstated=_UNSTATED,
    few_seconds=5,
    warm_up_s=2,
)
BURSTS = Condition(
    name="bursts",
    scenario="provos_lever_tweedie_2000",
    servers={
        LIMITED: _PROGRAM[LIMITED] | {"server.backlog": 1024},
        "kernel drops": _PROGRAM[MANY] | {"server.backlog_full": "refuse"},
    },
    axis="load.rate",
    at=(400.0, 600.0, 800.0),
    unit="/s",
    also={
        rate: {
            "load.arrivals": "bursts",
            "load.burst_length": "200 ms",
            "load.burst_gap": "800 ms",
            "load.burst_factor": 10,
        }
        for rate in (400.0, 600.0, 800.0)
    },
    unstated=_UNSTATED,
    seconds=20,
    few_seconds=20,
    warm_up_s=2,
)
RECOVERY = Condition(
    name="recovery",
    scenario="provos_lever_tweedie_2000",
    servers={
        "sibling": {**_BARE, "server.recovery_thread": "sibling"},
        "same thread": _BARE,
        "array kept": {**_BARE, "server.recovery_array": "kept"},
    },
    axis="load.rate",
    at=(50.0,),
    unit="/s",
    also={50.0: {"idle.connections": 501, "server.signals_elsewhere": 1024}},
    unstated=_UNSTATED,
    few_seconds=5,
    warm_up_s=2,
)
SHARED = RECOVERY._replace(
    name="queue of all processes",
    servers={
        "alone": _PROGRAM[ONE],
        "beside one that does not drain": {**_PROGRAM[ONE], "server.signals_elsewhere": 1024},
    },
    at=(500.0,),
    also={},
)
STALL = Condition(
    name="stall",
    scenario="provos_lever_tweedie_2000_stall",
    servers={"phhttpd": _PROGRAM[ONE]},
    axis="load.rate",
    at=(800.0,),
    unit="/s",
    unstated=(ARRIVALS,),
    few_seconds=10,
    warm_up_s=1,
)
LONG_QUEUE = CURVES._replace(
    name="long queue",
    servers={
        name: {**_PROGRAM[name], "server.backlog": 4096, "load.timeout": "1 s"}
        for name in (ONE, LIMITED)
    },
    few_at=(800.0, 1400.0, 1800.0),
    unstated=(ARRIVALS,),
)
TRIPS = RECOVERY._replace(
    name="read after accept",
    servers={
        "at once": _BARE,
        "when notified": {**_BARE, "server.read_after_accept": False},
    },
    at=(200.0, 500.0),  # "usually": a server that is behind has several events in a loop anyway
    also={},
)
SIZES = RECOVERY._replace(
    name="document size",
    servers={
        "polling": {
            "server.mechanism": "poll",
            "server.array": "rebuilt",
            "load.rate": "20/s",
            "idle.connections": 251,
            "server.send_buffer": "65536 B",  # of Linux 2.2
        }
    },
    axis="load.reply_size",
    at=(1224.0, 6344.0, 102600.0, 205000.0),
    unit=" B",
    also={},
)


def _replies(server: str, condition: Condition = CURVES) -> Curve:
    return condition.curve(_RATE, server)


def _curves() -> tuple[Claim, ...]:
    def share(name: str) -> Curve:
        return CURVES.curve(f"{name}_share", ONE).where(1200, 1400)

    def asks(server: str) -> Curve:
        return CURVES.curve("asks", server).where(_RATES[-1])

    def notices(server: str) -> Curve:
        return CURVES.curve("notices", server).where(_RATES[-1])

    def picking_up(server: str) -> Curve:
        return CURVES.curve("wait_share", server).where(_RATES[-1])

    serving = share("accept") + share("read") + share("user") + share("write") + share("close")
    sizes = [_replies(name, BATCHES) for name in BATCHES.servers]
    return (
        Claim("PT00-01", "V", "E1, E2", "reply rate",
              "many signals per call give little improvement",
              (*within(_replies(MANY).max(), _replies(ONE).max(), RATE),
               *within(_replies(MANY).mean(), _replies(ONE).mean(), RATE)),
              "10%", "§5, graphs 1 and 2"),
        Claim("PT00-02", "V", "E2", "reply rate",
              "the number of signals per call changes behaviour only little",
              tuple(x for other in sizes[:-1]
                    for x in (*within(other.max(), sizes[-1].max(), RATE),
                              *within(other.mean(), sizes[-1].mean(), RATE))),
              "10%", "§5"),
        Claim("PT00-04", "M", "E1", "CPU shares",
              "accepting, reading and responding take far more than picking up signals",
              (share("wait") <= _TENTH * serving,),
              "at most a tenth", "§5"),
        Claim("PT00-05", "V", "E1, E2", "reply rate",
              "without a limiter it drops sharply past the knee",
              tuple(_replies(server).last() <= DROP * _replies(server).max()
                    for server in (ONE, MANY)),
              "to 70% of the peak", "§5, graphs 1 and 2"),
        Claim("PT00-06", "V", "E3", "reply rate",
              "with the limiter it levels off, then declines slowly",
              (_replies(LIMITED).last() >= DROP * _replies(LIMITED).max(),
               *within(_replies(LIMITED).max(), _replies(MANY).max(), RATE)),
              "70% of the peak remains", "§5, graph 3"),
        Claim("PT00-24", "M", "E1, E2", "calls per signal, CPU to pick them up",
              "one call picks up many waiting signals, which saves calls",
              (asks(MANY) <= _TENTH * notices(MANY), picking_up(MANY) <= LESS * picking_up(ONE)),
              "a tenth; 5% less of the CPU", "§3, §5"),
    )  # fmt: skip


def _others() -> tuple[Claim, ...]:
    def cost(server: str) -> Curve:
        return RECOVERY.curve("process_ns_per_reply", server)

    def overflows(server: str) -> Curve:
        return SHARED.curve("overflows", server)

    steady = tuple(
        x
        for server in INACTIVE.servers
        for x in (
            *flat(INACTIVE.curve(_RATE, server), RATE),
            MUCH * INACTIVE.curve("response_ms", server).max()
            <= INACTIVE.curve("response_ms", server).min(),
        )
    )
    scans = SIZES.curve("scanned_per_reply", "polling")
    return (
        Claim("PT00-11", "V", "bursts", "connections that fail",
              "a kernel that drops what the backlog cannot hold handles bursts less gracefully",
              (BURSTS.curve("error_share", LIMITED).mean()
               < BURSTS.curve("error_share", "kernel drops").mean(),),
              "none", "§5"),
        Claim("PT00-12", "V", "0.1.2, inactive", "reply rate, response time",
              "does not get significantly worse with inactive connections",
              steady, "10% of the rate, half of the time", "§4"),
        Claim("PT00-13", "M", "an overflow per connection", "CPU per reply",
              "a hand-over has a considerable overhead, recovery in the same thread less, and with "
              "an up-to-date array still less",
              (cost("same thread") <= MUCH * cost("sibling"),
               cost("array kept") <= LESS * cost("same thread")),
              "a third; 5%", "§2"),
        Claim("PT00-14", "M", "E1", "loops per reply",
              "reading at once after an accept usually saves a loop",
              (TRIPS.curve("waits_per_reply", "at once")
               <= MUCH * TRIPS.curve("waits_per_reply", "when notified"),),
              "a third", "§2"),
        Claim("PT00-16", "V", "document size", "descriptors scanned per reply",
              "larger documents keep descriptors active for longer, so more are examined",
              (scans.first() <= MUCH * scans.last(),),
              "at most two thirds", "§4"),
        Claim("PT00-21", "S", "queue of all processes", "overflows",
              "a process that does not drain a shared queue forces the others into recovery",
              (overflows("alone") <= 0, overflows("beside one that does not drain") > 0),
              "none", "§2"),
        Claim("PT00-22", "V", "stall", "overflows",
              "latencies can overflow the queue even where the mean capacity suffices",
              (STALL.curve("overflows", "phhttpd") > 0,
               CURVES.curve("overflows", ONE).where(high=800.0) <= 0,
               *within(_replies("phhttpd", STALL), 800.0, RATE)),
              "10%", "§2"),
    )  # fmt: skip


PAPER = described(
    "provos_lever_tweedie_2000",
    conditions=(
        *(CURVES, BATCHES, INACTIVE, BURSTS, RECOVERY, SHARED, STALL, TRIPS, SIZES),
    ),
    claims=(*_curves(), *_others()),
    questions=(
        Question(
            "what limits phhttpd",
            "The earlier paper predicts that one call per signal is the limit; this one finds that "
            "calls for many signals hardly help. Which is right?",
            (),
            (
                Hypothesis(
                    "the calls",
                    "many signals per call raise the peak by a tenth at least",
                    (_replies(MANY).max() >= (1 + RATE) * _replies(ONE).max(),),
                ),
                Hypothesis(
                    "the requests",
                    "they do not, and calls for signals take at most a tenth of the rest",
                    (_replies(MANY).max() < (1 + RATE) * _replies(ONE).max(),
                     CURVES.curve("wait_share", ONE).max() <= _TENTH),
                ),
            ),
        ),
        Question(
            "drop past the knee",
            "Why does the reply rate drop sharply if nothing limits accepted connections?",
            (LONG_QUEUE,),
            (
                Hypothesis(
                    "requests of clients that have given up",
                    "the queue holds more connections than the server serves within the client "
                    "time-out, so all are served late; the limiter keeps the queue short",
                    (_replies(ONE, LONG_QUEUE).last() <= DROP * _replies(ONE, LONG_QUEUE).max(),
                     _replies(LIMITED, LONG_QUEUE).last()
                     >= DROP * _replies(LIMITED, LONG_QUEUE).max()),
                ),
                Hypothesis(
                    "interrupts",
                    "rejecting connections in the kernel takes CPU time, with queues of any length",
                    (_replies(ONE).last() <= DROP * _replies(ONE).max(),),
                ),
            ),
        ),
    ),
)  # fmt: skip
