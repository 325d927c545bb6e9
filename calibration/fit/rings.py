"""The costs of mechanisms that report through a ring in memory: io_uring, and polls by AIO.

io_uring, without the work of its operations, in batches of B:

    ring_enter          nothing to do                  call_ns
    ring_close          B closes                       call_ns + B x (submit_ns + the close)
    ring_receive        B receives of waiting data     call_ns + B x (submit_ns + the read
                                                       + complete_ns)
    ring_accept         B connections                  call_ns + retry_ns + B x (the accept
                                                       + complete_ns), and before Linux 6.10 an
                                                       accept that finds nothing
    ring_arm            B receives, nothing is there   call_ns + B x (submit_ns + add_ns)
    ring_receive_armed  B receives that were armed     call_ns + B x (retry_ns + the read
                                                       + complete_ns)
    ring_reply          B sends, a close linked        call_ns + B x (2 x submit_ns + link_ns
                                                       + the write + the close)

Work in a ring costs as much as the call without its crossing, with equally many connections; the
rest is in the costs above. A connection is accepted once and received from once, so complete_ns is
the mean of the two. If the ring takes less for its work than the calls do, the difference counts as
0 in this equation and in those that follow from it. Accepts are compared in two batches if there
are two, so an extra accept by the kernel does not matter.

On hardware, compared with epoll_block, which sleeps, too:

    ring_block          CPU time of a receive that     awake_ns + sleep_ns + wake_ns + woken_ns
                        had to be waited for
    interrupt_posted    an armed receive, less what    post_ns
                        epoll watches
    serve_close         less close_ended               ended_saved_ns

The reset of a connection that ended before it was closed has no cost of its own there.
On the counted target, compared with calls of equally few connections:

    ring_sleeps         stolen, less unarmed           post_ns
                        busy time                      interrupt + call_ns + submit_ns + add_ns
                                                       + sleep_ns + wake_ns + woken_ns + retry_ns
                                                       + the read + complete_ns
    close_ended         a close after the reset     }  less by ended_saved_ns, together, than
    interrupt_reset_open  that reset                }  serve_close and interrupt_reset

Polls by AIO, on the counted target:

    polls_ready         B + 1 polls that are ready     entry_ns + (B + 1) x (add_ns + ready_ns
                                                       + event_ns)
    polls_quiet         B polls that are not, 1 is     entry_ns + B x add_ns + that of one
    polls_posted        1 poll, B were posted          entry_ns + that of one + B x event_ns
    polls_watch         a connection, in the server    is a part of add_ns
    polls_sleep         stolen, less unarmed           post_ns
                        latency                        interrupt + wake_ns + idle_exit_ns
                                                       + woken_ns + event_ns
                        busy time                      interrupt + entry_ns + add_ns + call_ns
                                                       + sleep_ns + wake_ns + woken_ns + event_ns

Sources: models/completions/io_uring.py, models/completions/aio_poll.py, micro/rings.c,
micro/sleepers.c, micro/ended.c, micro/interrupt.c, micro/polls.c, micro/armed.c, micro/answered.c.
"""

from __future__ import annotations

from typing import NamedTuple

from .curve_fit import fit_line
from .medians import FEW, Known, Medians, added_to_packets, columns, constant, first, served
from .threads import beside_the_sleep_ns


class Work(NamedTuple):
    """The work of calls without their crossings, in ns."""

    accept_again_ns: float
    accept_ns: float
    read_ns: float
    write_ns: float
    close_ns: float


CALLS = tuple(field.removesuffix("_ns") for field in Work._fields)
"""The names of the calls, in the order of `Work`."""


class Ring(NamedTuple):
    """The costs of a ring without the work, in ns."""

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
        """The cost of a receive that waits, without the sleep itself."""
        own_ns = self.call_ns + self.submit_ns + self.add_ns + self.retry_ns
        return own_ns + self.read_ns + self.received_ns

    def costs(self, *others: tuple[str, float, str]) -> Known:
        """Return the ring's costs and *others*, each as (name, ns, source)."""
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
    """Return the least number of operations in a step of the benches."""
    return int(medians.values_of("ring_enter", "batch")[0])


