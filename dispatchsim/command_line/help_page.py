"""The help of a command: one line, an example, its arguments and options; 80 columns, plain text.

    first line of the docstring
        example: lines of the docstring that begin with "dispatchsim "
    Usage, further paragraphs, arguments, options; rarer options with --help-all

Nothing is imported for it but the command's own module.
"""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import typer
from typer.core import TyperCommand

PROGRAM = "dispatchsim"
ALL = "--help-all"
RARE = "Rarer options"
"""The `rich_help_panel` of options that only --help-all shows."""
_WIDTH = 80
_COLUMN = 26
_WORDS_SHOWN = 28
"""Letters of a choice's values that stand beside its option; longer ones are listed in the text."""


class HelpedCommand(TyperCommand):
    """A command with this help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*; print the whole help if it is asked for."""
        if ALL in args and not ctx.resilient_parsing:
            typer.echo(help_page(self, ctx, is_whole=True))
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without rarer options."""
        formatter.write(help_page(self, ctx, is_whole=False))


def path_of(context: Any) -> str:
    """Return the words that call the command of *context*: "dispatchsim measure machine"."""
    names = []
    while context.parent is not None:
        names.append(context.info_name)
        context = context.parent
    return " ".join([PROGRAM, *reversed(names)])


def paragraphs(text: str) -> list[tuple[bool, str]]:
    r"""Return the paragraphs of a docstring, each with whether it is an example.

    >>> paragraphs("Run it.\n\n    dispatchsim run x\n\nIt is\nquick.")
    [(False, 'Run it.'), (True, 'dispatchsim run x'), (False, 'It is quick.')]
    """
    found: list[tuple[bool, str]] = []
    for block in inspect.cleandoc(text).split("\n\n"):
        lines = [line.strip() for line in block.splitlines()]
        if is_example := lines[0].startswith(f"{PROGRAM} "):
            found.append((is_example, "\n".join(lines)))
        else:
            found.append((is_example, " ".join(lines)))
    return found


def example_of(text: str) -> str:
    """Return the first example of a docstring; "" if it has none."""
    return next((block.splitlines()[0] for is_one, block in paragraphs(text) if is_one), "")


def help_page(command: Any, context: Any, *, is_whole: bool) -> str:
    """Return the help of a *command*; rarer options only if *is_whole*."""
    path = path_of(context)
    shown = [each for each in command.params if not each.hidden]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name == "option"]
    usual = [each for each in options if each.rich_help_panel != RARE]
    rare = [each for each in options if each.rich_help_panel == RARE]
    first, *others = paragraphs(command.help or "")
    n_examples = next((i for i, (is_one, _) in enumerate(others) if not is_one), len(others))
    line = (False, f"Usage: {usage(command, path)}")
    parts = [
        *_blocks([first, *others[:n_examples], line, *others[n_examples:]]),
        *_section("Arguments", arguments),
        *_section("Options", usual),
        *(_section(RARE, rare) if is_whole else []),
    ]
    if rare and not is_whole:
        noun = "option" if len(rare) == 1 else "options"
        parts.append(f"{len(rare)} further {noun}: {path} {ALL}")
    return "\n\n".join(parts)


def usage(command: Any, path: str) -> str:
    """Return how *command* is called: its arguments, those that may be absent in brackets."""
    if hasattr(command, "list_commands"):
        return f"{path} COMMAND [OPTIONS]"
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    return " ".join([path, *map(_usage, arguments), "[OPTIONS]"])


def _blocks(blocks: Iterable[tuple[bool, str]]) -> Iterator[str]:
    for is_example, text in blocks:
        if is_example:
            yield textwrap.indent(text, "    ")
        else:
            yield textwrap.fill(text, width(), break_on_hyphens=False, break_long_words=False)


def width() -> int:
    """Return how many columns help has."""
    return min(_WIDTH, shutil.get_terminal_size().columns)


def _section(title: str, parameters: Sequence[Any]) -> list[str]:
    if not parameters:
        return []
    return ["\n".join([f"{title}:", *(rows(map(record, parameters)))])]


def rows(records: Iterable[tuple[str, str]], column: int = _COLUMN) -> Iterator[str]:
    """Yield lines in two columns: names, and texts that are wrapped."""
    for names, text in records:
        wrapped = textwrap.wrap(
            text, max(20, width() - column), break_on_hyphens=False, break_long_words=False
        )
        if len(names) > column - 4:
            yield f"  {names}"
        else:
            first, *wrapped = wrapped or [""]
            yield f"  {names.ljust(column - 2)}{first}".rstrip()
        yield from (f"{'':{column}}{line}" for line in wrapped)


def _usage(argument: Any) -> str:
    name = name_of(argument)
    name += "..." * (argument.nargs == -1)
    return name if argument.required else f"[{name}]"


def name_of(parameter: Any) -> str:
    """Return the name by which people know an argument or an option."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper()).strip("[].")


def record(parameter: Any) -> tuple[str, str]:
    """Return the names of an argument or option as they are typed, and what it does."""
    text = str(parameter.help or "")
    default = parameter.default
    choices = choices_of(parameter)
    if choices and len("|".join(choices)) > _WORDS_SHOWN:
        text = f"{text} One of {', '.join(choices)}."
    if parameter.required and parameter.param_type_name == "option":
        text = f"{text} Required."
    elif default is not None and default is not False and not callable(default):
        value = default.value if isinstance(default, Enum) else default
        if is_flag(parameter) and parameter.secondary_opts:
            value = parameter.opts[0].removeprefix("--")
        text = f"{text} Default: {value}."
    if parameter.param_type_name == "argument":
        return name_of(parameter), text
    names = [name_of(parameter)]
    if parameter.secondary_opts:
        names.append(parameter.secondary_opts[0])
    elif not is_flag(parameter):
        names[0] = f"{names[0]} {_value_name(parameter, choices)}"
    return " / ".join(names), text


def is_flag(parameter: Any) -> bool:
    """Return whether a parameter is an option without a value."""
    return bool(getattr(parameter, "is_flag", False))


def choices_of(parameter: Any) -> list[str]:
    """Return the values that a parameter takes; none if it takes others, too."""
    kind = kind_of(parameter)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(each.value) for each in kind]
    return []


def kind_of(parameter: Any) -> Any:
    """Return the type of a parameter's value, or of each of its values."""
    descriptor = getattr(parameter, "type_descriptor", None)
    annotation = getattr(descriptor, "annotation", None)
    inner = getattr(annotation, "__args__", None)
    return inner[0] if inner else annotation


def _value_name(parameter: Any, choices: Sequence[str]) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    if choices:
        joined = "|".join(choices)
        return joined if len(joined) <= _WORDS_SHOWN else "WORD"
    kind = kind_of(parameter)
    named = {int: "N", float: "X", str: "TEXT"}
    return named.get(kind, "PATH")
