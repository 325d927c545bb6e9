"""Without a compiler that works: one warning before the first run, one attempt, equal results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import dispatchsim as ds
from dispatchsim.calibration.running import preparation
from dispatchsim.calibration.running.preparation import effort
from dispatchsim.sim.engine.c import library
from dispatchsim.sim.engine.c.library import NoEngineWarning
from dispatchsim.sim.engine.c.run import CannotCompileError
from dispatchsim.sim.engine.workers import workers_for
from dispatchsim.sim.native import library as native_library

Call = Callable[..., Result]

SHORT = ("--set", "load.rate=1000/s", "--workers", 1)
TWO_RATES = ("--vary", "load.rate=1000/s,2000/s")
COMMANDS: dict[str, tuple[object, ...]] = {
    "run": ("--cost-samples", 1),
    "run as another tool": ("--report", "wrk2"),
    "compare": ("--mechanisms", "poll,epoll_level"),
    "compare at points": ("--mechanisms", "poll,epoll_level", *TWO_RATES, "--no-store"),
    "capacity": ("--p99", "1 ms", "--replications", 1, "--set", "run.duration=100 ms"),
    "sweep": (*TWO_RATES, "--no-store"),
    "tune": ("--vary", "server.accept_limit=0,1", "--replications", 10, "--no-store"),
    "sensitivity": ("--costs", "call.read_ns,call.close_ns", "--samples", 2),
    "steady": ("--runs", 2),
}
REASON = "CC: must name a C compiler, but there is no program /nonexistent"


@pytest.fixture(autouse=True)
def _nothing_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be there that this process, or another one, has compiled."""
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(native_library, "_loaded", {})
    for name, empty in (("_failures", {}), ("_warned", set()), ("_announced", set())):
        monkeypatch.setattr(library, name, empty)


@pytest.fixture
def scenario(scenario_path: Path) -> ds.Scenario:
    return ds.Scenario.read(scenario_path)


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which a compiler that always fails notes that it was asked to compile."""
    compiler, noted = tmp_path / "failing-cc", tmp_path / "attempts"
    compiler.write_text(
        f'#!/bin/sh\n[ "$1" = -v ] && exit 0\necho asked >> {noted}\n'
        'echo "a.c:1:1: error: no headers for 32 bits" >&2\nexit 1\n'
    )
    compiler.chmod(0o700)
    noted.touch()
    monkeypatch.setenv("CC", str(compiler))
    return noted


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_warns_once_before_its_first_run(
    call: Call,
    scenario_path: Path,
    profile_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setenv("CC", "/nonexistent")
    warned_at: list[int] = []

    def simulate(*arguments: Any, engine: str, **_: Any) -> ds.Outcome:
        if engine == "reference":
            warned_at.append(len(library._warned))
        return ds.simulate(*arguments, engine=engine)  # type: ignore[arg-type]

    monkeypatch.setattr(preparation, "simulate", simulate)
    options = ("--profile", profile_path, *SHORT, *COMMANDS[command])
    with pytest.warns(NoEngineWarning) as warned:
        result = call(command.split(maxsplit=1)[0], scenario_path, *options)
    assert result.exit_code == 0, result.stderr
    (only,) = warned
    assert "some 200 times slower" in str(only.message)
    assert REASON in str(only.message)
    assert set(warned_at) == {1}


def test_the_reference_engine_that_was_asked_for_needs_no_warning(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "/nonexistent")
    options = ("--profile", profile_path, "--cost-samples", 0)
    result = call("run", scenario_path, *options, "--engine", "reference")
    assert result.exit_code == 0
    assert "fast engine" not in result.stdout + result.stderr
    # Nor is there one for the fast engine: no run takes another one.
    result = call("run", scenario_path, *options, "--engine", "fast")
    assert result.exit_code == 2
    assert "reference engine" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith(
        f"error: there is no fast engine here: {REASON}"
    )


def test_a_compiler_that_fails_is_asked_once(
    scenario: ds.Scenario, profile: ds.Profile, attempts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(NoEngineWarning, match=r"a\.c:1:1: error: no headers for 32 bits"):
        first = ds.run(scenario, profile=profile)
    again = ds.run(scenario, profile=profile)
    assert (first.engine, again.engine) == ("reference", "reference")
    assert attempts.read_text() == "asked\n"
    assert capsys.readouterr().err.count("compiling the fast engine for") == 1
    with pytest.raises(CannotCompileError, match="no headers for 32 bits"):
        ds.run(scenario, profile=profile, engine="fast")
    assert attempts.read_text() == "asked\n"


def test_worker_processes_do_not_ask_it_again(
    scenario: ds.Scenario, profile: ds.Profile, attempts: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(NoEngineWarning):
        ds.run(scenario, profile=profile)
    capfd.readouterr()
    with workers_for("auto", 1 + 1) as executor:
        assert ds.run(scenario, profile=profile, executor=executor).engine == "reference"
    assert attempts.read_text() == "asked\n"
    assert capfd.readouterr().err == ""


def test_a_run_without_a_compiler_is_expected_to_take_as_long_as_the_reference(
    scenario: ds.Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = effort(scenario)
    monkeypatch.setenv("CC", "/nonexistent")
    slow = effort(scenario)
    assert fast is not None
    assert slow is not None
    assert slow[1] == pytest.approx(20 * fast[1])
