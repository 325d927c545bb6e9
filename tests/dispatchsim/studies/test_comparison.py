"""Replications, draws of the costs, paired differences."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.sim.files.parallel import processes, threads
from dispatchsim.studies.rows import estimate

RUN = {"duration": "60 ms", "warm_up": "10 ms", "replications": 3}


def scenario(mechanism: str = "poll", **sections: Any) -> ds.Scenario:
    load = {"loop": "open", "rate": "5000/s"}
    content = {"server": {"mechanism": mechanism}, "load": load, "run": RUN, **sections}
    return ds.Scenario.of(**content)


def test_a_t_interval_is_that_of_the_tables() -> None:
    # Three values: t(2, 97.5%) = 4.3027, standard deviation 1.
    found = estimate([9.0, 10.0, 11.0])
    assert found.half_width == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert math.isnan(estimate([9.0]).half_width)
    assert math.isnan(found.low)


def test_the_name_of_a_scenario_is_none() -> None:
    calls: list[Callable[[Any], object]] = [
        ds.run,
        ds.compare,
        lambda name: ds.capacity(name, "p99 < 1 ns"),
    ]
    for ask in calls:
        with pytest.raises(TypeError, match=r'a Scenario, got "poll_10k_idle": Scenario\.read\('):
            ask("poll_10k_idle")


def test_mechanisms_that_do_not_exist_are_named(profile: ds.Profile) -> None:
    expected = r'^mechanisms: must be one of select, .*, got "pigeons"$'
    with pytest.raises(ds.UserError, match=expected):
        ds.compare(scenario(), ["poll", "pigeons"], profile=profile)


def test_mechanisms_may_be_called_as_people_do(profile: ds.Profile) -> None:
    found = ds.compare(scenario("epoll"), ["epoll", "poll"], profile=profile)
    assert (found.baseline, list(found.results)) == ("epoll_level", ["epoll_level", "poll"])
    rounds = ds.contest(scenario(), ["epoll", "poll"], ["load.rate=5k/s"], profile=profile).rounds
    assert [list(each.contenders) for each in rounds] == [["epoll_level", "poll"]]
    assert rounds[0].levels == {"load.rate": "5000/s"}


def test_a_result_has_one_replication_a_seed_and_one_run_a_draw(profile: ds.Profile) -> None:
    result = ds.run(scenario(), profile=profile, draws=2)
    assert [r.seed for r in result.replications] == [1, 2, 3]
    assert [(r.seed, r.draw) for r in result.drawn] == [(1, 0), (2, 1)]
    throughput = result.estimates["throughput_per_s"]
    assert throughput.mean == pytest.approx(5000, rel=0.2)
    assert throughput.low <= throughput.high
    assert result.verdict is ds.Verdict.STABLE


def test_a_closed_loop_without_chance_runs_once_and_says_so(profile: ds.Profile) -> None:
    result = ds.run(scenario(load={"loop": "closed", "users": 8}), profile=profile)
    assert len(result.replications) == 1
    assert any("nothing in this scenario is random" in w for w in result.warnings)


def test_costs_beyond_what_was_measured_are_marked(profile: ds.Profile) -> None:
    result = ds.run(scenario("epoll_level", idle={"connections": 5000}), profile=profile)
    assert result.warnings == (profile.outside_range(5000),)


def test_users_never_run_out_of_connections(profile: ds.Profile) -> None:
    users = {"loop": "closed", "users": 2000, "think_time": "1 ms"}
    result = ds.run(scenario(load=users), profile=profile)
    assert result.replications[0].summary.offered > 0


def test_mechanisms_meet_the_same_arrivals(profile: ds.Profile) -> None:
    found = ds.compare(
        scenario(idle={"connections": 1000}), ["epoll_level", "poll"], profile=profile
    )
    offered = [[r.summary.offered for r in v.replications] for v in found.results.values()]
    assert offered[0] == offered[1]
    difference = found.differences["poll"]["p50_answered_ns"]
    assert difference.mean > difference.half_width > 0  # poll is slower, beyond doubt


@pytest.mark.parametrize("workers", [threads, processes])
def test_workers_change_nothing(
    profile: ds.Profile, workers: Callable[[int], AbstractContextManager[Executor]]
) -> None:
    alone = ds.run(scenario(), profile=profile, draws=1)
    with workers(2) as executor:
        together = ds.run(scenario(), profile=profile, draws=1, executor=executor)
    assert together == alone


def test_results_say_what_is_needed_to_repeat_them(profile: ds.Profile) -> None:
    content = ds.run(scenario(), profile=profile).to_dict()
    again = ds.Scenario.of(**content["scenario"])
    assert ds.run(again, profile=profile).to_dict() == content
    assert (content["profile"], content["seeds"]) == ("made-up", [1, 2, 3])


def test_a_trace_from_a_file_is_what_is_run(tmp_path: Any, profile: ds.Profile) -> None:
    path = tmp_path / "a.trace"
    ds.open_loop(rate_per_s=5000, seconds=0.05, seed=9).write(path)
    trace = {"loop": "open", "trace": str(path)}
    result = ds.run(scenario(load=trace), profile=profile)
    assert len(result.replications) == 1
    with pytest.raises(ds.ScenarioError, match=r'load\.loop: must be "open" as in'):
        ds.run(scenario(load={**trace, "loop": "closed"}), profile=profile)


def test_a_closed_trace_begins_again(tmp_path: Any, profile: ds.Profile) -> None:
    path = tmp_path / "a.trace"
    ds.closed_loop(users=4, connections=10).write(path)
    closed = {"loop": "closed", "trace": str(path)}
    result = ds.run(scenario(load=closed), profile=profile)
    assert result.replications[0].summary.offered > 100


def test_an_interrupted_pool_leaves_no_process() -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with processes(2) as executor:
            pids.append(executor.submit(os.getpid).result())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_results_are_frames_and_pictures(profile: ds.Profile) -> None:
    comparison = ds.compare(scenario(), ["poll", "epoll_level"], draws=2, profile=profile)
    result = comparison.results["poll"]
    assert result.frame.loc["p99_answered_ns", "mean"] == result.estimates["p99_answered_ns"].mean
    assert list(result.frame.columns) == ["mean", "half_width", "low", "high"]
    rows = {row["mechanism"]: row for row in comparison.frame.reset_index().to_dict("records")}
    of_epoll = comparison.differences["epoll_level"]["failed_share"]
    assert rows["epoll_level"]["difference"] == of_epoll.mean  # of the last figure
    assert math.isnan(rows["poll"]["difference"])
    for answer in (result, comparison):
        assert "<table" in answer._repr_html_()
        (axes,) = check_picture(answer.plot()).axes
        legend = axes.get_legend()
        assert legend is not None
        assert len(legend.get_texts()) == 2
