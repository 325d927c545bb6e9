"""The costs of threads that sleep in their calls, and of beginning and ending them.

                        median                        is in the model
    read_sleeps         busy time of the call         interrupt + the read
                                                      + sleep_ns + wake_ns + block_ns
    accept_sleeps       busy time of the call         interrupt + the accept + the same
    handover_threads    one sleeps, one is woken      sleep_ns + wake_ns - saved_ns
    handover_processes  the same                      the same + process_switch
    spawn_thread        begun                         spawn_ns
                        busy time of its life         spawn_ns + a handover + exit_ns
    spawn_process       begun                         fork_ns
                        busy time of its life         fork_ns + a handover + process_exit_ns

One block_ns is for both calls, so it is the mean of the two. The CPU is handed over straight where
another thread is runnable: it does not become idle, which is what saved_ns saves. Where n is above
2 the scheduler preempts whoever wakes the next one before it sleeps itself, so a hop has two
switches: n = 2 has one. There are no caches, so no switch costs more for its number of threads, and
one between threads costs no more than waking does: they share their address space.
Sources: models/blocking.py, models/thread_per_connection.py, micro/sleepers.c, micro/handover.c,
micro/spawned.c; Linux kernel/sched/core.c __schedule(), kernel/fork.c copy_process().
"""

from __future__ import annotations

from ..micro_medians import Medians
from ..micro_solution import Known, constant
from .counted_terms import value


def blocking_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of threads that block, where a guest measured them."""
    if not medians.values_of("handover_threads", "n"):
        return {}
    slept_ns = value(costs, "interrupt.sleep_ns") + value(costs, "interrupt.wake_ns")
    blocked_ns = [_beyond_the_call(medians, bench) for bench in ("read_sleeps", "accept_sleeps")]
    handover_ns, process_ns = (
        medians.points(f"handover_{kind}", "n")[0][1] for kind in ("threads", "processes")
    )
    found: Known = {
        "blocking.block_ns": constant(
            sum(blocked_ns) / 2 - slept_ns, 0.0, "read_sleeps, accept_sleeps, less a sleep"
        ),
        "blocking.saved_ns": constant(
            slept_ns - handover_ns, 0.0, "a sleep, less handover_threads"
        ),
        "blocking.process_switch": constant(
            process_ns - handover_ns, 0.0, "handover_processes, less handover_threads"
        ),
    }
    for bench, begin, end, switch_ns in (
        ("spawn_thread", "spawn_ns", "exit_ns", handover_ns),
        ("spawn_process", "fork_ns", "process_exit_ns", process_ns),
    ):
        begin_ns = medians.one(bench, field="begin_ns")
        end_ns = medians.one(bench) - begin_ns - switch_ns
        found[f"blocking.{begin}"] = constant(begin_ns, 0.0, f"{bench}: until it has begun")
        found[f"blocking.{end}"] = constant(end_ns, 0.0, f"{bench}, less its begin and a handover")
    return found


def _beyond_the_call(medians: Medians, bench: str) -> float:
    """Return what a call that sleeps takes beyond its interrupt, and beyond one that need not."""
    own = (medians.one(bench, field=name) for name in ("stolen_ns", "awake_ns"))
    return medians.one(bench) - sum(own)
