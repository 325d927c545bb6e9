"""A tiny real campaign on plain loopback: its structure, not its figures."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.calibration.fit.synthetic_micro import micro_rounds

from dispatchsim.calibration.emulated.microbenchmarks import missing_commands
from dispatchsim.calibration.measure import calm, quietness, surroundings
from dispatchsim.calibration.measure import target as hardware
from dispatchsim.calibration.measure.campaign import (
    CampaignError,
    CampaignProgress,
    CampaignSummary,
    alone,
)
from dispatchsim.calibration.measure.machine_campaigns import Kind, run_campaign
from dispatchsim.calibration.measure.macro import Timing
from dispatchsim.calibration.measure.microbenchmarks import bench_commands
from dispatchsim.calibration.points.point import point_at, trace_to_replay
from dispatchsim.calibration.points.points import FIT_POINTS
from dispatchsim.calibration.records import noise
from dispatchsim.calibration.records.measured_runs import (
    CpuTimes,
    DataError,
    MicroResult,
    RunRecord,
    read_rows,
)
from dispatchsim.calibration.records.noise import NoiseLimits
from dispatchsim.calibration.records.run_result import Records, Window, result_of
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.processes import RunError
from dispatchsim.calibration.testbed.testbed import Testbed

TIMING = Timing(
    warm_up_s=0.05, warm_up_accept_limited_s=0.05, window_s=0.2, after_s=0.05, calibration_ms=5
)
SMALL = (
    point_at(mechanism="poll", idle=20, users=4),
    point_at(mechanism="select", loop="open", rate_per_s=500),
)


_SLEPT_THROUGH_NS = 50_000_000
"""On a busy machine the harness may wake up when the window is over: nothing is in it then."""


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch, c_programs: Programs) -> None:
    """Make the grids tiny and the gate wide open: a shared machine must not fail a test."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a run needs two CPUs")
    any_noise = NoiseLimits(9e9, 9e9, 9e9, 9e9, 9e9, 9e9, 10**18)
    monkeypatch.setattr("dispatchsim.calibration.measure.macro.limits_for", lambda _: any_noise)
    monkeypatch.setattr("dispatchsim.calibration.measure.macro.judged", lambda run: run)
    monkeypatch.setattr(hardware, "FIT_REPEATS_PER_ROUND", 0)
    monkeypatch.setattr(hardware, "held_out_points", lambda *_, **__: list(SMALL))
    monkeypatch.setattr(hardware, "bench_commands", lambda **_: ["floor --milliseconds 5"])
    monkeypatch.setattr(noise, "FLOOR_RATIO_MOST", math.inf)
    monkeypatch.setattr(calm, "PATIENCE_S", 0.1)
    monkeypatch.setattr(calm, "_FIRST_CHECKS", 1)
    monkeypatch.setattr(surroundings, "PATIENCE_BESIDE_S", 0.1)
    monkeypatch.setattr(surroundings, "TIMING", TIMING)
    monkeypatch.setattr(quietness, "measure_gaps", lambda *_, **__: [])
    monkeypatch.setattr(quietness, "measure_neighbours", lambda *_, **__: [])
    monkeypatch.setattr(surroundings, "BENCHES", {"calls": "floor"})
    monkeypatch.setattr(hardware.HardwareTarget, "capacity_repeats", 1)


def campaign(
    output: Path,
    kind: Kind = "all",
    progress: Callable[[CampaignProgress], None] | None = None,
) -> CampaignSummary:
    with hardware.hardware_target(timing=TIMING, steering="loopback") as target:
        return run_campaign(
            target, kind=kind, output=output, repeats=1, anyway=True, progress=progress
        )


@pytest.mark.usefixtures("_tiny")
def test_a_campaign_measures_everything_once_and_resumes(tmp_path: Path) -> None:
    first = campaign(tmp_path)
    assert (first.measured, first.skipped, first.given_up) == (5, 0, 0)
    assert json.loads((tmp_path / "machine.json").read_text())["id"]
    (micro,) = read_rows(tmp_path / "micro.jsonl", MicroResult).rows
    assert (micro.bench, micro.round) == ("floor", 0)
    fits = read_rows(tmp_path / "fit.jsonl", RunRecord).rows
    assert {run.point for run in fits} == set(FIT_POINTS)
    held_out = read_rows(tmp_path / "heldout.jsonl", RunRecord).rows
    assert {run.point for run in held_out} == set(SMALL)
    assert all(set(run.around or {}) <= {"calls", surroundings.REFERENCE} for run in held_out)
    assert all(run.around and run.around["calls"][0] > 0 for run in held_out)
    assert all(run.around is None for run in fits)
    for run in [*fits, *held_out]:
        assert run.steering == "loopback"
        assert run.seed == run.point.seed(run.repeat)
        if run.window_ns > _SLEPT_THROUGH_NS:
            assert run.result.replied > 0
            assert run.result.calls["replies"] > 0
            assert run.result.cpu.process_ns > 0

    second = campaign(tmp_path)
    assert (second.measured, second.skipped) == (0, 5)
    assert len(read_rows(tmp_path / "heldout.jsonl", RunRecord).rows) == 2