def solve_ring(medians: Medians, work: Work) -> Ring:
    """Return the costs of the ring, given the work of the calls without it.

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
    """Return the cost of each connection in ring_accept, with its completion."""
    (n, ns), *more = medians.points("ring_accept", "batch")
    if more:
        return (more[-1][1] - ns) / (more[-1][0] - n)
    return (ns - once_ns - work.accept_again_ns) / n


def micro_ring_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of io_uring, if a machine measured them.

    Raises
    ------
    FitError
        If some of the benches are missing.
    """
    if not medians.values_of("ring_enter", "batch"):
        return {}
    crossing_ns = first(costs, "call.crossing_ns")
    n = ring_batch(medians)
    alone_ns = {call: served(medians, call, "none", n) for call in CALLS}
    ring = solve_ring(medians, Work(*(ns - crossing_ns for ns in alone_ns.values())))
    woken_ns = beside_the_sleep_ns(medians, costs, "ring_block") - ring.awake_ns
    found = ring.costs(
        ("woken_ns", woken_ns, "ring_block, less epoll_block and all else"),
        (
            "ended_saved_ns",
            alone_ns["close"] - medians.one("close_ended"),
            "serve_close, close_ended",
        ),
    )
    return {**found, "io_uring.post_ns": added_to_packets(medians, "interrupt_posted")}


def counted_ring_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of the measured mechanisms of this file."""
    found: Known = {}
    if medians.values_of("polls_ready", "batch"):
        found |= _aio_poll(medians, costs)
    if medians.values_of("ring_enter", "batch"):
        found |= _counted_io_uring(medians, costs)
    return found


def _aio_poll(medians: Medians, costs: Known) -> Known:
    lines = {
        name: fit_line(*columns(medians.points(f"polls_{name}", "batch", least=2)))
        for name in ("ready", "quiet", "posted")
    }
    residual = max(line.residual for line in lines.values())
    each_ns = {name: line.unknowns[1] for name, line in lines.items()}
    event_ns, quiet_ns = each_ns["posted"], each_ns["quiet"]
    ready_ns = max(0.0, each_ns["ready"] - quiet_ns - event_ns)
    first_ns = sum(line.unknowns[0] for line in lines.values()) / len(lines)
    entry_ns = first_ns - quiet_ns - ready_ns - event_ns
    listed_ns = medians.points("polls_watch", "batch")[-1][1]
    stolen_ns, unarmed_ns, latency_ns = (
        medians.one("polls_sleep", field=f"{name}_ns") for name in ("stolen", "unarmed", "latency")
    )
    sleep_ns, wake_ns, exit_ns = (
        first(costs, f"interrupt.{name}_ns") for name in ("sleep", "wake", "idle_exit")
    )
    woken_ns = max(0.0, latency_ns - stolen_ns - wake_ns - exit_ns - event_ns)
    called_ns = medians.one("polls_sleep") - stolen_ns - sleep_ns - wake_ns - woken_ns - event_ns
    return {
        "aio_poll.entry_ns": constant(entry_ns, residual, "polls_ready, polls_quiet, polls_posted"),
        "aio_poll.add_ns": constant(quiet_ns + listed_ns, residual, "polls_quiet, polls_watch"),
        "aio_poll.call_ns": constant(
            called_ns - entry_ns - quiet_ns, 0.0, "polls_sleep: busy time, less all else"
        ),
        "aio_poll.event_ns": constant(event_ns, residual, "polls_posted over batch"),
        "aio_poll.ready_ns": constant(ready_ns, residual, "polls_ready, less what is not ready"),
        "aio_poll.post_ns": constant(
            stolen_ns - unarmed_ns, 0.0, "polls_sleep: stolen, less unarmed"
        ),
        "aio_poll.woken_ns": constant(woken_ns, 0.0, "polls_sleep: latency, less all else"),
    }


def _ended_saved_ns(medians: Medians) -> float:
    """Return the saving of a connection that was reset before it was closed."""
    bursts = medians.points("interrupt_reset_open", "burst")
    closed_ns = served(medians, "close", "epoll", FEW) - medians.one("close_ended")
    reset_ns = dict(medians.points("interrupt_reset", "burst"))
    return closed_ns + sum(reset_ns[burst] - ns for burst, ns in bursts) / len(bursts)


def _counted_io_uring(medians: Medians, costs: Known) -> Known:
    crossing_ns = first(costs, "call.crossing_ns")
    work = Work(*(served(medians, name, "epoll", FEW) - crossing_ns for name in CALLS))
    ring = solve_ring(medians, work)
    stolen_ns, unarmed_ns = (
        medians.one("ring_sleeps", field=f"{name}_ns") for name in ("stolen", "unarmed")
    )
    slept_ns = first(costs, "interrupt.sleep_ns") + first(costs, "interrupt.wake_ns")
    woken_ns = medians.one("ring_sleeps") - stolen_ns - slept_ns - ring.awake_ns
    return ring.costs(
        ("post_ns", stolen_ns - unarmed_ns, "ring_sleeps: stolen, less unarmed"),
        ("woken_ns", woken_ns, "ring_sleeps: busy time, less all else"),
        (
            "ended_saved_ns",
            _ended_saved_ns(medians),
            "serve_close, interrupt_reset, less close_ended",
        ),
    )
