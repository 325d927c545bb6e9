"""Costs that a profile has not measured: borrowed from others, with a notice."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.profiles.cost import MECHANISM_TABLES, Cost, required_costs
from dispatchsim.calibration.profiles.cost_profile import Profile, shipped_profiles
from dispatchsim.calibration.profiles.lent_costs import LENDERS, lent
from dispatchsim.calibration.running.preparation import warnings_of
from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.costs import curve_ns

PROFILES = [Profile.read(path) for path in shipped_profiles().values()]


def cost(*value: float, low: float = 0.9, high: float = 1.1, at: tuple[int, ...] = (0,)) -> Cost:
    return Cost(
        at=at,
        value=value,
        low=tuple(low * v for v in value),
        high=tuple(high * v for v in value),
        residual=0.01,
        source="a bench",
    )


def test_a_price_is_the_first_sum_that_the_profile_can_answer() -> None:
    tables = {
        "epoll_level": {"add_ns": cost(700, 900, at=(0, 1000)), "delete_ns": cost(500)},
        "call": {"crossing_ns": cost(100)},
    }
    added = lent("kqueue", tables)["add_ns"]
    assert (added.at, added.value) == ((0, 1000), (600, 800))
    assert added.low == pytest.approx((0.9 * 700 - 110, 0.9 * 900 - 110))
    assert added.high == pytest.approx((1.1 * 700 - 90, 1.1 * 900 - 90))
    assert added.source == "borrowed: epoll_level.add_ns - call.crossing_ns"
    changed = lent("kqueue", tables)["modify_ns"]  # a filter away, another added
    assert changed.value == (500 - 100 + 700 - 100,)
    vector = tables | {"epoll_ctlv": {"add_ns": cost(620)}}
    assert lent("kqueue", vector)["add_ns"].value == (620,)


def test_no_price_is_less_than_nothing() -> None:
    tables = {"epoll_level": {"delete_ns": cost(50)}, "call": {"crossing_ns": cost(100)}}
    assert lent("epoll_close", tables)["forget_ns"].value == (0,)


def test_what_lenders_lack_is_missing() -> None:
    assert lent("epoll_close", {"epoll_level": {"delete_ns": cost(50)}}) == {}
    assert lent("select", {}) == {}


def test_every_cost_of_a_borrower_is_lent_by_something_that_exists() -> None:
    for mechanism, sums in LENDERS.items():
        assert set(required_costs(MECHANISM_TABLES[mechanism])) <= set(sums), mechanism


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_every_shipped_profile_lends_and_says_so(profile: Profile) -> None:
    for mechanism in LENDERS.keys() - profile.cost.keys():
        lender = mechanism[: mechanism.rfind("_")]  # of a variant
        if lender in ("dev_poll", "rt_signals") and lender not in profile.cost:
            assert profile.missing_for(mechanism)
            continue
        assert profile.missing_for(mechanism) == (), mechanism
        if mechanism in profile.cost:
            continue
        notice = profile.not_measured(mechanism) or ""
        assert f"{profile.name} has no measured costs for {mechanism}" in notice
        assert profile.costs(mechanism, open_connections=0).mechanism.call_ns > 0
    for mechanism in profile.cost.keys() & CATALOGUE.keys():
        assert profile.not_measured(mechanism) is None


def test_an_event_in_a_mapped_result_area_is_the_servers_part_alone() -> None:
    tables = {"dev_poll": {"event_ns": cost(52)}, "poll": {"event_ns": cost(26)}}
    assert lent("dev_poll_mmap", tables)["event_ns"].value == (26,)
    assert lent("dev_poll_or", tables)["event_ns"].value == (52,)


def test_a_frame_is_what_one_signal_costs_and_a_way_into_the_kernel() -> None:
    tables = {"rt_signals": {"signal_ns": cost(313)}, "call": {"crossing_ns": cost(229)}}
    found = lent("rt_signals_handler", tables)
    names = ("deliver_ns", "return_ns", "mask_ns")
    assert [found[name].value for name in names] == [(313,), (229,), (229,)]


@pytest.mark.parametrize("mechanism", ["select", "poll"])
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_who_builds_its_array_anew_is_told_what_that_is_taken_to_cost(
    profile: Profile, mechanism: str
) -> None:
    assert profile.not_measured(mechanism) is None
    notice = profile.not_measured(mechanism, ["rebuild"]) or ""
    curve = profile.costs(mechanism, open_connections=0).mechanism.rebuild
    assert notice.startswith(f"{profile.name} has no measured cost for {mechanism}.rebuild (")
    at_more = [curve_ns(curve, n) for n in (1, 1_000, 6_000, 20_000)]
    if notice.endswith("(borrowed: rt_signals.poll - poll.scan)"):
        assert "rt_signals" in profile.cost
        assert 0 < at_more[1] < at_more[2] < at_more[3]
    else:
        # On hardware the difference of two scans may be less than their noise: then it falls.
        assert not profile.name.startswith("counted-") or "rt_signals" not in profile.cost
        assert notice.endswith("(0 is used)")
        assert curve_ns(curve, 1_000) == 0
    assert profile.not_measured(mechanism, ["scan"]) is None


@pytest.mark.parametrize(
    "mechanism", ["rt_signals", "rt_signals_handler", "signal_per_fd", "sigtimedwait4", "signalfd"]
)
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_no_array_is_kept_and_no_descriptor_handed_over_for_nothing(
    profile: Profile, mechanism: str
) -> None:
    if profile.missing_for(mechanism):
        return
    costs = profile.costs(mechanism, open_connections=0)
    list_ns = profile.cost["rt_signals"]["event_ns"].value[0]
    assert costs.mechanism.keep_ns == round(list_ns) > 0
    borrowed_ns = {"send_fd_ns": 2 * costs.call.read_ns, "receive_fd_ns": costs.call.accept_ns}
    for name, ns in borrowed_ns.items():
        measured = profile.cost.get(mechanism, {}).get(name)
        expected_ns = measured.value[0] if measured else ns
        assert getattr(costs.mechanism, name) == pytest.approx(expected_ns, abs=1)


def test_who_keeps_an_array_or_has_a_sibling_is_told_where_the_prices_come_from() -> None:
    profile = next(p for p in PROFILES if p.name == "counted-linux-6.1")
    load = {"loop": "open", "rate": "2000/s"}

    def told(**keys: str) -> list[str]:
        scenario = Scenario.of(server={"mechanism": "rt_signals", **keys}, load=load)
        return warnings_of(scenario, profile)

    assert told() == []
    assert told(recovery_array="kept", recovery_thread="sibling") == [
        "counted-linux-6.1 has no measured cost for "
        "rt_signals.rebuild (borrowed: rt_signals.poll - poll.scan); "
        "rt_signals.keep_ns (borrowed: rt_signals.event_ns); "
        "rt_signals.send_fd_ns (borrowed: call.read_ns + call.read_ns); "
        "rt_signals.receive_fd_ns (borrowed: call.accept_ns)"
    ]


def test_a_bound_costs_nothing_of_its_own_and_says_so() -> None:
    own = PROFILES[0].costs("in_kernel", open_connections=0).mechanism
    assert tuple(own) == (0, 0, 0)
    assert "its own costs are 0" in (PROFILES[0].not_measured("in_kernel") or "")
