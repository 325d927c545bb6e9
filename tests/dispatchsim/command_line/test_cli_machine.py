"""What the commands for a machine of one's own say, and with which exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.points.points import FIT_POINT

sys.path.append(str(Path(__file__).parents[3]))

from tests.validation.emulated_runs import emulated_run
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.emulated import target as emulated
from dispatchsim.calibration.emulated.kernel_build import UnfinishedBuild
from dispatchsim.calibration.measure import target
from dispatchsim.calibration.measure.microbenchmarks import bench_commands
from dispatchsim.calibration.profiles.cost_profile import shipped_profiles
from dispatchsim.calibration.records.measured_runs import MicroResult, append
from dispatchsim.command_line import calibrate as cli_calibrate
from dispatchsim.command_line import validate as cli_validate
from dispatchsim.validation.report import report

Call = Callable[..., Result]
HELD_OUT = point_at(mechanism="poll", idle=200, users=8)


@pytest.mark.parametrize("kind", ["hardware", "emulated"])
def test_the_folder_of_another_machine_is_refused_before_anything_is_built(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "machine.json").write_text('{"id": "vax-1cpu"}')
    monkeypatch.setattr(target, "build", pytest.fail)
    monkeypatch.setattr(emulated, "kernel", pytest.fail)
    result = call("measure", "machine", "--target", kind, "--output", tmp_path)
    assert result.exit_code == 2
    assert 'machine.json: field id is "vax-1cpu", this machine is "' in result.stderr
    assert "choose another folder" in result.stderr


def test_ctrl_c_during_the_build_of_a_kernel_says_what_becomes_of_it(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_progress: object) -> None:
        raise UnfinishedBuild("the kernel was not finished: the next run begins it anew")

    monkeypatch.setattr(emulated, "emulated_target", stopped)
    result = call("measure", "machine", "--target", "emulated", "--output", "counted")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == (
        "stopped; the kernel was not finished: the next run begins it anew"
    )


def write_folder(folder: Path, *, n_benches: int) -> None:
    """Write what a campaign leaves that was ended after so many microbenchmarks."""
    folder.mkdir()
    (folder / "machine.json").write_text('{"format": "dispatchsim-machine/1", "id": "toy"}')
    append(
        folder / "micro.jsonl",
        *(
            MicroResult(
                date="2025-11-20",
                code="c",
                bench=command.split()[0],
                command=command,
                parameters={},
                round=0,
                unit="ns",
                median=1,
                p10=1,
                p90=1,
                operations=1,
            )
            for command in bench_commands(mechanisms=())[:n_benches]
        ),
    )
    append(folder / "fit.jsonl", synthetic_run(FIT_POINT, toy_profile()))


def test_a_round_that_is_not_whole_is_no_profile_and_says_what_to_do(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_calibrate, "compile_engines", lambda *_, **__: None)
    n_all = len(bench_commands(mechanisms=()))
    write_folder(tmp_path / "part", n_benches=5)
    result = call("calibrate", "machine", tmp_path / "part")
    assert result.exit_code == 2
    assert "micro.jsonl: " in result.stderr
    assert f"the round is incomplete: {n_all - 5} of its microbenchmarks are" in result.stderr
    assert "the same `dispatchsim measure machine` command resumes" in result.stderr
    write_folder(tmp_path / "whole", n_benches=n_all)
    result = call("calibrate", "machine", tmp_path / "whole")
    assert result.exit_code == 2
    assert "micro.jsonl: " in result.stderr
    assert "incomplete" not in result.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("flood", "--target", "emulated"), "it belongs to `dispatchsim measure machine`"),
        (("flood", "--steering", "namespaces"), "--steering: must be absent here; it belongs to"),
        (("flood", "--mechanisms", "poll"), "it belongs to `dispatchsim measure machine`"),
        (("overload", "--steering", "loopback"), "must be one of namespaces, client_machine"),
    ],
)
def test_floods_and_overload_are_of_hardware_in_namespaces(
    call: Call, command: tuple[str, ...], message: str
) -> None:
    result = call("measure", *command)
    assert result.exit_code == 2
    assert message in result.stderr


def test_floods_of_another_machine_are_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "machine.json").write_text('{"id": "vax-1cpu"}')
    result = call("measure", "flood", "--output", tmp_path)
    assert result.exit_code == 2
    assert 'machine.json: field id is "vax-1cpu", this machine is "' in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mechanisms", "poll,signalfs"), '(did you mean "signalfd"?), got "signalfs"'),
        (("--mechanisms", "dev_poll"), "--mechanisms: must be one of select, poll, epoll_level,"),
        (("--mechanisms", ""), 'got ""'),
        (("--within", "300%"), "--within: must be a share such as 10% or 0.1, got 300%"),
        (
            ("--mechanisms", "poll", "--target", "emulated"),
            "--mechanisms: must be absent for an emulated target, got poll",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_built(
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.setattr(target, "build", pytest.fail)
    monkeypatch.setattr(emulated, "kernel", pytest.fail)
    result = call("measure", "machine", "--output", tmp_path, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize("kinds", ["hardware emulated", "emulated", "hardware"])
def test_ctrl_c_says_where_forecasts_are_kept(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: str
) -> None:
    def interrupted(_machines: object, output: Path, **_: object) -> None:
        output.mkdir()
        (output / "simulated.jsonl").write_text("{}\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_validate, "compile_engines", lambda *_, **__: None)
    monkeypatch.setattr(report, "validate", interrupted)
    toy_profile().write(tmp_path / "toy.toml")
    makers = {"hardware": synthetic_run, "emulated": emulated_run}
    options: list[object] = []
    for kind in kinds.split():
        (tmp_path / kind).mkdir()
        append(tmp_path / kind / "heldout.jsonl", makers[kind](HELD_OUT, toy_profile()))
        options += [tmp_path / kind, "--profile", tmp_path / "toy.toml"]
    result = call("validate", "machine", *options)
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "stopped; finished work is in report"


@pytest.mark.parametrize(
    ("words", "exit_code", "shown"),
    [
        ("", 0, "poll idle 200 closed 8   (1 run)"),
        ("closed 8", 0, "CPU time of a request, µs"),
        ("closed 9", 2, 'error: POINT: no label has the words "closed 9" in this order'),
    ],
)
def test_a_point_is_listed_shown_or_not_found(
    call: Call, tmp_path: Path, words: str, exit_code: int, shown: str
) -> None:
    append(tmp_path / "heldout.jsonl", synthetic_run(HELD_OUT, toy_profile()))
    toy_profile().write(tmp_path / "toy.toml")
    result = call(
        *("validate", "point", tmp_path, *filter(None, [words])),
        *("--profile", tmp_path / "toy.toml", "--cost-samples", 0),
    )
    assert result.exit_code == exit_code
    assert shown in result.stdout + result.stderr


def test_a_profile_in_the_current_folder_that_hides_a_shipped_one_is_named(
    call: Call, tmp_path: Path
) -> None:
    name = next(iter(shipped_profiles()))
    (tmp_path / name).mkdir()
    append(tmp_path / name / "heldout.jsonl", synthetic_run(HELD_OUT, toy_profile()))
    toy_profile().write(Path(f"{name}.toml"))
    result = call("validate", "point", tmp_path / name, "closed 8", "--cost-samples", 0)
    noted = " ".join(result.stderr.split())
    assert f"profile: {name}.toml of the current folder, not the shipped profile" in noted
    assert f"profile {name}.toml" in result.stdout
    # Named, the shipped one is taken.
    result = call(
        *("validate", "point", tmp_path / name, "closed 8", "--cost-samples", 0),
        *("--profile", name),
    )
    assert "of the current folder" not in result.stderr
    assert f"profile {name}\n" in result.stdout


def test_a_point_of_the_emulated_target_is_refused(call: Call, tmp_path: Path) -> None:
    append(tmp_path / "heldout.jsonl", emulated_run(HELD_OUT, toy_profile()))
    toy_profile().write(tmp_path / "toy.toml")
    result = call("validate", "point", tmp_path, "8", "--profile", tmp_path / "toy.toml")
    assert result.exit_code == 2
    assert "must hold runs on hardware, got the emulated target's" in result.stderr


def test_the_folder_above_those_with_results_names_them(call: Call, tmp_path: Path) -> None:
    for name in ("mine", "another"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "heldout.jsonl", synthetic_run(HELD_OUT, toy_profile()))
    result = call("validate", "point", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} has such files in its folders: another, mine" in " ".join(
        result.stderr.split()
    )
