"""Who has a CPU, computed by hand, exact to the nanosecond: packets, slices, preemption, stalls.

Undisturbed, a connection of 10000 finds the CPU idle: out of idleness at 11000, entry (100), SYN
(200), ACK (50) and request (80) at 11430; the worker, called at 11350, wakes at 11430. Thread 0 is
the worker, 1 handles packets, 2 is what stalls the CPU, 3 the first busy process.
"""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.steps import Step, timelines
from tests.toy import SINCE, arrivals, toy_costs

from dispatchsim.sim.assembly.checks import check
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import curve
from dispatchsim.sim.state.kernel_settings import KernelSettings, Packets
from dispatchsim.sim.state.kinds import Activity, Count, Status
from dispatchsim.sim.state.settings import Fault, FaultKind, FloodSettings, RunSettings

ONE = arrivals(10_000)
FALLS_ASLEEP: list[Step] = [(0, 70, "WAIT"), (70, 110, "SLEEP")]
ALONE = on_server()
INTERRUPTS = KernelSettings(packets=int(Packets.INTERRUPTS), receive_queue=4)


def test_a_softirq_leaves_what_is_beyond_its_budget_to_its_thread() -> None:
    run = RunSettings(kernel=KernelSettings(softirq_budget=1))
    steps, outcome = timelines(ONE, ALONE, run=run)
    # The SYN takes the budget: 11300. Its thread handles the ACK, which makes the worker runnable,
    # and the request that comes along; then it has nothing left to do.
    assert steps[1] == [(11_300, 11_350, "KSOFTIRQD"), (11_350, 11_430, "KSOFTIRQD")]
    assert steps[0][2] == (11_430, 11_930, "WAKE")
    assert outcome.counts[Count.DEFERRED] == 2
    assert outcome.counts[Count.PACKETS] == 2  # the SYN, and the reset at 13340
    assert outcome.ledger_ns[Activity.KSOFTIRQD] == 130


def test_what_finds_the_queue_full_is_lost_and_sent_again() -> None:
    # A burst of 4 at 8990, to a budget of 1 and a queue of 2: one at once (10160), two for the
    # thread, one lost. So is the SYN of 9000, which comes again after a second.
    flood = FloodSettings(gap_ns=8_990, burst=4, is_poisson=False, until_ns=10_000)
    kernel = KernelSettings(softirq_budget=1, receive_queue=2)
    run = RunSettings(kernel=kernel, flood=flood)
    steps, outcome = timelines(arrivals(9_000), ALONE, 1_100_000_000, run=run)
    assert steps[1][:2] == [(10_160, 10_230, "KSOFTIRQD"), (10_230, 10_300, "KSOFTIRQD")]
    assert outcome.counts[Count.PACKET_DROPS] == 2
    assert outcome.counts[Count.DATAGRAMS] == 3
    assert outcome.done_ns.tolist() == [1_000_009_000 + 3_340]


@pytest.mark.parametrize(("timeout_ns", "n_packets"), [(100_000, 3), (0, 4)])
def test_a_client_that_gave_up_repeats_nothing(timeout_ns: int, n_packets: int) -> None:
    # The burst at 26200 fills the queue, so the last packet of the handshake, 100 later, is lost.
    # After 200 ms it comes again, and brings the request; not so where the client has left.
    flood = FloodSettings(gap_ns=26_200, burst=4, is_poisson=False, until_ns=30_000)
    run = RunSettings(
        kernel=KernelSettings(softirq_budget=1, receive_queue=2),
        network=NetworkSettings(delay_ns=5_000),
        client=ClientSettings(timeout_ns=timeout_ns),
        flood=flood,
    )
    _, outcome = timelines(ONE, ALONE, 300_000_000, run=run)
    assert outcome.counts[Count.PACKET_DROPS] == 2
    # At once: the SYN, a datagram, the reset; with patience the repeated packet, too.
    assert outcome.counts[Count.PACKETS] == n_packets
    assert outcome.status.tolist() == [Status.REPLIED if timeout_ns == 0 else Status.TIMEOUT]


