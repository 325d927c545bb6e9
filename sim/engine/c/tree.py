"""What a function does, with every type known: the tree between inference and C.

Each expression is marked: does it change the world (`calls`), does it read it (`reads`). C fixes no
order of operands.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .shapes import NOTHING, Shape

BINARY: dict[type[ast.operator], tuple[str, Callable[[int, int], int]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
}
COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[int, int], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}
"""The operators of Python: how C writes each, and what it makes of constants."""


@dataclass(eq=False, kw_only=True)
class Expression:
    """Anything with a value."""

    kind: Shape
    calls: bool = False
    reads: bool = False


@dataclass(eq=False)
class Constant(Expression):
    """A number or a truth value that is known now."""

    value: int


@dataclass(eq=False)
class Known(Expression):
    """A Python object that is known now: a function, a module, a named tuple of functions."""

    value: Any


@dataclass(eq=False)
class Local(Expression):
    """A variable of the function."""

    name: str


@dataclass(eq=False)
class Field(Expression):
    """A member of a record; `within`: it is a record that lies inside its owner."""

    owner: Expression
    name: str
    within: bool = False


@dataclass(eq=False)
class Entry(Expression):
    """An entry of a column, or a record of a list."""

    view: Expression
    index: Expression


@dataclass(eq=False)
class Length(Expression):
    """The length of a column or of a list of records."""

    view: Expression


@dataclass(eq=False)
class Unary(Expression):
    """`-x`, `~x`, `abs(x)`, `not x`, or "truth": whether a number is not 0."""

    op: str
    value: Expression


@dataclass(eq=False)
class Binary(Expression):
    """An operation of two numbers: an operator of Python, "min" or "max"."""

    op: str
    left: Expression
    right: Expression


@dataclass(eq=False)
class Chain(Expression):
    """A chain of comparisons, each value evaluated once: `a < b <= c`."""

    values: list[Expression]
    ops: list[str]


@dataclass(eq=False)
class Logic(Expression):
    """`and` or `or` as a condition: each part is a truth value."""

    op: str
    parts: list[Expression]


@dataclass(eq=False)
class Deciding(Expression):
    """`and` or `or` as a number: the value of the part that decides."""

    op: str
    parts: list[Expression]


@dataclass(eq=False)
class Choice(Expression):
    """`a if test else b`."""

    test: Expression
    then: Expression
    other: Expression


@dataclass(eq=False)
class Among(Expression):
    """`value in (a, b, c)`."""

    value: Expression
    items: list[Expression]


@dataclass(eq=False)
class Call(Expression):
    """A call of a translated function, or of one that the engine has in C."""

    function: Function | Native
    arguments: list[Expression]


@dataclass(eq=False, frozen=True)
class Native:
    """A function that the engine has in C; *pure* ones change nothing."""

    name: str
    returns: Shape = NOTHING
    pure: bool = False


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield the expressions that *expression* is made of, in the order of their evaluation."""
    for name in expression.__dataclass_fields__:
        value = getattr(expression, name)
        if isinstance(value, Expression):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, Expression))


# -- statements -------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class Statement:
    """Anything that is done; *line* of the Python source."""

    line: int


@dataclass(eq=False)
class Set(Statement):
    """A variable gets a value."""

    name: str
    value: Expression


@dataclass(eq=False)
class Store(Statement):
    """A member or an entry gets a value."""

    place: Field | Entry
    value: Expression


@dataclass(eq=False)
class Update(Statement):
    """A member or an entry is changed in place: `place += value`."""

    place: Field | Entry
    op: str
    value: Expression


@dataclass(eq=False)
class Do(Statement):
    """An expression is evaluated for what it does."""

    value: Expression


@dataclass(eq=False)
class Branch(Statement):
    """`if`."""

    test: Expression
    then: list[Statement]
    other: list[Statement]


@dataclass(eq=False)
class While(Statement):
    """`while`."""

    test: Expression
    body: list[Statement]


@dataclass(eq=False)
class For(Statement):
    """`for name in range(begin, end, step)`; the bounds are evaluated once."""

    name: str
    begin: Expression
    end: Expression
    step: Expression
    body: list[Statement]


@dataclass(eq=False)
class Return(Statement):
    """`return`."""

    value: Expression | None


@dataclass(eq=False)
class Jump(Statement):
    """`break` or `continue`."""

    word: str


@dataclass(eq=False)
class Assertion(Statement):
    """`assert`."""

    test: Expression


@dataclass(eq=False)
class Function:
    """A function for one row of argument types.

    Attributes
    ----------
    name:
        In C.
    parameters:
        Name and type of each.
    locals:
        Type of each variable besides.
    pure:
        Whether a call changes nothing.
    called:
        The functions that it calls.
    """

    name: str
    label: str
    file: str
    line: int
    parameters: list[tuple[str, Shape]] = field(default_factory=list)
    locals: dict[str, Shape] = field(default_factory=dict)
    returns: Shape = NOTHING
    pure: bool = True
    is_generator: bool = False
    hidden_world: bool = False
    is_done: bool = False
    body: list[Statement] = field(default_factory=list)
    called: set[Function] = field(default_factory=set)
