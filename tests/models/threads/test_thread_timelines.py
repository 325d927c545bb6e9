"""Who has a CPU, computed by hand, exact to the nanosecond: packets, slices, preemption, stalls.

Undisturbed, a connection of 10000 finds the CPU idle: out of idleness at 11000, entry (100), SYN
(200), ACK (50) and request (80) at 11430; the worker, called at 11350, wakes at 11430. Thread 0 is
the worker, 1 handles packets, 2 is what stalls the CPU, 3 the first busy process.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.served import Served, on_server
from tests.steps import Step, ThreadSteps, timelines
from tests.toy import SINCE, arrivals, toy_costs

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.assembly.checks import check
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts, curve
from dispatchsim.sim.state.kernel_settings import KernelSettings, Packets
from dispatchsim.sim.state.kinds import Activity, Count, Status, activity
from dispatchsim.sim.state.mechanism import Program, spend
from dispatchsim.sim.state.settings import Fault, FaultKind, FloodSettings, RunSettings
from dispatchsim.sim.state.world import Worker, World

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


def burst(n: int, at_ns: int) -> RunSettings:
    """Return a run in which that many datagrams come at once."""
    return RunSettings(
        flood=FloodSettings(gap_ns=at_ns, burst=n, is_poisson=False, until_ns=at_ns + 1)
    )


LATE = arrivals(3_000_000)


def test_a_softirq_handles_ten_rounds_of_64_packets_and_its_thread_the_rest() -> None:
    steps, outcome = timelines(LATE, ALONE, 100_000, run=burst(1_000, 9_000))
    # Out of idleness at 10000, entry until 10100; 640 take 44800, 360 take 25200.
    assert steps[1][0] == (54_900, 54_970, "KSOFTIRQD")
    assert steps[1][-1] == (80_030, 80_100, "KSOFTIRQD")
    assert outcome.counts[[Count.DATAGRAMS, Count.DEFERRED]].tolist() == [1_000, 360]


def test_a_softirq_without_a_bound_handles_all() -> None:
    server = on_server(softirq_budget=0)
    steps, outcome = timelines(LATE, server, 100_000, run=burst(1_000, 9_000))
    assert 1 not in steps
    assert outcome.counts[[Count.DATAGRAMS, Count.DEFERRED]].tolist() == [1_000, 0]


def test_a_softirq_gives_up_after_the_round_in_which_the_clock_ticks() -> None:
    # It begins at 3998000, and the round of 64 ends at 4002580: a tick of 4 ms is more than 2 ms.
    steps, outcome = timelines(LATE, ALONE, 4_020_000, run=burst(200, 3_997_000))
    assert steps[1][0] == (4_002_580, 4_002_650, "KSOFTIRQD")
    assert outcome.counts[Count.DEFERRED] == 200 - 64
    # With ticks of 1 ms it takes two of them.
    server = on_server(tick_ns=1_000_000)
    steps, _ = timelines(LATE, server, 4_020_000, run=burst(200, 3_997_000))
    assert 1 not in steps


def test_a_softirq_gives_up_after_the_round_in_which_a_thread_wakes_up() -> None:
    # SYN, ACK and request of 9000 wake the worker; 61 datagrams of 9100 make the round full. It
    # ends at 11430 - 1000 + 61 * 70 = 14700, and the worker was the first to wake up.
    before_6_5 = ALONE.but(interrupts_beside=False)
    steps, outcome = timelines(arrivals(9_000), before_6_5, 40_000, run=burst(200, 9_100))
    assert steps[0][2] == (14_700, 15_200, "WAKE")
    assert outcome.counts[Count.DEFERRED] == 139 + 1  # and the reset, which finds them waiting
    # The thread has two rounds of 64 and a rest; then nothing is left to do.
    assert steps[1][0][0] == steps[0][-1][1]
    assert steps[1][-1][1] - steps[1][0][0] == 139 * 70 + 60


def test_a_call_on_a_socket_handles_at_its_end_the_packets_that_wait_for_the_thread() -> None:
    steps, outcome = timelines(arrivals(9_000), ALONE, 40_000, run=burst(200, 9_100))
    # As above; but the accept of 300 enables softirqs at its end, and all 139 are handled without
    # an interrupt: 9730 before the 110 of the next call are over.
    assert steps[0][4:6] == [(15_230, 15_530, "ACCEPT"), (15_530, 25_370, "WATCH")]
    assert 1 not in steps
    assert outcome.counts[Count.INTERRUPTS] == 1  # the reset finds them, and is handled with them
    assert outcome.counts[[Count.DATAGRAMS, Count.DEFERRED]].tolist() == [200, 140]


def test_a_call_leaves_the_packets_to_their_thread_if_that_takes_the_cpu() -> None:
    # 12 datagrams come during the read: four at once (280), eight for the thread, which preempts.
    settings = burst(12, 11_600)
    steps, outcome = timelines(arrivals(9_000), ALONE.but(softirq_budget=4), 60_000, run=settings)
    assert steps[0][9:11] == [(11_590, 12_170, "READ"), (12_730, 13_230, "WAKE")]
    assert (steps[1][0][0], steps[1][-1][1], len(steps[1])) == (12_170, 12_730, 8)
    assert outcome.counts[Count.DATAGRAMS] == 12


def test_a_tick_has_a_round_handled_while_the_thread_waits_for_the_cpu() -> None:
    server = on_server(slice_ns=1_000, tick_ns=60_000, busy_processes=1, wake_preemption=False)
    steps, outcome = timelines(LATE, server, 100_000, run=burst(1_000, 9_000))
    # 640 until 9000 + 100 + 44800 = 53900. At the tick the process has to leave, so that the
    # interrupt ends with the first round: 100 and 64 times 70.
    assert steps[3][:2] == [(110, 64_580, "OTHER"), (85_300, 85_804, "WAKE")]
    assert steps[1][0] == (64_580, 64_650, "KSOFTIRQD")
    assert steps[1][-1] == (85_230, 85_300, "KSOFTIRQD")  # 296
    assert outcome.counts[[Count.DATAGRAMS, Count.DEFERRED]].tolist() == [1_000, 360]


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


def test_a_client_whose_reset_was_lost_in_the_queue_resets_what_it_is_sent() -> None:
    # The client gives up at 70000, while the server computes. The burst at 74900 fills the queue,
    # so its reset is lost at 75000. The first reply comes to a closed port: the answer is a reset,
    # which the server reads as the end. The connection had a second request to come.
    flood = FloodSettings(gap_ns=74_900, burst=4, is_poisson=False, until_ns=75_000)
    run = RunSettings(
        kernel=KernelSettings(softirq_budget=1, receive_queue=2),
        network=NetworkSettings(delay_ns=5_000),
        client=ClientSettings(timeout_ns=60_000),
        flood=flood,
    )
    costs = toy_costs("epoll_level", application=ApplicationCosts(100_000))
    two = arrivals(10_000, requests=2, think_ns=50_000)
    _, outcome = timelines(two, ALONE, 300_000, costs=costs, run=run)
    assert outcome.counts[Count.PACKET_DROPS] == 2  # a datagram, and the reset
    assert outcome.counts[[Count.REPLIES, Count.WRITE_FAILED]].tolist() == [1, 0]
    assert outcome.counts[[Count.CLOSES, Count.CONNECTIONS_OPEN]].tolist() == [1, 0]


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


BESIDE_BUSY = on_server(slice_ns=1_000, tick_ns=4_000, busy_processes=1, wake_preemption=False)


def test_a_busy_process_keeps_the_cpu_until_a_tick_finds_its_slice_over() -> None:
    steps, outcome = timelines(ONE, BESIDE_BUSY)
    assert steps[3] == [
        (110, 4_110, "OTHER"),
        (4_110, 8_110, "OTHER"),  # nobody else is runnable
        (8_110, 12_000, "OTHER"),  # the worker waits since 10000, the next tick is at 12000
        (14_490, 14_990, "WAKE"),
        (14_990, 15_530, "OTHER"),  # of its 4000 it had 3460: the interrupt stole 430
        (15_530, 19_530, "OTHER"),
    ]
    assert steps[0][2] == (12_000, 12_500, "WAKE")
    assert outcome.ledger_ns[Activity.INTERRUPT_OTHER] == 430


def test_a_slice_that_is_not_over_at_a_tick_lasts_until_the_next() -> None:
    # The process has had the CPU for 11890 at 12000, and for 15890 at 16000.
    steps, _ = timelines(ONE, BESIDE_BUSY.but(slice_ns=12_000))
    assert steps[0][2] == (16_000, 16_500, "WAKE")


def computes(world: World, worker: Worker) -> Iterator[int]:
    """Compute, and do nothing else."""
    while True:
        yield from spend(worker, activity.USER, 900)


COMPUTES = Program(computes, MECHANISMS["epoll_level"])


def turns_of(server: Served, duration_ns: int, number: int) -> list[tuple[int, int]]:
    """Return when each turn of a thread begins and ends beside a program that computes."""
    settings = RunSettings(**server, duration_ns=duration_ns, sample_every_ns=0)
    seen = ThreadSteps(1)
    costs = toy_costs("epoll_level")
    outcome = simulate(COMPUTES, arrivals(10), costs, settings, observe=seen)
    assert simulate(COMPUTES, arrivals(10), costs, settings, engine="fast").same_as(outcome)
    turns: list[tuple[int, int]] = []
    for begin_ns, end_ns, _ in seen.of_thread[number]:
        if turns and turns[-1][1] == begin_ns:
            turns[-1] = (turns[-1][0], end_ns)
        else:
            turns.append((begin_ns, end_ns))
    return turns


def test_threads_of_one_weight_have_a_tick_each_in_turn() -> None:
    server = on_server(slice_ns=1_000, tick_ns=4_000, busy_processes=1)
    # User code is cut by the tick, in the fifth step of 900. An interrupt at 10 lasts 430.
    assert turns_of(server, 23_000, 0) == [(0, 4_000), (8_000, 12_000), (16_000, 20_000)]
    assert turns_of(server, 19_000, 3) == [(4_000, 8_000), (12_000, 16_000)]


def test_nice_decides_who_is_next_and_not_how_long_a_turn_is() -> None:
    server = on_server(slice_ns=1_000, tick_ns=4_000, busy_processes=1, busy_nice=19)
    # Of weight 15 a turn of 4000 counts 4000 * 1024 // 15 = 273066. At 8000 the server has had
    # 4000; it has had no less than 273066 at 8000 + 269066 = 277066: the next tick is at 280000.
    assert turns_of(server, 290_000, 3) == [(4_000, 8_000), (280_000, 284_000)]
    # Of weight 88761 a turn counts 46: the server has its 4000 at once, and the process then
    # (4000 - 46) * 88761 / 1024 = 342738 more: until the tick at 8000 + 344000.
    server = server.but(busy_nice=-20)
    assert turns_of(server, 360_000, 0)[:2] == [(0, 4_000), (352_000, 356_000)]


PREEMPTED = on_server(
    slice_ns=40_000,
    busy_processes=1,
    wake_preemption=True,
    granularity_ns=1_000,
    credit_ns=3_000,
)


def test_who_wakes_up_preempts_one_that_has_had_more() -> None:
    costs = toy_costs("epoll_level", refill=curve({0: 0, 100: 1_000}))
    steps, outcome = timelines(ONE, PREEMPTED, costs=costs)
    # Called at 10000, when the interrupt ends: the busy process has had 9890 and is cut there.
    assert steps[3][0] == (110, 10_430, "OTHER")
    assert steps[0][2] == (10_430, 10_930, "WAKE")
    assert steps[0][-1] == (12_880, 12_920, "SLEEP")
    # It comes back (500) to caches that others had for 2 us: 10 ns for each.
    assert steps[3][1] == (12_920, 13_440, "WAKE")
    assert outcome.counts[Count.PREEMPTIONS] == 1


def test_a_preempted_thread_comes_back_to_a_cpu_that_was_not_idle() -> None:
    steps, _ = timelines(ONE, PREEMPTED, costs=toy_costs("epoll_level", handover_ns=340))
    # Neither waking up nor coming back leaves idleness: 300 of the 340 are saved each time, besides
    # the 40 that falling asleep takes.
    assert steps[0][2] == (10_430, 10_630, "WAKE")
    asleep_ns = steps[0][-1][1]
    assert steps[0][-1][2] == "SLEEP"
    assert steps[3][1] == (asleep_ns, asleep_ns + 200, "WAKE")


def test_who_wakes_up_waits_where_it_has_had_no_less() -> None:
    server = on_server(
        slice_ns=11_000,
        tick_ns=12_000,
        busy_processes=1,
        granularity_ns=3_001,
        credit_ns=3_000,
    )
    steps, outcome = timelines(ONE, server)
    assert steps[3][0] == (110, 12_000, "OTHER")  # to the tick at which its slice is over
    assert steps[0][2] == (12_000, 12_500, "WAKE")
    assert outcome.counts[Count.PREEMPTIONS] == 0


def test_who_wakes_up_beside_one_that_has_had_as_much_takes_the_cpu() -> None:
    steps, outcome = timelines(ONE, on_server(busy_processes=1))
    # What the worker did not use while asleep is lost to it: both have had 9890 then.
    assert steps[3][0] == (110, 10_430, "OTHER")
    assert steps[0][2] == (10_430, 10_930, "WAKE")
    assert outcome.counts[Count.PREEMPTIONS] == 1


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
    server = on_server(cpus=2, tick_ns=4_000, busy_processes=2)
    steps, outcome = timelines(ONE, server, run=run)
    assert steps[4] == [(0, 1, "OTHER")]
    assert steps[6][0] == (1, 4_001, "OTHER")
    assert outcome.cpu_ledger_ns[1, Activity.OTHER] == outcome.duration_ns
