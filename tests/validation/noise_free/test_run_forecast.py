"""A run without noise is forecast with its own arrivals, so a perfect model makes no error."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tests.validation.emulated_runs import emulated_run
from tests.validation.synthetic_runs import SHORT, toy_profile

from dispatchsim.calibration.points.point import Point, point_at, trace_to_replay
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.preparation import run_job
from dispatchsim.sim.state.costs import curve_ns
from dispatchsim.validation.noise_free.run_forecast import (
    kept_forecasts,
    measured_counts,
    measured_figures,
    noise_free_job,
    repeating,
    run_forecasts,
    scaled_costs,
    simulated,
)

CLOSED = point_at(mechanism="poll", idle=200, users=8)
OPEN = point_at(mechanism="poll", idle=50, loop="open", rate_per_s=8_000)


@pytest.mark.parametrize("point", [CLOSED, OPEN], ids=lambda point: point.load.loop)
def test_with_the_true_costs_the_forecast_is_the_measured_run(
    profile: Profile, point: Point
) -> None:
    run = emulated_run(point, profile, repeat=3)
    forecast = simulated(repeating(run, profile))
    measured = measured_figures(run)
    assert forecast.figures == measured
    assert forecast.at_equal_cpu == measured
    counts = measured_counts(run)
    assert {name: forecast.counts[name] for name in counts} == counts
    assert {"interrupts", "packets", "switches"} <= set(counts)


def test_costs_that_are_all_wrong_alike_are_told_from_structure(profile: Profile) -> None:
    run = emulated_run(CLOSED, profile)
    measured = measured_figures(run)
    forecast = simulated(repeating(run, toy_profile(scale=0.97)))
    cpu_error = forecast.figures.cpu_ns_per_request / measured.cpu_ns_per_request - 1
    assert cpu_error == pytest.approx(-0.03, abs=0.003)
    for scaled, value in zip(forecast.at_equal_cpu, measured, strict=True):
        assert scaled == pytest.approx(value, rel=0.002)


def test_all_cpu_time_is_scaled_and_nothing_else(profile: Profile) -> None:
    costs = profile.costs("select", open_connections=100)
    doubled = scaled_costs(costs, 2.0)
    assert doubled.interrupt.syn_ns == 2 * costs.interrupt.syn_ns
    assert doubled.interrupt.idle_exit_ns == costs.interrupt.idle_exit_ns
    assert doubled.mechanism.scan.at == costs.mechanism.scan.at
    assert curve_ns(doubled.mechanism.scan, 500) == 2 * curve_ns(costs.mechanism.scan, 500)
    assert doubled.client == costs.client


def test_a_longer_trace_begins_with_the_shorter_one() -> None:
    short, long = (trace_to_replay(OPEN, 7, seconds) for seconds in (0.08, 0.081))
    assert len(short) < len(long)
    assert np.array_equal(short.at_ns, long.at_ns[: len(short)])


def test_clients_of_the_target_are_free(profile: Profile) -> None:
    job = noise_free_job(OPEN, 1, SHORT, profile).job
    assert set(job.costs.client) == {0}


def test_the_wire_of_the_target_loses_nothing_of_a_burst(profile: Profile) -> None:
    burst = point_at(mechanism="poll", loop="open", rate_per_s=40_000, burst=2_000, backlog=4_096)
    job = noise_free_job(burst, 1, SHORT, profile).job
    assert run_job(job).summary.dropped["receive_queue"] == 0
    queue = job.scenario.machine.model_copy(update={"receive_queue": 1_000})
    short = job.scenario.model_copy(update={"machine": queue})
    assert run_job(job._replace(scenario=short)).summary.dropped["receive_queue"] > 0


def test_forecasts_come_in_the_order_of_their_jobs(profile: Profile) -> None:
    jobs = [noise_free_job(OPEN, seed, SHORT, profile) for seed in (1, 2)]
    told: list[tuple[int, int]] = []
    found = run_forecasts(jobs, progress=lambda *done: told.append(done))
    assert [f.figures for f in found] == [simulated(job).figures for job in jobs]
    assert told == [(1, 2), (2, 2)]


def test_a_forecast_is_kept_and_equal(profile: Profile, tmp_path: Path) -> None:
    jobs = [noise_free_job(OPEN, 1, SHORT, profile)]
    first = run_forecasts(jobs, kept=kept_forecasts(tmp_path))
    (path,) = tmp_path.iterdir()
    line = path.read_text()
    again = run_forecasts(jobs, kept=kept_forecasts(tmp_path))
    assert repr(first) == repr(again) == repr(run_forecasts(jobs))
    assert path.read_text() == line


def test_the_ledger_of_a_request_is_its_cpu_time(profile: Profile) -> None:
    forecast = simulated(noise_free_job(OPEN, 1, SHORT, profile))
    assert "idle" not in forecast.ledger_ns
    assert sum(forecast.ledger_ns.values()) == pytest.approx(forecast.figures.cpu_ns_per_request)


def test_what_was_not_counted_is_not_compared(profile: Profile) -> None:
    run = emulated_run(OPEN, profile)
    silent = run.result.model_copy(update={"interrupts": None, "switches": None})
    counts = measured_counts(run.model_copy(update={"result": silent}))
    assert "interrupts" not in counts
    assert "connections_open" not in counts
    assert not math.isnan(counts["packets"])
