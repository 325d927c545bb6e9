"""One-shot epoll, removal by close, get_next_event, kqueue, AIO, the kernel: by hand."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import CALL, arrivals, timeline, toy_costs

from dispatchsim.calibration.profiles.cost_profile import shipped
from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.models.epoll.other_kernels import InKernelCosts, without_crossing
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.summary import Verdict, summarise
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings

ONE = arrivals(10_000)
TWO_REQUESTS = arrivals(10_000, requests=2, think_ns=100_000)
WHILE = RunSettings(duration_ns=20_000, sample_every_ns=0)
LONGER = WHILE._replace(duration_ns=1_000_000)
AWAKE = [(11_430, 11_930, "WAKE")]
"""The handshake and the request: 10,000 + 430 of interrupts + 1,000 to leave idleness."""


def served(steps: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the steps since the server was woken first."""
    return steps[steps.index(AWAKE[0]) :]


def test_a_connection_that_ends_needs_no_second_arming() -> None:
    level, _ = timeline("epoll_level", ONE, WHILE)
    once, _ = timeline("epoll_oneshot", ONE, WHILE)
    assert once == level


def test_epolloneshot_takes_a_call_more_for_each_request_but_the_last() -> None:
    _, level_outcome = timeline("epoll_level", TWO_REQUESTS, LONGER)
    once, once_outcome = timeline("epoll_oneshot", TWO_REQUESTS, LONGER)
    assert level_outcome.counts[Count.REWATCHES] == 0
    assert once_outcome.counts[Count.REWATCHES] == 1
    assert (13_340, 13_380, "REWATCH") in once  # EPOLL_CTL_MOD: 40
    # In return it is not on the list any more, where level-triggered epoll finds it in vain.
    vain = [outcome.counts[Count.RECHECKED] for outcome in (level_outcome, once_outcome)]
    assert vain == [2, 1]


@pytest.mark.parametrize("mechanism", ["epoll_oneshot", "epoll_close"])
def test_threads_may_share_one_set(mechanism: str) -> None:
    server = on_server(workers=3, cpus=2, sharing=int(Sharing.READY_LIST))
    many = arrivals(*range(10_000, 40_000, 500), requests=2)
    _, outcome = timeline(mechanism, many, LONGER._replace(**server))
    assert outcome.counts[Count.REPLIES] == 120


def test_g04_32_removal_left_to_close_moves_the_time_into_close() -> None:
    _, deleted = timeline("epoll_level", ONE, WHILE)
    steps, closed = timeline("epoll_close", ONE, WHILE)
    assert served(steps)[-4:] == [
        (12_940, 13_340, "WRITE"),
        (13_340, 13_795, "CLOSE"),  # 250, 45 for the tree, and the reset's 160
        (13_795, 13_865, "WAIT"),
        (13_865, 13_905, "SLEEP"),
    ]
    assert deleted.ledger_ns[Activity.UNWATCH] == 60
    assert closed.ledger_ns[Activity.UNWATCH] == 0
    assert closed.ledger_ns[Activity.CLOSE] - deleted.ledger_ns[Activity.CLOSE] == 45


def test_m20_declaring_an_interest_tells_the_state() -> None:
    steps, outcome = timeline("get_next_event", ONE, WHILE)
    assert served(steps) == [
        *AWAKE,
        (11_930, 11_960, "WAIT"),  # one entry
        (11_960, 11_964, "WAIT"),  # what the server remembers of it
        (11_964, 12_264, "ACCEPT"),
        (12_264, 12_359, "WATCH"),  # says that there is a request
        (12_359, 12_459, "ACCEPT"),  # EAGAIN
        (12_459, 12_529, "WAIT"),  # nothing new
        (12_529, 12_533, "WAIT"),
        (12_533, 12_733, "READ"),
        (12_733, 12_883, "USER"),
        (12_883, 13_283, "WRITE"),
        (13_283, 13_738, "CLOSE"),  # 250, 45 for the interest, and the reset's 160
        (13_738, 13_808, "WAIT"),
        (13_808, 13_848, "SLEEP"),
    ]
    assert outcome.counts[Count.NOTICES] == 1


def test_m20_events_of_one_descriptor_are_one_entry() -> None:
    # Four connections in one softirq are four changes of the listener.
    four = arrivals(*[10_000] * 4)
    _, outcome = timeline("get_next_event", four, LONGER)
    assert outcome.counts[[Count.REPLIES, Count.NOTICES]].tolist() == [4, 1]


