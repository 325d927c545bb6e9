"""Clients that stop reading for a while, by hand and exact to the nanosecond, and who suffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.served import on_server
from tests.steps import Step
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.assembly.checks import check
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.settings import Fault, FaultKind, RunSettings, having
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS

ALL = 1_000


def stops(at_ns: int, length_ns: int, share_permille: int = ALL) -> Fault:
    return Fault(int(FaultKind.READING), at_ns, length_ns, share_permille)


def sent(
    *faults: Fault, send_buffer_bytes: int = 2_000, **network: Any
) -> tuple[list[Step], Outcome]:
    """Return the steps of a reply of 5000 bytes and what becomes of it; both engines agree."""
    run = RunSettings(
        **on_server(send_buffer_bytes=send_buffer_bytes),
        network=NetworkSettings(5_000, **network),
        faults=faults,
        duration_ns=400_000,
        sample_every_ns=0,
    )
    trace, costs = arrivals(10_000, reply_bytes=5_000), toy_costs("epoll_level")
    steps, outcome = timeline("epoll_level", trace, run)
    assert simulate("epoll_level", trace, costs, run, engine="fast").same_as(outcome)
    return steps, outcome


def writes_of(steps: list[Step]) -> list[tuple[int, int]]:
    return [(begin_ns, end_ns) for begin_ns, end_ns, activity in steps if activity == "WRITE"]


def test_a_server_waits_for_room_until_its_client_reads_on() -> None:
    steps, outcome = sent(stops(20_000, 100_000))
    # 2000 are with the client's kernel at 34440. It reads them at 120000, which the server hears
    # of at 125000: 1000 out of idleness, entry 100, acknowledgement 50, 500 of waking, 30. So it
    # writes from 126680 on, is heard at 132080, hears at 137080 and writes the last 1000 as late.
    assert writes_of(steps) == [(29_040, 29_440), (126_680, 127_080), (138_760, 139_160)]
    assert outcome.done_ns.tolist() == [144_160]


def test_what_fits_the_buffer_holds_nobody_but_is_read_late() -> None:
    steps, outcome = sent(stops(20_000, 100_000), send_buffer_bytes=5_000)
    assert writes_of(steps) == [(29_040, 29_440)]
    assert outcome.done_ns.tolist() == [120_000]


@pytest.mark.parametrize(
    ("faults", "done_ns"),
    [
        ((), 34_440),
        ((stops(34_440, 1),), 34_441),  # when it comes, not when it is sent
        ((stops(34_439, 1),), 34_440),  # it is over
        ((stops(34_441, 9_000),), 34_440),
        ((stops(50_000, 20_000), stops(30_000, 20_000)), 70_000),  # one after the other
        ((stops(30_000, 20_000), stops(32_000, 4_000)), 50_000),  # at once
    ],
)
def test_a_reply_is_at_its_client_when_that_reads(faults: tuple[Fault, ...], done_ns: int) -> None:
    _, outcome = sent(*faults, send_buffer_bytes=5_000)
    assert outcome.done_ns.tolist() == [done_ns]


def test_a_receive_window_takes_as_much_as_it_is() -> None:
    network = {"window_segments": 1, "receive_window_bytes": 3_000}
    steps, outcome = sent(stops(20_000, 100_000), **network)
    # Flights of 1448 and 552, which at 41520 the 1000 join that the client's kernel still has room
    # for; acknowledged at 39440, 49440 and 51520. At 49440 less than a third of the buffer is free.
    # At 51520 the other 448 leave, and wait for the client, which reads at 120000. The last 1552
    # are in the send buffer from 53600 on, and leave at 125000.
    assert [end_ns for _, end_ns in writes_of(steps)] == [29_440, 41_520, 53_600]
    assert outcome.done_ns.tolist() == [130_000]


def test_an_event_loop_serves_the_others_while_a_pool_serves_nobody() -> None:
    at_ns = np.arange(1_500) * MILLISECOND_NS
    run = RunSettings(
        **on_server(send_buffer_bytes=2_000, backlog=4_096),
        network=NetworkSettings(5_000),
        faults=(stops(200 * MILLISECOND_NS, SECOND_NS, 300),),
        duration_ns=2 * SECOND_NS,
        sample_every_ns=0,
    )
    over_ns = 1_200 * MILLISECOND_NS
    late = {}
    for mechanism, workers in (("epoll_level", 1), ("blocking", 4)):
        settings = having(run, workers=workers)
        outcome = simulate(
            mechanism, arrivals(*at_ns.tolist(), reply_bytes=5_000), toy_costs(mechanism), settings
        )
        assert (outcome.status == 0).all()  # everybody is served in the end
        during = (at_ns >= 300 * MILLISECOND_NS) & (at_ns < over_ns - MILLISECOND_NS)
        late[mechanism] = np.mean(outcome.done_ns[during] >= over_ns)
    # Those who do not read are late in any case: three in ten, give or take 5 standard deviations.
    assert abs(late["epoll_level"] - 0.3) < 5 * (0.3 * 0.7 / 899) ** 0.5
    assert late["blocking"] == 1


@pytest.mark.parametrize("value", [0, 1_001])
def test_a_share_is_checked(value: int) -> None:
    with pytest.raises(ValueError, match=f"must be 1 to 1000 of 1000, got {value}"):
        check(RunSettings(faults=(stops(0, 1, value),)))
