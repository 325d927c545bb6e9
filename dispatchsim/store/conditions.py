"""Which rows are meant: "server.mechanism=poll", "load.rate>2000/s", "p99_ns<50 ms".

FIELD  =  !=  <  <=  >  >=  VALUE
  │                           └─ a text, a number, or a quantity with its unit
  └─ a key of the scenario, a figure, or seed, draw, mechanism, profile, verdict, code
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from ..scenario.errors import UserError, nearest
from ..scenario.metrics import METRICS, Kind
from ..scenario.quantities import BANDWIDTH, DURATION, RATE, SIZE, QuantityError
from .points import fields_of
from .records import Record

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"\s*([\w.]+)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_UNITS = {Kind.TIME: DURATION, Kind.RATE: RATE}
"""In which a metric may be given, beside a plain number."""
_NUMBER = "number"


class Condition(NamedTuple):
    """What a field of a row is to be."""

    field: str
    comparison: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Return the condition in *text*.

        Raises
        ------
        UserError
            If it is none.
        """
        match = _FORM.fullmatch(text)
        if match is None or not match[3]:
            raise UserError(
                f"--where: must be FIELD=VALUE, or with !=, <, <=, > or >=, got {text!r}"
            )
        return cls(*match.groups())

    def holds(self, row: Record) -> bool:
        """Return whether *row* is as it is to be; it is not where it lacks the field.

        Raises
        ------
        UserError
            If the two cannot be compared so.
        """
        compare = _COMPARISONS[self.comparison]
        if self.field in row.figures:
            unit = _UNITS.get(METRICS[self.field].kind) if self.field in METRICS else None
            wanted = _magnitudes(self.value)
            value = wanted.get(_NUMBER, wanted.get(unit.name) if unit else None)
            if value is None:
                like = f" or {unit.expected}" if unit else ""
                raise UserError(
                    f"--where: {self.field} must be compared with a number{like}, "
                    f'got "{self.value}"'
                )
            return compare(row.figures[self.field], float(value))
        own = known_fields(row)[self.field]
        if own is None:
            return False
        ours, theirs = _magnitudes(own), _magnitudes(self.value)
        for kind in ours.keys() & theirs.keys():
            return compare(ours[kind], theirs[kind])
        if self.comparison in {"=", "!="}:
            return compare(own, self.value)
        raise UserError(
            f'--where: {self.field} is "{own}" in a row, which must be compared with a quantity of '
            f'the same kind, or by = or !=, got "{self.comparison}{self.value}"'
        )


def known_fields(row: Record) -> dict[str, str | None]:
    """Return the fields of *row* that are no figures."""
    own = {"seed": str(row.seed), "draw": None if row.draw is None else str(row.draw)}
    return {**fields_of(row), **own, "verdict": row.verdict}


def matching(records: Sequence[Record], conditions: Sequence[Condition]) -> list[Record]:
    """Return those of *records* for which all *conditions* hold.

    Raises
    ------
    UserError
        If a field is unknown, or cannot be compared so.
    """
    check_fields([condition.field for condition in conditions], records, "--where")
    return [
        row
        for row in records
        if all(each.field in _all_fields(row) and each.holds(row) for each in conditions)
    ]


def check_fields(names: Sequence[str], records: Sequence[Record], option: str) -> None:
    """Refuse *names* that no row of *records* has, for what the user gave as *option*.

    Raises
    ------
    UserError
        With what was perhaps meant.
    """
    known = {name for row in records for name in _all_fields(row)} if names else set()
    for name in names:
        if name not in known:
            hint = nearest(name, sorted(known)) or (
                " (keys of the scenario such as load.rate, figures such as p99_ns; or "
                "seed, draw, mechanism, profile, verdict, code)"
            )
            raise UserError(f'{option}: must name a field that a row has, got "{name}"{hint}')


def _all_fields(row: Record) -> set[str]:
    return {*known_fields(row), *row.figures}


def _magnitudes(text: str) -> dict[str, Fraction]:
    """Return what *text* may be worth, by kind of quantity: at most one is meant."""
    found: dict[str, Fraction] = {}
    for unit in (DURATION, SIZE, RATE, BANDWIDTH):
        try:
            found[unit.name] = unit.parse(text)
        except QuantityError:
            continue
    with contextlib.suppress(ValueError, ZeroDivisionError):
        found[_NUMBER] = Fraction(text.replace("_", ""))
    return found
