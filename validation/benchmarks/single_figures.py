"""Figures that need a fresh process each: peak memory, start, first compilation, growth, stream."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

from ...sim.compiled.code_cache import CACHE_VARIABLE
from .plan import FULL_MEMORY_CONNECTIONS, Plan
from .scenarios import MECHANISMS
from .targets import Target

SHIPPED = "epoll_10k_idle"
_MEMORY = Target(4e9, at_least=False)
_START = Target(1.5, at_least=False)
_COMPILATION = Target(30.0, at_least=False)
_CHILD_SECONDS_MAX = 3_600

WARM_START = """
import sys
import dispatchsim as ds

name = sys.argv[1]
costs = ds.default_profile().costs(name, open_connections=0, free_clients=True)
trace = ds.open_loop(rate_per_s=10_000, seconds=0.01, seed=1)
settings = ds.RunSettings(duration_ns=20_000_000)
outcome = ds.simulate(name, trace, costs, settings, engine="fast")
print(ds.summarise(outcome).replied, flush=True)
"""
COMMAND = """
import sys
from dispatchsim.__main__ import main

sys.argv = ["dispatchsim", "run", sys.argv[1]]
main()
"""


class Figure(NamedTuple):
    """One figure: its repetitions, and what it was to be (None: nothing that it can be held to)."""

    name: str
    values: tuple[float, ...]
    unit: str
    target: Target | None = None

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        return statistics.median(self.values)

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        return None if self.target is None else self.target.reached(self.median)


class ChildError(RuntimeError):
    """A process did not do what it was started for; the message is what it said last."""


class SingleFigures:
    """The figures, and how many steps it takes to have them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.steps = 4 + len(plan.compiled) + plan.repetitions

    def measure(self, told: Callable[[], None]) -> list[Figure]:
        """Measure all; *told* hears of every step."""
        plan = self.plan
        memory = child("peak_memory", plan.memory_connections)
        told()
        starts: dict[str, list[float]] = {"epoll_level": [], SHIPPED: []}
        # Whatever comes first would pay for reading files and compiling.
        seconds_of(WARM_START, "epoll_level")
        seconds_of(COMMAND, SHIPPED)
        told()
        for _ in range(plan.repetitions):
            starts["epoll_level"].append(seconds_of(WARM_START, "epoll_level"))
            starts[SHIPPED].append(seconds_of(COMMAND, SHIPPED))
            told()
        compilations = []
        for mechanism in plan.compiled:
            name = f"first compilation of {mechanism}, start to first result"
            compilations.append(Figure(name, (compilation_s(mechanism),), "s", _COMPILATION))
            told()
        grown = child("growth", plan.growth_runs)
        told()
        streamed = child("stream", plan.stream_connections)
        told()
        n, full = plan.memory_connections, FULL_MEMORY_CONNECTIONS
        # A smaller run says nothing of the large one's bound.
        bound = _MEMORY if n == full else None
        return [
            Figure(
                f"peak memory, {n:,} connections, 90% idle", (memory["peak_bytes"],), "B", bound
            ),
            Figure(
                "warm start: python -c to first result", tuple(starts["epoll_level"]), "s", _START
            ),
            Figure(f"warm start: dispatchsim run {SHIPPED}", tuple(starts[SHIPPED]), "s", _START),
            *compilations,
            *growth_figures(plan.growth_runs, grown),
            *stream_figures(streamed),
        ]


def growth_figures(n_runs: int, grown: dict[str, float]) -> list[Figure]:
    """Return the figures of *n_runs* short runs in one process."""
    early = min(1_000, n_runs // 10)
    said = {
        "before_bytes": "memory before short runs",
        "early_bytes": f"memory after {early:,} short runs",
        "after_bytes": f"memory after {n_runs:,} short runs",
        "collected_bytes": "memory after the garbage collector",
    }
    return [Figure(name, (grown[key],), "B") for key, name in said.items()]


def stream_figures(streamed: dict[str, float]) -> list[Figure]:
    """Return the figures of a streamed run."""
    name = f"stream of {streamed['replied']:,.0f} connections"
    return [
        Figure(name, (streamed["run_s"],), "s"),
        Figure(f"{name}: rate", (streamed["replied"] / streamed["run_s"],), "/s"),
        Figure(f"{name}: peak memory", (streamed["peak_bytes"],), "B"),
    ]


def child(name: str, n: int) -> dict[str, float]:
    """Return what the function *name* of children.py finds in a process of its own.

    Raises
    ------
    ChildError
        If the process fails or runs for an hour.
    """
    module = f"{__package__}.children"
    command = [sys.executable, "-P", "-m", module, name, str(n)]
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=_CHILD_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise ChildError(f"{name} {n}: no result after {_CHILD_SECONDS_MAX} s") from None
    if finished.returncode != 0:
        raise ChildError(f"{name} {n}: {_last_line(finished.stderr, finished.returncode)}")
    found: dict[str, float] = json.loads(finished.stdout)
    return found


def seconds_of(code: str, argument: str, **environment: str) -> float:
    """Return the wall time from starting Python with *code* to its last word.

    Raises
    ------
    ChildError
        If it fails, or says nothing.
    """
    began_s = time.perf_counter()
    ended_s = math.nan
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in process.stdout:
            ended_s = time.perf_counter()
        errors = process.stderr.read()
    if process.returncode != 0 or math.isnan(ended_s):
        raise ChildError(f"python -c ... {argument}: {_last_line(errors, process.returncode)}")
    return ended_s - began_s


def compilation_s(mechanism: str) -> float:
    """Return the wall time to a first result where no code is kept on disk."""
    assert mechanism in MECHANISMS
    with tempfile.TemporaryDirectory() as folder:
        return seconds_of(WARM_START, mechanism, **{CACHE_VARIABLE: folder})


def _last_line(text: str, returncode: int) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else f"it ended with {returncode} and said nothing"
