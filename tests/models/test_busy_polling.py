"""Servers that ask again and again instead of blocking: no wake-up, and no idleness."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import MECHANISMS, arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings

TWO = arrivals(10_000, 50_000)
BLOCKS = RunSettings(duration_ns=100_000, sample_every_ns=0)
SPINS = BLOCKS._replace(**on_server(busy=True))


def test_b19_26_a_spin_on_epoll() -> None:
    steps, outcome = timeline("epoll_level", TWO, SPINS)
    # 70 until the first look, then as many whole looks as fit before the packet: (10000 - 70) // 70
    # = 141, the next is lengthened by its softirq (100 + 200 + 50 + 80); no CPU leaves idleness.
    assert steps[:4] == [
        (0, 70, "WAIT"),
        (70, 9_940, "WAIT"),
        (9_940, 10_440, "WAIT"),
        (10_440, 10_470, "WAIT"),  # one event
    ]
    assert outcome.ledger_ns[Activity.IDLE] == 0
    assert outcome.counts[Count.SLEEPS] == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_m45_spinning_is_quicker_and_takes_the_whole_cpu(mechanism: str) -> None:
    _, blocks = timeline(mechanism, TWO, BLOCKS)
    _, spins = timeline(mechanism, TWO, SPINS)
    assert (spins.done_ns < blocks.done_ns).all()
    assert spins.counts[Count.REPLIES] == blocks.counts[Count.REPLIES] == 2
    assert spins.ledger_ns[[Activity.IDLE, Activity.SLEEP, Activity.WAKE]].tolist() == [0, 0, 0]
    assert spins.counts[Count.WAITS] > 100 * blocks.counts[Count.WAITS]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_skipping_ahead_changes_nothing(mechanism: str) -> None:
    # An entry of the calendar every 150 ns forbids it to skip more than two looks at once.
    _, skips = timeline(mechanism, TWO, SPINS)
    _, steps = timeline(mechanism, TWO, SPINS._replace(sample_every_ns=150))
    assert skips.counts.tolist() == steps.counts.tolist()
    assert skips.ledger_ns.tolist() == steps.ledger_ns.tolist()
    assert skips.done_ns.tolist() == steps.done_ns.tolist()


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "dev_poll_unhinted"])
def test_who_spins_overlooks_nothing_at_any_nanosecond(mechanism: str) -> None:
    # What becomes ready behind a scan, or while its result is told, is found by the next one.
    trace = arrivals(*range(10_000, 4_000_000, 20_007))
    run = SPINS._replace(client=ClientSettings(idle=40), duration_ns=4_100_000)
    outcome = simulate(mechanism, trace, toy_costs(mechanism), run, engine="reference")
    late_ns = outcome.done_ns - outcome.intended_ns
    assert (outcome.done_ns > 0).all()
    assert late_ns.max() < 20_000
