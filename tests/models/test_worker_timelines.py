"""Several workers and CPUs, computed by hand, exact to the nanosecond.

Packets go to CPU 2, which has no worker, unless it is said otherwise. It leaves idleness at 11000
for those that come at 10000; then entry (100), SYN (200) and ACK (50) are handled at 11350, and the
request (80) at 11430. Another CPU that is called at 11350 leaves idleness at 12350.
"""

from __future__ import annotations

import numpy as np
from tests.served import on_server
from tests.steps import Step, timelines
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kernel_settings import EVERY_CPU
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.program_settings import Sharing, Wakes
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.wire.way import flow_hash

ONE = arrivals(10_000)
FALLS_ASLEEP: list[Step] = [(0, 70, "WAIT"), (70, 110, "SLEEP")]


def test_all_who_watch_an_accept_queue_wake_and_all_but_one_in_vain() -> None:
    server = on_server(workers=2, cpus=3, interrupt_cpu=2)
    steps, outcome = timelines(ONE, server)
    assert steps[0] == [
        *FALLS_ASLEEP,
        (12_350, 12_850, "WAKE"),
        (12_850, 12_880, "WAIT"),  # one event (30): the listener
        (12_880, 13_180, "ACCEPT"),  # of two that end together the lower CPU comes first
        (13_180, 13_290, "WATCH"),  # the request is there: listed at once
        (13_290, 13_390, "ACCEPT"),  # EAGAIN
        (13_390, 13_460, "WAIT"),
        (13_460, 13_510, "WAIT"),  # one event (30), the listener in vain (20)
        (13_510, 13_710, "READ"),
        (13_710, 13_860, "USER"),
        (13_860, 14_260, "WRITE"),
        (14_260, 14_320, "UNWATCH"),  # the reset is elsewhere: nothing lengthens this
        (14_320, 14_570, "CLOSE"),
        (14_570, 14_640, "WAIT"),
        (14_640, 14_680, "SLEEP"),
    ]
    assert steps[1] == [
        *FALLS_ASLEEP,
        (12_350, 12_850, "WAKE"),
        (12_850, 12_880, "WAIT"),
        (12_880, 13_180, "ACCEPT"),  # there was one when it began: the price of a whole accept
        (13_180, 13_250, "WAIT"),
        (13_250, 13_270, "WAIT"),  # the listener in vain, no event
        (13_270, 13_310, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [14_260]
    assert outcome.worker_accepts.tolist() == [1, 0]
    assert outcome.counts[Count.ACCEPT_AGAIN] == 2
    # CPU 2: handshake and request 430; the reset at 14260 finds it asleep: 100 + 60 more.
    assert outcome.cpu_ledger_ns[2, Activity.INTERRUPT_IDLE] == 430 + 160
    assert outcome.cpu_ledger_ns[2, Activity.IDLE] == 20_000 - 590


def test_cm01_43_one_is_woken_where_each_waits_exclusively() -> None:
    server = on_server(workers=2, cpus=3, interrupt_cpu=2, wakes=int(Wakes.ONE))
    both = arrivals(10_000, 12_000)
    steps, outcome = timelines(both, server)
    # The first to have watched is the first to be asked. It no longer waits when the second
    # connection comes at 12000: that is handled at 12000 + 1000 + 100 + 200 + 50 = 13350 and
    # calls the other worker, out of idleness at 14350. But the first looks again before that.
    assert steps[0][2:9] == [
        (12_350, 12_850, "WAKE"),
        (12_850, 12_880, "WAIT"),
        (12_880, 13_180, "ACCEPT"),
        (13_180, 13_290, "WATCH"),
        (13_290, 13_390, "ACCEPT"),  # began on an empty queue; as it looks there is one after all
        (13_390, 13_590, "ACCEPT"),  # the rest of what accepting it costs
        (13_590, 13_700, "WATCH"),
    ]
    assert steps[1] == [
        *FALLS_ASLEEP,
        (14_350, 14_850, "WAKE"),
        (14_850, 14_870, "WAIT"),  # the listener in vain
        (14_870, 14_910, "SLEEP"),
    ]
    assert outcome.worker_accepts.tolist() == [2, 0]
    alone, outcome = timelines(ONE, server)
    assert alone[1] == FALLS_ASLEEP
    assert outcome.counts[Count.ACCEPT_AGAIN] == 1


def test_a_cpu_goes_from_one_event_loop_straight_to_the_next() -> None:
    # Both listen on one CPU, and both are called at 10000 + 1000 + 100 + 200 + 50 = 11350, when the
    # CPU leaves idleness; the request is handled at 11430.
    costs = toy_costs("epoll_level", handover_ns=340)
    steps, outcome = timelines(ONE, on_server(workers=2), costs=costs)
    assert steps[0][:3] == [
        (0, 70, "WAIT"),
        (70, 70, "SLEEP"),  # the other one is runnable: nothing of the 40
        (11_430, 11_930, "WAKE"),  # from idleness: all of the 500
    ]
    assert steps[1][:2] == [
        (70, 140, "WAIT"),
        (140, 180, "SLEEP"),  # now there is nobody
    ]
    served = steps[0][-1]
    assert served[2] == "SLEEP"
    # 300 of the 340, besides the 40 that falling asleep has saved.
    assert steps[1][2] == (served[1], served[1] + 500 - 300, "WAKE")
    assert outcome.worker_accepts.tolist() == [1, 0]


def test_own_accept_queues_share_nothing_but_the_packets_cpu() -> None:
    # The flows of connections 0 and 1 hash to the queues of workers 0 and 1.
    server = on_server(workers=2, cpus=3, interrupt_cpu=2, sharing=int(Sharing.NOTHING))
    steps, outcome = timelines(arrivals(10_000, 10_000), server)
    # CPU 2 handles both SYNs first, until 11500, then ACK (11550), ACK (11600), request (11680),
    # request (11760). Each ACK calls its worker: at work from 12550 and from 12600.
    for number, wake_ns in ((0, 12_550), (1, 12_600)):
        assert steps[number] == [
            *FALLS_ASLEEP,
            (wake_ns, wake_ns + 500, "WAKE"),
            (wake_ns + 500, wake_ns + 530, "WAIT"),
            (wake_ns + 530, wake_ns + 830, "ACCEPT"),
            (wake_ns + 830, wake_ns + 940, "WATCH"),
            (wake_ns + 940, wake_ns + 1_040, "ACCEPT"),  # EAGAIN: the other one is not here
            (wake_ns + 1_040, wake_ns + 1_110, "WAIT"),
            (wake_ns + 1_110, wake_ns + 1_160, "WAIT"),
            (wake_ns + 1_160, wake_ns + 1_360, "READ"),
            (wake_ns + 1_360, wake_ns + 1_510, "USER"),
            (wake_ns + 1_510, wake_ns + 1_910, "WRITE"),
            (wake_ns + 1_910, wake_ns + 1_970, "UNWATCH"),
            (wake_ns + 1_970, wake_ns + 2_220, "CLOSE"),
            (wake_ns + 2_220, wake_ns + 2_290, "WAIT"),
            (wake_ns + 2_290, wake_ns + 2_330, "SLEEP"),
        ]
    assert outcome.done_ns.tolist() == [12_550 + 1_910, 12_600 + 1_910]
    assert outcome.worker_accepts.tolist() == [1, 1]


def test_a_shared_list_wakes_the_last_to_wait_and_disarms_what_it_hands_out() -> None:
    server = on_server(workers=2, cpus=3, interrupt_cpu=2, sharing=int(Sharing.READY_LIST))
    trace = arrivals(10_000, requests=2, think_ns=0)
    steps, outcome = timelines(trace, server)
    assert steps[1] == [
        *FALLS_ASLEEP,  # the last to wait
        (12_350, 12_850, "WAKE"),
        (12_850, 12_880, "WAIT"),  # the listener stays on the list: at 12850 the other is called
        (12_880, 13_180, "ACCEPT"),
        (13_180, 13_290, "WATCH"),  # listed at once; nobody waits
        (13_290, 13_390, "ACCEPT"),
        (13_390, 13_460, "WAIT"),
        (13_460, 13_510, "WAIT"),  # the connection (30), now disarmed; the listener in vain (20)
        (13_510, 13_710, "READ"),
        (13_710, 13_860, "USER"),
        # The reply is out at 14260. The second request comes at once, to CPU 2, asleep since
        # 11430: handled at 14260 + 1000 + 100 + 80 = 15440.
        (13_860, 14_260, "WRITE"),
        (14_260, 14_300, "REWATCH"),  # armed again
        (14_300, 14_370, "WAIT"),
        (14_370, 14_410, "SLEEP"),  # the last to wait: since 14370, the other since 14350
        (16_440, 16_940, "WAKE"),
        (16_940, 16_970, "WAIT"),
        (16_970, 17_170, "READ"),
        (17_170, 17_320, "USER"),
        (17_320, 17_720, "WRITE"),
        (17_720, 17_780, "UNWATCH"),
        (17_780, 18_030, "CLOSE"),
        (18_030, 18_100, "WAIT"),
        (18_100, 18_140, "SLEEP"),
    ]
    assert steps[0] == [
        *FALLS_ASLEEP,
        (13_850, 14_350, "WAKE"),  # nothing on the list any more
        (14_350, 14_390, "SLEEP"),
    ]
    assert outcome.reply_ns.tolist() == [14_260, 17_720]


def test_a_request_that_comes_while_disarmed_is_found_when_armed_again() -> None:
    # On one CPU, with the packets: reply, then the second request interrupts the very REWATCH.
    server = on_server(workers=2, sharing=int(Sharing.READY_LIST), wake_preemption=False)
    steps, outcome = timelines(arrivals(10_000, requests=2), server)
    begin, end, _ = next(step for step in steps[1] if step[2] == "REWATCH")
    assert outcome.reply_ns[0] == begin
    assert end - begin == 40 + 180  # entry and request
    # Arming lists it. The other worker was called long ago, by the listener that stayed on the
    # list, and has waited for the CPU: nobody waits, so the next wait of this one finds it.
    assert steps[1][steps[1].index((begin, end, "REWATCH")) + 1 :][:3] == [
        (end, end + 70, "WAIT"),
        (end + 70, end + 100, "WAIT"),
        (end + 100, end + 300, "READ"),
    ]
    assert "READ" not in [name for *_, name in steps[0]]


def test_arming_what_is_ready_already_calls_whoever_waits() -> None:
    # Packets go to CPU 1, whose worker was the last to wait.
    server = on_server(workers=2, cpus=2, interrupt_cpu=1, sharing=int(Sharing.READY_LIST))
    steps, _ = timelines(arrivals(10_000, requests=2), server)
    # It serves from 11430: wake 500, event 30, accept 300, watch 110, accept 100, wait 70 and 50,
    # read 200, request 150, write 400: 13340. The second request comes then, and is handled (180)
    # within the REWATCH (40), which lists it at 13560.
    assert (13_340, 13_560, "REWATCH") in steps[1]
    assert steps[0] == [
        *FALLS_ASLEEP,
        (12_930, 13_430, "WAKE"),  # called at 11930, when the listener stayed on the list
        (13_430, 13_470, "SLEEP"),
        (14_560, 15_060, "WAKE"),  # called at 13560; the other one has taken it at 13630
        (15_060, 15_100, "SLEEP"),
    ]


def test_a_slice_that_ends_costs_a_way_back() -> None:
    server = on_server(workers=2, cpus=1, slice_ns=1_000, tick_ns=1_000)
    steps, outcome = timelines(arrivals(10_000, 10_000), server)
    # The softirq: 1000 out of idleness, 100, twice 330: over at 11760. Both workers are called.
    assert steps[0][2:12] == [
        (11_760, 12_260, "WAKE"),
        (12_260, 12_290, "WAIT"),
        (12_290, 12_590, "ACCEPT"),
        (12_590, 12_700, "WATCH"),
        # At the tick of 13000 it has had the CPU for 1240, at that of 12000 for 240. What it
        # accepted is accepted; its WATCH has to wait.
        (12_700, 13_000, "ACCEPT"),
        (13_560, 14_060, "WAKE"),  # the way back, at the price of a wake-up
        (14_060, 14_170, "WATCH"),
        (14_170, 14_270, "ACCEPT"),
        (14_270, 14_340, "WAIT"),
        (14_340, 14_420, "WAIT"),  # two events, the listener in vain
    ]
    assert steps[1] == [
        (110, 180, "WAIT"),  # it began when the first one slept
        (180, 220, "SLEEP"),
        (13_000, 13_500, "WAKE"),
        (13_500, 13_520, "WAIT"),  # nothing to accept any more
        (13_520, 13_560, "SLEEP"),
    ]
    assert outcome.worker_accepts.tolist() == [2, 0]


def test_a_reply_leaves_before_its_worker_loses_the_cpu() -> None:
    # Ticks come 400 apart, and a WRITE takes 400: one of them finds the slice over.
    server = on_server(workers=2, cpus=1, slice_ns=1, tick_ns=400, sharing=int(Sharing.NOTHING))
    steps, outcome = timelines(arrivals(10_000, 10_000), server, 60_000)
    written = [end for number in (0, 1) for _, end, name in steps[number] if name == "WRITE"]
    assert outcome.done_ns.tolist() == written
    for number in (0, 1):
        names = [name for *_, name in steps[number]]
        after = [names[i + 1] for i, name in enumerate(names) if name == "WRITE"]
        assert after == ["WAKE"]


def test_a_packet_finds_a_cpu_that_is_being_woken_on_its_way() -> None:
    # Flows 0 and 1 hash to CPUs 0 and 1. The first calls both workers at 11350; CPU 1 leaves
    # idleness at 12350, and a packet that comes to it at 12000 waits for no more than that.
    server = on_server(workers=2, cpus=2, interrupt_cpu=EVERY_CPU)
    steps, _ = timelines(arrivals(10_000, 12_000), server)
    assert steps[0][2:7] == [
        (11_430, 11_930, "WAKE"),  # on the CPU of the softirq, when that is over
        (11_930, 11_960, "WAIT"),
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_370, "WATCH"),
        (12_370, 12_470, "ACCEPT"),
    ]
    assert steps[1][2:6] == [
        (12_780, 13_280, "WAKE"),  # behind the softirq: 12350 + 100 + 200 + 50 + 80
        (13_280, 13_310, "WAIT"),
        (13_310, 13_610, "ACCEPT"),
        (13_610, 13_720, "WATCH"),
    ]


def test_a_worker_called_during_a_softirq_on_its_cpu_finds_it_awake() -> None:
    # Flow 1, on CPU 1, comes 200 later than flow 0: it is being handled from 11200 to 11630, when
    # flow 0 calls both workers (11350). CPU 1 goes on with its own as soon as the softirq is over.
    server = on_server(workers=2, cpus=2, interrupt_cpu=EVERY_CPU)
    steps, _ = timelines(arrivals(10_000, 10_200), server)
    assert steps[1][2] == (11_630, 12_130, "WAKE")


def test_what_is_not_handled_yet_cannot_be_seen() -> None:
    server = on_server(workers=1, cpus=2, interrupt_cpu=1)
    steps, outcome = timelines(arrivals(10_000, *[13_000] * 4), server, 60_000)
    # The worker has looked and found nothing at 14640, though four SYNs came at 13000: CPU 1,
    # asleep since 11430, handles them until 14900 (1000 + 100 + 4 x 200), then the reset of 14260
    # (60), and the first ACK at 15010. That calls the worker out of idleness: 16010.
    assert steps[0][14:18] == [
        (14_570, 14_640, "WAIT"),
        (14_640, 14_680, "SLEEP"),
        (16_010, 16_510, "WAKE"),
        (16_510, 16_540, "WAIT"),
    ]
    assert outcome.counts[Count.ACCEPTS] == 5


def test_a_cpu_that_drowns_in_packets_holds_up_all_others() -> None:
    # A connection is 330 + 60 of CPU 3 (and 100 where it pauses): its three idle neighbours could
    # answer more than twice as many.
    trace = arrivals(*range(0, 2_000_000, 200))
    server = on_server(workers=3, cpus=4, interrupt_cpu=3, sharing=int(Sharing.NOTHING))
    settings = RunSettings(**server, duration_ns=2_000_000, sample_every_ns=0)
    costs = toy_costs("epoll_level")._replace(application=ApplicationCosts(0))
    outcome = simulate("epoll_level", trace, costs, settings)
    assert outcome.cpu_ledger_ns[3, Activity.IDLE] < 2_000
    assert outcome.counts[Count.ACCEPTS] <= 2_000_000 // 330


def test_neighbouring_flows_are_scattered_not_dealt_out() -> None:
    for n in (2, 3, 4, 8):
        for bits in (0, 16):
            chosen = np.array([(flow_hash(row) >> bits & 0xFFFF) % n for row in range(20_000)])
            among_40 = np.array([np.bincount(part, minlength=n) for part in chosen.reshape(-1, 40)])
            # The variance of a binomial count, within four of its own standard deviations.
            chance = 40 * (1 / n) * (1 - 1 / n)
            assert abs(among_40.var() / chance - 1) < 4 * (2 / among_40.size) ** 0.5 * n**0.5
