"""Whether a command line parses: what takes hours is checked as far as that, and not run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import typer

from dispatchsim.command_line.app import app
from dispatchsim.scenario.errors import UserError

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
_INDENTED = re.compile(r"^    (dispatchsim .*)$", re.M)
_INLINE = re.compile(r"`(dispatchsim\s[^`]*)`")


def check_command(words: Sequence[str]) -> None:
    """Check that *words*, which begin with `dispatchsim`, are a command with its options.

    Raises
    ------
    UserError
        If there is no such command or option, or a value is not of its kind.
    """
    command: Any = typer.main.get_command(app)
    rest = list(words[1:])
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name, *rest = rest
        if name not in command.commands:
            raise UserError(f"{shlex.join(words)}: no command is called {name}")
        context = command.make_context(words[0], [], resilient_parsing=True)
        command = command.resolve_command(context, [name])[1]
    _parse(command, words, rest)


def _parse(command: Any, words: Sequence[str], rest: list[str]) -> None:
    try:
        command.make_context(words[1], rest)
    except typer.Exit:
        return  # --help and the like
    except Exception as error:
        if not hasattr(error, "format_message"):  # of Typer's parser, whichever it brings along
            raise
        raise UserError(f"{shlex.join(words)}: {error.format_message()}") from None


def commands_in(text: str) -> list[str]:
    r"""Return the commands of dispatchsim in a page: indented, fenced or in the running text.

    >>> commands_in("Ask `dispatchsim run x`:\n\n    dispatchsim sweep x # all of it\n")
    ['dispatchsim sweep x', 'dispatchsim run x']
    """
    fenced = [
        line
        for language, block in _FENCE.findall(text)
        if language in ("", "sh", "bash", "console")
        for line in block.splitlines()
        if line.startswith("dispatchsim ")
    ]
    running = _FENCE.sub("", text)
    indented = _INDENTED.findall(running)
    inline = [" ".join(found.split()) for found in _INLINE.findall(running)]
    return [_without_comment(command) for command in (*indented, *fenced, *inline)]


def _without_comment(command: str) -> str:
    return re.sub(r"\s+# .*$", "", command).strip()
