"""The mechanism of docs/how-to/write-a-mechanism.md: its state, its callback, its wait."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.served import on_server
from tests.toy import INTERRUPT, arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.fates import NOBODY
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import Costs
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.settings import RunSettings

FILE = Path(__file__).parents[2] / "docs/how-to/newest_first.py"


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where data classes look
    spec.loader.exec_module(module)
    return module


NEWEST = _imported(FILE)
NEWEST_FIRST = NEWEST.NEWEST_FIRST


def newest_costs() -> Costs:
    return toy_costs("poll")._replace(mechanism=NEWEST.NewestCosts(70))


@pytest.mark.parametrize("workers", [1, 2])
def test_it_runs_on_both_engines_alike(workers: int) -> None:
    trace = arrivals(*range(10_000, 200_000, 1_700))
    run = RunSettings(
        **on_server(workers=workers, cpus=2),
        client=ClientSettings(idle=20),
        duration_ns=1_000_000,
        sample_every_ns=50_000,
    )
    reference = simulate(NEWEST_FIRST, trace, newest_costs(), run, engine="reference")
    fast = simulate(NEWEST_FIRST, trace, newest_costs(), run, engine="fast")
    assert reference.counts[Count.REPLIES] == len(trace)
    assert (reference.stranded == NOBODY).all()
    assert reference.same_as(fast)


def test_the_newest_is_served_first() -> None:
    # All four are accepted in one go; their requests came in order, and are answered backwards.
    four = arrivals(*[10_000] * 4)
    run = RunSettings(duration_ns=60_000, sample_every_ns=0)
    outcome = simulate(NEWEST_FIRST, four, newest_costs(), run, engine="reference")
    assert outcome.reply_ns.tolist() == sorted(outcome.reply_ns.tolist(), reverse=True)
    assert outcome.reply_ns.min() > 10_000 + INTERRUPT.idle_exit_ns


def test_the_file_can_be_saved_anywhere_and_run(tmp_path: Path) -> None:
    shutil.copyfile(FILE, tmp_path / "mine.py")
    command = [sys.executable, "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equal on both engines: True\nlatency: median ")


BUILT_IN = """
import sys
import types

from dispatchsim.models import catalogue
import mine

for name, folder in zip(("tests", "docs"), sys.argv[1:]):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]

found = catalogue.catalogue_of([mine])
catalogue.CATALOGUE.update(found)
catalogue.MECHANISMS.update({name: entry.mechanism for name, entry in found.items()})

import dispatchsim as ds
from docs.making.cost_words import about_cost
from tests.toy import toy_costs

costs = ds.example_profile().costs("newest_first", open_connections=100)
epoll = ds.example_profile().costs("epoll_level", open_connections=100)
assert costs.mechanism == (epoll.mechanism.call_ns, epoll.mechanism.add_ns)
assert about_cost("NewestCosts", "call_ns") == "a wait, with the descriptor that it returns"
assert about_cost("NewestCosts", "add_ns") == "one descriptor added to what is watched"
assert toy_costs("newest_first").mechanism == (11, 13)
scenario = ds.Scenario.of(
    server={"mechanism": "newest_first"},
    load={"loop": "open", "rate": "5000/s"},
    run={"duration": "50 ms", "warm_up": "10 ms"},
)
assert ds.run(scenario).estimates["throughput_per_s"].mean > 4_000
"""


def test_as_a_built_in_one_it_needs_its_file_and_its_name_in_the_catalogue(tmp_path: Path) -> None:
    shutil.copyfile(FILE, tmp_path / "mine.py")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", BUILT_IN, str(root / "tests"), str(root / "docs")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
