"""Gammo et al., "Comparing and Evaluating epoll, select, and poll Event Mechanisms", 2004.

By Gammo, Brecht, Shukla and Pariag, at the Linux Symposium.

A Xeon of 2.4 GHz, one server (userver) with exchangeable event mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping

from .paper import (
    COUNT,
    LESS,
    POINTS,
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
from .quantities import Comparison, Curve, Quantity, near, within

SELECT, POLL, LEVEL = "select", "poll", "epoll-LT"
EDGE, VECTOR = "epoll-ET", "epoll-ctlv"
_BY_CLOSE, _TEN, _UNTRACKED = "epoll-LT, closed", "epoll-LT, 10 accepts", "epoll-ET, not tracked"
_PROGRAM = {
    SELECT: {"server.program": "userver_2004_select"},
    POLL: {"server.program": "userver_2004_poll"},
    LEVEL: {"server.program": "userver_epoll_level"},
    EDGE: {"server.program": "userver_epoll_edge"},
    VECTOR: {"server.program": "userver_epoll_ctlv"},
}
_EPOLLS = (LEVEL, EDGE, VECTOR)
_PROFILED = 22_000.0
"""Requests per second of table 1."""
_RATES = (10_000.0, 15_000.0, 18_000.0, 20_000.0, _PROFILED, 26_000.0, 30_000.0)
_FEW = (_PROFILED, 30_000.0)

_ARRIVALS = arrivals("eight of them together are between even and random")
_REQUESTS = Unstated("load.requests", 4, 12, "", "SPECweb99 clients send about ten on a connection")


def _one_byte(name: str, servers: Mapping[str, Values], idle: int = 0) -> Condition:
    return Condition(
        name=name,
        scenario="gammo_2004_one_byte",
        servers={server: {**keys, "idle.connections": idle} for server, keys in servers.items()},
        axis="load.rate",
        at=_RATES,
        unit="/s",
        few_at=_FEW,
        free={_UNTRACKED: ("epoll_edge.event_ns",)} if _UNTRACKED in servers else {},
        unstated=(TIMEOUT, _ARRIVALS),
        seconds=2.4,
        few_seconds=1.4,
        warm_up_s=0.6,
    )


PLAIN = _one_byte("one byte", _PROGRAM)
IDLE = _one_byte("one byte, 10,000 idle", _PROGRAM, 10_000)
OTHERWISE = _one_byte(
    "one byte, other servers",
    {
        _TEN: _PROGRAM[LEVEL] | {"server.accept_limit": 10},
        _BY_CLOSE: {"server.program": "userver_epoll_close"},
        _UNTRACKED: _PROGRAM[EDGE],
    },
)
FILES = Condition(
    name="files",
    scenario="gammo_2004_static_files",
    servers=_PROGRAM,
    axis="load.rate",
    at=(500.0, 1000.0, 1500.0, 2000.0, 2500.0, 3500.0),
    unit="/s",
    few_at=(1000.0, 2500.0),
    unstated=(TIMEOUT, _ARRIVALS, _REQUESTS),
    seconds=3,
    few_seconds=1.4,
    warm_up_s=0.6,
)


def _slightly_less(less: Quantity, more: Quantity) -> tuple[Comparison, ...]:
    """Return the comparisons for "*less* is as good as *more*, or slightly worse"."""
    return (less <= (1 + SAME) * more, less >= (1 - COUNT) * more)


def _replies(server: str, condition: Condition = PLAIN) -> Curve:
    return condition.curve("reply_rate", server)


def _profiled(figure: str, server: str) -> Curve:
    return PLAIN.curve(figure, server).point(_PROFILED)


def _cpu_of_a_reply(condition: Condition, server: str) -> Quantity:
    """Return the CPU time of a reply in seconds, at the load of the profile."""
    cpu, replies = (condition.curve(figure, server) for figure in ("cpu", "reply_rate"))
    return cpu.point(_PROFILED) / replies.point(_PROFILED)


def _throughput_claims() -> tuple[Claim, ...]:
    def peak(server: str, condition: Condition = PLAIN) -> Quantity:
        return _replies(server, condition).max()

    def lost(server: str) -> Quantity:
        return ((_replies(server) - _replies(server, IDLE)) / _replies(server)).max()

    ten, closed = (_replies(server, OTHERWISE) for server in (_TEN, _BY_CLOSE))
    return (
        Claim("G04-01", "V", "G-E1", "reply rate",
              "select and poll are as good as epoll-LT, or slightly better",
              tuple(x for s in (SELECT, POLL) for x in _slightly_less(peak(LEVEL), peak(s))),
              "better by at most a fifth", "§3.1, figure 1"),
        Claim("G04-02a", "V", "G-E2", "reply rate", "with files select and poll are as good as LT",
              tuple(peak(s, FILES) >= (1 - SAME) * peak(LEVEL, FILES) for s in (SELECT, POLL)),
              "5%", "§3.1, figure 2"),
        Claim("G04-03", "V", "G-E1", "reply rate",
              "ET and ctlv improve only slightly on LT",
              tuple(x for s in (EDGE, VECTOR)
                    for x in (peak(s) >= (1 - SAME) * peak(LEVEL),
                              peak(s) <= (1 + RATE) * peak(LEVEL))),
              "10%", "§3.2, figure 3"),
        Claim("G04-04", "V", "G-E1", "reply rate",
              "select and poll are equal to each epoll technique, or slightly better",
              tuple(x for s in (SELECT, POLL) for e in _EPOLLS
                    for x in _slightly_less(peak(e), peak(s))),
              "better by at most a fifth", "§3.2, figure 3"),
        Claim("G04-05", "V", "G-E1", "reply rate", "poll is nearly identical to select",
              within(_replies(POLL), _replies(SELECT), SAME), "5%", "§3.2"),
        Claim("G04-19", "V", "G-E2", "reply rate", "with files all are very similar",
              tuple(x for s in (SELECT, POLL, EDGE, VECTOR)
                    for x in within(_replies(s, FILES), _replies(LEVEL, FILES), SAME)),
              "5%", "§3.2, figure 4"),
        Claim("G04-20", "V", "G-E3", "reply rate",
              "with 10,000 idle select and poll lose up to 79%",
              tuple(x for s in (SELECT, POLL) for x in near(lost(s), 0.79, RATE * 0.79)),
              "10%, at the load with the largest loss", "§3.3, figure 5"),
        Claim("G04-22", "V", "G-E3", "reply rate",
              "with 10,000 idle LT is slightly reduced, ET is not impacted",
              (peak(LEVEL, IDLE) < peak(LEVEL), peak(LEVEL, IDLE) >= (1 - RATE) * peak(LEVEL),
               *within(peak(EDGE, IDLE), peak(EDGE), SAME)),
              "10%; 5%", "§3.3, figure 5"),
        Claim("G04-24", "V", "G-E3", "reply rate", "with 10,000 idle ET is best, LT very close",
              (*(peak(EDGE, IDLE) >= peak(s, IDLE) for s in (SELECT, POLL, LEVEL, VECTOR)),
               peak(LEVEL, IDLE) >= (1 - SAME) * peak(EDGE, IDLE)),
              "5%", "§3.3, figure 5"),
        Claim("G04-26", "V", "G-E5", "reply rate",
              "LT that accepts 10 at a time is markedly better than one that accepts all, and "
              "matches select",
              (ten.last() >= (1 / LESS) * _replies(LEVEL).last(),
               *within(ten.last(), _replies(SELECT).last(), RATE)),
              "by 5% at least; 10%", "§4, figure 7"),
        Claim("G04-32", "V", "any epoll", "time in close, reply rate",
              "leaving the removal to close() makes close() slower and changes nothing else",
              (OTHERWISE.curve("close_share", _BY_CLOSE).point(_PROFILED)
               > _profiled("close_share", LEVEL),
               *within(closed.max(), peak(LEVEL), SAME)),
              "5%", "§2"),
    )  # fmt: skip


def _profile_claims() -> tuple[Claim, ...]:
    def row(server: str, **shares: float) -> tuple[Comparison, ...]:
        return tuple(
            x
            for name, share in shares.items()
            for x in near(_profiled(f"{name}_share", server), share, POINTS)
        )

    def others(server: str) -> Quantity:
        return _profiled("user_share", server) + _profiled("interrupt_share", server)

    def share(figure: str, server: str) -> Curve:
        return _profiled(f"{figure}_share", server)

    calls, at = "change_calls_per_reply", _profiled
    # Here the wait of select and poll includes the user code of their sets; the row has the call
    # alone. The amount was assumed for select, and poll is compared by the difference.
    waits = near(share("obtain", POLL) - share("obtain", SELECT), 0.1332 - 0.1333, POINTS)
    poll = (
        *row(POLL, read=0.2097, close=0.1479, accept=0.1020, write=0.0570 + 0.0343),
        *waits,
        *near(others(POLL) - others(SELECT), (0.1068 + 0.0361 + 0.1730)
              - (0.1117 + 0.0366 + 0.1594), POINTS),
    )  # fmt: skip
    vector = (
        *row(VECTOR, read=0.2141, close=0.1490, accept=0.0976, write=0.0510 + 0.0271,
             obtain=0.0601, change=0.0598 + 0.0928),
        *near(others(VECTOR), 0.0913 + 0.0337 + 0.1235, POINTS),
    )  # fmt: skip
    # The wait with ET includes the server's state tracking, which is user code. A server with free
    # tracking shows its amount.
    tracked = 1 - _cpu_of_a_reply(OTHERWISE, _UNTRACKED) / _cpu_of_a_reply(PLAIN, EDGE)
    edge = (
        *row(EDGE, read=0.2219, close=0.1414, accept=0.0930, write=0.0531 + 0.0391, change=0.1106),
        *near(share("obtain", EDGE) - tracked, 0.0652, POINTS),
        *near(others(EDGE) + tracked, 0.0908 + 0.0334 + 0.1515, POINTS),
    )  # fmt: skip
    return (
        *(Claim(f"G04-06 {name}", "M", "G-EP", "profile", f"table 1, column {name}", column_,
                "each row to 2 points; setsockopt, fcntl and unlisted rows are user code and "
                "interrupts here", "§3.2, table 1")
          for name, column_ in (("poll", poll), ("ctlv", vector), ("ET", edge))),
        Claim("G04-07", "M", "G-EP", "share of the wait", "poll takes about 13%, as select does",
              waits, "2 points off select",
              "§3.2, table 1"),
        Claim("G04-08", "M", "G-EP", "share of epoll's calls", "ctlv: 21.27%, ET: 17.58%",
              (*near(share("obtain", VECTOR) + share("change", VECTOR), 0.2127, POINTS),
               *near(share("obtain", EDGE) + share("change", EDGE) - tracked, 0.1758, POINTS)),
              "2 points", "§3.2, table 1"),
        Claim("G04-09", "M", "G-EP", "reply rate and share of the calls",
              "epoll's calls take a larger share of time than select's, without a lower rate",
              tuple(x for server in _EPOLLS
                    for x in (share("obtain", server) + share("change", server)
                              >= share("obtain", SELECT),
                              at("reply_rate", server) >= (1 - RATE) * at("reply_rate", SELECT))),
              "10%", "§3.2"),
        Claim("G04-11", "M", "G-EP", "share of epoll_ctl",
              "less with ctlv and ET than with LT; other rows grow instead",
              (share("unwatch", VECTOR) <= LESS * share("change", LEVEL),
               share("change", EDGE) <= LESS * share("change", LEVEL),
               *(share("read", server) >= share("read", LEVEL) for server in (VECTOR, EDGE))),
              "5%", "§3.2, table 1"),
        Claim("G04-16", "M", "G-EP", "crossings, share of epoll_ctl and ctlv",
              "ctlv makes fewer system calls and is no better: 15.26% of the time, LT 16.34%",
              (at(calls, VECTOR) <= LESS * at("changes_per_reply", LEVEL),
               *near(share("change", VECTOR), 0.1526, POINTS),
               *within(at("reply_rate", VECTOR), at("reply_rate", LEVEL), RATE)),
              "2 points; 10%", "§3.2"),
        Claim("G04-17", "M", "G-EP", "share of epoll_ctl",
              "11% with ET, 16% with LT; no appreciable gain in the reply rate",
              (*near(share("change", EDGE), 0.1106, POINTS),
               *within(at("reply_rate", EDGE), at("reply_rate", LEVEL), RATE)),
              "2 points; 10%", "§3.2"),
        Claim("G04-18", "M", "G-EP", "share of user code", "ET tracks states for 2% of the time",
              (tracked > 0, *near(tracked, 0.02, POINTS)), "2 points", "§3.2"),
    )  # fmt: skip


def _backlogs(programs: Mapping[str, Values], idle: int, name: str) -> Condition:
    backlogs = {"backlog 128": 128, "backlog 512": 512, "backlog 2048": 2048}
    keys = {**programs[SELECT], "idle.connections": idle}
    condition = _one_byte(name, {})
    return condition._replace(
        servers={label: {**keys, "server.backlog": backlog} for label, backlog in backlogs.items()},
        at=(_PROFILED, 30_000.0),
        few_at=(_PROFILED,),
        scenario="gammo_2004_one_byte",
    )


ALONE, AMONG = (_backlogs(_PROGRAM, n, f"backlogs, {n} idle") for n in (0, 10_000))


def _loses(backlog: str) -> tuple[Comparison, ...]:
    alone, among = (c.curve("reply_rate", backlog).point(_PROFILED) for c in (ALONE, AMONG))
    return near((alone - among) / alone, 0.79, RATE * 0.79)


BACKLOG = Question(
    name="select's batch",
    asks="Select loses up to 79% with 10,000 idle, so a call finds few ready descriptors although "
    "more and more wait. What limits them?",
    conditions=(ALONE, AMONG),
    hypotheses=(
        Hypothesis("the kernel's 128", "a backlog that Linux cuts to 128", _loses("backlog 128")),
        Hypothesis("512", "a kernel with a backlog limit of 512", _loses("backlog 512")),
        Hypothesis("2048", "a kernel with a backlog limit of 2048", _loses("backlog 2048")),
    ),
)

PAPER = described(
    "gammo_2004",
    conditions=(PLAIN, IDLE, OTHERWISE, FILES),
    claims=(*_throughput_claims(), *_profile_claims()),
    questions=(BACKLOG,),
)
