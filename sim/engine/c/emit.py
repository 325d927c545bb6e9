"""From typed trees to C.

Names cannot collide: what comes from Python has a prefix, and the engine's own C has none of these.

    f_NAME  a function      v_NAME  a variable      m_NAME  a member of a record
    R_NAME  a record        C_NAME  a column        t_N     a variable of the translator's own

An entry of a column is a structure with one member. By C's rules of aliasing a write to a
column then changes no member of a record and no other column, so these stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import shapes, tree

_PACKAGE = Path(__file__).resolve().parents[3]
_CALLED = {"//": "floor_div", "%": "floor_mod", "<<": "shift_left", ">>": "shift_right"}
_CALLED |= {"min": "min_of", "max": "max_of"}


@dataclass
class Structures:
    """C declarations of records and columns, each once."""

    _names: dict[shapes.Shape, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    forward: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    def c(self, kind: shapes.Shape) -> str:
        """Return how C writes the type *kind*."""
        if isinstance(kind, shapes.Scalar):
            return kind.c
        if isinstance(kind, shapes.Column):
            return f"struct {self.column(kind)}"
        if isinstance(kind, shapes.Records):
            return f"struct {self.records(kind)}"
        return (
            f"struct {self.record(kind.record if isinstance(kind, shapes.Reference) else kind)} *"
        )

    def declared(self, kind: shapes.Shape, name: str) -> str:
        """Return the declaration of *name* as of type *kind*."""
        c = self.c(kind)
        return c + name if c.endswith("*") else f"{c} {name}"

    def column(self, kind: shapes.Column) -> str:
        """Return the name of the structure of a column, declared if it is new."""
        name, is_new = self._name(kind, "C_" + kind.place.replace(".", "_"))
        if is_new:
            entry = shapes.INTEGERS[kind.dtype]
            self.forward.append(f"struct {name}_entry {{ {entry} v; }};")
            self.forward.append(f"struct {name} {{ struct {name}_entry *p; int64_t n; }};")
        return name

    def records(self, kind: shapes.Records) -> str:
        """Return the name of the structure of a list of records, declared if it is new."""
        inner = self.record(kind.record)
        name, is_new = self._name(kind, inner + "_list")
        if is_new:
            self.forward.append(f"struct {name}_entry {{ struct {inner} *v; }};")
            self.forward.append(f"struct {name} {{ struct {name}_entry *p; int64_t n; }};")
        return name

    def record(self, kind: shapes.Record) -> str:
        """Return the name of the structure of a record, declared if it is new."""
        name, is_new = self._name(kind, "R_" + kind.label)
        if not is_new:
            return name
        self.forward.append(f"struct {name};")
        lines = []
        for member, of in kind.members:
            if isinstance(of, shapes.Record):
                lines.append(f"    struct {self.record(of)} m_{member};")
            elif of == shapes.BOOL:
                lines.append(f"    bool m_{member}; char padding_{member}[7];")
            else:
                lines.append(f"    {self.declared(of, 'm_' + member)};")
        size = f'_Static_assert(sizeof(struct {name}) == {8 * max(1, kind.words)}, "{kind.label}");'
        if not kind.words:
            lines.append("    int64_t nothing;")
        self.bodies.append("\n".join([f"struct {name} {{", *lines, "};", size]))
        return name

    def _name(self, kind: shapes.Shape, wanted: str) -> tuple[str, bool]:
        if kind in self._names:
            return self._names[kind], False
        name, n = wanted, 1
        while name in self._taken:
            n += 1
            name = f"{wanted}__{n}"
        self._names[kind] = name
        self._taken.add(name)
        return name, True

    def text(self) -> str:
        """Return all declarations, in an order that C takes."""
        return "\n".join([*self.forward, "", *self.bodies, ""])


def c_of(function: tree.Function, structures: Structures, *, seldom: bool = False) -> str:
    """Return the C of *function*; if it is called *seldom* the compiler favours those around it."""
    text = _Writer(function, structures).text()
    attributes = "__attribute__((noinline, cold)) " if seldom else ""
    return text.replace("\nstatic ", f"\nstatic {attributes}", 1)


def file_name(file: str) -> str:
    """Return how *file* is named in C: from the package on, so that no text names a machine."""
    try:
        return str(Path(file).resolve().relative_to(_PACKAGE))
    except ValueError:
        return file


class _Writer:
    """Writes one function."""

    def __init__(self, function: tree.Function, structures: Structures) -> None:
        self.function = function
        self.structures = structures
        self.file = file_name(function.file).replace("\\", "\\\\").replace('"', '\\"')
        self.lines: list[str] = []
        self.depth = 1
        self.n_temporaries = 0

    def text(self) -> str:
        """Return the whole function."""
        function, declared = self.function, self.structures.declared
        taken = ", ".join(declared(kind, _variable(name)) for name, kind in function.parameters)
        head = declared(function.returns, f"f_{function.name}({taken or 'void'})")
        self.lines = [f'#line {function.line} "{self.file}"', f"static {head}", "{"]
        self.lines += [f"    {declared(k, _variable(n))};" for n, k in function.locals.items()]
        self.block(function.body)
        return "\n".join([*self.lines, "}", ""])

    # -- statements

    def put(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    def block(self, body: list[tree.Statement]) -> None:
        """Write *body*."""
        for statement in body:
            self.at(statement)
            self.statement(statement)

    def at(self, statement: tree.Statement) -> None:
        """Have the next line of C be that of *statement*; each line that can fail needs one."""
        self.lines.append(f'#line {statement.line} "{self.file}"')

    def nested(self, body: list[tree.Statement]) -> None:
        """Write *body* one level further in."""
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def statement(self, statement: tree.Statement) -> None:
        """Write *statement*."""
        match statement:
            case tree.Set(name, value):
                self.put(f"{_variable(name)} = {self.value(value)};")
            case tree.Store(place, value):
                self.store(place, value)
            case tree.Update(place, op, value):
                self.update(place, op, value)
            case tree.Do(value):
                self.put(f"{self.value(value)};")
            case tree.Branch(test, then, other):
                self.branch(test, then, other)
            case tree.While(test, body):
                self.put(f"while ({self.value(test)}) {{")
                self.put("    TURN();")
                self.nested(body)
                self.put("}")
            case tree.For():
                self.loop(statement)
            case tree.Return(None):
                self.put("return;")
            case tree.Return(value) if value is not None:
                self.put(f"return {self.value(value)};")
            case tree.Jump(word):
                self.put(f"{word};")
            case tree.Assertion(test):
                self.put(f"ASSERT({self.value(test)});")
            case _:
                raise AssertionError(statement)

    def branch(
        self, test: tree.Expression, then: list[tree.Statement], other: list[tree.Statement]
    ) -> None:
        """Write `if`, and what is an `elif` as one."""
        self.put(f"if ({self.value(test)}) {{")
        self.nested(then)
        while len(other) == 1 and isinstance(other[0], tree.Branch):
            self.at(other[0])
            self.put(f"}} else if ({self.value(other[0].test)}) {{")
            self.nested(other[0].then)
            other = other[0].other
        if other:
            self.put("} else {")
            self.nested(other)
        self.put("}")

    def loop(self, loop: tree.For) -> None:
        """Write a loop over a range, with a count of its own: the body may assign the variable."""
        i, end = self.temporary(), self.temporary()
        assert isinstance(loop.step, tree.Constant)
        ahead, by = ">" if loop.step.value < 0 else "<", self.value(loop.step)
        begins = f"int64_t {i} = {self.value(loop.begin)}, {end} = {self.value(loop.end)}"
        if abs(loop.step.value) == 1:
            self.put(f"for ({begins}; {i} {ahead} {end}; {i} += {by}) {{")
        else:  # the step behind the last may be beyond 64 bits
            over = self.temporary()
            self.put(f"bool {over} = false;")
            self.at(loop)
            steps = f"{over} = __builtin_add_overflow({i}, {by}, &{i})"
            self.put(f"for ({begins}; !{over} && {i} {ahead} {end}; {steps}) {{")
        self.put("    TURN();")
        self.put(f"    {_variable(loop.name)} = {i};")
        self.nested(loop.body)
        self.put("}")

    def store(self, place: tree.Field | tree.Entry, value: tree.Expression) -> None:
        """Write an assignment to a member or an entry; Python evaluates the value first."""
        text, first = self.value(value), ""
        if (value.calls and not _is_fixed(place)) or (value.reads and place.calls):
            kept = self.temporary()
            first, text = f"int64_t {kept} = {text}; ", kept
        self.put(f"{first}{self.stored(place, self.place(place), text)};")

    def stored(self, place: tree.Field | tree.Entry, at: str, text: str) -> str:
        """Return the assignment of *text* to *at*; entries of narrow columns are checked."""
        return f"STORE({at}, {text})" if _is_narrow(place) else f"{at} = {text}"

    def update(self, place: tree.Field | tree.Entry, op: str, value: tree.Expression) -> None:
        """Write `place op= value`: Python reads the old value, then evaluates the other."""
        if not place.calls and not value.calls and isinstance(place, tree.Field):
            at = self.place(place)
            self.put(f"{at} = {_operation(op, at, self.value(value))};")
            return
        at, old = self.temporary(), self.temporary()
        first = f"__auto_type {at} = &{self.place(place)}; int64_t {old} = *{at};"
        result = _operation(op, old, self.value(value))
        self.put(f"{first} {self.stored(place, f'*{at}', result)};")

    # -- expressions

    def value(self, expression: tree.Expression) -> str:  # noqa: PLR0911, PLR0912 (one case a kind)
        """Return the C of *expression*."""
        match expression:
            case tree.Constant(value):
                if expression.kind == shapes.BOOL:
                    return "true" if value else "false"
                return _literal(value)
            case tree.Local(name):
                return _variable(name)
            case tree.Field(owner, name, within):
                text = f"{self.value(owner)}->m_{name}"
                return f"(&{text})" if within else text
            case tree.Entry(view):
                # C computes with narrow integers in 32 bits, Python in as many as it takes.
                widened = "(int64_t)" if _is_narrow(expression) else ""
                return f"{widened}{self.place(expression)}"
            case tree.Length(view):
                return f"{self.value(view)}.n"
            case tree.Unary(op, value):
                return _unary(op, self.value(value))
            case tree.Binary(op, left, right):
                return self.in_order([left, right], lambda a, b: _operation(op, a, b))
            case tree.Chain(values, [op]):
                return self.in_order(values, lambda a, b: f"({a} {op} {b})")
            case tree.Chain(values, ops):
                return self.chain(values, ops)
            case tree.Logic(op, parts):
                word = " || " if op == "or" else " && "
                return f"({word.join(self.value(part) for part in parts)})"
            case tree.Deciding(op, parts):
                return self.deciding(op, parts)
            case tree.Choice(test, then, other):
                return f"({self.value(test)} ? {self.value(then)} : {self.value(other)})"
            case tree.Among(value, items):
                kept = self.temporary()
                tests = " || ".join(f"{kept} == {self.value(item)}" for item in items)
                return f"({{ int64_t {kept} = {self.value(value)}; {tests or 'false'}; }})"
            case tree.Call(function, arguments):
                name = function.name if isinstance(function, tree.Native) else f"f_{function.name}"
                return self.in_order(arguments, lambda *texts: f"{name}({', '.join(texts)})")
        raise AssertionError(expression)

    def place(self, place: tree.Expression) -> str:
        """Return the C of *place* so that it can be assigned to."""
        if not isinstance(place, tree.Entry):
            return self.value(place)
        view_and_index = [place.view, place.index]
        return self.in_order(view_and_index, lambda v, i: f"ENTRY({v}, {i})", is_place=True)

    def in_order(
        self, parts: list[tree.Expression], make: Callable[..., str], *, is_place: bool = False
    ) -> str:
        """Return *make* of the C of *parts*, which are evaluated from the left if it matters."""
        matters = any(part.calls for part in parts)
        if not matters or sum(part.calls or part.reads for part in parts) < 2:
            return make(*(self.value(part) for part in parts))
        kept = [self.temporary() for _ in parts]
        sets = [
            f"{self.structures.declared(part.kind, name)} = {self.value(part)};"
            for name, part in zip(kept, parts, strict=True)
        ]
        made = make(*kept)
        if is_place:  # what stands there can be assigned to
            return f"(*({{ {' '.join(sets)} &{made}; }}))"
        return f"({{ {' '.join(sets)} {made}; }})"

    def chain(self, values: list[tree.Expression], ops: list[str]) -> str:
        """Return a chain of comparisons: each value once, and none behind the first that fails."""
        kept = [self.temporary() for _ in values]
        text = ""
        for i in range(len(ops) - 1, -1, -1):
            link = f"{kept[i]} {ops[i]} {kept[i + 1]}" + (f" && {text}" if text else "")
            text = f"({{ int64_t {kept[i + 1]} = {self.value(values[i + 1])}; {link}; }})"
        return f"({{ int64_t {kept[0]} = {self.value(values[0])}; {text}; }})"

    def deciding(self, op: str, parts: list[tree.Expression]) -> str:
        """Return `a or b` as a number."""
        text = f"(int64_t)({self.value(parts[-1])})"
        for part in reversed(parts[:-1]):
            kept = self.temporary()
            chosen = f"{kept} ? {kept} : {text}" if op == "or" else f"{kept} ? {text} : {kept}"
            text = f"({{ int64_t {kept} = {self.value(part)}; {chosen}; }})"
        return text

    def temporary(self) -> str:
        """Return a name of its own."""
        self.n_temporaries += 1
        return f"x{self.n_temporaries}"


def _is_fixed(place: tree.Expression) -> bool:
    """Return whether where *place* is depends on variables and references alone."""
    return isinstance(place, tree.Local) or (
        isinstance(place, tree.Field) and _is_fixed(place.owner)
    )


def _is_narrow(place: tree.Expression) -> bool:
    """Return whether *place* is an entry of fewer than 64 bits."""
    kind = place.view.kind if isinstance(place, tree.Entry) else None
    return isinstance(kind, shapes.Column) and kind.dtype != "int64"


def _variable(name: str) -> str:
    return f"t_{name}" if name.isdigit() else f"v_{name}"


def _literal(value: int) -> str:
    if value == -(2**63):
        return "INT64_MIN"
    return f"INT64_C({value})" if value >= 0 else f"(-INT64_C({-value}))"


def _unary(op: str, value: str) -> str:
    match op:
        case "not":
            return f"(!{value})"
        case "truth":
            return f"({value} != 0)"
        case "abs":
            return f"abs_of({value})"
    return f"({op}(int64_t)({value}))"


def _operation(op: str, left: str, right: str) -> str:
    return f"{_CALLED[op]}({left}, {right})" if op in _CALLED else f"({left} {op} {right})"
