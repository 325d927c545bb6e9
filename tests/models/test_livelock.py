"""Receive livelock and its cures: the shape of the outcome, whatever the seed, at the same costs.

An interrupt costs 100 ns and a datagram 70: a kernel that is interrupted by each handles 5.9
million a second with all of its time, and none from 10 million on. One that polls handles 14
million.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.toy import toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import open_loop
from dispatchsim.sim.state.kernel_settings import KernelSettings, MachineSettings, Packets
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import FloodSettings, RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS

SEEDS = range(10)
LONG_NS = 20 * MILLISECOND_NS
GAPS_NS = (1_000, 400, 200, 170, 140, 110, 95, 80, 60)
"""Between two datagrams: 1 to 17 million a second."""
KERNELS = {
    "interrupts": KernelSettings(packets=int(Packets.INTERRUPTS), receive_queue=50),
    "polling": KernelSettings(
        packets=int(Packets.POLLING),
        receive_queue=50,
        polling_share_permille=500,
        polling_tick_ns=MILLISECOND_NS,
    ),
    "ksoftirqd": KernelSettings(),
}


def flooded(
    kernel: KernelSettings, gap_ns: int, seed: int, connections_per_s: int, *, beside: int = 0
) -> Outcome:
    """Return what becomes of a server in a flood, and of processes that compute *beside* it."""
    trace = open_loop(rate_per_s=connections_per_s, seconds=LONG_NS / 1e9, seed=seed)
    run = RunSettings(
        kernel=kernel,
        machine=MachineSettings(busy_processes=beside),
        flood=FloodSettings(gap_ns=gap_ns),
        duration_ns=LONG_NS,
        sample_every_ns=0,
        seed=seed,
    )
    return simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")


def handled_share(outcome: Outcome) -> float:
    """Return which share of the CPU the handled datagrams are worth: what was not in vain."""
    return float(outcome.counts[Count.DATAGRAMS]) * 70 / outcome.duration_ns


@pytest.mark.parametrize("seed", SEEDS)
def test_mr97_livelock_where_each_packet_interrupts_and_none_with_polling_or_ksoftirqd(
    seed: int,
) -> None:
    curves: dict[str, list[float]] = {}
    progress: dict[str, list[float]] = {}
    for name, kernel in KERNELS.items():
        runs = [flooded(kernel, gap_ns, seed, 1_000, beside=1) for gap_ns in GAPS_NS]
        curves[name] = [handled_share(run) for run in runs]
        progress[name] = [float(run.ledger_ns[Activity.OTHER]) / LONG_NS for run in runs]
    rises, falls = curves["interrupts"], curves["interrupts"][3:]
    assert rises[0] < rises[1] < rises[2]
    assert all(a > b for a, b in pairwise(falls) if a > 0.01)
    assert falls[-1] < 0.01
    assert progress["interrupts"][-1] < 0.01
    for name in ("polling", "ksoftirqd"):
        assert min(curves[name][3:]) > 0.9 * max(curves[name][:4])
        assert curves[name][-1] > 0.3
        assert progress[name][-1] > 0.3


@pytest.mark.parametrize("seed", SEEDS)
def test_mr97_a_server_starves_where_each_packet_interrupts_and_lives_where_they_are_polled_for(
    seed: int,
) -> None:
    polling = KERNELS["polling"]._replace(polling_share_permille=900, receive_queue=1000)
    starved = flooded(KERNELS["interrupts"], 95, seed, 10_000)
    served = flooded(polling, 95, seed, 10_000)
    assert starved.counts[Count.REPLIES] < 0.05 * starved.status.size
    assert served.counts[Count.REPLIES] > 0.9 * served.status.size


@pytest.mark.parametrize("seed", SEEDS)
def test_mr97_the_server_recovers_when_the_flood_is_over(seed: int) -> None:
    trace = open_loop(rate_per_s=10_000, seconds=0.02, seed=seed)
    run = RunSettings(
        kernel=KERNELS["interrupts"],
        flood=FloodSettings(gap_ns=80, until_ns=5 * MILLISECOND_NS),
        duration_ns=LONG_NS,
        sample_every_ns=0,
        seed=seed,
    )
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")
    late = outcome.intended_ns > 6 * MILLISECOND_NS
    answered = outcome.done_ns[late & (outcome.intended_ns < 19 * MILLISECOND_NS)]
    assert (answered > 0).all()
    assert answered.size > 100
