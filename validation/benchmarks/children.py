"""What single figures are taken of: each function is the whole life of a fresh process.

    python -P -m dispatchsim.validation.benchmarks.children NAME NUMBER

prints one JSON object; the parent is single_figures.py.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from itertools import cycle, islice

from ...calibration.cost_profile import default_profile
from ...models.simulate import simulate, simulate_stream
from ...sim.metrics import summarise
from .contestants import FAST, run_engine
from .scenarios import MECHANISMS, Case, blocks_of, costs_of, scenario_of
from .timing import status_bytes

_IDLE_SHARE = 0.9
_SHORT_RUN = 100  # connections
_FIRST_RUNS = 1_000

Figures = dict[str, float]


def peak_memory(n: int) -> Figures:
    """Simulate *n* connections of which nine in ten are idle, and say how large the process got."""
    case = Case("epoll_level", idle=int(_IDLE_SHARE * n))
    run_engine(FAST, scenario_of(case, costs_of(default_profile(), case), n - case.idle))
    return {"peak_bytes": status_bytes("VmHWM")}


def growth(n_runs: int) -> Figures:
    """Make *n_runs* short runs, of all mechanisms in turn, and say how large the process was.

    Once each before the first figure, so that their compiled code is there.
    """
    profile = default_profile()
    scenarios = []
    for mechanism in MECHANISMS:
        case = Case(mechanism)
        scenarios.append(scenario_of(case, costs_of(profile, case), _SHORT_RUN))
        simulate(*scenarios[-1], engine="fast")
    figures = {"before_bytes": status_bytes("VmRSS")}
    for i, scenario in enumerate(islice(cycle(scenarios), n_runs), start=1):
        summarise(simulate(*scenario, engine="fast"))
        if i == min(_FIRST_RUNS, n_runs // 10):
            figures["early_bytes"] = status_bytes("VmRSS")
    figures["after_bytes"] = status_bytes("VmRSS")
    # What is left now is lost; the rest only waited for the garbage collector.
    gc.collect()
    return {**figures, "collected_bytes": status_bytes("VmRSS")}


def stream(n: int) -> Figures:
    """Stream about *n* connections through the fast engine, and say how long and how large."""
    case = Case("epoll_level")
    costs = costs_of(default_profile(), case)
    few, settings = blocks_of(case, costs, _SHORT_RUN)
    simulate_stream(case.mechanism, few, costs, settings)  # its compiled code
    blocks, settings = blocks_of(case, costs, n)
    began_s = time.perf_counter()
    summary = simulate_stream(case.mechanism, blocks, costs, settings)
    run_s = time.perf_counter() - began_s
    if summary.replied != summary.offered:
        raise RuntimeError(f"{summary.offered} were offered, {summary.replied} answered")
    return {"run_s": run_s, "replied": summary.replied, "peak_bytes": status_bytes("VmHWM")}


CHILDREN: dict[str, Callable[[int], Figures]] = {
    "peak_memory": peak_memory,
    "growth": growth,
    "stream": stream,
}
"""What can be asked for, by name."""

if __name__ == "__main__":
    print(json.dumps(CHILDREN[sys.argv[1]](int(sys.argv[2]))))
