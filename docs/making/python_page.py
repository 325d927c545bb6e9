"""The reference of Python: every public name, from its docstring."""

from __future__ import annotations

import inspect
from typing import Any

import dispatchsim as ds

_HEAD = """# Python

```python
import dispatchsim as ds
```

Every name below is one of `ds`. Functions that simulate return objects with a frame of pandas
(`.frame`), a picture (`.plot()`) and a table for notebooks; what the user can mend raises
{py:class}`~dispatchsim.scenario.errors.UserError` or one of its kind, a sentence with field, rule
and value.
"""
_ELSEWHERE = {
    "Work elsewhere": (
        "dispatchsim.store.cluster.cluster",
        "dispatchsim.sim.files.parallel.threads",
        "dispatchsim.sim.files.parallel.processes",
        "dispatchsim.store.Run",
        "dispatchsim.store.simulate_all",
    ),
    "Mechanisms of one's own": (
        "dispatchsim.sim.state.mechanism.Mechanism",
        "dispatchsim.sim.state.mechanism.Program",
        "dispatchsim.sim.engine.reference.ReferenceRun",
    ),
}
_PARTS = (
    "dispatchsim.calibration.profiles.cost.Cost",
    "dispatchsim.studies.objective.Clause",
    "dispatchsim.sim.tcp.listen_queue.Listener",
    "dispatchsim.sim.cpu.processor.Cpu",
    "dispatchsim.calibration.profiles.cost_tables.CostSource",
    "dispatchsim.studies.rows.Estimate",
    "dispatchsim.calibration.running.preparation.Replication",
    "dispatchsim.scenario.faults.FaultSection",
    "dispatchsim.scenario.faults.Flood",
    "dispatchsim.scenario.load.Load",
    "dispatchsim.scenario.sections.PathSection",
    "dispatchsim.scenario.sections.Idle",
    "dispatchsim.scenario.sections.Machine",
    "dispatchsim.scenario.sections.Network",
    "dispatchsim.scenario.sections.Run",
    "dispatchsim.scenario.server.Server",
    "dispatchsim.sim.load.arrivals.Bursts",
    "dispatchsim.sim.load.arrivals.Crowd",
    "dispatchsim.sim.load.arrivals.Ramp",
    "dispatchsim.sim.load.arrivals.Wave",
    "dispatchsim.sim.state.costs.Costs",
    "dispatchsim.sim.kernel.interest_set.InterestSet",
    "dispatchsim.sim.figures.metrics.Cpu",
    "dispatchsim.sim.figures.metrics.Latency",
    "dispatchsim.sim.figures.metrics.PathFigures",
    "dispatchsim.sim.figures.metrics.Rate",
    "dispatchsim.sim.output_analysis.interval.Interval",
    "dispatchsim.sim.cpu.processor.Worker",
    "dispatchsim.sim.load.reply_sizes.ReplyMix",
    "dispatchsim.sim.state.settings.Fault",
    "dispatchsim.sim.state.settings.FloodSettings",
    "dispatchsim.sim.state.settings.KernelSettings",
    "dispatchsim.sim.state.settings.PathSettings",
    "dispatchsim.sim.state.world.World",
    "dispatchsim.store.records.Record",
    "dispatchsim.studies.axis.Axis",
    "dispatchsim.studies.capacity.Search",
    "dispatchsim.studies.comparison.Round",
    "dispatchsim.studies.factors.Factor",
    "dispatchsim.studies.forecast.Expected",
    "dispatchsim.studies.objective.Objective",
    "dispatchsim.studies.sensitivity.Index",
    "dispatchsim.studies.steady.RunSeries",
    "dispatchsim.studies.sweep.Swept",
    "dispatchsim.studies.tune.Option",
)
"""Classes that those above are made of."""


def python_page() -> str:
    """Return the page on Python."""
    functions, classes, values = [], [], []
    for name in sorted(ds.__all__, key=str.lower):
        if name == "__version__":
            continue
        thing: Any = getattr(ds, name)
        if inspect.isclass(thing):
            classes.append(_entry("class", f"{thing.__module__}.{thing.__qualname__}"))
        elif callable(thing):
            functions.append(_entry("function", f"{thing.__module__}.{thing.__qualname__}"))
        else:
            values.append(f"- `ds.{name}`: {'a mapping' if isinstance(thing, dict) else thing!r}")
    parts = [_HEAD, "## Functions\n", *functions, "## Classes\n", *classes]
    parts += ["## Values\n", "\n".join(values) + "\n"]
    for heading, names in _ELSEWHERE.items():
        parts.append(f"## {heading}\n")
        parts += [_entry(_kind(name), name) for name in names]
    parts.append("## What they are made of\n")
    parts += [_entry("class", name, members=False) for name in _PARTS]
    return "\n".join(parts)


def _kind(name: str) -> str:
    return "class" if name.rpartition(".")[2][0].isupper() else "function"


def _entry(kind: str, name: str, *, members: bool = True) -> str:
    option = "   :members:\n" if kind == "class" and members else ""
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{option}```\n"
