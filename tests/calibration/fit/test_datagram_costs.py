"""Floods give a profile its prices of datagrams, with intervals over rounds."""

from __future__ import annotations

import pytest
from tests.calibration.fit.synthetic_micro import micro_rounds
from tests.calibration.fit.test_fit import fit_run
from tests.calibration.fit.test_flood_costs import (
    COLD_NS,
    ENTRY_NS,
    PACKET_NS,
    ROWS,
    SEGMENT_NS,
    alone,
)

from dispatchsim.calibration.fit.fit import fit_profile
from dispatchsim.calibration.fit.packets import SINCE, datagram_costs
from dispatchsim.calibration.records.measured_runs import DataError

DATAGRAM, ENTRY = "interrupt.datagram_ns", "interrupt.datagram_entry_ns"


def test_prices_are_found_again_and_entries_get_no_dearer_beyond_what_was_measured() -> None:
    costs = datagram_costs(ROWS, replicates=10, seed=1)
    assert costs[DATAGRAM].value == pytest.approx((PACKET_NS + SEGMENT_NS,), rel=1e-3)
    assert costs[ENTRY].value == pytest.approx((ENTRY_NS,), rel=1e-3)
    assert costs[SINCE].at == (43, 93, 3988, 3989)
    assert costs[SINCE].value == pytest.approx((0, 0, *(COLD_NS - ENTRY_NS,) * 2), rel=1e-3)
    # One round has no spread.
    assert costs[DATAGRAM].low == costs[DATAGRAM].value == costs[DATAGRAM].high


def test_rounds_that_differ_make_intervals() -> None:
    dearer = [
        row.model_copy(update={"repeat": 1})
        if row.point.train > 1 or row.point.segments > 1
        else alone(
            round(1e6 / row.point.rate_per_s),
            entry_ns=round(row.train.taken_ns.p50) - PACKET_NS - SEGMENT_NS + 1_000,
        ).model_copy(update={"repeat": 1})
        for row in ROWS
        if row.train is not None
    ]
    cost = datagram_costs([*ROWS, *dearer], replicates=50, seed=1)[ENTRY]
    assert cost.low[0] < cost.value[0] < cost.high[0]
    assert cost.low[0] == pytest.approx(ENTRY_NS, rel=0.1)
    assert cost.high[0] == pytest.approx(ENTRY_NS + 1_000, rel=0.1)


def test_floods_go_into_a_profile_and_none_leave_it_as_it_was() -> None:
    def profile(rows: list[object]) -> dict[str, object]:
        fitted = fit_profile(
            {"id": "a-machine"},
            micro_rounds(),
            [fit_run(20_000)],
            rows,  # type: ignore[arg-type]
            replicates=5,
            simulated_ns=50_000_000,
        )
        return dict(fitted.cost["interrupt"])

    without, given = profile([]), profile([*ROWS])
    assert set(given) - set(without) == {"datagram_ns", "datagram_entry_ns", "entry_since"}
    held_out = [row.model_copy(update={"accepted": False}) for row in ROWS]
    assert profile([*held_out]) == without


def test_half_a_campaign_of_floods_is_refused() -> None:
    with pytest.raises(DataError, match="calibration floods are missing"):
        datagram_costs(ROWS[:2], replicates=1, seed=1)
