"""Classes of clients by their way to the link, and set-ups of 0, 1 and 2 round trips."""

from __future__ import annotations

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import prepare_world, program_of, simulate, simulate_stream
from dispatchsim.sim.assembly.checks import check
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.load.workload import Load, OpenLoopBlocks, open_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings, PathSettings
from dispatchsim.sim.state.kinds import Count, Status, occurrence
from dispatchsim.sim.state.settings import Fault, FaultKind, RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.wire.retransmission import data_retry_ns, sent_again

ONE = arrivals(10_000)


def done_ns(network: NetworkSettings) -> int:
    """Return when the only connection has its reply; both engines agree."""
    run = RunSettings(network=network, duration_ns=100_000, sample_every_ns=0)
    _, outcome = timeline("epoll_level", ONE, run)
    fast = simulate("epoll_level", ONE, toy_costs("epoll_level"), run, engine="fast")
    assert fast.same_as(outcome)
    return int(outcome.done_ns[0])


def test_a_path_adds_its_delay_and_its_wire() -> None:
    # SYN at 15000, handled at 16300; SYN-ACK at 21300; ACK and request at 26300, out of idleness at
    # 27300, handled at 27530. From there it takes 1910 to the reply, which travels 5000.
    assert done_ns(NetworkSettings(paths=(PathSettings(1_000, 5_000),))) == 27_530 + 1_910 + 5_000
    # At 1 Gbit/s up a byte takes 8 ns: the SYN, of 90 bytes with its frame, 720. It is handled at
    # 12020. The ACK is there at 12740, and handled from 13740 to 13890; the request, of 154 bytes
    # and sent at 12020, is there at 13252 and handled at 13970.
    slow = PathSettings(1_000, 0, 1_000_000_000, 0)
    assert done_ns(NetworkSettings(paths=(slow,))) == 13_970 + 1_910


def test_a_set_up_of_two_round_trips_takes_one_more_and_one_of_none_saves_one() -> None:
    at_ns = {n: done_ns(NetworkSettings(delay_ns=8_000, set_up=n)) for n in (0, 1, 2)}
    # 0: the request comes with the SYN, at 18000, is handled with it at 19430, and 1910 later there
    # is a reply, which travels 8000.
    assert at_ns[0] == 19_430 + 1_910 + 8_000
    # 1: SYN-ACK at 27300, ACK and request at 35300: 36300 + 230.
    assert at_ns[1] == 36_530 + 1_910 + 8_000
    # 2: the request is there at 51300; the worker, which has accepted, sleeps: 52300 + 180, wakes
    # (500), is told (30), reads, thinks and writes (750).
    assert at_ns[2] == 52_480 + 500 + 30 + 750 + 8_000


def lossy(loss_millionths: int, reply_bytes: int, seed: int) -> Outcome:
    """Return what becomes of 4000 connections over a path that loses segments."""
    trace = open_loop(rate_per_s=2_000, seconds=2, seed=seed, reply_bytes=reply_bytes)
    path = PathSettings(1_000, 10 * MILLISECOND_NS, loss_millionths=loss_millionths)
    run = RunSettings(
        network=NetworkSettings(paths=(path,)), duration_ns=20 * SECOND_NS, sample_every_ns=0
    )
    return simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")


@pytest.mark.parametrize("seed", range(3))
def test_losses_delay_handshakes_by_a_second_and_data_by_200_ms_or_a_round_trip(seed: int) -> None:
    outcome = lossy(20_000, 128, seed)
    took_ns = outcome.done_ns - outcome.intended_ns
    assert (outcome.status == 0).all()
    n = took_ns.size
    # SYN and SYN-ACK: a second; request and reply: 220 ms. One of each pair is lost in 3.96 %.
    by_second = (took_ns > SECOND_NS).sum() / n
    by_timer = ((took_ns > 200 * MILLISECOND_NS) & (took_ns < SECOND_NS)).sum() / n
    noise = 4 * np.sqrt(0.04 / n)
    assert by_second == pytest.approx(0.0396, abs=noise)
    assert by_timer == pytest.approx(0.0396 * (1 - 0.0396), abs=noise)


