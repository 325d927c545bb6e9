"""One call from a mechanism, a trace and costs to the outcome of a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..sim.costs import Costs
from ..sim.mechanism import Program
from ..sim.outcome import Outcome, outcome_of
from ..sim.reference import Extension, ReferenceRun
from ..sim.settings import RunSettings
from ..sim.streams import generator
from ..sim.workload import Trace
from ..sim.world import World, build_world
from .catalogue import MECHANISMS
from .event_loop import event_loop

_IDLE_DRAWS = 65_536
"""Life times drawn for the idle population, which takes a fresh one at each return."""


def simulate(
    mechanism: str,
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
    *,
    extend: Extension | None = None,
    observe: Callable[[int, int, int], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Run the event loop on *mechanism* under *trace* and return its outcome.

    Parameters
    ----------
    mechanism:
        A name of `MECHANISMS`.
    trace, costs, settings:
        What the clients do, what things cost, and everything else.
    extend, observe, progress:
        As for `ReferenceRun`.

    Raises
    ------
    ValueError
        For an unknown mechanism, a setting out of its range, or an idle population that does not
        fit the server's descriptors.
    """
    world = prepare_world(mechanism, trace, costs, settings)
    run = ReferenceRun(
        program_of(mechanism),
        world,
        duration_ns=settings.duration_ns,
        warm_up_ns=settings.warm_up_ns,
        extend=extend,
        observe=observe,
    )
    return outcome_of(run.run(progress), settings.duration_ns)


def program_of(mechanism: str) -> Program:
    """Return the event loop on the mechanism of that name.

    Raises
    ------
    ValueError
        For an unknown mechanism.
    """
    if mechanism not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise ValueError(f'mechanism must be one of {known}, got "{mechanism}"')
    return event_loop(MECHANISMS[mechanism])


def prepare_world(mechanism: str, trace: Trace, costs: Costs, settings: RunSettings) -> World:
    """Return the world before the run; every random draw of the idle population is made here."""
    server, client = settings.server, settings.client
    if mechanism == "select" and server.fd_setsize > 0:
        # A descriptor that does not fit the bitmap cannot be watched: for a server that checks,
        # as it must, FD_SETSIZE is its descriptor limit.
        server = server._replace(fd_limit=min(server.fd_limit, server.fd_setsize))
        settings = settings._replace(server=server)
    idle_life_ns: list[int] = []
    if client.idle_life_ns > 0 and client.idle > 0:
        n_draws = max(_IDLE_DRAWS, client.idle)
        drawn = generator(settings.seed, "idle").exponential(client.idle_life_ns, n_draws)
        idle_life_ns = np.maximum(1, np.rint(drawn)).astype(np.int64).tolist()
    return build_world(trace, costs, settings, idle_life_ns)
