"""`--set` and `--vary` of server.program: what stays, what goes, in any order; what is refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from tests.made_up_profile import Call

from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.programs import PROGRAMS
from dispatchsim.scenario.scenario import Scenario

LOAD = {"loop": "open", "rate": "2000/s"}
FEW = ("--workers", 1)


def program_file(path: Path, server: str) -> Path:
    """Write a short scenario whose section [server] has these lines."""
    path.write_text(
        f'[server]\n{server}\n[load]\nloop = "open"\nrate = "2000/s"\n'
        '[run]\nduration = "60 ms"\nwarm_up = "10 ms"\nreplications = 2\n'
    )
    return path


def keys_of(server: dict[str, Any]) -> dict[str, Any]:
    return dict(Scenario.of(server=server, load=LOAD).to_dict()["server"])


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(PROGRAMS, 2)))
def test_another_program_is_as_if_it_had_been_the_first(before: str, after: str) -> None:
    scenario = Scenario.of(server={"program": before, "backlog": 100}, load=LOAD)
    changed = scenario.with_values(server={"program": after}).to_dict()["server"]
    assert changed == keys_of({"program": after, "backlog": 100})


def test_another_program_replaces_the_mechanism_of_a_file_that_names_none() -> None:
    scenario = Scenario.of(server={"mechanism": "epoll_level", "backlog": 100}, load=LOAD)
    changed = scenario.with_values(server={"program": "phhttpd"}).to_dict()["server"]
    assert changed == keys_of({"program": "phhttpd", "backlog": 100})


def test_what_was_given_before_the_program_is_held_against_it() -> None:
    scenario = Scenario.of(server={"program": "phhttpd"}, load=LOAD)
    kept = scenario.with_values(server={"recovery": "poll"})
    with pytest.raises(ScenarioError, match=r'server.recovery: must be "poll for ever" where'):
        kept.with_values(server={"program": "phhttpd_old"})
    assert scenario.with_values(server={"program": "phhttpd_old"}).server.recovery == (
        "poll for ever"
    )


OPTIONS = ("server.program=userver_masel", "server.backlog=77", "load.rate=1000/s")


@pytest.mark.parametrize("order", list(itertools.permutations(OPTIONS)))
def test_a_program_is_set_in_any_order_with_other_options(
    call: Call, tmp_path: Path, profile_path: Path, order: tuple[str, ...]
) -> None:
    path = program_file(tmp_path / "s.toml", 'program = "thttpd"\nwrites = "at once"')
    settings = [word for option in order for word in ("--set", option)]
    result = call(
        "run", path, "--profile", profile_path, "--cost-samples", 0, *FEW, *settings, "--json"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["scenario"]
    assert found["load"]["rate"] == "1000/s"
    assert found["server"] == {
        "program": "userver_masel",
        "mechanism": "select",
        "accept_limit": 0,
        "writes": "at once",
        "backlog": 77,
    }


@pytest.mark.parametrize(
    "command",
    [
        ("capacity", "--p99", "4 ms", "--set", "server.program=userver_masel"),
        ("steady", "--runs", 2, "--set", "server.program=userver_masel"),
        ("compare", "--mechanisms", "select", "--set", "server.program=userver_masel"),
        ("forecast", "--cost-samples", 3, "--set", "server.program=userver_masel"),
    ],
    ids=lambda command: str(command[0]),
)
def test_each_study_takes_a_program(
    call: Call, tmp_path: Path, profile_path: Path, command: tuple[Any, ...]
) -> None:
    path = program_file(tmp_path / "s.toml", 'mechanism = "epoll_level"')
    where = ("--profile", profile_path, *FEW)
    result = call(command[0], path, *command[1:], *where, "--json")
    assert result.exit_code == 0, result.output
    assert '"program": "userver_masel"' in result.stdout


@pytest.mark.parametrize("server", ['mechanism = "epoll_level"', 'program = "thttpd"'])
def test_programs_are_swept(call: Call, tmp_path: Path, profile_path: Path, server: str) -> None:
    path = program_file(tmp_path / "s.toml", server)
    names = ["thttpd", "userver_select", "userver_epoll_level"]
    vary = ("--vary", f"server.program={','.join(names)}", "--vary", "load.rate=1000/s,2000/s")
    where = ("--profile", profile_path, *FEW, "--no-store")
    result = call("sweep", path, *vary, "--set", "server.backlog=99", *where, "--json")
    assert result.exit_code == 0, result.output
    points = json.loads(result.stdout)["points"]
    found = [(p["levels"]["server.program"], p["levels"]["load.rate"]) for p in points]
    assert found == [(name, rate) for name in names for rate in ("1000/s", "2000/s")]
    # Each program has run: at one rate no two have the same figures.
    of_first_rate = [repr(p["estimates"]) for p in points if p["levels"]["load.rate"] == "1000/s"]
    assert len(set(of_first_rate)) == len(names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("run", "--set", "server.recovery=nothing", "--set", "server.program=phhttpd"),
            '--set server.recovery: must be "poll" where server.program is "phhttpd" '
            '(Provos, Lever and Tweedie 2000, §2), got "nothing"',
        ),
        (
            ("run", "--set", "server.program=phhttpd", "--set", "server.recovery=nothing"),
            '--set server.recovery: must be "poll" where server.program is "phhttpd"',
        ),
        (
            ("run", "--set", "server.program=userver_masel"),
            's.toml: server.accept_limit: must be 0 where server.program is "userver_masel" '
            "(Chandra and Mosberger 2001, §4), got 1",
        ),
        (
            ("run", "--mechanism", "poll", "--set", "server.program=userver_select"),
            's.toml: server.mechanism: must be "select" where server.program is "userver_select"',
        ),
        (
            ("run", "--mechanism", "poll", "--set", "server.mechanism=select"),
            "--mechanism: must be absent with --set server.mechanism, got poll",
        ),
        (
            ("sweep", "--vary", "server.program=thttpd,userver_masel"),
            's.toml: server.accept_limit: must be 0 where server.program is "userver_masel" '
            "(Chandra and Mosberger 2001, §4), got 1 (at server.program = userver_masel)",
        ),
        (
            ("sweep", "--vary", "server.program=thttpd,thtpd"),
            '--vary server.program: must be one of 19 names (did you mean "thttpd"?), got "thtpd"',
        ),
    ],
)
def test_what_contradicts_a_program_is_refused_with_file_key_rule_and_value(
    call: Call, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    path = program_file(tmp_path / "s.toml", 'mechanism = "epoll_level"\naccept_limit = 1')
    result = call(options[0], path, *options[1:])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
