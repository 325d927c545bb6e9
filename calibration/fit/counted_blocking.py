"""What calls that sleep take on the counted target beyond a sleep and what they take awake.

                        median                        is in the model
    read_sleeps         busy time of the call         interrupt + the read
                                                      + sleep_ns + wake_ns + block_ns
    accept_sleeps       busy time of the call         interrupt + the accept + the same

The other costs of threads are in ../blocking_costs.py. There are no caches here, so no switch costs
more for its number of threads, and one between threads costs no more than waking does: they share
their address space.
Sources: models/threads/blocking.py, micro/sleepers.c.
"""

from __future__ import annotations

from . import blocking_costs as of_threads
from .counted_terms import value
from .micro_medians import Medians
from .micro_solution import Known


def blocking_costs(medians: Medians, costs: Known) -> Known:
    """Return the costs of threads that block, where a guest measured them."""
    if not medians.values_of("handover_threads", "n"):
        return {}
    slept_ns = value(costs, "interrupt.sleep_ns") + value(costs, "interrupt.wake_ns")
    benches = ("read_sleeps", "accept_sleeps")
    return of_threads.blocking_costs(
        medians,
        slept_ns=slept_ns,
        blocked_ns=[_beyond_the_call(medians, bench) - slept_ns for bench in benches],
        blocked=", ".join(benches),
    )


def _beyond_the_call(medians: Medians, bench: str) -> float:
    """Return what a call that sleeps takes beyond its interrupt, and beyond one that need not."""
    own = (medians.one(bench, field=name) for name in ("stolen_ns", "awake_ns"))
    return medians.one(bench) - sum(own)
