"""The costs of servers that are notified once of each change: by epoll, or by queued signals.

Waits, on every machine:

                      median                         is in the model
    wait_told         R have changed                 call_ns + R x (notice_ns + give)
    wait_pending      R are pending, none changed    call_ns + R x give
    wait_after        R leave the list, 1 changed    call_ns + R x leave + notice_ns + give
    wait_blocked      of each of R                   block
                      event_ns                       give + leave + block
    wait_ready once   n are writable, 1 is ready     call_ns + n x notice_ns
    wait_vain         the listener is on the list    recheck_ns

The server's work for an event in its own lists (give, leave, block) does not depend on the
notification, so all these mechanisms share the equations. A blocking call that finds an event and a
non-blocking call that finds none differ. call_ns is their mean, because servers make about equally
many of each.

A recovery with Q queued signals, others lost, n descriptors watched, on every machine:

    wait_recovers = call_ns + k x signal_ns + E x (give + leave)
                    + flush_ns + (Q + 1 - k) x discard_ns + poll(n)

k is the number of signals that the call takes, SIGIO first. E is the number of changed connections:
those with a signal in the queue, and those whose signal was lost.

On hardware:

    wait_listed           n listed, K reported        of epoll_once: call_ns + K x notice_ns(n)
    signals_flushed       Q signals                    flush_ns + Q x discard_ns
    descriptor_sent       one message                  send_fd_ns
    descriptor_received   one message                  receive_fd_ns
    watch_add             n others watched             add_ns
    watch_delete          n others watched             delete_ns
    interrupt_signal      less one watched by epoll    queue_ns
    interrupt_signal_lost the same, a full queue       lost_ns

In the model every request interrupts for data_ns, which includes epoll's wake-up callback. A socket
that signals has no callback, so queue_ns is the extra cost of a signal over it. Nothing is added to
a full queue: a signal of the bench fills it, and SIGIO already waits.

On the counted target:

    serve_watch           of epoll: a connection       add_ns
    serve_unwatch         the same                     delete_ns
    interrupt_data        armed, less unarmed          queue_ns
    interrupt_data_more   bytes unread, a queue of 1   lost_ns
                          coalesced, a long queue      merged_ns
                          coalesced, a queue of 1      (lost_ns x (b - 1) + merged_ns) / b
    wait_recovers         Q signals and more, less     (Q + 1 - k) x discard_ns
                          the same with fewer

On both, of signals:

    serve_watch           a connection                 } together arm_ns
    serve_unwatch, serve_close, less an unarmed one's  }

Closing an armed socket removes it from a list. The model has no cost for that, so arming includes
it. Signals do not differ by their event, so queue_ns is that of data, and also holds for the
listener.
Sources: models/remembering/readiness.py, models/epoll/epoll_edge.py, models/epoll/epoll_once.py,
models/signals/signalled.py, models/signals/signal_queue.py, models/signals/overflow_recovery.py,
models/signals/sibling.py, micro/told.c, micro/wait.c, micro/interrupt.c, micro/passed.c,
servers/readiness.c, servers/signal_queue.c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .curve_fit import fit_curve, fit_intercept_curve, fit_line
from .medians import (
    BATCH,
    FEW,
    FitError,
    Fitted,
    Known,
    Medians,
    added_to_packets,
    as_in_the_tree,
    columns,
    constant,
    curve,
    served,
    undisturbed,
)


class Told(NamedTuple):
    """The costs of waits in a server that is notified of changes and remembers them, in ns."""

    call_ns: float
    blocking_ns: float  # a blocking call that finds an event
    notice_ns: float
    listed_ns: float  # an event returned and removed from the list
    event_ns: float
    residual: float

    def costs(self, table: str, notice: str) -> Known:
        """Return the costs of *table*; *notice* is the name of a notification's cost."""
        waits = "wait_told, wait_pending"
        own = "wait_pending, wait_after, wait_blocked"
        return {
            f"{table}.call_ns": constant(self.call_ns, self.residual, waits),
            f"{table}.{notice}": constant(self.notice_ns, self.residual, waits),
            f"{table}.event_ns": constant(self.event_ns, self.residual, own),
        }


def solve_told(medians: Medians, name: str, *, one_a_call: bool) -> Told:
    """Solve the waits of mechanism *name*, whose calls return one notification each, or all.

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
        # the last of several calls does not block, so its only extra is a notification
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
    """Return the costs of waits in a server that is notified of all writable descriptors.

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
    """Return the cost of a check that finds nothing, in the waits of mechanism *name*.

    Raises
    ------
    FitError
        If the bench is missing.
    """
    return constant(medians.one("wait_vain", {"mechanism": name}), 0.0, "wait_vain")


A_CALL = {"rt_signals": 1, "signal_per_fd": 1, "signalfd": 500, "sigtimedwait4": 500}
"""The most signals that a call takes: servers/*.c."""
_LOST = 8  # signals beyond the capacity of the queue: micro/told.c


