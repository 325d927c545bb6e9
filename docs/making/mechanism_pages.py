"""A page for each mechanism of the catalogue: its source, what it does, what it costs, its picture.

catalogue, module docstrings, tables of costs ──► explanation/mechanisms/NAME.md, parts.md

The picture is a timeline, of the same clients for all mechanisms, so that two can be compared:

    scenario of NAME, a profile with its costs ─► reference engine ─► Recording ─► NAME.svg

One mechanism differs by necessity: threads that block have a thread for each client, and no idle
clients.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dispatchsim as ds
from dispatchsim import models
from dispatchsim.calibration.profiles.choosing import EXAMPLE
from dispatchsim.calibration.profiles.cost_profile import Profile, shipped
from dispatchsim.models.catalogue import CATALOGUE, CSupport, Entry, server_of
from dispatchsim.sim.state.mechanism import Trait
from dispatchsim.validation.drawing.figures import to_svg

from .reference_pages import cost_table, escaped, opening

_NOT_PARTS = ("built_in", "catalogue", "client_settings", "entry", "program_settings", "simulate")
_WITHIN_MODELS = (1, 2)
"""Dots of an import that stays in `models`, whose folders are one level deep."""
_INDEX_HEAD = """# Mechanisms

Each mechanism is one file that both engines run. Its rules are coded; outcomes, such as how many
events a call returns, are results.

