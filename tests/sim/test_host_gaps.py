"""Gaps of the host: nothing goes on in one, and what it cuts goes on behind it. Hand timelines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from tests.toy import Steps, arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, ClientCosts
from dispatchsim.sim.state.host_gaps import HostGaps, gaps_problem
from dispatchsim.sim.state.kinds import Activity
from dispatchsim.sim.state.settings import RunSettings

MS = 1_000_000
DURATION_NS = 20 * MS


class Ran(NamedTuple):
    """The steps of the server, and the outcome."""

    steps: list[tuple[int, int, str]]
    outcome: Outcome


def at(*gaps: tuple[int, int]) -> HostGaps:
    """Return a recording that is played once, from the beginning of the run."""
    return HostGaps(
        tuple(begin for begin, _ in gaps), tuple(length for _, length in gaps), DURATION_NS, False
    )


NONE = at()


def ran(
    server: HostGaps,
    *at_ns: int,
    clients: HostGaps = NONE,
    client: ClientCosts = NO_CLIENT,
    delay_ns: int = 0,
) -> Ran:
    """Run epoll_level on both engines, which must agree."""
    seen = Steps()
    settings = RunSettings(
        server_gaps=server,
        client_gaps=clients,
        network=NetworkSettings(delay_ns=delay_ns),
        duration_ns=DURATION_NS,
    )
    trace, costs = arrivals(*at_ns), toy_costs("epoll_level", client)
    outcome = simulate("epoll_level", trace, costs, settings, observe=seen)
    fast = simulate("epoll_level", trace, costs, settings, engine="fast")
    assert np.array_equal(fast.cpu_ledger_ns, outcome.cpu_ledger_ns)
    assert fast.done_ns.tolist() == outcome.done_ns.tolist()
    assert outcome.cpu_ledger_ns.sum() == DURATION_NS
    return Ran(seen.steps, outcome)


BARE = [
    (0, 70, "WAIT"),
    (70, 110, "SLEEP"),
    # The SYN comes at 10000, the CPU is awake at 11000; SYN, ACK and request take 430 ns.
    (11_430, 11_930, "WAKE"),
    (11_930, 11_960, "WAIT"),
    (11_960, 12_260, "ACCEPT"),
    (12_260, 12_370, "WATCH"),
    (12_370, 12_470, "ACCEPT"),
    (12_470, 12_540, "WAIT"),
    (12_540, 12_590, "WAIT"),
    (12_590, 12_790, "READ"),
    (12_790, 12_940, "USER"),
    (12_940, 13_340, "WRITE"),
    (13_340, 13_560, "UNWATCH"),
    (13_560, 13_810, "CLOSE"),
    (13_810, 13_880, "WAIT"),
    (13_880, 13_920, "SLEEP"),
]
USER = 10


def later(from_step: int, by_ns: int) -> list[tuple[int, int, str]]:
    """Return BARE with its steps from *from_step* on later by *by_ns*."""
    moved = [(begin + by_ns, end + by_ns, what) for begin, end, what in BARE[from_step:]]
    return BARE[:from_step] + moved


def host_ns(found: Ran) -> tuple[int, int]:
    """Return what the host took: from the server, and while it did not run."""
    ledger_ns = found.outcome.ledger_ns
    return int(ledger_ns[Activity.HOST]), int(ledger_ns[Activity.HOST_OTHER])


def test_without_gaps_nothing_is_the_hosts() -> None:
    found = ran(NONE, 10_000)
    assert found.steps == BARE
    assert host_ns(found) == (0, 0)


def test_a_gap_in_user_code_ends_it_later() -> None:
    found = ran(at((12_800, 3 * MS)), 10_000)
    begin, end, name = BARE[USER]
    expected = [*BARE[:USER], (begin, end + 3 * MS, name), *later(USER + 1, 3 * MS)[USER + 1 :]]
    assert found.steps == expected
    assert found.outcome.done_ns.tolist() == [13_340 + 3 * MS]
    assert host_ns(found) == (3 * MS, 0)
    assert found.outcome.ledger_ns[Activity.USER] == 150


def test_a_gap_in_a_softirq_ends_it_later() -> None:
    found = ran(at((11_200, 3 * MS)), 10_000)
    assert found.steps == later(2, 3 * MS)
    assert found.outcome.done_ns.tolist() == [13_340 + 3 * MS]
    assert host_ns(found) == (0, 3 * MS)  # the CPU had been idle
    assert found.outcome.ledger_ns[Activity.INTERRUPT_IDLE] == 430


def test_two_gaps_in_one_softirq_add_up() -> None:
    # 100 ns are done at 11100, 50 more from 12100 to 12150, and the last 280 from 14150 on.
    found = ran(at((11_100, 1_000), (12_150, 2_000)), 10_000)
    assert found.steps == later(2, 3_000)
    assert found.steps[2] == (14_430, 14_930, "WAKE")
    assert host_ns(found) == (0, 3_000)
    assert found.outcome.ledger_ns[Activity.INTERRUPT_IDLE] == 430


def test_a_gap_of_an_idle_cpu_delays_only_what_comes_in_it() -> None:
    found = ran(at((1_000, 3_000)), 10_000)
    assert found.steps == BARE
    assert host_ns(found) == (0, 3_000)
    # The packet of 10000 interrupts at 3009000, and the CPU leaves idleness then.
    found = ran(at((9_000, 3 * MS)), 10_000)
    assert found.steps == later(2, 3 * MS - 1_000)
    assert host_ns(found) == (0, 3 * MS)


def test_a_gap_on_the_way_out_of_idleness_makes_it_longer() -> None:
    found = ran(at((10_400, 5_000)), 10_000)
    assert found.steps == later(2, 5_000)
    bare_idle_ns = ran(NONE, 10_000).outcome.ledger_ns[Activity.IDLE]
    assert found.outcome.ledger_ns[Activity.IDLE] == bare_idle_ns - 5_000


def test_what_comes_in_a_gap_interrupts_once_behind_it() -> None:
    # The gap cuts user code. Of two connections that come in it the first enters the interrupt.
    found = ran(at((12_800, 3 * MS)), 10_000, MS, 2 * MS)
    begin, end, name = BARE[USER]
    assert found.steps[USER] == (begin, end + 3 * MS + 430 + 330, name)
    assert found.outcome.done_ns[0] == 13_340 + 3 * MS + 760


def test_a_gap_that_begins_as_a_step_ends_comes_first() -> None:
    found = ran(at((12_790, 500)), 10_000)
    assert found.steps[USER - 1] == (12_590, 13_290, "READ")
    assert found.steps[USER:] == later(USER, 500)[USER:]


CLIENT = ClientCosts(connect_ns=100, send_ns=50, receive_ns=30, close_ns=20)
FAR_NS = 20_000


def clients_ran(*gaps: tuple[int, int], due_ns: int = 10_000) -> Outcome:
    """Run with gaps of the clients' CPU only, a link of 20 us away from the server."""
    return ran(NONE, due_ns, clients=at(*gaps), client=CLIENT, delay_ns=FAR_NS).outcome


