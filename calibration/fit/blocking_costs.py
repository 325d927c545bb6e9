"""The costs of threads that sleep in their calls, and of beginning and ending them.

                        median                        is in the model
    handover_threads    one sleeps, one is woken      sleep_ns + wake_ns - saved_ns
    handover_processes  the same                      the same + process_switch
    spawn_thread        begun                         spawn_ns
                        busy time of its life         spawn_ns + a handover + exit_ns
    spawn_process       begun                         fork_ns
                        busy time of its life         fork_ns + a handover + process_exit_ns

block_ns, what a call takes beyond a sleep and what it takes awake, is measured by each machine in
its own way; one is for both calls, so it is the mean of read and accept. The CPU is handed over
straight where another thread is runnable: it does not become idle, which is what saved_ns saves.
On the counted target, where n is above 2, the scheduler preempts whoever wakes the next one before
it sleeps itself, so a hop has two switches: n = 2 has one, and is taken. What fork() takes is that
of a process as large as the bench, on hardware with its second thread.
Sources: models/threads/blocking.py, models/programs/thread_per_connection.py, micro/handover.c,
micro/spawned.c; Linux kernel/sched/core.c __schedule(), kernel/fork.c copy_process().
"""

from __future__ import annotations

from collections.abc import Sequence

from .micro_medians import Medians
from .micro_solution import Known, constant


def blocking_costs(
    medians: Medians, *, slept_ns: float, blocked_ns: Sequence[float], blocked: str
) -> Known:
    """Return the costs of threads that block.

    Parameters
    ----------
    slept_ns
        What falling asleep and waking up take where the CPU becomes idle.
    blocked_ns, blocked
        What each of the calls takes beyond that, and the benches that say so.

    Raises
    ------
    FitError
        If a bench is missing.
    """
    handover_ns, process_ns = (
        medians.points(f"handover_{kind}", "n")[0][1] for kind in ("threads", "processes")
    )
    found: Known = {
        "blocking.block_ns": constant(
            sum(blocked_ns) / len(blocked_ns), 0.0, f"{blocked}, less a sleep"
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