@pytest.mark.parametrize(
    ("lost", "later_ms"), [((), 0), ((4,), 220), ((4, 5), 440), ((4, 5, 6), 880)]
)
def test_a_probe_and_time_outs_that_double_have_the_round_trip_in_them(
    monkeypatch: pytest.MonkeyPatch, lost: tuple[int, ...], later_ms: int
) -> None:
    # Draws: 1 for the SYN, 2 for its answer, 3 for the last packet of the handshake, 4 for the
    # request and, if that is lost, 5 and 6 for its repetitions.
    draws = np.full(64, 999_999, np.int64)
    draws[[*lost]] = 0
    monkeypatch.setattr("dispatchsim.sim.assembly.build.loss_draws", lambda *_: draws)
    path = PathSettings(1_000, 10 * MILLISECOND_NS, loss_millionths=1)
    run = RunSettings(
        network=NetworkSettings(paths=(path,)), duration_ns=SECOND_NS, sample_every_ns=0
    )
    _, outcome = timeline("epoll_level", ONE, run)
    fast = simulate("epoll_level", ONE, toy_costs("epoll_level"), run, engine="fast")
    assert fast.same_as(outcome)
    at_once_ns = 10_000 + 40 * MILLISECOND_NS  # and what the server takes: some microseconds
    assert 0 < outcome.done_ns[0] - at_once_ns - later_ms * MILLISECOND_NS < 10_000


@pytest.mark.parametrize(("n_lost", "later_s"), [(5, 5), (6, 7), (7, 11), (10, 67)])
def test_a_syn_is_repeated_on_its_path_as_often_as_at_a_full_queue(
    monkeypatch: pytest.MonkeyPatch, n_lost: int, later_s: int
) -> None:
    # Since Linux 6.5 four time-outs of a second come before those that double: 10 repetitions,
    # after 1, 2, 3, 4, 5, 7, 11, 19, 35 and 67 s. The first draws are those of the SYN.
    draws = np.full(64, 999_999, np.int64)
    draws[1 : n_lost + 1] = 0
    monkeypatch.setattr("dispatchsim.sim.assembly.build.loss_draws", lambda *_: draws)
    path = PathSettings(1_000, 10 * MILLISECOND_NS, loss_millionths=1)
    run = RunSettings(
        network=NetworkSettings(paths=(path,)),
        client=ClientSettings(linear_syn_timeouts=4),
        duration_ns=100 * SECOND_NS,
        sample_every_ns=0,
    )
    _, outcome = timeline("epoll_level", ONE, run)
    assert outcome.counts[Count.SEGMENTS_LOST] == n_lost
    at_once_ns = 10_000 + 40 * MILLISECOND_NS  # and what the server takes: some microseconds
    assert 0 < outcome.done_ns[0] - at_once_ns - later_s * SECOND_NS < 10_000


def test_a_reset_that_is_lost_is_never_sent_again() -> None:
    # All clients give up before the second piece of their request; half of the segments are lost.
    path = PathSettings(1_000, MILLISECOND_NS, loss_millionths=500_000)
    run = RunSettings(
        network=NetworkSettings(paths=(path,)),
        client=ClientSettings(
            timeout_ns=300 * SECOND_NS, request_pieces=2, piece_pause_ns=400 * SECOND_NS
        ),
        duration_ns=700 * SECOND_NS,
        sample_every_ns=0,
    )
    trace = arrivals(*range(10_000, 20_000, 100))
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="reference")
    n_left = outcome.counts[Count.CONNECTIONS_OPEN]
    assert (outcome.status == Status.TIMEOUT).sum() == 100
    assert n_left == pytest.approx(50, abs=4 * np.sqrt(100 / 4))
    fast = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")
    assert fast.same_as(outcome)


def test_data_that_comes_after_a_lost_reset_is_answered_by_another() -> None:
    # Clients wait longer to be accepted than the server permits, as its CPU is stalled: it closes
    # connections with a piece of a request unread, and half of its resets are lost. The second
    # piece, a minute later, is answered by a reset; it comes again if that is lost, too.
    path = PathSettings(1_000, MILLISECOND_NS, loss_millionths=500_000)
    run = RunSettings(
        **on_server(queue_deadline_ns=50_000, queue_interval_ns=100),
        network=NetworkSettings(paths=(path,)),
        client=ClientSettings(request_pieces=2, piece_pause_ns=60 * SECOND_NS),
        faults=(Fault(int(FaultKind.STALL), 0, 4 * SECOND_NS),),
        duration_ns=700 * SECOND_NS,
        sample_every_ns=0,
    )
    trace = arrivals(*range(10_000, 20_000, 100))
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="reference")
    assert (outcome.status == Status.RESET).sum() == outcome.counts[Count.SHED] > 50
    assert (outcome.status == Status.OPEN).sum() == 0
    fast = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")
    assert fast.same_as(outcome)


