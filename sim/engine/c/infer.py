"""From the syntax tree of a function to a tree in which every type is known.

Types are inferred forwards: a call gives its callee the types of its arguments, and the callee's
returns give the call its type, so a function is translated once for each row of argument types.
Constants are folded on the way, and branches that a constant decides are left out before they are
typed. Generators become plain functions: a step of theirs is a call.
"""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass, field
from typing import Any

from . import tree
from .assigned import check_assigned
from .expressions import HIDDEN_WORLD, Expressions, Target
from .shapes import BOOL, INT, NOTHING, OBJECT, UNKNOWN, Column, Record, Shape
from .source import (
    Errors,
    FaultError,
    Reads,
    Source,
    jumps_out,
    nodes_outside,
    passes_on,
    source_of,
)


@dataclass
class Inference:
    """All functions that a program needs, typed.

    Attributes
    ----------
    world:
        The type of the world.
    step, no_step:
        The engine's functions (world, worker, ns) that let a step pass, and that make nothing of
        one: before time 0.
    natives:
        Python functions that the engine has in C.
    replaced:
        Python functions, each with the one that stands for it here.
    assumed:
        "Record.member" -> its value in all runs of a folded variant; "len Record.member" likewise.
    functions:
        In an order in which each comes behind those that it calls.
    reads:
        What was taken from Python meanwhile, and would be another program if it changed.
    """

    world: Record
    step: tree.Native
    no_step: tree.Native
    natives: dict[Any, tree.Native] = field(default_factory=dict)
    replaced: dict[Any, Any] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    functions: list[tree.Function] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads)
    errors: Errors = field(default_factory=Errors)
    _known: dict[Any, tree.Function] = field(default_factory=dict)
    _sources: dict[Any, Source] = field(default_factory=dict)
    _targets: dict[Source, Target] = field(default_factory=dict)
    _bodies: dict[tuple[Source, int, Target], Source] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def function(
        self, python: Any, kinds: list[Shape], target: Target | None = None
    ) -> tree.Function:
        """Return the function *python* for arguments of *kinds*; its steps go to *target*.

        Raises
        ------
        FaultError
            If there is no source, or if it is called in a wrong way. What is wrong inside it is
            noted in `errors`, and its type is unknown.
        """
        python = self.replaced.get(python, python)
        source = python if isinstance(python, Source) else self._source(python)
        if not source.is_generator:
            target = None
        elif source in self._targets:
            target = self._targets[source]
        else:
            target = target or self.step
        key = source, tuple(kinds), target
        if key in self._known:
            found = self._known[key]
            if not found.is_done:
                raise FaultError(f"{source.name} calls itself: use a loop")
            return found
        if len(source.arguments) != len(kinds):
            n = len(source.arguments)
            raise FaultError(f"{source.name} takes {n} arguments, is given {len(kinds)}")
        label, line = source.name, source.definition.lineno
        function = tree.Function(self._name(label), label, source.file, line)
        self._known[key] = function
        _Body(self, source, kinds, function, target).translate()
        function.is_done = True
        self.functions.append(function)
        return function

    def loop_body(self, within: Source, line: int, target: Target) -> Source | None:
        """Return the body of the loop over steps at a *line* of *within*, if it is known."""
        return self._bodies.get((within, line, target))

    def add_loop_body(self, body: Source, within: Source, target: Target) -> None:
        """Have *body*, of a loop over steps in *within*, pass its own steps to *target*."""
        self._bodies[within, body.definition.lineno, target] = body
        self._targets[body] = target

    def _source(self, python: Any) -> Source:
        if python not in self._sources:
            self._sources[python] = source_of(python)
            self.reads.add_attribute(python, "__code__", python.__code__)
        return self._sources[python]

    def _name(self, wanted: str) -> str:
        """Return a name in C that no other function has."""
        name, n = wanted, 1
        while name in self._names:
            n += 1
            name = f"{wanted}__{n}"
        self._names.add(name)
        return name


