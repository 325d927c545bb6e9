"""Kept connections, measured beside simulated: by request, and what the command prints."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.lab import lab
from tests.validation.synthetic_runs import SHORT, synthetic_run, toy_profile

from dispatchsim.calibration.measure.kept_run import KEPT_FILE
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile, toml_of
from dispatchsim.calibration.records.measured_runs import RunRecord, append
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.sim.files.tables import DASH
from dispatchsim.validation.points.figures import Figures
from dispatchsim.validation.points.kept import (
    KeptLoad,
    busy_point,
    capacities,
    compare,
    kept_tables,
    simulated_figures,
)
from dispatchsim.validation.points.measured_points import figures_of_run, verdict_of_run

POINT = point_at(
    mechanism="epoll_level", loop="open", connections=4, rate_per_s=10_000, request_work_ns=20_000
)
MS = 1e6


def load_of(measured: list[Figures], simulated: Figures) -> KeptLoad:
    return KeptLoad(POINT, 0.5, tuple(measured), (simulated,), (1.0, 0.98), ())


def figures(per_s: float, cpu: float, request_ns: float, p50_ns: float, p99_ns: float) -> Figures:
    return Figures(per_s, cpu, request_ns, p50_ns, p99_ns, 1.0)


def test_the_capacity_is_that_of_a_server_whose_connections_are_never_idle(
    profile: Profile,
) -> None:
    busy = busy_point(POINT)
    assert (busy.load.loop, busy.users, busy.keeps) == ("closed", 4, False)
    assert busy.server == POINT.server
    faster = point_at(POINT, rate_per_s=20_000)
    assert busy_point(faster) == busy
    ((found, capacity_per_s),) = capacities([POINT, faster], profile).items()
    assert found == busy
    # A request takes its 20 us and the calls and packets, which are some 20 us more.
    assert 1e9 / 60_000 < capacity_per_s < 1e9 / 30_000


def test_the_simulation_of_a_simulated_run_is_that_run_by_request(profile: Profile) -> None:
    run = synthetic_run(POINT, profile)
    measured, simulated = figures_of_run(run), simulated_figures(run, profile)
    # Its warm-up is 12 us longer: a request at either end of the window may be on the other side.
    one_per_s = 1e9 / SHORT.window_ns
    assert simulated.throughput_per_s == pytest.approx(measured.throughput_per_s, abs=2 * one_per_s)
    assert simulated.p50_ns == pytest.approx(measured.p50_ns, rel=0.01)
    assert measured.throughput_per_s == pytest.approx(run.result.replied * one_per_s)
    # Some 600 requests over four connections that are never closed.
    assert run.result.offered > 400
    assert verdict_of_run(run) == Verdict.STABLE


def test_requests_that_wait_for_their_connection_have_waited(profile: Profile) -> None:
    one, many = (point_at(POINT, connections=n, rate_per_s=15_000) for n in (1, 1000))
    waits, free = (simulated_figures(synthetic_run(p, profile), profile) for p in (one, many))
    # One connection has one request at a time, and a round trip is longer than its service.
    assert waits.p50_ns > 10 * free.p50_ns


def test_the_noise_is_half_the_range_and_the_bound_is_of_requests_a_second() -> None:
    runs = [
        figures(10_000, 0.5, 30_000, 1 * MS, 4 * MS),
        figures(10_400, math.nan, 31_000, 3 * MS, 6 * MS),
        figures(10_100, 0.6, 32_000, 2 * MS, 8 * MS),
    ]
    within = load_of(runs, figures(9_600, 0.45, 24_800, 1 * MS, 9 * MS))
    beyond = load_of(runs, figures(9_590, 0.45, 24_800, 1 * MS, 9 * MS))
    assert (within.verdict, beyond.verdict) == ("reached", "missed")
    assert within.noise("throughput_per_s") == 200
    assert within.noise("cpu_busy") == pytest.approx(0.05)
    rates, times, cpu = kept_tables([within])
    first = ("epoll_level", "4", "0.50")
    assert rates.rows == [
        (*first, "10,000/s", "98.0%", "3", "10,100/s ± 200/s", "9,600/s", "-5.0%", "reached")
    ]
    assert times.rows == [
        (*first, "2.00 ms ± 1.00 ms", "1.00 ms", "-50.0%", "6.00 ms ± 2.00 ms", "9.00 ms", "+50.0%")
    ]
    assert cpu.rows == [
        (*first, "55.0% ± 5.0%", "45.0%", "-10.0", "31.0 µs ± 1.00 µs", "24.8 µs", "-20.0%")
    ]


def test_a_point_without_a_run_that_counts_has_a_forecast_and_no_verdict(profile: Profile) -> None:
    lost = synthetic_run(POINT, profile, reason="connections_failed must be 0, got 1")
    (entry,) = compare([lost], profile)
    assert (entry.measured, len(entry.simulated), entry.verdict) == ((), 1, "")
    *_, rejected = kept_tables([entry])
    assert rejected.rows == [(POINT.label, "0", lost.reason)]
    assert kept_tables([entry])[0].rows[0][6] == DASH


def test_points_are_in_order_of_server_connections_and_load(profile: Profile) -> None:
    poll = point_at(POINT, mechanism="poll")
    many = point_at(POINT, connections=10)
    faster = point_at(POINT, rate_per_s=12_000)
    runs = [synthetic_run(point, profile) for point in (poll, many, faster, POINT)]
    seen: list[tuple[int, int]] = []
    found = compare(runs, profile, lambda done, n: seen.append((done, n)))
    assert [entry.point for entry in found] == [POINT, faster, many, poll]
    assert found[1].load == pytest.approx(1.2 * found[0].load)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_the_command_prints_what_is_there_and_asks_for_runs(tmp_path: Path) -> None:
    profile = toy_profile()
    path = tmp_path / "toy.toml"
    path.write_text(toml_of(profile))
    done = lab("kept", tmp_path, "--profile", path, "--repeats", 0)
    assert done.exit_code == 2
    assert f"{KEPT_FILE}: must hold runs, got none: --repeats above 0 measures" in done.stderr
    run = synthetic_run(POINT, profile)
    append(tmp_path / KEPT_FILE, run)
    assert RunRecord.model_validate_json((tmp_path / KEPT_FILE).read_text()) == run
    done = lab("kept", tmp_path, "--profile", path, "--repeats", 0)
    assert done.exit_code == 0, done.output
    for text in ("requests per second", "response times", "CPU", "10,000/s", "reached"):
        assert text in done.stdout