def test_a_connection_due_in_a_gap_of_its_client_begins_behind_it() -> None:
    found, later_due = clients_ran((5_000, 10_000)), clients_ran(due_ns=15_000)
    assert found.intended_ns.tolist() == [10_000]
    assert found.started_ns.tolist() == [15_000]
    assert found.done_ns.tolist() == later_due.done_ns.tolist()


def test_a_syn_ack_that_comes_in_a_gap_is_seen_behind_it() -> None:
    # Sent at 10100, the SYN has been handled at 31400 (1000 to wake, 300 to handle) and its answer
    # is back at 51400; the request leaves at 60050.
    bare, found = clients_ran(), clients_ran((51_000, 9_000))
    assert bare.connected_ns.tolist() == [51_400]
    assert found.connected_ns.tolist() == [60_000]
    assert found.done_ns[0] > bare.done_ns[0]


def test_a_reply_that_comes_in_a_gap_is_read_behind_it() -> None:
    came_ns = int(clients_ran().done_ns[0]) - CLIENT.receive_ns
    found = clients_ran((came_ns - 100, 3 * MS))
    assert found.done_ns.tolist() == [came_ns - 100 + 3 * MS + CLIENT.receive_ns]
    # A gap in the midst of reading it.
    found = clients_ran((came_ns + 10, 3 * MS))
    assert found.done_ns.tolist() == [came_ns + 3 * MS + CLIENT.receive_ns]


def test_clients_without_costs_are_on_machines_of_their_own() -> None:
    gap = at((5_000, 10_000))
    assert ran(NONE, 10_000, clients=gap).outcome.started_ns.tolist() == [10_000]


def test_a_recording_is_played_over_and_over_from_a_drawn_time() -> None:
    recording = HostGaps((100, 400), (10, 50), 1_000)
    trace, costs = arrivals(10_000), toy_costs("epoll_level")

    def outcome(seed: int) -> Outcome:
        settings = RunSettings(server_gaps=recording, duration_ns=MS, seed=seed)
        return simulate("epoll_level", trace, costs, settings, engine="reference")

    taken = [outcome(seed).ledger_ns for seed in range(5)]
    for ledger_ns in taken:
        # 60 of each 1000 ns, but for the gaps at either end of the run.
        assert abs(ledger_ns[Activity.HOST] + ledger_ns[Activity.HOST_OTHER] - 60_000) <= 60
    assert len({int(outcome(seed).done_ns[0]) for seed in range(5)}) > 1


def test_the_share_that_the_host_takes_adds_to_the_utilisation() -> None:
    # M/D/1 of some 51 us at 10,000/s. Gaps of 100 us in each 1 ms take a tenth of the time.
    n = 20_000
    at_ns = np.cumsum(np.random.default_rng(1).exponential(100_000, n)).astype(np.int64)
    costs = toy_costs("epoll_level")
    costs = costs._replace(application=costs.application._replace(request_ns=50_000))

    def busy_share(gaps: HostGaps) -> float:
        settings = RunSettings(server_gaps=gaps, duration_ns=int(at_ns[-1]))
        found = simulate("epoll_level", arrivals(*at_ns), costs, settings, engine="fast")
        return 1 - float(found.ledger_ns[Activity.IDLE]) / found.duration_ns

    share = busy_share(HostGaps((300_000,), (100_000,), MS)) - busy_share(NONE)
    # Packets that come together save interrupts: less than a hundredth.
    assert share == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("gaps", "problem"),
    [
        (HostGaps((1,), (), 10), "at_ns must have a length each, got 1 and 0"),
        (HostGaps((1,), (0,), 10), "length_ns must be at least 1, got 0"),
        (
            HostGaps((1, 2), (2, 1), 10),
            "at_ns must be in order, each behind the gap before it, got 2",
        ),
        (
            HostGaps((1,), (10,), 10),
            "period_ns must hold all gaps, and some time between them, got 10",
        ),
        (
            HostGaps((0,), (10,), 10),
            "period_ns must hold all gaps, and some time between them, got 10",
        ),
        (HostGaps((1, 3), (2, 1), 10), ""),
    ],
)
def test_a_recording_keeps_rules(gaps: HostGaps, problem: str) -> None:
    assert gaps_problem(gaps) == problem
    if problem:
        with pytest.raises(ValueError, match=f"server_gaps: {problem}"):
            ran(gaps, 10_000)
