"""The benchmark runs, its contestants agree, and it judges by its targets; no test judges times."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.lab import lab

from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.profiles.cost_profile import Profile, shipped_profiles
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.files.tables import rich_table
from dispatchsim.validation.benchmarks import contestants as c
from dispatchsim.validation.benchmarks import processes, speed
from dispatchsim.validation.benchmarks.plan import Bench, Plan, plan_of
from dispatchsim.validation.benchmarks.report import metric_tables, target_table, verdicts
from dispatchsim.validation.benchmarks.results import Metric, Results
from dispatchsim.validation.benchmarks.scenarios import OPEN, Case, Scenario, scenario_of
from dispatchsim.validation.benchmarks.single_queue import QueueRun

COMMAND = (sys.executable, "-P", "-m", "dispatchsim", "lab", "bench")


# The whole


def test_a_quick_benchmark_runs_and_all_contestants_agree(tmp_path: Path) -> None:
    finished = subprocess.run(
        [*COMMAND, "--quick", "--connections", "2000", "--json", str(tmp_path / "all.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stderr
    assert "speed: done\nworkers: done\n" in finished.stderr  # after a notice of what is compiled
    raw = json.loads((tmp_path / "all.json").read_text())
    assert raw["format"] == "dispatchsim-benchmark/2"
    assert raw["complete"] is True
    assert {"Python", "dispatchsim", "numpy", "SimPy", "Ciw"} <= set(raw["versions"])
    assert len({name.lower() for name in raw["versions"]}) == len(raw["versions"])
    assert raw["machine"]["cpu_count"] == os.cpu_count()
    values = {(m["group"], m["case"], m["subject"]): m["values"] for m in raw["metrics"]}
    compiled = ["C by hand", "C engine, folded", "C engine, general"]
    everybody = [*compiled, "reference"]
    for who in everybody:
        for case in ("64 users, 0 idle", "70% open, 0 idle", "64 users, 10,000 idle"):
            assert len(values["speed", case, who]) == 2
    for workers in ("4 workers on 1 CPU", "4 workers on 2 CPUs", "16 workers on 4 CPUs"):
        assert len(values["workers", f"64 users, 0 idle, {workers}", "reference"]) == 2
    assert {who for group, _, who in values if group == "queue"} >= {"SimPy", "Ciw"}
    assert {"speed", "workers", "queue", "call", "memory", "start"} <= {g for g, _, _ in values}
    assert min(value for repeated in values.values() for value in repeated) > 0
    # The program ends with an error if outcomes differ; here is who was compared.
    compared = {o["case"]: o["contestants"] for o in raw["outcomes"] if o["connections"] == 80}
    for case in ("64 users, 0 idle", "70% open, 10,000 idle"):
        assert {*everybody} <= set(compared[case])
    assert "start: --help, wall" in finished.stdout


def test_ctrl_c_prints_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    outcome = c.run(c.REFERENCE, scenario_of(example_profile(), Case(), 10)).outcome

    def run(name: str, scenario: Scenario, *_: Any) -> c.Ran:
        ran.append(name)
        if len(ran) > 6:
            raise KeyboardInterrupt
        return c.Ran(len(scenario.trace), 0.5, outcome)

    monkeypatch.setattr(c, "run", run)
    monkeypatch.setattr(c, "missing", lambda name: "" if name == c.REFERENCE else f"no {name}")
    done = lab(
        *("bench", "--only", "speed", "--idle", "0", "--connections", "1000"),
        *("--json", tmp_path / "part.json"),
    )
    # Two cases are checked, then each has two turns of 40 connections in 0.5 s.
    assert done.exit_code == 130
    assert "stopped: results so far" in done.stderr
    assert "70% open, 0 idle" in done.stdout
    raw = json.loads((tmp_path / "part.json").read_text())
    assert raw["complete"] is False
    assert [(m["case"], m["values"]) for m in raw["metrics"]] == [
        ("64 users, 0 idle", [80.0, 80.0]),
        ("70% open, 0 idle", [pytest.approx(80, rel=0.5)] * 2),
    ]


def test_ctrl_c_ends_the_child_that_is_measured() -> None:
    code = (
        "from dispatchsim.validation.benchmarks.processes import run_child\n"
        "import sys; run_child('sh', '-c', 'echo $$ >&2; exec sleep 600')"
    )
    started = subprocess.Popen(
        [sys.executable, "-P", "-c", code], stderr=subprocess.PIPE, text=True
    )
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
    deadline_s = time.monotonic() + 60
    while not (found := children.read_text().split()) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=60)
    assert started.returncode != 0
    assert found
    assert not Path("/proc", found[0]).exists()


# Contestants


def test_outcomes_that_differ_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Plan(), example_profile())
    run = c.run

    def shifted(name: str, scenario: Scenario) -> c.Ran:
        ran = run(name, scenario)
        if name == c.REFERENCE:
            ran.outcome.reply_ns[-1] += 1
        return ran

    monkeypatch.setattr(c, "run", shifted)
    speed._checked_run(bench, Case(), c.BY_HAND, 100)
    with pytest.raises(
        c.DisagreementError,
        match=r"reference, 64 users, 0 idle, 100 connections: .* differs from that of C by hand",
    ):
        speed._checked_run(bench, Case(), c.REFERENCE, 100)


def test_a_connection_without_reply_is_an_error() -> None:
    scenario = scenario_of(example_profile(), Case(), 300)
    short = scenario.settings._replace(duration_ns=1_000_000)
    with pytest.raises(c.DisagreementError, match=r"300 connections were offered, \d+ got their"):
        c.run(c.REFERENCE, scenario._replace(settings=short))


def test_a_contestant_that_leaves_out_a_cost_has_a_note_instead_of_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(c, "missing", lambda name: "" if name == c.BY_HAND else f"no {name}")
    richer = Profile.read(shipped_profiles()["epyc-family25-2cpu-linux-6.18"])
    bench = Bench(Plan(connections=1_000, repetitions=1, idle=(0,)), richer)
    for job in speed.speed_jobs(bench):
        job.do()
    assert bench.results == {}
    (note,) = (note for note in bench.notes if "70% open" in note)
    assert note.startswith("C by hand, 70% open, 0 idle: the program written by hand lacks")
    assert "costs delivery_ns, delivery_after_ns," in note


def test_means_that_differ_are_an_error() -> None:
    speed.check_mean("Ciw", QueueRun(10, 3.00001, 1.0), 10, 3.0)
    with pytest.raises(c.DisagreementError, match=r"Ciw, M/M/1: .* 3\.1 s, not 3\.0 s"):
        speed.check_mean("Ciw", QueueRun(10, 3.1, 1.0), 10, 3.0)
    with pytest.raises(c.DisagreementError, match="10 customers came, 9 left"):
        speed.check_mean("Ciw", QueueRun(9, 3.0, 1.0), 10, 3.0)


TOUCH = """
import os
from pathlib import Path

