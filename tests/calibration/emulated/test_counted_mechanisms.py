"""The equations of mechanisms that only some guests have give back what benches were made of."""

from __future__ import annotations

import numpy as np
import pytest
from tests.calibration.emulated.counted_rows import (
    CALLS,
    ENTRY,
    EVENT,
    RECHECK,
    SLEEP,
    THREAD,
    WAKE,
    Row,
    Where,
    medians,
    row,
    rows,
)
from tests.calibration.emulated.ring_rows import TRUE as TRUE_OF_RINGS
from tests.calibration.emulated.ring_rows import polls, rings

from dispatchsim.calibration.emulated.microbenchmarks import MERGED, SIGNALS, UNMERGED
from dispatchsim.calibration.fit.counted_costs import counted_costs
from dispatchsim.calibration.fit.medians import FitError
from dispatchsim.calibration.profiles.cost import MECHANISM_TABLES, required_costs

CALL_ASKED, CALL_BLOCKING = 480, 420
GIVE, LEAVE, BLOCK = 41, 14, 20
NOTICE, VAIN = 300, 110
OWN_ADD, OWN_DELETE = 60, 40  # of the server's own, more than epoll_level's
ARM, DISARM, CLOSED_ARMED = 1_300, 70, 170
QUEUED, FULL, MERGED_NS = 490, 520, 300
# As in calibration/emulated/benches.toml.
CHANGED = TOLD = (1, 16, 64)
HANDOVERS = (2, 8, 64)
QUEUE, QUEUE_LONG = 64, 1_000
RECOVERED, RECOVERED_LONG = (100, 1_100, 3_000), 1_100

FLUSH, DISCARD, POLLED = 2_000, 160, 270
ONCE_CALL, ONCE_NOTICE = 440, 236
TELL, ADD, MODIFY, DELETE, LISTED = 190, 930, 480, 740, 50
ASK, ITEM, DEV_CALL, DEV_LOOK, DEV_EVENT = 140, 8, 470, 310, 52
LOST = 8
BLOCKED, SAVED, OTHER_SPACE = 60, 500, 55
SPAWN, THREAD_EXIT, FORK, PROCESS_EXIT = 7_000, 6_000, 45_000, 90_000
STACK, STACK_FREED = 2_900, 2_600
Curves = dict[str, tuple[tuple[int, ...], tuple[float, ...]]]
A_CALL = {"rt_signals": 1, "signal_per_fd": 1, "signalfd": 500, "sigtimedwait4": 500}


def few(name: str, **calls: float) -> list[Row]:
    """Return what calls with few connections cost a server of that mechanism."""
    at: Where = {"mechanism": name, "batch": 8, "n": 0, "reply": 128}
    return [row(f"serve_{call}", ns, at) for call, ns in calls.items()]


def told(name: str, taken: int) -> list[Row]:
    """Return the waits of a server that is told of changes."""
    found = []
    for n in TOLD:
        where: Where = {"mechanism": name, "ready": n, "n": 300}
        n_taken = min(n, taken)
        call = CALL_BLOCKING + LEAVE if n_taken == n else CALL_ASKED
        found += [
            row("wait_told", call + n_taken * NOTICE + n * GIVE, where),
            row("wait_pending", CALL_ASKED + n * GIVE, where),
            row("wait_after", CALL_BLOCKING + NOTICE + GIVE + n * LEAVE, where),
            row("wait_blocked", BLOCK + 6 / n, where),
        ]
    return found


def packets(name: str) -> list[Row]:
    """Return what signals add to packets; into the burst of 64 bytes more came a tick."""
    found = []

    def packet(bench: str, burst: int, added: float, **where: int | str) -> Row:
        ns = 4_200 + ENTRY / burst + added
        entries = 1.1 if burst == 64 and bench.endswith("more") else 1 / burst
        return row(bench, ns, {**where, "burst": burst}, interrupts_per_operation=entries)

    for burst in (1, 4, 16, 64):
        armed = 0 if name == "none" else QUEUED
        found.append(packet("interrupt_data", burst, armed, mechanism=name))
    for burst in (4, 16, 64):
        again = MERGED_NS if name == "signal_per_fd" else QUEUED
        found.append(packet("interrupt_data_more", burst, armed and again, mechanism=name, queue=0))
        one = again if name == "signal_per_fd" else FULL
        full = (FULL * (burst - 1) + one) / burst
        if name != "none":
            found.append(packet("interrupt_data_more", burst, full, mechanism=name, queue=1))
    return found


def recoveries(name: str) -> list[Row]:
    """Return waits that find signals lost."""
    found = []
    sizes = [*((n, QUEUE) for n in RECOVERED), (RECOVERED_LONG, QUEUE_LONG)]
    for n, queue in sizes:
        taken = min(A_CALL[name], queue + 1)
        ns = CALL_BLOCKING + taken * NOTICE + (queue + LOST) * (GIVE + LEAVE)
        ns += FLUSH + (queue + 1 - taken) * DISCARD + n * POLLED
        found.append(row("wait_recovers", ns, {"mechanism": name, "n": n, "queue": queue}))
    return found


