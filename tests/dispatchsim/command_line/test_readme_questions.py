"""The README shows what its commands print; a command of each kind on the pages runs, too."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from docs.making.commands import check_command, commands_in
from tests.made_up_profile import Call

import dispatchsim as ds
from dispatchsim.calibration.records.measured_runs import RunRecord, read_rows
from dispatchsim.scenario.examples import scenario_path

_REPOSITORY = Path(__file__).parents[3]
_README = (_REPOSITORY / "README.md").read_text()
_LINES_MAX = 170
_VERBS = ("run", "compare", "sweep", "capacity", "tune", "sensitivity", "forecast", "steady")
_SMALLER = {
    "run": ["--set", "load.timeout=1s"],
    "capacity": ["--replications", "2"],
    "sensitivity": ["--samples", "2"],
    "tune": ["--replications", "10"],
    "forecast": [],
    "steady": ["--runs", "2"],
}
_NOT_RESULTS = {
    "3.11": "the oldest Python",
    "0.8": "GB of packages that `make demo` installs",
    "8": "KB a reply",
    "10": "Gb/s",
    "64": "aarch64 and x86-64 in words",
    "86": "x86-64",
    "90": "minutes of a campaign at most",
    "24": "mechanisms in the catalogue, counted below",
    "3": "3 times too low, in words on how errors are written",
    "9": "percent, the end of a range of errors: compared below",
    "6": "servers of family 26: compared below",
    "5": "loads of family 26: compared below",
    "36": "percent of the Xeon's runs: compared below",
    "122": "loads of the Xeon with at most one run: compared below",
    "223": "loads of the Xeon: compared below",
    "1,000": "idle connections of the picture, compared below",
    "2": "ms of the picture, compared below",
}
"""Numbers in the README's sentences that no command prints, and what they are."""


def blocks(language: str) -> list[str]:
    """Return the README's fenced blocks of *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```", _README, flags=re.M | re.S)


def commands_of_pages() -> dict[str, str]:
    """Return the first executed command of the pages for each verb, of the scenario of all."""
    found: dict[str, str] = {}
    for page in sorted((_REPOSITORY / "docs" / "how-to").glob("*.md")):
        for options, command in re.findall(
            r"^```\{command\}\n((?::.*\n)*)(dispatchsim .*)$", page.read_text(), flags=re.M
        ):
            verb, *words = shlex.split(command)[1:]
            is_run = ":takes:" not in options and ":refused:" not in options
            if is_run and "poll_10k_idle" in words and "--report" not in words:
                found.setdefault(verb, command)
    return found


@pytest.fixture(autouse=True)
def _default_is_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take another profile than the README's where a command or a scenario names none."""
    monkeypatch.setenv("DISPATCHSIM_PROFILE", "epyc-family25-2cpu-linux-6.18")


def test_the_readme_is_short() -> None:
    assert len(_README.splitlines()) <= _LINES_MAX


@pytest.mark.parametrize("command", sorted(set(commands_in(_README))))
def test_each_command_of_the_readme_parses(command: str) -> None:
    check_command(shlex.split(command))


