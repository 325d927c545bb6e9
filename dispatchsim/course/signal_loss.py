"""Lesson 5: events lost when a signal queue is full, and the effect of one signal per descriptor.

    events ──► bounded queue of signals ──► sigwaitinfo ──► server
                 └─ full: SIGIO, which names no descriptor
                      no recovery: its client waits for ever      poll all: no event is lost
    one signal per descriptor: the queue never holds more signals than there are descriptors

The machine is emulated and has both mechanisms in its kernel (no stock Linux has the second).

Sources: Chandra and Mosberger 2001, §4.1 to 4.3 (overflow, signal-per-fd); Provos, Lever and
Tweedie 2000, §2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..scenario.scenario import Scenario
from .exercises import HiddenAnswer, answer
from .experiments import Experiment, cases_over, experiment, scenario, stalling

STALLS_MS = (0, 10, 40)
LOST, RECOVERED = "rt_signals, no recovery", "rt_signals, then poll"
PER_FD = "signal_per_fd"
QUEUE, USERS = 256, 150
PROFILE = "counted-linux-6.1-unmerged"
_SERVERS: dict[str, dict[str, Any]] = {
    LOST: {"mechanism": "rt_signals", "recovery": "nothing"},
    RECOVERED: {"mechanism": "rt_signals", "recovery": "poll"},
    PER_FD: {"mechanism": "signal_per_fd", "recovery": "nothing"},
}


def stalled(
    stalls_ms: Sequence[float] = STALLS_MS,
    *,
    queue: int = QUEUE,
    pieces: int = 4,
    servers: Sequence[str] = tuple(_SERVERS),
) -> Experiment:
    """Return the stranded connections by the length of a stall.

    Users that fit the queue send requests in pieces, each of which is an event. The server's CPU
    stalls, as in a garbage collection, and events queue up.

    Parameters
    ----------
    stalls_ms:
        Lengths of the stall.
    queue:
        Length of the signal queue.
    pieces:
        Pieces of a request.
    servers:
        Some of `LOST`, `RECOVERED` and `PER_FD`.
    """
    load: dict[str, Any] = {
        "loop": "closed", "users": USERS, "requests": 1_000, "think_time": "20 ms",
    }  # fmt: skip
    if pieces > 1:
        load |= {"pieces": pieces, "piece_pause": "1 ms"}

    def asked(server: dict[str, Any], stall_ms: float) -> Scenario:
        return scenario(
            server={**server, "signal_queue": queue},
            load=load,
            machine={"profile": PROFILE},
            run={"duration": "250 ms", "replications": 2},
            **stalling("100 ms", stall_ms),
        )

    return experiment(
        f"{USERS} users, {queue} signals, requests in {pieces} piece{'s' * (pieces > 1)}",
        cases_over({name: _SERVERS[name] for name in servers}, stalls_ms, asked),
        figures=["stranded", "recoveries", "answered_per_s"],
        axis="stall (ms)",
        series="server",
    )


def answer_for_whole_requests() -> HiddenAnswer:
    """Return the answer to "What if requests come in one piece?"."""
    of = stalled((40,), pieces=1, servers=(LOST,))
    return answer(
        "Then {stranded} are stranded after 40 ms: each of {users} users has at most one event "
        "waiting, besides those of the listener, so {queue} signals are enough. The queue must "
        "hold events, not clients, and a client may cause any number of events.",
        stranded=of.value("stranded", LOST, 40),
        users=USERS,
        queue=QUEUE,
    )


def answer_for_short_queue() -> HiddenAnswer:
    """Return the answer to "Does one signal per descriptor help with a queue of 64?"."""
    of = stalled((40,), queue=64, servers=(LOST, PER_FD))
    return answer(
        "With {queue} signals for {users} users {per_fd} are stranded (rt_signals: {plain}). The "
        "guarantee holds only if the queue has room for a signal of every descriptor, and the "
        "administrator sets its length (RLIMIT_SIGPENDING). epoll's list needs no such limit: its "
        "entries are part of the descriptors themselves.",
        shows=of,
        queue=64,
        users=USERS,
        per_fd=of.value("stranded", PER_FD, 40),
        plain=of.value("stranded", LOST, 40),
    )
