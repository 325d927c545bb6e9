"""Time this simulator against itself, against C, and against other simulators: `make bench`.

    python -m dispatchsim.validation.benchmarks [--quick] [--json FILE]

Every case is repeated in turns with all others, so that a burst next door falls on all alike;
medians, lowest and highest are shown. Only the run is timed; set-up stands apart. Before it is
timed, every case is simulated by all who can, and their outcomes must be equal.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...calibration.cost_profile import Profile, ProfileError, default_profile
from ...calibration.machine_facts import machine_facts
from ...sim.whole_files import write_whole
from .by_hand import CompileError, compile_by_hand
from .contestants import FIRST_MODEL, DisagreementError
from .plan import Options, Plan, read_options
from .rates import EngineTimes, Measurements, QueueTimes
from .scenarios import SEED
from .single_figures import ChildError, Figure, SingleFigures
from .single_queue import TOOLS, available
from .tables import figure_table, rate_table, ratio_table
from .targets import ratios
from .timing import spread

_WIDTH_MIN = 132  # of the tables where the output is a file, or a narrow terminal
_INTERRUPTED = 130  # what shells call a process that Ctrl-C has ended


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for, and print it."""
    options = read_options(arguments)
    try:
        profile = Profile.read(options.profile) if options.profile else default_profile()
        _benchmark(options, profile)
    except KeyboardInterrupt:
        print("stopped: nothing was printed or written", file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except (ChildError, DisagreementError, ProfileError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _benchmark(options: Options, profile: Profile) -> None:
    plan = options.plan
    facts = facts_of(plan, profile)
    notes: list[str] = []
    measured: Measurements = {}
    figures: list[Figure] = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(
            *columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True
        ) as progress,
    ):

        def follow(name: str, steps: int) -> Any:
            task = progress.add_task(name, total=steps)
            return lambda: progress.advance(task)

        if "engines" in plan.groups:
            engines = EngineTimes(plan, profile, _by_hand(Path(folder), notes))
            measured |= engines.measure(follow("engines", engines.steps))
            progress.console.print("engines: done")
        if "queue" in plan.groups:
            missing = [tool for tool in TOOLS if tool not in available()]
            notes += [f"{tool} is not installed: no row" for tool in missing]
            queue = QueueTimes(plan)
            measured |= queue.measure(follow("queue", queue.steps))
            progress.console.print("queue: done")
        if "single" in plan.groups:
            single = SingleFigures(plan)
            figures = single.measure(follow("single figures", single.steps))
            progress.console.print("single figures: done")
    if options.json is not None:
        content = raw_figures(facts, measured, figures)
        write_whole(options.json, json.dumps(content, indent=1, allow_nan=False) + "\n")
    _print(facts, plan, measured, figures, notes)


def facts_of(plan: Plan, profile: Profile) -> dict[str, Any]:
    """Return what a reader must know to judge the figures."""
    machine = machine_facts()
    modules = {"NumPy": "numpy", "Numba": "numba", "SimPy": "simpy"}
    versions = {name: metadata.version(module) for name, module in modules.items()}
    return {
        "versions": {
            "dispatchsim": metadata.version("dispatchsim"),
            "Python": platform.python_version(),
            **versions,
            **available(),
            "gcc": str(machine["gcc"]).rpartition(" ")[2] or "none",
        },
        "cpu_model": machine["cpu_model"],
        "cpu_count": machine["cpu_count"],
        "kernel": machine["kernel"],
        "profile": profile.name,
        "seed": SEED,
        "connections": plan.connections,
        "reference_connections": plan.reference_connections,
        "first_model_connections": plan.first_model_connections,
        "repetitions": plan.repetitions,
    }


def raw_figures(
    facts: dict[str, Any], measured: Measurements, figures: Sequence[Figure]
) -> dict[str, Any]:
    """Return everything as plain values for JSON: each repetition of each row, ratios, figures."""
    return {
        "format": "dispatchsim-benchmark/1",
        **facts,
        "rows": [
            {
                "engine": row.engine,
                **row.case._asdict(),
                "bytes_per_connection": _or_none(repetitions[0].bytes_per_connection),
                "n": [m.n for m in repetitions],
                "run_s": [m.run_s for m in repetitions],
                "set_up_s": [m.set_up_s for m in repetitions],
            }
            for row, repetitions in measured.items()
        ],
        "ratios": [
            {
                "name": ratio.name,
                **ratio.case._asdict(),
                "value": _or_none(ratio.value),
                **ratio.target._asdict(),
                "reached": ratio.reached,
            }
            for ratio in ratios(_medians(measured))
        ],
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                "values": list(figure.values),
                **(figure.target._asdict() if figure.target else {}),
                "reached": figure.reached,
            }
            for figure in figures
        ],
    }


def _print(
    facts: dict[str, Any],
    plan: Plan,
    measured: Measurements,
    figures: Sequence[Figure],
    notes: list[str],
) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.width = max(console.width, _WIDTH_MIN)
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    console.print(f"{facts['cpu_model']}, {facts['cpu_count']} CPUs; {versions}")
    console.print(
        f"profile {facts['profile']}, seed {SEED}, free clients; medians of {plan.repetitions} "
        "repetitions in turns, of the run alone"
    )
    if measured:
        console.print(
            f"connections a run: fast and C {plan.connections:,}, reference and other tools "
            f"{plan.reference_connections:,}, first SimPy model {plan.first_model_connections:,}"
        )
        spreads = {row: (spread(found), len(found)) for row, found in measured.items()}
        console.print(rate_table(spreads))
        console.print(
            "/s: connections or customers a second of wall time. B/conn.: memory of a whole run "
            "in a fresh process over all its connections, idle ones included.\nM/M/1 on the fast "
            "engine: the reply is the service, 1 byte a ns, mean 50,000, at least 64."
        )
    slow = (row.engine == FIRST_MODEL and plan.is_slow(row.case.idle) for row in measured)
    if plan.slow_once and any(slow):
        console.print(
            "The first SimPy model is timed once with 1,000,000 idle connections: it takes long "
            "(--repetitions times it as often as the rest)."
        )
    found_ratios = ratios(_medians(measured))
    if found_ratios:
        console.print(ratio_table(found_ratios))
        console.print(
            "Ratios of the medians above. Time a request: wall time on the fast engine with "
            "1,000,000 idle connections over that with 1,000."
        )
    if figures:
        console.print(figure_table(figures))
    for note in notes:
        console.print(f"note: {note}")


def _by_hand(folder: Path, notes: list[str]) -> Path | None:
    try:
        compile_by_hand(folder)
    except CompileError as error:
        notes.append(str(error))
        return None
    return folder


def _medians(measured: Measurements) -> dict[Any, float]:
    return {row: spread(found).median_per_s for row, found in measured.items()}


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


if __name__ == "__main__":
    main()
