"""The equations of the emulated target give back the costs that benches were made of."""

from __future__ import annotations

import numpy as np
import pytest
from tests.calibration.emulated.counted_rows import (
    ACK,
    ACKED,
    AGAIN,
    ANSWERED,
    BITS,
    CALL,
    CALLS,
    CLOSED,
    CROSSING,
    CROWD,
    DATA,
    DROPPED,
    ENTRY,
    EVENT,
    EXIT,
    KIB,
    LATER,
    LOOK,
    LOOKS,
    READ_BACK,
    RECHECK,
    REGISTER,
    RELEASE,
    RESET,
    RESETS,
    SCAN,
    SLEEP,
    SYN,
    THREAD,
    WAKE,
    WRITE,
    long_replies,
    medians,
    rows,
)

from dispatchsim.calibration.emulated.run_lengths import DELAY_NS
from dispatchsim.calibration.fit.counted_costs import (
    counted_connections_max,
    counted_costs,
)
from dispatchsim.calibration.fit.medians import FitError

TRUE = {
    "interrupt.entry_ns": ENTRY, "interrupt.syn_ns": SYN, "interrupt.ack_ns": ACK,
    "interrupt.data_ns": DATA, "interrupt.reset_ns": RESET,
    "interrupt.syn_saved_ns": SYN - DROPPED, "interrupt.syn_after_ns": ENTRY + SYN - ANSWERED,
    "interrupt.data_saved_ns": ENTRY + DATA - LATER,
    "interrupt.idle_exit_ns": EXIT, "interrupt.wake_ns": WAKE,
    "interrupt.sleep_ns": SLEEP,
    "interrupt.left_ns": THREAD,
    "call.crossing_ns": CROSSING,
    "call.accept_ns": CALLS["accept"], "call.accept_again_ns": CALLS["accept_again"] + AGAIN,
    "call.accept_after_ns": CALLS["accept_again"] + AGAIN - LOOKS,
    "call.write_ns": WRITE - KIB * 128 / 1_024, "call.write_kib_ns": KIB,
    "call.close_ns": CALLS["close"] + CLOSED,
    "epoll_level.call_ns": CALL, "epoll_level.event_ns": EVENT, "epoll_level.recheck_ns": RECHECK,
    "epoll_level.delete_ns": CALLS["epoll_del"],
    "poll.call_ns": 500, "poll.event_ns": EVENT, "network.delay_ns": DELAY_NS,
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_a_cost_comes_back(name: str) -> None:
    assert counted_costs(medians(rows()))[name].value[0] == pytest.approx(TRUE[name], rel=0.01)


def test_acknowledgements_of_long_replies_have_a_cost_if_it_was_measured() -> None:
    found = counted_costs(medians([*rows(), *long_replies()]))["interrupt.acked_ns"]
    assert found.value[0] == pytest.approx(ACKED)
    assert "interrupt.acked_ns" not in counted_costs(medians(rows()))


@pytest.mark.parametrize(
    ("name", "at", "ns"),
    [
        ("poll.scan", 1_000, 1_000 * SCAN),
        ("poll.register", 1_000, 1_000 * REGISTER),
        ("poll.release", 1_000, 1_000 * RELEASE),
        ("poll.read_back", 1_000, 1_000 * READ_BACK),
        ("poll.look", 1_000, LOOK + 1_000),
        ("select.bitmap", 1_000, 1_000 * BITS),
        ("call.crowding", 1, 0),
        ("call.crowding", 32, CROWD[32] + RESETS[16]),
        ("call.crowding", 64, CROWD[64] + RESETS[16]),
        ("call.crowding", 128, CROWD[64] + RESETS[16]),
    ],
)
def test_a_curve_comes_back(name: str, at: int, ns: float) -> None:
    cost = counted_costs(medians(rows()))[name]
    assert np.interp(at, cost.at, cost.value) == pytest.approx(ns, rel=0.02, abs=1)


def test_reading_back_is_part_of_release_if_it_was_not_measured() -> None:
    older = [row for row in rows() if row[0] != "poll_first"]
    costs = counted_costs(medians(older))
    assert "poll.read_back" not in costs
    release = costs["poll.release"]
    assert np.interp(1_000, release.at, release.value) == pytest.approx(
        1_000 * (RELEASE + READ_BACK), rel=0.02
    )


def test_the_range_is_that_of_the_scans() -> None:
    assert counted_connections_max(medians(rows())) == 6_000


def test_a_missing_bench_is_named() -> None:
    without = [row for row in rows() if row[0] != "accept_looks"]
    with pytest.raises(FitError, match="accept_looks"):
        counted_costs(medians(without))
