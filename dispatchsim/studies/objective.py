"""What a service must keep: "p99 < 50 ms and errors < 0.1%".

A clause is a figure, < or >, and a bound with its unit. Latencies are from the intended arrival;
in p99 a client that fails counts as one that waits for ever and one that is still open as one that
has waited since, otherwise a server that answers few would look quick. The other quantiles and the
mean are of those that are answered: bound p99 or errors beside them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..scenario.errors import UserError
from ..scenario.formats import number_text, time_text
from ..scenario.near_names import unknown_key
from ..scenario.quantities import DURATION, RATE, QuantityError, parse_share, shown

_CLAUSE = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=|<|>)\s*(.+?)\s*")
_EXAMPLE = "p99 < 50 ms and errors < 0.1%"


class FigureSaid(NamedTuple):
    """How people call a figure: its name in a record, its kind, and what it is."""

    figure: str
    kind: str
    says: str


FIGURE_OF: dict[str, FigureSaid] = {
    "p99": FigureSaid("p99_due_ns", "time", "99 % latency of all due"),
    "p50": FigureSaid("latency_p50_ns", "time", "median latency"),
    "p90": FigureSaid("latency_p90_ns", "time", "90 % latency"),
    "p999": FigureSaid("latency_p999_ns", "time", "99.9 % latency"),
    "mean": FigureSaid("latency_mean_ns", "time", "mean latency"),
    "errors": FigureSaid("failed_share", "share", "share of connections that fail"),
    "cpu": FigureSaid("cpu_busy", "share", "share of the CPU that is busy"),
    "throughput": FigureSaid("throughput_per_s", "rate", "connections answered a second"),
}
"""By the name in an objective."""


class Clause(NamedTuple):
    """One bound; `bound` is in the base unit of the figure: ns, a share, or a rate per second."""

    name: str
    sign: str
    bound: float

    @property
    def figure(self) -> str:
        """The figure's name in a record."""
        return FIGURE_OF[self.name].figure

    def is_met(self, value: float) -> bool:
        """Return whether a run with *value* keeps the bound; what no run has is not kept."""
        if math.isnan(value):
            return False
        return value <= self.bound if self.sign == "<" else value >= self.bound

    def __str__(self) -> str:
        """Return the clause as one writes it."""
        return f"{self.name} {self.sign} {figure_text(self.name, self.bound)}"


class Objective(NamedTuple):
    """Bounds that must all be kept."""

    clauses: tuple[Clause, ...]

    def is_met(self, figures: Mapping[str, float]) -> bool:
        """Return whether a run with these figures keeps all bounds."""
        return all(clause.is_met(figures[clause.figure]) for clause in self.clauses)

    def broken_by(self, figures: Mapping[str, float]) -> Clause | None:
        """Return the first bound that is not kept."""
        broken = (c for c in self.clauses if not c.is_met(figures[c.figure]))
        return next(broken, None)

    def bound_of(self, name: str) -> float | None:
        """Return the bound on a figure, None without one."""
        return next((clause.bound for clause in self.clauses if clause.name == name), None)

    def __str__(self) -> str:
        """Return the objective as one writes it."""
        return " and ".join(map(str, self.clauses))


def read_objective(text: str) -> Objective:
    """Return the objective in *text*.

    >>> str(read_objective("p99 < 0.05 s, errors < 0.1%"))
    'p99 < 50 ms and errors < 0.1 %'

    Raises
    ------
    UserError
        With what it must be.
    """
    clauses = [_clause(part) for part in re.split(r",|\band\b", text)]
    return Objective(tuple(clauses))


def _clause(text: str) -> Clause:
    match = _CLAUSE.fullmatch(text)
    if match is None:
        raise UserError(f"objective: must be such as {shown(_EXAMPLE)}, got {shown(text.strip())}")
    name, sign, bound = match[1], match[2][0], match[3]
    if name not in FIGURE_OF:
        raise UserError(f"objective: {name}: {unknown_key(name, FIGURE_OF)}")
    kind = FIGURE_OF[name].kind
    try:
        if kind == "time":
            value = float(DURATION.parse(bound))
        elif kind == "rate":
            value = float(RATE.parse(bound))
        else:
            value = parse_share(bound)
    except QuantityError as error:
        raise UserError(f"objective: {name}: {error}") from None
    if kind != "share" and value <= 0:
        raise UserError(f"objective: {name}: must be above 0, got {shown(bound)}")
    return Clause(name, sign, value)


def name_of_figure(figure: str) -> str:
    """Return how people call a figure of a record.

    >>> name_of_figure("p99_due_ns")
    'p99'
    """
    return next(name for name, said in FIGURE_OF.items() if said.figure == figure)


def figure_text(name: str, value: float, digits: int = 6) -> str:
    """Return a value of the figure *name* in its unit.

    >>> figure_text("p99", 1_234_567.0, digits=3), figure_text("errors", 0.001)
    ('1.23 ms', '0.1 %')
    """
    kind = FIGURE_OF[name].kind
    if kind == "time":
        return time_text(value, digits, trim=True)
    number = number_text(value if kind == "rate" else 100 * value, digits, trim=True)
    return f"{number}{'/s' if kind == 'rate' else ' %'}"
