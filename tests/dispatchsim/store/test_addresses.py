"""An address is of all that decides a result, and of nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dispatchsim.store.made_up import PROFILE, scenario

from dispatchsim.calibration.running.preparation import profile_of
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.examples import example_scenarios
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.store import Run, address_of
from dispatchsim.store.records import deciding_sources, scenario_json

BASE = scenario()
CHANGES: list[dict[str, dict[str, Any]]] = [
    {"server": {"mechanism": "poll"}},
    {"server": {"backlog": 128}},
    {"server": {"accept_limit": 1}},
    {"server": {"listener": "last"}},
    {"server": {"workers": 2}},
    {"load": {"rate": "2001/s"}},
    {"load": {"requests": 2}},
    {"load": {"reply_size": "7 KiB"}},
    {"load": {"arrivals": "constant"}},
    {"load": {"timeout": "1 s"}},
    {"idle": {"connections": 1}},
    {"network": {"delay": "1 us"}},
    {"network": {"window": 10}},
    {"run": {"duration": "41 ms"}},
    {"run": {"warm_up": "11 ms"}},
    {"machine": {"cpus": 2}},
    {"machine": {"clients": "generator"}},
    {"flood": {"rate": "1000/s"}},
]


def address(of: Scenario, **run: Any) -> str:
    """Return the address of a run of that scenario."""
    return address_of(Run(of, **{"profile": PROFILE, "seed": 1, **run}))


def test_whatever_decides_a_result_changes_its_address() -> None:
    changed = [BASE.with_values(**change) for change in CHANGES]
    costs = {table: dict(known) for table, known in PROFILE.cost.items()}
    first = next(iter(costs["application"]))
    costs["application"][first] = costs["application"][first].nothing()
    addresses = [
        address(BASE),
        *(address(each) for each in changed),
        address(BASE, seed=2),
        address(BASE, draw=0),
        address(BASE, draw=1),
        address(BASE, profile=PROFILE.model_copy(update={"name": "other"})),
        address(BASE, profile=PROFILE.model_copy(update={"cost": costs})),
        address(BASE, profile=PROFILE.without(["interrupt.*"])),
    ]
    assert len(set(addresses)) == len(addresses)


@given(st.integers(0, 2**31), st.integers(1, 1000), st.sampled_from(["auto", "fast", "reference"]))
def test_how_often_from_which_seed_and_by_which_engine_does_not_matter(
    seed: int, replications: int, engine: str
) -> None:
    run = {"seed": seed, "replications": replications, "engine": engine}
    assert address(BASE.with_values(run=run)) == address(BASE)


def test_how_a_scenario_is_written_does_not_matter() -> None:
    other = Scenario.of(
        run={"warm_up": "10000 us", "duration": "0.04 s"},
        load={"requests": 1, "rate": "120000/min", "loop": "open"},
        machine={"profile": PROFILE.name},
        idle={"connections": 0},
        server={"mechanism": "epoll_level", "max_events": 1024},
    )
    assert address(other) == address(BASE)


@pytest.mark.parametrize("path", example_scenarios().values(), ids=lambda path: path.stem)
def test_the_scenario_of_a_row_can_be_run_again(path: Path) -> None:
    read = Scenario.read(path)
    again = Scenario.check(json.loads(scenario_json(read)), "row")
    left_out = {"run": {"seed", "replications", "engine"}, "machine": {"profile"}}
    assert again.model_dump(exclude=left_out) == read.model_dump(exclude=left_out)
    assert address(again) == address(read)


def test_a_trace_counts_by_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    traced = Scenario.of(server={"mechanism": "poll"}, load={"loop": "open", "trace": str(path)})
    with pytest.raises(ScenarioError, match=r"load\.trace: must be a readable file.*no such file"):
        address(traced)
    path.write_text("one")
    one = address(traced)
    path.write_text("another")
    assert address(traced) != one


def test_the_sources_that_decide_are_all_that_a_run_is_prepared_with() -> None:
    script = """
import sys
import dispatchsim.calibration.profiles.cost_profile
import dispatchsim.calibration.running.preparation, dispatchsim.scenario.metrics
for name, module in sys.modules.items():
    if name.startswith("dispatchsim."):
        print(module.__file__)
"""
    command = [sys.executable, "-P", "-c", script]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout
    imported = {Path(name).resolve() for name in printed.splitlines() if "__init__" not in name}
    known = {path.resolve() for _, path in deciding_sources()}
    assert {path.name for path in imported - known} == set()


def test_a_scenario_without_a_profile_has_another_address_where_the_default_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario.of(server={"mechanism": "poll"}, load={"loop": "open", "rate": "2000/s"})
    addresses = set()
    for name in ("epyc-family25-2cpu-linux-6.18", "epyc-family26-2cpu-linux-6.18"):
        monkeypatch.setenv("DISPATCHSIM_PROFILE", name)
        addresses.add(address(scenario, profile=profile_of(scenario)))
    assert len(addresses) == 2
