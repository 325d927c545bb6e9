"""Packets and calls take longer if others have run since the last of a kind, or after idleness."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.toy import arrivals, on_both, toy_costs

from dispatchsim.sim.cpu.caches import cooled_ns
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import ColdCosts, curve, flat
from dispatchsim.sim.state.kinds import NONE, Activity, Count, KernelPath, kernel_path
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MICROSECOND_NS, MILLISECOND_NS

MORE = curve({0: 100, 10: 1_100})
"""100 ns among others, and 100 ns more for each microsecond of idleness."""


def a_cpu() -> Any:
    return SimpleNamespace(
        ledger_ns=[0] * len(Activity),
        idle=False,
        idle_from_ns=0,
        irq_free_ns=NONE,
        idle_at_last_ns=[0] * len(KernelPath),
        last_path=NONE,
    )


def test_a_path_is_warm_right_after_itself_and_cold_after_others_and_idleness() -> None:
    world: Any = SimpleNamespace(caches_cool=True, now_ns=0)
    cpu = a_cpu()
    assert cooled_ns(world, cpu, kernel_path.READ, MORE) == 100  # nothing has run here before
    assert cooled_ns(world, cpu, kernel_path.READ, MORE) == 0
    assert cooled_ns(world, cpu, kernel_path.WRITE, MORE) == 100
    assert cooled_ns(world, cpu, kernel_path.READ, MORE) == 100
    cpu.ledger_ns[Activity.IDLE] += 3 * MICROSECOND_NS
    assert (
        cooled_ns(world, cpu, kernel_path.READ, MORE) == 400
    )  # after itself, but also after idleness
    cpu.ledger_ns[Activity.IDLE] += 2 * MICROSECOND_NS
    assert cooled_ns(world, cpu, kernel_path.READ, MORE) == 300
    assert cooled_ns(world, cpu, kernel_path.WRITE, MORE) == 600  # of both pieces of idleness
    assert cooled_ns(world, cpu, kernel_path.WRITE, MORE) == 0


def test_a_packet_right_behind_one_of_its_kind_is_warm_whatever_the_first_has_noted() -> None:
    world: Any = SimpleNamespace(caches_cool=True, now_ns=0)
    cpu = a_cpu()
    cooled_ns(world, cpu, kernel_path.DATA, MORE)
    # Leaving idleness is noted after the first packet of the softirq, which goes on.
    cpu.ledger_ns[Activity.IDLE] += 5 * MICROSECOND_NS
    cpu.irq_free_ns = 3_000
    assert cooled_ns(world, cpu, kernel_path.DATA, MORE) == 0
    cpu.ledger_ns[Activity.IDLE] += 5 * MICROSECOND_NS
    cpu.irq_free_ns = -1
    assert cooled_ns(world, cpu, kernel_path.DATA, MORE) == 600


def test_idleness_counts_while_it_lasts() -> None:
    world: Any = SimpleNamespace(caches_cool=True, now_ns=9 * MICROSECOND_NS)
    cpu = a_cpu()
    cpu.idle, cpu.idle_from_ns = True, 2 * MICROSECOND_NS
    assert cooled_ns(world, cpu, kernel_path.SYN, MORE) == 800


def ran(cold: ColdCosts, *at_ns: int) -> Outcome:
    costs = toy_costs("epoll_level")._replace(cold=cold)
    settings = RunSettings(network=NetworkSettings(), duration_ns=MILLISECOND_NS, sample_every_ns=0)
    return on_both(arrivals(*at_ns), costs, settings)


@pytest.mark.parametrize(
    ("name", "activities"),
    [
        *((name, (Activity.INTERRUPT, Activity.INTERRUPT_IDLE)) for name in ("syn", "ack", "data")),
        ("reset", (Activity.INTERRUPT, Activity.INTERRUPT_IDLE)),
        ("accept", (Activity.ACCEPT,)),
        ("read", (Activity.READ,)),
        ("write", (Activity.WRITE,)),
        ("close", (Activity.CLOSE,)),
    ],
)
def test_each_packet_and_call_of_a_connection_is_cold_once(
    name: str, activities: tuple[Activity, ...]
) -> None:
    plain, cold = (
        ran(ColdCosts(), 10_000, 400_000),
        ran(ColdCosts(**{name: flat(70)}), 10_000, 400_000),
    )
    assert plain.counts[Count.REPLIES] == cold.counts[Count.REPLIES] == 2

    def spent_ns(outcome: Outcome) -> int:
        return sum(int(outcome.ledger_ns[each]) for each in activities)

    assert spent_ns(cold) - spent_ns(plain) == 2 * 70


def test_a_longer_pause_makes_the_next_connection_colder() -> None:
    by_idleness = ColdCosts(write=curve({0: 0, 1_000: 1_000_000}))

    def writing_ns(*at_ns: int) -> int:
        return int(ran(by_idleness, *at_ns).ledger_ns[Activity.WRITE])

    once_ns = writing_ns(10_000)
    near_ns, far_ns = writing_ns(10_000, 200_000), writing_ns(10_000, 500_000)
    assert once_ns < near_ns < far_ns
    assert far_ns - near_ns == pytest.approx(300_000, abs=2_000)
