"""One measured point beside its forecast."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.fit.request_fit import whole_cost
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.validation.report.one_point import (
    OnePoint,
    find_point,
    labels,
    one_point,
    point_tables,
    where_to_start,
)

CLOSED = point_at(mechanism="poll", loop="closed", users=64)
LOW = point_at(mechanism="poll", loop="open", rate_per_s=5_000)
IDLE = point_at(mechanism="poll", loop="closed", users=64, idle=1000)
POINTS = (CLOSED, LOW, IDLE)


@pytest.mark.parametrize(
    ("words", "found"),
    [("poll idle 0 closed 64", CLOSED), ("1000 64", IDLE), ("open", LOW), ("poll 5000/s", LOW)],
)
def test_words_in_order_find_a_point(words: str, found: object) -> None:
    assert find_point(POINTS, words) == found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "64 poll",
            'no label has the words "64 poll" in this order; without POINT, all labels are listed',
        ),
        (
            "poll 64",
            '2 labels have the words "poll 64": poll idle 0 closed 64; poll idle 1000 closed 64',
        ),
    ],
)
def test_words_of_no_or_several_points_are_an_error(words: str, sentence: str) -> None:
    with pytest.raises(LookupError) as raised:
        find_point(POINTS, words)
    assert str(raised.value) == sentence


def test_labels_are_those_of_points_with_accepted_runs(profile: Profile) -> None:
    runs = [synthetic_run(CLOSED, profile), synthetic_run(IDLE, profile, reason="steal_share ...")]
    assert labels(runs) == ["poll idle 0 closed 64   (1 run)"]


def test_every_run_stands_beside_the_forecast_and_the_cpu_adds_up(profile: Profile) -> None:
    runs = [synthetic_run(point, profile, repeat=n) for point in (CLOSED, LOW) for n in (0, 1)]
    found = one_point(LOW, runs, profile, draws=2, workers=1)
    metrics, cpu = point_tables(found)
    assert [column.heading for column in metrics.columns][1:] == [
        *("run 1", "run 2", "forecast", "interval", "error")
    ]
    by_name = {row[0]: row for row in metrics.rows}
    assert by_name["replies/s"][-1] == "+0.0%"
    assert by_name["CPU busy"][-1] == "+0.0%"
    # The forecast has the same costs and arrivals: its CPU time of a request is that of the runs.
    simulated_us = sum(float(row[1]) for row in cpu.rows)
    assert simulated_us == pytest.approx(float(by_name["CPU time of a request, µs"][3]), rel=0.05)
    assert where_to_start(found).startswith("No error is larger than its noise")


def changed(found: OnePoint, **figures: float) -> OnePoint:
    """Return the point with a forecast that is as measured, but for *figures*."""
    measured = found.scored.measured.median
    made = replace(found.scored.forecast, central=measured._replace(**figures))
    return replace(found, scored=replace(found.scored, forecast=made))


@pytest.fixture
def near(profile: Profile) -> OnePoint:
    """Return a point at 90% of the capacity."""
    capacity = synthetic_run(CLOSED, profile)
    rate = 0.9 * capacity.result.replied * 1e9 / capacity.window_ns
    point = point_at(mechanism="poll", loop="open", rate_per_s=round(rate))
    return one_point(point, [capacity, synthetic_run(point, profile)], profile, draws=0, workers=1)


def test_the_search_starts_at_the_first_wrong_metric(profile: Profile) -> None:
    runs = [synthetic_run(point, profile, repeat=n) for point in (CLOSED, LOW) for n in (0, 1)]
    dear = toy_profile(name="dear", scale=1.3)
    found = one_point(LOW, runs, dear, draws=0, workers=1)
    said = where_to_start(found)
    # Longer softirqs take more packets in one interrupt, but that is the smaller error.
    assert re.match(
        r"Look first at the CPU time of a request: the forecast is \d+% too high \(noise", said
    )
    assert "call.*, interrupt.entry_ns, application.request_ns too high" in said
    assert "interval" not in [column.heading for column in point_tables(found)[0].columns]


def test_cpu_comes_before_the_events_that_it_changes(near: OnePoint) -> None:
    measured = near.scored.measured.median
    events = measured.events_per_wait * 1.7
    said = where_to_start(changed(near, events_per_wait=events, cpu_busy=measured.cpu_busy * 1.06))
    assert said.startswith("Look first at the CPU time of a request: the forecast is 6.0% too high")
    assert "Suspect: call.*, interrupt.entry_ns, application.request_ns too high" in said
    assert "If CPU is right up to 80% of capacity: `sharing.refill` matters" in said
    said = where_to_start(changed(near, events_per_wait=events))
    assert said.startswith("Look first at events per wait: the forecast is 70% too high")
    assert "Suspect: the model of the mechanism, or simulated settings" in said


def test_a_cost_that_the_profile_does_not_have_is_not_suspected_to_be_too_high(
    near: OnePoint,
) -> None:
    busier = changed(near, cpu_busy=near.scored.measured.median.cpu_busy * 1.06)

    def said_with(**costs: float) -> str:
        profile = near.profile.model_copy(
            update={
                "cost": near.profile.cost
                | {
                    "call": near.profile.cost["call"]
                    | {name: whole_cost(ns, ns, ns, 0.0, "test") for name, ns in costs.items()}
                }
            }
        )
        return where_to_start(replace(busier, profile=profile))

    crowded = said_with(crowding=50.0)
    assert "If CPU is right up to 80% of capacity: call.crowding" in crowded
    assert "call.crowding" not in said_with(crowding=0.0)


def test_a_metric_without_suspects_at_this_load_is_passed_over(profile: Profile) -> None:
    runs = [synthetic_run(point, profile) for point in (CLOSED, LOW)]
    found = one_point(LOW, runs, profile, draws=0, workers=1)
    short = changed(found, throughput_per_s=0.9 * LOW.rate_per_s, cpu_busy=math.nan)
    short = replace(short, scored=replace(short.scored, role="capacity"))
    assert where_to_start(short) == (
        "No error is larger than its noise: half the range of the runs, at least 3%. This point "
        "has one run, so its noise is unknown."
    )


def test_interrupts_come_first_if_they_are_farther_beyond_their_noise(near: OnePoint) -> None:
    measured = near.scored.measured.median
    interrupts = measured.interrupts_per_request * 1.5
    more = changed(near, interrupts_per_request=interrupts, cpu_busy=measured.cpu_busy * 1.06)
    assert where_to_start(more).startswith(
        "Look first at interrupts per request: the forecast is 50% too high"
    )


def test_runs_that_contradict_each_other_are_named(profile: Profile) -> None:
    runs = [synthetic_run(point, profile, repeat=n) for point in (CLOSED, LOW) for n in (0, 1)]
    latency = runs[-1].result.latency_ns
    assert latency is not None
    slow = latency.model_copy(update={"p50": 100 * latency.p50})
    result = runs[-1].result.model_copy(update={"latency_ns": slow})
    runs[-1] = runs[-1].model_copy(update={"result": result})
    found = one_point(LOW, runs, profile, draws=0, workers=1)
    assert "The runs contradict each other: the noise of p50 is 98%." in where_to_start(found)


def test_nothing_is_suspected_of_a_point_without_a_known_capacity(profile: Profile) -> None:
    found = one_point(LOW, [synthetic_run(LOW, profile)], profile, draws=0, workers=1)
    assert where_to_start(found).startswith("The capacity of this server was not measured")
