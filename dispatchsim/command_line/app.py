"""The command line: which commands there are. Each module is imported when its command is called.

    dispatchsim --help ─► the tables below
    dispatchsim run X  ─► the tables ─► run.py ─► NumPy and all that a run needs

So `--help` imports neither NumPy nor pydantic, and `schema` none of what simulates.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from ..scenario.errors import UserError
from .door import Door
from .help_page import ALL, PROGRAM, HelpedCommand, path_of, rows, usage
from .module_imports import imports
from .usage_errors import unknown_command

TITLE = "Forecast how a server handles its connections, from measured costs."
EXAMPLE = 'dispatchsim capacity poll_10k_idle --p99 "50 ms"'

COMMANDS = {
    "run": "run.run",
    "compare": "run.compare",
    "capacity": "studies.capacity",
    "sweep": "studies.sweep",
    "tune": "studies.tune",
    "forecast": "studies.forecast",
    "sensitivity": "studies.sensitivity",
    "steady": "studies.steady",
    "timeline": "recordings.timeline",
    "step": "recordings.step",
    "explore": "explore.explore",
    "scenarios": "information.scenarios",
    "mechanisms": "information.mechanisms",
    "programs": "information.programs",
    "profiles": "information.profiles",
    "fields": "information.fields",
    "results": "results.results",
    "new": "new.new",
    "demo": "run.demo",
    "import": "import_runs.import_runs",
    "schema": "information.schema",
    "cache": "cache.show_cache",
}
"""The commands: the module that has each, and its function there."""


class Family(NamedTuple):
    """A command with subcommands."""

    about: str
    example: str
    table: Mapping[str, str]


FAMILIES = {
    "measure": Family(
        "Measure this machine, or a server of your own.",
        "dispatchsim measure machine --quick --output my-machine",
        {
            "machine": "machine.measure_machine",
            "server": "measure_server.measure_server",
            "overload": "machine.measure_overload",
            "flood": "machine.measure_flood",
        },
    ),
    "calibrate": Family(
        "Fit the costs of a measured machine or server.",
        "dispatchsim calibrate machine my-machine",
        {
            "machine": "calibrate.calibrate_machine",
            "server": "calibrate.calibrate_server",
        },
    ),
    "validate": Family(
        "Check the model against measured runs, papers and Linux.",
        "dispatchsim validate machine my-machine",
        {
            "machine": "validate.validate_machine",
            "point": "validate.validate_point",
            "server": "validate.validate_server",
            "papers": "validate.validate_papers",
            "rules": "rules.validate_rules",
        },
    ),
    "lab": Family(
        "Repeat the measurements behind the published accuracy.",
        "dispatchsim lab forecast-errors",
        {
            "forecast-errors": "lab.forecast_errors",
            "equal-cpu": "lab.equal_cpu",
            "ablation": "lab.ablation",
            "overload": "lab.overload",
            "interrupt-load": "lab.interrupt_load",
            "overflow-onset": "lab.overflow_onset",
            "call-counts": "lab.call_counts",
            "forecast-grid": "lab.forecast_grid",
            "what-measuring-buys": "lab.what_measuring_buys",
            "coverage": "lab.coverage",
            "reported": "lab.reported",
            "impatient": "lab_measuring.impatient",
            "kept": "lab_measuring.kept",
            "gaps": "lab_measuring.gaps",
            "client-machine": "lab_measuring.client_machine",
            "packet-times": "lab_measuring.packet_times",
            "late-resets": "lab_measuring.late_resets",
            "measure-servers": "lab_measuring.measure_servers",
            "report-servers": "lab_measuring.report_servers",
            "measure-unmerged": "lab_measuring.measure_unmerged",
            "unmerged-tables": "lab_measuring.unmerged_tables",
            "instructions": "lab_measuring.instructions",
            "memory-costs": "lab_measuring.memory_costs",
            "period-profiles": "lab_measuring.period_profiles",
            "bench": "lab_measuring.bench",
            "viewers": "lab_measuring.viewers",
        },
    ),
}
PANELS = {
    "ask": "run compare capacity sweep tune forecast sensitivity steady",
    "look": "timeline step explore",
    "machine": "measure calibrate validate lab",
    "list": "scenarios mechanisms programs profiles fields results",
    "more": "new demo import schema cache",
}
"""The commands in the order of the help, by what people want."""


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

    @property
    def table(self) -> Mapping[str, str]:
        """The commands of this group that are not groups themselves."""
        return FAMILIES[str(self.name)].table

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        listed = {name: TyperCommand(name, help=about(place)) for name, place in self.table.items()}
        self.commands = {**listed, **self.commands}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*; --help-all of a group is its help."""
        if args[:1] == [ALL]:
            args = ["--help", *args[1:]]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the command in *args*, the command itself, and its own arguments.

        Raises
        ------
        UserError
            If there is none of that name.
        """
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            raise UserError(unknown_command(name, ctx))
        found, command, rest = super().resolve_command(ctx, args)
        if found is not None and found in self.table:
            command = loaded(found, self.table)
        return found, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: each command with its first line."""
        family = FAMILIES[str(self.name)]
        path = path_of(ctx)
        lines = rows(
            ((name, str(self.commands[name].help)) for name in self.list_commands(ctx)),
            column=4 + max(map(len, self.commands)),
        )
        line = f"Usage: {usage(self, path)}"
        last = f"{path} COMMAND --help: its options, and an example"
        formatter.write(
            "\n".join([family.about, "", f"    {family.example}", "", line, "", *lines, "", last])
        )


class Commands(Listed, Door):
    """The group of all commands."""

    @property
    def table(self) -> Mapping[str, str]:
        """The commands that are not groups."""
        return COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return " ".join(PANELS.values()).split()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: commands in groups, each with its first line."""
        lines = [TITLE, "", f"    {EXAMPLE}"]
        for panel, names in PANELS.items():
            lines.append("")
            for i, name in enumerate(names.split()):
                head = "" if i else panel
                first = str(self.commands[name].help).partition("\n")[0]
                lines.append(f"{head:9}{name:13}{first}")
        lines += ["", f"{PROGRAM} COMMAND --help: its options, and an example; {PROGRAM} --version"]
        formatter.write("\n".join(lines))


def loaded(name: str, table: Mapping[str, str] = COMMANDS) -> Any:
    """Import the command *name* of *table* and return it."""
    module, function = table[name].split(".")
    with imports():
        found = getattr(import_module(f".{module}", __package__), function)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name, cls=HelpedCommand)(found)
    return typer.main.get_command(alone)


def _print_version(*, is_asked: bool) -> None:
    if is_asked:
        from .. import __version__

        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
)


@app.callback(help=TITLE)
def _dispatchsim(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=lambda value: _print_version(is_asked=value),
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Take the options of the program itself."""


for _name, _family in FAMILIES.items():
    app.add_typer(
        typer.Typer(cls=Listed, no_args_is_help=True, rich_markup_mode=None),
        name=_name,
        help=f"{_family.about}\n\n{_family.example}",
    )
