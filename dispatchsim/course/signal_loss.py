"""Lesson 5: what is lost when a queue of signals is full, and what one signal a descriptor changes.

    events ──► queue of signals, bounded ──► sigwaitinfo ──► server
                 └─ full: SIGIO, and nobody knows whom it was about
                      nothing done: who was meant waits for ever      poll all: nobody is lost
    one signal a descriptor: never more in the queue than descriptors, whatever they do

The machine is an emulated one that has both mechanisms in its kernel (no stock Linux has the
second).

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
LOST, RECOVERED = "rt_signals, nothing done", "rt_signals, then poll"
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
    """Return who is stranded, by how long the server stood still.

    As many users as fit the queue send requests in pieces, each of which is an event; the server's
    CPU stands still, as in a collection of garbage, and events queue up.

    Parameters
    ----------
    stalls_ms:
        How long it stands still.
    queue:
        Signals that may be queued.
    pieces:
        Of a request.
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
        axis="server stood still (ms)",
        series="server",
    )


def answer_for_whole_requests() -> HiddenAnswer:
    """Return the answer to "What if requests come in one piece?"."""
    of = stalled((40,), pieces=1, servers=(LOST,))
    return answer(
        "Then {stranded} are stranded after 40 ms: {users} users have at most one event each "
        "waiting, besides those of the listener, and {queue} signals are enough. The queue must "
        "hold events, of which a client may cause as many as it likes, and not clients.",
        stranded=of.value("stranded", LOST, 40),
        users=USERS,
        queue=QUEUE,
    )


def answer_for_short_queue() -> HiddenAnswer:
    """Return the answer to "Does one signal a descriptor help with a queue of 64?"."""
    of = stalled((40,), queue=64, servers=(LOST, PER_FD))
    return answer(
        "With {queue} signals for {users} users {per_fd} are stranded (rt_signals: {plain}). The "
        "promise holds if the queue is at least as long as there are descriptors, and "
        "RLIMIT_SIGPENDING is the administrator's to set. The list of epoll needs no "
        "promise: its entries are in the descriptors themselves.",
        shows=of,
        queue=64,
        users=USERS,
        per_fd=of.value("stranded", PER_FD, 40),
        plain=of.value("stranded", LOST, 40),
    )
