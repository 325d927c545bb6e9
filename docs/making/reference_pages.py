"""The reference pages, each made from the code that it describes, so that it cannot differ.

command line   Typer's app ─► a section a command: its help, arguments, options with defaults
scenario       key_texts   ─► a section for each [section], an entry for each key
profile        TABLES      ─► a section for each table of costs, an entry for each cost
metrics        METRICS     ─► a row for each metric: name, unit, meaning
Python         __all__     ─► every public name, from its docstring
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, get_type_hints

import typer

import dispatchsim as ds
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.profiles.cost import (
    MECHANISM_TABLES,
    SHARED_TABLES,
    required_costs,
    unit_of,
)
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.command_line.app import app
from dispatchsim.command_line.help_page import paragraphs, record, usage
from dispatchsim.scenario.key_texts import KeyText, section_texts
from dispatchsim.scenario.metrics import METRICS
from dispatchsim.sim.state.costs import Curve

from .cost_words import about_cost

_COMMAND_HEAD = """# Command line

Each command, argument and option below is read from the program. `dispatchsim COMMAND --help`
prints the usual options, `dispatchsim COMMAND --help-all` all of them. The exit code is 0 on
success, 2 after a mistake in the request (one sentence on standard error for each), 130 after
Ctrl-C. Results go to standard output, everything else to standard error.
"""


def command_page() -> str:
    """Return the page on the command line."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("dispatchsim", [], resilient_parsing=True)
    return "\n".join([_COMMAND_HEAD, *_sections(root, context, "dispatchsim")])


def _sections(group: Any, context: Any, path: str) -> Iterator[str]:
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        below = command.make_context(name, [], parent=context, resilient_parsing=True)
        yield section(command, f"{path} {name}")
        if hasattr(command, "list_commands"):
            yield from _sections(command, below, f"{path} {name}")


def section(command: Any, path: str) -> str:
    """Return the section on one command."""
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    first, *rest = map(_paragraph, paragraphs(command.help or ""))
    parts = [
        f"(command-{path.replace(' ', '-')})=",
        f"## `{path}`\n",
        first,
        f"```text\n{usage(command, path)}\n```\n",
        *rest,
        f"```{{program}} {path}\n```\n",
    ]
    return "\n".join([*parts, *map(_parameter, shown)])


def _paragraph(paragraph: tuple[bool, str]) -> str:
    """Return a paragraph of a command's help; an example as it is typed."""
    is_example, text = paragraph
    return f"```text\n{text}\n```\n" if is_example else f"{escaped(text)}\n"


def _parameter(parameter: Any) -> str:
    """Return the entry of one argument or option, as its help has it."""
    names, text = record(parameter)
    return "\n".join([f"```{{option}} {names.replace(' / ', ', ')}", "", escaped(text), "```\n"])


def escaped(text: str) -> str:
    """Escape plain text for MyST; text in backticks stays code."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        for character in "\\*_<>[]{}":
            parts[i] = parts[i].replace(character, f"\\{character}")
    return "`".join(parts)


_SCENARIO_HEAD = """# Scenario fields

A scenario is one TOML file. Each field below is read from the model that checks the file, so this
page cannot differ from it; `dispatchsim fields` prints the same, and `dispatchsim schema` the JSON
Schema for an editor.

Quantities carry their unit: kB and KB are 1000 bytes, KiB 1024; Gb/s, Gbps and Gbit/s are the same;
20k/s is 20000/s. A whole number may be written `"20k"`, and a share `"50%"`. An ambiguous unit,
such as GBps, is refused with both readings. Unknown keys, impossible values and contradictions are
refused with the field, the rule and the value, all mistakes at once:

```{command}
:refused:
dispatchsim run poll_10k_idle --set load.rate=2000
```
"""
_PROFILE_HEAD = """# Profile fields

A profile holds what calls, interrupts and scans cost on one machine. It is a TOML file with a table
for each cost, `[cost.TABLE.NAME]`; {doc}`../calibration/README` has the format. Values below are
those of the profile {profile}. A cost that grows with a count has its first and last value.
"""


def scenario_page() -> str:
    """Return the page on the fields of a scenario file."""
    parts = [_SCENARIO_HEAD]
    for section in section_texts().values():
        need = " It must be given." if section.must_be_given else ""
        repeated = " There may be several." if section.is_list else ""
        parts += [
            f"(scenario-{section.name})=",
            f"## `{section.heading}`\n",
            f"{section.about}{need}{repeated}\n",
            *map(key_entry, section.keys),
        ]
    return "\n".join(parts)


def key_entry(key: KeyText) -> str:
    """Return the entry of one key."""
    return "\n".join(
        [
            f"```{{confval}} {key.field}",
            f":type: {key.takes('`')}",
            f":default: {f'`{key.default}`' if key.default else key.begins_as}",
            "",
            key.about,
            "```\n",
        ]
    )


def profile_page() -> str:
    """Return the page on the fields of a profile."""
    profile = example_profile()
    parts = [_PROFILE_HEAD.replace("{profile}", f"`{profile.name}`")]
    parts.append("## Costs of every mechanism\n")
    parts += [_table(table, kind, profile) for table, kind in SHARED_TABLES.items()]
    parts.append(
        "## Costs of one mechanism\n\nA profile may lack a whole table: then the mechanism has no "
        "costs, or borrowed ones. A table may have a `request_ns` of its own, which replaces "
        "`application.request_ns`.\n"
    )
    parts += [_table(table, kind, profile) for table, kind in MECHANISM_TABLES.items()]
    return "\n".join(parts)


def _table(table: str, kind: Any, profile: Profile) -> str:
    head = f"(profile-{table})=\n### `cost.{table}`\n\n{opening(kind)}\n"
    return "\n".join([head, cost_table(table, kind, profile)])


def opening(kind: Any) -> str:
    """Return the first sentence of the docstring of a table of costs."""
    paragraph = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    return f"{paragraph.split('. ')[0].rstrip('.')}."


def cost_table(table: str, kind: Any, profile: Profile) -> str:
    """Return a table of the costs of *kind*: name, words, unit, value in *profile*."""
    hints = get_type_hints(kind)
    rows = [
        f"| `{name}` | {about_cost(kind.__name__, name)} | {_unit(table, name, hints[name])} "
        f"| {_value(table, name, profile, required=name in required_costs(kind))} |"
        for name in kind._fields
    ]
    head = f"| cost | meaning | unit | {profile.name} |"
    return "\n".join([head, "|---|---|---|---|", *rows, ""])


def _unit(table: str, name: str, hint: object) -> str:
    return f"{unit_of(table, name)}, a curve" if hint is Curve else unit_of(table, name)


def _value(table: str, name: str, profile: Profile, *, required: bool) -> str:
    cost = profile.table(table).get(name)
    if cost is None:
        return "not measured" if required else "0 unless given"
    value = f"{cost.value[0]:,.0f}"
    if len(cost.at) > 1:
        value = f"{value} at {cost.at[0]:,}, {cost.value[-1]:,.0f} at {cost.at[-1]:,}"
    return f"{value} (borrowed)" if cost.source.startswith("lent: ") else value


_FIGURE_HEAD = """# Metrics by name and unit

