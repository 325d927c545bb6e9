"""Check that every variable has a value where it is read, and every function at its end.

Python raises UnboundLocalError at run time; C would read an arbitrary value.
"""

from __future__ import annotations

from . import tree
from .shapes import NOTHING

_Names = set[str]
_Fault = tuple[int, str]


def check_assigned(
    body: list[tree.Statement], arguments: _Names, function: tree.Function
) -> list[_Fault]:
    """Return the (line, what is wrong) of each variable that may have no value where it is read."""
    checker = _Checker(returns_value=function.returns != NOTHING)
    # Numbers are names of the translator's own, which are set where they are made.
    own = {name for name in (*function.locals, *arguments) if name.isdigit()}
    end = checker.block(body, arguments | own | {"0"})
    if end is not None and function.returns != NOTHING:
        checker.faults.append((function.line, "may end without a value: return one at the end"))
    return checker.faults


class _Checker:
    def __init__(self, *, returns_value: bool) -> None:
        self.returns_value = returns_value
        self.faults: list[_Fault] = []
        self.breaks: list[_Names] = []  # what has a value at each break of the innermost loop

    def block(self, body: list[tree.Statement], has: _Names) -> _Names | None:
        """Return which variables have a value behind *body*; None if its end is never reached."""
        now: _Names | None = set(has)
        for statement in body:
            if now is None:
                return None
            now = self.after(statement, now)
        return now

    def after(  # noqa: PLR0911, PLR0912 (one case a kind)
        self, statement: tree.Statement, has: _Names
    ) -> _Names | None:
        """Return which variables have a value behind *statement*."""
        match statement:
            case tree.Set(name, value):
                self.reads(value, has, statement)
                return has | {name}
            case tree.Store(place, value) | tree.Update(place, _, value):
                self.reads(place, has, statement)
                self.reads(value, has, statement)
            case tree.Do(value) | tree.Assertion(value):
                self.reads(value, has, statement)
            case tree.Branch(test, then, other):
                self.reads(test, has, statement)
                return _either(self.block(then, has), self.block(other, has))
            case tree.While(test, body):
                self.reads(test, has, statement)
                at_breaks = self.loop(body, has)
                if not (isinstance(test, tree.Constant) and test.value):
                    return has
                return at_breaks  # it ends by break only
            case tree.For(name, begin, end, step, body):
                for bound in (begin, end, step):
                    self.reads(bound, has, statement)
                self.loop(body, has | {name})
            case tree.Return(value):
                if value is not None:
                    self.reads(value, has, statement)
                elif self.returns_value:
                    self.faults.append((statement.line, "returns nothing, elsewhere a value"))
                return None
            case tree.Jump(word):
                if word == "break":
                    self.breaks.append(has)
                return None
        return has

    def loop(self, body: list[tree.Statement], has: _Names) -> _Names | None:
        """Return which variables have a value at every break of the loop; None without one."""
        outer, self.breaks = self.breaks, []
        self.block(body, has)
        found, self.breaks = self.breaks, outer
        return set.intersection(*found) if found else None

    def reads(self, expression: tree.Expression, has: _Names, statement: tree.Statement) -> None:
        """Note the variables of *expression* that may have no value."""
        if isinstance(expression, tree.Local) and expression.name not in has:
            fault = statement.line, f"{expression.name} may have no value here"
            if fault not in self.faults:
                self.faults.append(fault)
        for part in tree.parts_of(expression):
            self.reads(part, has, statement)


def _either(a: _Names | None, b: _Names | None) -> _Names | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