def signals(name: str) -> list[Row]:
    closed = CALLS["close"] + CLOSED_ARMED
    return [
        *few(name, watch=ARM, unwatch=DISARM, close=closed),
        *told(name, A_CALL[name]),
        *packets(name),
        *recoveries(name),
    ]


def watched(name: str) -> list[Row]:
    """Return epoll's calls by the server's own code."""
    add, delete = CALLS["epoll_add"] + OWN_ADD, CALLS["epoll_del"] + OWN_DELETE
    return [
        *few(name, watch=add, unwatch=delete),
        row("wait_vain", VAIN, {"mechanism": name, "n": 1}),
    ]


def once() -> list[Row]:
    own: Where = {"mechanism": "epoll_once", "ready": 1, "first": 0}
    return [
        *(
            row("wait_ready", ONCE_CALL + n * ONCE_NOTICE, {**own, "n": n, "span": n})
            for n in (1, 100, 1_000)
        ),
        *watched("epoll_once"),
    ]


def changes(name: str) -> list[Row]:
    """Return the waits before which changes are told."""
    found = []
    event, vain, hint = (EVENT, RECHECK, 0) if name == "epoll_ctlv" else (DEV_EVENT, ASK, ASK)
    for n in CHANGED:
        where: Where = {"mechanism": name, "batch": n}
        stays, idle = CALL_ASKED + (n + 1) * event, CALL_ASKED + event
        found += [
            row("change_watch", LISTED, where),
            row("wait_adds", stays + TELL + n * ADD, where),
            row("wait_stays", stays, where),
            row("wait_rechecks", idle + n * vain, where),
            row("wait_idle", idle, where),
            row("change_rewatch", LISTED, where),
            row("wait_modifies", idle + TELL + n * (MODIFY + hint), where),
            row("change_unwatch", DELETE, where),
        ]
    return found


def ctlv() -> list[Row]:
    own: Where = {"mechanism": "epoll_ctlv", "n": 1_000, "first": 0, "span": 1_000}
    waits = [row("wait_ready", CALL_ASKED + n * EVENT, {**own, "ready": n}) for n in (1, 16, 256)]
    return [*changes("epoll_ctlv"), *waits]


def dev_poll() -> list[Row]:
    own: Where = {"mechanism": "dev_poll", "first": 0}
    sizes = [*((n, 1) for n in (1, 100, 6_000)), *((1_000, n) for n in (1, 16, 256))]
    waits = [
        row(
            "wait_ready",
            DEV_CALL + n * ITEM + ready * (ASK + DEV_EVENT),
            {**own, "n": n, "span": n, "ready": ready},
        )
        for n, ready in sizes
    ]
    looks = [row("wait_looks", DEV_LOOK, {"mechanism": "dev_poll", "n": n}) for n in (2, 1_000)]
    return [*changes("dev_poll"), *waits, *looks]


def blocking() -> list[Row]:
    """Return calls that sleep, the CPU handed over, and threads and processes that begin and end.

    Of one that sleeps in accept half of what blocking takes is hidden, of a read as much is added.
    """
    found = []
    slept = SLEEP + WAKE
    for bench, stolen, awake, blocked in (
        ("read_sleeps", 4_900, 1_100, BLOCKED + 30),
        ("accept_sleeps", 6_700, 1_600, BLOCKED - 30),
    ):
        ns = stolen + awake + slept + blocked
        found.append(row(bench, ns, {}, stolen_ns=stolen, awake_ns=awake))
    handover = slept - SAVED
    for kind, more in (("threads", 0), ("processes", OTHER_SPACE)):
        for n in HANDOVERS:
            preempted = 300 if n > HANDOVERS[0] else 0
            found.append(row(f"handover_{kind}", handover + more + preempted, {"n": n}))
    lives = (("thread", SPAWN, THREAD_EXIT, 0), ("process", FORK, PROCESS_EXIT, OTHER_SPACE))
    for kind, begin, end, more in lives:
        found.append(row(f"spawn_{kind}", begin + end + handover + more, {}, begin_ns=begin))
    return [*found, *stacks(SPAWN, THREAD_EXIT + handover)]


def stacks(begin: float, rest: float) -> list[Row]:
    """Return the benches of threads that live at a time: all but two need a new stack."""
    found = []
    for n in (1, 4, 8):
        n_new, n_left = max(0, n - 2) / n, (n - 1) / n
        begun = begin + n_new * STACK
        life = begun + rest + n_new * STACK_FREED + n_left * THREAD
        found.append(row("spawn_threads", life, {"batch": n}, begin_ns=begun))
    return found


def all_rows() -> list[Row]:
    return [
        *rows(),
        *packets("none"),
        *(line for name in SIGNALS for line in signals(name)),
        *told("epoll_edge", 1_024),
        *watched("epoll_edge"),
        *once(),
        *ctlv(),
        *dev_poll(),
        *blocking(),
        *polls(),
        *rings(),
    ]


