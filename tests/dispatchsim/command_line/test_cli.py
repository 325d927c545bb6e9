"""What the command line says, and with which exit code."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import Result

from dispatchsim.calibration.measure import target
from dispatchsim.calibration.profiles.choosing import EXAMPLE
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.preparation import Job, Replication
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.command_line import information


class Call(Protocol):
    def __call__(self, *arguments: object) -> Result: ...


def sentence(result: Result) -> str:
    """Return the one line that a refusal prints; nothing else may have happened."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert list(Path.cwd().iterdir()) == []
    return line.removeprefix("error: ")


WRONG = [
    ("duration", 'druation = "1 s"\nduration', "run.druation: unknown key (did you mean"),
    ('"2000/s"', "2000", 'load.rate: must be a rate such as "2000/s" (units: /h, /min, /s)'),
    ('"2000/s"', '"-2000/s"', 'load.rate: must not be negative, got "-2000/s"'),
    ('"60 ms"', '"60 days"', 'run.duration: must be a duration such as "50 ms"'),
    ("replications = 3", "replications = 0", "run.replications: must be at least 1, got 0"),
    ("[load]", "descriptors = 20\n[idle]\nconnections = 100\n[load]", "server.descriptors: must"),
    ('rate = "2000/s"', 'trace = "a.trace"', "a.trace: no such file or directory"),
    ("[server]", "[server", "is not TOML"),
]


@pytest.mark.parametrize("command", ["run", "compare", "capacity"])
@pytest.mark.parametrize(("old", "new", "rule"), WRONG)
def test_a_wrong_scenario_is_one_sentence(  # noqa: PLR0917 (fixtures and cases)
    call: Call, scenario_path: Path, profile_path: Path, command: str, old: str, new: str, rule: str
) -> None:
    if command == "capacity" and "trace" in new:
        rule = "load.rate: is missing"
    scenario_path.write_text(scenario_path.read_text().replace(old, new, 1))
    options = ["--p99", "5 ms"] if command == "capacity" else ["--output", "out"]
    result = call(command, scenario_path, "--profile", profile_path, "--workers", 1, *options)
    if "trace" in new:
        # The options of the run are said first, so that it can be repeated.
        assert result.exit_code == 2
        assert rule in result.stderr
        assert list(Path.cwd().iterdir()) == []
    else:
        assert rule in sentence(result)


def test_a_scenario_that_does_not_exist_is_told_from_an_example(call: Call) -> None:
    assert 'no such file or example (did you mean "poll_10k_idle"?)' in sentence(
        call("run", "poll_10k_idel")
    )


