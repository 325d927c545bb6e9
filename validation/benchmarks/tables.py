"""The benchmark as tables for people: rates, ratios with their targets, single figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.table import Table

from .contestants import ENGINES, Row
from .scenarios import MECHANISMS, QUEUE
from .single_figures import Figure
from .targets import Ratio, Target
from .timing import Spread

_MISSING = "-"
_UNITS = {"B": ("MB", 1e-6), "s": ("s", 1.0), "/s": ("/s", 1.0)}


def rate_table(spreads: Mapping[Row, tuple[Spread, int]]) -> Table:
    """Return a row for each of *spreads*, which come with their numbers of repetitions."""
    table = _table("engine", "mechanism", "load")
    for column in ("idle", "median /s", "lowest", "highest", "set-up", "B/conn.", "runs"):
        table.add_column(column, justify="right", no_wrap=True)
    before = ""
    for row in sorted(spreads, key=_order):
        found, runs = spreads[row]
        part = row.case.mechanism if row.case.mechanism == QUEUE else row.engine
        if before and part != before:
            table.add_section()
        before = part
        weight = found.bytes_per_connection
        table.add_row(
            *(row.engine, row.case.mechanism, row.case.load),
            f"{row.case.idle:,}",
            *(f"{rate:,.0f}" for rate in found[:3]),
            f"{found.set_up_s:.3f} s",
            _MISSING if math.isnan(weight) else f"{weight:,.0f}",
            str(runs),
        )
    return table


def ratio_table(ratios: Sequence[Ratio]) -> Table:
    """Return a row for each ratio, mechanism and load; its idle counts stand side by side."""
    table = _table("ratio", "mechanism", "load")
    idle_counts = sorted({ratio.case.idle for ratio in ratios})
    for idle in idle_counts:
        table.add_column(f"{idle:,} idle", justify="right", no_wrap=True)
    table.add_column("target", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    ordered = sorted(ratios, key=lambda r: (_name_order(ratios, r.name), *_case_order(r)))
    for _, group in groupby(ordered, key=lambda r: (r.name, r.case.mechanism, r.case.load)):
        alike = list(group)
        first = alike[0]
        by_idle = {ratio.case.idle: _number(ratio.value) for ratio in alike}
        table.add_row(
            *(first.name, first.case.mechanism, first.case.load),
            *(by_idle.get(idle, "") for idle in idle_counts),
            _target(first.target, ""),
            ratio_verdict(alike),
        )
    return table


def ratio_verdict(alike: Sequence[Ratio]) -> str:
    """Return "reached" if all of *alike* are, else where not."""
    missed = [f"{ratio.case.idle:,}" for ratio in alike if not ratio.reached]
    if not missed:
        return "reached"
    return "missed" if len(missed) == len(alike) else f"missed at {', '.join(missed)} idle"


def figure_table(figures: Sequence[Figure]) -> Table:
    """Return a row for each single figure."""
    table = _table("single figures")
    for column in ("median", "lowest", "highest", "target"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=len("reached"))
    for figure in figures:
        lowest, highest = min(figure.values), max(figure.values)
        several = len(figure.values) > 1
        verdict = {None: "", True: "reached", False: "missed"}[figure.reached]
        table.add_row(
            figure.name,
            _quantity(figure.median, figure.unit),
            _quantity(lowest, figure.unit) if several else "",
            _quantity(highest, figure.unit) if several else "",
            _target(figure.target, figure.unit) if figure.target else _MISSING,
            verdict,
        )
    return table


def _table(*left: str) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for column in left:
        table.add_column(column, no_wrap=True)
    return table


def _order(row: Row) -> tuple[bool, int, int, int, int]:
    """Return the place of a row: the queue last, then by engine, mechanism, load, idle."""
    case = row.case
    engine = ENGINES.index(row.engine) if row.engine in ENGINES else len(ENGINES)
    mechanism = MECHANISMS.index(case.mechanism) if case.mechanism in MECHANISMS else 0
    return case.mechanism == QUEUE, engine, mechanism, case.users, case.idle


def _case_order(ratio: Ratio) -> tuple[int, int, int]:
    return _order(Row("", ratio.case))[2:]


def _name_order(ratios: Sequence[Ratio], name: str) -> int:
    return next(i for i, ratio in enumerate(ratios) if ratio.name == name)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def _quantity(value: float, unit: str) -> str:
    name, factor = _UNITS[unit]
    return f"{value * factor:,.2f} {name}" if unit == "s" else f"{value * factor:,.0f} {name}"


def _target(target: Target, unit: str) -> str:
    sign = "≥" if target.at_least else "≤"
    return f"{sign} {_quantity(target.bound, unit) if unit else f'{target.bound:g}'}"