TRUE = {
    **TRUE_OF_RINGS,
    "blocking.block_ns": BLOCKED, "blocking.saved_ns": SAVED,
    "blocking.process_switch": OTHER_SPACE,
    "blocking.spawn_ns": SPAWN, "blocking.exit_ns": THREAD_EXIT,
    "blocking.fork_ns": FORK, "blocking.process_exit_ns": PROCESS_EXIT,
    "blocking.stack_ns": STACK, "blocking.stack_freed_ns": STACK_FREED,
    **{f"{name}.signal_ns": NOTICE for name in SIGNALS},
    **{f"{name}.call_ns": (CALL_ASKED + CALL_BLOCKING) / 2 for name in SIGNALS},
    **{f"{name}.event_ns": GIVE + LEAVE + BLOCK for name in (*SIGNALS, "epoll_edge")},
    **{f"{name}.arm_ns": ARM + DISARM + CLOSED_ARMED for name in SIGNALS},
    **{f"{name}.queue_ns": QUEUED for name in SIGNALS},
    **{f"{name}.lost_ns": FULL for name in SIGNALS},
    **{f"{name}.flush_ns": FLUSH for name in SIGNALS},
    **{f"{name}.discard_ns": DISCARD for name in SIGNALS},
    "signal_per_fd.merged_ns": MERGED_NS,
    "epoll_edge.call_ns": (CALL_ASKED + CALL_BLOCKING) / 2,
    "epoll_edge.notice_ns": NOTICE,
    "epoll_edge.recheck_ns": VAIN,
    "epoll_edge.add_ns": CALLS["epoll_add"] + OWN_ADD,
    "epoll_edge.delete_ns": CALLS["epoll_del"] + OWN_DELETE,
    "epoll_once.call_ns": ONCE_CALL,
    "epoll_once.notice_ns": ONCE_NOTICE,
    "epoll_once.recheck_ns": VAIN,
    "epoll_once.add_ns": CALLS["epoll_add"] + OWN_ADD,
    "epoll_once.delete_ns": CALLS["epoll_del"] + OWN_DELETE,
    "epoll_ctlv.call_ns": CALL_ASKED, "epoll_ctlv.event_ns": EVENT,
    "epoll_ctlv.recheck_ns": RECHECK, "dev_poll.ask_ns": ASK,
    "dev_poll.call_ns": DEV_CALL, "dev_poll.event_ns": DEV_EVENT,
    **{f"{name}.entry_ns": TELL for name in ("epoll_ctlv", "dev_poll")},
    **{f"{name}.add_ns": ADD + LISTED for name in ("epoll_ctlv", "dev_poll")},
    **{f"{name}.modify_ns": MODIFY + LISTED for name in ("epoll_ctlv", "dev_poll")},
    **{f"{name}.delete_ns": DELETE for name in ("epoll_ctlv", "dev_poll")},
}  # fmt: skip


@pytest.fixture(scope="module")
def costs() -> Curves:
    return {key: (cost.at, cost.value) for key, cost in counted_costs(medians(all_rows())).items()}


@pytest.mark.parametrize("name", TRUE)
def test_a_cost_comes_back(name: str, costs: Curves) -> None:
    assert costs[name][1][0] == pytest.approx(TRUE[name], rel=0.01)


@pytest.mark.parametrize(
    ("name", "at", "ns"),
    [
        *((f"{name}.poll", 3_000, 3_000 * POLLED) for name in SIGNALS),
        ("dev_poll.scan", 6_000, 6_000 * ITEM),
        ("dev_poll.look", 1_000, DEV_LOOK),
        ("epoll_edge.add_ns", 1_000, CALLS["epoll_add"] + OWN_ADD),
    ],
)
def test_a_curve_comes_back(name: str, at: int, ns: float, costs: Curves) -> None:
    assert np.interp(at, *costs[name]) == pytest.approx(ns, rel=0.01)


def test_every_table_is_whole(
    costs: Curves,
) -> None:
    needed = {
        f"{table}.{name}"
        for table in (*MERGED, *UNMERGED)
        for name in required_costs(MECHANISM_TABLES[table])
    }
    assert needed <= set(costs)


def test_what_no_guest_measured_is_not_priced() -> None:
    tables = {key.split(".")[0] for key in counted_costs(medians(rows()))}
    assert not tables & {*MERGED, *UNMERGED}


@pytest.mark.parametrize(
    "bench",
    [
        *("wait_told", "wait_recovers", "interrupt_data", "wait_looks"),
        *("read_sleeps", "handover_processes", "spawn_thread"),
        *("polls_quiet", "polls_sleep", "ring_reply", "ring_sleeps"),
    ],
)
def test_a_missing_bench_is_named(bench: str) -> None:
    without = [line for line in all_rows() if line[0] != bench]
    with pytest.raises(FitError, match=bench):
        counted_costs(medians(without))
