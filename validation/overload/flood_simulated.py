"""The same floods on the engines: a process that computes, beside packets that nobody reads.

    arrivals of the timeline ─► flood ─► interrupts, ksoftirqd ─► what is left to a busy process

The sender is not simulated, so its packets come when the timeline says that they do: calls that
have to signal take longer, and are late.
"""

from __future__ import annotations

from ...calibration.fit.datagrams import FloodPrices
from ...calibration.points.flood_points import FloodPoint
from ...calibration.profiles.cost_profile import Profile
from ...models.simulate import prepare_world, program_of
from ...sim.engine.c.run import CRun
from ...sim.engine.reference import ReferenceRun
from ...sim.figures.outcome import outcome_of
from ...sim.load.workload import closed_loop
from ...sim.state.columns import as_arrays, as_lists
from ...sim.state.costs import Costs, curve, flat
from ...sim.state.kinds import Activity
from ...sim.state.settings import FloodSettings, KernelSettings, RunSettings
from .flood_timeline import BACKLOG_MAX, PASS_PACKETS, PASSES_MAX, Forecast

_MECHANISM = "epoll_level"  # of a server that sleeps all the time
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
            datagram_entry_ns=0,  # that is entry_ns here, as nothing else comes
            datagram_ns=round(prices.taken_ns(segments)),
            way=flat(0),  # floods have measured it themselves: what is waited for, below
        )
    )


def simulated_progress(
    forecast: Forecast,
    prices: FloodPrices,
    point: FloodPoint,
    profile: Profile,
    *,
    fast: bool = True,
) -> float:
    """Return the share of its CPU that a process computes in while the packets of *forecast* come.

    At most 60,000 packets of it, which are enough for a mean.
    """
    at_ns = forecast.arrivals_ns[:_PACKETS_MAX]
    whole = len(at_ns) == len(forecast.arrivals_ns)
    length_ns = forecast.length_ns if whole else at_ns[-1]
    settings = RunSettings(
        kernel=KernelSettings(
            softirq_budget=PASS_PACKETS * PASSES_MAX,
            receive_queue=BACKLOG_MAX,
            coalesce_ns=round(prices.stop_ns - prices.enqueued_ns),
            busy_processes=1,
            busy_nice=point.nice,
        ),
        # A flood at random has room for as many gaps; these are not drawn, but the sender's.
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