def test_the_readme_shows_the_scenario_and_the_capacity_that_its_commands_print(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    (name,) = re.findall(r"^    export DISPATCHSIM_PROFILE=(\S+)", _README, flags=re.M)
    monkeypatch.setenv("DISPATCHSIM_PROFILE", name)
    new, capacity = (
        shlex.split(line)[1:]
        for line in re.findall(r"^    (dispatchsim (?:new|capacity) .*)$", _README, flags=re.M)
    )
    assert call(*new).exit_code == 0
    assert blocks("toml") == [Path("hub.toml").read_text()]
    result = call(*capacity, "--no-store")
    assert [block.split() for block in blocks("text")] == [result.stdout.split()]


def test_each_number_in_a_sentence_is_printed_or_named() -> None:
    """Numbers in sentences stand in a block that is compared, in the table, or in a list here."""
    checked = " ".join([*blocks("toml"), *blocks("text"), *re.findall(r"^    .*$", _README, re.M)])
    table = _README[_README.index("<!-- errors") : _README.index("<!-- end of errors -->")]
    without = r"(?s:^```.*?^```)|^    .*$|`[^`\n]*`|\([^)\s]*\)"
    text = re.sub(without, "", _README.replace(table, ""), flags=re.M)
    assert "Only servers on one CPU were validated" in text  # the whole page is checked
    numbers = re.findall(r"\d[\d,.]*(?<![,.])", text)
    known = set(re.findall(r"\d[\d,.]*(?<![,.])", checked.replace("_", ",") + table))
    assert [n for n in numbers if n not in known and n not in _NOT_RESULTS] == []


def test_the_numbers_that_no_command_prints_are_true() -> None:
    from docs.making import timelines
    from docs.making.accuracy import TRUST, TRUSTED, errors_of, scores

    from dispatchsim.models.catalogue import CATALOGUE

    assert f"Modelled: {len(CATALOGUE)} ways" in _README
    assert f"each with {timelines.IDLE:,} idle connections, get the same" in _README
    assert f"new connections for {timelines.LENGTH}. " in _README
    machines = [errors_of(each) for each in scores()["hardware"] if each["name"] in TRUSTED]
    throughput, knee = (
        sorted(abs(errors[TRUST[row]].median) for errors in machines)
        for row in ("throughput of a saturated server", "load at which p99 exceeds 20 ms")
    )
    ranges = [f"{100 * low:.0f} to {100 * high:.0f}%" for low, *_, high in (throughput, knee)]
    words = " ".join(_README.split())
    (family_26,) = (errors_of(each) for each in scores()["hardware"] if "family26" in each["name"])
    n_servers, *_, n_loads = (family_26[row].n for row in TRUST.values())
    assert (
        f"top row is based on {n_servers} server programs, the bottom row on {n_loads} loads"
        in words
    )
    measured = {
        name: read_rows(
            _REPOSITORY / "calibration" / "measured" / name / "heldout.jsonl", RunRecord
        ).rows
        for name in TRUSTED
    }
    rejected = [sum(not run.accepted for run in runs) / len(runs) for runs in measured.values()]
    assert "on every machine at least a quarter of the runs was rejected" in words
    assert 0.25 <= min(rejected) < 0.3
    runs = measured[TRUSTED[-1]]
    points = {run.point for run in runs}
    accepted = Counter(run.point for run in runs if run.accepted)
    n_few = sum(accepted[point] < 2 for point in points)
    assert f"Of the Xeon's {len(points)} loads, {n_few} have at most one accepted run" in words
    knee_error = f"{ranges[1]} for the load at which p99 exceeds a bound;"
    assert f"{ranges[0]} for throughput, {knee_error}" in words


def test_the_pages_execute_a_command_of_every_verb() -> None:
    assert set(_VERBS) <= set(commands_of_pages())


@pytest.fixture(scope="module")
def small_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the scenario of the pages' commands, of a short run."""
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


@pytest.mark.parametrize("verb", _VERBS)
def test_a_command_of_the_pages_prints_a_result(call: Call, small_path: Path, verb: str) -> None:
    words = shlex.split(commands_of_pages()[verb])[2:]
    words = [str(small_path) if word == "poll_10k_idle" else word for word in words]
    words = [re.sub(r"p99 < \d+ ms", "p99 < 20 ms", word) for word in words]
    words = ["run.duration=300ms" if word.startswith("run.duration=") else word for word in words]
    words = ["20 ms" if word == "50 ms" else word for word in words]
    if "--plot" in words:
        place = words.index("--plot")
        del words[place : place + 2]
    result = call(verb, *words, *_SMALLER.get(verb, []), "--workers", "1")
    assert result.exit_code == 0, result.output
    assert result.stdout.strip()
