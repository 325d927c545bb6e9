"""The costs on hardware of servers that sleep in a call of their own: threads, and io_uring.

                      median                         is in the model
    epoll_block       CPU time of a wait that        call_ns + event_ns + the read
                      sleeps, and its read           + sleep_ns + wake_ns
    read_block        CPU time of a read that sleeps the read + sleep_ns + wake_ns + block_ns
    accept_block      the same of accept             the accept + the same
    ring_block        CPU time of a receive that     awake_ns of ring_costs.py + sleep_ns
                      had to be waited for           + wake_ns + woken_ns
    interrupt_posted  an armed receive, less what    post_ns
                      epoll watches
    serve_close       less close_ended               ended_saved_ns

Each of these is compared with epoll_block, which sleeps, too: the sleep itself is in neither. What
else a ring or a thread takes is in ring_costs.py and blocking_costs.py, beside calls of as few
connections. Of a connection that ended before it was closed the reset is not priced apart.
Sources: models/threads/blocking.py, models/completions/io_uring.py, micro/sleepers.c,
micro/ended.c, micro/interrupt.c.
"""

from __future__ import annotations

from .blocking_costs import blocking_costs
from .micro_medians import Medians
from .micro_solution import Known
from .micro_terms import added_to_packets, first, served
from .ring_costs import CALLS, Work, ring_batch, solve_ring


def asleep_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of those of these servers that were measured.

    Raises
    ------
    FitError
        If a part of the benches of one is missing.
    """
    found: Known = {}
    if medians.values_of("handover_threads", "n"):
        found |= _blocking(medians, costs)
    if medians.values_of("ring_enter", "batch"):
        found |= _io_uring(medians, costs)
    return found


def _beside_the_sleep_ns(medians: Medians, costs: Known, bench: str) -> float:
    """Return what a call that sleeps takes beside the sleep, by CPU time."""
    n = medians.points("epoll_block", "n")[0][0]
    awake_ns = first(costs, "epoll_level.call_ns", "epoll_level.event_ns", "call.read_ns")
    return medians.one(bench) - medians.one("epoll_block", {"n": n}) + awake_ns


def _blocking(medians: Medians, costs: Known) -> Known:
    def blocked_ns(call: str) -> float:
        taken_ns = _beside_the_sleep_ns(medians, costs, f"{call}_block")
        return taken_ns - first(costs, f"call.{call}_ns")

    return blocking_costs(
        medians,
        slept_ns=first(costs, "interrupt.sleep_ns", "interrupt.wake_ns"),
        blocked_ns=[blocked_ns("read"), blocked_ns("accept")],
        blocked="read_block, accept_block",
    )


def _io_uring(medians: Medians, costs: Known) -> Known:
    crossing_ns = first(costs, "call.crossing_ns")
    n = ring_batch(medians)
    alone_ns = {call: served(medians, call, "none", n) for call in CALLS}
    ring = solve_ring(medians, Work(*(ns - crossing_ns for ns in alone_ns.values())))
    woken_ns = _beside_the_sleep_ns(medians, costs, "ring_block") - ring.awake_ns
    found = ring.costs(
        ("woken_ns", woken_ns, "ring_block, less epoll_block and all else"),
        (
            "ended_saved_ns",
            alone_ns["close"] - medians.one("close_ended"),
            "serve_close, close_ended",
        ),
    )
    return {**found, "io_uring.post_ns": added_to_packets(medians, "interrupt_posted")}
