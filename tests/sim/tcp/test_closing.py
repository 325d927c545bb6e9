"""How connections end: who is in TIME_WAIT, what half-closed clients get, exact to the nanosecond.

Alone and 5000 from its client, a connection of 10000 has its reply written at 29440; the server
takes it out of the set (60) and closes it (250) at 29750. The reply is there at 34440.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.assembly.checks import check
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, Closing, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kernel_settings import KernelSettings
from dispatchsim.sim.state.kinds import Activity, Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS
from dispatchsim.sim.state.world import World

ONE = arrivals(10_000)
UNBOUNDED = KernelSettings()
MECHANISMS = ("epoll_level", "epoll_edge", "poll", "rt_signals", "io_uring", "blocking")


def ended(
    closing: Closing,
    duration_ns: int = 100_000,
    *,
    trace: Trace = ONE,
    mechanism: str = "epoll_level",
    request_ns: int = 150,
    client: dict[str, int] | None = None,
    network: dict[str, Any] | None = None,
    kernel: KernelSettings = UNBOUNDED,
    **server: Any,
) -> tuple[Outcome, World]:
    """Return the outcome that both engines agree on, and the world at its end."""
    worlds: list[World] = []
    run = RunSettings(
        **on_server(**server),
        network=NetworkSettings(delay_ns=5_000, **(network or {})),
        client=ClientSettings(closing=int(closing), **(client or {})),
        kernel=kernel,
        duration_ns=duration_ns,
        sample_every_ns=0,
    )
    costs = toy_costs(mechanism, application=ApplicationCosts(request_ns))
    outcome = simulate(
        mechanism,
        trace,
        costs,
        run,
        engine="reference",
        extend=lambda _, world: worlds.append(world),
    )
    assert simulate(mechanism, trace, costs, run, engine="fast").same_as(outcome)
    return outcome, worlds[0]


def test_a_server_that_closes_first_keeps_the_connection_in_time_wait() -> None:
    # Its FIN is at the client at 34750, and that of the client back at 39750.
    for at_ns, n_kept, n_now in (
        (39_749, 0, 0),
        (39_750, 1, 1),
        (60_000_039_749, 1, 1),  # 60 s later, include/net/tcp.h: TCP_TIMEWAIT_LEN
        (60_000_039_750, 1, 0),
    ):
        outcome, world = ended(Closing.FIN, at_ns)
        assert (outcome.counts[Count.TIME_WAITS], world.n_time_wait) == (n_kept, n_now)
        # SYN, ACK and request, and one packet that is FIN and acknowledgement.
        assert outcome.counts[Count.PACKETS] == 3 + n_kept
    assert outcome.done_ns.tolist() == [34_440]


def test_a_client_that_closes_first_has_its_fin_read_and_answered() -> None:
    # Its FIN is there at 39440, out of idleness and handled (160) at 40600, and wakes the server
    # (500), which is told (30), reads the end (200), and is done with it (60, 250) at 41640. Its
    # own FIN is at the client at 46640, and acknowledged at 51640.
    for at_ns, n_packets, n_closes in ((41_639, 4, 0), (41_640, 4, 1), (51_639, 4, 1)):
        outcome, _ = ended(Closing.FIN, at_ns, closes_first=False)
        assert outcome.counts[[Count.PACKETS, Count.CLOSES]].tolist() == [n_packets, n_closes]
    outcome, _ = ended(Closing.FIN, 51_640, closes_first=False)
    assert outcome.counts[[Count.PACKETS, Count.TIME_WAITS, Count.READS]].tolist() == [5, 0, 2]
    assert outcome.done_ns.tolist() == [34_440]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("closes_first", [False, True])
def test_who_shuts_down_behind_its_request_still_has_its_reply(
    mechanism: str, closes_first: bool
) -> None:
    outcome, _ = ended(
        Closing.HALF_CLOSE, mechanism=mechanism, closes_first=closes_first, trace=arrivals(10_000)
    )
    assert outcome.status.tolist() == [Status.REPLIED]
    # SYN, ACK, request, the FIN behind it, and the acknowledgement of the server's. The client
    # was the first to close, whatever the server does.
    assert outcome.counts[[Count.PACKETS, Count.TIME_WAITS]].tolist() == [5, 0]
    assert outcome.counts[Count.READS] == (1 if closes_first else 2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_server_that_takes_the_end_of_the_input_for_the_end_of_the_client_loses_the_reply(
    mechanism: str,
) -> None:
    outcome, _ = ended(Closing.HALF_CLOSE, mechanism=mechanism, drops_half_closed=True)
    assert outcome.status.tolist() == [Status.RESET]
    assert outcome.counts[[Count.REPLIES, Count.CLOSES]].tolist() == [0, 1]
    # It makes no difference to clients that send their FIN when they have their reply.
    outcome, _ = ended(Closing.FIN, mechanism=mechanism, drops_half_closed=True)
    assert outcome.status.tolist() == [Status.REPLIED]


def test_a_server_works_in_vain_for_a_client_that_has_left_by_a_fin() -> None:
    # The first request keeps the server busy for a millisecond; the second client gives up.
    def left(closing: Closing) -> Outcome:
        patience = {"timeout_ns": 500_000}
        trace = arrivals(10_000, 12_000)
        outcome, _ = ended(
            closing, 5 * MILLISECOND_NS, trace=trace, request_ns=MILLISECOND_NS, client=patience
        )
        assert outcome.status.tolist() == [Status.TIMEOUT] * 2
        return outcome

    by_reset, by_fin = left(Closing.RESET), left(Closing.FIN)
    # What came before the end is read, and worked for, in both cases; a reset has the write fail.
    for outcome, n_replies in ((by_reset, 0), (by_fin, 2)):
        assert outcome.ledger_ns[Activity.USER] == 2 * MILLISECOND_NS
        assert outcome.counts[[Count.REPLIES, Count.WRITES]].tolist() == [n_replies, 2]
        assert outcome.counts[Count.WRITE_FAILED] == 2 - n_replies
    # Each reply of no use is answered with a reset, and each FIN of the server acknowledged.
    assert by_fin.counts[Count.PACKETS] == by_reset.counts[Count.PACKETS] + 2 * 2


@pytest.mark.parametrize(("closing", "n_waiting"), [(Closing.RESET, 0), (Closing.FIN, 1)])
def test_who_asks_too_late_reads_the_end_and_closes_too(closing: Closing, n_waiting: int) -> None:
    # One reply, then a long thought: all that was sent is read, so the server's close is a FIN.
    trace = arrivals(10_000, requests=2, think_ns=200_000)
    outcome, _ = ended(
        closing, 150_000, trace=trace, request_timeout_ns=50_000, timeout_check_ns=20_000
    )
    assert outcome.status.tolist() == [Status.RESET]
    assert outcome.counts[[Count.LATE, Count.TIME_WAITS]].tolist() == [1, n_waiting]


@pytest.mark.parametrize("closing", [Closing.FIN, Closing.HALF_CLOSE])
def test_a_fin_behind_a_reply_that_takes_longer_is_not_the_end_of_it(closing: Closing) -> None:
    # Sixteen flights of a segment each; the server has closed long before the last is there.
    outcome, _ = ended(
        closing,
        2 * MILLISECOND_NS,
        trace=arrivals(10_000, reply_bytes=22_000),
        network={"window_segments": 1},
    )
    assert outcome.status.tolist() == [Status.REPLIED]


def test_a_reset_leaves_nobody_in_time_wait() -> None:
    # The second waits for a millisecond to be accepted, for too long: it is shed. Its client gives
    # up at about that time, so that FIN and reset cross.
    shed, crossed = 0, 0
    for patience_ns in range(1_000_000, 1_060_000, 2_000):
        outcome, _ = ended(
            Closing.FIN,
            5 * MILLISECOND_NS,
            trace=arrivals(10_000, 30_000),
            client={"timeout_ns": patience_ns},
            request_ns=MILLISECOND_NS,
            queue_interval_ns=500_000,
            queue_deadline_ns=400_000,
        )
        shed += int(outcome.counts[Count.SHED])
        crossed += int(outcome.counts[Count.SHED] and outcome.status[1] == Status.TIMEOUT)
        # The first is served, whether its client still waits or not: it has sent a FIN, too.
        assert outcome.counts[Count.TIME_WAITS] <= 1
    assert shed > crossed > 0


def test_who_gives_up_before_the_refusal_comes_has_timed_out() -> None:
    # A refusal comes back after 10 us; the first request keeps the server for a millisecond.
    def refused(patience_ns: int) -> int:
        outcome, _ = ended(
            Closing.RESET,
            5 * MILLISECOND_NS,
            trace=arrivals(*range(10_000, 200_000, 20_000)),
            request_ns=MILLISECOND_NS,
            client={"timeout_ns": patience_ns},
            backlog=1,
            refuse=True,
        )
        return int((outcome.status == Status.REFUSED).sum())

    assert refused(9_000) == 0
    assert refused(200_000) > 0


def test_a_port_is_free_after_a_round_trip_unless_its_client_closed_first() -> None:
    # The client closes at 34750 where the server was the first, at 34440 where it was not.
    for closes_first, free_ns in ((True, 34_750 + 10_000), (False, 34_440 + 50_000)):
        ports = {"ports": 1, "time_wait_ns": 50_000}
        for at_ns, status in ((free_ns, Status.PORTS), (free_ns + 1, Status.REPLIED)):
            outcome, _ = ended(
                Closing.FIN,
                200_000,
                trace=arrivals(10_000, at_ns),
                client=ports,
                closes_first=closes_first,
            )
            assert outcome.status.tolist() == [Status.REPLIED, status]


def test_time_wait_takes_memory() -> None:
    kernel = KernelSettings(memory_bytes=1_600, connection_bytes=1_000)
    trace = arrivals(*(10_000 + i * 100_000 for i in range(5)))
    outcome, _ = ended(Closing.FIN, MILLISECOND_NS, trace=trace, kernel=kernel)
    # With two of 256 bytes a connection of 1000 fits, with three it does not.
    assert outcome.status.tolist() == [Status.REPLIED] * 3 + [Status.OPEN] * 2
    assert outcome.counts[Count.NO_MEMORY] == 2
    waits, _ = ended(Closing.FIN, MILLISECOND_NS, trace=trace, kernel=kernel, closes_first=False)
    assert (waits.status == Status.REPLIED).all()


def test_a_user_comes_again_when_its_connection_is_over() -> None:
    trace = closed_loop(users=1, connections=100)
    first, _ = ended(Closing.FIN, MILLISECOND_NS, trace=trace)
    # The server's FIN is there 310 behind each reply, and the user's next SYN follows it.
    gaps_ns = first.started_ns[1:] - first.done_ns[: first.started_ns.size - 1]
    assert gaps_ns.size > 10
    assert (gaps_ns == 310).all()


def test_another_way_to_close_is_refused() -> None:
    with pytest.raises(ValueError, match=r"closing must be one of .*, got 3"):
        check(RunSettings(client=ClientSettings(closing=3)))