| mechanism | what it does | source | C server runs on |
|---|---|---|---|
"""


def index_page() -> str:
    """Return the page that lists all mechanisms."""
    rows = [
        f"| [`{name}`]({name}.md) | {escaped(summary(entry))} | {escaped(entry.source)} "
        f"| {entry.c_support} |"
        for name, entry in CATALOGUE.items()
    ]
    tree = ["", "```{toctree}", ":hidden:", "", *CATALOGUE, "parts", "```", ""]
    return _INDEX_HEAD + "\n".join(rows + tree)


def summary(entry: Entry) -> str:
    """Return what a mechanism does, without its name."""
    return entry.about.split(": ", 1)[-1]


def mechanism_page(name: str, *, picture: str) -> str:
    """Return the page of the mechanism *name*; *picture* is the file of its timeline."""
    entry = CATALOGUE[name]
    module = importlib.import_module(entry.module)
    file = entry.module.rpartition(".")[2]
    profile = priced_by(name)
    lines = [
        f"# `{name}`\n",
        f"{escaped(entry.about)}\n",
        f"{_also_called(entry)}**Source**: {escaped(entry.source)}. "
        f"**Program**: {_program(entry)}. **C server**: {_c_server(entry)}.\n",
        "## How it works\n",
        text_of_mechanism(module, entry),
        _timeline(name, picture, profile),
    ]
    lines += ["## What it costs\n", f"{escaped(opening(entry.costs))}\n", _prices(name)]
    lines += [cost_table(name, entry.costs, profile)]
    lines += ["## In the source\n", _in_the_source(module, file)]
    return "\n".join(lines)


def _also_called(entry: Entry) -> str:
    """Return the names that a scenario may have for the mechanism besides its own."""
    names = ", ".join(f"`{alias}`" for alias in entry.aliases)
    return f"**Also called**: {names}. " if names else ""


def priced_by(name: str) -> Profile:
    """Return the first profile with costs of *name*: measured ones first, then borrowed."""
    shown_first = sorted(shipped().values(), key=lambda profile: profile.name != EXAMPLE)
    for prices in ("measured", "lent"):
        for profile in shown_first:
            if profile.prices(name) == prices:
                return profile
    raise ValueError(f"{name}: no shipped profile has costs for it")


def _program(entry: Entry) -> str:
    if entry.program == "event_loop":
        return "the [event loop](parts.md#part-event-loop)"
    serve = server_of(entry).serve
    module = serve.__module__.rpartition(".")[2]
    is_part = module not in _mechanism_files()
    return f"[{module}](parts.md#{_anchor(module)})" if is_part else f"`models/{_paths()[module]}`"


def _c_server(entry: Entry) -> str:
    if entry.c_support is CSupport.NONE:
        return "none"
    return f"`calibration/c/servers/{entry.c_server}.c`, on {entry.c_support}"


def _timeline(name: str, picture: str, profile: Profile) -> str:
    return (
        f"![What the server's CPU does with {name}, call by call, and the queues below it]"
        f"({picture})\n\n"
        f"*A piece of a run with costs of {profile.name}: each CPU's calls, interrupts and sleep, "
        "and the lengths of its queues below.*\n"
    )


def _prices(name: str) -> str:
    """Return which shipped profiles have costs for *name*."""
    words = {"measured": "measured", "lent": "borrowed"}
    said = [f"{words[kind]} in {', '.join(who)}" for kind, who in _who_prices(name).items() if who]
    return f"Its costs are {'; '.join(said)}.\n"


def _who_prices(name: str) -> dict[str, list[str]]:
    profiles = shipped().items()
    return {
        kind: [f"`{who}`" for who, profile in profiles if profile.prices(name) == kind]
        for kind in ("measured", "lent")
    }


def _in_the_source(module: ModuleType, file: str) -> str:
    """Return where the mechanism is, and the parts that it is built on."""
    parts = [f"[{part}](parts.md#{_anchor(part)})" for part in parts_of(module)]
    built_on = f" It is built on {', '.join(parts)}." if parts else ""
    path = _paths()[file]
    return f"{{download}}`models/{path} </models/{path}>`.{built_on}\n"


def parts_of(module: ModuleType) -> list[str]:
    """Return the names of the modules beside *module* that it imports and that are no mechanism."""
    tree = ast.parse(inspect.getsource(module))
    imported = [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level in _WITHIN_MODELS and node.module
    ]
    names = {module.rpartition(".")[2] for module in imported}
    return sorted(names & set(part_names()))


def part_names() -> list[str]:
    """Return the modules of `models` that several mechanisms, or programs, are built of."""
    return [name for name in _paths() if name not in _NOT_PARTS and name not in _mechanism_files()]


def _paths() -> dict[str, Path]:
    """Return the modules of `models` by name, as files in it."""
    assert models.__file__
    folder = Path(models.__file__).parent
    paths = sorted(folder.rglob("*.py"), key=lambda path: path.stem)
    return {path.stem: path.relative_to(folder) for path in paths if path.stem != "__init__"}


def _mechanism_files() -> set[str]:
    return {entry.module.rpartition(".")[2] for entry in CATALOGUE.values()}


def parts_page() -> str:
    """Return the page on the parts of mechanisms and server programs."""
    lines = ["# Programs and parts\n", "Parts that several mechanisms share, a file each.\n"]
    for name in part_names():
        path = _paths()[name]
        module = importlib.import_module(".".join([models.__name__, *path.with_suffix("").parts]))
        title = name.replace("_", " ").capitalize()
        lines += [f"({_anchor(name)})=", f"## {title}\n", text_of(module)]
        lines += [f"{{download}}`models/{path} </models/{path}>`\n"]
    return "\n".join(lines)


def _anchor(name: str) -> str:
    return f"part-{name.replace('_', '-')}"


def text_of(module: ModuleType) -> str:
    """Return the docstring of *module* as MyST: what is indented is drawn as it stands."""
    return _as_myst(inspect.getdoc(module) or "")


def text_of_mechanism(module: ModuleType, entry: Entry) -> str:
    """Return the docstring behind a mechanism's name in *module*, or else that of the module.

    The first paragraph is left out if it only repeats `about`.
    """
    names = {name for name, value in vars(module).items() if value is entry.mechanism}
    body = ast.parse(inspect.getsource(module)).body
    for pair in itertools.pairwise(body):
        match pair:
            case (ast.Assign([ast.Name(name)]), ast.Expr(ast.Constant(str(text)))):
                if name in names:
                    return _as_myst(inspect.cleandoc(text), without=entry.about)
    return _as_myst(inspect.getdoc(module) or "", without=entry.about)


def _as_myst(text: str, *, without: str = "") -> str:
    paragraphs = text.split("\n\n")
    return "\n".join(_written([each for each in paragraphs if " ".join(each.split()) != without]))


def _written(paragraphs: list[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        lines = paragraph.splitlines()
        if all(line.startswith("    ") or not line.strip() for line in lines):
            yield "\n".join(["```text", *(line.removeprefix("    ") for line in lines), "```\n"])
            continue
        text, *sources = re.split(r"^(Sources?: )", paragraph, maxsplit=1, flags=re.M)
        if text.strip():
            yield f"{escaped(text.strip())}\n"
        if sources:
            yield f"**{sources[0].strip()}** {escaped(sources[1])}\n"


RATE = "12000/s"
IDLE = 400
BEGIN, LENGTH = "20 ms", "1 ms"
_THREADS = 8
_RUN_TO = "30 ms"


def scenario_of(name: str) -> ds.Scenario:
    """Return the scenario whose run is drawn on the page of the mechanism *name*."""
    server: dict[str, Any] = {"mechanism": name}
    idle = IDLE
    if Trait.IN_CALLS in CATALOGUE[name].mechanism.traits:
        server["workers"], idle = _THREADS, 0
    return ds.Scenario.of(
        server=server,
        load={"loop": "open", "rate": RATE},
        idle={"connections": idle},
        run={"duration": _RUN_TO, "warm_up": "10 ms"},
    )


def draw(name: str, path: Path) -> None:
    """Write the timeline of the mechanism *name* as SVG."""
    recording = ds.record(scenario_of(name), profile=priced_by(name), begin=BEGIN, length=LENGTH)
    path.write_text(to_svg(recording.timeline(), name))
