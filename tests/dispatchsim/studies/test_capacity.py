"""The planner's question: searches, their ends, and the words of the answer."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.pictures import check_picture

import dispatchsim as ds
from dispatchsim.scenario.examples import scenario_path
from dispatchsim.scenario.metrics import metric_text
from dispatchsim.store.store import Store
from dispatchsim.studies.axis import axis_of
from dispatchsim.studies.objective import read_objective
from dispatchsim.studies.rows import Found
from dispatchsim.studies.searching import RUNS_MAX, SearchTask, search_all
from dispatchsim.validation.scoring.misses import KneeMiss, Known, Miss

from .small import scenario

SEARCHED: dict[str, Any] = {
    "load": {"loop": "open", "rate": "1000/s"},
    "idle": {"connections": 1000},
    "run": {"duration": "40 ms", "warm_up": "10 ms"},
}


def test_a_capacity_is_a_range_that_holds_what_it_says(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 1 ms", misses=[], profile=profile, replications=3
    )
    assert 3000 < answer.low < answer.high < 200_000
    for found in answer.searches:
        assert found.found is Found.BETWEEN
        assert found.tried[found.low].broken is None
        assert found.tried[found.high].broken == "p99 < 1 ms"
        assert found.tried[found.low].figures["p99_ns"] <= 1_000_000
        assert found.high - found.low <= 0.02 * found.high
        assert answer.low <= found.low < found.high <= answer.high
    assert answer.sentence.startswith("p99 < 1 ms holds up to a load between ")
    needed = "an interval needs --replications 5"
    assert f" requests/s (range of 3 searches; {needed}). With " in answer.sentence
    assert len(answer.frame) == sum(len(s.tried) for s in answer.searches)


def test_the_interval_of_many_searches_is_wider_than_they_are(profile: ds.Profile) -> None:
    answer = ds.capacity(scenario(**SEARCHED), "p99 < 1 ms", profile=profile, replications=6)
    middles = [found.middle for found in answer.searches[1:]]
    assert answer.low < min(middles) < max(middles) < answer.high
    assert "searches" not in answer.sentence


@pytest.mark.parametrize("known", [[], [Miss("poll", 1.0, {"throughput_per_s": 0.1})] * 40])
def test_an_answer_is_centred_on_the_median_of_its_searches(
    profile: ds.Profile, known: list[Miss]
) -> None:
    # One search has unusual arrivals as often as any other, and it is no better for being first.
    asked = scenario(**SEARCHED)
    options: dict[str, Any] = {"profile": profile, "replications": 5, "misses": Known(known)}
    answers = [
        ds.capacity(asked.with_values(run={"seed": seed}), "p99 < 1 ms", **options)
        for seed in (1, 2)
    ]
    for answer in answers:
        typical = median(search.middle for search in answer.searches)
        assert answer.typical == typical
        assert answer.centre
        assert answer.centre == pytest.approx(typical * (math.exp(0.1) if known else 1))
        assert answer.low < answer.centre < answer.high
    assert any(answer.typical != answer.searches[0].middle for answer in answers)


def test_idle_connections_are_searched_in_whole_numbers(profile: ds.Profile) -> None:
    answer = ds.capacity(
        *(scenario(**SEARCHED), "p99 < 300 us"),
        of="idle.connections",
        misses=[],
        profile=profile,
        replications=2,
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
    assert answer.sentence.startswith("errors < 1% and cpu < 99% hold at no load: ")
    assert answer.sentence.endswith("even with 0 idle connections the server falls behind")


def test_what_is_never_kept_and_what_is_never_broken_are_said(profile: ds.Profile) -> None:
    asked = scenario(**SEARCHED)
    never = ds.capacity(asked, "p99 < 100 ns", profile=profile, replications=1)
    assert never.searches[0].found is Found.ALWAYS_BROKEN
    (least,) = (tried for x, tried in never.searches[0].tried.items() if x < 3_334)
    assert never.sentence == (
        "p99 < 100 ns holds at no load: on an idle server (3,330/s) p99 is "
        f"{metric_text('p99_ns', least.figures['p99_ns'])}"
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
    assert always.sentence.startswith("cpu < 100% holds up to server.backlog = ")
    assert (
        ", the highest possible. With server.backlog = 100, as in the scenario, the CPU is "
        in always.sentence
    )


def test_a_backend_slower_than_the_bound_is_named(profile: ds.Profile) -> None:
    def answer(bound: str, **backend: str) -> str:
        asked = scenario(**SEARCHED, backend={"connections": 100, **backend})
        return ds.capacity(asked, bound, profile=profile, replications=1).sentence

    assert answer("p99 < 2 ms", delay="3 ms").endswith("; backend.delay alone is 3 ms")
    spread = {"delay": "1 ms", "delay_spread": "lognormal", "delay_p99": "7 ms"}
    assert answer("p99 < 2 ms", **spread).endswith("; backend.delay_p99 alone is 7 ms")
    # Half of the requests may be faster than the mean.
    assert answer("p50 < 100 us", **spread).count("backend") == 0


def test_no_idle_connection_may_be_too_many(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 1 us", of="idle.connections", profile=profile, replications=1
    )
    (found,) = answer.searches
    assert found.found is Found.ALWAYS_BROKEN
    assert 0.0 in found.tried
    assert "at no load: even with 0 idle connections p99 is " in answer.sentence


def test_several_bounds_say_which_one_breaks(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 3 ms and cpu < 1%", profile=profile, replications=1
    )
    assert "at no load: " in answer.sentence
    assert " cpu is " in answer.sentence


def test_past_errors_move_a_capacity_and_widen_it(profile: ds.Profile) -> None:
    # Half of the machines took a tenth more than was forecast, the others a third more.
    ratios = [math.log(1.1), math.log(4 / 3)] * 20 + [math.log(1.2)]
    misses = [Miss("poll", 1.0, {"throughput_per_s": ratio}) for ratio in ratios]
    asked = scenario(**SEARCHED)
    answer = ds.capacity(asked, "p99 < 1 ms", misses=misses, profile=profile, replications=1)
    simulated = answer.searches[0].middle
    assert answer.centre == pytest.approx(1.2 * simulated)
    assert answer.low == pytest.approx(1.1 * simulated)
    assert answer.high == pytest.approx(4 / 3 * simulated)
    assert answer.simulated == (answer.searches[0].low, answer.searches[0].high)
    assert "; corrected by past forecast errors: " in answer.reckoning[0]
    assert answer.reckoning[1:] == [
        "past forecasts of throughput were 17% too low in the median (90% interval: 9.1% too low "
        "to 25% too low)",
        "these past forecasts cover 41 runs, without application work",
    ]
    content = answer.to_dict()
    assert content["low"] < content["centre"] < content["high"]
    assert content["past_errors"]["errors"]["n"] == 41


def test_what_the_scenario_states_of_its_application_was_never_missed(profile: ds.Profile) -> None:
    misses = [Miss("poll", 1.0, {"throughput_per_s": math.log(1.25)})] * 40
    options: dict[str, Any] = {"misses": misses, "profile": profile, "replications": 1}
    works = {"mechanism": "epoll_level", "request_cpu": "100 us"}
    answer = ds.capacity(scenario(**SEARCHED, server=works), "p99 < 2 ms", **options)
    (found,) = answer.searches
    # The CPU was that long busy for a request; but for 100 us of it the server is a quarter faster.
    busy_s = found.tried[found.low].figures["cpu_busiest"] / found.middle
    faster_s = 100e-6 + (busy_s - 100e-6) / 1.25
    assert answer.centre
    assert answer.centre == pytest.approx(found.middle * busy_s / faster_s)
    assert found.middle < answer.centre < 1.1 * found.middle
    assert answer.centre * 100e-6 < 1
    told = "of the busy CPU time is the application's (from the scenario); the correction applies"
    assert told in answer.reckoning[-1]
    assert any("the rule for the interval rests on" in each for each in answer.warnings)


@pytest.mark.parametrize("error", [math.log(2), math.log(4)])
def test_no_interval_exceeds_the_load_at_which_the_application_takes_all_cpus(
    profile: ds.Profile, error: float
) -> None:
    longer = SEARCHED | {"run": {"duration": "200 ms", "warm_up": "20 ms"}}
    misses = [Miss("poll", 1.0, {"throughput_per_s": error * n / 40}) for n in range(41)]
    options: dict[str, Any] = {"misses": misses, "profile": profile, "replications": 1}
    works = {"mechanism": "epoll_level", "request_cpu": "400 us"}
    answer = ds.capacity(scenario(**longer, server=works), "p99 < 5 ms", **options)
    assert answer.past
    assert answer.past.high > 2_500  # 1 CPU, 400 us
    assert answer.high == answer.most == pytest.approx(2_500)
    assert answer.centre
    assert answer.low <= answer.centre <= answer.high
    assert "the interval ends at 2,500/s, where the application alone" in answer.reckoning[-1]
    # Without work of the application nothing ends it.
    free = ds.capacity(scenario(**longer), "p99 < 5 ms", **options)
    assert free.most == math.inf
    (between,) = free.searches
    endless = between._replace(found=Found.NEVER_BROKEN, high=math.inf)
    without_end = dataclasses.replace(free, searches=(between, endless))
    assert without_end.high == math.inf
    assert without_end.reckoning[1:] == free.reckoning[1:]


def test_below_capacity_past_errors_of_the_metric_move_its_bound(profile: ds.Profile) -> None:
    busy = [Miss("poll", 1.0, {"throughput_per_s": 0.5, "p99_answered_ns": 5.0})] * 40
    calm = [Miss("poll", 0.2, {"p99_answered_ns": math.log(1.25), "cpu_busy": 0.1})] * 40
    asked = scenario(**SEARCHED, machine={"cpus": 1})
    bounds: dict[str, Any] = {"misses": [*busy, *calm], "profile": profile, "replications": 1}
    moved = ds.capacity(asked, "p99 < 400 us", of="idle.connections", **bounds)
    as_right = ds.capacity(
        *(asked, "p99 < 320 us"), of="idle.connections", **bounds | {"misses": []}
    )
    assert moved.searches[0].tried[moved.searches[0].low].figures["cpu_busiest"] < 0.85
    assert moved.centre
    assert moved.centre == pytest.approx(as_right.centre, rel=0.03)
    assert moved.centre < 0.95 * moved.searches[0].middle


def test_at_capacity_past_errors_are_of_the_rate_where_another_field_grows(
    profile: ds.Profile,
) -> None:
    # A server that is a quarter faster takes what this one takes at four fifths of the rate, in
    # four fifths of the time.
    misses = [Miss("poll", 1.0, {"throughput_per_s": math.log(1.25)})] * 40
    # With 40 requests in the run, p99 is a single one of them.
    asked = scenario(**{**SEARCHED, "run": {"duration": "110 ms", "warm_up": "10 ms"}})
    options: dict[str, Any] = {"of": "idle.connections", "profile": profile, "replications": 1}
    answer = ds.capacity(asked, "p99 < 2 ms", misses=misses, **options)
    less = asked.with_values(load={"rate": "800/s"})
    as_right = ds.capacity(less, "p99 < 2.5 ms", misses=[], **options)
    assert answer.centre
    assert answer.centre == pytest.approx(as_right.centre, rel=0.03)
    assert answer.centre > answer.searches[0].middle


def test_a_rate_that_no_scenario_may_have_leaves_past_errors_out(profile: ds.Profile) -> None:
    # A server that is half as fast is this one at a higher rate than fifty connections carry.
    misses = [Miss("poll", 1.0, {"throughput_per_s": math.log(0.5)})] * 40
    asked = ds.Scenario.of(
        server={"mechanism": "poll"},
        load={"loop": "open", "connections": 50, "rate": "1500/s"},
        network={"delay": "10 ms"},
        idle={"connections": 1000},
        run={"duration": "400 ms", "warm_up": "100 ms"},
    )
    assert asked.rate_max_per_s == 2_500
    options: dict[str, Any] = {"of": "idle.connections", "profile": profile, "replications": 1}
    answer = ds.capacity(asked, "cpu < 90%", misses=misses, **options)
    (found,) = answer.searches
    assert found.found is Found.BETWEEN
    assert found.tried[found.low].figures["cpu_busiest"] > 0.85
    assert answer.past is None
    assert any(w.startswith("the interval leaves out past") for w in answer.warnings)


def test_a_full_link_is_no_capacity_that_was_ever_missed(profile: ds.Profile) -> None:
    misses = [Miss("poll", 1.0, {"throughput_per_s": 0.5})] * 40
    load = {**SEARCHED["load"], "reply_size": "10 kB"}
    full = {**SEARCHED, "load": load, "network": {"down": "500 Mbit/s"}}
    asked = ds.Scenario.of(server={"mechanism": "epoll_level"}, **full)
    answer = ds.capacity(asked, "errors < 1%", misses=misses, profile=profile, replications=1)
    (found,) = answer.searches
    assert found.found is Found.BETWEEN
    assert found.tried[found.low].figures["cpu_busiest"] < 0.85
    assert answer.past is None
    assert answer.range == (found.low, found.high)


def test_what_was_never_missed_is_said_to_be_left_out(profile: ds.Profile) -> None:
    asked = scenario(**SEARCHED)
    answer = ds.capacity(asked, "p999 < 1 ms", misses=[], profile=profile, replications=1)
    assert answer.past is None
    assert answer.centre == answer.searches[0].middle
    assert any(w.startswith("the interval leaves out past") for w in answer.warnings)


def test_where_p99_breaks_past_errors_are_of_the_load_at_which_it_did(
    profile: ds.Profile,
) -> None:
    knees = [KneeMiss("poll", 1_000_000, 1.1 + 0.05 * i, 1.0, is_end=i == 0) for i in range(5)]
    asked = scenario(**SEARCHED)
    options: dict[str, Any] = {"profile": profile, "replications": 1}
    answer = ds.capacity(asked, "p99 < 1 ms", misses=Known(knees=knees), **options)
    assert answer.past
    assert answer.past.middle == pytest.approx(1.2 * answer.searches[0].middle)
    assert answer.past.low < answer.past.middle < answer.past.high
    assert answer.reckoning[1].startswith(
        "past forecasts of the load at which p99 exceeds 1 ms were 17%"
    )
    assert (
        answer.reckoning[2]
        == "these past forecasts cover only 5 server programs, without application work"
    )
    assert answer.reckoning[1].endswith("; 1 of these errors may be larger")
    (least,) = (w for w in answer.warnings if w.startswith("in 1 of 5 past comparisons "))
    assert least.endswith("so the interval may be too narrow")
    knees[0] = KneeMiss("poll", 1_000_000, 0.9, 1.0, is_end=True)
    promised = ds.capacity(asked, "p99 < 1 ms", misses=Known(knees=knees), **options)
    too_high = "so the lower end of the interval may be too high"
    assert any(w.endswith(too_high) for w in promised.warnings)
    # A server that is 1.2 times as fast is this one at less load, and in so much more time.
    less = asked.with_values(load={"rate": f"{1000 / 1.2:.0f}/s"})
    options["of"] = "idle.connections"
    idle = ds.capacity(asked, "p99 < 2 ms", misses=Known(knees=knees), **options)
    as_right = ds.capacity(less, "p99 < 2.4 ms", misses=[], **options)
    assert idle.past
    # The windows are so short that another rate has other arrivals in them.
    assert idle.past.middle == pytest.approx(as_right.searches[0].middle, rel=0.06)
    assert idle.past.middle > 1.05 * idle.searches[0].middle
    del options["of"]
    # What breaks here is another percentile, of which no such load was ever scored.
    other = ds.capacity(asked, "p50 < 1 ms", misses=Known(knees=knees), **options)
    assert other.past is None


def test_runs_are_kept_and_not_made_again(profile: ds.Profile, tmp_path: Path) -> None:
    asked = scenario(**SEARCHED)
    options: dict[str, Any] = {"misses": [], "profile": profile, "replications": 2}
    first = ds.capacity(asked, "p99 < 1 ms", store=Store(tmp_path), **options)
    n_kept = len(Store(tmp_path).records())
    assert n_kept == sum(len(search.tried) for search in first.searches)
    again = ds.capacity(asked, "p99 < 1 ms", store=Store(tmp_path), **options)
    assert again.searches == first.searches
    # A bound that is nearer is tried at loads that are known, too.
    ds.capacity(asked, "p99 < 0.9 ms", store=Store(tmp_path), **options)
    assert n_kept < len(Store(tmp_path).records()) < 2 * n_kept


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
    (found,) = search_all([task])
    assert found.found is Found.OUT_OF_BUDGET


def test_a_capacity_needs_a_rate_and_a_window(profile: ds.Profile) -> None:
    closed = scenario(load={"loop": "closed", "users": 4})
    with pytest.raises(ds.ScenarioError, match=r"load\.rate: is missing"):
        ds.capacity(closed, "p99 < 1 us", profile=profile)
    with pytest.raises(ds.ScenarioError, match="ten times the bound on p99"):
        ds.capacity(scenario(), "p99 < 50 ms", profile=profile)
    with pytest.raises(ds.ScenarioError, match=r"500 ms \(ten .* p97\.5\) after the warm-up, but"):
        ds.capacity(scenario(), "p97.5 < 50 ms", profile=profile)


def test_a_lower_percentile_is_kept_up_to_a_higher_load(profile: ds.Profile) -> None:
    def breaks_at(objective: str) -> float:
        (one,) = ds.capacity(scenario(), objective, profile=profile, replications=1).searches
        return one.middle

    rates = [breaks_at(f"p{rank} < 200 us") for rank in ("99.5", "90", "62.5")]
    assert rates == sorted(set(rates))


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("server.mechanism", r'of server.mechanism: must be a number in the scenario, got "poll"'),
        ("server.busy", "must be a number in the scenario, got false"),
        ("load.rat", "unknown key"),
        ("load.users", "of load.users: the scenario must give it a value, at which"),
        ("network.delay", "of network.delay: the scenario must give it a value"),
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
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 1 ms", misses=[], profile=profile, replications=2
    )
    (axes,) = check_picture(answer.plot()).axes
    assert axes.get_xlabel() == "load.rate (1/s)"
    assert answer.sentence.split(";")[0].replace("<", "&lt;") in answer._repr_html_()
    content = answer.to_dict()
    assert (content["low"], content["high"]) == answer.range
    assert all(math.isfinite(s["high"]) for s in content["searches"])


def test_a_rate_grows_up_to_what_the_connections_carry() -> None:
    kept = {**SEARCHED["load"], "rate": "20000/s", "connections": 50}
    asked = scenario(**{**SEARCHED, "load": kept, "network": {"delay": "1 ms"}})
    axis = axis_of(asked)
    assert (axis.begin, axis.ceiling) == (20_000, 25_000)
    assert axis.at(asked, axis.ceiling).load.rate == 25_000


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


def test_a_search_along_times_keeps_to_whole_nanoseconds() -> None:
    asked = scenario(
        server={"mechanism": "epoll_level"}, backend={"delay": "20 ms", "connections": 4}
    )
    axis = axis_of(asked, "backend.delay")
    assert axis.value(33.1692525) == "33169252 ns"
    assert axis.value(33.5) == "33.5 ms"
    assert axis.at(asked, 33.1692525).backend.delay == 33_169_252


def test_what_must_not_be_zero_is_searched_from_one_on(profile: ds.Profile) -> None:
    answer = ds.capacity(
        scenario(**SEARCHED), "p99 < 1 us", of="server.backlog", profile=profile, replications=1
    )
    assert answer.searches[0].found is Found.ALWAYS_BROKEN
    assert min(answer.searches[0].tried) == 1


def test_a_bound_from_below_is_no_load(profile: ds.Profile) -> None:
    with pytest.raises(ds.UserError, match=r"upper bounds only, .* got throughput > 3,000/s"):
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


@pytest.mark.parametrize("known", [[], [Miss("poll", 1.0, {"throughput_per_s": 0.1})] * 20])
def test_an_answer_for_several_cpus_is_an_upper_limit(
    profile: ds.Profile, known: list[Miss]
) -> None:
    said = {}
    for cpus in (1, 2):
        asked = scenario("poll", **SEARCHED, machine={"cpus": cpus})
        answer = ds.capacity(
            asked, "p99 < 3 ms", replications=1, profile=profile, misses=Known(known)
        )
        assert (answer.past is None) == (not known)
        said[cpus] = (
            "contention between CPUs may lower it)" in answer.sentence,
            any("but this scenario has several CPUs" in each for each in answer.warnings),
        )
    assert said == {1: (False, False), 2: (True, True)}


def test_a_server_that_is_busy_at_any_load_is_searched_by_doubling() -> None:
    # Scans fill the CPU at a tenth of what it can do: steps by what the CPU has left are short.
    scans = ds.Scenario.read(scenario_path("poll_10k_idle")).with_values(
        machine={"cpus": 4}, run={"duration": "500 ms", "warm_up": "200 ms"}
    )
    (search,) = ds.capacity(scans, "p99 < 20 ms", replications=1).searches
    assert search.found is Found.BETWEEN
    assert len(search.tried) < RUNS_MAX
    assert search.low > 40_000  # four CPUs carry some 67,000/s


def test_a_field_of_which_more_helps_is_refused_with_what_to_ask_instead(
    profile: ds.Profile,
) -> None:
    # While a request takes 200 us others come: one place is not enough, and a SYN is sent again
    # after 1 s only.
    asked = scenario(
        server={"mechanism": "epoll_level", "backlog": 1, "request_cpu": "200 us"},
        load={"loop": "open", "rate": "3000/s"},
        run={"duration": "400 ms", "warm_up": "10 ms"},
    )
    refused = (
        "of server.backlog: must be a field whose higher values violate p99 < 20 ms, but higher "
        "values help: 8 meets it, 1 does not (`tune --vary server.backlog=1,8` compares values)"
    )
    with pytest.raises(ds.UserError, match=f"^{re.escape(refused)}$"):
        ds.capacity(asked, "p99 < 20 ms", of="server.backlog", profile=profile, replications=1)
