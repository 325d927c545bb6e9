"""The costs of servers that take queued signals: what each adds to a packet, a call, a recovery.

                        median                        is in the model
    serve_watch         a connection                  } together arm_ns
    serve_unwatch, serve_close, less an unarmed one's }
    interrupt_data      armed, less unarmed           queue_ns
    interrupt_data_more bytes unread, a queue of 1    lost_ns
                        coalesced, a long queue       merged_ns
                        coalesced, a queue of 1       (lost_ns x (b - 1) + merged_ns) / b
    wait_told ...       as in ../told_costs.py        call_ns, signal_ns, event_ns
    wait_recovers       Q signals and more, less      (Q + 1 - k) x discard_ns
                        the same with fewer
                        n descriptors                 flush_ns + poll(n), as in
                                                      ../recovery_costs.py

Signals do not differ by what they tell, so
queue_ns is that of data, and holds for the listener's, too. An armed socket is taken off a list
when it is closed, which the model has no name for: it is paid when it is armed.
Sources: models/signals/signal_queue.py, models/signals/signalled.py, micro/interrupt.c.
"""

from __future__ import annotations

import numpy as np

from .counted_terms import few, undisturbed
from .curve_fit import fit_intercept_curve
from .micro_medians import FitError, Medians, columns
from .micro_solution import Fitted, Known, constant
from .recovery_costs import A_CALL, n_discarded, recovery_ns
from .told_costs import Told, solve_told

_COALESCED = "signal_per_fd"


def signal_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of those of these mechanisms that were measured."""
    del costs
    found: Known = {}
    for name, n_taken in A_CALL.items():
        if name in medians.values_of("serve_watch", "mechanism"):
            told = solve_told(medians, name, one_a_call=n_taken == 1)
            found |= told.costs(name, "signal_ns")
            found |= _queueing(medians, name)
            found |= _recovering(medians, name, told)
            found[f"{name}.arm_ns"] = _arming(medians, name)
    return found


def _arming(medians: Medians, name: str) -> Fitted:
    closed_ns = few(medians, "serve_close", name) - few(medians, "serve_close", "epoll")
    arm_ns = few(medians, "serve_watch", name) + few(medians, "serve_unwatch", name)
    source = "serve_watch, serve_unwatch, serve_close, less that of an unarmed one"
    return constant(arm_ns + max(0.0, closed_ns), 0.0, source)


def _queueing(medians: Medians, name: str) -> Known:
    """Price what a signal adds to its packet, by whether there is room for it.

    Medians over the bursts: now and then a timer is programmed in one of them.
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
    """Return what being armed adds to a packet, and of how many at once, shapes (bursts,)."""
    free = {burst: ns for burst, ns, _ in undisturbed(medians, bench, {"mechanism": "none"})}
    armed = undisturbed(medians, bench, {**where, "mechanism": name})
    common = [(burst, ns - free[burst]) for burst, ns, _ in armed if burst in free]
    if not common:
        raise FitError(f"micro.jsonl: {bench} {name}: a burst without a tick must be there")
    bursts, added = np.array(common).T
    return added, bursts


def _recovering(medians: Medians, name: str, told: Told) -> Known:
    """Price a flush, what it throws away, and the poll of all."""
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
        f"{name}.poll": Fitted(poll.at, poll.ns, poll.residual, "wait_recovers over n"),
    }