def test_mr97_softirqs_come_after_interrupts_and_before_processes() -> None:
    run = RunSettings(kernel=INTERRUPTS)
    steps, outcome = timelines(arrivals(10_000, 12_700), ALONE, run=run)
    # Each packet interrupts (100) before anything is done about it.
    assert steps[1][:3] == [
        (11_100, 11_300, "KSOFTIRQD"),
        (11_400, 11_450, "KSOFTIRQD"),
        (11_550, 11_630, "KSOFTIRQD"),
    ]
    # The second connection comes 30 ns into a wait of 70: the rest follows when its SYN (13000),
    # ACK (13150) and request (13330) have been handled, and coming back takes nothing.
    assert steps[0][7:9] == [(12_670, 12_800, "WAIT"), (13_330, 13_370, "WAIT")]
    assert steps[1][3:6] == [
        (12_800, 13_000, "KSOFTIRQD"),
        (13_100, 13_150, "KSOFTIRQD"),
        (13_250, 13_330, "KSOFTIRQD"),
    ]
    assert outcome.counts[Count.INTERRUPTS] == 8
    # 100 ns from idleness, 300 from the worker (one of them in its reply to the first reset, one
    # to the second), the others from work on packets.
    assert outcome.ledger_ns[Activity.INTERRUPT_IDLE] == 100
    assert outcome.ledger_ns[Activity.INTERRUPT] == 300
    assert outcome.ledger_ns[Activity.INTERRUPT_OTHER] == 400


def test_mr97_polls_have_their_share_of_each_tick() -> None:
    kernel = KernelSettings(
        packets=int(Packets.POLLING), polling_share_permille=80, polling_tick_ns=3_000
    )
    steps, outcome = timelines(ONE, ALONE, run=RunSettings(kernel=kernel))
    # 240 ns in each 3000: SYN and ACK in the tick that begins at 9000, the request in the next one.
    assert steps[1][:3] == [
        (11_100, 11_300, "KSOFTIRQD"),
        (11_300, 11_350, "KSOFTIRQD"),
        (12_000, 12_080, "KSOFTIRQD"),
    ]
    assert steps[0][2:6] == [
        (11_350, 11_850, "WAKE"),
        (11_850, 11_880, "WAIT"),
        (11_880, 12_000, "ACCEPT"),
        (12_080, 12_260, "ACCEPT"),
    ]
    assert outcome.counts[Count.INTERRUPTS] == 2  # that of the SYN, and that of the reset


def test_a_busy_process_keeps_the_cpu_for_its_slice() -> None:
    steps, outcome = timelines(ONE, on_server(slice_ns=4_000, busy_processes=1))
    assert steps[3] == [
        (110, 4_110, "OTHER"),
        (4_110, 8_110, "OTHER"),  # nobody else is runnable
        (8_110, 12_540, "OTHER"),  # the interrupt stole 430
        (15_030, 15_530, "WAKE"),
        (15_530, 19_530, "OTHER"),
    ]
    assert steps[0][2] == (12_540, 13_040, "WAKE")
    assert outcome.ledger_ns[Activity.INTERRUPT_OTHER] == 430


def test_who_wakes_up_preempts_one_that_has_had_more() -> None:
    server = on_server(
        slice_ns=40_000,
        busy_processes=1,
        wake_preemption=True,
        granularity_ns=1_000,
        credit_ns=3_000,
    )
    costs = toy_costs("epoll_level", refill=curve({0: 0, 100: 1_000}))
    steps, outcome = timelines(ONE, server, costs=costs)
    # Called at 10000, when the interrupt ends: the busy process has had 9890 and is cut there.
    assert steps[3][0] == (110, 10_430, "OTHER")
    assert steps[0][2] == (10_430, 10_930, "WAKE")
    assert steps[0][-1] == (12_880, 12_920, "SLEEP")
    # It comes back (500) to caches that others had for 2 us: 10 ns for each.
    assert steps[3][1] == (12_920, 13_440, "WAKE")
    assert outcome.counts[Count.PREEMPTIONS] == 1


