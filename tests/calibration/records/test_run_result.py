"""From records to a result: how late the generator was, what lies beyond p99, which gaps it had."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from dispatchsim.calibration.records.measured_runs import CpuTimes, RunResult
from dispatchsim.calibration.records.run_result import (
    REPLIED,
    Records,
    Window,
    read_gaps,
    result_of,
)
from dispatchsim.calibration.testbed.processes import RunError

COUNTED = {"above_ns": 20_000, "n": 7, "lost_ns": 99_000}


def result(n: int) -> RunResult:
    """Return the result of *n* connections: number k is late by k ns, and takes 1000 k."""
    number = np.arange(n)
    intended_ns = 10 * number
    records = Records(
        intended_ns=intended_ns,
        started_ns=intended_ns + number,
        connected_ns=intended_ns + number,
        done_ns=intended_ns + 1000 * number,
        status=np.full(n, REPLIED),
    )
    return result_of(
        records,
        Window(0, 10**9),
        calls={"accepts": n, "replies": n},
        cpu=CpuTimes(process_ns=0, busy_ns=0, softirq_ns=0),
        client_cpu_ns=0,
    )


def test_lateness_has_its_quantiles() -> None:
    client = result(1001).client
    assert (client.lag_p50_ns, client.lag_p99_ns, client.lag_p999_ns) == (500, 990, 999)
    assert client.lag_max_ns == 1000


def test_p999_needs_ten_thousand_replies() -> None:
    few, many = result(9_999).latency_ns, result(10_001).latency_ns
    assert few is not None
    assert many is not None
    assert few.p999 is None
    assert many.p999 == pytest.approx(9_990_000)


def test_the_long_gaps_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "gaps"
    path.write_bytes(struct.pack("<6q", 1_000, 75_000, 90_000, 50_000, 180_000, 51_000))
    gaps = read_gaps(path, COUNTED)
    assert (gaps.at_ns, gaps.length_ns) == ([1_000, 180_000], [75_000, 51_000])
    assert (gaps.above_ns, gaps.n, gaps.lost_ns) == (50_000, 7, 99_000)


def test_a_run_may_have_no_long_gap(tmp_path: Path) -> None:
    (tmp_path / "gaps").write_bytes(b"")
    assert read_gaps(tmp_path / "gaps", COUNTED).at_ns == []


def test_a_torn_file_of_gaps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gaps").write_bytes(bytes(17))
    for name in ("gaps", "absent"):
        with pytest.raises(RunError, match="the file of gaps must hold rows of 16 bytes"):
            read_gaps(tmp_path / name, COUNTED)
