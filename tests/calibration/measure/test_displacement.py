"""The table of packets and calls that alternate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dispatchsim.calibration.measure import displacement
from dispatchsim.calibration.measure.displacement import (
    Displacement,
    displacement_table,
    measure_displacement,
)


def test_a_row_has_the_median_of_the_rounds_for_each_number_at_once() -> None:
    table = displacement_table(
        [
            Displacement("packets", {1: [7.0, 6.0, 8.0], 2: [6.0], 16: [5.0]}),
            Displacement("less", {1: [-0.5], 2: [0.0], 16: [0.25]}),
        ]
    )
    assert table.rows == [
        ("packets", "7.0 (6.0 ... 8.0)", "6.0 (6.0 ... 6.0)", "5.0 (5.0 ... 5.0)"),
        ("less", "-0.5 (-0.5 ... -0.5)", "0.0 (0.0 ... 0.0)", "0.2 (0.2 ... 0.2)"),
    ]


def test_each_step_takes_its_field_of_each_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, int]] = []
    fields = ("computing_ns", "by_kind_ns", "quiet_ns", "amid_ns", "median", "amid_interrupts")

    def run_bench(command: str, number: int, **_: object) -> list[SimpleNamespace]:
        commands.append((command, number))
        values = {field: 1000.0 * i + number for i, field in enumerate(fields, start=1)}
        return [SimpleNamespace(model_dump=lambda: values)]

    monkeypatch.setattr(displacement, "run_bench", run_bench)
    nothing: Any = None
    found = measure_displacement(nothing, nothing, rounds=2)
    bursts = [f"serve_amid --burst {n}" for n in (1, 2, 16)]
    assert commands == [(command, number) for number in (0, 1) for command in bursts]
    of_each = [each.found[16] for each in found]
    assert of_each[:-1] == [[float(i), i + 0.001] for i in range(1, 6)]
    assert of_each[-1] == [6000.0, 6001.0]  # a number, not a time