def test_m21_one_kevent_takes_the_changes_and_returns_the_events() -> None:
    steps, outcome = timeline("kqueue", ONE, WHILE)
    assert steps[:3] == [
        (0, 75, "WATCH"),  # the listener, in the same call as the wait
        (75, 145, "WAIT"),
        (145, 185, "SLEEP"),
    ]
    assert served(steps) == [
        *AWAKE,
        (11_930, 11_960, "WAIT"),
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_360, "ACCEPT"),  # EAGAIN
        (12_360, 12_435, "WATCH"),
        (12_435, 12_505, "WAIT"),
        (12_505, 12_555, "WAIT"),  # one event, the listener looked at in vain
        (12_555, 12_755, "READ"),
        (12_755, 12_905, "USER"),
        (12_905, 13_305, "WRITE"),
        (13_305, 13_760, "CLOSE"),  # 250, 45 for its filter, and the reset's 160
        (13_760, 13_830, "WAIT"),
        (13_830, 13_870, "SLEEP"),
    ]
    assert outcome.counts[[Count.WAITS, Count.UPDATES]].tolist() == [3, 0]


def test_what_kqueue_was_never_told_of_costs_no_more_to_close() -> None:
    # Read after accept, answered and closed before the next wait.
    at_once = WHILE._replace(**on_server(read_after_accept=True))
    _, outcome = timeline("kqueue", ONE, at_once)
    _, level = timeline("epoll_level", ONE, at_once)
    assert outcome.counts[Count.REPLIES] == 1
    assert outcome.ledger_ns[Activity.CLOSE] == level.ledger_ns[Activity.CLOSE]
    assert outcome.ledger_ns[Activity.WATCH] == 75  # of the listener


def test_m40_events_in_the_ring_are_read_without_a_call() -> None:
    steps, outcome = timeline("aio_poll", ONE, WHILE)
    assert steps[:3] == [
        (0, 110, "WATCH"),  # io_submit: 35, and 75 for the listener
        (110, 180, "WAIT"),  # io_getevents: the ring is empty
        (180, 220, "SLEEP"),
    ]
    assert steps[3:] == [
        (11_442, 11_942, "WAKE"),  # 12 for the event, which the interrupt puts into the ring
        (11_942, 11_951, "WAIT"),  # io_getevents returns
        (11_951, 11_956, "WAIT"),  # one event
        (11_956, 12_256, "ACCEPT"),
        (12_256, 12_356, "ACCEPT"),  # EAGAIN
        (12_356, 12_544, "WATCH"),  # the connection, and the listener again: 35 + 2 x 75 + 3
        (12_544, 12_549, "WAIT"),  # ready when it was submitted: in the ring
        (12_549, 12_749, "READ"),
        (12_749, 12_899, "USER"),
        (12_899, 13_299, "WRITE"),
        (13_299, 13_709, "CLOSE"),  # its poll is over: 250, and the reset's 160
        (13_709, 13_779, "WAIT"),  # nothing to submit, nothing in the ring
        (13_779, 13_819, "SLEEP"),
    ]
    assert outcome.counts[[Count.WAITS, Count.ASKS, Count.UPDATES]].tolist() == [3, 2, 2]


@pytest.mark.parametrize("mechanism", ["io_uring", "in_kernel"])
def test_who_makes_no_call_does_not_pay_for_crossing(mechanism: str) -> None:
    costs = toy_costs(mechanism, call=CALL._replace(crossing_ns=60))
    _, crossing = timeline(mechanism, ONE, WHILE)
    _, without = timeline(mechanism, ONE, WHILE, costs)
    for activity, n_calls in (
        (Activity.READ, 1),
        (Activity.WRITE, 1),
        (Activity.CLOSE, 1),
        (Activity.ACCEPT, 1),
    ):
        saved_ns = crossing.ledger_ns[activity] - without.ledger_ns[activity]
        assert saved_ns == 60 * n_calls, activity


def test_a_server_in_the_kernel_declares_nothing_and_makes_no_call_in_vain() -> None:
    steps, outcome = timeline("in_kernel", ONE, WHILE)
    assert outcome.counts[Count.ACCEPT_AGAIN] == 0
    assert served(steps) == [
        *AWAKE,
        (11_930, 11_960, "WAIT"),  # one entry
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_270, "WAIT"),  # it sees that nobody else waits
        (12_270, 12_320, "WAIT"),  # one entry, the listener looked at in vain
        (12_320, 12_520, "READ"),
        (12_520, 12_670, "USER"),
        (12_670, 13_070, "WRITE"),
        (13_070, 13_480, "CLOSE"),
        (13_480, 13_490, "WAIT"),
        (13_490, 13_530, "SLEEP"),
    ]