def test_a_profile_that_lacks_a_cost_is_named(
    call: Call, scenario_path: Path, tmp_path: Path, profile: Profile
) -> None:
    cost = {table: costs for table, costs in profile.cost.items() if table != "epoll_level"}
    path = tmp_path / "poor.toml"
    profile.model_copy(update={"cost": cost}).write(path)
    result = call("run", scenario_path, "--profile", path)
    assert result.exit_code == 2
    assert "poor.toml" in result.stderr or "made-up" in result.stderr
    assert "cost.epoll_level.call_ns" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_profile_of_another_version_is_named(
    call: Call, scenario_path: Path, profile_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "old.toml"
    path.write_text(profile_path.read_text().replace("dispatchsim-profile/1", "old/0"))
    assert 'format: must be "dispatchsim-profile/1", got "old/0"' in sentence(
        call("run", scenario_path, "--profile", path)
    )
    assert "there is no file and no profile" in sentence(
        call("run", scenario_path, "--profile", "nobody")
    )


def test_a_bound_without_unit_is_refused(call: Call, scenario_path: Path) -> None:
    assert '--p99: must be a duration such as "50 ms"' in sentence(
        call("capacity", scenario_path, "--p99", 50)
    )


def test_mechanisms_that_do_not_exist_are_refused(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    def said(names: str) -> str:
        options = ("--mechanisms", names, "--profile", profile_path)
        return sentence(call("compare", scenario_path, *options))

    assert said("poll,kq").startswith("--mechanisms: must be one of select, poll, ")
    assert said("poll,kq").endswith('got "kq"')
    assert '(did you mean "select"?), got "selct"' in said("selct")
    assert said("poll,,epoll") == (
        '--mechanisms: must have a name between commas, got "poll,,epoll"'
    )
    assert said("poll,poll") == "--mechanisms: must be one or more, each once, got poll, poll"


def test_results_do_not_mix_with_older_ones(
    call: Call, scenario_path: Path, profile_path: Path, tmp_path: Path
) -> None:
    result = call("run", scenario_path, "--profile", profile_path, "--output", tmp_path)
    assert "--output: must be a new or an empty folder" in sentence(result)


# Measurements


def test_measured_runs_of_another_version_are_refused(
    call: Call, tmp_path: Path, profile_path: Path
) -> None:
    folder = tmp_path / "machine"
    folder.mkdir()
    (folder / "heldout.jsonl").write_text('{"format": "dispatchsim-run/0"}\n')
    assert 'got "dispatchsim-run/0"' in sentence(
        call("validate", "machine", folder, "--profile", profile_path)
    )
    (folder / "machine.json").write_text('{"format": "dispatchsim-machine/0"}')
    (folder / "micro.jsonl").write_text("\n")
    (folder / "fit.jsonl").write_text('{"format": "dispatchsim-run/0"}\n')
    assert "line 1: format must be" in sentence(call("calibrate", "machine", folder))
    (folder / "fit.jsonl").write_text("\n")
    assert 'must be "dispatchsim-machine/1"' in sentence(call("calibrate", "machine", folder))


def test_a_folder_without_measurements_is_named(call: Call, tmp_path: Path) -> None:
    assert "heldout.jsonl: the file is missing or empty" in sentence(
        call("validate", "machine", tmp_path)
    )
    assert "machine.json: the file is missing or empty" in sentence(
        call("calibrate", "machine", tmp_path)
    )
    assert "must be an existing folder" in sentence(
        call("calibrate", "machine", tmp_path / "absent")
    )


def test_every_folder_has_a_profile_or_none_is_given(
    call: Call, tmp_path: Path, profile_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "heldout.jsonl").write_text('{"format": "dispatchsim-run/0"}\n')
    said = sentence(call("validate", "machine", *folders, "--profile", profile_path))
    assert "--profile: must be given once for each FOLDER or not at all, got 1 for 2" in said


def test_a_missing_compiler_is_named(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "gcc is not installed" in sentence(call("measure", "machine", "micro"))


def test_namespaces_without_root_are_refused(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "build", lambda: Programs(tmp_path, "none"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = ("--steering", "namespaces", "--output", tmp_path / "machine")
    result = call("measure", "machine", "fit", *options)
    assert result.exit_code == 2
    assert "network namespaces cannot be created: not root" in result.stderr


# Results


def test_run_begins_with_its_answer_and_warns_in_lines(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    two = ("--set", "machine.cpus=2", "--set", "server.workers=2")
    options = ("--profile", profile_path, "--workers", 1, "--cost-samples", 3, *two)
    told = call("run", scenario_path, *options)
    assert re.match(
        r"stable: [\d,]+ requests/s are served, p99 \S+ \S+ \(\S+ \S+ to \S+ \S+\); "
        r"the server's busiest CPU is \d+\.\d% busy epoll_level: stable ",
        " ".join(told.stdout.split()),
    )
    warning = "warning: capacity may be lower: contention between CPUs"
    whole = f"{warning} (locks, caches) is not modelled"
    assert whole in " ".join(told.stdout.split())
    assert "--verbose" not in told.stderr
    monkeypatch.setenv("COLUMNS", "40")  # two lines have no room for all of it
    short = call("run", scenario_path, *options)
    assert f"{warning} ..." in " ".join(short.stdout.split())
    assert "--verbose prints warnings in full" in short.stderr
    verbose = call("run", scenario_path, *options, "--verbose")
    assert whole in " ".join(verbose.stdout.split())
    assert "--verbose" not in verbose.stderr


def test_cpus_that_cannot_be_used_are_named_before_the_answer(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    one_of_two = ("--set", "machine.cpus=2", "--set", "server.workers=1")
    told = call("run", scenario_path, "--profile", profile_path, "--cost-samples", 0, *one_of_two)
    first, second, *rest = told.stdout.splitlines()
    assert first.startswith("warning: server.workers: must be at least 2 to use all CPUs")
    assert second.startswith("stable: ")
    assert not any("to use all CPUs" in line for line in rest)


def test_run_prints_json_alone(call: Call, scenario_path: Path, profile_path: Path) -> None:
    result = call(
        "run",
        scenario_path,
        "--profile",
        profile_path,
        "--workers",
        1,
        "--cost-samples",
        2,
        "--json",
    )
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["format"] == "dispatchsim-result/2"
    assert len(content["replications"]) == 5
    assert content["estimates"]["throughput_per_s"]["mean"] > 0


def test_run_keeps_every_run(call: Call, scenario_path: Path, profile_path: Path) -> None:
    options = ("--profile", profile_path, "--workers", 1, "--cost-samples", 1, "--output", "out")
    result = call("run", scenario_path, *options)
    assert result.exit_code == 0, result.output
    assert "epoll_level: stable" in result.stdout
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "epoll_level-seed-1-draw-0.json",
        "epoll_level-seed-1.json",
        "epoll_level-seed-2.json",
        "epoll_level-seed-3.json",
        "result.json",
    ]


def test_compare_starts_with_the_mechanism_of_the_scenario(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--profile", profile_path, "--workers", 1)
    content = json.loads(call("compare", scenario_path, *options, "--json").stdout)
    assert content["baseline"] == "epoll_level"
    assert list(content["differences"]) == ["select", "poll"]
    assert "differences from epoll_level" in call("compare", scenario_path, *options).stdout


def test_capacity_answers_in_words_and_in_json(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--p99", "1 ms", "--profile", profile_path, "--workers", 1, "--replications", 2)
    first = call("capacity", scenario_path, *options).stdout.splitlines()[0]
    assert first.startswith("p99 < 1 ms holds up to a load between ")
    assert " the CPU is " in first
    content = json.loads(
        call("capacity", scenario_path, *options, "--json", "--output", "a.json").stdout
    )
    assert content == json.loads(Path("a.json").read_text())
    assert content["low"] < content["high"]


def test_bounds_on_percentiles_are_kept_together(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--profile", profile_path, "--workers", 1, "--replications", 1, "--json")
    bounds = ("--p50", "90 us", "--p95", "1 ms", "--p99.9", "2 ms")
    content = json.loads(call("capacity", scenario_path, *bounds, *options).stdout)
    assert content["objective"] == "p50 < 90 µs and p95 < 1 ms and p99.9 < 2 ms"
    refused = call("capacity", scenario_path, "--p95", "5", *options)
    assert refused.exit_code == 2
    assert '--p95: must be a duration such as "50 ms"' in refused.stderr


def test_another_mechanism_may_be_asked_for(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    options = ("--profile", profile_path, "--workers", 1, "--cost-samples", 0, "--json")
    asked = call("run", scenario_path, "--mechanism", "poll", *options)
    text = scenario_path.read_text().replace('"epoll_level"', '"poll"')
    assert text != scenario_path.read_text()
    scenario_path.write_text(text)
    assert json.loads(asked.stdout) == json.loads(call("run", scenario_path, *options).stdout)
    wrong = call("run", scenario_path, "--mechanism", "pol", *options)
    assert '--mechanism: must be one of 24 names (did you mean "poll"?), got "pol"' in wrong.stderr


def test_settings_that_a_mechanism_ignores_are_told(
    call: Call, scenario_path: Path, profile_path: Path
) -> None:
    text = scenario_path.read_text().replace("[server]", "[server]\nsignal_queue = 64", 1)
    scenario_path.write_text(text)
    asked = call(
        "run", scenario_path, "--profile", profile_path, "--workers", 1, "--cost-samples", 0
    )
    assert "server.signal_queue is 64: epoll_level ignores it" in asked.stderr


def test_lists_and_the_schema_are_told(call: Call) -> None:
    told = call("mechanisms").stdout
    assert "epoll(7)" in told
    assert "engines of each: fast, reference" in told
    content = json.loads(call("mechanisms", "--json").stdout)
    assert content["poll"]["engines"] == ["fast", "reference"]
    assert [content[name]["prices"] for name in ("poll", "kqueue")] == ["measured", "lent"]
    assert "poll_10k_idle" in json.loads(call("scenarios", "--json").stdout)
    assert json.loads(call("schema").stdout)["title"] == "Scenario"
    assert call("scenarios", "--copy", "mine").exit_code == 0
    assert Path("mine/epoll_10k_idle.toml").exists()
    assert "; name a new folder" in call("scenarios", "--copy", "mine").stderr


def test_profiles_are_a_matrix_of_mechanisms_with_the_errors_of_each_machine(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    known = json.loads(call("profiles", "--json").stdout)
    measured = {name: each for name, each in known.items() if not each["reconstructed"]}
    assert 0 < len(measured) < len(known)
    assert all(each["mechanisms"]["poll"] == "measured" for each in measured.values())
    first, *_ = measured.values()
    assert (first["mechanisms"]["kqueue"], first["mechanisms"]["dev_poll"]) == ("lent", "none")
    assert set(first["errors"]) == {"capacity", "p50", "p99", "knee"}
    assert measured["counted-linux-6.1"]["errors"] is None
    assert not any("noisy" in each["machine"] for each in measured.values())

    told = call("profiles").stdout
    assert max(map(len, told.splitlines())) <= 120
    lines = [line.split() for line in told.splitlines()]
    measured_kqueue, of_papers = (words[1:] for words in lines if words[:1] == ["kqueue"])
    assert measured_kqueue == ["borrowed"] * 7
    assert of_papers.count("borrowed") == 2
    assert "(noisy)" not in told


def test_a_machine_that_was_disturbed_is_called_noisy(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_profile = information._of_profile

    def disturbed(profile: Profile) -> dict[str, Any]:
        known = of_profile(profile)
        if profile.name == EXAMPLE:
            known["machine"]["noisy"] = "other work ran beside it"
        return known

    monkeypatch.setattr(information, "_of_profile", disturbed)
    (line,) = [each for each in call("profiles").stdout.splitlines() if "(noisy)" in each]
    assert EXAMPLE in line


def test_a_fault_of_ours_keeps_its_traceback(
    call: Call, scenario_path: Path, profile_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: Job) -> Replication:
        raise ValueError("a bug")

    monkeypatch.setattr("dispatchsim.store.chunks.run_job", broken)
    result = call("run", scenario_path, "--profile", profile_path, "--workers", 1)
    assert isinstance(result.exception, ValueError)
    assert result.exit_code == 1


NAMED = "epyc-family26-2cpu-linux-6.18"


def test_an_answer_says_which_profile_it_used_and_why(
    call: Call, scenario_path: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(f'{scenario_path.read_text()}[machine]\nprofile = "{NAMED}"\n')
    for words, why in (
        ((scenario_path,), "named by DISPATCHSIM_PROFILE"),
        ((own,), "named by the scenario"),
        ((scenario_path, "--profile", NAMED), "named by --profile"),
    ):
        said = f"profile {NAMED} ({why})"
        for verb, *further in (
            ("run", "--workers", "1"),
            ("timeline", "--plot", tmp_path / "t.svg"),
            ("sweep", "--vary", "load.rate=1000/s,2000/s", "--workers", "1"),
        ):
            told = call(verb, *words, *further)
            assert told.exit_code == 0, told.output
            assert said in told.stderr
