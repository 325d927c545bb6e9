"""Which costs an answer depends on: where it is known, and where nothing varies."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.studies.sensitivity import scaled, uncertain_costs

from .exact import known_exactly
from .small import scenario

ONE_USER: dict[str, Any] = {"load": {"loop": "closed", "users": 1}}


def test_a_latency_that_is_one_cost_hangs_on_that_cost(profile: ds.Profile) -> None:
    # One user at a time: a latency is a sum of costs, and the widest interval explains it.
    exact = known_exactly(profile, but={"application.request_ns": 0.3, "call.read_ns": 0.03})
    answer = ds.sensitivity(
        scenario("epoll_level", **ONE_USER), figure="mean_answered_ns", samples=64, profile=exact
    )
    assert [index.name for index in answer.indices] == ["application.request_ns", "call.read_ns"]
    first, second = answer.indices
    # A sum: no interactions, and variances are as 0.3 squared to 0.03 squared.
    assert first.total == pytest.approx(0.99, abs=0.1)
    assert first.first == pytest.approx(first.total, abs=0.1)
    assert second.total < 0.05
    assert answer.sentence.startswith("mean_answered_ns depends most on application.request_ns (")
    assert answer.runs == 64 * (2 + 2)
    central = ds.run(answer.scenario, profile=exact).estimates["mean_answered_ns"].mean
    assert answer.mean == pytest.approx(central, rel=0.1)
    assert list(answer.frame["name"]) == ["application.request_ns", "call.read_ns"]
    check_picture(answer.plot())


def test_a_setting_is_one_of_them(profile: ds.Profile) -> None:
    exact = known_exactly(profile, but={"call.read_ns": 0.01})
    answer = ds.sensitivity(
        scenario("poll", **ONE_USER),
        ["idle.connections=0..2000"],
        figure="mean_answered_ns",
        samples=16,
        profile=exact,
    )
    assert answer.indices[0].name == "idle.connections"
    assert answer.indices[0].total > 0.9


def test_what_does_not_matter_is_said(profile: ds.Profile) -> None:
    exact = known_exactly(profile, but={"call.read_ns": 0.3, "call.accept_ns": 0.3})
    answer = ds.sensitivity(scenario("epoll_level"), figure="offered", samples=4, profile=exact)
    assert answer.deviation == 0
    assert answer.sentence == "offered does not depend on any of them"
    assert answer.indices[0].total == 0


def test_all_uncertain_costs_of_a_run_are_taken(profile: ds.Profile) -> None:
    names = uncertain_costs(profile, "epoll_level")
    assert "epoll_level.call_ns" in names
    assert "call.accept_ns" in names
    assert not any(name.startswith(("poll.", "network.")) for name in names)
    higher = scaled(profile, {"call.accept_ns": 1.0}).costs("epoll_level", open_connections=0)
    assert higher.call.accept_ns > profile.costs("epoll_level", open_connections=0).call.accept_ns


def test_what_is_asked_wrongly_is_said(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match=r"samples: must be a power of 2 .*, got 12"):
        ds.sensitivity(scenario(), samples=12, profile=profile)
    with pytest.raises(ds.UserError, match=r"costs: must be one of .*, got call.pigeons"):
        ds.sensitivity(scenario(), costs=["call.pigeons"], profile=profile)
    with pytest.raises(ds.UserError, match="must be at least two together"):
        ds.sensitivity(scenario(), costs=["call.read_ns"], profile=profile)
    with pytest.raises(ds.UserError, match="made-up has no uncertain costs"):
        ds.sensitivity(scenario(), profile=known_exactly(profile, but={}))
    nobody = scenario(load={"loop": "open", "rate": "5000/s", "timeout": "1 ms"})
    slow = nobody.with_values(idle={"connections": 100_000}, server={"mechanism": "poll"})
    with pytest.raises(ds.UserError, match="some runs have none"):
        ds.sensitivity(slow, costs=["poll.call_ns", "call.read_ns"], samples=2, profile=profile)
