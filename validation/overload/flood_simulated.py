"""Floods on the engines: a computing process beside packets that no program reads.

due times ─► sender ─► flood ─► interrupts, ksoftirqd ─► CPU left to a busy process
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...calibration.fit.packets import FloodPrices
from ...calibration.points.flood_points import FloodPoint
from ...calibration.profiles.cost_profile import Profile
from ...models.simulate import prepare_world, program_of
from ...sim.engine.c.run import CRun
from ...sim.engine.reference import ReferenceRun
from ...sim.figures.outcome import outcome_of
from ...sim.load.workload import closed_loop
from ...sim.state.columns import as_arrays, as_lists
from ...sim.state.costs import Costs, curve, flat
from ...sim.state.kernel_settings import KernelSettings, MachineSettings
from ...sim.state.kinds import Activity
from ...sim.state.settings import FloodSettings, RunSettings

_MECHANISM = "epoll_level"  # of a server that always sleeps
_PACKETS_MAX = 60_000


def costs_of(prices: FloodPrices, segments: int, profile: Profile) -> Costs:
    """Return the costs of *profile* with the interrupts and datagrams of a flood."""
    costs = profile.costs(_MECHANISM, open_connections=1)
    entry_ns = round(min(prices.entry_ns))
    more_ns = {
        round(us): round(ns) - entry_ns
        for us, ns in zip(prices.since_us, prices.entry_ns, strict=True)
    }
    return costs._replace(
        interrupt=costs.interrupt._replace(
            entry_ns=entry_ns,
            entry_since=curve(more_ns),
            datagram_entry_ns=0,  # entry_ns covers it, as no other packets come
            datagram_ns=round(prices.taken_ns(segments)),
            way=flat(0),  # the measured floods include it, as a wait (below)
        )
    )


def arrivals_ns(due_ns: Sequence[int], prices: FloodPrices, segments: int = 1) -> list[int]:
    """Return when each packet due at *due_ns* enters the backlog.

    All times are in ns from the first due time, ascending. A call must interrupt the receiver's CPU
    if that is at other work, which takes longer. The sender is late where its calls take longer
    than the time between two packets. The last due time ends the flood.
    """
    packet_ns = prices.taken_ns(segments)
    sender_free_ns, receiver_free_ns, last_ns = 0.0, -1e9, float(due_ns[-1])
    found = []
    for due in due_ns:
        begin_ns = max(float(due), sender_free_ns)
        if begin_ns > last_ns:
            break
        at_ns = begin_ns + prices.enqueued_ns
        found.append(round(at_ns))
        if at_ns < receiver_free_ns:
            receiver_free_ns += packet_ns
            sender_free_ns = begin_ns + prices.call_ns
            continue
        stop_ns = begin_ns + prices.stop_ns
        since_us = (stop_ns - receiver_free_ns) / 1000
        entry_ns = float(np.interp(since_us, prices.since_us, prices.entry_ns))
        receiver_free_ns = stop_ns + entry_ns + packet_ns
        sender_free_ns = begin_ns + prices.calling_ns
    return found


def simulated_progress(
    due_ns: Sequence[int],
    prices: FloodPrices,
    point: FloodPoint,
    profile: Profile,
    *,
    fast: bool = True,
) -> float:
    """Return the share of the CPU left to a computing process while packets come.

    The sender is not simulated: its packets arrive at the `arrivals_ns` of *due_ns*. At most 60,000
    are simulated, enough for a mean.
    """
    all_ns = arrivals_ns(due_ns, prices, point.segments)
    at_ns = all_ns[:_PACKETS_MAX]
    length_ns = max(due_ns[-1], 1) if len(at_ns) == len(all_ns) else at_ns[-1]
    settings = RunSettings(
        kernel=KernelSettings(coalesce_ns=round(prices.stop_ns - prices.enqueued_ns)),
        machine=MachineSettings(busy_processes=1, busy_nice=point.nice),
        # A random flood holds as many gaps; here they come from the sender, not from a generator.
        flood=FloodSettings(
            gap_ns=max(1, length_ns // len(at_ns)),
            until_ns=at_ns[-1] + 1,
        ),
        duration_ns=length_ns,
        warm_up_ns=0,
        sample_every_ns=0,
    )
    program = program_of(_MECHANISM)
    world = prepare_world(
        program,
        closed_loop(users=1, connections=1),
        costs_of(prices, point.segments, profile),
        settings,
        as_arrays if fast else as_lists,
    )
    last_ns = 0
    for i, ns in enumerate(at_ns):
        world.flood_gap_ns[i] = max(1, ns - last_ns)
        last_ns = ns
    engine = CRun if fast else ReferenceRun
    run = engine(program, world, duration_ns=settings.duration_ns, warm_up_ns=0)
    outcome = outcome_of(run.run(None), settings.duration_ns, program.mechanism)
    return float(outcome.ledger_ns[Activity.OTHER]) / length_ns
