"""A client whose SYNs all find the accept queue full, beside the kernel's timers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import tcp_timers
from tests.oracles.driving import NO_CALLS
from tests.oracles.tcp_timers import data_ns, syn_acks_ns, syns_ns
from tests.served import on_server
from tests.toy import EPOLL, arrivals, toy_costs

from dispatchsim.models.simulate import prepare_world, program_of
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, NO_INTERRUPT, ApplicationCosts, Costs
from dispatchsim.sim.state.kinds import Count, Status, occurrence
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.state.world import Cpu, World
from dispatchsim.sim.wire.retransmission import goes_off_ns

DELAY_NS = 3 * MILLISECOND_NS
LATE = 3
"""The connection that comes when one is served for hours, and two wait."""


class Seen:
    """An observer that keeps when occurrences of one *kind* befall one connection."""

    def __init__(self, kind: int, connection: int) -> None:
        self.at_ns: list[int] = []
        self._wanted = (kind, connection)

    def step_ends(self, world: World, cpu: Cpu) -> None:
        """Leave it at that."""

    def went_on(self, world: World) -> None:
        """Leave it at that."""

    def happened(self, world: World, kind: int, subject: int) -> None:
        """Keep the time of what is wanted."""
        if (kind, subject) == self._wanted:
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
    seen = Seen(occurrence.SYN, LATE)
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


TICKS_NS = st.sampled_from((0, MILLISECOND_NS, 4 * MILLISECOND_NS, 10 * MILLISECOND_NS))
HALF_OPEN = 3
"""The last of three that come together, where the accept queue has room for two more."""


def seen_of_half_open(
    kind: int, at_ns: int, first_s: int, tick_ns: int, duration_ns: int
) -> tuple[list[int], World]:
    """Return when that *kind* befalls the half-open connection, and the world at the end."""
    seen, program = Seen(kind, HALF_OPEN), program_of("epoll_level")
    run = RunSettings(
        **on_server(backlog=2),
        network=NetworkSettings(delay_ns=DELAY_NS, timer_tick_ns=tick_ns),
        client=ClientSettings(syn_timeout_ns=first_s * SECOND_NS),
        duration_ns=duration_ns,
        sample_every_ns=0,
    )
    free = Costs(NO_INTERRUPT, NO_CALLS, ApplicationCosts(0), NO_CLIENT, EPOLL)
    # A first wait that takes hours: nobody accepts.
    costs = free._replace(mechanism=EPOLL._replace(call_ns=10_000 * SECOND_NS))
    trace = arrivals(0, *[at_ns] * 3)
    world = prepare_world(program, trace, costs, run)
    ReferenceRun(program, world, duration_ns=duration_ns, observe=seen).run()
    return seen.at_ns, world


@settings(max_examples=40)
@given(
    at_ns=st.integers(20 * MILLISECOND_NS, 60 * MILLISECOND_NS),
    first_s=st.sampled_from((1, 3)),
    tick_ns=TICKS_NS,
)
def test_a_syn_ack_is_sent_again_and_its_connection_forgotten(
    at_ns: int, first_s: int, tick_ns: int
) -> None:
    expected = syn_acks_ns(at_ns + DELAY_NS, first_s * SECOND_NS, tick_ns)
    found, world = seen_of_half_open(
        occurrence.SYN_ACK_TIMER, at_ns, first_s, tick_ns, expected[-1] + SECOND_NS
    )
    assert found == expected
    assert world.counts[Count.HALF_OPEN_EXPIRED] == 1
    assert (world.listeners[0].n_half, world.listeners[0].n_queued) == (0, 3)


@settings(max_examples=20)
@given(at_ns=st.integers(20 * MILLISECOND_NS, 60 * MILLISECOND_NS))
def test_a_request_is_sent_again_with_time_outs_that_double(at_ns: int) -> None:
    connected_ns, until_ns = at_ns + 2 * DELAY_NS, 60 * SECOND_NS
    sent_ns = data_ns(connected_ns, 2 * DELAY_NS, until_ns - DELAY_NS)
    found, _ = seen_of_half_open(occurrence.REQUEST, at_ns, 1, 0, until_ns)
    # The first rides along with the acknowledgement, as one occurrence.
    assert found == [ns + DELAY_NS for ns in sent_ns][-len(found) :]
    assert len(found) in (len(sent_ns) - 1, len(sent_ns))
