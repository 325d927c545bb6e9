"""Mistakes in a command line, which Typer's parser finds, in the grammar of all errors.

    error: NAME: RULE, got VALUE

Typer brings its own copy of Click, so its errors are distinguished by their attributes.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

from ..scenario.errors import UserError, nearest, one_of
from .help_page import ALL, choices_of, example_of, kind_of, name_of, path_of
from .old_spellings import OPTIONS

WORDS = "dispatchsim.words"
"""The words after `dispatchsim`, in the `meta` of a context."""
_OWNERS_MAX = 3
"""Subcommands that are named as those that have an option; more would be no help."""


def usage_sentence(error: Any) -> str:
    """Return the sentence for a mistake that the parser found."""
    parameter = getattr(error, "param", None)
    if hasattr(error, "option_name"):
        return _of_option(error.option_name, error)
    if parameter is not None:
        if type(error).__name__ == "MissingParameter":
            return _missing(parameter, error.ctx)
        return _of_value(parameter, error)
    extra = re.search(r"unexpected extra argument\S* \((.*)\)", error.message)
    if extra is not None and error.ctx is not None:
        return _extra(extra[1], error.ctx)
    return f"COMMAND: {error.message[:1].lower()}{error.message[1:].rstrip('.')}"


def unknown_command(name: str, context: Any) -> str:
    """Return the sentence for a command that is not there."""
    known = context.command.list_commands(context)
    near = nearest(name, known) or f" ({', '.join(known)})"
    return f"{name}: unknown command of `{path_of(context)}`{near}"


def as_typed(sentence: str, context: Any) -> str:
    """Return *sentence* with the option's spelling if it begins with an argument of the library.

    Functions of the library name the arguments of Python ("profile: must be one of ..."), which the
    command that is called in the group of *context* has as options (--profile).
    """
    called = re.match(r"([a-z_]+)(?=[: ])", sentence)
    if called is None or context.invoked_subcommand is None:
        return sentence
    command, rest = context.command, list(context.meta[WORDS])
    with contextlib.suppress(UserError):  # of a subcommand that is not there
        while rest and hasattr(command, "list_commands"):
            _, command, rest = command.resolve_command(context, rest)
    option = "--" + called[1].replace("_", "-")
    option = OPTIONS.get(option, option)
    named = [name_of(each) for each in command.params if option in _names(each)]
    return f"{named[0]}{sentence[called.end() :]}" if named else sentence


def _of_option(name: str, error: Any) -> str:
    context = error.ctx
    if not hasattr(error, "possibilities"):  # it is there, with or without a value
        if "requires" in error.message:
            return f"{name}: must have a value, got none"
        return f"{name}: must have no value, got one"
    path = path_of(context)
    names = [each for parameter in context.command.params for each in _names(parameter)]
    if re.fullmatch(r"--p[0-9.]+", name) and "--objective" in names:
        return (
            f"{name}: unknown option of `{path}`; other percentiles: "
            f'--objective "{name.removeprefix("--")} < 50 ms"'
        )
    owners = _owners(name, context)
    if 0 < len(owners) <= _OWNERS_MAX:
        *others, last = (f"`{owner}`" for owner in owners)
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"{name}: must be absent here; it belongs to {listed}"
    near = nearest(name, names) or _as_key(name, names) or f" (`{path} {ALL}` lists its options)"
    return f"{name}: unknown option of `{path}`{near}"


def _as_key(name: str, names: list[str]) -> str:
    """Return how to set the key of a scenario that the option *name* may mean; empty if none."""
    if "--set" not in names:
        return ""
    from ..scenario.scenario import Scenario  # takes longer than all other errors need
    from ..scenario.sentences import keys_of_other_sections

    word = name.removeprefix("--").replace("-", "_")
    keys = keys_of_other_sections(word, (), Scenario)
    ways = [f"--set {section}.{key}=VALUE" for section, key in keys[:_OWNERS_MAX]]
    return f"; to change the scenario, add {' or '.join(ways)}" if ways else ""


def _names(parameter: Any) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


def _owners(name: str, context: Any) -> list[str]:
    """Return the commands of the same group that have the option *name*."""
    if not hasattr(context.command, "list_commands"):
        context = context.parent
    if context is None or context.parent is None:  # the commands of the root are too many
        return []
    group = context.command
    siblings = {
        each: group.resolve_command(context, [each])[1] for each in group.list_commands(context)
    }
    return [
        f"{path_of(context)} {each}"
        for each, command in siblings.items()
        if any(name in _names(parameter) for parameter in command.params)
    ]


def _missing(parameter: Any, context: Any) -> str:
    sentence = f"{name_of(parameter)}: must be given"
    example = example_of(context.command.help or "") if context is not None else ""
    return f"{sentence}, as in `{example}`" if example else sentence


def _extra(words: str, context: Any) -> str:
    names = [name_of(each) for each in context.command.params if each.param_type_name == "argument"]
    taken = f"only {' and '.join(names)}" if names else "no argument"
    return f'"{words}": `{path_of(context)}` takes {taken}'


def _of_value(parameter: Any, error: Any) -> str:
    choices, value = choices_of(parameter), _value_of(error)
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    number = {int: "a whole number", float: "a number"}.get(kind_of(parameter))
    if choices:
        rule = one_of(str(value), choices)
    elif number is None:
        rule = error.message.rstrip(".")
    elif low is not None and high is not None:
        rule = f"must be {number} from {low:,} to {high:,}"
    elif low is not None:
        rule = f"must be {number}, at least {low:,}"
    elif high is not None:
        rule = f"must be {number}, at most {high:,}"
    else:
        rule = f"must be {number}"
    return f"{name_of(parameter)}: {rule}" + ("" if value is None else f', got "{value}"')


def _value_of(error: Any) -> Any:
    """Return the value that was refused; None if the error does not hold it."""
    cause = error.__cause__
    if not hasattr(cause, "errors"):
        return None
    first = cause.errors()[0]
    inner = first.get("ctx", {}).get("error")
    if hasattr(inner, "errors"):  # of a list: the error of one of its values
        first = inner.errors()[0]
    return first.get("input")