def recovery_ns(medians: Medians, name: str, told: Told, queue: int) -> dict[int, float]:
    """Return the time of a recovery beyond taking *queue* signals and events, by descriptors.

    Raises
    ------
    FitError
        If the bench is missing.
    """
    n_taken = min(A_CALL[name], queue + 1)
    heard_ns = told.blocking_ns + n_taken * told.notice_ns + (queue + _LOST) * told.listed_ns
    found = medians.points("wait_recovers", "n", {"mechanism": name, "queue": queue})
    return {n: ns - heard_ns for n, ns in found}


def n_discarded(name: str, queue: int) -> int:
    """Return how many of *queue* signals and SIGIO are left to be discarded."""
    return queue + 1 - min(A_CALL[name], queue + 1)


TOLD_MAX = 1024
"""The most descriptors that one wait returns, in the benches as in the server."""


def micro_told_costs(medians: Medians, _costs: Known) -> Known:
    """Return the costs of those of these mechanisms that were measured.

    Raises
    ------
    FitError
        If some of the benches of a mechanism are missing.
    """
    found: Known = {}
    watching = medians.values_of("watch_add", "mechanism")
    signalled = medians.values_of("serve_watch", "mechanism")
    if "epoll_edge" in watching:
        told = solve_told(medians, "epoll_edge", one_a_call=False)
        found |= told.costs("epoll_edge", "notice_ns") | _watching(medians, "epoll_edge")
    if "epoll_once" in watching:
        found |= once_costs(medians) | _watching(medians, "epoll_once")
        found["epoll_once.notice_ns"] = _telling(medians, found["epoll_once.call_ns"].value[0])
    for name, n_taken in A_CALL.items():
        if name in signalled:
            told = solve_told(medians, name, one_a_call=n_taken == 1)
            found |= told.costs(name, "signal_ns") | _recovering(medians, name, told)
            found |= _passing(medians, name)
            found[f"{name}.arm_ns"] = _arming(medians, name, BATCH, "none")
            found[f"{name}.queue_ns"] = added_to_packets(
                medians, "interrupt_signal", {"mechanism": name}
            )
            found[f"{name}.lost_ns"] = added_to_packets(
                medians, "interrupt_signal_lost", {"mechanism": name}
            )
    return found


def _watching(medians: Medians, name: str) -> Known:
    found: Known = {f"{name}.recheck_ns": vain_cost(medians, name)}
    for cost, bench in (("add_ns", "watch_add"), ("delete_ns", "watch_delete")):
        fit = fit_curve(*columns(medians.points(bench, "n", {"mechanism": name})))
        found[f"{name}.{cost}"] = curve(fit, bench)
    return found


def _telling(medians: Medians, call_ns: float) -> Fitted:
    """Return the cost of a listed descriptor by their number: returned in turn, they are cold."""
    counts, totals = columns(medians.points("wait_listed", "n", {"mechanism": "epoll_once"}))
    each_ns = [
        max(0.0, ns - call_ns) / min(n, TOLD_MAX) for n, ns in zip(counts, totals, strict=True)
    ]
    fit = fit_curve(counts, each_ns)
    return curve(fit, "wait_listed, less call_ns")


def _arming(medians: Medians, name: str, batch: int, unarmed: str) -> Fitted:
    """Return the cost of arming: a connection's calls in batches, less those of *unarmed*."""

    def takes_ns(call: str, mechanism: str) -> float:
        return served(medians, call, mechanism, batch)

    closed_ns = takes_ns("close", name) - takes_ns("close", unarmed)
    arm_ns = takes_ns("watch", name) + takes_ns("unwatch", name)
    source = "serve_watch, serve_unwatch, serve_close, less that of an unarmed one"
    return constant(arm_ns + max(0.0, closed_ns), 0.0, source)


def _recovering(medians: Medians, name: str, told: Told) -> Known:
    flush = fit_line(*columns(medians.points("signals_flushed", "queue", least=2)))
    flush_ns, discard_ns = flush.unknowns
    own: dict[str, int | str] = {"mechanism": name}
    queue = columns(medians.points("wait_recovers", "queue", own))[0][0]
    flushed_ns = flush_ns + n_discarded(name, queue) * discard_ns
    totals = {n: ns - flushed_ns for n, ns in recovery_ns(medians, name, told, queue).items()}
    left_ns = [max(0.0, ns) for ns in totals.values()]
    poll = fit_curve(list(totals), left_ns, knots=[0, *totals], from_zero=True)
    return {
        f"{name}.flush_ns": constant(flush_ns, flush.residual, "signals_flushed"),
        f"{name}.discard_ns": constant(discard_ns, flush.residual, "signals_flushed over queue"),
        f"{name}.poll": curve(poll, "wait_recovers over n"),
    }