AT_ONCE = 64
RING = "io_uring"


def busy_ns(mechanism: str, n: int, **free: int) -> tuple[int, int]:
    """Return CPU time, and that of closes, for *n* connections that come in one softirq.

    Application costs are those of in_kernel, costs of the mechanism that are named in *free* are 0.
    """
    profile = shipped()["counted-linux-6.1-unmerged"]
    costs, same = (profile.costs(m, open_connections=AT_ONCE) for m in (mechanism, "in_kernel"))
    costs = costs._replace(application=same.application, mechanism=costs.mechanism._replace(**free))
    one = on_server(softirq_budget=0)  # no packet is left to ksoftirqd
    run = RunSettings(**one, duration_ns=20_000_000, sample_every_ns=0)
    outcome = simulate(mechanism, arrivals(*[1_000_000] * n), costs, run, engine="reference")
    assert outcome.counts[Count.REPLIES] == n
    spent_ns = outcome.ledger_ns.sum() - outcome.ledger_ns[Activity.IDLE]
    return int(spent_ns), int(outcome.ledger_ns[Activity.CLOSE])


@pytest.mark.parametrize("n", [1, AT_ONCE])
def test_a_server_in_the_kernel_bounds_all_that_serve_one_event_after_another(n: int) -> None:
    bound_ns, _ = busy_ns("in_kernel", n)
    others = {name: busy_ns(name, n)[0] for name in CATALOGUE if name not in ("in_kernel", RING)}
    assert {name: ns for name, ns in others.items() if ns <= bound_ns} == {}


def test_io_uring_is_below_that_bound_by_closes_that_find_the_reset_of_the_client() -> None:
    costs = shipped()["counted-linux-6.1-unmerged"].costs(RING, open_connections=AT_ONCE)
    each_ns = costs.mechanism.ended_saved_ns
    (bound_ns, closes_ns), (ring_ns, ring_closes_ns) = (
        busy_ns(name, AT_ONCE) for name in ("in_kernel", RING)
    )
    assert ring_ns < bound_ns
    # A batch of 64 is answered before the first close: each finds the reset.
    assert closes_ns - ring_closes_ns == AT_ONCE * each_ns
    # With closes as dear as elsewhere its submissions and completions are on top of the bound.
    assert busy_ns(RING, AT_ONCE, ended_saved_ns=0)[0] > bound_ns


def test_a_call_is_never_less_than_nothing() -> None:
    left = without_crossing(CALL._replace(crossing_ns=300))
    assert (left.read_ns, left.write_ns, left.crossing_ns) == (0, 100, 0)


@pytest.mark.parametrize(
    "mechanism", ["get_next_event", "kqueue", "aio_poll", "io_uring", "in_kernel", "epoll_close"]
)
def test_idle_connections_cost_them_nothing(mechanism: str) -> None:
    few, many = (
        timeline(mechanism, ONE, WHILE._replace(client=ClientSettings(idle=idle)))[1]
        for idle in (0, 1_000)
    )
    assert few.ledger_ns.tolist() == many.ledger_ns.tolist()


@pytest.mark.parametrize("accept_limit", [0, 1])
def test_get_next_event_strands_nobody_who_waits_to_be_accepted(accept_limit: int) -> None:
    three = arrivals(*[10_000] * 3)
    server = on_server(accept_limit=accept_limit)
    _, outcome = timeline("get_next_event", three, LONGER._replace(**server))
    assert outcome.counts[Count.REPLIES] == 3
    assert summarise(outcome).verdict is Verdict.STABLE


@pytest.mark.parametrize("mechanism", ["io_uring", "blocking"])
@pytest.mark.parametrize(
    ("setting", "default"),
    [("accept_limit", "0"), ("listener_last", "false"), ("read_after_accept", "false")],
)
def test_settings_of_event_loops_are_refused_elsewhere(
    mechanism: str, setting: str, default: str
) -> None:
    server = on_server().but(**{setting: True})
    rule = f"^{setting} must be {default} with {mechanism}, whose program has no event loop"
    with pytest.raises(ValueError, match=rule):
        timeline(mechanism, ONE, WHILE._replace(**server))


def test_a_server_in_the_kernel_that_spins_does_not_step_through_every_nanosecond() -> None:
    busy = WHILE._replace(**on_server(busy=True))
    costs = toy_costs("in_kernel")._replace(mechanism=InKernelCosts())
    _, outcome = timeline("in_kernel", ONE, busy, costs)
    assert outcome.counts[Count.REPLIES] == 1
