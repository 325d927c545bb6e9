"""phhttpd's recovery by a sibling that polls, computed by hand, exact to the nanosecond.

Connections that come together overflow a queue of one signal. Packets are handled as in
tests/models/test_worker_timelines.py: 1000 out of idleness, 100 for the interrupt, 200 a SYN, 50 an
ACK with 15 for the signal that is queued or 9 for one that is lost, 80 a request.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.served import on_server
from tests.steps import Step, timelines
from tests.toy import SIGNALS, arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import per_item
from dispatchsim.sim.state.family_settings import Recovery
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings

SEND, RECEIVE = 90, 70
TOY = toy_costs("rt_signals")
QUICK = TOY._replace(mechanism=SIGNALS._replace(send_fd_ns=SEND, receive_fd_ns=RECEIVE))
SLOW = TOY._replace(mechanism=SIGNALS._replace(send_fd_ns=900, receive_fd_ns=700))
BOTH = arrivals(10_000, 10_000)


def of_threads(
    trace: Trace,
    recovery: Recovery,
    *,
    cpus: int,
    idle: int = 0,
    costs: Any = QUICK,
    duration_ns: int = 30_000,
    **server: Any,
) -> tuple[list[Step], list[Step], Outcome]:
    """Return the steps of the worker and of its sibling, and the outcome, of both engines."""
    given = on_server(
        signal_queue=1, recovery=int(recovery), recovery_hands_over=True, cpus=cpus, **server
    )
    steps, outcome = timelines(
        trace, given, duration_ns, "rt_signals", client=ClientSettings(idle=idle), costs=costs
    )
    return steps[0], steps[1], outcome


def serving(begin_ns: int, *, interrupted_ns: int = 0) -> list[Step]:
    """Return the steps that serve one request from *begin_ns* on, its connection closed."""
    return [
        (begin_ns, begin_ns + 200, "READ"),
        (begin_ns + 200, begin_ns + 350, "USER"),
        (begin_ns + 350, begin_ns + 750, "WRITE"),
        (begin_ns + 750, begin_ns + 1_000 + interrupted_ns, "CLOSE"),
    ]


BEGINS: list[Step] = [
    (0, 4, "WAIT"),  # the listener is taken to be ready
    (4, 104, "ACCEPT"),
    (104, 174, "WAIT"),
    (174, 214, "SLEEP"),
]
# CPU 0: 11000, 100, two SYNs 400, ACKs 65 and 59, requests 160.
OVERFLOWS: list[Step] = [
    (11_784, 12_284, "WAKE"),
    (12_284, 12_314, "WAIT"),  # SIGIO (30)
    (12_314, 12_371, "WAIT"),  # flush (55), and one signal thrown away (2)
]


def test_on_one_cpu_sending_and_receiving_take_turns() -> None:
    worker, sibling, outcome = of_threads(BOTH, Recovery.POLL_FOR_EVER, cpus=1, idle=2)
    assert worker == [
        *BEGINS,
        *OVERFLOWS,
        (12_371, 12_461, "WAIT"),  # the listener is sent: the sibling has had less, and takes over
        (13_071, 13_571, "WAKE"),
        (13_571, 13_661, "WAIT"),  # one idle connection; now the sibling has had more, and waits
        (13_661, 13_751, "WAIT"),
        (13_751, 13_791, "SLEEP"),  # nothing is left to it
    ]
    assert sibling == [
        (214, 254, "SLEEP"),
        (12_461, 12_961, "WAKE"),
        (12_961, 13_031, "WAIT"),  # one descriptor, and not the last
        (13_031, 13_071, "SLEEP"),
        (13_791, 14_291, "WAKE"),
        (14_291, 14_361, "WAIT"),
        (14_361, 14_431, "WAIT"),
        (14_431, 14_461, "WAIT"),  # poll of three
        (14_461, 14_465, "WAIT"),  # one event (4): the listener
        (14_465, 14_765, "ACCEPT"),
        (14_765, 14_885, "WATCH"),
        (14_885, 15_185, "ACCEPT"),
        (15_185, 15_305, "WATCH"),
        (15_305, 15_405, "ACCEPT"),
        (15_405, 15_455, "WAIT"),  # poll of five
        (15_455, 15_463, "WAIT"),
        *serving(15_463, interrupted_ns=160),  # a reset: 100 and 60
        *serving(16_623, interrupted_ns=160),
        (17_783, 17_813, "WAIT"),
        (17_813, 17_853, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [16_213, 17_373]
    assert outcome.counts[Count.OVERFLOWS] == 1


def test_on_two_cpus_the_sibling_receives_while_the_worker_sends() -> None:
    worker, sibling, outcome = of_threads(BOTH, Recovery.POLL_FOR_EVER, cpus=2, idle=2, costs=SLOW)
    assert worker == [
        *BEGINS,
        *OVERFLOWS,
        (12_371, 13_271, "WAIT"),
        (13_271, 14_171, "WAIT"),
        (14_171, 15_071, "WAIT"),
        (15_071, 15_111, "SLEEP"),
    ]
    assert sibling[:11] == [
        (0, 40, "SLEEP"),
        (14_271, 14_771, "WAKE"),  # by the first message, 1000 out of idleness
        (14_771, 15_471, "WAIT"),
        (15_471, 16_171, "WAIT"),
        (16_171, 16_871, "WAIT"),
        (16_871, 16_901, "WAIT"),  # poll of three
        (16_901, 16_905, "WAIT"),
        (16_905, 17_205, "ACCEPT"),
        (17_205, 17_325, "WATCH"),
        (17_325, 17_625, "ACCEPT"),
        (17_625, 17_745, "WATCH"),
    ]
    assert outcome.worker_accepts.tolist() == [0, 2]
    # Each CPU pays for its own part.
    wait_ns = outcome.cpu_ledger_ns[:, Activity.WAIT]
    assert wait_ns[0] == sum(end - begin for begin, end, name in worker if name == "WAIT")
    assert wait_ns[1] == sum(end - begin for begin, end, name in sibling if name == "WAIT")


def test_a_receiver_that_is_faster_sleeps_between_messages() -> None:
    costs = QUICK._replace(mechanism=QUICK.mechanism._replace(send_fd_ns=5_000))
    worker, sibling, _ = of_threads(BOTH, Recovery.POLL_FOR_EVER, cpus=2, idle=1, costs=costs)
    assert worker[len(BEGINS) + len(OVERFLOWS) :] == [
        (12_371, 17_371, "WAIT"),
        (17_371, 22_371, "WAIT"),
        (22_371, 22_411, "SLEEP"),
    ]
    assert sibling[:8] == [
        (0, 40, "SLEEP"),
        (18_371, 18_871, "WAKE"),
        (18_871, 18_941, "WAIT"),
        (18_941, 18_981, "SLEEP"),
        (23_371, 23_871, "WAKE"),
        (23_871, 23_941, "WAIT"),
        (23_941, 23_961, "WAIT"),  # poll of two
        (23_961, 23_965, "WAIT"),
    ]


# -- a request meanwhile: CPU 2 has the interrupts, and handles it 1180 after it was sent

FIRST_REPLY = 14_228


def one_that_stays(second_ns: int) -> Trace:
    """Return a connection with a second request at *second_ns*, and two at 30000 that overflow."""
    trace = arrivals(10_000, 30_000, 30_000, think_ns=second_ns - FIRST_REPLY)
    return dataclasses.replace(trace, requests=np.array([2, 1, 1]))


@pytest.mark.parametrize(
    ("sent_ns", "where"),
    [
        (32_850, "with its worker: handled at 34045, and the descriptor is sent until 34937"),
        (33_328, "about to be sent"),
        (35_228, "in the socket: handled at 36423, and received until 36937"),
    ],
)
def test_a_request_before_the_first_poll_is_found_by_it(sent_ns: int, where: str) -> None:
    worker, sibling, outcome = of_threads(
        one_that_stays(sent_ns),
        Recovery.POLL_FOR_EVER,
        cpus=3,
        costs=SLOW,
        duration_ns=60_000,
        interrupt_cpu=2,
    )
    # Its signal is queued for the worker, which does not take it: it sleeps in recvmsg.
    assert worker[-6:] == [
        (32_550, 33_050, "WAKE"),
        (33_050, 33_080, "WAIT"),
        (33_080, 33_137, "WAIT"),
        (33_137, 34_037, "WAIT"),  # the listener
        (34_037, 34_937, "WAIT"),  # the connection
        (34_937, 34_977, "SLEEP"),
    ]
    assert sibling[:6] == [
        (0, 40, "SLEEP"),
        (35_037, 35_537, "WAKE"),
        (35_537, 36_237, "WAIT"),
        (36_237, 36_937, "WAIT"),
        (36_937, 36_957, "WAIT"),
        (36_957, 36_965, "WAIT"),  # two events: the listener, and the connection
    ], where
    assert sibling[11:15] == serving(37_905)
    assert outcome.reply_ns.tolist()[:2] == [FIRST_REPLY, 38_655]


def test_a_request_of_one_that_was_handed_over_wakes_the_sibling() -> None:
    worker, sibling, outcome = of_threads(
        one_that_stays(42_228),
        Recovery.POLL_FOR_EVER,
        cpus=3,
        costs=SLOW,
        duration_ns=60_000,
        interrupt_cpu=2,
    )
    assert worker[-1] == (34_937, 34_977, "SLEEP")
    assert sibling[-11:] == [
        (39_949, 39_969, "WAIT"),  # poll of two: nothing
        (39_969, 40_009, "SLEEP"),
        (44_408, 44_908, "WAKE"),  # 42228, 1180, and 1000 out of idleness
        (44_908, 44_928, "WAIT"),  # it polls again
        (44_928, 44_932, "WAIT"),
        *serving(44_932),
        (45_932, 45_942, "WAIT"),
        (45_942, 45_982, "SLEEP"),
    ]
    assert outcome.reply_ns[1] == 45_682


# -- and back


def test_after_one_poll_the_worker_has_its_descriptors_back() -> None:
    worker, sibling, _ = of_threads(BOTH, Recovery.POLL, cpus=2, idle=2)
    assert sibling == [
        (0, 40, "SLEEP"),
        (13_461, 13_961, "WAKE"),
        *((at, at + 70, "WAIT") for at in (13_961, 14_031, 14_101)),
        (14_171, 14_201, "WAIT"),  # its one poll
        (14_201, 14_205, "WAIT"),
        (14_205, 14_505, "ACCEPT"),
        (14_505, 14_625, "WATCH"),
        (14_625, 14_925, "ACCEPT"),
        (14_925, 15_045, "WATCH"),
        (15_045, 15_145, "ACCEPT"),
        # Three it was given, and two that it has accepted.
        *((at, at + 90, "WAIT") for at in (15_145, 15_235, 15_325, 15_415, 15_505)),
        (15_595, 15_635, "SLEEP"),
    ]
    assert worker[: len(BEGINS) + 7] == [
        *BEGINS,
        *OVERFLOWS,
        *((at, at + 90, "WAIT") for at in (12_371, 12_461, 12_551)),
        (12_641, 12_681, "SLEEP"),
    ]
    # What was accepted is taken to be ready, and its new thread takes it so, too.
    assert worker[len(BEGINS) + 7 :][:12] == [
        (16_235, 16_735, "WAKE"),  # by the first, sent at 15235
        *((at, at + 70, "WAIT") for at in (16_735, 16_805, 16_875, 16_945, 17_015)),
        (17_085, 17_093, "WAIT"),
        *serving(17_093, interrupted_ns=160),
        (18_253, 18_453, "READ"),
    ]


def test_the_second_overflow_hands_all_over_again_unless_the_sibling_kept_them() -> None:
    trace = arrivals(10_000, 10_000, 40_000, 40_000)
    found = {
        recovery: of_threads(trace, recovery, cpus=2, idle=2, duration_ns=80_000)
        for recovery in (Recovery.POLL, Recovery.POLL_UNTIL_CALM, Recovery.POLL_FOR_EVER)
    }
    for recovery, (worker, sibling, outcome) in found.items():
        n_overflows = 1 if recovery is Recovery.POLL_FOR_EVER else 2
        assert outcome.counts[Count.OVERFLOWS] == n_overflows
        assert outcome.counts[Count.REPLIES] == 4
        n_sent = sum(end - begin == SEND for begin, end, name in worker if name == "WAIT")
        assert n_sent == 3 * n_overflows
        wakes = [begin for begin, _, name in sibling if name == "WAKE"]
        assert wakes[1] > 40_000
    # The sibling that kept them sleeps in poll: SYNs and ACKs are handled at 41350, on CPU 0.
    worker, sibling, _ = found[Recovery.POLL_FOR_EVER]
    assert worker[-1] == (12_641, 12_681, "SLEEP")


@pytest.mark.parametrize("mechanism", ["rt_signals_handler", "sigtimedwait4", "signal_per_fd"])
@pytest.mark.parametrize("recovery", [r for r in Recovery if r is not Recovery.NOTHING])
def test_nobody_is_stranded(mechanism: str, recovery: Recovery) -> None:
    run = RunSettings(
        **on_server(
            signal_queue=1, recovery=int(recovery), recovery_hands_over=True, workers=2, cpus=3
        ),
        client=ClientSettings(idle=7),
        duration_ns=2_000_000,
        sample_every_ns=0,
    )
    trace = arrivals(*np.repeat(np.arange(10_000, 200_000, 10_000), 3), requests=2, think_ns=3_000)
    outcome = simulate(mechanism, trace, toy_costs(mechanism), run, engine="reference")
    assert outcome.counts[Count.OVERFLOWS] > 0 or mechanism == "signal_per_fd"
    assert outcome.counts[Count.REPLIES] == 2 * len(trace)
    assert len(outcome.stranded) == 0
    assert simulate(mechanism, trace, toy_costs(mechanism), run, engine="fast").same_as(outcome)


def test_pt00_13_each_descriptor_costs_both_threads_there_and_back() -> None:
    costs = QUICK._replace(mechanism=QUICK.mechanism._replace(poll=per_item(0)))
    spent = []
    for idle in (50, 51):
        _, _, outcome = of_threads(BOTH, Recovery.POLL, cpus=2, idle=idle, costs=costs)
        spent.append(outcome.cpu_ledger_ns[:, Activity.WAIT])
    assert (spent[1] - spent[0]).tolist() == [SEND + RECEIVE, RECEIVE + SEND]


def test_an_array_that_is_kept_changes_with_each_descriptor_that_comes_and_goes() -> None:
    mechanism = QUICK.mechanism._replace(keep_ns=7, rebuild=per_item(4))
    costs = QUICK._replace(mechanism=mechanism)
    built, kept = (
        of_threads(
            BOTH, Recovery.POLL_FOR_EVER, cpus=2, idle=2, costs=costs, recovery_array_kept=is_kept
        )
        for is_kept in (False, True)
    )
    # Three leave one array and come into the other; the poll of three builds none.
    assert built[0][7:10] == [(at, at + 90, "WAIT") for at in (12_371, 12_461, 12_551)]
    assert kept[0][7:10] == [(at, at + 97, "WAIT") for at in (12_371, 12_468, 12_565)]
    assert [end - begin for begin, end, _ in built[1][2:6]] == [70, 70, 70, 30]
    assert [end - begin for begin, end, _ in kept[1][2:6]] == [77, 77, 77, 18]


def test_a_worker_that_never_overflows_leaves_its_sibling_asleep() -> None:
    _, sibling, outcome = of_threads(arrivals(10_000), Recovery.POLL, cpus=2)
    assert sibling == [(0, 40, "SLEEP")]
    assert outcome.counts[Count.REPLIES] == 1


def test_each_pair_has_two_descriptors_and_a_number_too_few_is_refused() -> None:
    server = on_server(recovery_hands_over=True, workers=2, fd_limit=11)
    run = RunSettings(**server, duration_ns=20_000, sample_every_ns=0)
    # Standard streams and a connection; a listener and two sockets for each worker.
    too_few = run._replace(limits=run.limits._replace(fd_limit=9))
    with pytest.raises(ValueError, match=r"fd_limit must be at least 10 for 2 workers, got 9"):
        simulate("rt_signals", BOTH, QUICK, too_few)
    outcome = simulate("rt_signals", BOTH, QUICK, run)
    assert outcome.counts[Count.REPLIES] == 2
