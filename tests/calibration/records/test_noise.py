"""The gate rejects what was disturbed, says why, and judges calibrations within a series."""

from dataclasses import replace

import pytest

from dispatchsim.calibration.points.point import BLOCKING, point_at
from dispatchsim.calibration.points.points import FIT_POINT, STOCK_MECHANISMS
from dispatchsim.calibration.records.measured_runs import Noise
from dispatchsim.calibration.records.noise import (
    NoiseLimits,
    Series,
    delay_share,
    judge,
    limits_for,
)

QUIET = Noise(
    server_delay_share=0.01,
    client_delay_share=0.01,
    steal_share=0.0,
    spin_ratio=1.01,
    memory_ratio=1.05,
)


def test_a_quiet_run_is_accepted() -> None:
    assert judge(QUIET, lag_p50_ns=10_000) == (True, "")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("server_delay_share", 0.05, "server_delay_share must be below 0.05, got 0.050"),
        ("client_delay_share", 0.04, "client_delay_share must be below 0.03, got 0.040"),
        ("steal_share", 0.5, "steal_share must be below 0.02, got 0.500"),
        ("foreign_share", 0.2, "foreign_share must be below 0.05, got 0.200"),
        ("spin_ratio", 1.5, "spin_ratio must be below 1.1, got 1.500"),
        ("memory_ratio", 2.0, "memory_ratio must be below 1.3, got 2.000"),
    ],
)
def test_each_disturbance_is_named(field: str, value: float, reason: str) -> None:
    noise = QUIET.model_copy(update={field: value})
    assert judge(noise, lag_p50_ns=0) == (False, reason)


def test_only_who_looks_at_idle_connections_needs_a_quiet_cache() -> None:
    scans = {
        name
        for name in STOCK_MECHANISMS
        if name != BLOCKING
        if limits_for(point_at(mechanism=name, idle=1000, users=64)) == NoiseLimits()
    }
    assert scans == {"select", "poll", "epoll_once"}
    assert limits_for(FIT_POINT) == NoiseLimits()


def test_threads_wait_for_one_another_in_the_run_queue_and_for_nobody_else() -> None:
    limits = limits_for(point_at(mechanism=BLOCKING, users=64, workers=64))
    waited = QUIET.model_copy(update={"server_delay_share": 0.9})
    assert judge(waited, lag_p50_ns=0, limits=limits)[0]
    assert not judge(waited, lag_p50_ns=0)[0]
    stolen = QUIET.model_copy(update={"steal_share": 0.2})
    assert not judge(stolen, lag_p50_ns=0, limits=limits)[0]


def test_a_late_load_generator_is_rejected() -> None:
    assert judge(QUIET, lag_p50_ns=2_000_000) == (
        False,
        "lag_p50_ns must be below 1000000, got 2000000",
    )


def test_limits_can_be_changed() -> None:
    limits = replace(NoiseLimits(), memory_ratio_max=1.02)
    assert judge(QUIET, lag_p50_ns=0, limits=limits)[0] is False


def test_a_run_is_judged_against_the_quiet_ones_of_its_series() -> None:
    series = Series()
    assert series.include(spin_ns=100, memory_ns=50) == (1.0, 1.0)
    assert series.include(spin_ns=110, memory_ns=40) == (1.1, 1.0)
    assert series.include(spin_ns=100, memory_ns=60) == (1.0, 1.5)


def test_one_lucky_calibration_does_not_condemn_the_others() -> None:
    series = Series()
    for memory_ns in (30, 150, 140, 145):
        series.include(spin_ns=100, memory_ns=memory_ns)
    assert series.include(spin_ns=100, memory_ns=140)[1] == 1.0


def test_an_unknown_calibration_judges_nothing() -> None:
    assert Series().include(spin_ns=0, memory_ns=0) == (1.0, 1.0)


def test_the_delay_is_a_share_of_the_time_on_the_cpu() -> None:
    assert delay_share(delay_ns=1_000_000, run_ns=10_000_000) == 0.1
    assert delay_share(delay_ns=0, run_ns=0) == 0.0
