"""The planner's question: searches, their ends, and the words of the answer."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.studies.axis import axis_of
from dispatchsim.studies.capacity import SearchTask, search
from dispatchsim.studies.objective import read_objective
from dispatchsim.studies.rows import Found

from .small import scenario

SEARCHED: dict[str, Any] = {
    "load": {"loop": "open", "rate": "1000/s"},
    "idle": {"connections": 1000},
    "run": {"duration": "40 ms", "warm_up": "10 ms"},
}


def test_a_capacity_is_a_range_that_holds_what_it_says(profile: ds.Profile) -> None:
    answer = ds.capacity(scenario(**SEARCHED), "p99 < 1 ms", profile=profile, replications=3)
    assert 3000 < answer.low < answer.high < 200_000
    for found in answer.searches:
        assert found.found is Found.BETWEEN
        assert found.tried[found.low].broken is None
        assert found.tried[found.high].broken == "p99 < 1 ms"
        assert found.tried[found.low].figures["p99_ns"] <= 1_000_000
        assert found.high - found.low <= 0.02 * found.high
        assert answer.low <= found.low < found.high <= answer.high
    assert answer.sentence.startswith("p99 < 1 ms: breaks between ")
    assert answer.sentence.endswith("(where 3 searches ended; an interval takes five)")
    assert len(answer.frame) == sum(len(s.tried) for s in answer.searches)


def test_the_interval_of_many_searches_is_wider_than_they_are(profile: ds.Profile) -> None:
    answer = ds.capacity(scenario(**SEARCHED), "p99 < 1 ms", profile=profile, replications=6)
    middles = [found.middle for found in answer.searches[1:]]
    assert answer.low < min(middles) < max(middles) < answer.high
    assert answer.sentence.endswith("/s")


def test_idle_connections_are_searched_in_whole_numbers(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 300 us", of="idle.connections", profile=profile, replications=2
    )
    # Two scans of 50 ns a descriptor are in a latency, and waits for others.
    assert 50 < answer.low < answer.high < 6000
    for found in answer.searches:
        assert all(x == int(x) for x in found.tried)
    assert "idle connections" in answer.sentence


def test_a_bound_on_errors_breaks_where_the_server_falls_behind(profile: ds.Profile) -> None:
    # Nobody gives up within the run, so nothing has failed yet at any load.
    answer = ds.capacity(scenario(**SEARCHED), "errors < 1%", profile=profile, replications=2)
    for found in answer.searches:
        assert found.found is Found.BETWEEN
        assert found.tried[found.high].broken == "the server falls behind"
    assert answer.high < 200_000


def test_a_load_that_is_never_served_is_said_apart_from_broken_bounds(profile: ds.Profile) -> None:
    asked = scenario(**SEARCHED, network={"up": "1 kbit/s"})
    answer = ds.capacity(
        asked, "errors < 1% and cpu < 99%", of="idle.connections", profile=profile, replications=2
    )
    assert " is never kept" in answer.sentence
    assert " (the server falls behind) (" in answer.sentence


def test_what_is_never_kept_and_what_is_never_broken_are_said(profile: ds.Profile) -> None:
    asked = scenario(**SEARCHED)
    never = ds.capacity(asked, "p99 < 100 ns", profile=profile, replications=1)
    assert never.searches[0].found is Found.ALWAYS_BROKEN
    assert never.sentence.startswith(
        "p99 < 100 ns: is never kept, from 3,330/s on, the lowest tried (who"
    )
    backlog = {"server": {"mechanism": "poll", "backlog": 100}}
    always = ds.capacity(
        ds.Scenario.of(**{**SEARCHED, **backlog}),
        "cpu < 100%",
        of="server.backlog",
        profile=profile,
        replications=1,
    )
    assert always.searches[0].found is Found.NEVER_BROKEN
    assert "is kept up to" in always.sentence


def test_no_idle_connection_may_be_too_many(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 1 us", of="idle.connections", profile=profile, replications=1
    )
    (found,) = answer.searches
    assert found.found is Found.ALWAYS_BROKEN
    assert 0.0 in found.tried
    assert "from 0 idle connections on" in answer.sentence


def test_several_bounds_say_which_one_breaks(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 3 ms and cpu < 1%", profile=profile, replications=1
    )
    assert "(cpu < 1% broken)" in answer.sentence


def test_a_search_without_time_says_how_far_it_came(profile: ds.Profile) -> None:
    asked = scenario(**SEARCHED)
    task = SearchTask(
        scenario=asked,
        profile=profile,
        objective=read_objective("p99 < 1 ms"),
        axis=axis_of(asked),
        seed=1,
        draw=None,
        begin=1000.0,
        growth=2.0,
        precision=0.02,
        seconds_max=0.0,
    )
    assert search(task).found is Found.OUT_OF_BUDGET


def test_a_capacity_needs_a_rate_and_a_window(profile: ds.Profile) -> None:
    closed = scenario(load={"loop": "closed", "users": 4})
    with pytest.raises(ds.ScenarioError, match=r"load\.rate: is missing"):
        ds.capacity(closed, "p99 < 1 us", profile=profile)
    with pytest.raises(ds.ScenarioError, match="ten times the bound on p99"):
        ds.capacity(scenario(), "p99 < 50 ms", profile=profile)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("server.mechanism", r'of server.mechanism: must be a number in the scenario, got "poll"'),
        ("server.busy", "must be a number in the scenario, got false"),
        ("load.rat", "unknown key"),
        ("load.users", "of load.users: must be given in the scenario, where a search begins"),
        ("network.delay", "of network.delay: must be given in the scenario"),
    ],
)
def test_what_is_no_number_cannot_grow(profile: ds.Profile, of: str, message: str) -> None:
    with pytest.raises(ds.UserError, match=message):
        ds.capacity(scenario(), "p99 < 1 us", of=of, profile=profile)


def test_the_highest_legal_value_is_found() -> None:
    bounded = scenario(server={"mechanism": "poll", "descriptors": 5000})
    axis = axis_of(bounded, "idle.connections")
    most = int(axis.ceiling)
    axis.at(bounded, most)
    with pytest.raises(ds.ScenarioError):
        axis.at(bounded, most + 1)


def test_loads_beyond_what_was_measured_are_marked(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 2 ms", of="idle.connections", profile=profile, replications=1
    )
    assert answer.high > profile.range.open_connections_max
    assert any("extrapolated" in warning for warning in answer.warnings)


def test_an_answer_is_drawn_and_written(profile: ds.Profile) -> None:
    answer = ds.capacity(scenario(**SEARCHED), "p99 < 1 ms", profile=profile, replications=2)
    (axes,) = check_picture(answer.plot()).axes
    assert axes.get_xlabel() == "load.rate (1/s)"
    assert answer.sentence.split(":")[0].replace("<", "&lt;") in answer._repr_html_()
    content = answer.to_dict()
    assert (content["low"], content["high"]) == answer.range
    assert all(math.isfinite(s["high"]) for s in content["searches"])


def test_every_field_that_is_a_number_has_an_axis_of_legal_values() -> None:
    asked = scenario(server={"mechanism": "epoll_level"})
    found = 0
    for section, keys in asked.model_dump().items():
        for key in keys if isinstance(keys, dict) else ():
            try:
                axis = axis_of(asked, f"{section}.{key}")
            except ds.UserError:
                continue
            found += 1
            assert axis.floor <= axis.begin <= axis.ceiling, axis
            for x in (axis.floor, axis.begin, axis.ceiling):
                axis.at(asked, x)
    assert found > 20


def test_what_must_not_be_zero_is_searched_from_one_on(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 1 us", of="server.backlog", profile=profile, replications=1
    )
    assert answer.searches[0].found is Found.ALWAYS_BROKEN
    assert min(answer.searches[0].tried) == 1


def test_a_bound_from_below_is_no_load(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match=r"of upper bounds, .* got throughput > 3,000/s"):
        ds.capacity(scenario(**SEARCHED), "throughput > 3000/s", profile=profile)


def test_a_search_ends_where_numbers_cannot_be_nearer() -> None:
    axis = axis_of(scenario(**SEARCHED))
    low, high = 0.003, 0.004
    for _ in range(200):
        middle = axis.between(low, high)
        if middle in (low, high):
            break
        low = middle
    assert high - low < 1e-9