Each run has these metrics. Their names are columns of the store and of every frame, and arguments
of `--metric`, `--columns` and `--where`. Latency begins when a connection or request is *due*, even
if its client is late. Metrics cover the window after the warm-up. Percentiles of all other ranks
are metrics, too: `p97_5_ns`, `p97_5_answered_ns`.

| metric | unit | meaning |
|---|---|---|
"""


def figure_page() -> str:
    """Return the page on metrics."""
    rows = [
        f"| `{name}` | {metric.unit or metric.kind} | {metric.about} |"
        for name, metric in METRICS.items()
    ]
    return _FIGURE_HEAD + "\n".join(rows) + "\n"


_PYTHON_HEAD = """# Python

```python
import dispatchsim as ds
```

Every name below is one of `ds`. Functions that simulate return objects with a frame of pandas
(`.frame`), a picture (`.plot()`) and a table for notebooks. A mistake in the input raises
{py:class}`~dispatchsim.scenario.errors.UserError` or one of its kind, a sentence with field, rule
and value.
"""
_ELSEWHERE = {
    "Work in other processes and on other machines": (
        "dispatchsim.store.cluster.cluster",
        "dispatchsim.sim.files.parallel.threads",
        "dispatchsim.sim.files.parallel.processes",
        "dispatchsim.store.Run",
        "dispatchsim.store.simulate_all",
    ),
    "Your own mechanisms": (
        "dispatchsim.sim.state.mechanism.Mechanism",
        "dispatchsim.sim.state.mechanism.Program",
        "dispatchsim.sim.engine.reference.ReferenceRun",
    ),
}
_PARTS = {
    "calibration.profiles.cost": "Cost CostSource",
    "studies.objective": "Clause Objective",
    "sim.tcp.listen_queue": "Listener",
    "sim.cpu.processor": "Cpu Worker",
    "studies.rows": "Estimate",
    "calibration.running.preparation": "Replication",
    "scenario.faults": "FaultSection Flood",
    "scenario.load": "Load",
    "scenario.sections": "PathSection Idle Machine Network Run",
    "scenario.server": "Server",
    "sim.load.arrivals": "Bursts Crowd Ramp Wave",
    "sim.state.costs": "Costs",
    "sim.kernel.interest_set": "InterestSet",
    "sim.figures.summary": "Cpu Latency PathFigures Rate",
    "sim.output_analysis.interval": "Interval",
    "sim.load.reply_sizes": "ReplyMix",
    "sim.state.client_settings": "PathSettings",
    "sim.state.settings": "Fault FloodSettings",
    "sim.state.world": "World",
    "store.records": "Record",
    "studies.axis": "Axis",
    "studies.capacity": "Search",
    "studies.comparison": "Round",
    "studies.factors": "Factor",
    "studies.forecast": "Expected",
    "studies.past_errors": "PastErrors",
    "studies.sensitivity": "Index",
    "studies.steady": "RunSeries",
    "studies.sweep": "Swept",
    "studies.tune": "Option",
}
"""Classes within those above, by their modules."""


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
    parts = [_PYTHON_HEAD, "## Functions\n", *functions, "## Classes\n", *classes]
    parts += ["## Values\n", "\n".join(values) + "\n"]
    for heading, names in _ELSEWHERE.items():
        parts.append(f"## {heading}\n")
        parts += [_entry(_kind_of(name), name) for name in names]
    parts.append("## Parts of these classes\n")
    parts += [
        _entry("class", f"dispatchsim.{module}.{name}", members=False)
        for module, names in _PARTS.items()
        for name in names.split()
    ]
    return "\n".join(parts)


def _kind_of(name: str) -> str:
    return "class" if name.rpartition(".")[2][0].isupper() else "function"


def _entry(kind: str, name: str, *, members: bool = True) -> str:
    option = "   :members:\n" if kind == "class" and members else ""
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}\n{option}```\n"
