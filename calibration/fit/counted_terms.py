"""What the equations of the emulated target share: how medians are looked up, and one call's cost.

Medians ──points──► lines and curves ──► Known: table.name ──value, at_one──► further
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .curve_fit import fit_curve, fit_line
from .micro_medians import Medians, columns
from .micro_solution import Fitted, Known, constant

FEW, MANY_AT_ONCE = 8, 64  # connections of a batch: all in the allocator's lists, or not
MANY = 1000  # descriptors, where a bench has them beside what it measures
REPLY_BYTES = 128
CALLS: dict[str, int | str] = {"reply": REPLY_BYTES, "mechanism": "epoll"}


def undisturbed(
    medians: Medians, bench: str, where: Mapping[str, int | str]
) -> list[tuple[int, float, float]]:
    """Return (burst, ns a packet, interrupts a packet) of the bursts into which no tick came.

    More than one interrupt a packet says that one did: it would be priced as packets.
    """
    stolen = medians.points(bench, "burst", where, least=2)
    entries = medians.points(bench, "burst", where, field="interrupts_per_operation")
    return [(burst, ns, n) for (burst, ns), (_, n) in zip(stolen, entries, strict=True) if n <= 1]


def call_cost(medians: Medians, bench: str, added_ns: float = 0.0) -> Fitted:
    """Return what a call costs with few connections at once, by number of idle ones.

    The idle ones were beside many at once; how these differ from few does not depend on them.
    """
    counts, totals = columns(medians.points(bench, "n", {**CALLS, "batch": MANY_AT_ONCE}))
    shift_ns = medians.one(bench, {**CALLS, "batch": FEW, "n": 0}) - totals[0]
    fit = fit_curve(counts, [max(0.0, ns + shift_ns + added_ns) for ns in totals])
    return Fitted(fit.at, fit.ns, fit.residual, f"{bench}, batches of {FEW}")


def few(medians: Medians, bench: str, mechanism: str) -> float:
    """Return what a call costs a server of *mechanism* with few connections, and none idle."""
    return medians.one(bench, {"mechanism": mechanism, "batch": FEW, "n": 0, "reply": REPLY_BYTES})


def as_in_the_tree(costs: Known, name: str, at_few_ns: float, few_ns: float, source: str) -> Fitted:
    """Return epoll_level's cost of that *name* by size of the tree, for a server's own call.

    The tree is the same, so the two differ by what they do where it is small.

    Parameters
    ----------
    at_few_ns, few_ns:
        The server's own call, and epoll_level's, with few connections.
    """
    level = costs[f"epoll_level.{name}"]
    shifted = tuple(max(0.0, ns + at_few_ns - few_ns) for ns in level.value)
    return Fitted(level.at, shifted, level.residual, f"{source}, as epoll_level's grows")


def slope(medians: Medians, bench: str, over: str, own: Mapping[str, int | str]) -> Fitted:
    """Return what each of *over* adds to a wait."""
    line = fit_line(*columns(medians.points(bench, over, own, least=2)))
    return constant(line.unknowns[1], line.residual, f"{bench} over {over}")


def at_one(costs: Known, name: str) -> float:
    """Return a curve's value for one descriptor."""
    return float(np.interp(1, costs[name].at, costs[name].value))


def value(costs: Known, name: str) -> float:
    """Return a cost that is the same for any count."""
    return costs[name].value[0]
