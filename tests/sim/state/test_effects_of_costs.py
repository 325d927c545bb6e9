"""Costs that have a value of their own: what each moves, to the nanosecond, on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import (
    CALL,
    IDLE,
    INTERRUPT,
    MECHANISM,
    MECHANISMS,
    arrivals,
    on_both,
    timeline,
    toy_costs,
)

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import open_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import Costs, InterruptCosts, curve, curve_ns, per_item
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS

DELAY_NS = 5_000
ALONE = RunSettings(
    network=NetworkSettings(delay_ns=DELAY_NS), duration_ns=MILLISECOND_NS, sample_every_ns=0
)


def alone(costs: Costs) -> Outcome:
    """Return the outcome of one connection."""
    return simulate("epoll_level", arrivals(10_000), costs, ALONE, engine="reference")


def busy_ns(outcome: Outcome) -> int:
    """Return the CPU time of everything but idling."""
    return int(outcome.ledger_ns.sum() - outcome.ledger_ns[Activity.IDLE])


def test_a_syn_ack_leaves_before_its_packet_is_over() -> None:
    before = alone(toy_costs("epoll_level"))
    after = alone(toy_costs("epoll_level", interrupt=INTERRUPT._replace(syn_after_ns=70)))
    assert before.connected_ns[0] - after.connected_ns[0] == 70


def test_a_handshake_that_an_interrupt_handles_alone_finds_the_caches_cold() -> None:
    near = ALONE._replace(network=NetworkSettings(one_machine=True))
    cold = toy_costs("epoll_level", interrupt=INTERRUPT._replace(cold_ns=70))

    def more_ns(*at_ns: int) -> int:
        outcomes = [
            simulate("epoll_level", arrivals(*at_ns), costs, near, engine="reference")
            for costs in (toy_costs("epoll_level"), cold)
        ]
        assert all(outcome.counts[Count.REPLIES] == len(at_ns) for outcome in outcomes)
        plain_ns, cold_ns = map(busy_ns, outcomes)
        return cold_ns - plain_ns

    assert more_ns(10_000) == 70
    assert more_ns(10_000, 60_000) == 2 * 70
    assert more_ns(10_000, 10_000) == 0  # each finds what the other has brought


@pytest.mark.parametrize("mechanism", ["epoll_level", "blocking", "io_uring", "completion_port"])
def test_the_first_connection_after_idleness_finds_the_caches_cold(mechanism: str) -> None:
    near = ALONE._replace(network=NetworkSettings())
    plain = toy_costs(mechanism)
    cold = plain._replace(
        interrupt=plain.interrupt._replace(syn_cold_ns=70),
        call=plain.call._replace(accept_cold_ns=900),
    )

    def more_ns(*at_ns: int) -> int:
        usual, slow = (
            simulate(mechanism, arrivals(*at_ns), costs, near, engine="reference")
            for costs in (plain, cold)
        )
        assert usual.counts[Count.REPLIES] == slow.counts[Count.REPLIES] == len(at_ns)
        return busy_ns(slow) - busy_ns(usual)

    assert more_ns(10_000) == 970
    assert more_ns(10_000, 200_000) == 2 * 970
    # The second comes while the interrupt of the first goes on, and finds warm caches.
    assert more_ns(10_000, 10_010) == 970


def test_a_cpu_on_which_no_thread_runs_keeps_handshakes_in_its_caches() -> None:
    plain = toy_costs("epoll_level")
    cold = plain._replace(interrupt=plain.interrupt._replace(syn_cold_ns=70))
    own = ALONE._replace(**on_server(cpus=2, interrupt_cpu=1))
    trace = arrivals(10_000, 100_000, 200_000)
    usual, slow = (
        simulate("epoll_level", trace, costs, own, engine="reference") for costs in (plain, cold)
    )
    assert busy_ns(slow) == busy_ns(usual)


def test_a_cpu_that_was_idle_for_longer_takes_longer_to_wake() -> None:
    lazy = toy_costs("epoll_level", interrupt=INTERRUPT._replace(idle_exit_since=IDLE))
    near = ALONE._replace(network=NetworkSettings())

    def later_ns(*at_ns: int) -> list[int]:
        plain, later = (
            simulate("epoll_level", arrivals(*at_ns), costs, near, engine="reference").done_ns
            for costs in (toy_costs("epoll_level"), lazy)
        )
        return [int(after - before) for after, before in zip(later, plain, strict=True)]

    # The server is idle from less than 1 us on, and again from less than 15 us on.
    (first_ns,) = later_ns(10_000)
    assert first_ns == curve_ns(IDLE, 9)
    assert later_ns(10_000, 200_000) == [first_ns, curve_ns(IDLE, 185)]
    assert later_ns(10_000, 16_000)[1] < first_ns  # idle for some 2 us


def test_an_interrupt_that_finds_the_cpu_idle_takes_less_of_its_time_and_no_less_time() -> None:
    near = ALONE._replace(network=NetworkSettings())
    plain = toy_costs("epoll_level")
    saving = toy_costs("epoll_level", interrupt=INTERRUPT._replace(idle_saved_ns=30))

    def saved_ns(*at_ns: int) -> int:
        usual, less = (on_both(arrivals(*at_ns), costs, near) for costs in (plain, saving))
        assert (usual.done_ns == less.done_ns).all()
        return busy_ns(usual) - busy_ns(less)

    assert saved_ns(10_000) == 30
    assert saved_ns(10_000, 200_000) == 2 * 30
    assert saved_ns(10_000, 10_010) == 30  # the second comes while the first is handled


@pytest.mark.parametrize("mechanism", ["epoll_level", "blocking", "io_uring", "completion_port"])
def test_an_accept_takes_longer_if_the_handshake_interrupted_a_thread_else_the_close_does(
    mechanism: str,
) -> None:
    near = ALONE._replace(network=NetworkSettings(), **on_server(request_cpu_ns=50_000))
    plain = toy_costs(mechanism)
    dear = plain._replace(interrupt=plain.interrupt._replace(displaced_ns=70))

    def later(*at_ns: int) -> tuple[list[int], int]:
        """Return how much later the replies come, and how much longer the CPU is busy."""
        usual, slow = (
            simulate(mechanism, arrivals(*at_ns), costs, near, engine="reference")
            for costs in (plain, dear)
        )
        assert (slow.connected_ns == usual.connected_ns).all()
        return (slow.done_ns - usual.done_ns).tolist(), busy_ns(slow) - busy_ns(usual)

    assert later(10_000) == ([0], 70)  # the CPU was idle: the close comes after the reply
    # The second interrupts the user code for the first: it waits for a close, then its accept.
    assert later(10_000, 40_000) == ([0, 2 * 70], 2 * 70)
    # However they interleave, each connection pays once.
    assert later(10_000, 40_000, 40_100, 300_000)[1] == 4 * 70


def test_an_accept_that_fails_costs_no_more() -> None:
    """Without descriptors accepts fail until a connection closes; each connection pays once."""
    near = ALONE._replace(
        network=NetworkSettings(),
        client=ClientSettings(idle=2),
        **on_server(request_cpu_ns=50_000, fd_limit=8),
    )
    usual, dear = (
        on_both(arrivals(10_000, 40_000, 40_100), costs, near)
        for costs in (
            toy_costs("epoll_level"),
            toy_costs("epoll_level", interrupt=INTERRUPT._replace(displaced_ns=70)),
        )
    )
    assert usual.counts[Count.REPLIES] == dear.counts[Count.REPLIES] == 3
    assert usual.counts[Count.ACCEPT_NO_FD] > 0
    assert busy_ns(dear) - busy_ns(usual) == 3 * 70


def test_an_interrupt_saves_no_more_than_its_entry() -> None:
    near = ALONE._replace(network=NetworkSettings())
    usual, free = (
        on_both(arrivals(10_000), toy_costs("epoll_level", interrupt=interrupt), near)
        for interrupt in (INTERRUPT, INTERRUPT._replace(idle_saved_ns=10 * INTERRUPT.entry_ns))
    )
    assert busy_ns(usual) - busy_ns(free) == INTERRUPT.entry_ns


def test_a_reply_leaves_before_its_call_is_over() -> None:
    before = alone(toy_costs("epoll_level"))
    after = alone(toy_costs("epoll_level", call=CALL._replace(write_after_ns=90)))
    assert before.done_ns[0] - after.done_ns[0] == 90
    assert after.connected_ns[0] == before.connected_ns[0]


def test_accept_looks_before_it_is_over() -> None:
    # The second connection is complete while the failing accept is on its way: it is missed after
    # the look (its 100 ns begin when the first is watched), and seen before.
    steps, _ = timeline("epoll_level", arrivals(10_000), ALONE)
    begin_ns, end_ns = [(b, e) for b, e, name in steps if name == "ACCEPT"][1]
    assert end_ns - begin_ns == CALL.accept_again_ns
    costs = toy_costs("epoll_level", call=CALL._replace(accept_after_ns=60))
    steps, _ = timeline("epoll_level", arrivals(10_000), ALONE, costs)
    looks = [(b, e) for b, e, name in steps if name == "ACCEPT"][1:]
    assert looks == [(begin_ns, begin_ns + 40), (begin_ns + 40, end_ns)]


def test_a_crowd_is_paid_for_at_the_close() -> None:
    costs = toy_costs("epoll_level", call=CALL._replace(crowding=per_item(1_000)))
    steps, _ = timeline("epoll_level", arrivals(10_000, 10_000, 10_000), ALONE, costs)
    closes_ns = [end - begin for begin, end, name in steps if name == "CLOSE"]
    plain, _ = timeline("epoll_level", arrivals(10_000, 10_000, 10_000), ALONE)
    usual_ns = [end - begin for begin, end, name in plain if name == "CLOSE"]
    added_ns = [ns - usual for ns, usual in zip(closes_ns, usual_ns, strict=True)]
    assert added_ns == [3_000, 2_000, 1_000]


def test_a_later_request_pays_for_the_replies_since_the_last_one() -> None:
    returning = toy_costs("epoll_level", call=CALL._replace(returning=per_item(1_000)))

    def more_ns(*at_ns: int) -> int:
        trace = arrivals(*at_ns, requests=2, think_ns=100_000)
        plain, dear = (
            on_both(trace, costs, ALONE) for costs in (toy_costs("epoll_level"), returning)
        )
        assert plain.counts[Count.REPLIES] == dear.counts[Count.REPLIES] == 2 * len(at_ns)
        return busy_ns(dear) - busy_ns(plain)

    assert more_ns(10_000) == 0  # the second request finds the caches as the first has left them
    assert more_ns(10_000, 40_000) == 2 * 1_000
    assert more_ns(10_000, 40_000, 70_000) == 3 * 2 * 1_000
    assert more_ns(10_000, 400_000) == 0  # the other connection had its replies before or after


def test_the_idle_population_is_no_crowd() -> None:
    costs = toy_costs("epoll_level", call=CALL._replace(crowding=per_item(1_000)))
    settings = ALONE._replace(client=ClientSettings(idle=50))
    steps, _ = timeline("epoll_level", arrivals(10_000), settings, costs)
    assert [e - b for b, e, name in steps if name == "CLOSE"] == [CALL.close_ns + 1_000]


def test_a_dropped_syn_saves_what_was_not_done_for_it() -> None:
    settings = ALONE._replace(**on_server(backlog=1, syn_cookies=False))
    crowd = arrivals(*(10_000 + 10 * i for i in range(12)))

    def cost_ns(saved_ns: int) -> tuple[int, int]:
        interrupt = INTERRUPT._replace(syn_saved_ns=saved_ns)
        outcome = simulate(
            "epoll_level", crowd, toy_costs("epoll_level", interrupt=interrupt), settings
        )
        return busy_ns(outcome), int(outcome.counts[Count.SYN_DROPS])

    (dear_ns, drops), (cheap_ns, same_drops) = cost_ns(0), cost_ns(1)
    assert drops == same_drops > 0
    assert dear_ns - cheap_ns == drops


def test_a_request_after_a_reply_saves_its_acknowledgement() -> None:
    two = arrivals(10_000, 500_000, requests=3)
    saving = INTERRUPT._replace(data_saved_ns=INTERRUPT.data_ns - 1)

    def cost_ns(interrupt: InterruptCosts) -> int:
        costs = toy_costs("epoll_level", interrupt=interrupt)
        outcome = simulate("epoll_level", two, costs, ALONE)
        assert outcome.counts[Count.REPLIES] == 2 * 3
        return busy_ns(outcome)

    assert cost_ns(INTERRUPT) - cost_ns(saving) == 2 * 2 * (INTERRUPT.data_ns - 1)


def test_syn_cookies_answer_when_too_many_are_half_open() -> None:
    far = NetworkSettings(delay_ns=400_000)  # nobody completes before all have knocked
    crowd = arrivals(*(10_000 + 10 * i for i in range(12)))

    def drops(*, syn_cookies: bool) -> int:
        server = on_server(backlog=4, syn_cookies=syn_cookies)
        settings = RunSettings(**server, network=far, duration_ns=MILLISECOND_NS, sample_every_ns=0)
        outcome = simulate("epoll_level", crowd, toy_costs("epoll_level"), settings)
        return int(outcome.counts[Count.SYN_DROPS])

    assert drops(syn_cookies=True) == 0
    assert drops(syn_cookies=False) == 12 - 5


@pytest.mark.parametrize("mechanism", ["select", "poll"])
def test_wait_queues_are_left_after_the_last_scan(mechanism: str) -> None:
    settings = ALONE._replace(client=ClientSettings(idle=20))
    table: Any = MECHANISM[mechanism]
    table = table._replace(release=per_item(3))
    plain, before = timeline(mechanism, arrivals(10_000), settings)
    steps, after = timeline(
        mechanism, arrivals(10_000), settings, toy_costs(mechanism)._replace(mechanism=table)
    )
    # Asleep at the same time as without: the first wait leaves its 21 queues when it is over.
    asleep, plainly = (next(s for s in of if s[2] == "SLEEP") for of in (steps, plain))
    assert asleep == plainly
    assert after.done_ns[0] - before.done_ns[0] == 3 * (21 + 21)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_engines_agree_with_all_of_them(mechanism: str) -> None:
    table: Any = MECHANISM[mechanism]
    scanned = {"release": per_item(3), "look": curve({0: 80, 100: 180})}
    table = table._replace(**{k: v for k, v in scanned.items() if k in table._fields})
    costs = toy_costs(
        mechanism,
        interrupt=INTERRUPT._replace(syn_after_ns=70, syn_saved_ns=110, data_saved_ns=5),
        call=CALL._replace(accept_after_ns=60, write_after_ns=90, crowding=per_item(17)),
    )._replace(mechanism=table)
    settings = RunSettings(
        **on_server(backlog=6, syn_cookies=False),
        network=NetworkSettings(delay_ns=DELAY_NS),
        client=ClientSettings(idle=30),
        duration_ns=5 * MILLISECOND_NS,
        sample_every_ns=0,
    )
    trace = open_loop(rate_per_s=400_000, seconds=0.005, seed=5)
    fast, reference = (
        simulate(mechanism, trace, costs, settings, engine=engine)
        for engine in ("fast", "reference")
    )
    assert reference.counts[Count.SYN_DROPS] > 100
    assert reference.counts[Count.REPLIES] > 100
    for name in ("connected_ns", "done_ns", "status", "counts"):
        assert np.array_equal(getattr(fast, name), getattr(reference, name)), name
