"""Servers with a backend: timelines by hand, and what both engines make of drawn scenes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.laws import check_all
from tests.scenes import Scene, comes_at, on_fast, on_reference, scenes
from tests.served import Served, on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.models.programs.event_loop import event_loop
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.laws import draws_ns
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.backend_settings import BackendSettings
from dispatchsim.sim.state.client_settings import ClientSettings, Closing
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.laws import Law, Laws
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.wire.way import drawn

# As in test_timelines: the client's packet comes at 10 us, the server has its request at 12590 in
# an event loop and at 12155 in a thread, and user code takes 150.
ONE, TWO = arrivals(10_000), arrivals(10_000, 10_000)
BACKEND = BackendSettings(connections=1, delay_ns=5_000)

MECHANISMS = ("epoll_level", "epoll_edge", "epoll_oneshot", "poll", "rt_signals", "blocking")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_engines_agree_on_servers_with_a_backend(mechanism: str, data: st.DataObject) -> None:
    scene = data.draw(scenes(mechanism, keeps=True, asks=True))
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    assert reference.same_as(on_fast(scene))


def run_of(
    mechanism: str,
    trace: Trace,
    backend: BackendSettings,
    server: Served | None = None,
    **more: int,
) -> tuple[list[tuple[int, int, str]], Outcome]:
    """Return the steps of the reference engine, and the outcome that both engines agree on."""
    run = RunSettings(
        **(server or on_server()),
        client=ClientSettings(**more),
        backend=backend,
        duration_ns=60_000,
        sample_every_ns=0,
    )
    steps, outcome = timeline(mechanism, trace, run)
    fast = simulate(mechanism, trace, toy_costs(mechanism), run, engine="fast")
    assert fast.same_as(outcome)
    return steps, outcome


def test_an_event_loop_waits_for_the_backend_as_for_any_descriptor() -> None:
    steps, outcome = run_of("epoll_level", ONE, BACKEND)
    assert steps[9:] == [
        (12_590, 12_790, "READ"),
        (12_790, 12_940, "USER"),
        (12_940, 13_340, "WRITE"),  # the query, which is there now; its reply comes at 18340
        (13_340, 13_410, "WAIT"),
        (13_410, 13_430, "WAIT"),  # the client is on the list, and looked at in vain
        (13_430, 13_470, "SLEEP"),
        # 1000 out of idleness, entry 100, and 80 as for a request: 19520.
        (19_520, 20_020, "WAKE"),
        (20_020, 20_050, "WAIT"),  # one event: the connection to the backend
        (20_050, 20_250, "READ"),
        (20_250, 20_650, "WRITE"),  # to the client, whose reset takes 160 of the next step
        (20_650, 20_870, "UNWATCH"),
        (20_870, 21_120, "CLOSE"),
        (21_120, 21_190, "WAIT"),
        (21_190, 21_210, "WAIT"),  # now the backend's is looked at in vain
        (21_210, 21_250, "SLEEP"),
    ]
    assert outcome.reply_ns.tolist() == [20_650]
    assert outcome.counts[Count.BACKEND_WORK_NS] == 5_000


def test_a_thread_sleeps_in_the_read_from_the_backend() -> None:
    steps, outcome = run_of("blocking", ONE, BACKEND)
    assert steps[3:] == [
        (12_155, 12_355, "READ"),
        (12_355, 12_505, "USER"),
        (12_505, 12_905, "WRITE"),  # the query; its reply comes at 17905
        (12_905, 12_995, "READ"),  # nothing there yet
        (12_995, 13_035, "SLEEP"),
        (19_085, 19_585, "WAKE"),  # 17905, and 1180 as above
        (19_585, 19_610, "READ"),  # off the wait queue, a second look (25)
        (19_610, 19_720, "READ"),  # the rest of 200
        (19_720, 20_120, "WRITE"),
        (20_120, 20_530, "CLOSE"),  # 250, and the reset: 160
        (20_530, 20_630, "ACCEPT"),
        (20_630, 20_670, "SLEEP"),
    ]
    assert outcome.reply_ns.tolist() == [20_120]


def test_the_next_request_has_the_connection_before_the_reply_is_written() -> None:
    steps, outcome = run_of("epoll_level", TWO, BACKEND)
    assert steps[11:23] == [
        (13_360, 13_560, "READ"),
        (13_560, 13_710, "USER"),
        (13_710, 14_110, "WRITE"),  # the query of the first: its reply comes at 19110
        (14_110, 14_310, "READ"),
        (14_310, 14_460, "USER"),  # the second waits in line from now on
        (14_460, 14_530, "WAIT"),
        (14_530, 14_570, "WAIT"),  # both clients are looked at in vain
        (14_570, 14_610, "SLEEP"),
        (20_290, 20_790, "WAKE"),
        (20_790, 20_820, "WAIT"),
        (20_820, 21_020, "READ"),  # the second is out of line
        (21_020, 21_420, "WRITE"),  # its query: the reply comes at 26420
    ]
    assert steps[23] == (21_420, 21_820, "WRITE")  # to the first client
    # 26420 + 1180 (interrupt) + 500 (wake) + 30 (wait) + 200 (read) + 400 (write) = 28730.
    assert outcome.reply_ns.tolist() == [21_820, 28_730]
    assert outcome.counts[Count.BACKEND_LINE_NS] == 21_020 - 14_460
    assert outcome.counts[Count.BACKEND_WORK_NS] == 10_000


def test_beyond_its_limit_requests_wait_at_the_backend() -> None:
    _, outcome = run_of("epoll_level", TWO, BackendSettings(2, 5_000, limit=1))
    # Queries come at 14110 and 14860 (14460 + 400); the second is begun at 19110, and its reply
    # leaves at 24110: 24110 + 1180 + 500 + 30 + 200 + 400 = 26420.
    assert outcome.reply_ns[1] == 26_420
    assert outcome.counts[Count.BACKEND_QUEUE_NS] == 19_110 - 14_860
    assert outcome.counts[Count.BACKEND_FULL_NS] == 24_110 - 14_110
    assert outcome.counts[Count.BACKEND_STAY_NS] == (19_110 - 14_110) + (24_110 - 14_860)
    assert outcome.counts[Count.BACKEND_ANSWERS] == 2
    assert outcome.counts[Count.BACKEND_LINE_NS] == 0


def test_a_thread_sleeps_until_a_connection_is_free() -> None:
    server = on_server(workers=2, cpus=3, interrupt_cpu=2)
    _, outcome = run_of("blocking", TWO, BACKEND, server)
    first, second = sorted(outcome.reply_ns.tolist())
    # The thread that has the connection gives it to the other one as its read ends, 400 before
    # its own reply. The other wakes (1000 out of idleness, 500), sends its query (400), and its
    # reply comes 5000 later: 1180 on the CPU of interrupts, 1000 to the other CPU, 500, read in
    # two parts (25 + 110), write 400.
    assert second - (first - 400) == 1_000 + 500 + 400 + 5_000 + 1_180 + 1_000 + 500 + 135 + 400
    assert outcome.counts[Count.BACKEND_QUERIES] == 2


def test_a_client_that_is_gone_is_closed_and_its_reply_discarded() -> None:
    steps, outcome = run_of("epoll_level", ONE, BACKEND, timeout_ns=5_000)
    assert steps[14:] == [
        (13_430, 13_470, "SLEEP"),
        # It gives up at 15000; its reset takes 1000 + 100 + 60.
        (16_160, 16_660, "WAKE"),
        (16_660, 16_690, "WAIT"),
        (16_690, 16_890, "READ"),  # end of file
        (16_890, 16_950, "UNWATCH"),
        (16_950, 17_200, "CLOSE"),
        (17_200, 17_270, "WAIT"),
        (17_270, 17_310, "SLEEP"),
        (19_520, 20_020, "WAKE"),  # the reply comes nevertheless
        (20_020, 20_050, "WAIT"),
        (20_050, 20_250, "READ"),
        (20_250, 20_320, "WAIT"),
        (20_320, 20_340, "WAIT"),
        (20_340, 20_380, "SLEEP"),
    ]
    assert outcome.status.tolist() == [Status.TIMEOUT]
    assert outcome.counts[Count.REPLIES] == 0
    assert outcome.counts[Count.BACKEND_DISCARDED] == 1


def test_a_client_whose_reply_fails_has_no_second_event_in_the_batch() -> None:
    steps, outcome = run_of("epoll_level", ONE, BACKEND, timeout_ns=9_600)
    # It gives up at 19600, while the server wakes up for the backend's reply.
    assert steps[15:] == [
        (19_520, 20_180, "WAKE"),  # 500, and the reset's interrupt: 160
        (20_180, 20_240, "WAIT"),  # two events
        (20_240, 20_440, "READ"),  # the reply of the backend
        (20_440, 20_530, "WRITE"),  # fails (90)
        (20_530, 20_590, "UNWATCH"),
        (20_590, 20_840, "CLOSE"),
        (20_840, 20_910, "WAIT"),  # the client's event is of a descriptor that is closed
        (20_910, 20_930, "WAIT"),
        (20_930, 20_970, "SLEEP"),
    ]
    assert outcome.counts[Count.WRITE_FAILED] == 1
    assert outcome.counts[Count.BACKEND_DISCARDED] == 0


def test_a_client_that_is_gone_leaves_the_line() -> None:
    _, outcome = run_of("epoll_level", TWO, BACKEND, timeout_ns=5_000)
    # Both give up at 15000: the first is at the backend, the second in line.
    assert outcome.counts[Count.BACKEND_QUERIES] == 1
    assert outcome.counts[Count.BACKEND_LEFT] == 1


def test_a_descriptor_that_is_used_again_does_not_have_its_predecessors_reply() -> None:
    delays = Law("samples", samples_ns=(5_000, 17_000))

    def delays_of(seed: int) -> list[int]:
        """Return the delays of the first request of both connections."""
        table = draws_ns(delays, seed, "backend delay").tolist()
        return [drawn(table, row, 0) for row in range(2)]

    seed = next(seed for seed in range(100) if delays_of(seed) == [17_000, 5_000])
    run = RunSettings(
        client=ClientSettings(timeout_ns=12_000),
        backend=BackendSettings(connections=2),
        laws=Laws(backend_delay=delays),
        duration_ns=80_000,
        sample_every_ns=0,
        seed=seed,
    )
    # The first gives up at 22000, and is closed at 24200. The second has its descriptor from 24500
    # on, and its query is sent at 24500 + 3340. The reply for the first comes at 13340 + 17000.
    scene = Scene("epoll_level", comes_at(10_000, 24_500), run)
    outcome, _ = on_reference(scene)
    assert on_fast(scene).same_as(outcome)
    assert outcome.status.tolist() == [Status.TIMEOUT, Status.REPLIED]
    assert outcome.reply_ns[1] == 24_500 + 3_340 + 5_000 + 2_310
    assert outcome.counts[Count.BACKEND_DISCARDED] == 1


@pytest.mark.parametrize("sharing", [Sharing.NOTHING, Sharing.READY_LIST, Sharing.HANDED_OVER])
def test_event_loops_share_connections_as_they_share_sets(sharing: Sharing) -> None:
    server = on_server(workers=3, cpus=3, sharing=int(sharing))
    trace = comes_at(*range(10_000, 60_000, 1_000), requests=2)
    run = RunSettings(**server, backend=BackendSettings(5, 2_000, limit=2), duration_ns=1_000_000)
    scene = Scene("epoll_level", trace, run)
    reference, world = on_reference(scene)
    check_all(scene, reference, world)
    assert on_fast(scene).same_as(reference)
    assert (reference.ended_as == Status.REPLIED).all()
    assert reference.counts[Count.BACKEND_QUERIES] == 100
    # Each has a range of its own; one that hands connections over has none.
    first = world.first_backend_fd
    expected = {
        Sharing.NOTHING: [0, 1, 1, 2, 2],
        Sharing.READY_LIST: [0] * 5,
        Sharing.HANDED_OVER: [1, 1, 2, 2, 2],
    }
    assert list(world.watched_by[first : first + 5]) == expected[sharing]


@pytest.mark.parametrize(
    ("mechanism", "run", "rule"),
    [
        ("io_uring", {}, "backend connections must be 0 with io_uring, whose program cannot"),
        ("completion_port", {}, "backend connections must be 0 with completion_port"),
        (
            "epoll_level",
            on_server(workers=3, sharing=int(Sharing.NOTHING)),
            "backend connections must be at least 3 where workers is 3: each event loop",
        ),
        ("epoll_level", {"client": ClientSettings(closing=int(Closing.HALF_CLOSE))}, "HALF_CLOSE"),
        (
            "rt_signals",
            on_server(recovery_hands_over=True),
            "backend connections must be 0 where recovery_hands_over is true",
        ),
        ("epoll_level", on_server(fd_limit=7), "fd_limit must be at least 8"),
    ],
)
def test_a_backend_that_cannot_be_asked_is_refused(
    mechanism: str, run: dict[str, object], rule: str
) -> None:
    settings = RunSettings(**run, backend=BackendSettings(2, 1_000))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rule):
        simulate(mechanism, ONE, toy_costs(mechanism), settings)


def test_a_program_that_asks_no_backend_is_refused() -> None:
    program = event_loop(CATALOGUE["epoll_level"].mechanism)._replace(asks_backend=False)
    settings = RunSettings(backend=BACKEND)
    with pytest.raises(ValueError, match="must be 0 with a program that has no queries, got 1"):
        simulate(program, ONE, toy_costs("epoll_level"), settings)
