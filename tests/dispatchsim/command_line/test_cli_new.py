"""`dispatchsim new`: presets, answers, and what becomes of them."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.made_up_profile import Call
from typer.testing import CliRunner, Result

import dispatchsim as ds
from dispatchsim.command_line import new as command
from dispatchsim.command_line.app import app
from dispatchsim.scenario.presets import PRESETS, QUESTIONS, Preset, mistakes_of

TINY: dict[str, Any] = {
    "duration": "60 ms",
    "warm_up": "10 ms",
    "replications": 1,
    "engine": "fast",
}
EVERY_PRESET = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)


@pytest.fixture
def ask(call: Call, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that calls `new` at a terminal, with lines that are typed there."""
    monkeypatch.setattr(command, "has_terminal", lambda: True)

    def asked(*arguments: str, typed: str) -> Result:
        return CliRunner().invoke(app, ["new", *arguments], input=typed)

    return asked


def mistakes(result: Result) -> list[str]:
    """Return what was refused; nothing may be left behind."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return [line.removeprefix("error: ") for line in result.stderr.splitlines()]


def test_a_time_above_the_bound_is_a_warning(call: Call) -> None:
    for bound, warnings in (("40 ms", 1), ("60 ms", 0)):
        made = call(
            *("new", "reverse_proxy", f"{warnings}.toml", "--defaults"),
            *("--backend-delay", "10 ms", "--p99", bound),
        )
        assert made.exit_code == 0, made.output
        warning = "warning: backend.delay_p99 (50 ms) exceeds the bound on p99 (40 ms): no load"
        assert made.stdout.count(warning) == warnings


@EVERY_PRESET
def test_each_preset_runs(call: Call, preset: Preset) -> None:
    made = call("new", preset.name, "--defaults")
    assert made.exit_code == 0, made.output
    path = Path(f"{preset.name}.toml")
    scenario = ds.Scenario.read(path)
    load: dict[str, Any] = {"rate": "2000/s"}
    if scenario.load.connections:
        load["connections"] = 50
    if scenario.load.crowd_length:
        load |= {"crowd_start": "20 ms", "crowd_length": "10 ms"}
    result = ds.run(scenario.with_values(load=load, run=TINY), draws=0)
    assert result.verdict is ds.Verdict.STABLE
    assert result.engine == "fast"
    assert f"capacity {path} --p99" in made.stdout
    bound = "The file does not hold the bound on p99; give the bound to `capacity`. Next:"
    assert f"{path} is written. {bound}" in made.stdout.splitlines()
    assert f"# Try: dispatchsim capacity {path} --p99" in path.read_text()
    boundless = call("capacity", str(path))
    assert boundless.exit_code == 2
    assert f"; {path} was written for `dispatchsim capacity {path} --p99" in boundless.output


@EVERY_PRESET
def test_a_preset_asks_at_most_eight_questions_and_answers_them_itself(preset: Preset) -> None:
    assert 1 + len(preset.questions) <= 8
    for question in preset.questions:
        assert mistakes_of(preset, {question.option: preset.example(question)}) == []
        for field in question.fields:
            section, _, key = field.partition(".")
            (_, text) = preset.text.split(f"\n[{section}]\n")
            (line,) = re.findall(rf"^{key} = .*$", text.partition("\n[")[0], re.M)
            assert line.endswith("(example)") or field == "network.down"


@EVERY_PRESET
def test_the_examples_as_answers_leave_the_example(call: Call, preset: Preset) -> None:
    answers = [
        word
        for question in preset.questions
        for word in (f"--{question.option}", preset.example(question))
    ]
    assert call("new", preset.name, "own.toml", *answers).exit_code == 0
    text = Path("own.toml").read_text()
    # What it takes to copy a file is not asked, nor how many requests a connection has.
    assert text.count("(example)") == (preset.name in ("static_files", "api_keep_alive"))
    before = ds.Scenario.check(tomllib.loads(preset.text), "before")
    assert ds.Scenario.read("own.toml").to_dict() == before.to_dict()


def test_answers_are_read_as_people_type_them_and_written_with_comments(call: Call) -> None:
    typed = ("--connections", "20k", "--rate", "2.5k/s", "--reply-size", "8 KB", "--link", "1Gbps")
    rest = ("--cpus", "2", "--request-cpu", "50µs", "--p99", "500 msec")
    assert call("new", "websocket-hub", "hub.toml", *typed, *rest).exit_code == 0
    lines = Path("hub.toml").read_text().splitlines()
    for line in (
        '# Try: dispatchsim capacity hub.toml --p99 "500 ms"',
        'request_cpu = "50 us"           # CPU time of your application for a request',
        'request_cpu_p99 = "250 us"      # 1 in 100 takes longer (example: 5 times the mean)',
        "connections = 20_000            # kept open",
        'rate = "2500/s"                 # requests of all connections together',
        'reply_size = "8 kB"',
        'up = "1 Gbit/s"                 # to the server',
        "cpus = 2",
        'duration = "5200 ms"',
    ):
        assert line in lines
    # Ten times the bound on p99 is the shortest window that `capacity` takes.
    scenario = ds.Scenario.read("hub.toml")
    assert scenario.run.duration - scenario.run.warm_up == 5_000_000_000


def test_an_application_that_takes_nothing_has_no_spread(call: Call) -> None:
    assert call("new", "api_keep_alive", "--request-cpu", "0 s", "--defaults").exit_code == 0
    text = Path("api_keep_alive.toml").read_text()
    assert 'request_cpu = "0 ns"' in text
    assert "request_cpu_spread" not in text
    assert "request_cpu_p99" not in text


def test_a_run_is_as_long_as_its_requests_and_its_crowd_need(call: Call) -> None:
    call("new", "flash_crowd", "--crowd-length", "2 s", "--defaults")
    assert ds.Scenario.read("flash_crowd.toml").run.duration == (400 + 4 * 2000) * 10**6
    call("new", "cache", "cache.toml", "--rate", "2000/s", "--defaults")
    assert ds.Scenario.read("cache.toml").run.duration == (200 + 5000) * 10**6
    call("new", "cache", "seldom.toml", "--rate", "100/s", "--defaults")
    assert ds.Scenario.read("seldom.toml").run.duration == (200 + 60_000) * 10**6


def test_all_wrong_answers_are_named_at_once(call: Call) -> None:
    wrong = ("--connections", "many", "--rate", "20000", "--reply-size", "8K", "--p99", "0 ms")
    told = call("new", "websocket_hub", *wrong, "--threads", "3", "--cpus", "0")
    absent = "must be given, as there is no terminal to ask:"
    example = "or --defaults for the example's values"
    assert mistakes(told) == [
        "--threads: websocket_hub does not ask for it; leave it out",
        f"--request-cpu: {absent} --request-cpu '20 us', {example}",
        f"--link: {absent} --link '10 Gbit/s', {example}",
        '--connections: must be a whole number (4, 20000 or "20k"), got "many"',
        '--rate: must be a rate such as "2000/s" (units: /h, /min, /s), got 20000',
        '--reply-size: must be either "8 kB" (powers of 1000) or "8 KiB" (powers of 1024), '
        'got "8K"',
        "--cpus: must be at least 1, got 0",
        '--p99: must be above 0, got "0 ms"',
    ]
    assert list(Path.cwd().iterdir()) == []


def test_a_rule_between_answers_is_named(call: Call) -> None:
    (told,) = mistakes(call("new", "cache", "--rate", "9999999/s", "--defaults"))
    assert told.startswith("--rate: must give at most 5000000 requests in a run of 1 s")


def test_a_bound_that_makes_the_run_too_long_is_named(call: Call) -> None:
    (told,) = mistakes(call("new", "own_server", "--p99", "5 min", "--defaults"))
    assert told.startswith('--p99: is too large: a run lasts ten times the bound, got "5 min" (')


def test_without_a_terminal_what_is_missing_is_named(call: Call) -> None:
    (told,) = mistakes(call("new"))
    assert told == (
        f"PRESET: must be one of {', '.join(PRESETS)}, got none "
        "(`dispatchsim scenarios` describes them)"
    )
    told_of_all = mistakes(call("new", "thread-pool"))
    options = [each.partition(":")[0] for each in told_of_all]
    assert options == [f"--{question.option}" for question in PRESETS["thread_pool"].questions]
    (told,) = mistakes(call("new", "websocket", "--defaults"))
    assert told.endswith('(did you mean "websocket_hub"?), got "websocket"')


def test_a_file_is_overwritten_by_force_alone(call: Call) -> None:
    path = Path("cache.toml")
    path.write_text("mine\n")
    (told,) = mistakes(call("new", "cache", "--defaults"))
    assert told == "FILE: must be a new file, got cache.toml, which exists (--force overwrites it)"
    assert path.read_text() == "mine\n"
    assert call("new", "cache", "--defaults", "--force").exit_code == 0
    assert ds.Scenario.read(path).server.workers == 1
    assert [each.name for each in Path.cwd().iterdir()] == ["cache.toml"]
    for wrong in ("no/hub.toml", ".", "a\nb.toml"):
        (told,) = mistakes(call("new", "cache", wrong, "--defaults"))
        assert told.startswith("FILE: must be ")


def test_questions_are_asked_until_each_answer_is_right(ask: Any) -> None:
    answers = "9\nwebsocket\ncache\n500\n40k/s\n\n3\n3 us\n\n2 ms\n"
    told = ask(typed=answers)
    assert told.exit_code == 0, told.output
    for question in PRESETS["cache"].questions:
        assert question.text in told.stderr
    assert 'must be a duration such as "50 ms"' in told.stderr
    assert 'did you mean "websocket_hub"?' in told.stderr
    scenario = ds.Scenario.read("cache.toml")
    assert (scenario.load.connections, scenario.load.rate) == (500, 40_000)
    assert scenario.server.request_cpu == 3_000
    # Enter takes the example, and it is marked so.
    assert 'reply_size = "256 B"            # (example)' in Path("cache.toml").read_text()


def test_what_an_option_answers_is_not_asked(ask: Any) -> None:
    given = [w for q in PRESETS["cache"].questions for w in (f"--{q.option}", "7")][:4]
    given[1], given[3] = "300", "1k/s"
    told = ask("cache", "own.toml", *given, typed="\n\n\n\n")
    assert told.exit_code == 0, told.output
    assert QUESTIONS["connections"].text not in told.stderr
    assert ds.Scenario.read("own.toml").load.connections == 300


def test_a_question_that_is_left_leaves_nothing(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def prompt(text: str, **_: Any) -> str:
        asked.append(text)
        if len(asked) == 3:
            raise typer.Abort  # what Ctrl-C becomes, and the end of the input
        return "cache" if len(asked) == 1 else "300"

    monkeypatch.setattr(typer, "prompt", prompt)
    told = ask(typed="")
    assert told.exit_code == 130
    assert told.stderr.splitlines()[-1] == "stopped; nothing was written"
    assert list(Path.cwd().iterdir()) == []


def test_a_disk_that_is_full_leaves_nothing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device", "cache.toml")

    monkeypatch.setattr(os, "fsync", full)
    told = call("new", "cache", "--defaults")
    assert told.exit_code == 2
    assert told.stderr == "error: cache.toml: no space left on device\n"
    assert list(Path.cwd().iterdir()) == []


def test_ones_own_server_comes_with_the_commands_that_calibrate_it(call: Call) -> None:
    told = call("new", "own_server", "--defaults").stdout
    commands = [line.split()[1] for line in told.splitlines() if line.startswith("    ")]
    assert commands == ["measure", "calibrate", "validate", "capacity", "run"]
    text = Path("own_server.toml").read_text()
    assert '# profile = "my-server.toml"' in text


def test_the_slow_requests_of_a_backend_are_slower_by_the_same_factor(call: Call) -> None:
    answers = ("--backend-delay", "20 ms", "--backend-limit", "8", "--backend-connections", "16")
    assert call("new", "reverse-proxy", "proxy.toml", *answers, "--defaults").exit_code == 0
    lines = Path("proxy.toml").read_text().splitlines()
    slow = 'delay_p99 = "100 ms"            # 1 in 100 takes longer'
    assert f"{slow} (example: 5 times the mean)" in lines
    assert 'delay = "100 us"                # one way' in lines
    backend = ds.Scenario.read("proxy.toml").backend
    assert (backend.delay, backend.limit, backend.connections) == (20_000_000, 8, 16)
    (told,) = mistakes(
        call("new", "reverse-proxy", "none.toml", "--backend-limit", "0", "--defaults")
    )
    assert told == "--backend-limit: must be at least 1, got 0"


@pytest.mark.parametrize(
    ("preset", "answers", "bound"),
    [
        ("reverse_proxy", (), "50 ms"),
        # Five times 30 ms is the 99th percentile of the delay: twice that is 300 ms.
        ("reverse_proxy", ("--backend-delay", "30 ms"), "500 ms"),
        ("reverse_proxy", ("--backend-delay", "20 ms"), "200 ms"),
        ("reverse_proxy", ("--backend-delay", "30 ms", "--p99", "70 ms"), "70 ms"),
        # An exponential spread has its 99th percentile at 4.6 times the mean.
        ("thread_pool", ("--request-cpu", "10 ms"), "100 ms"),
    ],
)
def test_the_bound_that_nobody_has_answered_is_one_that_a_server_can_keep(
    call: Call, preset: str, answers: tuple[str, ...], bound: str
) -> None:
    told = call("new", preset, "own.toml", *answers, "--defaults")
    assert f'dispatchsim capacity own.toml --p99 "{bound}"' in told.stdout
    scenario = ds.Scenario.read("own.toml")
    window_ns = scenario.run.duration - scenario.run.warm_up
    assert window_ns >= 10 * int(bound.removesuffix(" ms")) * 10**6


def test_the_bound_is_asked_for_with_the_delay_that_was_answered(ask: Any) -> None:
    told = ask("reverse_proxy", "own.toml", typed="\n\n30 ms\n\n\n\n\n")
    assert told.exit_code == 0, told.output
    assert f"{QUESTIONS['p99'].text} [500 ms]" in told.stderr
    assert '--p99 "500 ms"' in told.stdout


def test_a_new_scenario_names_the_default_profile_and_why_it_is_this_one(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHSIM_PROFILE", "epyc-family25-2cpu-linux-6.18")
    assert call("new", "cache", "--defaults").exit_code == 0
    line = 'profile = "epyc-family25-2cpu-linux-6.18"   # named by DISPATCHSIM_PROFILE'
    assert line in Path("cache.toml").read_text().splitlines()


def test_a_profile_in_a_file_is_named_from_where_the_scenario_is(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds.example_profile().write("mine.toml")
    monkeypatch.setenv("DISPATCHSIM_PROFILE", "mine.toml")
    Path("deeper").mkdir()
    assert call("new", "cache", "deeper/cache.toml", "--defaults").exit_code == 0
    assert 'profile = "../mine.toml"' in Path("deeper/cache.toml").read_text()
    assert call("run", "deeper/cache.toml", "--set", "run.duration=600 ms").exit_code == 0


def test_a_preset_keeps_its_profile_where_the_default_one_lacks_costs_of_its_mechanism(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHSIM_PROFILE", "epyc-family26-2cpu-linux-6.18")
    assert call("new", "thread_pool", "--defaults").exit_code == 0
    profile = ds.Scenario.read("thread_pool.toml").machine.profile
    assert profile == "epyc-family25-2cpu-linux-6.18"
