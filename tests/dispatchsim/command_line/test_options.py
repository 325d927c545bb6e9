"""Options that go together are one parameter of a command, and stand in its help one by one."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from dispatchsim.command_line.app import loaded
from dispatchsim.command_line.options import Kept, ScenarioName, Study, Wanted, grouped


@grouped
def _asked(scenario: ScenarioName, *, first: int = 1, study: Study, kept: Kept) -> None:
    """Print what arrives."""
    changes, hardware, place = study.changes, study.hardware, study.place
    print(scenario, first, changes.settings, changes.profile, hardware.cpus)
    print(study.engine, place.workers, place.cluster_address, kept.folder)


app = typer.Typer()
app.command()(_asked)


def _printed(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_the_options_of_a_group_stand_where_the_group_stood() -> None:
    names = list(inspect.signature(_asked).parameters)
    assert names[:4] == ["scenario", "first", "settings", "mechanism"]
    assert names[-5:] == ["engine", "workers", "cluster_address", "store", "no_store"]


def test_what_is_given_arrives_in_its_group() -> None:
    options = ("--set", "a=1", "--set", "b=2", "--profile", "p", "--cpus", "2")
    place = ("--engine", "fast", "--workers", "3", "--cluster", "tcp://a:1", "--store", "kept")
    assert _printed("name", "--first", "5", *options, *place) == [
        "name 5 ['a=1', 'b=2'] p 2",
        "fast 3 tcp://a:1 kept",
    ]


def test_what_is_not_given_has_the_value_of_the_group() -> None:
    assert _printed("name") == ["name 1 None None None", "None None None dispatchsim-results"]


def test_nothing_is_kept_with_no_store() -> None:
    assert _printed("name", "--no-store", "--store", "kept")[1] == "None None None None"
    assert Kept(store=Path("kept")).folder == Path("kept")


@pytest.mark.parametrize("name", ["capacity", "sweep", "tune", "forecast", "sensitivity", "steady"])
def test_every_study_delivers_its_answer_in_the_same_ways(name: str) -> None:
    options = [parameter.name for parameter in loaded(name).params]
    assert [each for each in options if each in inspect.signature(Wanted).parameters] == [
        "plot",
        "output",
        "as_json",
        "verbose",
    ]