def test_time_outs_of_data_double_up_to_two_minutes_and_end_after_fifteen() -> None:
    run = RunSettings(network=NetworkSettings(delay_ns=0), duration_ns=SECOND_NS)
    program = program_of("epoll_level")
    world = prepare_world(program, ONE, toy_costs("epoll_level"), run)
    ReferenceRun(program, world, duration_ns=run.duration_ns)
    waits_ms = [data_retry_ns(world, 0, tries) // MILLISECOND_NS for tries in range(16)]
    assert waits_ms[:4] == [200, 200, 400, 800]
    assert waits_ms[9:] == [51_200, 102_400, *[120_000] * 5]
    for _ in range(20):
        sent_again(world, occurrence.FIN, 0)
    assert sum(entry[2] == occurrence.FIN for entry in world.calendar.entries) == 15


def test_a_loss_in_the_middle_of_a_reply_takes_a_round_trip() -> None:
    took_ns = np.sort(lossy(1_000, 100_000, 1).done_ns - lossy(1_000, 100_000, 1).intended_ns)
    least_ns = int(took_ns[0])
    # 70 segments, 67 of them with three behind: 6.5 % wait for 20 ms, 0.7 % for a timer or more.
    by_round_trip = (np.abs(took_ns - least_ns - 20 * MILLISECOND_NS) < MILLISECOND_NS).mean()
    assert by_round_trip == pytest.approx(67 * 0.001 * np.exp(-0.07), abs=0.02)


def test_shares_are_those_of_the_connections() -> None:
    trace = open_loop(rate_per_s=10_000, seconds=1, seed=1)
    paths = (PathSettings(700), PathSettings(300, 50 * MILLISECOND_NS))
    run = RunSettings(network=NetworkSettings(paths=paths), duration_ns=3 * SECOND_NS)
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")
    far = (outcome.done_ns - outcome.intended_ns > 150 * MILLISECOND_NS).mean()
    assert far == pytest.approx(0.3, abs=0.03)


def test_figures_are_those_of_each_path_and_add_up() -> None:
    blocks = OpenLoopBlocks(Load("open", rate_per_s=10_000), seconds=1, seed=1)
    far = PathSettings(300, 50 * MILLISECOND_NS, loss_millionths=1_000)
    run = RunSettings(
        network=NetworkSettings(paths=(PathSettings(700), far)),
        client=ClientSettings(timeout_ns=SECOND_NS // 2, retries=1),
        duration_ns=3 * SECOND_NS,
    )
    trace = blocks.take(20_000)
    assert trace is not None
    costs = toy_costs("epoll_level")
    summary = summarise(simulate("epoll_level", trace, costs, run, engine="fast"))
    near, modem = summary.paths
    assert near.offered + modem.offered == summary.offered
    assert near.replied + modem.replied == summary.replied
    assert modem.offered == pytest.approx(0.3 * summary.offered, rel=0.1)
    # A packet is lost on the way of the far ones alone, who also wait for two round trips.
    assert near.latency_ns.max < MILLISECOND_NS
    assert modem.latency_ns.p50 > 200 * MILLISECOND_NS
    again = OpenLoopBlocks(Load("open", rate_per_s=10_000), seconds=1, seed=1)
    streamed = simulate_stream("epoll_level", again, costs, run, exact=True, window_rows=500)
    assert streamed.paths == summary.paths


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (NetworkSettings(set_up=3), "set_up must be at most 2, got 3"),
        (NetworkSettings(paths=(PathSettings(999),)), "must add up to 1000, got 999"),
        (
            NetworkSettings(paths=(PathSettings(1_000, -1),)),
            "a path's delay_ns must be at least 0, got -1",
        ),
        (
            NetworkSettings(paths=(PathSettings(1_000, loss_millionths=1_000_000),)),
            "loss_millionths must be at most 999999, got 1000000",
        ),
    ],
)
def test_what_is_no_path_is_refused(network: NetworkSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(RunSettings(network=network))
