"""A Python function as the translator sees it: syntax tree, names, place; and its errors."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

SOURCE_FOLDERS = (Path(__file__).parents[2], Path(__file__).parents[3] / "models")
"""What built-in engines are made from: all of sim/ and models/."""
_IMPORTED_S = time.time()
_definitions: dict[tuple[CodeType, str], tuple[ast.FunctionDef, str]] = {}
"""The trees of functions and their files: most functions are in all engines of a process."""


@functools.cache
def is_of_package(file: str) -> bool:
    """Return whether *file* is one of those."""
    return any(Path(file).resolve().is_relative_to(folder) for folder in SOURCE_FOLDERS)


class CannotTranslateError(Exception):
    """Source that the C engine has no translation for: each error with file and line."""


class FaultError(Exception):
    """An obstacle found at a node; an empty message repeats the previous one."""


class NodeError(FaultError):
    """A fault at a node of the syntax tree."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.line: int | None = getattr(node, "lineno", None)


INSTEAD = {
    "ListComp": "write a loop",
    "GeneratorExp": "write a loop",
    "Lambda": "write a function of the module",
    "FunctionDef": "write it beside this function",
    "Try": "test for the case beforehand",
    "Raise": "use assert for what cannot happen",
    "With": "call what it begins and ends with",
    "JoinedStr": "numbers only",
    "List": "use a column",
    "Dict": "use a column",
    "Tuple": "assign its parts one by one",
    "Global": "keep it in a record",
    "Nonlocal": "keep it in a record",
    "Import": "import at the top of the module",
    "ImportFrom": "import at the top of the module",
    "Delete": "leave the variable alone",
    "Await": "yield the time instead",
    "NamedExpr": "assign in a line of its own",
    "Match": "use if and elif",
    "Slice": "loop over the indices",
}
"""What to write in place of a construct that the C engine has nothing for, by its node."""


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


_GONE = object()


@dataclass
class Reads:
    """What a translation has taken from Python and written into its C, each as it was then."""

    # The function that reads it holds its owner, so that no other owner gets its number.
    found: dict[tuple[int, str], tuple[Callable[..., Any], Any]] = field(default_factory=dict)

    def add_name(self, python: Callable[..., Any], name: str, value: Any) -> None:
        """Note that *name* means *value* in the function *python*."""
        code, names = python.__code__, python.__globals__
        if name in code.co_freevars:
            cell = (python.__closure__ or ())[code.co_freevars.index(name)]
            self.add_attribute(cell, "cell_contents", value)
        else:  # a builtin is one as long as the module has nothing of that name
            self.found[id(names), name] = names.get, value if name in names else _GONE

    def add_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Note that the attribute *name* of *owner* is *value*."""
        self.found[id(owner), name] = functools.partial(getattr, owner), value

    def are_unchanged(self) -> bool:
        """Return whether each is what it was: the same object, or an equal number."""
        for (_, name), (read, then) in self.found.items():
            now = read(name, _GONE)
            if now is not then and not (type(now) is type(then) is int and now == then):
                return False
        return True


@dataclass(eq=False)
class Source:
    """A function's source.

    Attributes
    ----------
    python:
        The function.
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
    python: Callable[..., Any]
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
    definition, file = _definition_of(python)
    code = python.__code__
    cells = zip(code.co_freevars, python.__closure__ or (), strict=True)
    enclosing = {name: cell.cell_contents for name, cell in cells}
    return Source(
        definition.name,
        python,
        definition,
        {**vars(builtins), **python.__globals__, **enclosing},
        frozenset(code.co_varnames),
        file,
        inspect.isgeneratorfunction(python),
    )


def _definition_of(python: Callable[..., Any]) -> tuple[ast.FunctionDef, str]:
    """Return the syntax tree of *python*, which nobody changes, and its file; errors as there."""
    code = python.__code__
    key = code, code.co_filename  # a code is equal to that of another file
    kept = _definitions.get(key)
    if kept is not None and not _may_have_changed(kept[1]):
        return kept
    try:
        lines, first = inspect.getsourcelines(python)
        # What stands before it is left empty: so each node has its line of the file.
        (definition,) = ast.parse("\n" * (first - 1) + textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        raise FaultError(
            f"the source of {python!r} is not there: write the function in a file"
        ) from None
    if not isinstance(definition, ast.FunctionDef):
        raise FaultError(f"{python!r} is no function of its own: write it with def")
    given = definition.args
    if any((given.vararg, given.kwarg, given.kwonlyargs, given.posonlyargs, given.defaults)):
        raise FaultError(f"{definition.name} must have plain arguments: no defaults, no * or **")
    file = inspect.getsourcefile(python) or inspect.getfile(python)
    if _may_have_changed(file) and not _is_what_runs(code, file, definition):
        raise FaultError(
            f"{file} has changed since {definition.name} was defined: restart Python or reload it"
        )
    _definitions[key] = definition, file
    return _definitions[key]


def _may_have_changed(file: str) -> bool:
    """Return whether *file* may be another than its module was made from."""
    if not is_of_package(file):
        return True
    # To compile all of these again takes as long as to translate them.
    return os.stat(file).st_mtime > _IMPORTED_S


def _is_what_runs(code: CodeType, file: str, definition: ast.FunctionDef) -> bool:
    """Return whether *code* was compiled from the text that *file* has now.

    A function with assertions is believed: under pytest these are other code.
    """
    if any(isinstance(node, ast.Assert) for node in ast.walk(definition)):
        return True
    found = _codes_of("".join(linecache.getlines(file)), file)
    now = found.get((code.co_qualname, code.co_firstlineno))
    return now is not None and _parts_of(now) == _parts_of(code)


@functools.lru_cache(maxsize=256)
def _codes_of(text: str, file: str) -> dict[tuple[str, int], CodeType]:
    """Return the code of each function in *text*, by its name and first line."""
    # A cell of a notebook may await at its top level.
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        waiting = [compile(text, file, "exec", flags, dont_inherit=True)]
    except SyntaxError:
        return {}
    found: dict[tuple[str, int], CodeType] = {}
    while waiting:
        code = waiting.pop()
        found[code.co_qualname, code.co_firstlineno] = code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


def _parts_of(code: CodeType) -> tuple[Any, ...]:
    constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, repr(constants)


# -- within a syntax tree


def jumps_out(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield what in the *body* of a loop ends the loop, or this turn of it."""
    for node in body:
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            yield node
        is_loop = isinstance(node, ast.For | ast.While)
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.stmt):
                found = jumps_out([inner])
                yield from (each for each in found if not is_loop or isinstance(each, ast.Return))


def nodes_outside(definition: ast.AST, loop: ast.For) -> Iterator[ast.AST]:
    """Yield all nodes of *definition* but those of the body of *loop*."""
    for node in ast.iter_child_nodes(definition):
        if node is not loop:
            yield node
            yield from nodes_outside(node, loop)


def passes_on(node: ast.For) -> bool:
    """Return whether *node* is `for x in generator(...): yield x`."""
    (inner, *more) = node.body
    if more or not isinstance(inner, ast.Expr) or not isinstance(inner.value, ast.Yield):
        return False
    yielded = inner.value.value
    return isinstance(yielded, ast.Name) and yielded.id == getattr(node.target, "id", None)
