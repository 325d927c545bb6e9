"""What to suspect when a metric is wrong: what counts as wrong, which symptom fits, its costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from docs.making.accuracy import SUSPECTS_PAGE, suspects_block
from tests.validation.scoring.test_knee import NAN, curve

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.profiles.cost import TABLES
from dispatchsim.calibration.profiles.cost_profile import Profile, shipped
from dispatchsim.calibration.running.preparation import job_of
from dispatchsim.sim.state.units import SECOND_NS
from dispatchsim.validation.points.figures import result_of
from dispatchsim.validation.report.summary_tables import suspect_table
from dispatchsim.validation.scoring.scoring import PointScore
from dispatchsim.validation.scoring.suspects import (
    SYMPTOMS,
    Reading,
    medians,
    readings_of,
    suspicions,
)

QUIET, NEAR, CLOSED = "no queue: up to 80% of capacity", "queue: up to the capacity", "closed loops"
BARE = point_at(mechanism="poll", users=8)
PROFILE = "epyc-family25-2cpu-linux-6.18"
"""The profile for costs that it has."""


def readings(
    figure: str,
    error: float,
    regime: str = QUIET,
    *,
    n: int = 7,
    noise: float = 0.03,
    point: Point = BARE,
) -> list[Reading]:
    """Return the errors about *error* of *n* points like *point*."""
    return [
        Reading(figure, regime, point_at(point, users=8 + i), error + (i - n // 2) / 1000, noise)
        for i in range(n)
    ]


EVENTS_RIGHT = readings("events_per_wait", 0.0)


def suspected(*found: list[Reading]) -> dict[str, str]:
    """Return the suspects by metric, as the table has them."""
    suspicious = suspicions([reading for own in found for reading in own])
    rows = suspect_table(suspicious).rows
    return {each.wrong.figure: row[-1] for each, row in zip(suspicious, rows, strict=True)}


def test_a_median_within_its_noise_is_right() -> None:
    (right,) = medians(readings("cpu_busy", 0.05, noise=0.06)).values()
    assert (right.is_right, right.is_wrong) == (True, False)
    (wrong,) = medians(readings("cpu_busy", 0.05, noise=0.04)).values()
    assert (wrong.is_right, wrong.is_wrong) == (False, True)
    assert (wrong.n, wrong.noise) == (7, 0.04)
    assert wrong.error == pytest.approx(0.05)


@pytest.mark.parametrize(("n", "known"), [(1, False), (4, False), (5, True)])
def test_fewer_than_five_points_show_nothing_right(n: int, known: bool) -> None:
    (found,) = medians(readings("cpu_busy", 0.0, n=n)).values()
    assert found.is_right == known


def test_repeats_of_one_point_are_one_point() -> None:
    (found,) = medians(Reading("cpu_busy", QUIET, BARE, 0.0, 0.03) for _ in range(9)).values()
    assert (found.n, found.is_right) == (1, False)


def test_errors_of_both_signs_are_neither_wrong_nor_right() -> None:
    errors = (-0.4, -0.3, -0.2, 0.1, 0.2, 0.3, 0.4)
    (found,) = medians(
        Reading("p50_ns", QUIET, point_at(BARE, users=8 + i), error, 0.03)
        for i, error in enumerate(errors)
    ).values()
    assert (found.is_right, found.is_wrong) == (False, False)


def test_nothing_wrong_has_no_suspects() -> None:
    assert suspicions(readings("cpu_busy", 0.01)) == []
    assert suspect_table([]).note == (
        "No metric is wrong for certain: its median error must be larger than its noise and have "
        "one sign at several points. Not read in closed loops: CPU, p50, p99."
    )


def test_a_cost_is_too_high_or_too_low_as_the_metric_is() -> None:
    sleeping = "interrupt.sleep_ns, interrupt.wake_ns, interrupt.entry_since, cold.*"
    right = readings("cpu_busy", 0.0, NEAR)
    assert suspected(readings("cpu_busy", 0.1), right) == {"cpu_busy": f"{sleeping} too high"}
    assert suspected(readings("cpu_busy", -0.1), right) == {"cpu_busy": f"{sleeping} too low"}
    slow = suspected(
        readings("throughput_per_s", -0.1, CLOSED), readings("events_per_wait", 0.0, CLOSED)
    )["throughput_per_s"]
    assert slow.startswith("call.*, interrupt.entry_ns, application.request_ns too high")


def test_what_is_wrong_near_the_capacity_too_is_wrong_at_every_load() -> None:
    found = suspected(readings("cpu_busy", 0.1), readings("cpu_busy", 0.06, NEAR), EVENTS_RIGHT)
    assert found["cpu_busy"].startswith("call.*, interrupt.entry_ns, application.request_ns too")


def test_delays_are_suspected_only_where_the_cpu_is_right() -> None:
    late = readings("p50_ns", -0.1)
    assert "interrupt.idle_exit_ns" in suspected(late, readings("cpu_busy", 0.0))["p50_ns"]
    found = suspected(late, readings("cpu_busy", -0.1), readings("cpu_busy", 0.0, NEAR))
    assert found["p50_ns"] == "first mend CPU, also wrong"


def test_a_metric_that_is_not_known_to_be_right_is_to_be_checked_first() -> None:
    delays = "interrupt.idle_exit_ns, interrupt.idle_exit_since, interrupt.way, "
    late, unknown = readings("p50_ns", -0.1), "not known to be right; then "
    for cpu in ([], readings("cpu_busy", 0.0, n=4)):
        assert suspected(late, cpu)["p50_ns"].startswith(f"first check CPU, {unknown}{delays}")
    found = suspected(readings("p50_ns", 0.2, NEAR))["p50_ns"]
    assert found.startswith(f"first check p50 at other loads, {unknown}costs of CPU time")


def test_a_search_begins_with_events_per_wait() -> None:
    found = suspected(readings("events_per_wait", 0.3), readings("interrupts_per_request", 0.2))
    assert list(found) == ["events_per_wait", "interrupts_per_request"]
    assert found["events_per_wait"].startswith("the model of the mechanism, or simulated settings")
    assert found["interrupts_per_request"] == "first mend events per wait, also wrong"


def test_an_error_with_idle_connections_only_is_of_scans() -> None:
    crowd = point_at(BARE, idle=1000)
    wrong, right = readings("cpu_busy", 0.2, point=crowd), readings("cpu_busy", 0.0)
    assert suspected(wrong, right) == {"cpu_busy": "MECHANISM.scan, MECHANISM.register too high"}
    assert suspected(wrong, EVENTS_RIGHT, readings("cpu_busy", 0.2))["cpu_busy"].startswith(
        "call.*"
    )


@pytest.mark.parametrize(("n", "error"), [(0, 0.2), (1, 0.0), (1, 0.2), (4, 0.2)])
def test_few_points_without_idle_connections_do_not_confine_an_error(n: int, error: float) -> None:
    wrong = readings("cpu_busy", 0.2, point=point_at(BARE, idle=1000))
    found = suspected(wrong, EVENTS_RIGHT, readings("cpu_busy", error, n=n))
    assert found["cpu_busy"].startswith("call.*")


def test_a_row_has_the_symptom_and_the_number_of_its_points() -> None:
    wrong = readings("cpu_busy", 0.2, point=point_at(BARE, idle=1000))
    table = suspect_table(suspicions([*wrong, *readings("cpu_busy", 0.0, n=5)]))
    assert [row[:5] for row in table.rows] == [
        ("CPU, with idle connections", "up to 80% of capacity", "7", "+20%", "3.0%")
    ]
    assert (
        "A metric has one row, the first that fits, with the median of the named points."
        in table.note
    )


def test_readings_are_of_held_out_points_and_noise_is_at_least_three_percent() -> None:
    scores = [*curve((1, 1, 1), (2, 2, 2), noise=0.1), *curve((1, 1, 1), (2, 2, 2), noise=NAN)]
    fitted: list[PointScore] = [replace(score, role="fit") for score in scores]
    assert readings_of(fitted) == []
    p99 = [r for r in readings_of(scores) if r.figure == "p99_ns"]
    assert [round(r.error, 6) for r in p99] == [1.0] * 6
    assert [round(r.noise, 6) for r in p99] == [0.1, 0.1, 0.1, 0.03, 0.03, 0.03]


LOW = point_at(mechanism="epoll_level", loop="open", rate_per_s=5_000.0)
BUSY = point_at(LOW, rate_per_s=15_000.0)
FULL = point_at(mechanism="epoll_level", users=64)
CROWD = point_at(mechanism="poll", loop="open", rate_per_s=1_000.0, idle=1_000)
FULL_CROWD = point_at(mechanism="poll", users=8, idle=1_000)
LONG = point_at(LOW, rate_per_s=1_000.0, reply_bytes=20_000)
FULL_LONG = point_at(mechanism="epoll_level", users=8, reply_bytes=20_000)
SCENES = {
    ("interrupts_per_request", "client.connect_ns"): BUSY,
    ("interrupts_per_request", "client.send_ns"): BUSY,
    ("interrupts_per_request", "interrupt.way"): BUSY,
    ("interrupts_per_request", "interrupt.entry_ns"): BUSY,
    ("cpu_busy", "MECHANISM.scan"): CROWD,
    ("cpu_busy", "MECHANISM.register"): CROWD,
    ("cpu_busy", "call.write_kib_ns"): LONG,
    ("cpu_busy", "interrupt.acked_ns"): LONG,
    ("cpu_busy", "interrupt.sleep_ns"): LOW,
    ("cpu_busy", "interrupt.wake_ns"): LOW,
    ("cpu_busy", "interrupt.entry_since"): LOW,
    ("cpu_busy", "call.*"): LOW,
    ("cpu_busy", "interrupt.entry_ns"): LOW,
    ("cpu_busy", "application.request_ns"): LOW,
    ("cpu_busy", "call.crowding"): point_at(LOW, rate_per_s=26_000.0),
    ("cpu_busy", "sharing.refill"): point_at(
        BUSY, mechanism="blocking", threads="pool", workers=16
    ),
    ("throughput_per_s", "MECHANISM.scan"): FULL_CROWD,
    ("throughput_per_s", "MECHANISM.register"): FULL_CROWD,
    ("throughput_per_s", "call.write_kib_ns"): FULL_LONG,
    ("throughput_per_s", "interrupt.acked_ns"): FULL_LONG,
    ("throughput_per_s", "call.*"): FULL,
    ("throughput_per_s", "interrupt.entry_ns"): FULL,
    ("throughput_per_s", "application.request_ns"): FULL,
    ("p50_ns", "interrupt.idle_exit_ns"): LOW,
    ("p50_ns", "interrupt.idle_exit_since"): LOW,
    ("p50_ns", "interrupt.way"): LOW,
    ("p50_ns", "interrupt.syn_cold_ns"): LOW,
    ("p50_ns", "cold.*"): LOW,
    ("cpu_busy", "cold.*"): LOW,
    ("p50_ns", "network.delay_ns"): LOW,
}
"""A scenario in which the metric depends on the cost."""
PROFILES = {
    "interrupt.sleep_ns": "epyc-family26-2cpu-linux-6.18",
    "application.request_ns": "epyc-family26-2cpu-linux-6.18",
    "interrupt.idle_exit_since": "epyc-family25-model17-2cpu-linux-6.18",
    "interrupt.syn_cold_ns": "epyc-family25-model17-2cpu-linux-6.18",
    "cold.*": "epyc-family25-model1-2cpu-linux-6.18",
    "network.delay_ns": "counted-linux-6.1",
    "call.crowding": "counted-linux-6.1",
}
"""A profile in which the cost is not 0, if it is 0 or missing in that of family 25."""


def directions() -> dict[tuple[str, str], int]:
    """Return 1 for each metric and cost that raises it, -1 for each that lowers it."""
    return {
        (symptom.figure, cost): sign
        for symptom in SYMPTOMS
        for sign, costs in ((1, symptom.raises), (-1, symptom.lowers))
        for cost in costs
    }


def fields_of(cost: str, point: Point) -> list[tuple[str, str]]:
    """Return table and field of each cost that *cost* stands for at *point*."""
    table, field = cost.replace("MECHANISM", point.server.mechanism).split(".")
    return [(table, name) for name in TABLES[table]._fields if field in (name, "*")]


def dearer(profile: Profile, cost: str, point: Point) -> Profile:
    """Return *profile* with the *cost* times 1.5."""
    tables = {table: dict(costs) for table, costs in profile.cost.items()}
    for table, name in fields_of(cost, point):
        # How long before its end a write handles packets is no cost.
        if name in tables[table] and "delivery" not in name:
            found = tables[table][name]
            columns = ("value", "low", "high")
            tables[table][name] = found.model_copy(
                update={c: tuple(1.5 * ns for ns in getattr(found, c)) for c in columns}
            )
    return profile.model_copy(update={"cost": tables})


def test_every_suspected_cost_exists() -> None:
    costs = directions().keys()
    assert costs == SCENES.keys()
    for figure, cost in costs:
        assert fields_of(cost, SCENES[figure, cost]), cost
    assert not fields_of("client.sleep_ns", LOW)  # a field of another table


@pytest.mark.parametrize(("figure", "cost"), SCENES)
def test_a_suspected_cost_moves_its_metric_to_the_suspected_side(figure: str, cost: str) -> None:
    point = SCENES[figure, cost].lasting(SECOND_NS // 5, SECOND_NS)
    profile = shipped()[PROFILES.get(cost, PROFILE)]
    before, after = (
        getattr(result_of(job_of(point, each, 1))[0], figure)
        for each in (profile, dearer(profile, cost, point))
    )
    change = directions()[figure, cost] * (after / before - 1)
    assert change > 0.001  # the least is 0.4%: sharing.refill


def test_the_page_has_the_table_of_suspects() -> None:
    assert suspects_block() in Path(SUSPECTS_PAGE).read_text(encoding="utf-8")
