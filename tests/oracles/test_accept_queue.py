"""Bursts of SYNs on a small backlog, beside the kernel's two queues."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.accept_queue import Listened, listened
from tests.oracles.driving import NO_CALLS
from tests.served import on_server
from tests.toy import EPOLL, arrivals

from dispatchsim.models.epoll.epoll_level import EPOLL_LEVEL
from dispatchsim.models.remembering.overload import control
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.kernel.sockets import accept
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, NO_INTERRUPT, ApplicationCosts, Costs
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.mechanism import Program
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import Worker, World

END_NS = 3_000
COSTS = Costs(NO_INTERRUPT, NO_CALLS, ApplicationCosts(0), NO_CLIENT, EPOLL)


def simulated(
    syns_ns: list[int], accepts_ns: list[int], backlog: int, delay_ns: int, *, cookies: bool
) -> Listened:
    accepted: list[tuple[int, int | None]] = []

    def serve(world: World, worker: Worker) -> Iterator[int]:
        for at_ns in [*accepts_ns, 10 * END_NS]:
            yield at_ns - world.now_ns
            fd = accept(world, worker)
            accepted.append((world.now_ns, world.connection_of[fd] if fd >= 0 else None))

    program = Program(serve, EPOLL_LEVEL, control)
    run = RunSettings(
        **on_server(backlog=backlog, syn_cookies=cookies),
        network=NetworkSettings(delay_ns=delay_ns),
        duration_ns=END_NS,
        sample_every_ns=0,
    )
    world = prepare_world(program, arrivals(*syns_ns), COSTS, run)
    ReferenceRun(program, world, duration_ns=END_NS).run()
    n_syns, n_acks = int(world.counts[Count.SYN_DROPS]), int(world.counts[Count.ACK_DROPS])
    listener = world.listeners[0]
    return Listened(accepted, n_syns, n_acks, listener.n_half, listener.n_queued)


TIMES = st.lists(st.integers(1, 1_000), max_size=14).map(sorted)


@settings(max_examples=150)
@given(
    syns_ns=TIMES.filter(bool),
    accepts_ns=st.lists(st.integers(1, 2_500), max_size=8, unique=True).map(sorted),
    backlog=st.integers(1, 4),
    delay_ns=st.sampled_from((1, 10, 100, 400)),
    cookies=st.booleans(),
)
def test_two_queues_take_one_more_than_the_backlog(
    syns_ns: list[int], accepts_ns: list[int], backlog: int, delay_ns: int, cookies: bool
) -> None:
    expected = listened(syns_ns, accepts_ns, backlog, delay_ns, END_NS, cookies=cookies)
    assert simulated(syns_ns, accepts_ns, backlog, delay_ns, cookies=cookies) == expected