@pytest.mark.usefixtures("_tiny")
def test_a_torn_line_costs_one_run(tmp_path: Path) -> None:
    campaign(tmp_path, "fit")
    path = tmp_path / "fit.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    summary = campaign(tmp_path, "fit")
    assert summary.measured == 1
    assert "fit.jsonl line 2: torn by an interrupted write, dropped" in summary.notices
    assert len(read_rows(path, RunRecord).rows) == len(FIT_POINTS)


@pytest.mark.usefixtures("_tiny")
def test_an_interrupted_campaign_keeps_what_it_finished(tmp_path: Path) -> None:
    def interrupt(progress: CampaignProgress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    summary = campaign(tmp_path, progress=interrupt)
    assert summary.interrupted
    assert len(read_rows(tmp_path / "fit.jsonl", RunRecord).rows) == 1
    assert campaign(tmp_path).measured == 4


@pytest.mark.usefixtures("_tiny")
def test_the_folder_of_another_machine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text('{"id": "vax-1cpu"}')
    with pytest.raises(DataError, match='field id is "vax-1cpu", this machine is'):
        campaign(tmp_path)


def test_two_campaigns_at_once_would_measure_each_other(tmp_path: Path) -> None:
    target = hardware.HardwareTarget(Testbed("loopback", "127.0.0.1"), Programs(Path(), ""), TIMING)
    with alone(), pytest.raises(CampaignError, match=r"^another campaign is measuring"):
        run_campaign(target, kind="micro", output=tmp_path)
    assert not (tmp_path / "micro.jsonl").exists()
    with alone():
        pass  # the one that was refused has left nothing locked


def test_a_target_measures_the_mechanisms_it_was_given_besides_what_a_profile_needs() -> None:
    testbed, programs = Testbed("loopback", "127.0.0.1"), Programs(Path(), "none")
    target = hardware.HardwareTarget(testbed, programs, TIMING, ("poll", "epoll_edge"))
    points = target.held_out(0, 20_000, quick=False)
    assert {point.server.mechanism for point in points} == {"poll", "epoll_edge"}
    benches = target.benches(0, quick=False)
    needed = bench_commands(mechanisms=())
    assert list(benches[: len(needed)]) == needed
    assert {line.split("--mechanism ")[1] for line in benches[len(needed) :]} == {"epoll_edge"}


def test_what_the_kernel_refuses_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(command: str, *_: object, **__: object) -> None:
        assert command.startswith("ring_block")
        raise RunError("micro ring_block ended with exit status 1: micro: io_uring: not allowed")

    monkeypatch.setattr(hardware, "build", lambda: Programs(Path(), "none"))
    monkeypatch.setattr(hardware, "run_bench", refuse)
    mechanisms = ("poll", "io_uring", "blocking")
    with hardware.hardware_target(steering="loopback", mechanisms=mechanisms) as target:
        points = target.held_out(0, 20_000, quick=False)
        assert {point.server.mechanism for point in points} == {"poll", "blocking"}
        assert target.notices[-1].startswith("io_uring is not measured: micro ring_block ended")
    with hardware.hardware_target(steering="loopback", mechanisms=("poll",)):
        pass  # not even tried


def test_a_bench_that_only_failed_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError("micro ring_block did not end within 120.0 s")

    monkeypatch.setattr(hardware, "build", lambda: Programs(Path(), "none"))
    monkeypatch.setattr(hardware, "run_bench", fail)
    with hardware.hardware_target(steering="loopback", mechanisms=("io_uring",)) as target:
        points = target.held_out(0, 20_000, quick=False)
        assert {point.server.mechanism for point in points} == {"io_uring"}


def test_a_round_lacks_the_rest_of_a_mechanism_that_was_begun_with() -> None:
    needed, of_edge = bench_commands(mechanisms=()), bench_commands(mechanisms=["epoll_edge"])
    assert missing_commands(micro_rounds(commands=needed)) == []
    begun = of_edge[: len(needed) + 2]
    assert missing_commands(micro_rounds(commands=begun)) == of_edge[len(begun) :] != []


def test_a_trace_is_the_same_for_the_same_seed() -> None:
    point = SMALL[1]
    first, again = (trace_to_replay(point, point.seed(0), 1.0) for _ in range(2))
    other = trace_to_replay(point, point.seed(1), 1.0)
    assert np.array_equal(first.at_ns, again.at_ns)
    assert not np.array_equal(first.at_ns, other.at_ns)


def test_the_window_decides_what_counts() -> None:
    rows = [  # intended, started, connected, done, status
        (50, 50, 60, 120, 0),  # offered before the window, replied in it
        (100, 110, 120, 150, 0),
        (190, 190, 195, 260, 0),  # offered in the window, replied after it
        (150, 160, -1, -1, 2),
        (160, 160, 170, -1, 5),
        (200, 200, 210, 220, 0),  # the end of the window is not in it
    ]
    records = Records(*np.array(rows, dtype=np.int64).T)
    result = result_of(
        records,
        Window(100, 200),
        calls={"accepts": 3, "replies": 2},
        cpu=CpuTimes(process_ns=0, busy_ns=0, softirq_ns=0),
        client_cpu_ns=0,
    )
    assert (result.offered, result.replied, result.unfinished) == (4, 2, 1)
    assert result.errors.refused == 1
    assert result.latency_ns is not None
    assert (result.latency_ns.p50, result.latency_ns.max) == (60, 70)
    assert (result.client.lag_p50_ns, result.client.lag_max_ns) == (5, 10)
