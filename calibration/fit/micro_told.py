"""The costs on hardware of servers that are told of changes: by epoll, or by queued signals.

                          median                       is in the model
    wait_told ...         as in told_costs.py          call_ns, notice_ns or signal_ns, event_ns
    wait_ready, wait_vain the same                     of epoll_once; recheck_ns
    wait_listed           n listed, K told of          of epoll_once: call_ns + K x notice_ns(n)
    signals_flushed       Q signals                    flush_ns + Q x discard_ns
    wait_recovers         n watched                    poll(n), as in recovery_costs.py
    watch_add             n others watched             add_ns
    watch_delete          n others watched             delete_ns
    serve_watch           signals: a connection        } together arm_ns
    serve_unwatch, serve_close, less an unarmed one's  }
    interrupt_signal      less one watched by epoll    queue_ns
    interrupt_signal_lost the same, a full queue       lost_ns

Any request interrupts for data_ns in the model, epoll's wake-up callback included. A socket that
signals has none, so queue_ns is what a signal takes more than that. Signals do not differ by what
they tell, so it is that of data, and holds for the listener's, too. To a full queue nothing at all
is added: a signal of the bench's own fills it, and SIGIO waits already.
Sources: models/epoll/epoll_edge.py, models/epoll/epoll_once.py, models/signals/signalled.py,
models/signals/signal_queue.py, micro/README.md.
"""

from __future__ import annotations

from .curve_fit import fit_curve, fit_line
from .micro_medians import Medians, columns
from .micro_solution import Fitted, Known, constant
from .micro_terms import added_to_packets, served
from .recovery_costs import A_CALL, n_discarded, recovery_ns
from .told_costs import Told, once_costs, solve_told, vain_cost

TOLD_MAX = 1024
"""Of how many descriptors one wait tells, in the benches as in the server."""


def told_costs(medians: Medians, _costs: Known) -> Known:
    """Return the costs of those of these mechanisms that were measured.

    Raises
    ------
    FitError
        If a part of the benches of one is missing.
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
            found[f"{name}.arm_ns"] = _arming(medians, name)
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
        found[f"{name}.{cost}"] = Fitted(fit.at, fit.ns, fit.residual, bench)
    return found


def _telling(medians: Medians, call_ns: float) -> Fitted:
    """Price what a listed descriptor takes by their number: told of in turn, they are cold."""
    counts, totals = columns(medians.points("wait_listed", "n", {"mechanism": "epoll_once"}))
    each_ns = [
        max(0.0, ns - call_ns) / min(n, TOLD_MAX) for n, ns in zip(counts, totals, strict=True)
    ]
    fit = fit_curve(counts, each_ns)
    return Fitted(fit.at, fit.ns, fit.residual, "wait_listed, less call_ns")


def _arming(medians: Medians, name: str) -> Fitted:
    closed_ns = served(medians, "close", name) - served(medians, "close", "none")
    arm_ns = served(medians, "watch", name) + served(medians, "unwatch", name)
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
        f"{name}.poll": Fitted(poll.at, poll.ns, poll.residual, "wait_recovers over n"),
    }
