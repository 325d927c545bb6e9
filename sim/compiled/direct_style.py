"""A generator as a plain function: every `yield` becomes a call that lets the time pass.

    yield cost_ns                          if spend(world, worker, cost_ns): return True
    for cost_ns in sleep(world, worker):   if sleep(world, worker): return True
        yield cost_ns
    return                                 return False

One worker needs no coroutine: while its step lasts, whatever is due can happen inside `spend`.
That spares saving and restoring every nested generator at each step, which is most of what a
compiled generator costs. The functions so made return whether the run is over. Several workers
take turns and stay generators.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from ..jitable import jitable

_SPEND = "_spend"
_DIRECT = "_direct_"

Function = Callable[..., Any]


class NotDirectError(ValueError):
    """A generator that is not written in the way that can be turned into calls."""


def direct_style(generator: Function, spend: Function) -> Function:
    """Return *generator* as a function that calls *spend* (world, worker, ns) for each step.

    Raises
    ------
    NotDirectError
        If its source is not there, or it yields in other ways than shown above.
    """
    return _converted(generator, spend, {})


def _converted(generator: Function, spend: Function, done: dict[Function, Any]) -> Function:
    if generator in done:
        known: Function | None = done[generator]
        if known is None:
            raise NotDirectError(f"{generator.__name__} calls itself")
        return known
    done[generator] = None
    definition = _definition(generator)
    if len(definition.args.args) < 2:
        raise NotDirectError(f"{definition.name} takes no world and worker")
    world, worker = (argument.arg for argument in definition.args.args[:2])
    names = {**generator.__globals__, **inspect.getclosurevars(generator).nonlocals}
    rewriter = _Rewriter(world, worker, names, set(generator.__code__.co_varnames))
    rewriter.generic_visit(definition)
    definition.body.append(ast.Return(ast.Constant(False)))
    module = ast.fix_missing_locations(ast.Module([definition], []))
    namespace = {**names, _SPEND: spend}
    for name in rewriter.called:
        namespace[_DIRECT + name] = _converted(names[name], spend, done)
    # The lines are those of the source, so errors show where it is.
    exec(compile(module, inspect.getfile(generator), "exec"), namespace)
    converted: Function = jitable(namespace[definition.name])
    done[generator] = converted
    return converted


def _definition(generator: Function) -> ast.FunctionDef:
    if not inspect.isgeneratorfunction(generator) or hasattr(generator, "__wrapped__"):
        raise NotDirectError(f"{generator!r} is no plain generator function")
    try:
        lines, first = inspect.getsourcelines(generator)
    except (OSError, TypeError):
        raise NotDirectError(f"the source of {generator!r} is not there") from None
    (definition,) = ast.parse(textwrap.dedent("".join(lines))).body
    if not isinstance(definition, ast.FunctionDef):
        raise NotDirectError(f"{generator!r} is not a function of its own")
    ast.increment_lineno(definition, first - 1)
    definition.decorator_list = []
    definition.returns = None
    for argument in definition.args.args:
        argument.annotation = None
    return definition


class _Rewriter(ast.NodeTransformer):
    def __init__(self, world: str, worker: str, names: dict[str, Any], local: set[str]) -> None:
        self.called: set[str] = set()
        self._world = world
        self._worker = worker
        self._names = names
        self._local = local

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if not isinstance(node.value, ast.Yield) or node.value.value is None:
            return self.generic_visit(node)
        arguments = [ast.Name(name, ast.Load()) for name in (self._world, self._worker)]
        call = ast.Call(ast.Name(_SPEND, ast.Load()), [*arguments, node.value.value], [])
        return ast.copy_location(_return_if(call), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        if not _passes_on(node):
            return self.generic_visit(node)
        call = node.iter
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise NotDirectError(f"line {node.lineno}: yields what is no call by name")
        name = call.func.id
        if name in self._local or not inspect.isgeneratorfunction(self._names.get(name)):
            raise NotDirectError(f"line {node.lineno}: {name} is no generator known by that name")
        given = [a.id if isinstance(a, ast.Name) else "" for a in call.args[:2]]
        if given != [self._world, self._worker]:
            raise NotDirectError(f"line {node.lineno}: {name} is not called with world and worker")
        self.called.add(name)
        call.func = ast.copy_location(ast.Name(_DIRECT + name, ast.Load()), call.func)
        return ast.copy_location(_return_if(call), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        raise NotDirectError(f"line {node.lineno}: a function inside a generator")

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        raise NotDirectError(f"line {node.lineno}: a function inside a generator")

    def visit_Return(self, node: ast.Return) -> ast.AST:
        return ast.copy_location(ast.Return(ast.Constant(False)), node)

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        raise NotDirectError(f"line {node.lineno}: uses the value of a yield")

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        raise NotDirectError(f"line {node.lineno}: uses yield from")


def _passes_on(node: ast.For) -> bool:
    """Return whether *node* is the loop that yields all that another generator yields."""
    if len(node.body) != 1 or node.orelse:
        return False
    (inner,) = node.body
    return (
        isinstance(inner, ast.Expr)
        and isinstance(inner.value, ast.Yield)
        and isinstance(inner.value.value, ast.Name)
        and isinstance(node.target, ast.Name)
        and inner.value.value.id == node.target.id
    )


def _return_if(call: ast.expr) -> ast.If:
    return ast.If(call, [ast.Return(ast.Constant(True))], [])
