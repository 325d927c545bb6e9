"""The reference of the command line, made from the commands themselves.

Typer's app ─► one section a command ─► its help, arguments, options with types and defaults
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from dispatchsim.command_line.app import app

_HEAD = """# Command line

Each command, argument and option below is read from the program; `dispatchsim COMMAND --help` says
the same. The exit code is 0 when all is done, 2 when what was asked for cannot be (one sentence on
standard error says why), 130 after Ctrl-C. Results go to standard output, everything else to
standard error.
"""


def command_page() -> str:
    """Return the page on the command line."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("dispatchsim", [], resilient_parsing=True)
    return "\n".join([_HEAD, *_sections(root, context, "dispatchsim")])


def _sections(group: Any, context: Any, path: str) -> Iterator[str]:
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        below = command.make_context(name, [], parent=context, resilient_parsing=True)
        yield section(command, below, f"{path} {name}")
        if hasattr(command, "list_commands"):
            yield from _sections(command, below, f"{path} {name}")


def section(command: Any, context: Any, path: str) -> str:
    """Return the section on one command."""
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    pieces = [piece.strip("{}") for each in arguments for piece in each.get_usage_pieces(context)]
    usage = " ".join([path, *pieces, "[OPTIONS]"])
    parts = [
        f"(command-{path.replace(' ', '-')})=",
        f"## `{path}`\n",
        f"```text\n{usage}\n```\n",
        f"{escaped(inspect.cleandoc(command.help or ''))}\n",
        f"```{{program}} {path}\n```\n",
    ]
    return "\n".join([*parts, *(_parameter(p, context) for p in shown)])


def _parameter(parameter: Any, context: Any) -> str:
    """Return the entry of one argument or option, as its help has it."""
    names, text = parameter.get_help_record(context)
    return "\n".join([f"```{{option}} {names.replace(' / ', ', ')}", "", escaped(text), "```\n"])


def escaped(text: str) -> str:
    """Return plain text as MyST reads it: nothing of it is markup but what is in backticks."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        for character in "\\*_<>[]{}":
            parts[i] = parts[i].replace(character, f"\\{character}")
    return "`".join(parts)
