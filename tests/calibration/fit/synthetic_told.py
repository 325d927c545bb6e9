"""What benches of servers that are told of changes would print if costs were as given here."""

from __future__ import annotations

from typing import Any

ASKED, BLOCKING = 480, 420  # a call that may not block and finds nothing; that may, and finds
GIVE, LEAVE, BLOCK = 41, 14, 20
NOTICE, VAIN = 300, 110
ONCE_CALL, ONCE_NOTICE, COLD_NOTICE = 440, 236, 570
TOLD_MAX = 1024
OWN_NS = 40  # the server's own part of a change of interest
ARM, DISARM, CLOSED_ARMED = 1_300, 70, 170
QUEUED, FULL = 490, 520
FLUSH, DISCARD, POLLED = 2_000, 160, 270
SENT, RECEIVED = 1_500, 1_900
LOST = 8
A_CALL = {"rt_signals": 1, "signalfd": 500, "epoll_edge": 1_024}

Lines = dict[str, dict[str, float]]

TRUE_TOLD = {
    **{f"{name}.call_ns": (ASKED + BLOCKING) / 2 for name in A_CALL},
    **{f"{name}.event_ns": GIVE + LEAVE + BLOCK for name in A_CALL},
    "epoll_edge.notice_ns": NOTICE,
    "epoll_edge.recheck_ns": VAIN,
    "epoll_once.call_ns": ONCE_CALL,
    "epoll_once.recheck_ns": VAIN,
    **{
        f"{name}.{cost}": ns
        for name in ("rt_signals", "signalfd")
        for cost, ns in (
            ("signal_ns", NOTICE),
            ("arm_ns", ARM + DISARM + CLOSED_ARMED),
            ("queue_ns", QUEUED),
            ("lost_ns", FULL),
            ("flush_ns", FLUSH),
            ("discard_ns", DISCARD),
            ("send_fd_ns", SENT),
            ("receive_fd_ns", RECEIVED),
        )
    },
}
"""Those that do not depend on a count, and are not of another mechanism's calls."""


def listed_cold(n: int) -> float:
    """Return the part of n listed descriptors that a wait finds cold."""
    return min(1.0, max(0.0, (n - 1000) / 5000))


def waits(bench: str, given: dict[str, Any]) -> Lines:
    """Return the lines of a bench of waits with these options."""
    name = given["mechanism"]
    if bench == "wait_vain":
        return {bench: {"median": VAIN}}
    if bench == "wait_ready":
        return {bench: {"median": ONCE_CALL + given["n"] * ONCE_NOTICE}}
    if bench == "wait_listed":
        each = ONCE_NOTICE + (COLD_NOTICE - ONCE_NOTICE) * listed_cold(given["n"])
        return {bench: {"median": ONCE_CALL + min(given["n"], TOLD_MAX) * each}}
    if bench == "wait_recovers":
        return {bench: {"median": _recovers(A_CALL[name], given["n"], given["queue"])}}
    n = given["ready"]
    n_taken = min(n, A_CALL[name])
    call_ns = BLOCKING + LEAVE if n_taken == n else ASKED
    ns = {
        "told": call_ns + n_taken * NOTICE + n * GIVE,
        "pending": ASKED + n * GIVE,
        "blocked": BLOCK + 6 / n,
        "after": BLOCKING + NOTICE + GIVE + n * LEAVE,
    }
    return {f"wait_{what}": {"median": total} for what, total in ns.items()}


def _recovers(a_call: int, n: int, queue: int) -> float:
    n_taken = min(a_call, queue + 1)
    ns = BLOCKING + n_taken * NOTICE + (queue + LOST) * (GIVE + LEAVE)
    return ns + FLUSH + (queue + 1 - n_taken) * DISCARD + n * POLLED


def signalled(bench: str, given: dict[str, Any]) -> Lines:
    """Return what a signal adds to its packet, or a queue of them takes to be thrown away."""
    if bench == "signals_flushed":
        return {bench: {"median": FLUSH + given["queue"] * DISCARD}}
    return {bench: {"median": FULL if bench == "interrupt_signal_lost" else QUEUED}}


def passed() -> Lines:
    """Return what a descriptor takes that is handed over to another thread."""
    return {"descriptor_sent": {"median": SENT}, "descriptor_received": {"median": RECEIVED}}


def served() -> dict[str, float]:
    """Return the calls by which a connection is armed, and what close takes longer."""
    return {"watch": ARM, "unwatch": DISARM, "close": CLOSED_ARMED}
