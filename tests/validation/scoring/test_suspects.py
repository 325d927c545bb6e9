"""What to suspect when a metric is wrong: what counts as wrong, which symptom fits, its costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from docs.making.accuracy import SUSPECTS_PAGE, suspects_block
from docs.making.cost_words import COMMON, OF_TABLE
from tests.validation.scoring.test_knee import NAN, curve

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.validation.report.summary_tables import suspect_table
from dispatchsim.validation.scoring.scoring import PointScore
from dispatchsim.validation.scoring.suspects import (
    SYMPTOMS,
    Reading,
    readings_of,
    suspicions,
    wrong_medians,
)

QUIET, NEAR, CLOSED = "no queue: up to 80% of capacity", "queue: up to the capacity", "closed loops"
BARE = point_at(mechanism="poll", users=8)


def readings(
    figure: str, error: float, regime: str = QUIET, *, noise: float = 0.03, point: Point = BARE
) -> list[Reading]:
    """Return seven errors about *error*."""
    return [Reading(figure, regime, point, error + n / 1000, noise) for n in range(-3, 4)]


def suspected(*found: list[Reading]) -> dict[str, str]:
    """Return the suspects by metric; of a metric without a symptom, the metrics before it."""
    return {
        each.wrong.figure: each.symptom.suspects(each.wrong.error)
        if each.symptom
        else " ".join(each.first)
        for each in suspicions([reading for own in found for reading in own])
    }


def test_a_median_within_its_noise_is_right() -> None:
    assert wrong_medians(readings("cpu_busy", 0.05, noise=0.06)) == {}
    (wrong,) = wrong_medians(readings("cpu_busy", 0.05, noise=0.04)).values()
    assert (wrong.n, wrong.noise) == (7, 0.04)
    assert wrong.error == pytest.approx(0.05)


def test_errors_of_both_signs_are_no_wrong_median() -> None:
    errors = (-0.4, -0.3, -0.2, 0.1, 0.2, 0.3, 0.4)
    assert wrong_medians(Reading("p50_ns", QUIET, BARE, e, 0.03) for e in errors) == {}


def test_nothing_wrong_has_no_suspects() -> None:
    assert suspicions(readings("cpu_busy", 0.01)) == []
    assert suspect_table([]).note == "No median error is out of its noise."


def test_a_cost_is_too_high_or_too_low_as_the_metric_is() -> None:
    sleeping = "interrupt.sleep_ns, interrupt.wake_ns, interrupt.entry_since"
    right = readings("cpu_busy", 0.0, NEAR)
    assert suspected(readings("cpu_busy", 0.1), right) == {"cpu_busy": f"{sleeping} too high"}
    assert suspected(readings("cpu_busy", -0.1), right) == {"cpu_busy": f"{sleeping} too low"}
    slow = suspected(readings("throughput_per_s", -0.1, CLOSED))["throughput_per_s"]
    assert slow.startswith("call.*, interrupt.entry_ns, application.request_ns too high")


def test_what_is_wrong_near_the_capacity_too_is_wrong_at_every_load() -> None:
    found = suspected(readings("cpu_busy", 0.1), readings("cpu_busy", 0.06, NEAR))
    assert found["cpu_busy"].startswith("call.*, interrupt.entry_ns, application.request_ns too")


def test_delays_are_suspected_only_where_the_cpu_is_right() -> None:
    late = readings("p50_ns", -0.1)
    assert "interrupt.idle_exit_ns" in suspected(late, readings("cpu_busy", 0.0))["p50_ns"]
    found = suspected(late, readings("cpu_busy", -0.1), readings("cpu_busy", 0.0, NEAR))
    assert found["p50_ns"] == "cpu_busy"


def test_a_search_begins_with_events_per_wait() -> None:
    found = suspected(readings("events_per_wait", 0.3), readings("interrupts_per_request", 0.2))
    assert list(found) == ["events_per_wait", "interrupts_per_request"]
    assert found["events_per_wait"].startswith("no cost: ")
    assert found["interrupts_per_request"] == "events_per_wait"


def test_an_error_with_idle_connections_only_is_of_scans() -> None:
    crowd = point_at(BARE, idle=1000)
    wrong, right = readings("cpu_busy", 0.2, point=crowd), readings("cpu_busy", 0.0)
    assert suspected(wrong, right) == {"cpu_busy": "MECHANISM.scan, MECHANISM.register too high"}
    assert suspected(wrong, readings("cpu_busy", 0.2))["cpu_busy"].startswith("call.*")
    assert suspected(wrong)["cpu_busy"].startswith("call.*")  # nothing without a crowd is known


def test_readings_are_of_held_out_points_and_noise_is_at_least_three_percent() -> None:
    scores = [*curve((1, 1, 1), (2, 2, 2), noise=0.1), *curve((1, 1, 1), (2, 2, 2), noise=NAN)]
    fitted: list[PointScore] = [replace(score, role="fit") for score in scores]
    assert readings_of(fitted) == []
    p99 = [r for r in readings_of(scores) if r.figure == "p99_ns"]
    assert [round(r.error, 6) for r in p99] == [1.0] * 6
    assert [round(r.noise, 6) for r in p99] == [0.1, 0.1, 0.1, 0.03, 0.03, 0.03]


def test_every_suspected_cost_exists() -> None:
    known = {name for table in OF_TABLE.values() for name in table} | {*COMMON, "*"}
    costs = {name for symptom in SYMPTOMS for name in (*symptom.raises, *symptom.lowers)}
    assert {cost.split(".")[1] for cost in costs} <= known


def test_the_page_has_the_table_of_suspects() -> None:
    assert suspects_block() in Path(SUSPECTS_PAGE).read_text(encoding="utf-8")
