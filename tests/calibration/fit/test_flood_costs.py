"""Prices of interrupts under a flood: a fit to made-up floods recovers what made them."""

from __future__ import annotations

import dataclasses

import pytest
from tests.calibration.fit.synthetic_flood import flood_record

from dispatchsim.calibration.fit.packets import fit_flood_prices
from dispatchsim.calibration.points.flood_points import FloodPoint
from dispatchsim.calibration.records.flood_records import FloodRecord
from dispatchsim.calibration.records.measured_runs import DataError

ENTRY_NS, COLD_NS, PACKET_NS, SEGMENT_NS = 6_000, 11_000, 700, 300


def alone(period_us: int, *, segments: int = 1, entry_ns: int = ENTRY_NS) -> FloodRecord:
    point = FloodPoint(use="calibration", rate_per_s=1e6 / period_us, segments=segments)
    taken_ns = entry_ns + PACKET_NS + segments * SEGMENT_NS
    return flood_record(point, 0, taken_ns=taken_ns)


def train(n: int, n_interrupts: int) -> FloodRecord:
    point = FloodPoint(use="calibration", rate_per_s=1000.0 * n, train=n)
    taken_ns = n_interrupts * ENTRY_NS + n * (PACKET_NS + SEGMENT_NS)
    return flood_record(
        point, 0, taken_ns=taken_ns, sent=100 * n, calls=100 * n_interrupts, call_ns=(2_000, 2_100)
    )


ROWS = [
    alone(50),
    alone(100),
    alone(4000, entry_ns=COLD_NS),
    *(alone(100, segments=n) for n in (2, 8)),
    *(train(n, n_interrupts) for n, n_interrupts in ((4, 1), (16, 4), (64, 21))),
]


def test_a_fit_recovers_the_prices_that_made_the_floods() -> None:
    prices = fit_flood_prices(ROWS)
    assert prices.segment_ns == pytest.approx(SEGMENT_NS, rel=1e-3)
    assert prices.packet_ns == pytest.approx(PACKET_NS, rel=1e-3)
    assert prices.entry_ns == pytest.approx((ENTRY_NS, ENTRY_NS, COLD_NS), rel=1e-3)
    # Times since the end of the last interrupt, not since its begin.
    assert prices.since_us == pytest.approx((43.0, 93.0, 3988.0), rel=1e-3)
    assert prices.spread == pytest.approx((1,) * 5, rel=1e-3)
    assert (prices.stop_ns, prices.calling_ns, prices.call_ns) == (6_000, 8_000, 2_000)
    assert prices.taken_ns(8) == pytest.approx(PACKET_NS + 8 * SEGMENT_NS, rel=1e-3)


def test_held_out_and_rejected_floods_change_no_price() -> None:
    held_out = FloodPoint(use="heldout", rate_per_s=15_000)
    rejected = alone(100).model_copy(update={"accepted": False, "train": ROWS[2].train})
    assert fit_flood_prices([*ROWS, flood_record(held_out, 0), rejected]) == fit_flood_prices(ROWS)


@pytest.mark.parametrize("kept", [ROWS[:5], ROWS[5:], ROWS[:3] + ROWS[5:], ROWS[1:2] + ROWS[3:]])
def test_too_few_floods_are_refused(kept: list[FloodRecord]) -> None:
    with pytest.raises(DataError, match="calibration floods are missing"):
        fit_flood_prices(kept)


def test_runs_differ_by_their_entries_alone() -> None:
    prices = dataclasses.replace(fit_flood_prices(ROWS), spread=(0.5, 2.0))
    slow = prices.of_each_run()[1]
    assert slow.entry_ns == pytest.approx([2 * ns for ns in prices.entry_ns])
    assert (slow.packet_ns, slow.spread) == (prices.packet_ns, (1.0,))
