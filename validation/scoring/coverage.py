"""How often intervals of past forecast errors hold what was measured.

    a mechanism, or a machine ─► tested against the interval of all others ─► inside, of n

An interval never uses an error of the mechanism, or of the machine, that it is tested on.

Source: Barber et al. 2021, "Predictive inference with the jackknife+" (leaving out in turn).

    dispatchsim lab forecast-errors
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...scenario.metrics import METRICS
from ...sim.files.tables import Column, Table
from .misses import (
    FIGURES,
    LEVEL,
    THROUGHPUT,
    KneeMiss,
    Known,
    Miss,
    allowance,
    knee_allowance,
    pooled,
)


def coverage(
    misses: Sequence[Miss], figure: str, level: float = LEVEL, *, with_work: bool = False
) -> tuple[int, int]:
    """Return (points inside, points): inside the interval of the other mechanisms' errors.

    With *with_work* only points with application work are tested.
    """
    inside = total = 0
    for mechanism in dict.fromkeys(m.mechanism for m in misses):
        own = [m for m in misses if m.mechanism == mechanism and (m.stated or not with_work)]
        others = [m for m in misses if m.mechanism != mechanism]
        n_inside, n = coverage_by(others, own, figure, level)
        inside, total = inside + n_inside, total + n
    return inside, total


def coverage_by(
    others: Sequence[Miss], misses: Sequence[Miss], figure: str, level: float = LEVEL
) -> tuple[int, int]:
    """Return (points inside, points): inside the interval of the errors of the *others*."""
    inside = total = 0
    for busy in (True, False):
        allowed = allowance([m for m in others if m.is_busy == busy], figure, level)
        own = [m for m in misses if m.is_busy == busy and figure in m.of]
        if allowed is not None:
            total += len(own)
            inside += sum(allowed.holds(figure, m.of[figure], m.stated) for m in own)
    return inside, total


def knee_coverage(
    knees: Sequence[KneeMiss], level: float = LEVEL, *, with_work: bool = False
) -> tuple[int, int]:
    """Return (knees inside, knees): inside the interval of the other mechanisms' knees.

    With *with_work* only knees with application work are tested.
    """
    inside = total = 0
    for knee in knees:
        if with_work and not knee.stated:
            continue
        others = [each for each in knees if each.mechanism != knee.mechanism]
        n_inside, n = knee_coverage_by(Known(knees=others), [knee], level)
        inside, total = inside + n_inside, total + n
    return inside, total


def knee_coverage_by(
    known: Known, knees: Sequence[KneeMiss], level: float = LEVEL
) -> tuple[int, int]:
    """Return (knees inside, knees): *knees* inside the interval of the *known* ones.

    An error whose least size is inside may itself be outside, so it is not counted.
    """
    inside = total = 0
    for knee in knees:
        found = knee_allowance(known, knee.bound_ns, level)
        if found is not None and found.bound_ns == knee.bound_ns:
            is_inside = found.allowed.holds(THROUGHPUT, knee.error, knee.stated)
            total += not (is_inside and knee.is_end)
            inside += is_inside and not knee.is_end
    return inside, total


def coverage_table(shipped: Mapping[str, Known], level: float = LEVEL) -> Table:
    """Return the table of how often intervals of nominal *level* hold the measured values."""
    title = f"Points inside {level:.0%} intervals, each mechanism left out in turn"
    return _coverage_table(
        title,
        shipped,
        lambda name, figure: coverage(shipped[name].points, figure, level),
        lambda name: knee_coverage(shipped[name].knees, level),
    )


def coverage_by_others_table(shipped: Mapping[str, Known], level: float = LEVEL) -> Table:
    """Return the table of how often intervals from other machines hold a machine's values."""
    others = {
        name: pooled((each for other, each in shipped.items() if other != name), is_of_others=True)
        for name in shipped
    }
    title = f"Points inside {level:.0%} intervals, each machine left out in turn"
    return _coverage_table(
        title,
        shipped,
        lambda name, figure: coverage_by(others[name].points, shipped[name].points, figure, level),
        lambda name: knee_coverage_by(others[name], shipped[name].knees, level),
    )


def coverage_with_work_table(shipped: Mapping[str, Known], level: float = LEVEL) -> Table:
    """Return the `coverage_table` of points with application work alone, in numbers of points."""
    with_work = {
        name: known for name, known in shipped.items() if any(miss.stated for miss in known.points)
    }
    title = f"With application work: points inside {level:.0%} intervals, each mechanism left out"
    return _coverage_table(
        title,
        with_work,
        lambda name, figure: coverage(shipped[name].points, figure, level, with_work=True),
        lambda name: knee_coverage(shipped[name].knees, level, with_work=True),
        _number_held,
    )


def _share_held(inside: int, total: int) -> str:
    return f"{inside / total:.1%} of {total}" if total else "too few"


def _number_held(inside: int, total: int) -> str:
    return f"{inside} of {total}" if total else "too few"


def _coverage_table(
    title: str,
    shipped: Mapping[str, Known],
    points: Callable[[str, str], tuple[int, int]],
    knees: Callable[[str], tuple[int, int]],
    held: Callable[[int, int], str] = _share_held,
) -> Table:
    def column(figure: str) -> Column[str]:
        return Column(METRICS[figure].heading, lambda name: held(*points(name, figure)))

    columns = [
        Column[str]("machine", str, words=True),
        *map(column, FIGURES),
        Column("load at which p99 exceeds its bound", lambda name: held(*knees(name))),
    ]
    return Table.of(title, shipped, columns)
