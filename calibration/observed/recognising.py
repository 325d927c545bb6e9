"""Recognise from its system calls how a server waits for events and accepts connections.

    waits ──────────── which call, how many events ─► mechanism
    epoll_ctl ──────── ET, ONESHOT, OUT, DEL
    accept ─────────── how many for one wait ───────► accept limit
    read, write ... ── for each reply ──────────────► calls of a request, of a connection

What cannot be seen is None; `unknown` lists what the user has to add.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .tracers import Call

_WAITS = {
    "select": "select",
    "pselect6": "select",
    "poll": "poll",
    "ppoll": "poll",
    "epoll_wait": "epoll",
    "epoll_pwait": "epoll",
    "epoll_pwait2": "epoll",
    "rt_sigtimedwait": "rt_signals",
    "io_uring_enter": "io_uring",
}
ACCEPTS = {"accept", "accept4"}
_READS = {"read", "recv", "recvfrom", "recvmsg", "readv"}
_WRITES = {"write", "send", "sendto", "sendmsg", "writev", "sendfile", "sendfile64"}
_MANY = 10
_SHARE = 0.9


@dataclass(frozen=True)
class Recognised:
    """What the calls of a server show.

    Attributes
    ----------
    mechanism:
        Its name in the catalogue; None: not recognised.
    accept_limit:
        Connections accepted for one event of the listener; 0: until the queue is empty.
    reads_after_accept:
        Whether it reads from a connection before it waits again.
    closes_first:
        Whether it closes connections before their clients do.
    threads:
        Threads that serve connections.
    hands_over:
        Whether another thread accepts connections and wakes the serving threads.
    events_per_wait:
        The mean number of events that a wait returns.
    calls_per_request, calls_per_connection:
        All calls by name, divided by requests and by connections.
    unknown:
        What could not be seen, one sentence each.
    """

    mechanism: str | None
    accept_limit: int | None
    reads_after_accept: bool | None
    closes_first: bool | None
    threads: int
    hands_over: bool
    events_per_wait: float
    calls_per_request: dict[str, float]
    calls_per_connection: dict[str, float]
    unknown: tuple[str, ...]


def recognise(calls: Sequence[Call], n_requests: int) -> Recognised:
    """Return what *calls* show of the server that served *n_requests* with them.

    Raises
    ------
    ValueError
        If there is no request.
    """
    if n_requests < 1:
        raise ValueError(f"n_requests must be at least 1, got {n_requests}")
    accepted = [call for call in calls if call.name in ACCEPTS and call.result >= 0]
    connections = {call.result for call in accepted}
    servers = _servers(calls)
    accepters = {call.thread for call in accepted}
    own = [call for call in calls if call.thread in servers]
    waits = [call for call in own if call.name in _WAITS]
    mechanism, unknown = _mechanism(waits, calls, connections)
    limit = _accept_limit(calls, accepters)
    if limit is None:
        unknown.append(
            "how many connections it accepts at a time: too few came together (server.accept_limit)"
        )
    returned = [call.result for call in waits if call.result > 0]
    per_request, per_connection = _rates(calls, n_requests, len(accepted))
    return Recognised(
        mechanism=mechanism,
        accept_limit=limit,
        reads_after_accept=_reads_after_accept(own) if servers == accepters else None,
        closes_first=_closes_first(own, connections),
        threads=len(servers),
        hands_over=not servers & accepters and bool(servers),
        events_per_wait=sum(returned) / len(returned) if returned else 0.0,
        calls_per_request=per_request,
        calls_per_connection=per_connection,
        unknown=tuple(unknown),
    )


def _mechanism(
    waits: Sequence[Call], calls: Sequence[Call], connections: set[int]
) -> tuple[str | None, list[str]]:
    kinds = Counter(_WAITS[call.name] for call in waits)
    if not kinds:
        blocking = any(call.name in _READS and call.fd in connections for call in calls)
        if blocking:
            return "blocking", []
        return None, ["how it waits for events: no waiting call was seen (server.mechanism)"]
    kind, count = kinds.most_common(1)[0]
    unknown = []
    if count < _SHARE * sum(kinds.values()):
        others = ", ".join(sorted(set(kinds) - {kind}))
        unknown.append(f"it mostly waits with {kind}, but also with {others}")
    if kind != "epoll":
        return kind, unknown
    mechanism = _epoll(calls, connections)
    if mechanism is None:
        unknown.append(
            "how it uses epoll: the flags of epoll_ctl are not visible (server.mechanism)"
        )
    return mechanism, unknown


def _epoll(calls: Iterable[Call], connections: set[int]) -> str | None:
    """Return the epoll mechanism; None where the trace has no flags."""
    changes = [call for call in calls if call.name == "epoll_ctl" and call.result == 0]
    told = []
    n_added, n_deleted = 0, 0
    for call in changes:
        match = re.match(
            r"\d+, EPOLL_CTL_(ADD|MOD|DEL), (\d+)(?:, \{events=([A-Z|]+))?", call.arguments
        )
        if match and int(match[2]) in connections:
            n_added += match[1] == "ADD"
            n_deleted += match[1] == "DEL"
            if match[3]:
                told.append(set(match[3].split("|")))
    if n_added and not told:
        return None
    if any("EPOLLONESHOT" in flags for flags in told):
        return "epoll_oneshot"
    if any("EPOLLET" in flags for flags in told):
        return "epoll_edge"
    if told and all({"EPOLLIN", "EPOLLOUT"} <= flags for flags in told):
        return "epoll_once"
    return "epoll_level" if n_deleted else "epoll_close"


def n_replies(calls: Iterable[Call]) -> int:
    """Return how many writes to connections *calls* hold: one for each reply."""
    connections: set[int] = set()
    n_written = 0
    for call in calls:
        if call.name in ACCEPTS and call.result >= 0:
            connections.add(call.result)
        n_written += call.name in _WRITES and call.fd in connections and call.result > 0
    return n_written


def _servers(calls: Sequence[Call]) -> set[int]:
    """Return the threads that read from connections.

    A descriptor counts from its accept on: before that, its number may have been a file's.
    """
    connections: set[int] = set()
    servers = set()
    for call in calls:
        if call.name in ACCEPTS and call.result >= 0:
            connections.add(call.result)
        elif call.name in _READS and call.fd in connections:
            servers.add(call.thread)
    return servers


def _accept_limit(calls: Sequence[Call], accepters: Iterable[int]) -> int | None:
    """Return how many connections it accepts for one event: 0 if until the queue is empty."""
    runs, n_emptied = [], 0
    for thread in accepters:  # one by one: calls of several threads are mixed
        n_in_a_row = 0
        for call in calls:
            if call.thread != thread:
                continue
            if call.name in ACCEPTS:
                if call.result >= 0:
                    n_in_a_row += 1
                elif call.error == "EAGAIN" and n_in_a_row:
                    n_emptied += 1
            elif call.name in _WAITS and n_in_a_row:
                runs.append(n_in_a_row)
                n_in_a_row = 0
    if not runs:
        return None
    if n_emptied >= _SHARE * len(runs):
        return 0
    most = max(runs)
    # A server that accepts one while several wait has limit 1; a larger limit has to be reached.
    if most == 1:
        return 1 if len(runs) >= _MANY else None
    return most if runs.count(most) > 1 else None


def _reads_after_accept(calls: Sequence[Call]) -> bool | None:
    """Return whether connections are read from before the next wait."""
    fresh: set[int] = set()
    n_read, n_seen = 0, 0
    for call in calls:
        if call.name in ACCEPTS and call.result >= 0:
            fresh.add(call.result)
            n_seen += 1
        elif call.name in _WAITS:
            fresh.clear()
        elif call.name in _READS and call.fd in fresh:
            fresh.discard(call.fd)
            n_read += 1
    return n_read >= _SHARE * n_seen if n_seen else None


def _closes_first(calls: Sequence[Call], connections: set[int]) -> bool | None:
    """Return whether the server closes connections before their clients end them."""
    ended: set[int] = set()
    n_first, n_closed = 0, 0
    for call in calls:
        if call.name in _READS and call.fd in connections:
            over = call.result == 0 or call.error in {"ECONNRESET", "EPIPE"}
            (ended.add if over else ended.discard)(call.fd)
        elif call.name == "close" and call.fd in connections:
            n_closed += 1
            n_first += call.fd not in ended
    return n_first > n_closed / 2 if n_closed else None


def _rates(
    calls: Sequence[Call], n_requests: int, n_connections: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return calls by name, divided by requests and by connections."""
    counts = Counter(call.name for call in calls)
    per_request = {name: n / n_requests for name, n in counts.items()}
    per_connection = (
        {name: n / n_connections for name, n in counts.items()} if n_connections else {}
    )
    return per_request, per_connection
