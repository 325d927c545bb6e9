"""Sweeps: common seeds, as many replications as are wanted, resumed from a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.sim.files.parallel import threads
from dispatchsim.store.store import Store
from dispatchsim.store.work import Progress

from .small import RUN, scenario

VARY = ["server.mechanism=poll,epoll_level", "load.rate=2000/s,6000/s"]


def test_a_point_says_what_a_run_of_its_scenario_does(profile: ds.Profile) -> None:
    answer = ds.sweep(scenario(), VARY, draws=2, profile=profile)
    assert [tuple(p.levels.values()) for p in answer.points] == [
        ("poll", "2000/s"),
        ("poll", "6000/s"),
        ("epoll_level", "2000/s"),
        ("epoll_level", "6000/s"),
    ]
    for point in answer.points:
        alone = ds.run(point.scenario, draws=2, profile=profile)
        assert point.estimate("p99_answered_ns") == alone.estimates["p99_answered_ns"]
        assert point.verdict is alone.verdict
    frame = answer.frame
    assert list(frame["load.rate"]) == ["2000/s", "6000/s"] * 2
    assert set(frame["replications"]) == {3}
    assert frame["p99_ns"].is_monotonic_increasing is False
    assert (frame["p99_ns_low"] <= frame["p99_ns_high"]).all()


def test_a_sweep_goes_on_where_it_was(profile: ds.Profile, tmp_path: Path) -> None:
    told: list[Progress] = []
    store = Store(tmp_path / "store")
    ds.sweep(scenario(), VARY[1:], profile=profile, store=store)
    answer = ds.sweep(scenario(), VARY, profile=profile, store=store, progress=told.append)
    assert told[-1].known == 6
    assert told[-1].total == 12
    assert answer.to_dict() == ds.sweep(scenario(), VARY, profile=profile).to_dict()


def test_workers_change_nothing(profile: ds.Profile) -> None:
    with threads(2) as executor:
        spread = ds.sweep(scenario(), VARY, profile=profile, executor=executor)
    assert spread.to_dict() == ds.sweep(scenario(), VARY, profile=profile).to_dict()


def test_replications_are_added_until_an_interval_is_narrow(profile: ds.Profile) -> None:
    rough = ds.sweep(scenario(), VARY[1:], profile=profile)
    fine = ds.sweep(scenario(), VARY[1:], within=0.03, figure="mean_answered_ns", profile=profile)
    for before, after in zip(rough.points, fine.points, strict=True):
        known = after.estimate("mean_answered_ns")
        assert after.is_precise
        assert known.half_width <= 0.03 * known.mean
        assert len(after.central) > len(before.central)
        seeds = [record.seed for record in after.central]
        assert seeds == list(range(1, 1 + len(seeds)))


def test_an_overloaded_point_is_not_made_precise(profile: ds.Profile) -> None:
    overloaded = scenario(load={"loop": "open", "rate": "90000/s"})
    answer = ds.sweep(overloaded, ["idle.connections=0,100"], within=1e-4, profile=profile)
    for point in answer.points:
        assert point.verdict is ds.Verdict.OVERLOADED
        assert not point.is_precise
        assert len(point.central) == 10


def test_what_is_not_random_runs_once(profile: ds.Profile) -> None:
    users = scenario(load={"loop": "closed", "users": 8})
    answer = ds.sweep(users, ["load.users=4,8"], within=0.1, profile=profile)
    assert [len(point.central) for point in answer.points] == [1, 1]
    assert all(point.is_precise for point in answer.points)


def test_a_latin_hypercube_of_a_scenario(profile: ds.Profile) -> None:
    vary = ["load.rate=2000/s..9000/s", "server.mechanism=poll,epoll_level"]
    answer = ds.sweep(scenario(), vary, samples=6, profile=profile)
    assert len(answer.points) == 6
    mechanisms = [point.scenario.server.mechanism for point in answer.points]
    assert sorted(mechanisms) == ["epoll_level"] * 3 + ["poll"] * 3
    check_picture(answer.plot())


def test_what_cannot_be_is_said_before_anything_runs(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match="within: must be a share between 0 and 1, got 10"):
        ds.sweep(scenario(), VARY, within=10, profile=profile)
    with pytest.raises(ds.ScenarioError, match=r"^vary server.backlog: must be at least 1, got 0"):
        ds.sweep(scenario(), ["server.backlog=128,0"], profile=profile)


def test_points_beyond_what_was_measured_are_marked_and_shaded(profile: ds.Profile) -> None:
    answer = ds.sweep(scenario(), ["idle.connections=0,1000,4000"], profile=profile)
    assert any("extrapolated" in warning for warning in answer.warnings)
    drawing = check_picture(answer.plot())
    (axes,) = drawing.axes
    legend = axes.get_legend()
    assert legend is not None
    assert "extrapolated" in [text.get_text() for text in legend.get_texts()]
    assert "are extrapolated" in drawing.get_supxlabel()
    over_rates = ds.sweep(
        scenario(idle={"connections": 4000}), ["load.rate=1000/s,2000/s"], profile=profile
    )
    assert "are extrapolated" in over_rates.plot().get_supxlabel()
    within = ds.sweep(scenario(), ["idle.connections=0,1000"], profile=profile)
    assert not within.plot().axes[0].patches


def test_a_contest_names_the_best_of_each_row(profile: ds.Profile) -> None:
    run = {**RUN, "replications": 8}
    answer = ds.contest(
        scenario(run=run), ["poll", "epoll_level"], ["idle.connections=0,2000"], profile=profile
    )
    few, many = answer.rounds
    assert many.perhaps_best == ("epoll_level",)
    assert set(few.perhaps_best) <= {"poll", "epoll_level"}
    frame = answer.frame.set_index(["idle.connections", "server.mechanism"])
    assert frame.loc[(2000, "epoll_level"), "may_be_best"]
    assert not frame.loc[(2000, "poll"), "may_be_best"]
    with pytest.raises(ds.UserError, match=r"metric: must be one with a better direction"):
        ds.contest(scenario(), ["poll", "select"], ["idle.connections=0"], figure="cpu_idle")
    with pytest.raises(ds.UserError, match=r"server\.mechanism: must be at least two"):
        ds.contest(scenario(), ["poll"], ["idle.connections=0"], profile=profile)


def test_one_run_each_tells_nobody_apart(profile: ds.Profile) -> None:
    asked = scenario(run={**RUN, "replications": 1})
    answer = ds.contest(asked, ["poll", "epoll_level"], ["idle.connections=2000"], profile=profile)
    assert answer.rounds[0].perhaps_best == ("poll", "epoll_level")
    certain = scenario(load={"loop": "closed", "users": 8})
    answer = ds.contest(
        certain, ["poll", "epoll_level"], ["idle.connections=2000"], profile=profile
    )
    assert answer.rounds[0].perhaps_best == ("epoll_level",)


def test_profiles_are_varied_or_given(profile: ds.Profile) -> None:
    first, second = list(ds.shipped_profiles())[:2]
    vary = [f"machine.profile={first},{second}"]
    one, other = ds.sweep(scenario(), vary).points
    assert one.estimate("p99_ns") != other.estimate("p99_ns")
    for ask in (ds.sweep, ds.tune, ds.sensitivity):
        with pytest.raises(ds.UserError, match="must be absent if one profile is given for all"):
            ask(scenario(), vary, profile=profile)


def test_fewer_points_than_samples_are_said(profile: ds.Profile) -> None:
    answer = ds.sweep(scenario(), ["idle.connections=1..3"], samples=12, profile=profile)
    assert len(answer.points) == 3
    assert any(
        "--samples 12: the samples of these values hold only 3 different combinations" in warning
        for warning in answer.warnings
    )


def test_a_figure_that_is_none_is_named(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match="figure: must be a metric"):
        ds.sweep(scenario(), VARY, figure="p99", profile=profile)
    with pytest.raises(ds.UserError, match=r"^figure: p100_ns: a percentile must be .* below 100"):
        ds.sweep(scenario(), VARY, figure="p100_ns", profile=profile)


def test_every_percentile_is_a_figure(profile: ds.Profile, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    ds.sweep(scenario(), VARY[1:], profile=profile, store=store)
    answer = ds.sweep(scenario(), VARY[1:], figure="p97_5_ns", profile=profile, store=store)
    for point in answer.points:
        p95, asked, p99 = (point.estimate(name).mean for name in ("p95_ns", "p97_5_ns", "p99_ns"))
        assert p95 < asked < p99
    assert list(answer.frame["p97_5_ns"]) == [p.estimate("p97_5_ns").mean for p in answer.points]