def _passing(medians: Medians, name: str) -> Known:
    """Return the cost of passing a descriptor to another thread; empty if not measured."""
    return {
        f"{name}.{cost}": constant(medians.one(bench), 0.0, bench)
        for cost, bench in (
            ("send_fd_ns", "descriptor_sent"),
            ("receive_fd_ns", "descriptor_received"),
        )
        if medians.has(bench)
    }


def counted_told_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of those of these mechanisms that were measured."""
    found: Known = {}
    measured = medians.values_of("serve_watch", "mechanism")
    if "epoll_edge" in measured:
        found |= solve_told(medians, "epoll_edge", one_a_call=False).costs(
            "epoll_edge", "notice_ns"
        )
        found |= _counted_watching(medians, costs, "epoll_edge")
    if "epoll_once" in measured:
        found |= once_costs(medians)
        found |= _counted_watching(medians, costs, "epoll_once")
    return found


def _counted_watching(medians: Medians, costs: Known, name: str) -> Known:
    """Return the costs of the server's own calls on the tree, and of a check that finds nothing."""
    found: Known = {}
    for cost, bench, raw in (("add_ns", "watch", "add"), ("delete_ns", "unwatch", "del")):
        few_ns = served(medians, f"epoll_{raw}", "epoll", FEW)
        own_ns = served(medians, bench, name, FEW)
        found[f"{name}.{cost}"] = as_in_the_tree(costs, cost, own_ns, few_ns, f"serve_{bench}")
    return {**found, f"{name}.recheck_ns": vain_cost(medians, name)}


_COALESCED = "signal_per_fd"


def counted_signal_costs(medians: Medians, _costs: Known) -> Known:
    """Return the costs of those of these mechanisms that were measured."""
    found: Known = {}
    for name, n_taken in A_CALL.items():
        if name in medians.values_of("serve_watch", "mechanism"):
            told = solve_told(medians, name, one_a_call=n_taken == 1)
            found |= told.costs(name, "signal_ns")
            found |= _queueing(medians, name)
            found |= _counted_recovering(medians, name, told)
            found[f"{name}.arm_ns"] = _arming(medians, name, FEW, "epoll")
    return found


def _queueing(medians: Medians, name: str) -> Known:
    """Return the extra cost of a signal for its packet, with and without room in the queue.

    Medians over the bursts, because the kernel sometimes programs a timer in one of them.
    """
    queue_ns, _ = _added(medians, "interrupt_data", name, {})
    full_ns, bursts = _added(medians, "interrupt_data_more", name, {"queue": 1})
    found = {
        f"{name}.queue_ns": constant(
            float(np.median(queue_ns)), 0.0, "interrupt_data, less unarmed"
        )
    }
    source = "interrupt_data_more, less unarmed"
    if name == _COALESCED:
        again_ns, _ = _added(medians, "interrupt_data_more", name, {"queue": 0})
        merged_ns = float(np.median(again_ns))
        full_ns = (full_ns * bursts - merged_ns) / (bursts - 1)
        found[f"{name}.merged_ns"] = constant(merged_ns, 0.0, source)
    return {
        **found,
        f"{name}.lost_ns": constant(float(np.median(full_ns)), 0.0, f"{source}, a full queue"),
    }


def _added(
    medians: Medians, bench: str, name: str, where: dict[str, int | str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the extra cost of an armed packet, and the bursts, shapes (bursts,)."""
    free = {burst: ns for burst, ns, _ in undisturbed(medians, bench, {"mechanism": "none"})}
    armed = undisturbed(medians, bench, {**where, "mechanism": name})
    common = [(burst, ns - free[burst]) for burst, ns, _ in armed if burst in free]
    if not common:
        raise FitError(f"micro.jsonl: {bench} {name}: must have a burst without a tick")
    bursts, added = np.array(common).T
    return added, bursts


def _counted_recovering(medians: Medians, name: str, told: Told) -> Known:
    """Return the costs of a flush, of each discarded signal, and of the poll of all."""
    own: dict[str, int | str] = {"mechanism": name}
    shortest, *_, longest = columns(medians.points("wait_recovers", "queue", own, least=2))[0]
    short, long = (recovery_ns(medians, name, told, queue) for queue in (shortest, longest))
    (n, long_ns), *_ = long.items()
    n_short, n_long = n_discarded(name, shortest), n_discarded(name, longest)
    discard_ns = max(0.0, (long_ns - short[n]) / (n_long - n_short))
    totals = [ns - n_short * discard_ns for ns in short.values()]
    flush_ns, poll = fit_intercept_curve(list(short), totals)
    return {
        f"{name}.flush_ns": constant(flush_ns, poll.residual, "wait_recovers"),
        f"{name}.discard_ns": constant(discard_ns, 0.0, "wait_recovers over queue"),
        f"{name}.poll": curve(poll, "wait_recovers over n"),
    }
