"""What a command imports before it does anything: nobody waits for what others need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from inspect import getdoc
from pathlib import Path

import pytest

from dispatchsim.command_line.app import COMMANDS, FAMILIES, about, loaded

SLOW = ("scipy", "pandas", "panel", "pyarrow", "matplotlib", "distributed")
NEEDED_BY_RUNS = ("numpy", "simpy", "dispatchsim.scenario.scenario")


def imported_by(
    code: str, names: tuple[str, ...], folder: Path, *, exit_code: int = 0
) -> list[str]:
    """Return which of the modules *names* a new Python has imported after *code*."""
    program = f"""import sys
code = 0
try:
    {code}
except SystemExit as end:
    code = end.code
print(*(name for name in {names} if name in sys.modules), sep=",", file=sys.stderr)
sys.exit(code)"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=folder
    )
    assert ended.returncode == exit_code, ended.stderr
    return [name for name in ended.stderr.split("\n")[-2].split(",") if name]


def call(*words: str) -> str:
    """Return code that calls a command as a shell would."""
    return f"sys.argv = {['dispatchsim', *words]}; from dispatchsim.__main__ import main; main()"


def test_the_help_imports_no_command(tmp_path: Path) -> None:
    assert imported_by(call("--help"), (*SLOW, *NEEDED_BY_RUNS, "pydantic"), tmp_path) == []


def test_the_help_of_the_laboratory_imports_no_command(tmp_path: Path) -> None:
    # Typer itself imports pydantic as soon as a command of a group is called.
    assert imported_by(call("lab", "--help"), (*SLOW, *NEEDED_BY_RUNS), tmp_path) == []


def test_the_library_imports_nothing_before_it_is_used(tmp_path: Path) -> None:
    code = "import dispatchsim as ds"
    assert imported_by(code, (*SLOW, *NEEDED_BY_RUNS, "pydantic"), tmp_path) == []


def test_a_list_of_files_imports_no_simulator(tmp_path: Path) -> None:
    assert imported_by(call("scenarios"), (*SLOW, *NEEDED_BY_RUNS), tmp_path) == []


@pytest.mark.parametrize("name", ["mechanisms", "programs", "profiles", "fields", "schema"])
def test_a_command_that_lists_imports_nothing_slow(tmp_path: Path, name: str) -> None:
    assert imported_by(call(name), SLOW, tmp_path) == []


@pytest.mark.parametrize("name", ["run", "compare"])
def test_the_help_of_a_run_imports_nothing_slow(tmp_path: Path, name: str) -> None:
    assert imported_by(call(name, "--help"), SLOW, tmp_path) == []


def test_a_run_imports_nothing_slow(tmp_path: Path) -> None:
    short = ("--set", "run.duration=20 ms", "--set", "run.warm_up=10 ms", "--workers", "1")
    code = call("run", "epoll_10k_idle", "--engine", "reference", *short)
    assert imported_by(code, SLOW, tmp_path) == []


def test_an_error_of_the_user_imports_nothing_slow(tmp_path: Path) -> None:
    assert imported_by(call("run", "no_such_scenario"), SLOW, tmp_path, exit_code=2) == []


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (table, name)
        for table in (COMMANDS, *(family.table for family in FAMILIES.values()))
        for name in table
    ],
)
def test_the_list_of_commands_has_the_first_line_of_each_help(
    table: Mapping[str, str], name: str
) -> None:
    first_line = (getdoc(loaded(name, table).callback) or "").splitlines()[0]
    assert about(table[name]) == first_line
