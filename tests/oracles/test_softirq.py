"""Packets that come alone and in bursts at an idle CPU, beside the kernel's softirqs."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.driving import NO_CALLS
from tests.oracles.softirq import Prices, Softirqs, softirqs
from tests.served import on_server
from tests.toy import EPOLL, arrivals

from dispatchsim.models.epoll.epoll_level import EPOLL_LEVEL
from dispatchsim.models.remembering.overload import control
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, NO_INTERRUPT, ApplicationCosts, Costs, per_item
from dispatchsim.sim.state.kinds import SLEEP, Activity, Count
from dispatchsim.sim.state.mechanism import Program
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import Worker, World

END_NS = 400_000
LONG_NS = 80_000_000
DELAY_NS = 10_000_000
FAR_NS = 100_000_000
"""Answers come behind the end of the run: all packets are SYNs."""
TICK_NS = 4_000_000


def simulated(
    packets_ns: list[int],
    prices: Prices,
    budget: int,
    room: int,
    *,
    tick_ns: int = TICK_NS,
    delay_ns: int = DELAY_NS,
    end_ns: int = DELAY_NS + END_NS,
) -> Softirqs:
    def serve(world: World, worker: Worker) -> Iterator[int]:
        while True:
            yield SLEEP

    program = Program(serve, EPOLL_LEVEL, control)
    interrupt = NO_INTERRUPT._replace(
        idle_exit_ns=prices.idle_exit,
        entry_ns=prices.entry,
        syn_ns=prices.packet,
        entry_since=per_item(prices.since),
    )
    run = RunSettings(
        **on_server(softirq_budget=budget, receive_queue=room, tick_ns=tick_ns),
        network=NetworkSettings(delay_ns=delay_ns),
        duration_ns=end_ns,
        sample_every_ns=0,
    )
    costs = Costs(interrupt, NO_CALLS, ApplicationCosts(0), NO_CLIENT, EPOLL)
    world = prepare_world(program, arrivals(*packets_ns), costs, run)
    ReferenceRun(program, world, duration_ns=end_ns).run()
    kinds = (Count.INTERRUPTS, Count.PACKETS, Count.DEFERRED, Count.PACKET_DROPS)
    ledger = world.cpus[0].ledger_ns
    spent = (
        ledger[Activity.INTERRUPT_IDLE] + ledger[Activity.INTERRUPT],
        ledger[Activity.KSOFTIRQD],
    )
    return Softirqs(*(int(world.counts[kind]) for kind in kinds), *(int(ns) for ns in spent))


BURSTS = st.lists(
    st.tuples(st.integers(1, 30_000), st.integers(1, 12), st.integers(0, 120)), max_size=5
)


@settings(max_examples=150)
@given(
    bursts=BURSTS.filter(bool),
    prices=st.builds(
        Prices,
        st.sampled_from((0, 50, 1_000)),
        st.sampled_from((0, 7, 100)),
        st.sampled_from((1, 90, 200)),
        st.sampled_from((0, 3)),
    ),
    budget=st.integers(0, 4),
    room=st.sampled_from((1, 2, 4, 64)),
)
def test_packets_are_handled_at_once_left_or_lost(
    bursts: list[tuple[int, int, int]], prices: Prices, budget: int, room: int
) -> None:
    packets_ns, at_ns = [], 0
    for pause_ns, n, apart_ns in bursts:
        at_ns += pause_ns
        for _ in range(n):
            packets_ns.append(at_ns)
            at_ns += apart_ns
    arrive_ns = [ns + DELAY_NS for ns in packets_ns]
    expected = softirqs(arrive_ns, prices, budget, room, DELAY_NS + END_NS, tick_ns=TICK_NS)
    assert simulated(packets_ns, prices, budget, room) == expected


@settings(max_examples=60)
@given(
    at_ns=st.integers(1, 8_000_000),
    n=st.sampled_from((63, 64, 65, 128, 129, 640, 641, 705)) | st.integers(60, 800),
    packet_ns=st.sampled_from((100, 3_000, 20_000, 40_000)),
    budget=st.sampled_from((0, 640)),
    tick_ns=st.sampled_from((1_000_000, 4_000_000, 10_000_000)),
)
def test_a_softirq_ends_after_ten_rounds_or_the_round_in_which_its_time_is_over(
    at_ns: int, n: int, packet_ns: int, budget: int, tick_ns: int
) -> None:
    prices, room = Prices(1_000, 100, packet_ns, 0), 1_000
    end_ns = FAR_NS + LONG_NS
    expected = softirqs([at_ns + FAR_NS] * n, prices, budget, room, end_ns, tick_ns=tick_ns)
    found = simulated(
        [at_ns] * n, prices, budget, room, tick_ns=tick_ns, delay_ns=FAR_NS, end_ns=end_ns
    )
    assert found == expected
