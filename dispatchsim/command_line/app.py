"""The command line: which commands there are. Each module is imported when its command is called.

    dispatchsim --help ─► the table below
    dispatchsim run X  ─► the table ─► run.py ─► NumPy and all that a run needs

So `--help` imports neither NumPy nor pydantic, and `schema` none of what simulates.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from .door import Door
from .module_imports import imports

HELP = """Forecast how a server copes with its connections: from select to io_uring.

Costs come from profiles that real C servers were measured for; a scenario file says
which server, which clients, how long. A first look:

    dispatchsim demo                           forecast beside measured runs
                                               (under a minute)

    dispatchsim new                            a scenario of your own, by questions

    dispatchsim scenarios                      example scenarios, to run or to copy

    dispatchsim run epoll_10k_idle             what the simulator says of one

    dispatchsim compare poll_10k_idle          the mechanisms beside each other

    dispatchsim capacity poll_10k_idle --p99 "50 ms"

    dispatchsim explore                        a page with sliders

For a machine of your own: measure, calibrate, validate.
"""


COMMANDS = {
    "new": "new.new",
    "run": "run.run",
    "compare": "run.compare",
    "demo": "run.demo",
    "capacity": "studies.capacity",
    "sweep": "studies.sweep",
    "tune": "studies.tune",
    "forecast": "studies.forecast",
    "sensitivity": "studies.sensitivity",
    "steady": "studies.steady",
    "timeline": "recordings.timeline",
    "step": "recordings.step",
    "scenarios": "information.scenarios",
    "mechanisms": "information.mechanisms",
    "programs": "information.programs",
    "profiles": "information.profiles",
    "fields": "information.fields",
    "schema": "information.schema",
    "measure": "machine.measure",
    "calibrate": "calibrate.calibrate",
    "validate": "validate.validate",
    "results": "results.results",
    "cache": "cache.show_cache",
    "explore": "explore.explore",
    "import": "import_runs.import_runs",
}
"""The commands in the order of the help: the module that has each, and its function there."""


LAB_HELP = """What the tests and the README of dispatchsim rest on: measured again, and compared.

Its commands need what is in the sources of dispatchsim, or a machine to measure.
"""
LAB = {
    "overload": "lab.overload",
    "interrupt-load": "lab.interrupt_load",
    "overflow-onset": "lab.overflow_onset",
    "call-counts": "lab.call_counts",
    "ablation": "lab.ablation",
    "forecast-grid": "lab.forecast_grid",
    "misses": "lab.misses",
    "what-measuring-buys": "lab.what_measuring_buys",
    "coverage": "lab.coverage",
    "reported": "lab.reported",
    "impatient": "lab_measuring.impatient",
    "kept": "lab_measuring.kept",
    "gaps": "lab_measuring.gaps",
    "far-end": "lab_measuring.far_end",
    "measure-servers": "lab_measuring.measure_servers",
    "report-servers": "lab_measuring.report_servers",
    "measure-unmerged": "lab_measuring.measure_unmerged",
    "unmerged-tables": "lab_measuring.unmerged_tables",
    "instructions": "lab_measuring.instructions",
    "bench": "lab_measuring.bench",
    "viewers": "lab_measuring.viewers",
    "memory-prices": "lab_measuring.memory_prices",
    "period-profiles": "lab_measuring.period_profiles",
}


def about(place: str) -> str:
    """Return the first line of the docstring of the function at *place*, which is not imported."""
    module, function = place.split(".")
    after = _source(module).partition(f"\ndef {function}(")[2]
    return after.partition('\n    """')[2].partition("\n")[0].removesuffix('"""')


@functools.cache
def _source(module: str) -> str:
    return Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")


class Listed(TyperGroup):
    """A group of the commands in a table, which imports the one that is called."""

    table: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        listed = {name: TyperCommand(name, help=about(place)) for name, place in self.table.items()}
        self.commands = {**listed, **self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command in *args*, the command itself, and its own arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.table:
            command = loaded(name, self.table)
        return name, command, rest


class Commands(Listed, Door):
    """The group of all commands."""

    table = COMMANDS


class Lab(Listed):
    """The group of the laboratory's commands."""

    table = LAB


def loaded(name: str, table: Mapping[str, str] = COMMANDS) -> Any:
    """Import the command *name* of *table* and return it."""
    module, function = table[name].split(".")
    with imports():
        found = getattr(import_module(f".{module}", __package__), function)
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
    )
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown"
)


@app.callback(help=HELP)
def _dispatchsim() -> None:
    """Hold the help of the whole."""


app.add_typer(
    typer.Typer(cls=Lab, no_args_is_help=True, rich_markup_mode="markdown"),
    name="lab",
    help=LAB_HELP,
)
