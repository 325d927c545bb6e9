"""What benches of threads that block and of io_uring would print if costs were as given here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BLOCK_READ, BLOCK_ACCEPT = 300, 500
SAVED, PROCESS_SWITCH = 2_100, 700
SPAWN, EXIT, FORK, PROCESS_EXIT = 9_000, 6_000, 70_000, 55_000
CALL, SUBMIT, ADD, LINK, RETRY, POST, WOKEN, ENDED = 210, 45, 310, 35, 120, 180, 260, 900
RECEIVED, ACCEPTED = 150, 250  # completions

Lines = dict[str, dict[str, float]]

TRUE_ASLEEP = {
    "blocking.block_ns": (BLOCK_READ + BLOCK_ACCEPT) / 2,
    "blocking.saved_ns": SAVED,
    "blocking.process_switch": PROCESS_SWITCH,
    "blocking.spawn_ns": SPAWN,
    "blocking.exit_ns": EXIT,
    "blocking.fork_ns": FORK,
    "blocking.process_exit_ns": PROCESS_EXIT,
    "io_uring.call_ns": CALL,
    "io_uring.submit_ns": SUBMIT,
    "io_uring.complete_ns": (RECEIVED + ACCEPTED) / 2,
    "io_uring.add_ns": ADD,
    "io_uring.link_ns": LINK,
    "io_uring.retry_ns": RETRY,
    "io_uring.post_ns": POST,
    "io_uring.woken_ns": WOKEN,
    "io_uring.ended_saved_ns": ENDED,
}

BENCHES = (
    *("read_block", "accept_block", "ring_block", "ring_calls", "close_ended"),
    *("handover_threads", "handover_processes", "spawn_thread", "spawn_process"),
    "interrupt_posted",
)


def lines(
    bench: str, given: Mapping[str, Any], calls: Mapping[str, float], *, floor: float, slept: float
) -> Lines:
    """Return what *bench* prints.

    *calls* are the server's without idle connections, *floor* what of each is the way to the kernel
    and back, *slept* is what a sleep takes, and what a thread is told of it.
    """
    work = {name: ns - floor for name, ns in calls.items()}
    if bench == "ring_calls":
        return _ring(given["batch"], work)
    return {bench: _fields(bench, calls, work, slept)}


def _fields(
    bench: str, calls: Mapping[str, float], work: Mapping[str, float], slept: float
) -> dict[str, float]:
    told = slept - 1000  # the thread's own part of it
    received = CALL + SUBMIT + ADD + RETRY + work["read"] + RECEIVED
    handover = slept - SAVED
    if bench.startswith("spawn"):
        threads = bench == "spawn_thread"
        begin, end = (SPAWN, EXIT) if threads else (FORK, PROCESS_EXIT)
        switch = handover + (0 if threads else PROCESS_SWITCH)
        return {"median": begin + end + switch, "begin_ns": begin}
    return {
        "median": {
            "read_block": calls["read"] + told + BLOCK_READ,
            "accept_block": calls["accept"] + told + BLOCK_ACCEPT,
            "ring_block": received + told + WOKEN,
            "close_ended": calls["close"] - ENDED,
            "interrupt_posted": POST,
            "handover_threads": handover,
            "handover_processes": handover + PROCESS_SWITCH,
        }[bench]
    }


def _ring(n: int, work: Mapping[str, float]) -> Lines:
    each = {
        "close": SUBMIT + work["close"],
        "receive": SUBMIT + work["read"] + RECEIVED,
        "arm": SUBMIT + ADD,
        "receive_armed": RETRY + work["read"] + RECEIVED,
        "reply": 2 * SUBMIT + LINK + work["write"] + work["close"],
    }
    accepts = RETRY + work["accept_again"] + n * (work["accept"] + ACCEPTED)
    totals = {name: CALL + n * ns for name, ns in each.items()}
    totals |= {"enter": CALL, "accept": CALL + accepts}
    return {f"ring_{name}": {"median": total} for name, total in totals.items()}
