"""Recordings of gaps: which come with the timer tick, how they cluster, when they are too many."""

from __future__ import annotations

import math

import pytest

from dispatchsim.calibration.records.gap_records import (
    GapsRecord,
    clustering,
    gaps_table,
    noise_problem,
    periodic,
)
from dispatchsim.calibration.records.measured_runs import Gaps

SECOND_NS = 1_000_000_000


def gaps(at_ns: list[int], length_ns: list[int] | None = None, *, n: int = 0) -> Gaps:
    lengths = [20_000] * len(at_ns) if length_ns is None else length_ns
    return Gaps(
        above_ns=5000, n=n or len(at_ns), lost_ns=sum(lengths), at_ns=at_ns, length_ns=lengths
    )


def record(found: Gaps, *, elapsed_ns: int = SECOND_NS) -> GapsRecord:
    return GapsRecord(
        date="2026-11-26",
        code="abc",
        machine="epyc",
        cpu="server",
        beside="nothing",
        elapsed_ns=elapsed_ns,
        median_ns=20_000,
        p90_ns=20_000,
        worst_ns=max(found.length_ns, default=0),
        gaps=found,
    )


def test_gaps_a_tick_apart_come_with_the_tick_and_others_do_not() -> None:
    ticks = [4_000_000 * i + 1000 * (i % 30) for i in range(100)]
    others = [1_300_000, 21_500_000, 98_777_000]
    at_ns = sorted(ticks + others)
    period_ns, of_tick = periodic(gaps(at_ns))
    assert period_ns == 4_000_000
    assert [at for at, ticking in zip(at_ns, of_tick, strict=True) if not ticking] == others


def test_gaps_without_a_common_distance_have_no_period() -> None:
    period_ns, of_tick = periodic(gaps([7_770_000 * i * i for i in range(1, 30)]))
    assert period_ns == 0
    assert not of_tick.any()
    assert periodic(gaps([]))[0] == 0


def test_trains_vary_more_than_their_mean_and_a_clock_less() -> None:
    train = [50_000_000 + 1000 * i for i in range(10)]
    assert clustering(train, SECOND_NS) == pytest.approx(10)  # 10 in one part of ten
    clock = [10_000_000 * i for i in range(100)]
    assert clustering(clock, SECOND_NS) == 0
    assert math.isnan(clustering([], SECOND_NS))


def test_the_table_says_share_rates_and_lengths() -> None:
    found = record(gaps([0, 10_000_000, 20_000_000], [6000, 60_000, 2_000_000], n=200))
    table = gaps_table([found])
    cells = dict(zip([column.heading for column in table.columns], table.rows[0], strict=True))
    assert cells["CPU"] == "server"
    assert (cells["gaps / s"], cells["lost"], cells["worst"]) == ("200", "0.21%", "2000 us")
    assert (cells["> 20 us/s"], cells["> 100 us/s"], cells["> 1000 us/s"]) == (
        *("2.00", "1.00", "1.00"),
    )
    assert cells["p99"] == "6 us"  # two of 200 are longer


def test_a_machine_that_loses_more_than_a_twentieth_is_too_noisy() -> None:
    quiet = record(gaps([0], [50_000_000]))
    noisy = record(gaps([0, 60_000_000], [50_000_000, 1_000_000], n=9))
    assert noise_problem([quiet]) == ""
    assert noise_problem([]) == ""
    assert noise_problem([quiet, noisy]) == (
        "the machine is too noisy to measure: the server's CPU loses 5.1% of its time in 9 gaps "
        "above 1 us (worst 50.0 ms), the limit is 5%: end other programs, on the host too, or "
        "measure at another time"
    )
