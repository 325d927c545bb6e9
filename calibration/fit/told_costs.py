"""What the waits cost of servers that are told of changes, each once, whatever the machine.

                      median                         is in the model
    wait_told         R have news                    call_ns + R x (notice_ns + give)
    wait_pending      R are pending, none has news   call_ns + R x give
    wait_after        R leave the list, 1 has news   call_ns + R x leave + notice_ns + give
    wait_blocked      of each of R                   block
                      event_ns                       give + leave + block
    wait_ready once   n can be written, 1 is ready   call_ns + n x notice_ns
    wait_vain         the listener is on the list    recheck_ns

What the server does for an event in its own lists (give, leave, block) is the same whatever told
it, so all that are told of changes share these equations. A call that may block and finds something
is not the call that may not and finds nothing; call_ns is the mean of the two, as servers make
about as many of each.
Sources: models/remembering/readiness.py, models/epoll/epoll_edge.py, models/epoll/epoll_once.py,
micro/told.c, micro/wait.c, servers/readiness.c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .curve_fit import fit_line
from .micro_medians import Medians, columns
from .micro_solution import Fitted, Known, constant


class Told(NamedTuple):
    """What the waits of a server cost that is told of changes and remembers them, in ns."""

    call_ns: float
    blocking_ns: float  # a call that may block, and need not
    notice_ns: float
    listed_ns: float  # an event given, and off the list again
    event_ns: float
    residual: float

    def costs(self, table: str, notice: str) -> Known:
        """Return the costs of *table*, in which *notice* is the cost of a notice."""
        waits = "wait_told, wait_pending"
        own = "wait_pending, wait_after, wait_blocked"
        return {
            f"{table}.call_ns": constant(self.call_ns, self.residual, waits),
            f"{table}.{notice}": constant(self.notice_ns, self.residual, waits),
            f"{table}.event_ns": constant(self.event_ns, self.residual, own),
        }


def solve_told(medians: Medians, name: str, *, one_a_call: bool) -> Told:
    """Solve the waits of mechanism *name*, whose calls bring one notice each, or all.

    Raises
    ------
    FitError
        If a bench is missing.
    """
    own: dict[str, int | str] = {"mechanism": name}
    counts, heard = columns(medians.points("wait_told", "ready", own, least=2))
    pending = columns(medians.points("wait_pending", "ready", own, least=2))[1]
    asked = fit_line(counts, pending)
    left = fit_line(*columns(medians.points("wait_after", "ready", own, least=2)))
    not_blocking_ns, give_ns = asked.unknowns
    leave_ns = left.unknowns[1]
    block_ns = medians.points("wait_blocked", "ready", own)[-1][1]
    if one_a_call:
        # the last of several calls does not block, so a notice is all that it takes more
        notice_ns, residual = float(np.mean(np.subtract(heard, pending)[1:])), asked.residual
        blocking_ns = heard[0] - notice_ns - give_ns - leave_ns
    else:
        told = fit_line(counts, heard)
        notice_ns, residual = told.unknowns[1] - give_ns, told.residual
        blocking_ns = told.unknowns[0] - leave_ns
    return Told(
        call_ns=(blocking_ns + not_blocking_ns) / 2,
        blocking_ns=blocking_ns,
        notice_ns=notice_ns,
        listed_ns=give_ns + leave_ns,
        event_ns=give_ns + leave_ns + block_ns,
        residual=residual,
    )


def once_costs(medians: Medians) -> Known:
    """Return what the waits cost of a server that is told of all that can be written.

    Raises
    ------
    FitError
        If a bench is missing.
    """
    own: dict[str, int | str] = {"mechanism": "epoll_once", "ready": 1}
    line = fit_line(*columns(medians.points("wait_ready", "n", own, least=2)))
    return {
        f"epoll_once.{name}": constant(ns, line.residual, "wait_ready over n")
        for name, ns in zip(("call_ns", "notice_ns"), line.unknowns, strict=True)
    }


def vain_cost(medians: Medians, name: str) -> Fitted:
    """Return what a look in vain costs in the waits of mechanism *name*.

    Raises
    ------
    FitError
        If the bench is missing.
    """
    return constant(medians.one("wait_vain", {"mechanism": name}), 0.0, "wait_vain")
