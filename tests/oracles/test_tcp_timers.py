"""A client whose SYNs all find the accept queue full, beside the kernel's timers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import tcp_timers
from tests.oracles.tcp_timers import syns_ns
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import prepare_world, program_of
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Status, occurrence
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.state.world import Cpu, World
from dispatchsim.sim.wire.retransmission import goes_off_ns

DELAY_NS = 3 * MILLISECOND_NS
LATE = 3
"""The connection that comes when one is served for hours, and two wait."""


class Syns:
    """An observer that keeps when SYNs of the late connection reach the server."""

    def __init__(self) -> None:
        self.at_ns: list[int] = []

    def step_ends(self, world: World, cpu: Cpu) -> None:
        """Leave it at that."""

    def went_on(self, world: World) -> None:
        """Leave it at that."""

    def happened(self, world: World, kind: int, subject: int) -> None:
        """Keep the time of a SYN that is the late one's."""
        if kind == occurrence.SYN and subject == LATE:
            self.at_ns.append(world.now_ns)


@settings(max_examples=60)
@given(
    late_ns=st.integers(30 * MILLISECOND_NS, 60 * MILLISECOND_NS),
    linear=st.sampled_from((0, 1, 4)),
    first_s=st.sampled_from((1, 3)),
    tick_ns=st.sampled_from((0, MILLISECOND_NS, 4 * MILLISECOND_NS, 10 * MILLISECOND_NS)),
)
def test_syns_are_sent_again_when_the_kernel_would(
    late_ns: int, linear: int, first_s: int, tick_ns: int
) -> None:
    sent_ns, fails_ns = syns_ns(late_ns, first_s * SECOND_NS, linear, tick_ns)
    seen = Syns()
    program = program_of("epoll_level")
    run = RunSettings(
        **on_server(backlog=1, accept_limit=1, read_after_accept=True),
        network=NetworkSettings(delay_ns=DELAY_NS, timer_tick_ns=tick_ns),
        client=ClientSettings(linear_syn_timeouts=linear, syn_timeout_ns=first_s * SECOND_NS),
        duration_ns=fails_ns,
        sample_every_ns=0,
    )
    trace = arrivals(*(i * 10 * MILLISECOND_NS for i in range(LATE)), late_ns)
    costs = toy_costs("epoll_level", application=ApplicationCosts(10_000 * SECOND_NS))
    world = prepare_world(program, trace, costs, run)
    ReferenceRun(program, world, duration_ns=fails_ns, observe=seen).run()
    assert seen.at_ns == [at_ns + DELAY_NS for at_ns in sent_ns]
    assert (world.status[LATE], world.done_ns[LATE]) == (Status.DROPPED, fails_ns)


@given(
    now_ns=st.integers(0, 10**12),
    after_ns=st.integers(0, 3_000 * SECOND_NS),
    tick_ns=st.sampled_from((0, MILLISECOND_NS, 4 * MILLISECOND_NS, 10 * MILLISECOND_NS)),
)
def test_a_timer_goes_off_at_the_bucket_of_the_wheel(
    now_ns: int, after_ns: int, tick_ns: int
) -> None:
    expected = tcp_timers.goes_off_ns(now_ns, after_ns, tick_ns)
    assert goes_off_ns(now_ns, after_ns, tick_ns) == expected
