"""The series of the far end: which lateness a gap explains, and what the client's kernel costs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dispatchsim.calibration.measure import far_end_series
from dispatchsim.calibration.measure.far_end_series import (
    TIMING,
    Paired,
    Run,
    held_up,
    pairs_table,
    run_of,
    series_table,
)
from dispatchsim.calibration.records.measured_runs import Gaps
from dispatchsim.calibration.records.run_result import Records, Window

RUN = Run(
    client="far_end", rate_per_s=5_000, started_per_s=4_990, lag_p50_ns=500, lag_p99_ns=10_000,
    lag_p999_ns=60_000, lag_max_ns=90_000, lag_p99_quiet_ns=9_000, lag_p999_quiet_ns=20_000,
    quiet_share=0.99, replied_per_s=4_980, p50_ns=70_000, p99_ns=float("nan"), process_ns=20_000,
    busy_ns=30_000,
)  # fmt: skip


def records_of(times: list[tuple[int, int]]) -> Records:
    """Return records of connections that were due and begun at these times."""
    intended_ns, started_ns = (np.array(column) for column in zip(*times, strict=True))
    return Records(intended_ns, started_ns, started_ns, started_ns, started_ns)


def gaps_of(*gaps: tuple[int, int]) -> Gaps:
    """Return gaps that begin at these times and are as long."""
    return Gaps(
        above_ns=20, n=9, lost_ns=9, at_ns=[b for b, _ in gaps], length_ns=[n for _, n in gaps]
    )


def test_a_gap_holds_up_what_is_due_in_it_and_what_queues_behind() -> None:
    records = records_of(
        [(100, 101), (190, 260), (210, 262), (255, 280), (300, 319), (400, 460), (500, 501)]
    )
    # The gap begins at 200 and ends at 250; at 319 the generator has caught up. The lateness of
    # the connection due at 400 is its own.
    expected = [False, True, True, True, False, False, False]
    assert held_up(records, gaps_of((200, 50))).tolist() == expected


def test_connections_that_never_began_are_not_held_up() -> None:
    records = records_of([(100, -1), (210, 260), (220, -1), (300, 301)])
    assert held_up(records, gaps_of((200, 50))).tolist() == [False, True, False, False]


def test_gaps_before_between_and_after_all_connections_hold_up_none() -> None:
    records = records_of([(1_000, 1_001), (2_000, 2_001)])
    assert not held_up(records, gaps_of((10, 50), (1_100, 50), (3_000, 50))).any()
    assert not held_up(records, gaps_of()).any()


def test_a_generator_that_never_catches_up_is_held_up_to_the_end() -> None:
    records = records_of([(100, 190), (200, 290), (300, 390)])
    assert held_up(records, gaps_of((110, 70))).tolist() == [True, True, True]


def test_the_client_s_kernel_costs_the_difference_within_each_round() -> None:
    load = [replace(RUN, client="load", process_ns=ns) for ns in (25_000, 31_000, 24_000)]
    far_end = [replace(RUN, process_ns=ns) for ns in (20_000, 21_000, 23_000)]
    paired = Paired(5_000, far_end, load)
    assert paired.differences("process_ns").tolist() == [5_000, 10_000, 1_000]
    (process, _) = pairs_table([paired]).rows
    assert process == (
        "5,000", "process", "3", "25.0 us", "21.0 us", "5.0 us", "1.0 us", "10.0 us"
    )  # fmt: skip


def test_what_is_not_known_is_a_dash_in_the_series() -> None:
    (row,) = series_table([RUN]).rows
    assert row[:3] == ("5,000", "far_end", "4,990")
    assert row[7:10] == ("9.0 us", "20.0 us", "99.0%")
    assert row[-4:] == ("4,980", "0.07 ms", "\N{EN DASH}", "20.0 us")


def test_lateness_outside_gaps_is_a_dash_where_gaps_held_up_much_of_the_run() -> None:
    (row,) = series_table([replace(RUN, quiet_share=0.89)]).rows
    assert row[7:10] == ("\N{EN DASH}", "\N{EN DASH}", "89.0%")


def test_what_is_due_while_the_harness_reads_counters_is_not_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ms = 1_000_000
    records = records_of([(90 * ms, 90 * ms), (101 * ms, 103 * ms), (106 * ms, 106 * ms + 700)])
    window = Window(100 * ms, 200 * ms, untimed_ns=5 * ms)
    counted = SimpleNamespace(
        replied=2, latency_ns=None, cpu=SimpleNamespace(process_ns=40_000, busy_ns=60_000)
    )
    replayed: Any = SimpleNamespace(
        records=records, window=window, result=counted, gaps=gaps_of(),
        noise=SimpleNamespace(foreign_share=0.0),
    )  # fmt: skip
    monkeypatch.setattr(far_end_series, "run_trace", lambda *_, **__: replayed)
    nothing: Any = None
    run = run_of("far_end", 5_000, 0, testbed=nothing, programs=nothing, timing=TIMING)
    assert (run.lag_p50_ns, run.lag_max_ns, run.quiet_share) == (700, 700, 1)
    assert run.started_per_s == 20  # 2 in 100 ms: it began, however late
    series = series_table([run])
    assert "except in the first 5 ms of the window" in series.note
