"""The README's questions: each command is executed, at a small setting."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from docs.making.commands import check_command, commands_in
from tests.made_up_profile import Call

import dispatchsim as ds
from dispatchsim.scenario.examples import scenario_path

_README = Path(__file__).parents[3] / "README.md"
_VERBS = {
    "run",
    "compare",
    "sweep",
    "capacity",
    "tune",
    "sensitivity",
    "forecast",
    "results",
    "steady",
}
_SMALLER = {
    "run": ["--draws", "1"],
    "capacity": ["--replications", "2"],
    "sensitivity": ["--samples", "2", "--costs", "poll.scan,poll.register"],
    "tune": ["--replications", "10"],
    "forecast": ["--draws", "3"],
    "steady": ["--runs", "2"],
}


def questions() -> list[str]:
    """Return the commands in the README's section of questions."""
    text = _README.read_text()
    section = text[text.index("\n## Questions\n") :]
    section = section[: section.index("\n## ", 5)]
    return re.findall(r"^    (dispatchsim .*)$", section, flags=re.M)


def block_shown(command: str) -> str:
    """Return what the README shows below a command; "" if nothing."""
    after = _README.read_text().split(f"    {command}\n", 1)[1]
    return after.split("```")[1].removeprefix("text") if after.startswith("\n```text\n") else ""


def heads_shown(command: str) -> list[str]:
    """Return the heads of the columns that the README shows for a command."""
    lines = block_shown(command).strip().splitlines()
    rule = next((i for i, line in enumerate(lines) if line.startswith("──")), 0)
    # The first line is the title, but where the rule is the second.
    rows = lines[min(1, rule - 1) : rule]
    return [cell for row in rows for cell in re.split(r"\s{2,}", row.strip()) if cell]


@pytest.fixture(autouse=True)
def _default_is_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take another profile than the README's where a command or a scenario names none."""
    monkeypatch.setenv("DISPATCHSIM_PROFILE", "epyc-family25-2cpu-linux-6.18")


def test_there_is_a_question_for_every_verb() -> None:
    assert {shlex.split(command)[1] for command in questions()} == _VERBS


@pytest.fixture(scope="module")
def small_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the scenario of the README's questions, of a short run."""
    run = {"duration": "300 ms", "warm_up": "50 ms", "replications": 2}
    scenario = ds.Scenario.read(scenario_path("poll_10k_idle")).with_values(run=run)
    path = tmp_path_factory.mktemp("scenarios") / "short.toml"
    path.write_text(
        "".join(
            f"[{section}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())
            for section, keys in scenario.to_dict().items()
            if isinstance(keys, dict)
        )
    )
    return path


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


@pytest.mark.parametrize("command", sorted(set(commands_in(_README.read_text()))))
def test_each_command_of_the_readme_parses(command: str) -> None:
    of_any_scenario = command in ("dispatchsim run", "dispatchsim run --report httperf")
    check_command([*shlex.split(command), *(["poll_10k_idle"] if of_any_scenario else [])])


def test_each_question_has_an_answer(call: Call, small_path: Path) -> None:
    for command in questions():
        _, verb, *arguments = shlex.split(command)
        words = [str(small_path) if word == "poll_10k_idle" else word for word in arguments]
        words = [re.sub(r"p99 < \d+ ms", "p99 < 20 ms", word) for word in words]
        words = ["20 ms" if word == "50 ms" else word for word in words]
        smaller = _SMALLER.get(verb, [])
        workers = [] if verb == "results" else ["--workers", "1"]
        result = call(verb, *words, *smaller, *workers)
        assert result.exit_code == 0, f"{command}: {result.output}"
        assert result.stdout.strip(), command
        for head in heads_shown(command):
            assert head in result.stdout, f"{command}: no column {head}"


@pytest.mark.parametrize("command", [each for each in questions() if block_shown(each)])
def test_the_readme_shows_what_each_question_prints(
    call: Call, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    result = call(*shlex.split(command)[1:])
    assert result.stdout.split() == block_shown(command).split()


def test_the_readme_answers_the_planners_question_with_two_commands(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    text = _README.read_text()
    section = text[text.index("### You plan capacity\n") :]
    (name,) = re.findall(r"^    export DISPATCHSIM_PROFILE=(\S+)", text, flags=re.M)
    monkeypatch.setenv("DISPATCHSIM_PROFILE", name)
    new, capacity = re.findall(r"^    (dispatchsim .*)$", section, flags=re.M)[:2]
    assert call(*shlex.split(new)[1:]).exit_code == 0
    result = call(*shlex.split(capacity)[1:], "--no-store")
    assert result.stdout.split() == block_shown(capacity).split()
