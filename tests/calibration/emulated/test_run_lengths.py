"""How long the emulated target runs its points."""

import pytest

from dispatchsim.calibration.emulated.run_lengths import (
    lengths_of,
)
from dispatchsim.calibration.points.point import point_at


@pytest.mark.parametrize("rate_per_s", [4_400, 28_600])
def test_a_window_holds_some_4000_requests(rate_per_s: float) -> None:
    lengths = lengths_of(point_at(mechanism="poll", loop="open", rate_per_s=rate_per_s))
    assert 4_000 <= lengths.window_ns * rate_per_s / 1e9 <= 4_300
    assert 500 <= lengths.warm_up_ns * rate_per_s / 1e9 <= 800


def test_many_users_warm_up_longer() -> None:
    few, many = (lengths_of(point_at(mechanism="poll", users=users)) for users in (4, 256))
    assert many.warm_up_ns * 20_000 / 1e9 >= 1_000
    assert few.window_ns > many.window_ns
