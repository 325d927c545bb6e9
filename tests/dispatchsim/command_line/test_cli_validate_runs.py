"""Commands on observed runs: a server's profile, its scenario, its report, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from dispatchsim.calibration.points.point import point_at
from dispatchsim.command_line.observed import profile_of_runs

sys.path.append(str(Path(__file__).parents[3]))

from tests.validation.synthetic_observed import MACHINE, observed, with_application
from tests.validation.synthetic_runs import toy_profile

from dispatchsim.calibration.observed.observed_run import ObservedRun
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import append
from dispatchsim.command_line import calibrate as cli_calibrate
from dispatchsim.command_line import validate as cli_validate
from dispatchsim.scenario.scenario import Scenario

Call = Callable[..., Result]
POINT = point_at(mechanism="epoll_level", users=32, accept_limit=1)


@pytest.fixture(autouse=True)
def _compiled_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cli_validate, cli_calibrate):
        monkeypatch.setattr(module, "compile_engines", lambda *_, **__: None)


@pytest.fixture(scope="module")
def runs() -> list[ObservedRun]:
    """Return runs of a server that keeps its connections or not."""
    truth = with_application(toy_profile(), 12_000, 20_000)
    points = (POINT, point_at(POINT, requests=20))
    return [observed(point, truth, repeat=k) for point in points for k in range(2)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[ObservedRun]) -> Path:
    """Return a folder, the current one, with a machine's profile and a folder of runs."""
    monkeypatch.chdir(tmp_path)
    with_application(toy_profile(), 0, 0).write(tmp_path / "machine.toml")
    (tmp_path / "mine").mkdir()
    append(tmp_path / "mine" / "runs.jsonl", *runs)
    return tmp_path


def said(result: Result) -> str:
    assert result.exit_code == 2, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    return lines[0]


def changed(run: ObservedRun, part: str, **update: object) -> ObservedRun:
    return run.model_copy(update={part: getattr(run, part).model_copy(update=update)})


def test_a_planner_goes_from_runs_to_a_scenario_and_a_report(call: Call, files: Path) -> None:
    made = call(
        "calibrate",
        "server",
        "mine",
        "--profile",
        "machine.toml",
        "--scenario",
        "mine.scenario.toml",
    )
    assert made.exit_code == 0, made.output
    assert "a request" in made.stdout
    assert "95% interval" in made.stdout
    assert "The most useful next run: " in made.stdout
    assert "dispatchsim capacity mine.scenario.toml" in made.stdout
    profile = Profile.read(files / "toy-server.toml")
    assert profile.cost["application"]["request_ns"].value[0] == pytest.approx(12_000, rel=0.03)
    assert profile.machine["server"] == "toy-server --port 8080"
    scenario = Scenario.read(files / "mine.scenario.toml")
    assert scenario.server.accept_limit == 1
    assert scenario.machine.profile == str(files / "toy-server.toml")
    report = call(
        "validate", "server", "mine", "--profile", "toy-server.toml", "--cost-samples", "0",
        "--workers", "1",
    )  # fmt: skip
    assert report.exit_code == 0, report.output
    assert "epoll_level*" in report.stdout
    assert (files / "report" / "scores.json").is_file()


