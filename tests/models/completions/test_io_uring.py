"""io_uring by hand: what one call does, in which order, and how much of it."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.releases import with_release
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.family_settings import CompletionSettings
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.program_settings import Wakes
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS

ONE = arrivals(10_000)
TWO_REQUESTS = arrivals(10_000, requests=2, think_ns=100_000)
WHILE = RunSettings(duration_ns=20_000, sample_every_ns=0)
LONGER = WHILE._replace(duration_ns=1_000_000)


def test_io_uring_takes_a_call_for_each_step_of_a_connection() -> None:
    steps, outcome = timeline("io_uring", ONE, WHILE)
    assert steps == [
        (0, 70, "WAIT"),
        (70, 110, "SLEEP"),
        (11_442, 11_942, "WAKE"),  # 12 for the work that the interrupt queues
        (11_942, 11_951, "WAIT"),
        (11_951, 11_959, "WAIT"),  # what was armed is looked at again
        (11_959, 12_259, "ACCEPT"),
        (12_259, 12_269, "ACCEPT"),  # its completion, which says that it is the last
        (12_269, 12_354, "WAIT"),  # 70, and the receive submitted
        (12_354, 12_564, "READ"),  # at once, as it is there: 200, and 10 for the completion
        (12_564, 12_714, "USER"),
        (12_714, 12_799, "WAIT"),  # 70, and the reply submitted
        (12_799, 13_199, "WRITE"),
        (13_199, 13_380, "WAIT"),  # the close linked to it: 15 + 6, and the reset's 160
        (13_380, 13_540, "CLOSE"),  # 250, less 90 as there is nothing to send any more
        (13_540, 13_580, "SLEEP"),  # in the same call: nothing is completed
    ]
    counts = outcome.counts[[Count.WAITS, Count.EVENTS, Count.ACCEPT_AGAIN, Count.READ_AGAIN]]
    assert counts.tolist() == [3, 2, 0, 0]
    assert outcome.counts[Count.RECHECKED] == 0


def test_before_linux_6_10_it_looked_in_vain_after_the_last_connection() -> None:
    old = with_release(RunSettings(), "io_uring", "6.1.0").completions
    _, now = timeline("io_uring", ONE, WHILE)
    _, then = timeline("io_uring", ONE, WHILE._replace(completions=old))
    assert then.counts[Count.ACCEPT_AGAIN] == 1
    assert then.ledger_ns[Activity.ACCEPT] - now.ledger_ns[Activity.ACCEPT] == 100


def test_a_ring_that_spins_does_all_that_a_call_may_do() -> None:
    four = arrivals(*[10_000] * 4, requests=2, think_ns=100_000)
    busy = LONGER._replace(**on_server(busy=True))
    _, outcome = timeline("io_uring", four, busy)
    assert outcome.counts[Count.REPLIES] == 8
    _, asleep = timeline("io_uring", four, LONGER)
    assert max(outcome.done_ns) < max(asleep.done_ns)


def test_a_batch_of_io_uring_is_answered_by_one_call() -> None:
    four = arrivals(*[10_000] * 4)
    _, outcome = timeline("io_uring", four, LONGER)
    assert outcome.counts[[Count.REPLIES, Count.WAITS, Count.EVENTS]].tolist() == [4, 3, 8]
    first, last = min(outcome.done_ns), max(outcome.done_ns)
    assert last - first == 3 * (400 + 160)  # each sent, and its reset; all are closed after that


def test_io_uring_arms_a_receive_that_finds_nothing_and_comes_back_to_it() -> None:
    steps, outcome = timeline("io_uring", TWO_REQUESTS, LONGER)
    names = [name for *_, name in steps]
    armed = names.index("WATCH")
    # Linked to the first reply; nothing has come yet, so it is armed, and the server sleeps.
    assert [(end - begin, name) for begin, end, name in steps[armed - 2 : armed + 2]] == [
        (400, "WRITE"),
        (21, "WAIT"),
        (75, "WATCH"),
        (40, "SLEEP"),
    ]
    assert [(end - begin, name) for begin, end, name in steps[armed + 2 : armed + 6]] == [
        (500, "WAKE"),
        (9, "WAIT"),
        (8, "WAIT"),
        (210, "READ"),
    ]
    assert outcome.counts[[Count.READS, Count.READ_AGAIN, Count.EVENTS]].tolist() == [2, 0, 3]


def test_before_linux_6_5_what_was_queued_last_is_done_first() -> None:
    two = arrivals(10_000, 10_000, requests=2, think_ns=100_000)
    _, level = timeline("epoll_level", two, LONGER)
    _, now = timeline("io_uring", two, LONGER)
    old = with_release(RunSettings(), "io_uring", "6.1.0").completions
    _, then = timeline("io_uring", two, LONGER._replace(completions=old))
    assert level.done_ns[0] < level.done_ns[1]
    assert now.done_ns[0] < now.done_ns[1]
    assert then.done_ns[0] > then.done_ns[1]


@pytest.mark.parametrize(
    ("at_once", "batches"),
    [
        (0, [7]),  # all that is there
        (20, [1, 6]),  # one after the sleep; then what is there
        (2, [1, 4, 2]),  # two after the submissions, and two before a sleep
    ],
)
def test_since_linux_6_13_what_is_due_is_done_in_parts(at_once: int, batches: list[int]) -> None:
    # Seven requests come while the server wakes up, for which receives are armed.
    seven = arrivals(*[10_000] * 7, requests=2, think_ns=100_000)
    server = on_server(due_at_once=at_once)
    steps, outcome = timeline("io_uring", seven, LONGER._replace(**server))
    armed = max(i for i, (_, _, name) in enumerate(steps) if name == "WATCH")
    names = " ".join(name for *_, name in steps[armed:] if name in ("READ", "USER"))
    assert [part.count("READ") for part in names.split("USER") if "READ" in part] == batches
    assert outcome.counts[Count.REPLIES] == 14


@pytest.mark.parametrize(
    ("kernel", "at_once", "last_first", "looks_again"),
    [
        ("6.1.0-13-amd64", 0, True, True),
        ("6.5", 0, False, True),
        ("6.10", 0, False, False),
        ("6.12.3", 0, False, False),
        ("6.13.0", 20, False, False),
        ("", 20, False, False),
    ],
)
def test_a_kernel_decides_how_much_is_done_and_in_which_order(
    kernel: str, at_once: int, last_first: bool, looks_again: bool
) -> None:
    server = with_release(RunSettings(), "io_uring", kernel).completions
    assert (server.due_at_once, server.due_last_first) == (at_once, last_first)
    assert server.accept_looks_again == looks_again
    assert with_release(RunSettings(), "poll", kernel).completions == CompletionSettings()


def test_only_all_can_be_done_from_its_end() -> None:
    server = on_server(due_last_first=True)
    with pytest.raises(ValueError, match=r"^due_at_once must be 0 where due_last_first is true: "):
        timeline("io_uring", ONE, WHILE._replace(**server))


def test_io_uring_without_descriptors_tries_again() -> None:
    server = on_server(fd_limit=8)
    many = arrivals(*range(10_000, 20_000, 500))
    _, outcome = timeline("io_uring", many, LONGER._replace(**server))
    assert outcome.counts[Count.ACCEPT_NO_FD] > 0
    assert outcome.counts[Count.REPLIES] == 20


def test_io_uring_hears_the_end_of_a_connection_before_it_closes_it() -> None:
    # The client gives up while the server sleeps on its second request.
    client = ClientSettings(timeout_ns=40_000)
    trace = arrivals(10_000, requests=2, think_ns=100_000)
    _, outcome = timeline("io_uring", trace, LONGER._replace(client=client))
    assert outcome.counts[[Count.CLOSES, Count.READS]].tolist() == [1, 2]
    assert outcome.counts[Count.WAITS] == 4


def test_several_rings_on_one_listener_wake_one_another_never() -> None:
    server = on_server(workers=3, cpus=3, wakes=int(Wakes.ONE))
    many = arrivals(*range(10_000, 40_000, 500), requests=2)
    _, outcome = timeline("io_uring", many, LONGER._replace(**server))
    assert outcome.counts[Count.REPLIES] == 120


def test_a_send_that_does_not_fit_is_finished_by_the_kernel() -> None:
    server = on_server(send_buffer_bytes=1_000)
    trace = arrivals(10_000, reply_bytes=2_500)
    steps, outcome = timeline("io_uring", trace, LONGER._replace(**server))
    assert outcome.counts[[Count.REPLIES, Count.WRITES, Count.WAITS]].tolist() == [1, 3, 3]
    assert [name for *_, name in steps].count("USER") == 1


def test_a_rest_that_comes_while_the_server_has_a_part_is_received() -> None:
    # At some of these pauses the rest is there before the receive of the part was seen.
    costs = toy_costs("io_uring")
    for pause_ns in range(0, 2_000, 25):
        client = ClientSettings(request_pieces=2, piece_pause_ns=pause_ns)
        run = RunSettings(client=client, duration_ns=MILLISECOND_NS, sample_every_ns=0)
        outcome = simulate("io_uring", arrivals(10_000), costs, run, engine="reference")
        assert outcome.counts[Count.REPLIES] == 1, pause_ns