def test_who_wakes_up_waits_where_it_has_had_no_less() -> None:
    server = on_server(
        slice_ns=11_000,
        busy_processes=1,
        wake_preemption=True,
        granularity_ns=3_000,
        credit_ns=3_000,
    )
    steps, outcome = timelines(ONE, server)
    assert steps[3][0] == (110, 11_540, "OTHER")  # to the end of its slice, and what was stolen
    assert steps[0][2] == (11_540, 12_040, "WAKE")
    assert outcome.counts[Count.PREEMPTIONS] == 0


def test_a_stall_cuts_a_call_in_two_and_interrupts_go_on() -> None:
    run = RunSettings(faults=(Fault(int(FaultKind.STALL), 12_000, 3_000),))
    steps, outcome = timelines(arrivals(10_000, 14_000), ALONE, 30_000, run=run)
    assert steps[0][4:6] == [(11_960, 12_000, "ACCEPT"), (15_430, 15_690, "ACCEPT")]
    assert steps[2] == [(12_000, 15_430, "OTHER")]  # 3000, and 430 of a connection that came
    assert outcome.ledger_ns[Activity.OTHER] == 3_000
    assert outcome.ledger_ns[Activity.INTERRUPT_OTHER] == 430


def test_a_slow_link_is_slow_while_it_lasts() -> None:
    # At 8 Gbit/s a byte is a nanosecond: 90 of a frame, 64 of a request. The SYN comes at 10090,
    # has been handled at 11390, and the SYN-ACK is at the client at 11480. The ACK comes at 11570,
    # to an idle CPU again: 12570, 12720. The request, behind it on the wire at 11724: 12800.
    run = RunSettings(faults=(Fault(int(FaultKind.LINK), 5_000, 8_000, 8_000_000_000),))
    steps, outcome = timelines(arrivals(10_000, 30_000), ALONE, 50_000, run=run)
    assert steps[0][2] == (12_800, 13_300, "WAKE")
    # The second comes when it is over: as if there had been none.
    assert outcome.done_ns[1] == 33_340


@pytest.mark.parametrize("kind", FaultKind)
def test_a_fault_of_no_length_or_of_a_cpu_that_is_not_there_is_refused(kind: FaultKind) -> None:
    with pytest.raises(ValueError, match="length_ns must be at least 1, got 0"):
        check(RunSettings(faults=(Fault(int(kind), 0, 0),)))
    stall = Fault(int(FaultKind.STALL), 0, 1, value=1)
    with pytest.raises(ValueError, match=r"one of the 1 CPUs \(from 0\), got 1"):
        check(RunSettings(faults=(stall,)))


def test_a_device_waits_for_packets_that_come_together() -> None:
    flood = FloodSettings(gap_ns=10_200, burst=2, is_poisson=False, until_ns=11_000)
    run = RunSettings(kernel=KernelSettings(coalesce_ns=500), flood=flood)
    steps, outcome = timelines(ONE, ALONE, run=run)
    # It interrupts at 10500 for the SYN of 10000 and both datagrams of 10200: out of idleness at
    # 11500, entry and SYN until 11800, datagrams until 11940. The SYN has its effect at 11800: ACK
    # and request come while the softirq is at it, at 11990 and 12070.
    assert steps[0][2] == (12_070, 12_570, "WAKE")
    # The other interrupt is that of the reset, half a microsecond late.
    assert outcome.counts[Count.INTERRUPTS] == 2
    assert outcome.counts[Count.DATAGRAMS] == 2