def test_what_nobody_saw_is_left_out_of_a_report(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    unseen = {"busy_share": None, "process_ns": None, "latency_ns": None}
    append(files / "unseen.jsonl", *(run.model_copy(update=unseen) for run in runs))
    report = call(
        "validate", "server", "unseen.jsonl", "--profile", "machine.toml", "--cost-samples", "0",
        "--workers", "1",
    )  # fmt: skip
    assert report.exit_code == 0, report.output
    scores = json.loads((files / "report" / "scores.json").read_text())
    assert {point["errors"]["cpu"] for point in scores["observed"][0]["points"]} == {None}
    assert (files / "report" / "report.html").is_file()


def test_a_scenario_has_the_thread_that_accepts_for_the_others(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    handed = changed(runs[0], "server", share="handed over", reads_after_accept=None)
    append(files / "handed.jsonl", handed)
    made = call(
        "calibrate",
        "server",
        "handed.jsonl",
        "--profile",
        "machine.toml",
        "--scenario",
        "x.scenario.toml",
    )
    assert made.exit_code == 0, made.output
    server = Scenario.read(files / "x.scenario.toml").server
    assert (server.workers, server.share) == (2, "handed over")
    assert "--reads-after-accept" not in made.stderr  # the thread that accepts does not read


def test_what_is_taken_for_granted_of_several_workers_is_said(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    append(files / "two.jsonl", changed(runs[0], "server", workers=2))
    made = call("calibrate", "server", "two.jsonl", "--profile", "machine.toml")
    assert made.exit_code == 0, made.output
    assert "one accept queue for all workers is assumed" in " ".join(made.stderr.split())


def test_without_a_file_for_it_the_scenario_is_printed(call: Call, files: Path) -> None:
    made = call(
        "calibrate", "server", "mine/runs.jsonl", "--profile", "machine.toml", "--name", "mine"
    )
    assert made.exit_code == 0, made.output
    assert (files / "mine.toml").is_file()
    assert 'profile = "mine.toml"' in made.stdout
    assert not list(files.glob("*scenario*"))


def test_what_imported_runs_do_not_say_is_asked_for_by_name(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    silent = changed(runs[0], "server", mechanism=None, accept_limit=None)
    append(files / "imported.jsonl", silent)
    asked = said(call("calibrate", "server", "imported.jsonl", "--profile", "machine.toml"))
    assert "--mechanism: must be given, as 1 of 1 runs lack it" in asked
    made = call(
        "calibrate",
        "server",
        "imported.jsonl",
        "--profile",
        "machine.toml",
        "--mechanism",
        "epoll_level",
    )
    assert made.exit_code == 0, made.output
    assert "--accept-limit: 0 (all that wait) is assumed" in " ".join(made.stderr.split())
    assert "which now includes it" in made.stdout


def test_runs_of_another_machine_are_refused_unless_they_are_wanted(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    append(files / "far.jsonl", changed(runs[0], "source", machine="vax-1cpu"))
    for command in (
        ("calibrate", "server", "far.jsonl", "--profile", "machine.toml"),
        ("validate", "server", "far.jsonl", "--profile", "machine.toml"),
    ):
        refused = said(call(*command))
        assert f'was measured on {MACHINE}, but runs are of "vax-1cpu"' in refused
    made = call("calibrate", "server", "far.jsonl", "--profile", "machine.toml", "--anyway")
    assert made.exit_code == 0, made.output
    assert "are used with the costs of" in made.stderr


def test_several_servers_are_not_fitted_as_one(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    append(files / "both.jsonl", *runs, changed(runs[0], "server", command="other", name="other"))
    both = ("calibrate", "server", "both.jsonl", "--profile", "machine.toml")
    refused = said(call(*both))
    assert 'runs must be of one server, got 2: "toy-server --port 8080", "other"' in refused
    refused = said(call(*both, "--server", "x9"))
    assert "--server: must be a part of" in refused


def test_a_profile_is_found_by_the_machine_of_the_runs(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    assert f"no shipped profile is of {MACHINE}" in said(call("calibrate", "server", "mine"))
    append(files / "nowhere.jsonl", changed(runs[0], "source", machine=""))
    refused = said(call("calibrate", "server", "nowhere.jsonl"))
    assert "--profile: must be given, as the runs do not record their machine" in refused
    older = "epyc-family26-2cpu-linux-6.18"
    for machine in (older, older.replace("-2cpu", "-model2-2cpu")):
        assert profile_of_runs([changed(runs[0], "source", machine=machine)]).name == older


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("wrk prints\n", "`dispatchsim import` makes one from the output of other tools"),
        ('{"format": "dispatchsim-observed/9"}\n', 'format must be "dispatchsim-observed/1", got'),
        ('{"format": "somebody\'s"}\n', "line 1: is no run of `dispatchsim measure server` or"),
        ('{"format": "dispatchsim-obs', "must hold at least one whole run, got none"),
    ],
)
def test_a_file_that_holds_no_runs_is_refused(
    call: Call, files: Path, content: str, rule: str
) -> None:
    (files / "bad.jsonl").write_text(content)
    assert rule in said(call("calibrate", "server", "bad.jsonl", "--profile", "machine.toml"))
    assert rule in said(call("validate", "server", "bad.jsonl", "--profile", "machine.toml"))


def test_a_line_that_was_cut_is_ignored_with_a_note(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    path = files / "mine" / "runs.jsonl"
    path.write_text(path.read_text() + runs[0].model_dump_json()[:200])
    made = call("calibrate", "server", "mine", "--profile", "machine.toml")
    assert made.exit_code == 0, made.output
    assert "line 5: torn by an interrupted write, ignored" in made.stderr


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        (
            ("calibrate", "machine", "absent"),
            "FOLDER: must be an existing folder with measured runs",
        ),
        (("calibrate", "server", "mine", "absent"), "absent: must be a file or folder of runs"),
        (("calibrate", "machine"), "FOLDER: must be given, as in `dispatchsim calibrate machine"),
        (("validate", "machine"), "FOLDER: must be given"),
        (("validate", "server", "mine"), "--profile: must be given, as in `dispatchsim validate"),
    ],
)
def test_what_is_missing_is_named(
    call: Call, files: Path, command: tuple[str, ...], rule: str
) -> None:
    assert rule in said(call(*command))


def test_a_mechanism_that_nobody_knows_is_refused_by_name(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    append(files / "later.jsonl", changed(runs[0], "server", mechanism="epol_level"))
    for command in ("calibrate", "validate"):
        refused = said(call(command, "server", "later.jsonl", "--profile", "machine.toml"))
        assert refused.startswith("error: server.mechanism: must be one of ")
        assert 'got "epol_level"' in refused


def test_a_profile_without_prices_of_the_mechanism_is_refused(
    call: Call, files: Path, runs: list[ObservedRun]
) -> None:
    append(files / "kqueue.jsonl", changed(runs[0], "server", mechanism="kqueue"))
    refused = said(call("calibrate", "server", "kqueue.jsonl", "--profile", "machine.toml"))
    assert "must be present for a server that waits with kqueue" in refused
    refused = said(call("validate", "server", "kqueue.jsonl", "--profile", "machine.toml"))
    assert "must be given to forecast kqueue" in refused
