"""The costs of io_uring, whatever the machine: what the ring takes beside the work it does.

    ring_enter          nothing to do                  call_ns
    ring_close          B closes                       call_ns + B x (submit_ns + the close)
    ring_receive        B receives of what is there    call_ns + B x (submit_ns + the read
                                                       + complete_ns)
    ring_accept         B connections                  call_ns + retry_ns + B x (the accept
                                                       + complete_ns), and before Linux 6.10 a look
                                                       in vain
    ring_arm            B receives, nothing is there   call_ns + B x (submit_ns + add_ns)
    ring_receive_armed  B receives that were armed     call_ns + B x (retry_ns + the read
                                                       + complete_ns)
    ring_reply          B sends, a close linked        call_ns + B x (2 x submit_ns + link_ns
                                                       + the write + the close)

What the ring does costs what the call does, less its crossing, with as many connections at once;
what it takes more or less is in the costs above. A connection is accepted and received of once
each, so complete_ns is the mean of the two. Where the ring takes less for its work than the calls
do, the difference counts as 0 in this equation and in those that follow from it. Of accepts two
batches are compared, where there are two: then it does not matter whether the kernel looks in vain.
Sources: models/completions/io_uring.py, micro/rings.c.
"""

from __future__ import annotations

from typing import NamedTuple

from .micro_medians import Medians
from .micro_solution import Known, constant


class Work(NamedTuple):
    """What calls do beyond their crossings, in ns."""

    accept_again_ns: float
    accept_ns: float
    read_ns: float
    write_ns: float
    close_ns: float


CALLS = tuple(field.removesuffix("_ns") for field in Work._fields)
"""Their names, in the order of `Work`."""


class Ring(NamedTuple):
    """What a ring takes beside the work, in ns."""

    call_ns: float
    submit_ns: float
    received_ns: float  # a completion of a receive
    accepted_ns: float
    add_ns: float
    link_ns: float
    retry_ns: float
    read_ns: float  # of the work

    @property
    def awake_ns(self) -> float:
        """What a receive takes that had to be waited for, but the sleep itself."""
        own_ns = self.call_ns + self.submit_ns + self.add_ns + self.retry_ns
        return own_ns + self.read_ns + self.received_ns

    def costs(self, *others: tuple[str, float, str]) -> Known:
        """Return these costs and *others*, (name, ns, source) each."""
        complete_ns = (self.received_ns + self.accepted_ns) / 2
        found = (
            ("call_ns", self.call_ns, "ring_enter"),
            ("submit_ns", self.submit_ns, "ring_close, less serve_close"),
            ("complete_ns", complete_ns, "ring_receive, ring_accept, less the calls"),
            ("add_ns", self.add_ns, "ring_arm"),
            ("link_ns", self.link_ns, "ring_reply, less the calls"),
            ("retry_ns", self.retry_ns, "ring_receive_armed, less ring_receive"),
            *others,
        )
        return {f"io_uring.{name}": constant(ns, 0.0, source) for name, ns, source in found}


def ring_batch(medians: Medians) -> int:
    """Return how many operations each step of the benches had, the fewest."""
    return int(medians.values_of("ring_enter", "batch")[0])


def solve_ring(medians: Medians, work: Work) -> Ring:
    """Return what the ring takes, given what the calls do without it.

    Raises
    ------
    FitError
        If a bench is missing.
    """
    n = ring_batch(medians)
    call_ns = medians.one("ring_enter", {"batch": n})

    def left_ns(bench: str, *known_ns: float) -> float:
        return max(0.0, (medians.one(bench, {"batch": n}) - call_ns) / n - sum(known_ns))

    submit_ns = left_ns("ring_close", work.close_ns)
    received_ns = left_ns("ring_receive", submit_ns, work.read_ns)
    retry_ns = left_ns("ring_receive_armed", work.read_ns, received_ns)
    return Ring(
        call_ns=call_ns,
        submit_ns=submit_ns,
        received_ns=received_ns,
        accepted_ns=max(0.0, _accept_ns(medians, call_ns + retry_ns, work) - work.accept_ns),
        add_ns=left_ns("ring_arm", submit_ns),
        link_ns=left_ns("ring_reply", 2 * submit_ns, work.write_ns, work.close_ns),
        retry_ns=retry_ns,
        read_ns=work.read_ns,
    )


def _accept_ns(medians: Medians, once_ns: float, work: Work) -> float:
    """Return what each connection takes of ring_accept, its completion included."""
    (n, ns), *more = medians.points("ring_accept", "batch")
    if more:
        return (more[-1][1] - ns) / (more[-1][0] - n)
    return (ns - once_ns - work.accept_again_ns) / n
