"""The table of packets and calls that alternate."""

from __future__ import annotations

from dispatchsim.calibration.measure.displacement import Displacement, displacement_table


def test_a_row_has_the_median_of_the_rounds_for_each_number_at_once() -> None:
    table = displacement_table(
        [
            Displacement("packets", {1: [7.0, 6.0, 8.0], 16: [5.0]}),
            Displacement("less", {1: [-0.5], 16: [0.25]}),
        ]
    )
    assert table.rows == [
        ("packets", "7.0 (6.0 ... 8.0)", "5.0 (5.0 ... 5.0)"),
        ("less", "-0.5 (-0.5 ... -0.5)", "0.2 (0.2 ... 0.2)"),
    ]
