"""Ctrl-C: soon, without a traceback, and with what there is to show."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import dispatchsim as ds
from dispatchsim.calibration.running.preparation import Job, Replication, run_job
from dispatchsim.models.simulate import InterruptedRun

Call = Callable[..., Result]

PATIENCE_S = 60  # for what should take a second


def test_an_interrupt_leaves_finished_runs(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(job: Job) -> Replication:
        if job.seed == 3:
            raise KeyboardInterrupt
        return run_job(job)

    monkeypatch.setattr("dispatchsim.store.chunks.run_job", interrupted)
    options: list[Any] = ["--profile", profile_path, "--workers", 1]
    result = call("run", scenario_path, *options, "--output", "out")
    assert result.exit_code == 130
    assert "stopped; finished work is in out" in result.stderr
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "epoll_level-seed-1.json",
        "epoll_level-seed-2.json",
    ]
    assert "nothing was kept" in call("run", scenario_path, *options).stderr


def test_ctrl_c_stops_processes_too(
    tmp_path: Path, scenario_path: Path, profile_path: Path
) -> None:
    text = scenario_path.read_text().replace('"60 ms"', '"3 s"').replace("= 3", "= 900")
    scenario_path.write_text(text)
    arguments = ["run", scenario_path, "--profile", profile_path, "--workers", 2, "--output", "o"]
    running = subprocess.Popen(
        [sys.executable, "-m", "dispatchsim", *map(str, arguments)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until_s = time.monotonic() + 30
    while not list(tmp_path.glob("o/*.json")) and time.monotonic() < until_s:
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, stderr = running.communicate(timeout=30)
    assert running.returncode == 130
    assert stderr.splitlines()[-1] == "stopped; finished work is in o"
    assert "Traceback" not in stderr
    for path in tmp_path.glob("o/*"):
        json.loads(path.read_text())


def stopping(monkeypatch: pytest.MonkeyPatch, at_ns: int) -> None:
    """Have every run stopped at that time, as Ctrl-C in the fast engine does."""

    def simulate(mechanism: Any, trace: Any, costs: Any, settings: Any, **options: Any) -> None:
        warm_up_ns = min(settings.warm_up_ns, at_ns - 1)
        short = settings._replace(duration_ns=at_ns, warm_up_ns=warm_up_ns)
        raise InterruptedRun(ds.simulate(mechanism, trace, costs, short, **options))

    monkeypatch.setattr("dispatchsim.calibration.running.preparation.simulate", simulate)


def test_a_first_run_that_is_stopped_shows_how_far_it_came(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping(monkeypatch, 40_000_000)
    options = ("--profile", profile_path, "--workers", 1)
    result = call("run", scenario_path, *options)
    assert result.exit_code == 130
    assert "PARTIAL" in result.stdout
    assert "stopped at 40.0 ms of 60.0 ms of simulated time" in result.stdout
    assert "replies per second" in result.stdout
    assert "stopped; nothing was kept" in result.stderr
    content = json.loads(call("run", scenario_path, *options, "--json").stdout)
    assert content["format"] == "dispatchsim-part/2"
    assert content["stopped_ns"] == 40_000_000
    assert content["replication"]["summary"]["window_ns"] == 30_000_000


def test_a_run_that_is_stopped_in_its_warm_up_has_no_figures(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping(monkeypatch, 10_000_000)
    result = call("run", scenario_path, "--profile", profile_path, "--workers", 1)
    assert result.exit_code == 130
    assert "before anything was measured" in result.stdout
    assert "replies per second" not in result.stdout


def test_a_later_run_that_is_stopped_shows_no_part_of_it(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(job: Job) -> Replication:
        if job.seed == 2:
            stopping(monkeypatch, 40_000_000)
        return run_job(job)

    monkeypatch.setattr("dispatchsim.store.chunks.run_job", interrupted)
    options = ("--profile", profile_path, "--workers", 1, "--output", "out")
    result = call("run", scenario_path, *options)
    assert result.exit_code == 130
    assert result.stdout == ""
    assert "finished work is in out" in result.stderr
    assert [path.name for path in Path("out").iterdir()] == ["epoll_level-seed-1.json"]


def test_an_interrupt_that_a_library_took_for_an_error_is_one(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrapped(job: Job) -> Replication:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ValueError("serialization failed") from error
        return run_job(job)

    handler = signal.getsignal(signal.SIGINT)
    options = ("--profile", profile_path, "--workers", 1)
    with monkeypatch.context() as patched:
        patched.setattr("dispatchsim.store.chunks.run_job", wrapped)
        result = call("run", scenario_path, *options)
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("stopped; nothing was kept")
    assert signal.getsignal(signal.SIGINT) is handler
    # It is forgotten by the next command.
    assert call("run", scenario_path, *options).exit_code == 0


def test_an_interrupt_in_what_is_not_python_is_one(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Job] = []
    interrupted_s: list[float] = []

    def loading(job: Job) -> Replication:
        # Its exception has nowhere to go: Python drops it.
        interrupt = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
        if not asked:
            interrupted_s.append(time.monotonic())
            interrupt()
        asked.append(job)
        time.sleep(PATIENCE_S)
        return run_job(job)

    monkeypatch.setattr("dispatchsim.store.chunks.run_job", loading)
    hook = sys.unraisablehook
    result = call("run", scenario_path, "--profile", profile_path, "--workers", 1)
    # It does not wait for the end of the sleep.
    assert time.monotonic() - interrupted_s[0] < PATIENCE_S / 3
    assert len(asked) == 1
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1].startswith("stopped; nothing was kept")
    assert sys.unraisablehook is hook


def stopped_at(command: list[str], said: str, delay_s: float, folder: Path) -> str:
    """Return what *command* says if it gets Ctrl-C so long after it has *said* something."""
    running = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert running.stderr is not None
    lines = []
    try:
        for line in running.stderr:
            lines.append(line)
            if said in line:
                break
        time.sleep(delay_s)
        os.killpg(running.pid, signal.SIGINT)
        _, rest = running.communicate(timeout=PATIENCE_S)
    except BaseException:
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        raise
    stderr = "".join([*lines, rest])
    assert running.returncode == 130, (running.returncode, stderr)
    assert "Traceback" not in stderr
    return stderr


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("delay_s", [0.0, 0.2, 0.5, 1.0])
def test_ctrl_c_at_any_time_is_quiet(
    tmp_path: Path, scenario_path: Path, profile_path: Path, workers: int, delay_s: float
) -> None:
    text = scenario_path.read_text().replace('"60 ms"', '"2000 s"').replace("= 3", "= 900")
    scenario_path.write_text(text)
    options = ["--profile", str(profile_path), "--workers", str(workers)]
    command = ["-m", "dispatchsim", "run", str(scenario_path), *options]
    stderr = stopped_at(command, "profile made-up", delay_s, tmp_path)
    assert stderr.splitlines()[-1].startswith("stopped")


def test_ctrl_c_while_a_dataclass_is_made_keeps_the_exit_status(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text("""
from dispatchsim import __main__
from dispatchsim.command_line import app

def interrupted():
    try:
        exec("raise KeyboardInterrupt")  # as dataclasses do while they make a class
    except KeyboardInterrupt:
        raise SystemExit(130) from None

app.app = interrupted
__main__.main()
""")
    command = [sys.executable, "-m", "interrupted"]
    ended = subprocess.run(command, check=False, cwd=tmp_path, timeout=PATIENCE_S)
    assert ended.returncode == 130


def test_ctrl_c_is_quiet_before_anything_has_begun(tmp_path: Path, scenario_path: Path) -> None:
    # Python says what it imports, so that the moment is known.
    command = ["-X", "importtime", "-m", "dispatchsim", "run", str(scenario_path)]
    stderr = stopped_at(command, "numpy.version", 0.0, tmp_path)
    assert stderr.splitlines()[-1].endswith("stopped")
