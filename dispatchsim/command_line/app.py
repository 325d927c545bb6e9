"""The command line: which commands there are. Each module is imported when its command is called.

    dispatchsim --help ─► the table below
    dispatchsim run X  ─► the table ─► run.py ─► NumPy and all that a run needs

So `--help` imports neither NumPy nor pydantic, and `schema` none of what simulates.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from .door import Door
from .importing import imports

HELP = """Forecast how a server copes with its connections: from select to io_uring.

Costs come from profiles that real C servers were measured for; a scenario file says
which server, which clients, how long. A first look:

    dispatchsim demo                           forecast beside measured runs
                                               (under a minute)

    dispatchsim scenarios                      example scenarios, to run or to copy

    dispatchsim run epoll_10k_idle             what the simulator says of one

    dispatchsim compare poll_10k_idle          the mechanisms beside each other

    dispatchsim capacity poll_10k_idle --p99 "50 ms"

    dispatchsim explore                        a page with sliders

For a machine of your own: measure, calibrate, validate.
"""


class Command(NamedTuple):
    """A command: the module that has it, the function there, and the first line of its help.

    The line is that of the function's docstring, too, which only an import could read.
    """

    module: str
    function: str
    about: str


COMMANDS = {
    "run": Command("run", "run", "Say what the simulator expects of a SCENARIO, with intervals."),
    "compare": Command(
        "run",
        "compare",
        "Set mechanisms beside each other under one SCENARIO and the same arrivals.",
    ),
    "demo": Command("run", "demo", "Forecast measured runs, draw both, and answer one what-if."),
    "capacity": Command(
        "studies",
        "capacity",
        "Find the load at which a SCENARIO breaks an objective: a range, not a number.",
    ),
    "sweep": Command(
        "studies",
        "sweep",
        "Run a SCENARIO at every combination of the fields that --vary names.",
    ),
    "tune": Command(
        "studies", "tune", "Find the best of the settings that --vary names, under a SCENARIO."
    ),
    "forecast": Command(
        "studies",
        "forecast",
        "Say between what a measured run of a SCENARIO will lie, all doubts together.",
    ),
    "sensitivity": Command(
        "studies",
        "sensitivity",
        "Say which costs and settings a figure of a SCENARIO hangs on (Sobol's indices).",
    ),
    "steady": Command(
        "studies",
        "steady",
        "Say whether a SCENARIO has a steady state, and how long its warm-up must be.",
    ),
    "timeline": Command(
        "recordings",
        "timeline",
        "Draw what a server did for a while: system calls, interrupts, sleep, and its queues.",
    ),
    "step": Command(
        "recordings",
        "step",
        "Make a page that goes through a run step by step: play, pause, back and forth.",
    ),
    "scenarios": Command("information", "scenarios", "List the example scenarios."),
    "mechanisms": Command(
        "information",
        "mechanisms",
        "List the dispatch mechanisms: what each does, its source, its C server, its prices.",
    ),
    "programs": Command(
        "information",
        "programs",
        "List the server programs of the literature, and the keys that each stands for.",
    ),
    "profiles": Command(
        "information",
        "profiles",
        "List the shipped profiles: on which machine the costs were measured.",
    ),
    "schema": Command(
        "information",
        "schema",
        "Print the JSON Schema of scenario files: editors complete and check with it.",
    ),
    "measure": Command(
        "machine",
        "measure",
        "Measure a machine with real C servers (hours; every finished run is on disk).",
    ),
    "calibrate": Command(
        "calibrate",
        "calibrate",
        "Fit a profile of costs: of a machine to what was measured in FOLDER, of a server to RUNS.",
    ),
    "validate": Command(
        "validate",
        "validate",
        "Set forecasts beside the runs measured in each FOLDER, and write one report.",
    ),
    "results": Command(
        "results",
        "results",
        "List the results in FOLDER: one line a scenario, with what differs between them.",
    ),
    "cache": Command(
        "cache",
        "show_cache",
        "Print where compiled engines and C programs are kept, how many, and their size.",
    ),
    "explore": Command(
        "explore",
        "explore",
        "Serve a web page with sliders: what if more clients came, or stayed idle.",
    ),
    "import": Command(
        "import_runs",
        "import_runs",
        "Read runs that other tools measured; say how the server coped, and what they cannot tell.",
    ),
}


LAB_HELP = """What the tests and the README of dispatchsim rest on: measured again, and compared.

Its commands need what is in the sources of dispatchsim, or a machine to measure.
"""
LAB = {
    "overload": Command(
        "lab",
        "overload",
        "Set overload as it was measured beside the simulation of the same runs.",
    ),
    "interrupt-load": Command(
        "lab",
        "interrupt_load",
        "Set what floods of datagrams leave to a process that computes beside the forecast.",
    ),
    "overflow-onset": Command(
        "lab", "overflow_onset", "Compare the load at which RT signals overflow their queue."
    ),
    "call-counts": Command(
        "lab", "call_counts", "Compare the calls that servers make for each request."
    ),
    "ablation": Command("lab", "ablation", "Tell what each effect in the model is worth."),
    "misses": Command(
        "lab",
        "misses",
        "Print how often intervals made of forecasts' misses hold what was measured.",
    ),
    "coverage": Command(
        "lab", "coverage", "Measure how often confidence intervals hold the known truth."
    ),
    "reported": Command(
        "lab",
        "reported",
        "Say whether the committed pictures of measured runs are what the code makes.",
    ),
    "measure-servers": Command(
        "lab_measuring",
        "measure_servers",
        "Measure real servers: the runs that are missing in FOLDER.",
    ),
    "report-servers": Command(
        "lab_measuring",
        "report_servers",
        "Fit real servers, forecast them, and compare with what was measured.",
    ),
    "measure-unmerged": Command(
        "lab_measuring",
        "measure_unmerged",
        "Measure the mechanisms that were never merged into Linux: what FOLDER does not hold yet.",
    ),
    "unmerged-tables": Command(
        "lab_measuring",
        "unmerged_tables",
        "Print the tables of what was never merged, from the records of its runs.",
    ),
    "instructions": Command(
        "lab_measuring",
        "instructions",
        "Print where the instructions of one operating point go, on the emulated target.",
    ),
    "bench": Command(
        "lab_measuring", "bench", "Time the engines beside C by hand and other simulators."
    ),
    "viewers": Command(
        "lab_measuring",
        "viewers",
        "Measure how long those who look at the what-if page wait for their answers.",
    ),
    "period-profiles": Command(
        "lab_measuring",
        "period_profiles",
        "Write the profiles of the papers' machines anew, and say where.",
    ),
}


class Listed(TyperGroup):
    """A group of the commands in a table, which imports the one that is called."""

    table: ClassVar[Mapping[str, Command]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        listed = {
            name: TyperCommand(name, help=command.about) for name, command in self.table.items()
        }
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


def loaded(name: str, table: Mapping[str, Command] = COMMANDS) -> Any:
    """Import the command *name* of *table* and return it."""
    module, function, _ = table[name]
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