def test_an_interrupt_costs_more_the_longer_ago_the_last_one_was() -> None:
    costs = toy_costs("epoll_level")
    costs = costs._replace(interrupt=costs.interrupt._replace(entry_since=SINCE))
    steps, outcome = timelines(ONE, ALONE, costs=costs)
    # There was none for 11 us before that at 11000: 50 more.
    assert steps[0][2] == (11_480, 11_980, "WAKE")
    assert outcome.ledger_ns[Activity.INTERRUPT_IDLE] == 430 + 50
    # The reset at 13390 comes 1.9 us after it had ended: 5 for the whole one.
    assert outcome.ledger_ns[Activity.INTERRUPT] == 160 + 5


@pytest.mark.parametrize("coalesce_ns", [0, 500])
def test_a_datagram_may_enter_an_interrupt_for_less(coalesce_ns: int) -> None:
    # Pairs at 2, 4, 6 and 8 us: each enters once, for 40 instead of 100.
    flood = FloodSettings(gap_ns=2_000, burst=2, is_poisson=False, until_ns=9_000)
    run = RunSettings(kernel=KernelSettings(coalesce_ns=coalesce_ns), flood=flood)

    def interrupted_ns(entry_ns: int) -> int:
        costs = toy_costs("epoll_level")
        costs = costs._replace(interrupt=costs.interrupt._replace(datagram_entry_ns=entry_ns))
        one = arrivals(20_000)  # a connection enters by entry_ns, as ever
        outcome = timelines(one, ALONE, 40_000, run=run, costs=costs)[1]
        assert outcome.counts[Count.DATAGRAMS] == 8
        return int(outcome.ledger_ns[Activity.INTERRUPT_IDLE])

    assert interrupted_ns(0) - interrupted_ns(40) == 4 * (100 - 40)


def test_nice_values_decide_how_long_a_slice_is() -> None:
    # Two processes compute, one step of nice below the server: slices of 4000 * 1277 / 1024.
    server = on_server(slice_ns=4_000, busy_processes=2, busy_nice=-1)
    steps, outcome = timelines(arrivals(100_000), server, 200_000)
    assert steps[3][0] == (110, 5_098, "OTHER")
    # Coming back takes 500, and 1 more where the other one has had the caches for 5 us.
    assert steps[4][:2] == [(5_098, 10_086, "OTHER"), (15_574, 16_075, "WAKE")]
    assert steps[3][1:3] == [(10_086, 10_586, "WAKE"), (10_586, 15_574, "OTHER")]
    assert outcome.status.tolist() == [0]


def test_what_is_urgent_comes_first_however_late_in_an_interrupt_it_wakes_up() -> None:
    # The busy process is cut by the SYN's softirq at 10100; while that interrupt runs, from 10000,
    # a stall begins as well, at 10050: both come before the process, and the stall before both.
    run = RunSettings(faults=(Fault(int(FaultKind.STALL), 10_050, 700),))
    server = on_server(**INTERRUPTS._asdict()).but(busy_processes=1, slice_ns=40_000)
    steps, outcome = timelines(ONE, server, run=run)
    assert steps[3][0] == (110, 10_100, "OTHER")
    assert steps[2] == [(10_100, 10_750, "OTHER")]
    assert steps[1][0] == (10_750, 10_950, "KSOFTIRQD")
    # The process has the rest of the run, but for three interrupts and 330 of handling.
    others_ns = outcome.ledger_ns[Activity.OTHER]
    assert others_ns == 20_000 - 110 - 300 - 330


def test_processes_compute_on_every_cpu_from_the_beginning() -> None:
    # One worker, but two CPUs: the process of the other one is cut at once by a stall of 1 ns.
    stall = Fault(int(FaultKind.STALL), 0, 1, value=1)
    run = RunSettings(faults=(stall,))
    server = on_server(cpus=2, slice_ns=4_000, busy_processes=2)
    steps, outcome = timelines(ONE, server, run=run)
    assert steps[4] == [(0, 1, "OTHER")]
    assert steps[6][0] == (1, 4_001, "OTHER")
    assert outcome.cpu_ledger_ns[1, Activity.OTHER] == outcome.duration_ns
