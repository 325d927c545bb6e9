"""Time the engines, C by hand and other simulators in one run.

    dispatchsim lab bench [--quick] [--only GROUP ...] [--json FILE]        make bench ARGS=--quick

Rates are per CPU time of the run alone. Memory is touched before, and contestants take turns.
Ctrl-C prints the results measured so far.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...calibration.profiles.choosing import example_profile
from ...calibration.profiles.cost_profile import Profile
from ...calibration.testbed.machine_facts import machine_facts
from ...sim.files.tables import rich_table
from ...sim.files.whole_files import write_whole
from ..forecast.provenance import source_hash
from .plan import Bench, Job, Plan
from .processes import (
    call_jobs,
    compile_jobs,
    memory_jobs,
    start_jobs,
    study_jobs,
)
from .report import metric_tables, target_table, verdicts
from .scenarios import SEED
from .single_queue import available
from .speed import queue_jobs, speed_jobs, worker_jobs

_WIDTH_MIN = 132  # table width if the output is a file or a narrow terminal
_INTERRUPTED = 130  # the exit status of a process ended by Ctrl-C, as in shells

JOBS: dict[str, Callable[[Bench], list[Job]]] = {
    "speed": speed_jobs,
    "workers": worker_jobs,
    "queue": queue_jobs,
    "call": call_jobs,
    "memory": memory_jobs,
    "compile": compile_jobs,
    "start": start_jobs,
    "study": study_jobs,
}
"""The jobs of each group of metrics."""


def benchmark(plan: Plan) -> int:
    """Measure the metrics of *plan*, print them, and write them if there is a file.

    Returns
    -------
    int
        The exit status: 0, or 130 after Ctrl-C. The results so far are printed.

    Raises
    ------
    ChildError, DisagreementError
        If a process failed, or outcomes differ. The results so far are printed first.
    """
    profile = Profile.read(plan.profile) if plan.profile else example_profile()
    bench = Bench(plan, profile)
    status = _INTERRUPTED
    complete = False
    try:
        _measure(bench)
        status, complete = 0, True
    except KeyboardInterrupt:
        print("stopped: results so far", file=sys.stderr)
    finally:
        facts = facts_of(plan, profile)
        _print(bench, facts)
        if plan.json is not None:
            content = raw_results(bench, facts) | {"complete": complete}
            write_whole(plan.json, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return status


def _measure(bench: Bench) -> None:
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(
        *columns,
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        for group in bench.plan.groups:
            jobs = JOBS[group](bench)
            task = progress.add_task(group, total=len(jobs))
            for job in jobs:
                progress.update(task, description=job.text)
                job.do()
                progress.advance(task)
            progress.remove_task(task)
            console.print(f"{group}: done")


def facts_of(plan: Plan, profile: Profile) -> dict[str, Any]:
    """Return the facts needed to judge the results."""
    machine = machine_facts()
    names = ("dispatchsim", "numpy")
    installed = {dist.metadata["Name"].lower() for dist in metadata.distributions()}
    versions = {name: metadata.version(name) for name in names if name in installed}
    kept = ("cpu_model", "cpu_count", "kernel", "gcc", "date", "id")
    return {
        "machine": {name: machine[name] for name in kept},
        "versions": {"Python": platform.python_version(), **versions, **available()},
        "code": source_hash(),
        "commit": _commit(),
        "profile": profile.name,
        "seed": SEED,
        "connections": plan.connections,
    }


def _commit() -> str:
    """Return the commit of the source tree, marked if files have changed, or "unknown"."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def raw_results(bench: Bench, facts: dict[str, Any]) -> dict[str, Any]:
    """Return everything as plain values for JSON: each repetition, outcomes, targets, notes."""
    return {
        "format": "dispatchsim-benchmark/2",
        **facts,
        "metrics": [
            {**metric._asdict(), "unit": metric.unit, "values": values}
            for metric, values in bench.results.items()
        ],
        "outcomes": [
            {"case": case, "connections": n, "fingerprint": fingerprint, "contestants": names}
            for (case, n), (fingerprint, names) in bench.outcomes.items()
        ],
        "targets": [
            {
                "name": verdict.target.name,
                "median": verdict.median,
                "best": verdict.best,
                "bound": verdict.target.bound,
                "at_least": verdict.target.at_least,
                "by_best": verdict.target.by_best,
                "aim": verdict.target.aim,
                "reached": verdict.reached,
            }
            for verdict in verdicts(bench.results)
        ],
        "notes": bench.notes,
    }


def _print(bench: Bench, facts: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, _WIDTH_MIN)
    machine, versions = facts["machine"], facts["versions"]
    console.print(
        f"{machine['cpu_model']}, {machine['cpu_count']} CPUs, Linux {machine['kernel']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    )
    console.print(
        f"commit {facts['commit']}, profile {facts['profile']}, seed {SEED}, clients without CPU "
        f"cost, {bench.plan.connections:,} connections per compiled run"
    )
    tables = metric_tables(bench.results)
    if bench.results:
        tables.append(target_table(verdicts(bench.results)))
    for table in tables:
        console.print(rich_table(table), "")
    for note in bench.notes:
        console.print(f"note: {note}")
