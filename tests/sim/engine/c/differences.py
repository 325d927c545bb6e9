"""C and CPython side by side over many programs; a difference is made small, and printed."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given
from tests.sim.engine.c.programs import NAME, PRELUDE, Program, programs
from tests.sim.engine.c.translated import Translated, by_cpython, functions_c, kinds_of
from tests.sim.engine.c.worlds import BeyondError, fits, world_of

from dispatchsim.sim.engine.c.layout import record_type
from dispatchsim.sim.engine.c.source import CannotTranslateError

BATCH = 60
"""Programs in one C file."""
UNDEFINED = ("-fno-wrapv", "-fsanitize=undefined", "-fno-sanitize-recover")
"""Flags that end the process where C has no meaning."""
_FAULTS = (IndexError, OverflowError, ZeroDivisionError, AssertionError, ValueError)
_CONSTANT_FAULTS = ("does not fit 64 bits", "an index from the end")


class DifferentError(AssertionError):
    """C and CPython differ: the program, what it was called with, and both outcomes."""


class _Fitting(ast.NodeTransformer):
    """Has CPython notice numbers of more than 64 bits."""

    def _fitted(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        return ast.Call(ast.Name("fits", ast.Load()), [node], [])

    visit_BinOp = visit_Call = _fitted  # noqa: N815 (names of ast)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return node if isinstance(node.operand, ast.Constant) else self._fitted(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node  # the world notices
        old = ast.Name(node.target.id, ast.Load())
        fitted = ast.Call(ast.Name("fits", ast.Load()), [ast.BinOp(old, node.op, node.value)], [])
        return ast.Assign([node.target], fitted)


def _fits(value: Any) -> Any:
    return fits(value) if isinstance(value, int) else value


def _modules(texts: Sequence[str], folder: Path) -> tuple[ModuleType, dict[str, Any]]:
    """Return the programs as a module whose source is at hand, and what they are for CPython."""
    parts = [text.replace(NAME, f"program_{n}") for n, text in enumerate(texts)]
    source = PRELUDE + "\n\n".join(parts)
    path = folder / f"programs_{len(list(folder.iterdir()))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where the source of a function is looked for
    try:
        spec.loader.exec_module(module)
        inspect.getsourcelines(module.bump)
    finally:
        del sys.modules[path.stem]
    tree = ast.parse(source)
    tree.body = [
        _Fitting().visit(part) if isinstance(part, ast.FunctionDef) else part for part in tree.body
    ]
    ast.fix_missing_locations(tree)
    names: dict[str, Any] = {"fits": _fits, "__name__": path.stem}
    exec(compile(tree, str(path), "exec"), names)
    return module, names


def compare(texts_given: Sequence[Program], **how: Any) -> int:
    """Raise if C and CPython differ in any program; return how many calls were compared.

    Raises
    ------
    DifferentError
        With the first program that does.
    """
    with tempfile.TemporaryDirectory() as folder:
        module, names = _modules([program.text for program in texts_given], Path(folder))
        functions = [getattr(module, f"program_{n}") for n in range(len(texts_given))]
        possible = [n for n, function in enumerate(functions) if not _overflows(function)]
        translated = Translated([functions[n] for n in possible], **how)
    n_compared = 0
    for n in possible:
        program, function = texts_given[n], functions[n]
        for numbers in program.given:
            in_python = functools.partial(by_cpython, names[f"program_{n}"], *numbers)
            expected = _outcome(in_python, lists=True)
            if expected is None:
                continue
            found = _outcome(functools.partial(translated, function, *numbers), lists=False)
            n_compared += 1
            if found != expected:
                raise DifferentError(_told(program.text, numbers, expected, found))
    return n_compared


def _overflows(function: Any) -> bool:
    """Return whether constants of *function* are known to make a fault, which is refused."""
    record = record_type(world_of(lists=False))
    try:
        functions_c([(function, kinds_of(function, record))], record)
    except CannotTranslateError as error:
        messages = [line for line in str(error).splitlines() if not line.startswith(" ")]
        if any(not any(why in message for why in _CONSTANT_FAULTS) for message in messages):
            raise
        return True
    return False


def _outcome(call: Callable[..., Any], *, lists: bool) -> Any:
    """Return what a call returned and left behind, "a fault", or None where C promises nothing."""
    world = world_of(lists=lists)
    try:
        returned = call(world=world)
    except BeyondError:
        return None
    except _FAULTS:
        return "a fault"
    values = world.values()
    values["columns"][-1] = values["columns"][-1][: values["numbers"][3]]
    return {"returned": int(returned), **values}


def _told(text: str, numbers: tuple[int, ...], expected: Any, found: Any) -> str:
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [key for key in expected if expected[key] != found[key]]
        expected, found = ({key: each[key] for key in keys} for each in (expected, found))
    return f"{text}\ncalled with {numbers}\n  CPython: {expected}\n  C:       {found}"


def search(n: int, seed: int, *, progress: Callable[[int], None] | None = None, **how: Any) -> int:
    """Compare *n* random programs; return the number of calls that were compared.

    They are compiled many at a time. If one differs, the same programs are drawn once more, each
    compiled alone, for Hypothesis to make that one small.

    Raises
    ------
    DifferentError
        With the smallest program found that differs.
    """
    drawn: list[Program] = []
    _draw(n, seed, drawn.append)
    n_compared, good = 0, set()
    for begin in range(0, len(drawn), BATCH):
        batch = drawn[begin : begin + BATCH]
        try:
            n_compared += compare(batch, **how)
        except Exception:
            _draw(n, seed, lambda program: program in good or compare([program], **how))
            raise
        good.update(batch)
        if progress is not None:
            progress(begin + len(batch))
    return n_compared


def _draw(n: int, seed: int, do: Callable[[Program], object]) -> None:
    """Call *do* with *n* programs; with smaller ones where it raises."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=n,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(programs())
    def with_programs(program: Program) -> None:
        do(program)

    with_programs()
