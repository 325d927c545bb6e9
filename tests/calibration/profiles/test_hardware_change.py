"""Other hardware: what becomes faster or dearer, and by how much less it is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.profiles.cost_profile import Profile, ProfileError, shipped
from dispatchsim.calibration.profiles.hardware_change import HardwareChange, changed


def width(profile: Profile, table: str, name: str) -> float:
    cost = profile.cost[table][name]
    return math.log(cost.high[0] / cost.low[0])


def test_nothing_changes_without_a_change() -> None:
    profile = example_profile()
    same = changed(profile, HardwareChange())
    for table, costs in profile.cost.items():
        for name, cost in costs.items():
            assert same.cost[table][name].value == pytest.approx(cost.value), (table, name)
            assert same.cost[table][name].high == pytest.approx(cost.high), (table, name)
    assert same.name == profile.name


def test_a_faster_clock_makes_work_cheaper_and_less_known() -> None:
    profile = example_profile()
    faster = changed(profile, HardwareChange(clock=2.0))
    before, after = profile.cost["call"]["accept_ns"], faster.cost["call"]["accept_ns"]
    # All of it, or half of it, is twice as fast: the middle is the geometric mean.
    assert after.value[0] == pytest.approx(before.value[0] * math.sqrt(0.5 * 0.75))
    assert after.low[0] <= 0.5 * before.value[0]
    assert after.high[0] >= 0.75 * before.value[0]
    assert width(faster, "call", "accept_ns") > width(profile, "call", "accept_ns")
    assert faster.cost["network"] == profile.cost["network"]
    assert faster.name == f"{profile.name}, clock x 2"


def test_a_dearer_crossing_is_paid_by_every_call_once() -> None:
    profile = example_profile()
    (known_ns,) = profile.cost["call"]["crossing_ns"].value
    dearer = changed(profile, HardwareChange(crossing_ns=known_ns + 100))

    def more(table: str, name: str) -> float:
        return dearer.cost[table][name].value[0] - profile.cost[table][name].value[0]

    for table, name in (("call", "read_ns"), ("epoll_level", "call_ns"), ("epoll_level", "add_ns")):
        assert more(table, name) == pytest.approx(100), (table, name)
    for table, name in (("interrupt", "data_ns"), ("call", "write_kib_ns"), ("poll", "scan")):
        assert more(table, name) == pytest.approx(0), (table, name)


def test_a_crossing_is_known_no_better_than_what_is_left() -> None:
    profile = example_profile()
    crossing = profile.cost["call"]["crossing_ns"]
    for more_ns in (-50.0, 100.0):
        other = changed(profile, HardwareChange(crossing_ns=crossing.value[0] + more_ns))
        before, after = profile.cost["call"]["read_ns"], other.cost["call"]["read_ns"]
        # Absolute distances stay, and that of the crossing is added to either.
        assert after.high[0] - after.value[0] == pytest.approx(
            before.high[0] - before.value[0] + crossing.value[0] - crossing.low[0]
        )
        assert after.value[0] - after.low[0] == pytest.approx(
            before.value[0] - before.low[0] + crossing.high[0] - crossing.value[0]
        )


@given(st.floats(0.2, 5.0), st.floats(0, 5000))
def test_a_changed_profile_keeps_the_rules(clock: float, crossing_ns: float) -> None:
    for profile in shipped().values():
        change = HardwareChange(clock, crossing_ns)
        Profile.model_validate(changed(profile, change).model_dump())


def test_what_cannot_be_is_said() -> None:
    profile = example_profile()
    with pytest.raises(ProfileError, match=r"clock: must be from 0\.01 to 100 times, got 0"):
        changed(profile, HardwareChange(clock=0))
    with pytest.raises(ProfileError, match="crossing: must be from 0 ns to 1 ms"):
        changed(profile, HardwareChange(crossing_ns=2e6))
    call = {k: v for k, v in profile.cost["call"].items() if k != "crossing_ns"}
    ignorant = profile.model_copy(update={"cost": {**profile.cost, "call": call}})
    with pytest.raises(ProfileError, match=r"call\.crossing_ns: must be in the profile"):
        changed(ignorant, HardwareChange(crossing_ns=100))
