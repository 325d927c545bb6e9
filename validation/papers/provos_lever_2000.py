"""Provos and Lever, "Scalable Network I/O in Linux", USENIX FREENIX 2000.

A K6-2 of 400 MHz, 6 KB per connection, and 1, 251 or 501 clients that open a connection and send no
request: thttpd on poll (P), thttpd on /dev/poll (D) and phhttpd on RT signals (R).
"""

from __future__ import annotations

from collections.abc import Mapping

from .paper import (
    COUNT,
    KEPT,
    LESS,
    LOST,
    MUCH,
    POINTS,
    RATE,
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
from .quantities import Comparison, Curve, Quantity, within

_PROGRAM: dict[str, Values] = {
    "P": {"server.program": "thttpd"},
    "D": {"server.program": "thttpd_dev_poll"},
    # One handler for each event of the listener, signalled or polled, takes one connection.
    "R": {"server.program": "phhttpd_old", "server.accept_limit": 1},
}
_INACTIVE = (1, 251, 501)
_MANY = (251, 501)
_QUEUED, _UNQUEUED = "poll", "poll without wait queues"
_RATES = (500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1100.0)
_FEW_RATES = (500.0, 800.0, 1000.0, 1100.0)
_RATE = "connection_rate"
"""The rate of replies in time, as httperf counts them, one on each connection. The server also
writes replies to clients that have given up."""
_LOWER = 700.0
"""The limit of "at lower rates": the lower third of the axis."""
_EXTREME = 1100.0
"""The only rate of the axis that counts as "extreme"."""

BACKLOG = Unstated("server.backlog", 128, 1024, "", "SOMAXCONN of 2.2, and servers that raise it")
ARRIVALS = arrivals("links and its own queue disturb that")
_PATIENCE = Unstated(
    "server.request_timeout", 30, 120, "s", "request time-outs of servers of that time"
)
_UNSTATED = (TIMEOUT, BACKLOG, ARRIVALS, _PATIENCE)


def _name(program: str, inactive: int) -> str:
    return f"{program}({inactive})"


def _swept(
    name: str, servers: Mapping[str, Values], scenario: str = "provos_lever_2000"
) -> Condition:
    return Condition(
        name=name,
        scenario=scenario,
        servers=servers,
        axis="load.rate",
        at=_RATES,
        unit="/s",
        few_at=_FEW_RATES,
        unstated=_UNSTATED,
        seconds=25,
        few_seconds=15,
        warm_up_s=5,
    )


RATES = _swept(
    "500 to 1100/s",
    {
        _name(program, inactive): {**_PROGRAM[program], "idle.connections": inactive}
        for program in "PD"
        for inactive in _INACTIVE
    },
)
SIGNALS = _swept(
    "500 to 1100/s, after an overflow",
    {
        _name("R", inactive): {**_PROGRAM["R"], "idle.connections": inactive}
        for inactive in _INACTIVE
    },
    "provos_lever_2000_overflow",
)
"""Of the possible causes only an overflow slows phhttpd down: see PAPER.questions."""
HINTS = Condition(
    name="hints",
    scenario="provos_lever_2000",
    servers={
        name: {"server.mechanism": mechanism, "idle.connections": 501}
        for name, mechanism in (
            ("hinted", "dev_poll"),
            ("mapped", "dev_poll_mmap"),
            ("unhinted", "dev_poll_unhinted"),
        )
    },
    axis="load.rate",
    at=(200.0,),
    unit="/s",
    unstated=_UNSTATED,
    warm_up_s=2,
)
SIZES = HINTS._replace(
    name="document size",
    servers={
        "thttpd": {
            **_PROGRAM["P"],
            "load.rate": "20/s",
            "server.send_buffer": "65536 B",  # of Linux 2.2
        }
    },
    axis="load.reply_size",
    at=(1224.0, 6344.0, 102600.0, 205000.0),
    unit=" B",
)
WAIT_QUEUES = Condition(
    name="idle to busy",
    scenario="provos_lever_2000",
    # A server that keeps its array: a wait costs the call only.
    servers={
        name: {"server.mechanism": "poll", "idle.connections": 501} for name in (_QUEUED, _UNQUEUED)
    },
    free={_UNQUEUED: ("poll.register", "poll.release")},
    axis="load.rate",
    at=(20.0, 100.0, 200.0, 300.0, 400.0, 500.0),  # the last rate overloads it: PL00-05
    unit="/s",
    few_at=(20.0, 200.0, 500.0),
    unstated=_UNSTATED,
    few_seconds=5,
    warm_up_s=2,
)
BEFORE = _swept(
    "before an overflow",
    {
        _name("R", inactive): {**_PROGRAM["R"], "idle.connections": inactive}
        for inactive in (1, 501)
    },
)
TOGETHER = _swept(
    "inactive clients together",
    {
        "R(501)": {
            **_PROGRAM["R"],
            "idle.connections": 501,
            "server.request_timeout": "4 s",
            "server.timeout_check": "4 s",
        }
    },
)
ACCEPTS = _swept(
    "accepts",
    {
        "one": {**_PROGRAM["P"], "idle.connections": 501, "server.accept_limit": 1},
        "all": {**_PROGRAM["P"], "idle.connections": 501, "server.accept_limit": 0},
    },
)
PROPER = _swept(
    "a signal server that comes back",
    {
        "RT signals": {
            "server.program": "userver_rt_signals",
            "server.accept_limit": 0,
            "idle.connections": 501,
        },
    },
)


def _replies(program: str, inactive: int, condition: Condition | None = None) -> Curve:
    usual = SIGNALS if program == "R" else RATES
    return (condition or usual).curve(_RATE, _name(program, inactive))


def _failing(program: str, inactive: int) -> Quantity:
    """Return the share of requests without a reply; a run is longer than any time-out."""
    replies = _replies(program, inactive)
    failing = (replies.axis - replies) / replies.axis
    return failing.named(f"share without a reply of {replies.server} ({replies.condition})")


def _unanswered(program: str, inactive: int) -> Quantity:
    """Return the mean difference of request rate and reply rate."""
    replies = _replies(program, inactive)
    return (replies.axis - replies).mean()


def _worst_of_signals() -> tuple[Claim, ...]:
    best = _replies("D", 1)
    low = _replies("R", 1).where(high=_LOWER)
    return (
        Claim("PL00-13", "V", "R(1)", "reply rate",
              "as good as the best server at lower rates; falters at very high ones",
              (*within(low, best.where(high=_LOWER), RATE),
               _replies("R", 1).last() <= LOST * _EXTREME),
              "10% up to 700/s; a tenth is lost at 1100/s", "§5, figure 11"),
        Claim("PL00-15", "V", "R(501)", "reply rate",
              "affected at all rates, and worse than D(501) even at low ones",
              (_replies("R", 501) <= LESS * _replies("R", 1),
               _replies("R", 501).where(high=_LOWER)
               <= LESS * _replies("D", 501).where(high=_LOWER)),
              "5% less; low is up to 700/s", "§5, figure 13"),
        Claim("PL00-16", "V", "R(n)", "requests without a reply",
              "increase markedly with the number of inactive connections",
              (_unanswered("R", 1) < _unanswered("R", 251),
               _unanswered("R", 251) < _unanswered("R", 501),
               _unanswered("R", 1) <= MUCH * _unanswered("R", 501),
               _failing("R", 501).mean() >= POINTS),
              "at each step, by half in all, to 2% at least", "§5, figures 11 to 13"),
        Claim("PL00-17", "V", "R(n), P(n)", "reply rate",
              "phhttpd clearly outperforms stock thttpd",
              tuple(_replies("P", n).last() <= LESS * _replies("R", n).last() for n in _MANY),
              "5% less at 1100/s; for 1 inactive see PL00-01",
              "§5, figures 4, 6, 8 and 11 to 13"),
        Claim("PL00-18", "V", "R(1), D(1)", "reply rate",
              "/dev/poll scales better at high active load, with few or many inactive connections",
              (_replies("R", 1).last() <= LESS * _replies("D", 1).last(),),
              "5% less at 1100/s", "§5"),
        Claim("PL00-24", "V", "R after an overflow", "reply rate, signals taken",
              "recovery by a polling sibling melts the server down, and never ends",
              (_replies("R", 501).last() <= MUCH * _replies("R", 501, BEFORE).last(),),
              "a third is lost at 1100/s; \"never ends\" is tested as a rule", "§5"),
        Claim("PL00-29", "V", "R(501), D(501)", "reply rate",
              "where inactive connections dominate, the two differ at all rates",
              (_replies("R", 501) / _replies("D", 501)
               <= LESS * (_replies("R", 1) / _replies("D", 1)),),
              "R falls behind D by 5% more than with 1 inactive", "§6"),
    )  # fmt: skip


def _of_polls() -> tuple[Claim, ...]:
    scans = SIZES.curve("scanned_per_reply", "thttpd")
    asked, cost = "asked_per_reply", "process_ns_per_reply"
    with_queues, without = (WAIT_QUEUES.curve("ns_per_wait", s) for s in WAIT_QUEUES.servers)
    queues = (with_queues - without).named("ns of wait queues per call of poll")
    return (
        Claim("PL00-06", "V", "D(501)", "reply rate",
              "handled with ease; begins to break only at extremely high rates",
              (_replies("D", 501).where(high=1000.0)
               >= KEPT * _replies("D", 501).where(high=1000.0).axis,
               _failing("D", 501).last() >= POINTS),
              "95% up to 1000/s; 2% fail at 1100/s", "§5, figure 9"),
        Claim("PL00-08", "V", "P(n), D(n)", "mean reply rate",
              "stock thttpd is lower in all cases; it falls as inactive connections or rate "
              "increase",
              (*(_replies("P", n).mean() < _replies("D", n).mean() for n in _MANY),
               *(_replies("P", n).last() <= LOST * _EXTREME for n in _MANY)),
              "none; a tenth is lost at 1100/s; for 1 inactive see PL00-01 and -02", "§5"),
        Claim("PL00-09", "V", "P(501)", "connections that fail",
              "rise slowly with the rate, to 60%",
              (_failing("P", 501).first() < _failing("P", 501).last(),
               *within(_failing("P", 501).last(), 0.6, COUNT)),
              "failed connections are counts: 20%; see also PL00-05", "§5"),
        Claim("PL00-11", "V", "P(n), D(n)", "mean reply rate",
              "decreases as the number of inactive connections increases",
              tuple(_replies(s, more).mean() < _replies(s, less).mean()
                    for s in "PD" for less, more in ((1, 251), (251, 501))),
              "none", "§5"),
        Claim("PL00-21", "M", "D(501)", "CPU per reply",
              "the mapped result area gains less than state and hints in the kernel",
              (HINTS.curve(cost, "hinted") - HINTS.curve(cost, "mapped")
               <= MUCH * (HINTS.curve(cost, "unhinted") - HINTS.curve(cost, "hinted")),),
              "at most two thirds", "§3"),
        Claim("PL00-22", "M", "D(501)", "descriptors per reply queried without result",
              "hints greatly reduce them",
              (HINTS.curve(asked, "hinted") <= MUCH * HINTS.curve(asked, "unhinted"),),
              "at most two thirds", "§3"),
        Claim("PL00-28", "V", "P(251)", "descriptors scanned per reply",
              "larger documents keep descriptors active for longer, which makes polling slower",
              (scans.first() <= MUCH * scans.last(),),
              "at most two thirds", "§5"),
        Claim("M24", "M", "poll, 501 inactive", "CPU of wait queues per call of poll",
              "poll enters a wait queue for each descriptor until it finds one ready; the cost per "
              "call is highest when the server is idle",
              (queues <= queues.first(), queues.last() < (1 - COUNT) * queues.first()),
              "highest at 20/s; lower by a fifth at 500/s, where the server is overloaded", "§6"),
    )  # fmt: skip


def _suffers(condition: Condition) -> Comparison:
    return _replies("R", 501, condition) <= LESS * _replies("D", 501)


_POOR = {
    name: (ACCEPTS.curve(_RATE, name) <= LOST * ACCEPTS.curve(_RATE, name).axis,)
    for name in ("one", "all")
}

PAPER = described(
    "provos_lever_2000",
    conditions=(RATES, SIGNALS, BEFORE, HINTS, SIZES, WAIT_QUEUES),
    claims=(*_of_polls(), *_worst_of_signals()),
    questions=(
        Question(
            "signals and inactive connections",
            "Why do inactive connections, without any events, slow phhttpd down?",
            (TOGETHER,),
            (
                Hypothesis(
                    "polls for ever",
                    "after one overflow it stays with poll and rebuilds its array",
                    (_suffers(SIGNALS), _replies("R", 1) >= KEPT * _replies("R", 1, BEFORE)),
                ),
                Hypothesis(
                    "signals alone",
                    "it slows down although signals report all events and none is lost",
                    (_suffers(BEFORE),),
                ),
                Hypothesis(
                    "together",
                    "the server closes all inactive connections at once, and they reconnect at "
                    "once, too many for the signal queue",
                    (_suffers(TOGETHER),),
                ),
            ),
        ),
        Question(
            "accepts of thttpd",
            "Does it accept one connection per event of the listener, or all?",
            (ACCEPTS,),
            tuple(
                Hypothesis(name, f"{name}: its reply rate is low at every load (PL00-05)", expects)
                for name, expects in _POOR.items()
            ),
        ),
        Question(
            "signals or /dev/poll",
            "Are RT signals never better, as in this paper, or do they scale (Chandra and "
            "Mosberger 2001)?",
            (PROPER,),
            (
                Hypothesis(
                    "it is the server",
                    "signals do as well as /dev/poll if the server recovers from an overflow and "
                    "accepts all waiting connections",
                    (PROPER.curve(_RATE, "RT signals") >= KEPT * _replies("D", 501),
                     PROPER.curve("cpu", "RT signals") <= RATES.curve("cpu", "D(501)") + POINTS),
                ),
                Hypothesis(
                    "it is the signals",
                    "they are worse than /dev/poll with any server",
                    (PROPER.curve(_RATE, "RT signals") <= LESS * _replies("D", 501),),
                ),
            ),
        ),
    ),
)  # fmt: skip
