"""Which setting is best, and when nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pictures import check_picture

import dispatchsim as ds

from .small import scenario

BUSY: dict[str, Any] = {"load": {"loop": "open", "rate": "30000/s"}, "idle": {"connections": 100}}


def test_the_best_option_is_found(profile: ds.Profile) -> None:
    answer = ds.tune(scenario(**BUSY), ["server.accept_limit=1,0"], profile=profile)
    # One accept a scan of a hundred descriptors cannot keep up.
    assert answer.is_certain
    assert answer.best is not None
    assert answer.best.swept.levels == {"server.accept_limit": 0}
    assert answer.sentence.startswith("best: server.accept_limit = 0 (p99 ")
    assert list(answer.frame["may_be_best"]) == [True, False]
    check_picture(answer.plot())


def test_options_that_change_nothing_are_equal(profile: ds.Profile) -> None:
    answer = ds.tune(scenario(), ["server.backlog=1000,2000"], profile=profile)
    assert answer.is_certain
    assert [o.stays for o in answer.options] == [True, True]
    assert "; equal in every run: server.backlog = " in answer.sentence
    assert {len(o.swept.central) for o in answer.options} == {10}


def test_what_differs_by_less_than_the_budget_can_show_is_not_told_apart(
    profile: ds.Profile,
) -> None:
    vary = ["server.accept_limit=6,7"]
    busy = scenario(load={"loop": "open", "rate": "20000/s"})
    answer = ds.tune(busy, vary, matters=1e-5, replications_max=12, profile=profile)
    assert not answer.is_certain
    assert [o.stays for o in answer.options] == [True, True]
    assert "; perhaps as good: server.accept_limit = " in answer.sentence


def test_an_option_that_breaks_the_objective_is_none(profile: ds.Profile) -> None:
    vary = ["idle.connections=0,2000"]
    answer = ds.tune(
        scenario(), vary, maximise="throughput", objective="p99 < 500 us", profile=profile
    )
    by_idle = {o.swept.levels["idle.connections"]: o for o in answer.options}
    assert by_idle[0].broken is None
    assert by_idle[2000].swept.estimate("p99_ns").mean > 500_000
    assert answer.best is by_idle[0]
    never = ds.tune(scenario(), vary, objective="p99 < 1 us", profile=profile)
    assert never.best is None
    assert never.sentence.startswith(
        "no combination meets p99 < 1 µs: the nearest is idle.connections = 0"
    )


def test_who_fails_makes_a_setting_bad_and_not_an_error(profile: ds.Profile) -> None:
    load = {**BUSY["load"], "timeout": "1 ms"}
    asked = scenario(**{**BUSY, "load": load})
    answer = ds.tune(asked, ["server.accept_limit=1,0"], profile=profile)
    assert answer.best is not None
    assert answer.best.swept.levels == {"server.accept_limit": 0}


def test_what_is_asked_wrongly_is_said(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match="vary: must give at least two options, got 1"):
        ds.tune(scenario(), ["server.backlog=100"], profile=profile)
    with pytest.raises(ds.UserError, match=r"minimise: must be one of .*p99, .*, got pp"):
        ds.tune(scenario(), ["server.backlog=100,200"], minimise="pp", profile=profile)
    with pytest.raises(ds.UserError, match="minimise: p100: a percentile must be above 0 and"):
        ds.tune(scenario(), ["server.backlog=100,200"], minimise="p100", profile=profile)
    with pytest.raises(ds.UserError, match="maximise: must be absent where minimise is given"):
        ds.tune(scenario(), [], minimise="p99", maximise="throughput", profile=profile)
    with pytest.raises(ds.UserError, match="replications: must be at least 10, got 3"):
        ds.tune(scenario(), ["server.backlog=1,2"], replications_max=3, profile=profile)


def test_the_nearest_is_nearest_to_the_bound_it_breaks(profile: ds.Profile) -> None:
    load = {"loop": "open", "rate": "5000/s", "timeout": "1 ms"}
    answer = ds.tune(
        scenario(load=load),
        ["idle.connections=8000,9000"],
        minimise="cpu",
        objective="errors < 0.01%",
        profile=profile,
    )
    shares = [o.swept.estimate("failed_share").mean for o in answer.options]
    assert 0.0001 < shares[0] < shares[1]
    assert f"where errors is {100 * shares[0]:.3g}%" in answer.sentence


def test_a_figure_whose_best_is_nothing_is_settled_all_the_same(profile: ds.Profile) -> None:
    load = {"loop": "open", "rate": "5000/s", "timeout": "1 ms"}
    vary = ["idle.connections=0,40000"]
    answer = ds.tune(scenario(load=load), vary, minimise="errors", profile=profile)
    assert [o.stays for o in answer.options] == [True, False]
    assert answer.is_certain
    assert answer.sentence == "best: idle.connections = 0 (errors 0%)"


def test_what_is_not_random_runs_once(profile: ds.Profile) -> None:
    users = scenario(load={"loop": "closed", "users": 8})
    answer = ds.tune(users, ["idle.connections=0,2000"], profile=profile)
    assert [len(o.swept.central) for o in answer.options] == [1, 1]
    assert [o.stays for o in answer.options] == [True, False]
