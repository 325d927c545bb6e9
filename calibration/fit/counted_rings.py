"""The costs of mechanisms that tell by a ring in the server's memory: polls by AIO, and io_uring.

                        median                         is in the model
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

    ring_sleeps         stolen, less unarmed           post_ns
                        busy time                      interrupt + call_ns + submit_ns + add_ns
                                                       + sleep_ns + wake_ns + woken_ns + retry_ns
                                                       + the read + complete_ns
    close_ended         a close after the reset     }  less by ended_saved_ns, together, than
    interrupt_reset_open  that reset                }  serve_close and interrupt_reset

What io_uring takes by batches is in ../ring_costs.py, here beside calls of as few connections.
Sources: models/completions/aio_poll.py, models/completions/io_uring.py, micro/polls.c,
micro/armed.c, micro/answered.c.
"""

from __future__ import annotations

from .counted_terms import few, value
from .curve_fit import fit_line
from .micro_medians import Medians, columns
from .micro_solution import Known, constant
from .ring_costs import CALLS, Work, solve_ring


def ring_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of those of these mechanisms that were measured."""
    found: Known = {}
    if medians.values_of("polls_ready", "batch"):
        found |= _aio_poll(medians, costs)
    if medians.values_of("ring_enter", "batch"):
        found |= _io_uring(medians, costs)
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
        value(costs, f"interrupt.{name}_ns") for name in ("sleep", "wake", "idle_exit")
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
    """Return what a connection takes less that was reset before it was closed."""
    bursts = medians.points("interrupt_reset_open", "burst")
    closed_ns = few(medians, "serve_close", "epoll") - medians.one("close_ended")
    reset_ns = dict(medians.points("interrupt_reset", "burst"))
    return closed_ns + sum(reset_ns[burst] - ns for burst, ns in bursts) / len(bursts)


def _io_uring(medians: Medians, costs: Known) -> Known:
    crossing_ns = value(costs, "call.crossing_ns")
    work = Work(*(few(medians, f"serve_{name}", "epoll") - crossing_ns for name in CALLS))
    ring = solve_ring(medians, work)
    stolen_ns, unarmed_ns = (
        medians.one("ring_sleeps", field=f"{name}_ns") for name in ("stolen", "unarmed")
    )
    slept_ns = value(costs, "interrupt.sleep_ns") + value(costs, "interrupt.wake_ns")
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
