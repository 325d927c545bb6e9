"""What the benches of the emulated target would print if costs were as given here."""

from __future__ import annotations

import numpy as np

from dispatchsim.calibration.emulated.run_lengths import DELAY_NS
from dispatchsim.calibration.fit.medians import Medians

ENTRY, SYN, ACK, DATA, RESET = 1_400, 6_200, 5_500, 4_200, 3_200
LATER = 5_000  # a request after a reply, with its interrupt
DROPPED, ANSWERED = 2_500, 6_000  # a dropped SYN; from a SYN until its SYN-ACK leaves
CALL, EVENT, RECHECK = 425, 234, 182
SLEEP, WAKE, EXIT, THREAD, AGAIN, CLOSED = 600, 850, 60, 700, 215, 310
SCAN, REGISTER, RELEASE, LOOK, BITS = 200, 60, 30, 400, 1
READ_BACK = 9  # the server's own code at an entry without an event
CALLS = {"accept": 1_700, "accept_again": 2_200, "read": 1_150, "read_again": 660, "close": 4_200,
         "epoll_add": 1_100, "epoll_mod": 700, "epoll_del": 750}  # fmt: skip
WRITE, KIB, LEAVES, LOOKS = 5_200, 160, 3_900, 1_100
CROSSING = 220
ACKED = 2_900
CROWD = {1: 0, 8: 0, 16: 100, 32: 270, 64: 400, 256: 690}
RESETS = {1: 0, 4: 60, 16: 250, 64: 250}
WAIT = {"epoll": (CALL, 0), "poll": (500, SCAN), "select": (900, SCAN)}

Where = dict[str, int | float | str]
Row = tuple[str, Where, dict[str, float]]


def row(bench: str, ns: float, where: Where | None = None, **fields: float) -> Row:
    """Return one line of a bench."""
    return bench, {**(where or {})}, {"median": ns, **fields}


def packets() -> list[Row]:
    """Return what the benches of packets would say."""
    found = []
    costs = {"syn": SYN, "ack": ACK, "data_queued": DATA, "syn_dropped": DROPPED}
    for name, cost in costs.items():
        for burst in (1, 4, 16, 64):
            where: Where = {"burst": burst, "n": 0}
            if name in ("syn", "ack"):
                where["mechanism"] = "none"
            ns = cost + ENTRY / burst
            found.append(row(f"interrupt_{name}", ns, where, interrupts_per_operation=1 / burst))
    for burst, more in RESETS.items():
        # a tick came into the largest: it must not count
        n, tick = (1.02, 900) if burst == 64 else (1.0, 0)
        ns = RESET + ENTRY + more + tick
        found.append(row("interrupt_reset", ns, {"burst": burst}, interrupts_per_operation=n))
    return found


def calls() -> list[Row]:
    """Return what the benches of calls, and of what they leave for later, would say."""
    found = []
    for batch, more in CROWD.items():
        for n in (0, 1_000) if batch == 64 else (0,):
            at: Where = {"batch": batch, "n": n, "reply": 128, "mechanism": "epoll"}
            for name, cost in {**CALLS, "write": WRITE}.items():
                found.append(row(f"serve_{name}", cost + more / 9, at))
            found.append(row("serve_all", sum(CALLS.values()) + WRITE + more, at))
    for size in (1_024, 2_048):
        where: Where = {"batch": 64, "n": 0, "reply": size, "mechanism": "none"}
        found.append(row("serve_write", WRITE + KIB * (size - 128) / 1_024, where))
    for n in (0, 1, 16):
        found.append(row("deferred_tick", 1_500 + n * CLOSED, {"n": n}))
        found.append(row("deferred_again", 1_500 + n * AGAIN, {"n": n}))
        ns = 7_000 + n * AGAIN + (THREAD if n else 0)
        found.append(row("deferred_sleep", ns, {"n": n}))
        found.append(row("epoll_recheck", 400 + n * RECHECK, {"ready": n}))
    return [
        *found,
        row("floor", CROSSING),
        row("write_leaves", LEAVES),
        row("accept_looks", LOOKS),
        row("handshake_spin", 2 * DELAY_NS + ANSWERED),
        row("handshake_idle", 2 * DELAY_NS + ANSWERED + EXIT),
    ]


def long_replies() -> list[Row]:
    """Return replies of 1, 10, 20 and 46 segments: the window lets 10, 20 and 16 go at a time."""
    n_later = {1_448: 0, 14_480: 0, 28_960: 4 + 4, 65_536: 4 + 9 + 7}
    n_flights = {1_448: 0, 14_480: 0, 28_960: 2, 65_536: 3}
    return [
        row(
            "write_flights",
            WRITE + KIB * size / 1_024 + n_flights[size] * (ENTRY + ACK) + n * ACKED,
            {"reply": size},
        )
        for size, n in n_later.items()
    ]


def waits(name: str) -> list[Row]:
    """Return what the benches of waits would say of one mechanism."""
    call, scan = WAIT[name]
    own_code = READ_BACK if name == "poll" else 0

    def ready(n: int, *, span: int, first: int = 0, found: int = 1) -> Row:
        ns = call + scan * n + found * EVENT + bits(name, span)
        if first > 0:
            ns += (REGISTER + RELEASE) * (first + 1) + own_code * first
        where: Where = {"mechanism": name, "n": n, "span": span, "first": first, "ready": found}
        return row("wait_ready", ns, where)

    asked = float(LATER)
    looks = call + scan + (REGISTER if scan else 0)
    returns = EVENT + scan + (RELEASE if scan else 0)
    blocked = row(
        "block",
        looks + SLEEP + WAKE + returns + asked,
        {"mechanism": name, "n": 1},
        stolen_ns=asked,
        latency_ns=asked + EXIT + WAKE + returns,
    )
    always = [blocked, *(ready(1_000, span=1_000, found=found) for found in (1, 16, 256))]
    if not scan:
        return always
    own: Where = {"mechanism": name}
    spans = (1_000, 6_000) if name == "select" else ()
    return [
        *always,
        *(ready(n, span=n) for n in (1, 100, 6_000)),
        *(ready(100, span=span) for span in spans),
        ready(1_000, span=1_000, first=999),
        *(row("asleep", 700 + (scan + REGISTER) * n, {**own, "n": n}) for n in (1, 1_000)),
        *(
            row(f"{name}_first", 700 + (REGISTER + RELEASE) * at, {"n": 1_000, "first": at})
            for at in (0, 999)
        ),
        *(row("wait_looks", LOOK + n, {**own, "n": n}) for n in (2, 1_000)),
    ]


def rows() -> list[Row]:
    """Return what all benches would say."""
    return [*packets(), *calls(), *(line for name in WAIT for line in waits(name))]


def bits(name: str, span: int) -> int:
    """Return what bitmaps of that length cost."""
    return BITS * span if name == "select" else 0


def medians(lines: list[Row]) -> Medians:
    names = (
        *(
            "median",
            "p10",
            "p90",
            "interrupts_per_operation",
            "cpu_ns",
            "busy_ns",
            "latency_ns",
            "stolen_ns",
        ),
        *("awake_ns", "begin_ns", "unarmed_ns"),
    )
    values = np.array([[fields.get(name, np.nan) for name in names] for *_, fields in lines])
    return Medians([line[:2] for line in lines], values, steering="emulated")
