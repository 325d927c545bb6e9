"""The costs of threads that sleep in their calls, and of beginning and ending them.

                        median                        is in the model
    handover_threads    one sleeps, one is woken      sleep_ns + wake_ns - saved_ns
    handover_processes  the same                      the same + process_switch
    spawn_thread        begun                         spawn_ns
                        busy time of its life         spawn_ns + a handover + exit_ns
    spawn_process       begun                         fork_ns
                        busy time of its life         fork_ns + a handover + process_exit_ns
    spawn_threads       begun, of b at a time         spawn_ns + (b - 2) / b x stack_ns
                        the rest of their lives       as of one + (b - 1) / b x left_ns
                                                      + (b - 2) / b x stack_freed_ns

On hardware, by CPU time, beside epoll_block (a wait that sleeps, and its read: call_ns + event_ns
+ the read + sleep_ns + wake_ns):

    read_block          CPU time of a read            the read + sleep_ns + wake_ns + block_ns
    accept_block        the same of accept            the accept + the same

On the counted target, by busy time:

    read_sleeps         busy time of the call         interrupt + the read
                                                      + sleep_ns + wake_ns + block_ns
    accept_sleeps       busy time of the call         interrupt + the accept + the same

block_ns is the time of a call beyond a sleep and beyond the same call awake. Both calls share it,
so it is the mean of read and accept. If another thread is runnable, the CPU switches to it without
becoming idle; saved_ns is this saving. On the counted target with n above 2, the scheduler preempts
the waking thread before it sleeps, so a hop has two switches; n = 2 has one, and is used. There are
no caches on the counted target, so a switch does not cost more with more threads. A switch between
threads costs no more than waking, as they share their address space. fork() is measured for a
process as large as the bench, on hardware with its second thread.
Sources: models/threads/blocking.py, models/programs/thread_per_connection.py, micro/handover.c,
micro/spawned.c, micro/sleepers.c; Linux kernel/sched/core.c __schedule(), kernel/fork.c
copy_process().
"""

from __future__ import annotations

from collections.abc import Sequence

from ...models.threads.blocking import STACKS_KEPT
from .curve_fit import fit_slope
from .medians import Known, Medians, constant, first


def micro_blocking_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of threads that block, if a machine measured them.

    Raises
    ------
    FitError
        If a part of the benches is missing.
    """
    if not medians.values_of("handover_threads", "n"):
        return {}
    calls = ("read", "accept")
    return _blocking_costs(
        medians,
        slept_ns=first(costs, "interrupt.sleep_ns", "interrupt.wake_ns"),
        blocked_ns=[
            beside_the_sleep_ns(medians, costs, f"{call}_block") - first(costs, f"call.{call}_ns")
            for call in calls
        ],
        blocked=", ".join(f"{call}_block" for call in calls),
    )


def counted_blocking_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of threads that block, if a guest measured them.

    Raises
    ------
    FitError
        If a part of the benches is missing.
    """
    if not medians.values_of("handover_threads", "n"):
        return {}
    slept_ns = first(costs, "interrupt.sleep_ns", "interrupt.wake_ns")
    benches = ("read_sleeps", "accept_sleeps")
    return _blocking_costs(
        medians,
        slept_ns=slept_ns,
        blocked_ns=[_beyond_the_call(medians, bench) - slept_ns for bench in benches],
        blocked=", ".join(benches),
    ) | _stacks(medians, first(costs, "interrupt.left_ns"))


def _blocking_costs(
    medians: Medians, *, slept_ns: float, blocked_ns: Sequence[float], blocked: str
) -> Known:
    """Return the costs of threads that block.

    Parameters
    ----------
    slept_ns
        Cost of falling asleep and waking up if the CPU becomes idle.
    blocked_ns, blocked
        Cost of each call beyond that, and the names of its benches.

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


def _stacks(medians: Medians, left_ns: float) -> Known:
    """Return the costs of stacks that no CPU has kept, if a guest measured them.

    Of b threads at a time, b - 2 need a new stack. Each leaves work to a kernel thread (left_ns);
    when the server itself serves them all, only its last sleep does.
    """
    begun = medians.points("spawn_threads", "batch", field="begin_ns", least=0)
    lived = medians.points("spawn_threads", "batch", least=0)
    if len(begun) < 2:
        return {}
    (_, begin_ns), (_, life_ns) = begun[0], lived[0]
    shares, new_ns, freed_ns = [], [], []
    for (n, begin_of_n_ns), (_, life_of_n_ns) in zip(begun[1:], lived[1:], strict=True):
        shares.append((n - STACKS_KEPT) / n)
        new_ns.append(begin_of_n_ns - begin_ns)
        rest_ns = life_of_n_ns - begin_of_n_ns - (life_ns - begin_ns)
        freed_ns.append(rest_ns - (n - 1) / n * left_ns)
    return {
        f"blocking.{name}": constant(fit.unknowns[0], fit.residual, "spawn_threads, by batch")
        for name, fit in (
            ("stack_ns", fit_slope(shares, new_ns)),
            ("stack_freed_ns", fit_slope(shares, freed_ns)),
        )
    }


def beside_the_sleep_ns(medians: Medians, costs: Known, bench: str) -> float:
    """Return the CPU time of a sleeping call without the sleep."""
    n = medians.points("epoll_block", "n")[0][0]
    awake_ns = first(costs, "epoll_level.call_ns", "epoll_level.event_ns", "call.read_ns")
    return medians.one(bench) - medians.one("epoll_block", {"n": n}) + awake_ns


def _beyond_the_call(medians: Medians, bench: str) -> float:
    """Return the time of a sleeping call beyond its interrupt and beyond the same call awake."""
    own = (medians.one(bench, field=name) for name in ("stolen_ns", "awake_ns"))
    return medians.one(bench) - sum(own)
