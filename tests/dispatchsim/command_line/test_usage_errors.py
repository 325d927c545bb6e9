"""Mistakes in a command line: "error: NAME: RULE, got VALUE", whoever finds them; exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.made_up_profile import Call


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("rnu", "x"),
            'rnu: unknown command of `dispatchsim` (did you mean "run"?)',
        ),
        (("measure", "machin"), "machin: unknown command of `dispatchsim measure` (did you mean"),
        (("validate", "paper", "--fast"), "paper: unknown command of `dispatchsim validate` (did"),
        (
            ("lab", "ablations"),
            'ablations: unknown command of `dispatchsim lab` (did you mean "ablation"?)',
        ),
        (("validate", "--nothing"), "--nothing: unknown option of `dispatchsim validate`"),
        (("--nothing",), "--nothing: unknown option of `dispatchsim` (`dispatchsim --help-all`"),
        (
            ("run", "x", "--replication", "3"),
            '--replication: unknown option of `dispatchsim run` (did you mean "--replications"?)',
        ),
        (
            ("forecast", "x", "--rate", "9/s"),
            "--rate: unknown option of `dispatchsim forecast`; to change the scenario, add --set "
            "load.rate=VALUE or --set flood.rate=VALUE",
        ),
        (
            ("run", "x", "--idle-connections", "9"),
            "; to change the scenario, add --set idle.connections=VALUE",
        ),
        (
            ("run",),
            "SCENARIO: must be given, as in `dispatchsim run poll_10k_idle --set load.rate=",
        ),
        (("run", "x", "y"), '"y": `dispatchsim run` takes only SCENARIO'),
        (("schema", "y"), '"y": `dispatchsim schema` takes no argument'),
        (
            ("timeline", "x", "--output", "t.svg"),
            '--output: unknown option of `dispatchsim timeline` (did you mean "--plot"?)',
        ),
        (("timeline", "x"), "--plot: must be given, as in `dispatchsim timeline"),
        (("run", "x", "--cost-samples"), "--cost-samples: must have a value, got none"),
        (
            ("run", "x", "--report", "wrkk"),
            '--report: must be one of httperf, wrk, wrk2 (did you mean "wrk"?), got "wrkk"',
        ),
        (
            ("explore", "--port", "70000"),
            '--port: must be a whole number from 0 to 65,535, got "70000"',
        ),
        (
            ("explore", "--port", "http"),
            '--port: must be a whole number from 0 to 65,535, got "http"',
        ),
        (("run", "x", "--clock", "fast"), '--clock: must be a number, got "fast"'),
        (("import", "x", "--users", "0"), '--users: must be a whole number, at least 1, got "0"'),
        (("lab", "bench", "--idle", "few"), '--idle: must be a whole number, got "few"'),
        (
            ("measure", "machine", "--pid", "5"),
            "--pid: must be absent here; it belongs to `dispatchsim measure server`",
        ),
        (
            ("calibrate", "machine", "m", "--scenario", "x.toml"),
            "--scenario: must be absent here; it belongs to `dispatchsim calibrate server`",
        ),
        (
            ("validate", "papers", "--only", "epoll"),
            "--only: must be absent here; it belongs to `dispatchsim validate rules`",
        ),
    ],
)
def test_a_mistake_is_one_sentence_in_the_grammar_of_all_errors(
    call: Call, words: tuple[str, ...], sentence: str
) -> None:
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert not result.stdout
    line = result.stderr.splitlines()[-1]
    assert line.startswith("error: ")
    assert sentence in line
    assert "Traceback" not in result.stderr
    assert "╭" not in result.stderr


def test_a_mistake_names_the_option_of_a_subcommand_too(call: Call, tmp_path: Path) -> None:
    words = ("lab", "overflow-onset", tmp_path, "--profile", "nobody")
    assert call(*words).stderr.startswith("error: --profile: there is no file and no profile ")


@pytest.mark.parametrize("words", [(), ("validate",), ("lab",)])
def test_a_group_without_a_command_prints_its_help(call: Call, words: tuple[str, ...]) -> None:
    result = call(*words)
    assert result.exit_code == 2
    assert result.stderr.rstrip() == call(*words, "--help").stdout.rstrip()