class _Body(Expressions):
    """Translates one function; again until the types of its locals have settled."""

    all: Inference

    # -- the whole

    def translate(self) -> None:
        """Fill in the function."""
        function, definition = self.function, self.source.definition
        earlier: list[tuple[int, str]] = []
        while True:
            before = dict(self.kinds)
            earlier = self.faults or earlier
            self.n_temporaries = 0
            self.pure, self.called, self.faults = True, [], []
            self.has_faults = False
            body = self.block(definition.body)
            if before == self.kinds:
                break
        function.returns = NOTHING if self.returns is None else self.returns
        if not self.has_faults:
            self.faults += check_assigned(body, set(self.source.arguments), function)
        # `c = c`: only the first round reports it.
        if self.has_faults and not self.faults and not self.all.errors.found:
            self.faults = earlier
        for line, why in self.faults:
            self.all.errors.add(function.file, line, function.label, why)
        if self.has_faults and function.returns == NOTHING:
            function.returns = UNKNOWN
        function.body, function.pure = body, self.pure
        function.called = set(self.called)
        arguments = self.source.arguments
        if function.hidden_world:
            arguments = [HIDDEN_WORLD, *arguments]
        function.parameters = [(name, self.kinds[name]) for name in arguments]
        function.locals = {n: k for n, k in self.kinds.items() if n not in arguments}

    # -- statements

    def block(self, body: list[ast.stmt]) -> list[tree.Statement]:
        """Return *body*, without the statements that have faults; these are noted."""
        done: list[tree.Statement] = []
        for node in body:
            try:
                done += self.statement(node)
            except FaultError as fault:
                self.note(fault, node)
                for each in ast.walk(node):
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                        self.kinds.setdefault(each.id, UNKNOWN)
        return done

    def note(self, fault: FaultError, node: ast.AST) -> None:
        """Take down *fault*, found in the statement *node*."""
        self.has_faults = True
        if str(fault):  # otherwise it follows from one that is noted already
            line = getattr(fault, "line", None) or getattr(node, "lineno", None)
            self.faults.append((line or self.function.line, str(fault)))

    def statement(self, node: ast.stmt) -> list[tree.Statement]:
        """Return what *node* does."""
        method = getattr(self, "do_" + type(node).__name__, None)
        if method is None:
            self.cannot(node, "statement")
        done: list[tree.Statement] = method(node)
        return done

    def do_Pass(self, node: ast.Pass) -> list[tree.Statement]:
        del node
        return []

    def do_Expr(self, node: ast.Expr) -> list[tree.Statement]:
        if isinstance(node.value, ast.Constant):
            return []  # a docstring
        value = self.value(node.value)
        if value.kind == OBJECT:
            self.fail(node, "this does nothing: call it, or leave it out")
        return [tree.Do(value, line=node.lineno)]

    def do_Assign(self, node: ast.Assign) -> list[tree.Statement]:
        if any(isinstance(target, ast.Tuple) for target in node.targets):
            return self.unpack(node)
        value = self.value(node.value)
        if len(node.targets) == 1:
            return [self.assign(node, node.targets[0], value)]
        done, value = self.keep(node, value)
        return [*done, *(self.assign(node, target, value) for target in node.targets)]

    def unpack(self, node: ast.Assign) -> list[tree.Statement]:
        """Assign the parts of a tuple; all are evaluated before the first is assigned."""
        target = node.targets[0]
        if (
            len(node.targets) > 1
            or not isinstance(target, ast.Tuple)
            or not isinstance(node.value, ast.Tuple)
            or len(node.value.elts) != len(target.elts)
        ):
            self.fail(node, "a tuple can be unpacked only where its parts are written down")
        done: list[tree.Statement] = []
        values = []
        for part in node.value.elts:
            kept, value = self.keep(node, self.value(part))
            done += kept
            values.append(value)
        pairs = zip(target.elts, values, strict=True)
        return [*done, *(self.assign(node, place, value) for place, value in pairs)]

    def keep(
        self, node: ast.stmt, value: tree.Expression
    ) -> tuple[list[tree.Statement], tree.Expression]:
        """Return what evaluates *value* once, and the variable that holds it then."""
        if isinstance(value, tree.Constant):
            return [], value
        self.n_temporaries += 1
        name = str(self.n_temporaries)
        self.kinds[name] = self.checked(node, value).kind
        # Its name is a number: no variable of Python's is called that.
        return [tree.Set(name, value, line=node.lineno)], tree.Local(name, kind=value.kind)

    def do_AnnAssign(self, node: ast.AnnAssign) -> list[tree.Statement]:
        if node.value is None:
            return []
        return [self.assign(node, node.target, self.value(node.value))]

    def assign(self, node: ast.stmt, target: ast.expr, value: tree.Expression) -> tree.Statement:
        """Return the assignment of *value* to *target*."""
        value = self.checked(node, value)
        if isinstance(value.kind, Column) and self.source.is_generator:
            # At a step Python may put a larger array in its place.
            self.fail(node, f"a generator cannot keep {value.kind.name}: name it where it is used")
        if isinstance(target, ast.Name):
            if self.source.is_generator and target.id in (self.world, self.worker):
                self.fail(node, f"{target.id} stays what it is: the steps of a generator are its")
            known = self.kinds.get(target.id, UNKNOWN)
            if known == UNKNOWN or (known == BOOL and value.kind == INT):
                self.kinds[target.id] = value.kind
            elif known != value.kind and not (known == INT and value.kind == BOOL):
                self.fail(node, f"{target.id} is {known.name} and then {value.kind.name}")
            return tree.Set(target.id, value, line=node.lineno)
        place = self.place(target)
        if place.kind == BOOL and value.kind == INT:
            self.fail(node, "a number cannot be stored in a bool: compare it, as by != 0")
        if value.kind not in (INT, BOOL):
            self.fail(node, f"a number or a truth value can be stored, not {value.kind.name}")
        return tree.Store(place, value, line=node.lineno)

    def place(self, target: ast.expr) -> tree.Field | tree.Entry:
        """Return the member or entry *target*, which is about to change."""
        if not isinstance(target, ast.Attribute | ast.Subscript):
            self.fail(target, "only variables, members and entries can be assigned to")
        place = self.value(target)
        if not isinstance(place, tree.Field | tree.Entry):
            self.fail(target, "this is a constant: it cannot be assigned to")
        if place.kind not in (INT, BOOL):
            self.fail(target, f"{place.kind.name} stays what it is: only numbers can be assigned")
        owner = place.view.kind if isinstance(place, tree.Entry) else place.owner.kind
        if isinstance(owner, Column | Record) and owner.is_fixed:
            part = f"the member {place.name}" if isinstance(place, tree.Field) else "an entry"
            self.fail(
                target, f"{part} of {owner.name} cannot be assigned to: it is a tuple or frozen"
            )
        self.pure = False
        return place

    def do_AugAssign(self, node: ast.AugAssign) -> list[tree.Statement]:
        if isinstance(node.target, ast.Name):
            old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            value = self.value(ast.copy_location(ast.BinOp(old, node.op, node.value), node))
            return [self.assign(node, node.target, value)]
        # At a step Python may put a larger array in the place of a column.
        if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node)):
            self.fail(node, "assign what the generator returns to a variable first")
        place, value = self.place(node.target), self.number(node.value)
        if type(node.op) not in tree.BINARY:
            self.cannot(node.op, "operator")
        op = tree.BINARY[type(node.op)][0]
        if place.kind == BOOL and not (value.kind == BOOL and op in "&|^"):
            self.fail(node, "a number cannot be stored in a bool: compare it, as by != 0")
        return [tree.Update(place, op, value, line=node.lineno)]

    def do_If(self, node: ast.If) -> list[tree.Statement]:
        test = self.tried(node, node.test)
        if isinstance(test, tree.Constant):
            return self.block(node.body if test.value else node.orelse)
        then, other = self.block(node.body), self.block(node.orelse)
        return [] if test is None else [tree.Branch(test, then, other, line=node.lineno)]

    def tried(self, node: ast.stmt, test: ast.expr) -> tree.Expression | None:
        """Return *test* as a condition; None if it has a fault, so that the rest is looked at."""
        try:
            return self.condition(test)
        except FaultError as fault:
            self.note(fault, node)
            return None

    def do_While(self, node: ast.While) -> list[tree.Statement]:
        if node.orelse:
            self.fail(node.orelse[0], "the C engine has no else of a loop: test behind it")
        test = self.tried(node, node.test)
        if isinstance(test, tree.Constant) and not test.value:
            return []
        body = self.block(node.body)
        return [] if test is None else [tree.While(test, body, line=node.lineno)]

    def do_For(self, node: ast.For) -> list[tree.Statement]:
        if node.orelse:
            self.fail(node.orelse[0], "the C engine has no else of a loop: test behind it")
        function = self.callee(node.iter)
        if function is not range:
            return self.loop_over_steps(node)
        if not isinstance(node.target, ast.Name):
            self.fail(node, "the variable of a loop is a plain name")
        assert isinstance(node.iter, ast.Call)
        bounds = [self.number(bound) for bound in node.iter.args]
        if not 1 <= len(bounds) <= 3 or node.iter.keywords:
            self.fail(node, "range takes one to three numbers")
        zero, one = tree.Constant(0, kind=INT), tree.Constant(1, kind=INT)
        begin = bounds[0] if len(bounds) > 1 else zero
        end, step = bounds[min(1, len(bounds) - 1)], bounds[2] if len(bounds) > 2 else one
        if not isinstance(step, tree.Constant) or step.value == 0:
            self.fail(node, "the step of a range must be a constant other than 0")
        known = self.kinds.setdefault(node.target.id, INT)
        if known not in (INT, BOOL):
            self.fail(node, f"{node.target.id} is {known.name} and then an int")
        self.kinds[node.target.id] = INT
        body = self.block(node.body)
        return [tree.For(node.target.id, begin, end, step, body, line=node.lineno)]

    def callee(self, node: ast.expr) -> Any:
        """Return the Python function that *node* calls; None if it is no such call."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        name = node.func.id
        return (
            self.named(name)
            if name in self.source.names and name not in self.source.local
            else None
        )

    def loop_over_steps(self, node: ast.For) -> list[tree.Statement]:
        """Return a loop over the steps of a generator: a call of it, whose steps go to the body."""
        function = self.callee(node.iter)
        inner = self.all.replaced.get(function, function)
        is_generator = isinstance(inner, types.FunctionType) and inner.__code__.co_flags & 0x20
        drops = len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
        if (
            not is_generator
            or not isinstance(node.target, ast.Name)
            or (self.target is None and not drops)
        ):
            self.fail(node, "a loop runs over range(...), or over the steps of a generator")
        if passes_on(node):
            return [tree.Do(self.call_of(node.iter), line=node.lineno)]
        outer = self.target
        if drops:
            self.target = self.all.no_step
        elif self.target is not None:
            self.target = self.steps_to(node, self.target)
        try:
            return [tree.Do(self.call_of(node.iter), line=node.lineno)]
        finally:
            self.target = outer

    def steps_to(self, node: ast.For, outer: Target) -> Source:
        """Return the body of the loop *node* as a function of its own: (world, worker, step)."""
        assert isinstance(node.target, ast.Name)
        if not self.world or not self.worker:
            self.fail(node, "a loop over steps needs world and worker among the arguments")
        given = (self.world, self.worker, node.target.id)
        named = [n for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)]
        own = {n.id for n in named if isinstance(n.ctx, ast.Store)}
        outside = {n.id for n in named} & self.source.local - own - set(given)
        if outside:
            self.fail(
                node,
                "between the steps of another generator only the world, the worker and the step "
                f"are known, not {min(outside)}",
            )
        for jump in jumps_out(node.body):
            self.fail(
                jump,
                "between the steps of another generator nothing can end the loop: "
                f"no {type(jump).__name__.lower()} there",
            )
        used = {
            n.id
            for n in nodes_outside(self.source.definition, node)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        if own & used:
            self.fail(
                node,
                "what is assigned between the steps of another generator is not known outside, "
                f"as {min(own & used)} would be: keep it in a record",
            )
        arguments = [ast.arg(name) for name in given]
        definition = ast.FunctionDef(
            name=f"{self.source.name}_steps",
            args=ast.arguments([], arguments, None, [], [], None, []),
            body=node.body,
            decorator_list=[],
            lineno=node.lineno,
        )
        known = self.all.loop_body(self.source, node.lineno, outer)
        if known is not None:
            return known
        steps = Source(
            definition.name,
            self.source.python,
            definition,
            self.source.names,
            frozenset({*given, *own}),
            self.source.file,
            is_generator=True,
        )
        self.all.add_loop_body(steps, self.source, outer)
        return steps

    def do_Return(self, node: ast.Return) -> list[tree.Statement]:
        if node.value is None:
            return [tree.Return(None, line=node.lineno)]
        value = self.checked(node, self.value(node.value))
        if self.returns is None or (self.returns == BOOL and value.kind == INT):
            self.returns = value.kind
        elif self.returns != value.kind and (self.returns, value.kind) != (INT, BOOL):
            self.fail(node, f"returns {self.returns.name} and also {value.kind.name}")
        return [tree.Return(value, line=node.lineno)]

    def do_Break(self, node: ast.Break) -> list[tree.Statement]:
        return [tree.Jump("break", line=node.lineno)]

    def do_Continue(self, node: ast.Continue) -> list[tree.Statement]:
        return [tree.Jump("continue", line=node.lineno)]

    def do_Assert(self, node: ast.Assert) -> list[tree.Statement]:
        test = self.condition(node.test)
        if test.calls:
            self.fail(node, "an assertion must not change the world: it may be left out")
        return [tree.Assertion(test, line=node.lineno)]
