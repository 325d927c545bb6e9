"""A Python function as the translator sees it: syntax tree, names, place; and its errors."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class CannotTranslateError(Exception):
    """Source that the C engine has no translation for: each error with file and line."""


class FaultError(Exception):
    """One thing in the way, found at a node; an empty message repeats what was said before."""


@dataclass
class Errors:
    """All that stands in the way of a translation, in the order of files and lines."""

    found: dict[tuple[str, int, str], str] = field(default_factory=dict)

    def add(self, file: str, line: int, function: str, why: str) -> None:
        """Note an error at a line; the same one is noted once."""
        source = linecache.getline(file, line).strip()
        text = f"{file}:{line}: in {function}: {why}"
        self.found[file, line, why] = f"{text}\n    {source}" if source else text

    def raise_if_any(self) -> None:
        """Raise what was found.

        Raises
        ------
        CannotTranslateError
            If anything was.
        """
        if self.found:
            raise CannotTranslateError("\n".join(self.found[key] for key in sorted(self.found)))


@dataclass(eq=False)
class Source:
    """A function's source.

    Attributes
    ----------
    definition:
        Its syntax tree, with the line numbers of *file*.
    names:
        What it may name besides its locals: globals, enclosing variables, builtins.
    local:
        The names of its own variables, arguments among them.
    is_generator:
        Whether it yields.
    """

    name: str
    definition: ast.FunctionDef
    names: dict[str, Any]
    local: frozenset[str]
    file: str
    is_generator: bool

    @property
    def arguments(self) -> list[str]:
        """The names of its arguments."""
        return [argument.arg for argument in self.definition.args.args]


def source_of(python: Callable[..., Any]) -> Source:
    """Return the source of the function *python*.

    Raises
    ------
    FaultError
        If it is not there, or is no `def` of its own with plain arguments.
    """
    if hasattr(python, "__wrapped__"):
        raise FaultError(f"{python.__name__} is changed by a decorator: write it without")
    try:
        lines, first = inspect.getsourcelines(python)
        (definition,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        raise FaultError(
            f"the source of {python!r} is not there: write the function in a file"
        ) from None
    if not isinstance(definition, ast.FunctionDef):
        raise FaultError(f"{python!r} is no function of its own: write it with def")
    given = definition.args
    if any((given.vararg, given.kwarg, given.kwonlyargs, given.posonlyargs, given.defaults)):
        raise FaultError(f"{definition.name} must have plain arguments: no defaults, no * or **")
    ast.increment_lineno(definition, first - 1)
    code = python.__code__
    cells = zip(code.co_freevars, python.__closure__ or (), strict=True)
    enclosing = {name: cell.cell_contents for name, cell in cells}
    return Source(
        definition.name,
        definition,
        {**vars(builtins), **python.__globals__, **enclosing},
        frozenset(code.co_varnames),
        inspect.getsourcefile(python) or inspect.getfile(python),
        inspect.isgeneratorfunction(python),
    )
