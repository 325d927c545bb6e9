"""What packets take from the server's CPU: the interrupt benches solved together.

    interrupt_X    stolen / operation = X_ns + callback_ns if watched by epoll
                                        + entry_ns x interrupts / operation
                                        + entry_since after the bench's pause / burst

They share entry_ns, so they are one system of equations. The bench pauses before each burst, so
its first entry is one of a while after the last; the others follow at once.
Sources: sim/interrupts.py, micro/interrupt.c.
"""

from __future__ import annotations

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
    """

    entry_ns: float
    syn_ns: float
    data_ns: float
    reset_ns: float
    callback_ns: float
    residual: float


_Where = Mapping[str, int | str]
_LINES: tuple[tuple[tuple[int, int, int, int], str, _Where], ...] = (
    # syn, data, reset, callback
    ((1, 0, 0, 0), "interrupt_connect", {}),
    ((0, 1, 0, 0), "interrupt_data", {"mechanism": "none"}),
    ((0, 1, 0, 1), "interrupt_data", {"mechanism": "epoll"}),
    ((0, 0, 1, 0), "interrupt_reset", {"mechanism": "none"}),
    ((0, 0, 1, 1), "interrupt_reset", {"mechanism": "epoll"}),
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
        If a bench is missing; those of sockets watched by epoll may be.
    """
    rows, totals = [], []
    for own, bench, where in _LINES:
        optional = where.get("mechanism") == "epoll"
        if optional and "epoll" not in medians.values_of(bench, "mechanism"):
            continue
        stolen = medians.points(bench, "burst", where, least=1 if optional else 2)
        entries = medians.points(bench, "burst", where, field="interrupts_per_operation")
        paused_ns = after_pause_ns(medians, bench, since)
        for (burst, stolen_ns), (_, n_entries) in zip(stolen, entries, strict=True):
            rows.append([n_entries, *own])
            totals.append(max(0.0, stolen_ns - paused_ns / burst))
    solution = fit_nonnegative(rows, totals)
    entry, syn, data, reset, callback = solution.unknowns
    return Packets(entry, syn, data, reset, callback, solution.residual)


def after_pause_ns(medians: Medians, bench: str, since: Fitted | None) -> float:
    """Return what an entry is more after the pause that *bench* makes."""
    pauses_us = medians.values_of(bench, "pause_us")
    if since is None or not pauses_us:
        return 0.0
    return float(np.interp(float(pauses_us[0]), since.at, since.value))
