"""The expressions of a function: what each evaluates to, with its type."""

from __future__ import annotations

import ast
import types
from typing import Any, NoReturn, Protocol

from . import tree
from .shapes import BOOL, INT, NOTHING, OBJECT, UNKNOWN, Column, Record, Records, Reference, Shape
from .source import INSTEAD, FaultError, NodeError, Reads, Source

_BITS = 64
_LEAST, _BEYOND = -(2**63), 2**63
HIDDEN_WORLD = "0"
"""The argument of a generator that does not name the world; no variable of Python's."""

Target = tree.Native | Source
"""Where the steps of a generator go: the engine, or the body of a loop over the generator."""


class Functions(Protocol):
    """All functions of a program, as one of them sees them: `infer.Inference`."""

    world: Record
    natives: dict[Any, tree.Native]
    replaced: dict[Any, Any]
    assumed: dict[str, int]
    reads: Reads

    def function(self, python: Any, kinds: list[Shape], target: Target | None) -> tree.Function:
        """Return *python*, translated for arguments of *kinds*."""


class Expressions:
    """What the expressions of one function are; the types of its locals grow meanwhile."""

    def __init__(
        self,
        functions: Functions,
        source: Source,
        kinds: list[Shape],
        function: tree.Function,
        target: Target | None,
    ) -> None:
        self.all = functions
        self.source = source
        self.function = function
        self.target = target
        self.kinds: dict[str, Shape] = dict(zip(source.arguments, kinds, strict=True))
        self.returns: Shape | None = None
        self.n_temporaries = 0
        self.pure = True
        self.called: list[tree.Function] = []
        self.faults: list[tuple[int, str]] = []
        function.is_generator = source.is_generator
        self.worker = self._argument_of("Worker")
        self.world = self._argument_of("World")
        function.hidden_world = source.is_generator and not self.world
        if function.hidden_world:
            # Every step needs it, so every generator has it, whether it names it or not.
            self.world = HIDDEN_WORLD
            self.kinds[HIDDEN_WORLD] = functions.world
        self.has_faults = False

    def _argument_of(self, label: str) -> str:
        """Return the argument that is a record of that *label*; "" without one."""
        for name, kind in self.kinds.items():
            if isinstance(kind, Record) and kind.label == label:
                return name
        return ""

    def fail(self, node: ast.AST, why: str) -> NoReturn:
        """Give up the statement with *node*."""
        raise NodeError(node, why)

    def cannot(self, node: ast.AST, what: str) -> NoReturn:
        """Give up at a construct that there is nothing for."""
        name = type(node).__name__
        instead = f": {INSTEAD[name]}" if name in INSTEAD else ""
        self.fail(node, f"the C engine has no {name} {what}{instead}")

    def checked(self, node: ast.AST, value: tree.Expression) -> tree.Expression:
        """Return *value*, which has to be one that can be kept."""
        if value.kind == NOTHING:
            self.fail(node, "this has no value: nothing is returned there")
        if value.kind == OBJECT:
            self.fail(node, "a function, a module or a tuple cannot be kept in a variable")
        return value

    def value(self, node: ast.expr) -> tree.Expression:
        """Return the value of *node*."""
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is None:
            self.cannot(node, "expression")
        value: tree.Expression = method(node)
        if value.kind == UNKNOWN:
            raise NodeError(node, "")
        return value

    def number(self, node: ast.expr) -> tree.Expression:
        """Return the value of *node*, which has to be a number."""
        value = self.value(node)
        if value.kind not in (INT, BOOL):
            self.fail(node, f"a number is wanted here, not {value.kind.name}")
        return value

    def condition(self, node: ast.expr) -> tree.Expression:
        """Return *node* as a truth value."""
        if isinstance(node, ast.BoolOp):
            return self.logic(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.negated(self.condition(node.operand))
        value = self.number(node)
        if isinstance(value, tree.Constant):
            return tree.Constant(int(value.value != 0), kind=BOOL)
        if value.kind == BOOL:
            return value
        return tree.Unary("truth", value, kind=BOOL, calls=value.calls, reads=value.reads)

    def negated(self, value: tree.Expression) -> tree.Expression:
        """Return `not` *value*."""
        if isinstance(value, tree.Constant):
            return tree.Constant(int(not value.value), kind=BOOL)
        return tree.Unary("not", value, kind=BOOL, calls=value.calls, reads=value.reads)

    def logic(self, node: ast.BoolOp) -> tree.Expression:
        """Return `and` or `or` as a condition; behind a decisive constant all is left out."""
        op = "or" if isinstance(node.op, ast.Or) else "and"
        parts: list[tree.Expression] = []
        for each in node.values:
            part = self.condition(each)
            if isinstance(part, tree.Constant):
                if part.value == (op == "or"):
                    parts.append(part)
                    break
                continue
            parts.append(part)
        if not parts:
            return tree.Constant(int(op == "and"), kind=BOOL)
        if len(parts) == 1:
            return parts[0]
        return tree.Logic(op, parts, **_effects(BOOL, parts))

    def constant(self, node: ast.AST, value: Any) -> tree.Expression:
        """Return what is known now."""
        if isinstance(value, bool):
            return tree.Constant(int(value), kind=BOOL)
        if isinstance(value, int):
            if not _LEAST <= value < _BEYOND:
                self.fail(node, f"{value} does not fit 64 bits")
            return tree.Constant(int(value), kind=INT)
        if value is None or isinstance(value, str | float | bytes):
            hint = ": use NONE (-1)" if value is None else ""
            self.fail(node, f"the C engine cannot hold {value!r:.40}{hint}")
        return tree.Known(value, kind=OBJECT)

    def of_Constant(self, node: ast.Constant) -> tree.Expression:
        return self.constant(node, node.value)

    def of_Name(self, node: ast.Name) -> tree.Expression:
        if node.id in self.kinds:
            return tree.Local(node.id, kind=self.kinds[node.id])
        if node.id in self.source.local:
            self.fail(node, f"{node.id} is read before it has a value")
        if node.id not in self.source.names:
            self.fail(node, f"{node.id} is not defined")
        return self.constant(node, self.named(node.id))

    def named(self, name: str) -> Any:
        """Return what *name* means outside the function."""
        value = self.source.names[name]
        self.all.reads.add_name(self.source.python, name, value)
        return value

    def of_Attribute(self, node: ast.Attribute) -> tree.Expression:
        owner = self.value(node.value)
        if isinstance(owner, tree.Known):
            if not hasattr(owner.value, node.attr):
                self.fail(node, f"{owner.value!r:.60} has no attribute {node.attr}")
            value = getattr(owner.value, node.attr)
            self.all.reads.add_attribute(owner.value, node.attr, value)
            return self.constant(node, value)
        if not isinstance(owner.kind, Record):
            self.fail(node, f"{owner.kind.name} has no member {node.attr}")
        kind = owner.kind.member(node.attr)
        if kind is None:
            self.fail(node, f"{owner.kind.name} has no member {node.attr}")
        known = f"{owner.kind.label}.{node.attr}"
        if known in self.all.assumed and kind in (INT, BOOL) and _needs_no_evaluation(owner):
            return tree.Constant(self.all.assumed[known], kind=kind)
        of = kind.record if isinstance(kind, Reference) else kind
        within = isinstance(kind, Record)
        return tree.Field(owner, node.attr, within, kind=of, calls=owner.calls, reads=True)

    def of_Subscript(self, node: ast.Subscript) -> tree.Expression:
        view = self.value(node.value)
        if not isinstance(view.kind, Column | Records):
            self.fail(node, f"only columns and lists of records have entries, not {view.kind.name}")
        if isinstance(node.slice, ast.Slice):
            self.cannot(node.slice, "expression")
        if any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node)):
            self.fail(node, "assign what the generator returns to a variable first")
        index = self.number(node.slice)
        if isinstance(index, tree.Constant) and index.value < 0:
            self.fail(node, "an index from the end: write len(column) - 1")
        kind = INT if isinstance(view.kind, Column) else view.kind.record
        return tree.Entry(view, index, kind=kind, calls=view.calls or index.calls, reads=True)

    def of_UnaryOp(self, node: ast.UnaryOp) -> tree.Expression:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            least = node.operand.value
            if type(least) is int and least == _BEYOND:  # what fits with its sign alone
                return self.constant(node, -least)
        value = self.number(node.operand)
        if isinstance(node.op, ast.UAdd):
            return value
        op = "-" if isinstance(node.op, ast.USub) else "~"
        if isinstance(value, tree.Constant):
            return self.constant(node, -value.value if op == "-" else ~value.value)
        return tree.Unary(op, value, **_effects(INT, [value]))

    def of_BinOp(self, node: ast.BinOp) -> tree.Expression:
        left, right = self.number(node.left), self.number(node.right)
        match node.op, left, right:
            case ast.Pow(), tree.Constant(value), tree.Constant(exponent) if 0 <= exponent < _BITS:
                return self.constant(node, value**exponent)
        if type(node.op) not in tree.BINARY:
            hint = ": whole numbers only, use //" if isinstance(node.op, ast.Div) else ""
            self.fail(node, f"the C engine has no operator {type(node.op).__name__}{hint}")
        op, fold = tree.BINARY[type(node.op)]
        both = left.kind == right.kind == BOOL and op in "&|^"
        if isinstance(left, tree.Constant) and isinstance(right, tree.Constant):
            by_zero = right.value == 0 and op in ("//", "%")
            if not by_zero and not (op in ("<<", ">>") and not 0 <= right.value < _BITS):
                value = fold(left.value, right.value)
                return self.constant(node, bool(value) if both else value)
            # Python raises only when this is evaluated.
        return tree.Binary(op, left, right, **_effects(BOOL if both else INT, [left, right]))

    def of_BoolOp(self, node: ast.BoolOp) -> tree.Expression:
        op = "or" if isinstance(node.op, ast.Or) else "and"
        parts: list[tree.Expression] = []
        for each in node.values:
            part = self.number(each)
            if isinstance(part, tree.Constant) and bool(part.value) == (op == "or"):
                parts.append(part)
                break  # it decides: what follows is never evaluated
            if not isinstance(part, tree.Constant) or each is node.values[-1]:
                parts.append(part)
        if len(parts) == 1:
            return parts[0]
        if all(part.kind == BOOL for part in parts):
            return self.logic(node)
        return tree.Deciding(op, parts, **_effects(INT, parts))

    def of_Compare(self, node: ast.Compare) -> tree.Expression:
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            among = self.membership(node)
            return among if isinstance(node.ops[0], ast.In) else self.negated(among)
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
            return self.identity(node)
        values = [self.number(each) for each in (node.left, *node.comparators)]
        if any(type(op) not in tree.COMPARE for op in node.ops):
            self.fail(node, "only numbers can be compared, by < <= == != > >=")
        pairs = [tree.COMPARE[type(op)] for op in node.ops]
        if len(pairs) == 1 and all(isinstance(value, tree.Constant) for value in values):
            left, right = values
            assert isinstance(left, tree.Constant)
            assert isinstance(right, tree.Constant)
            return tree.Constant(int(pairs[0][1](left.value, right.value)), kind=BOOL)
        return tree.Chain(values, [op for op, _ in pairs], **_effects(BOOL, values))

    def identity(self, node: ast.Compare) -> tree.Expression:
        """Return `is` of two objects that are known now."""
        left, right = self.value(node.left), self.value(node.comparators[0])
        if not isinstance(left, tree.Known) or not isinstance(right, tree.Known):
            self.fail(node, "`is` needs two objects that are known now: compare numbers by ==")
        same = left.value is right.value
        return tree.Constant(int(same == isinstance(node.ops[0], ast.Is)), kind=BOOL)

    def membership(self, node: ast.Compare) -> tree.Expression:
        """Return `value in (a, b)`."""
        value, among = self.number(node.left), node.comparators[0]
        if isinstance(among, ast.Tuple):
            items = [self.number(each) for each in among.elts]
        else:
            known = self.value(among)
            if not isinstance(known, tree.Known) or not isinstance(known.value, tuple):
                self.fail(node, "`in` needs its few values written down: x in (A, B)")
            items = [self.constant(node, each) for each in known.value]
        if any(item.calls for item in items):
            self.fail(node, "the values behind `in` must not call what changes the world")
        if isinstance(value, tree.Constant) and all(
            isinstance(item, tree.Constant) for item in items
        ):
            found = any(getattr(item, "value", None) == value.value for item in items)
            return tree.Constant(int(found), kind=BOOL)
        return tree.Among(value, items, **_effects(BOOL, [value, *items]))

    def of_IfExp(self, node: ast.IfExp) -> tree.Expression:
        test = self.condition(node.test)
        if isinstance(test, tree.Constant):
            return self.value(node.body if test.value else node.orelse)
        then, other = (self.checked(node, self.value(n)) for n in (node.body, node.orelse))
        kind = then.kind
        if then.kind != other.kind:
            if {then.kind, other.kind} != {INT, BOOL}:
                self.fail(node, f"is {then.kind.name} or else {other.kind.name}")
            kind = INT
        return tree.Choice(test, then, other, **_effects(kind, [test, then, other]))

    # -- calls

    def of_Yield(self, node: ast.Yield) -> tree.Expression:
        if node.value is None:
            self.fail(node, "a step needs its CPU time: yield cost_ns")
        if not self.worker or self.target is None:
            self.fail(node, "a generator that yields needs the worker among its arguments")
        step = self.number(node.value)
        worker = tree.Local(self.worker, kind=self.kinds[self.worker])
        return self.call(node, self.target, [self.the_world(node), worker, step])

    def the_world(self, node: ast.AST) -> tree.Expression:
        """Return the world, which a generator has whether it names it or not."""
        if not self.world:
            self.fail(node, "only a generator can call a generator, by yield from")
        return tree.Local(self.world, kind=self.kinds[self.world])

    def of_YieldFrom(self, node: ast.YieldFrom) -> tree.Expression:
        if not isinstance(node.value, ast.Call):
            self.fail(node, "`yield from` needs a generator called by its name")
        value = self.call_of(node.value)
        if not (isinstance(value, tree.Call) and getattr(value.function, "is_generator", False)):
            self.fail(node, "`yield from` needs a generator, and this is a plain function")
        return value

    def of_Call(self, node: ast.Call) -> tree.Expression:
        value = self.call_of(node)
        if isinstance(value, tree.Call) and getattr(value.function, "is_generator", False):
            self.fail(node, f"{ast.unparse(node.func)} is a generator: write yield from")
        return value

    def call_of(self, node: ast.expr) -> tree.Expression:
        """Return the call *node*."""
        assert isinstance(node, ast.Call)
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            self.fail(node, "arguments are given by position")
        called = self.value(node.func)
        if not isinstance(called, tree.Known):
            self.fail(node, "which function is called must be known: a variable cannot hold one")
        if called.value in (len, min, max, abs, int, bool):
            return self.builtin(node, called.value)
        python = called.value
        if python not in self.all.natives and not isinstance(
            self.all.replaced.get(python, python), types.FunctionType
        ):
            self.fail(node, f"{ast.unparse(node.func)} is no function whose source is at hand")
        return self.call(node, python, [self.value(each) for each in node.args])

    def builtin(self, node: ast.Call, function: Any) -> tree.Expression:
        """Return the call of a function that Python has built in."""
        name = function.__name__
        if function is len:
            return self.length(node)
        if function is bool and len(node.args) == 1:
            return self.condition(node.args[0])
        values = [self.number(each) for each in node.args]
        if function is int and len(values) == 1:
            return values[0]
        if function is abs and len(values) == 1:
            return tree.Unary("abs", values[0], **_effects(INT, values))
        if function not in (min, max) or len(values) < 2:
            self.fail(node, f"{name} is given {len(values)} arguments")
        total = values[0]
        for each in values[1:]:
            if isinstance(total, tree.Constant) and isinstance(each, tree.Constant):
                total = tree.Constant(function(total.value, each.value), kind=INT)
            else:
                total = tree.Binary(name, total, each, **_effects(INT, [total, each]))
        return total

    def length(self, node: ast.Call) -> tree.Expression:
        """Return `len` of a column, of a list of records, or of a tuple that is known."""
        if len(node.args) != 1:
            self.fail(node, f"len is given {len(node.args)} arguments")
        view = self.value(node.args[0])
        if isinstance(view, tree.Known) and isinstance(view.value, tuple):
            return tree.Constant(len(view.value), kind=INT)
        if not isinstance(view.kind, Column | Records):
            self.fail(node, f"{view.kind.name} has no length")
        if (
            isinstance(view, tree.Field)
            and _needs_no_evaluation(view)
            and isinstance(view.owner.kind, Record)
        ):
            known = f"len {view.owner.kind.label}.{view.name}"
            if known in self.all.assumed:
                return tree.Constant(self.all.assumed[known], kind=INT)
        return tree.Length(view, kind=INT, calls=view.calls, reads=True)

    def call(self, node: ast.AST, python: Any, arguments: list[tree.Expression]) -> tree.Expression:
        """Return the call of *python*, translated for these *arguments*."""
        for argument in arguments:
            if argument.kind in (OBJECT, NOTHING):
                self.fail(node, "functions, modules and None cannot be handed over")
        native = python if isinstance(python, tree.Native) else self.all.natives.get(python)
        if native is not None:
            self.pure = self.pure and native.pure
            effects = _effects(native.returns, arguments, not native.pure)
            return tree.Call(native, arguments, **{**effects, "reads": True})
        try:
            function = self.all.function(python, [each.kind for each in arguments], self.target)
        except NodeError:
            raise
        except FaultError as fault:
            self.fail(node, str(fault))
        if function.is_generator and any(isinstance(each.kind, Column) for each in arguments):
            self.fail(node, "a generator cannot be given a column: name it where it is used")
        if function.hidden_world:
            arguments = [self.the_world(node), *arguments]
        value = _constant_of(function)
        if value is not None and all(_needs_no_evaluation(each) for each in arguments):
            return tree.Constant(value.value, kind=value.kind)
        self.called.append(function)
        self.pure = self.pure and function.pure
        effects = _effects(function.returns, arguments, not function.pure)
        return tree.Call(function, arguments, **{**effects, "reads": True})


def _effects(
    kind: Shape, parts: list[tree.Expression], calls: bool = False
) -> dict[str, Any]:  # the keywords of an expression
    return {
        "kind": kind,
        "calls": calls or any(part.calls for part in parts),
        "reads": any(part.reads for part in parts),
    }


def _needs_no_evaluation(value: tree.Expression) -> bool:
    """Return whether *value* can neither fail nor change anything, so that it may be left out."""
    if isinstance(value, tree.Field):
        return _needs_no_evaluation(value.owner)
    return isinstance(value, tree.Constant | tree.Local)


def _constant_of(function: tree.Function) -> tree.Constant | None:
    """Return what *function* returns in any case, if that is all it does."""
    if len(function.body) == 1 and not function.is_generator:
        (only,) = function.body
        if isinstance(only, tree.Return) and isinstance(only.value, tree.Constant):
            return only.value
    return None
