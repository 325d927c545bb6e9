"""The help: groups of commands in 40 lines; each command begins with a line and an example."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
import typer
from docs.making.commands import check_command
from tests.made_up_profile import Call

from dispatchsim.command_line.app import COMMANDS, FAMILIES, PANELS, app
from dispatchsim.command_line.help_page import example_of

LINES_MAX, COLUMNS = 40, 80
OPTIONS_MAX = 15
SUBCOMMANDS = [(name, each) for name, family in FAMILIES.items() for each in family.table]
ALL = [(name,) for name in (*COMMANDS, *FAMILIES)] + SUBCOMMANDS


def options_in(page: str) -> Iterator[str]:
    """Yield the options in a help."""
    for line in page.splitlines():
        if line.startswith("  --"):
            yield line.split()[0]


def test_the_main_help_is_short_and_has_every_command(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    told = call("--help")
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    assert len(lines) <= LINES_MAX
    assert max(map(len, lines)) <= COLUMNS
    words = [line[9:].split()[:1] for line in lines]
    assert {*COMMANDS, *FAMILIES} == set(" ".join(PANELS.values()).split())
    assert all([name] in words for name in (*COMMANDS, *FAMILIES))
    assert [line.split()[0] for line in lines[3:-1] if line[:1].strip()] == list(PANELS)
    check_command(shlex.split(lines[2]))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_help_begins_with_a_line_and_an_example(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    told = call(*words, "--help")
    assert told.exit_code == 0, told.output
    first, blank, example, *_ = told.stdout.splitlines()
    assert first.endswith(".")
    assert not blank
    assert example.startswith(f"    dispatchsim {' '.join(words)}")
    check_command(shlex.split(example))
    assert max(map(len, told.stdout.splitlines())) <= COLUMNS
    assert "bool" not in told.stdout
    assert len(list(options_in(told.stdout))) <= OPTIONS_MAX


def test_rarer_options_are_in_the_whole_help_alone(call: Call) -> None:
    usual, whole = (call("capacity", option).stdout for option in ("--help", "--help-all"))
    assert usual.splitlines()[-1] == "14 further options: dispatchsim capacity --help-all"
    rarer = set(options_in(whole)) - set(options_in(usual))
    assert len(rarer) == 14
    assert {"--p95", "--cluster"} < rarer


def test_the_whole_help_of_a_group_is_its_help(call: Call) -> None:
    assert call("measure", "--help-all").stdout == call("measure", "--help").stdout


def test_the_version_is_printed(call: Call) -> None:
    assert call("--version").stdout.startswith("dispatchsim ")


def test_an_example_is_the_first_line_that_calls_the_program() -> None:
    root = typer.main.get_command(app)
    assert example_of(root.commands["measure"].help).startswith("dispatchsim measure ")  # type: ignore[attr-defined]
    assert not example_of("Nothing to see.")
