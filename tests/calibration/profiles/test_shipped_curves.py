"""Shipped curves over time end flat: a run must not extrapolate them to any idle time."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.profiles.cost_profile import shipped

OVER_TIME = ("interrupt.idle_exit_since", "interrupt.entry_since", "sharing.refill")
"""Costs by the time since something, which has no limit in a run."""


@pytest.mark.parametrize("name", shipped())
def test_a_cost_stays_beyond_the_longest_time_that_was_measured(name: str) -> None:
    costs = shipped()[name].cost
    for key in OVER_TIME:
        table, field = key.split(".")
        cost = costs.get(table, {}).get(field)
        if cost is not None and len(cost.at) > 1:
            assert cost.value[-1] == cost.value[-2], key
