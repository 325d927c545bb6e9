"""A small world for translated functions, and the same for CPython: lists that hold what C can."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

LEAST, MOST = -(2**63), 2**63 - 1
BITS = {"numbers": 64, "small": 8, "short": 16, "wide": 32, "steps": 64}
N_STEPS = 4_000


class BeyondError(Exception):
    """CPython has come to a number of more than 64 bits, of which C promises nothing."""


def fits(value: int) -> int:
    """Return *value* if C can hold it."""
    if not LEAST <= value <= MOST:
        raise BeyondError
    return value


class Entries(list[int]):
    """A column for CPython: indices from the end and numbers too wide are faults, as in C."""

    bits = 64

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            raise IndexError
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if index < 0:
            raise IndexError
        fits(value)
        if not -(2 ** (self.bits - 1)) <= value < 2 ** (self.bits - 1):
            raise OverflowError
        super().__setitem__(index, int(value))


class _Fitting:
    """A record whose numbers fit 64 bits."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, fits(value) if isinstance(value, int) else value)


class Calls(NamedTuple):
    """Costs within costs."""

    read_ns: int
    write_ns: int


class Costs(NamedTuple):
    """A named tuple, which lies inside the world."""

    call: Calls
    is_dear: bool
    by_size: tuple[int, ...]


_COSTS = Costs(Calls(30, -7), is_dear=True, by_size=(4, 0, -9))


@dataclass(frozen=True)
class Limits:
    """A record that never changes."""

    most: int = 70
    is_hard: bool = True


@dataclass(eq=False)
class Row(_Fitting):
    """One of a list."""

    number: int
    is_open: bool = False


@dataclass(eq=False)
class Worker(_Fitting):
    """What spends."""

    number: int
    activity: int = 0
    row: Row = field(default_factory=lambda: Row(5))


@dataclass(eq=False)
class World(_Fitting):
    """All that functions know."""

    numbers: Any
    small: Any
    short: Any
    wide: Any
    steps: Any
    rows: list[Row]
    workers: list[Worker]
    costs: Costs = _COSTS
    limits: Limits = Limits()
    x: int = 3
    y: int = -4
    now_ns: int = 0
    n_steps: int = 0
    flag: bool = False

    def values(self) -> dict[str, Any]:
        """Return every number in it."""
        rows = [*self.rows, *(worker.row for worker in self.workers)]
        return {
            "columns": [[int(n) for n in getattr(self, name)] for name in BITS],
            "rows": [(row.number, row.is_open) for row in rows],
            "workers": [(worker.number, worker.activity) for worker in self.workers],
            "numbers": (self.x, self.y, self.now_ns, self.n_steps, self.flag),
        }


_BEGINNING: dict[str, list[int]] = {
    "numbers": [0, 1, -1, 7, -8, 2**40, LEAST, MOST],
    "small": [0, 127, -128, 5, -3],
    "short": [32767, -32768, 300, -2],
    "wide": [2**31 - 1, -(2**31), 70_000, -70_001, 9],
    "steps": [0] * N_STEPS,
}


def world_of(*, lists: bool) -> World:
    """Return the world as it is at the beginning, with columns for CPython or for C."""

    def column(name: str, values: Iterable[int]) -> Any:
        if not lists:
            return np.array(list(values), f"int{BITS[name]}")
        entries = Entries(values)
        entries.bits = BITS[name]
        return entries

    columns = {name: column(name, values) for name, values in _BEGINNING.items()}
    return World(**columns, rows=[Row(11), Row(-2, True), Row(4)], workers=[Worker(0), Worker(1)])
