"""What packets take from the server's CPU: the interrupt benches solved together.

    interrupt_X    stolen / operation = X_ns + callback_ns if watched by epoll
                                        + entry_ns x interrupts / operation
                                        + entry_since after the bench's pause / burst

They share entry_ns, so they are one system of equations. The bench pauses before each burst, so
its first entry is one of a while after the last; the others follow at once.
Sources: sim/cpu/interrupts.py, micro/interrupt.c.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .curve_fit import fit_nonnegative
from .micro_medians import Medians
from .micro_solution import Fitted

ON_LOOPBACK = "none: on loopback the sender's CPU receives"


class Packets(NamedTuple):
    """CPU time of entering an interrupt and of what each packet does in it, in ns.

    callback_ns is what epoll's wake-up callback adds to a packet on a socket that it watches.
    later_ns is a request that is not acknowledged at once, as its connection has been answered
    before; dropped_ns a connection request for which there is no room. NaN: they were not measured.
    """

    entry_ns: float
    syn_ns: float
    data_ns: float
    reset_ns: float
    callback_ns: float
    later_ns: float
    dropped_ns: float
    residual: float


_Where = Mapping[str, int | str]
_LATER, _DROPPED = "interrupt_later", "interrupt_dropped"
_LINES: tuple[tuple[tuple[int, ...], str, _Where], ...] = (
    # syn, data, reset, callback, later, dropped
    ((1, 0, 0, 0, 0, 0), "interrupt_connect", {}),
    ((0, 1, 0, 0, 0, 0), "interrupt_data", {"mechanism": "none"}),
    ((0, 1, 0, 1, 0, 0), "interrupt_data", {"mechanism": "epoll"}),
    ((0, 0, 1, 0, 0, 0), "interrupt_reset", {"mechanism": "none"}),
    ((0, 0, 1, 1, 0, 0), "interrupt_reset", {"mechanism": "epoll"}),
    ((0, 0, 0, 0, 1, 0), _LATER, {}),
    ((0, 0, 0, 0, 0, 1), _DROPPED, {}),
)
"""What an operation of each bench does, besides entering an interrupt."""


def solve_packets(medians: Medians, since: Fitted | None = None) -> Packets:
    """Return what packets cost where the server's CPU receives them.

    Parameters
    ----------
    medians:
        Of the interrupt benches.
    since:
        What an entry is more by the microseconds since the last one; None: nobody knows.

    Raises
    ------
    FitError
        If a bench is missing; those of sockets watched by epoll may be, and the last two.
    """
    rows, totals = [], []
    measured = {name: bool(medians.values_of(name, "burst")) for name in (_LATER, _DROPPED)}
    for own, bench, where in _LINES:
        optional = where.get("mechanism") == "epoll"
        if optional and "epoll" not in medians.values_of(bench, "mechanism"):
            continue
        if not measured.get(bench, True):
            continue
        stolen = medians.points(bench, "burst", where, least=1 if optional else 2)
        entries = medians.points(bench, "burst", where, field="interrupts_per_operation")
        paused_ns = after_pause_ns(medians, bench, since)
        for (burst, stolen_ns), (_, n_entries) in zip(stolen, entries, strict=True):
            rows.append([n_entries, *own])
            totals.append(max(0.0, stolen_ns - paused_ns / burst))
    solution = fit_nonnegative(rows, totals)
    entry, syn, data, reset, callback, later, dropped = solution.unknowns
    later = later if measured[_LATER] else math.nan
    dropped = dropped if measured[_DROPPED] else math.nan
    return Packets(entry, syn, data, reset, callback, later, dropped, solution.residual)


def after_pause_ns(medians: Medians, bench: str, since: Fitted | None) -> float:
    """Return what an entry is more after the pause that *bench* makes."""
    pauses_us = medians.values_of(bench, "pause_us")
    if since is None or not pauses_us:
        return 0.0
    return float(np.interp(float(pauses_us[0]), since.at, since.value))
