"""What the benches of rings would print if costs were as given here."""

from __future__ import annotations

from tests.calibration.emulated import counted_rows
from tests.calibration.emulated.counted_rows import (
    CALLS,
    CROSSING,
    CROWD,
    EXIT,
    LATER,
    RESET,
    RESETS,
    SLEEP,
    WAKE,
    WRITE,
    Row,
    Where,
    row,
)

# As in calibration/emulated/benches.toml.
ENDED_AT_ONCE, FEW_AT_ONCE, POLLED = 4, 8, (1, 16, 64)

ENTRY, ADD, LISTED, CALL, EVENT, READY, POST, WOKEN = 300, 500, 20, 400, 30, 110, 350, 180
ENTER, SUBMIT, COMPLETE, ARM, LINK, RETRY, QUEUED, SLEPT = 420, 250, 90, 480, 130, 220, 160, 310
SAVED_CLOSE, SAVED_RESET = 2_500, 300
PACKET = counted_rows.ENTRY
UNEQUAL = 15  # what a receive takes more to complete, and an accept less


def polls() -> list[Row]:
    """Return what is said of polls by AIO."""
    ready = ADD - LISTED + READY + EVENT
    found = []
    for n in POLLED:
        where: Where = {"batch": n, "mechanism": "aio_poll"}
        found += [
            row("polls_watch", LISTED, {**where}),
            row("polls_ready", ENTRY + (n + 1) * ready, {**where}),
            row("polls_quiet", ENTRY + ready + n * (ADD - LISTED), {**where}),
            row("polls_posted", ENTRY + ready + n * EVENT, {**where}),
        ]
    stolen = LATER + POST
    latency = stolen + WAKE + EXIT + WOKEN + EVENT
    busy = stolen + ENTRY + ADD - LISTED + CALL + SLEEP + WAKE + WOKEN + EVENT
    return [
        *found,
        row("polls_sleep", busy, stolen_ns=stolen, unarmed_ns=LATER, latency_ns=latency),
    ]


def rings() -> list[Row]:
    """Return what is said of io_uring."""
    n = FEW_AT_ONCE
    crowded = CROWD[n] / 9
    again, accept, read, write, close = (
        ns + crowded - CROSSING
        for ns in (*(CALLS[name] for name in ("accept_again", "accept", "read")),
                   WRITE, CALLS["close"])
    )  # fmt: skip
    received, accepted = COMPLETE + UNEQUAL, COMPLETE - UNEQUAL
    each = {
        "ring_close": SUBMIT + close,
        "ring_receive": SUBMIT + read + received,
        "ring_arm": SUBMIT + ARM,
        "ring_receive_armed": RETRY + read + received,
        "ring_reply": 2 * SUBMIT + LINK + write + close,
    }
    stolen = LATER + QUEUED
    slept = ENTER + SUBMIT + ARM + SLEEP + WAKE + SLEPT + RETRY + read + received
    return [
        *(row(bench, ENTER + n * ns, {"batch": n}) for bench, ns in each.items()),
        row("ring_enter", ENTER, {"batch": n}),
        row("ring_accept", ENTER + RETRY + again + n * (accept + accepted), {"batch": n}),
        row("close_ended", close + CROSSING - SAVED_CLOSE, {"burst": ENDED_AT_ONCE}),
        row(
            "interrupt_reset_open",
            RESET + RESETS[ENDED_AT_ONCE] + PACKET - SAVED_RESET,
            {"burst": ENDED_AT_ONCE},
        ),
        row("ring_sleeps", stolen + slept, stolen_ns=stolen, unarmed_ns=LATER),
    ]


TRUE = {
    "aio_poll.entry_ns": ENTRY, "aio_poll.add_ns": ADD, "aio_poll.call_ns": CALL,
    "aio_poll.event_ns": EVENT, "aio_poll.ready_ns": READY, "aio_poll.post_ns": POST,
    "aio_poll.woken_ns": WOKEN,
    "io_uring.call_ns": ENTER, "io_uring.submit_ns": SUBMIT, "io_uring.complete_ns": COMPLETE,
    "io_uring.add_ns": ARM, "io_uring.link_ns": LINK, "io_uring.retry_ns": RETRY,
    "io_uring.ended_saved_ns": SAVED_CLOSE + SAVED_RESET, "io_uring.post_ns": QUEUED,
    "io_uring.woken_ns": SLEPT,
}  # fmt: skip
"""The costs by table and name."""
