"""The bench that counts late resets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dispatchsim.calibration.measure import late_resets
from dispatchsim.calibration.measure.late_resets import (
    LOADS,
    LateResets,
    late_resets_table,
    measure_late_resets,
)


def test_a_packet_more_than_five_is_a_late_reset() -> None:
    table = late_resets_table([LateResets("1,000/s", [5.25, 5.5, 6.0], [3.0, 3.5, 4.0])])
    assert table.rows == [
        ("1,000/s", "5.5 (5.2 ... 6.0)", "0.5 (0.2 ... 1.0)", "3.5 (3.0 ... 4.0)")
    ]


def test_packets_count_by_started_connections_and_interrupts_by_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_trace(*_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(
            records=SimpleNamespace(started_ns=np.array([5, 7, 9, 11, -1])),
            packets={"sent": 25, "syn_repeated": 2, "data_repeated": 1},
            result=SimpleNamespace(cpu=SimpleNamespace(n_calls=9), replied=3),
        )

    monkeypatch.setattr(late_resets, "run_trace", run_trace)
    nothing: Any = None
    found = measure_late_resets(nothing, nothing, rounds=2)
    assert [row.load for row in found] == list(LOADS)
    assert {(*row.packets, *row.interrupts) for row in found} == {(5.5, 5.5, 3.0, 3.0)}