import numpy as np
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.state.columns import as_arrays
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.load.workload import open_loop
from dispatchsim.validation.benchmarks import contestants as c


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


world = prepare_world(
    "epoll_level",
    open_loop(rate_per_s=1_000, seconds=0.01, seed=1),
    example_profile().costs("epoll_level", open_connections=0, free_clients=True),
    RunSettings(client=ClientSettings(idle=1_000_000), duration_ns=10_000_000),
    as_arrays,
)
before, untouched = np.array(world.stage), resident()
c.touch(world)
arrays = list({id(array): array for array in c._arrays(world, set())}.values())
# Columns that are 0 throughout had no memory before.
assert resident() - untouched > 0.3 * sum(array.nbytes for array in arrays)
assert np.array_equal(before, world.stage)
"""


def test_every_array_of_a_world_is_touched() -> None:
    # In a process of its own: this one may keep memory that earlier tests have touched.
    subprocess.run((sys.executable, "-P", "-c", TOUCH), check=True)


def test_a_fingerprint_is_of_every_entry() -> None:
    outcome = c.run(c.REFERENCE, scenario_of(example_profile(), Case(OPEN), 50)).outcome
    own = c.fingerprint(outcome)
    for name in Outcome.__dataclass_fields__:
        entries = np.asarray(getattr(outcome, name))
        if entries.size and entries.ndim and name != "stranded":
            entries.flat[-1] += 1
            assert c.fingerprint(outcome) != own, name
            entries.flat[-1] -= 1
    assert c.fingerprint(outcome) == own


# Results and targets

HAND, FOLDED, GENERAL = "C by hand", "C engine, folded", "C engine, general"


def test_rates_are_better_the_higher_and_times_the_lower() -> None:
    results = Results()
    rate, seconds = Metric("speed", "64 users, 0 idle", HAND), Metric("start", "--help, wall", "x")
    for value in (3.0, 1.0, 2.0):
        results.add(rate, value)
        results.add(seconds, value)
    assert (results.median(rate), results.best(rate)) == (2.0, 3.0)
    assert (results.median(seconds), results.best(seconds)) == (2.0, 1.0)


def test_targets_are_judged_by_medians_or_by_the_best() -> None:
    measured = {
        ("speed", "64 users, 0 idle", HAND): [10.0],
        ("speed", "64 users, 0 idle", FOLDED): [4.0, 3.9, 6.0],
        ("speed", "70% open, 0 idle", HAND): [10.0],
        ("speed", "70% open, 0 idle", FOLDED): [3.9],
        ("speed", "64 users, 1,000,000 idle", FOLDED): [1.0, 5.0, 1.0],
        ("speed", "70% open, 1,000,000 idle", FOLDED): [3.0],
        ("compile", "all, CPU", GENERAL): [59.0],
        ("compile", "all, CPU", FOLDED): [62.0],
        ("memory", "peak, 10,000,000 idle", GENERAL): [1.9e9],
        ("call", "simulate_stream", "here"): [2.8],
        ("call", "simulate_stream", "other checkout"): [2.0],
    }
    results = Results({Metric(*name): values for name, values in measured.items()})
    found = {
        v.target.name: (round(v.median, 3), round(v.best, 3), v.reached) for v in verdicts(results)
    }
    assert found == {
        "C engine, folded / C by hand, 64 users, 0 idle": (0.4, 0.6, True),
        "C engine, folded / C by hand, 70% open, 0 idle": (0.39, 0.39, False),
        "time per request, 64 users, 1,000,000 idle / none, C engine, folded": (4.0, 1.2, True),
        "time per request, 70% open, 1,000,000 idle / none, C engine, folded": (1.3, 1.3, False),
        "compile: all, CPU, C engine, general": (59.0, 59.0, True),
        "compile: all, CPU, general and folded": (121.0, 121.0, False),
        "memory, GB: peak, 10,000,000 idle": (1.9, 1.9, True),
        "whole call, simulate_stream: here / other checkout": (1.4, 1.4, True),
    }
    console = Console(width=200)
    with console.capture() as capture:
        for table in (*metric_tables(results), target_table(verdicts(results))):
            console.print(rich_table(table))
    rows = [" ".join(line.split()) for line in capture.get().splitlines()]
    # Rates are in millions; a target that was not measured has a row, too.
    assert "64 users, 0 idle C by hand 1e-05 1e-05 1" in rows
    assert "compile: one, CPU, C engine, general - - ≤ 2.5 - not measured" in rows
    assert "memory, GB: peak, 10,000,000 idle 1.9 1.9 ≤ 2 - reached" in rows


# Processes


def test_a_failing_process_is_a_sentence() -> None:
    with pytest.raises(processes.ChildError, match="ended with 1: ZeroDivisionError: division"):
        processes.run_child(sys.executable, "-c", "1 / 0")
    with pytest.raises(processes.ChildError, match="'-c exit 3' ended with 3: no message"):
        processes.run_child("sh", "-c", "exit 3")


def test_cpu_time_is_that_of_a_process_and_its_own_children() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\nprint(7)"
    child = processes.run_child(sys.executable, "-c", nested)
    assert child.output == "7\n"
    assert child.cpu_s > 0.2
    assert processes.run_child("sh", "-c", "echo $SOME_WORD", SOME_WORD="given").output == "given\n"


def test_a_child_runs_in_an_empty_folder_so_that_a_study_finds_no_results() -> None:
    assert processes.run_child("sh", "-c", "ls -A; touch left").output == ""
    assert processes.run_child("sh", "-c", "ls -A").output == ""


def test_memory_grows_with_idle_connections() -> None:
    none, many = (
        processes.child_value("peak_memory", c.REFERENCE, idle, "1000") for idle in ("0", "100000")
    )
    assert 64 < (many - none) / 100_000 < 4_000


def test_another_checkout_makes_the_same_call() -> None:
    plan = Plan(repetitions=1, call_connections=1_000, against=sys.executable)
    bench = Bench(plan, example_profile())
    jobs = [job for job in processes.call_jobs(bench) if "simulate and summarise" in job.text]
    assert [job.text.rpartition(", ")[2] for job in jobs] == ["here", "other checkout"]
    for job in jobs:
        job.do()
    assert [metric.subject for metric in bench.results] == ["here", "other checkout"]


# Options


def test_the_options_choose_groups_and_sizes() -> None:
    plan = plan_of(only=["speed"], idle=[5, 0, 5])
    assert plan.groups == ("speed",)
    assert plan.idle == (0, 5)
    quick = plan_of(quick=True)
    assert "study" not in quick.groups
    assert quick.connections == 20_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "sped"], "--only: must be one of speed, "),
        (["--mechanism", "poll2"], '(did you mean "poll"?), got "poll2"'),
        (["--idle", "-1"], "--idle must be 0 to 10000000, got -1"),
        (["--json", "/nowhere/at/all.json"], "--json: the folder of /nowhere/at/all.json does not"),
        (["--profile", "/nowhere.toml"], "--profile: there is no file /nowhere.toml"),
        (["--against", "/no/python"], "--against must be a Python interpreter, got /no/python"),
    ],
)
def test_an_option_out_of_its_range_is_a_sentence(options: list[str], message: str) -> None:
    refused = lab("bench", *options)
    assert refused.exit_code == 2
    assert message in refused.stderr


@pytest.mark.parametrize(("option", "least"), [("--connections", 1000), ("--repetitions", 1)])
def test_a_number_out_of_its_range_is_refused(option: str, least: int) -> None:
    refused = lab("bench", option, least - 1)
    assert refused.exit_code == 2
    assert option in refused.stderr
    assert f"{least:,}" in refused.stderr
