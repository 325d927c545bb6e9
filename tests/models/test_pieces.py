"""Requests that come piece by piece: what they cost a server, and whom they hold up."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scenes import BUSY_CLIENT, Scene, comes_at, on_fast, on_reference
from tests.served import Served, on_server
from tests.steps import timelines
from tests.toy import toy_costs

from dispatchsim.models.simulate import program_of
from dispatchsim.sim.assembly.build import build_world
from dispatchsim.sim.clients.slow_clients import pieces_of
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings


def agreed(
    mechanism: str, trace: Trace, client: ClientSettings, server: Served | None = None
) -> Outcome:
    """Return the outcome that both engines agree on."""
    run = RunSettings(
        **server or on_server(),
        client=client,
        network=NetworkSettings(delay_ns=1_000),
        duration_ns=3_000_000,
        sample_every_ns=0,
    )
    scene = Scene(mechanism, trace, run, BUSY_CLIENT)
    outcome, _ = on_reference(scene)
    assert on_fast(scene).same_as(outcome)
    return outcome


def test_each_piece_is_an_event_and_a_read_and_the_last_is_answered() -> None:
    steps, outcome = timelines(
        comes_at(0),
        on_server(),
        duration_ns=60_000,
        client=ClientSettings(request_pieces=3, piece_pause_ns=10_000),
        run=RunSettings(network=NetworkSettings(delay_ns=5_000)),
    )
    # The first piece arrives with the last packet of the handshake, the others 10 us apart.
    assert steps[0][2:] == [
        (17_530, 18_030, "WAKE"),
        (18_030, 18_060, "WAIT"),
        (18_060, 18_360, "ACCEPT"),
        (18_360, 18_470, "WATCH"),
        (18_470, 18_570, "ACCEPT"),
        (18_570, 18_640, "WAIT"),
        (18_640, 18_690, "WAIT"),  # the listener is looked at in vain
        (18_690, 18_890, "READ"),
        (18_890, 18_960, "WAIT"),
        (18_960, 18_980, "WAIT"),
        (18_980, 19_020, "SLEEP"),
        (27_480, 27_980, "WAKE"),
        (27_980, 28_010, "WAIT"),
        (28_010, 28_210, "READ"),
        (28_210, 28_280, "WAIT"),
        (28_280, 28_300, "WAIT"),
        (28_300, 28_340, "SLEEP"),
        (37_480, 37_980, "WAKE"),
        (37_980, 38_010, "WAIT"),
        (38_010, 38_210, "READ"),
        (38_210, 38_360, "USER"),
        (38_360, 38_760, "WRITE"),
        (38_760, 38_820, "UNWATCH"),
        (38_820, 39_070, "CLOSE"),
        (39_070, 39_140, "WAIT"),
        (39_140, 39_180, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [43_760]


LOOPS = ["epoll_level", "rt_signals", "blocking"]


@pytest.mark.parametrize("mechanism", LOOPS)
def test_a_request_in_pieces_is_answered_once(mechanism: str) -> None:
    client = ClientSettings(request_pieces=4, piece_pause_ns=20_000)
    trace = comes_at(0, 10_000, 500_000, requests=2)
    outcome = agreed(mechanism, trace, client, on_server(workers=1))
    assert (outcome.status == Status.REPLIED).all()
    assert outcome.counts[Count.REPLIES] == 6
    # A thread that comes late finds several pieces at once.
    n_reads = outcome.counts[Count.READS]
    assert n_reads < 24 if mechanism == "blocking" else n_reads == 24
    # Each request takes three pauses, and the connections of one thread follow one another.
    latest_ns = int((outcome.done_ns - outcome.intended_ns).max())
    assert latest_ns > 120_000
    assert (latest_ns > 150_000) == (mechanism == "blocking")


def test_some_of_the_clients_send_their_requests_whole() -> None:
    run = RunSettings(client=ClientSettings(request_pieces=9, pieces_permille=300))
    trace = closed_loop(users=1, connections=4_000)
    world = build_world(program_of("poll"), trace, toy_costs("poll"), run)
    in_pieces = sum(pieces_of(world, c) == 9 for c in range(4_000))
    assert 1_050 < in_pieces < 1_350  # five standard deviations about 1200


def median_ns(outcome: Outcome) -> float:
    """Return the median time until a whole reply; who has none waited to the end."""
    ends_ns = np.where(outcome.done_ns < 0, outcome.duration_ns, outcome.done_ns)
    return float(np.median(ends_ns - outcome.intended_ns))


def test_slow_requests_hold_a_pool_of_threads_up_and_hardly_an_event_loop() -> None:
    trace = comes_at(*range(0, 2_000_000, 20_000))
    client = ClientSettings(request_pieces=5, piece_pause_ns=300_000, pieces_permille=200)
    loop_ns = median_ns(agreed("epoll_level", trace, client))
    pool = on_server(workers=2)
    pool_ns = median_ns(agreed("blocking", trace, client, pool))
    impatient = agreed("blocking", trace, client, pool.but(request_timeout_ns=30_000))
    assert loop_ns < 10_000
    assert pool_ns > 50 * loop_ns
    assert median_ns(impatient) < pool_ns / 5
    assert impatient.counts[Count.LATE] > 10


def test_a_request_that_comes_along_with_its_syn_is_whole() -> None:
    run = RunSettings(client=ClientSettings(request_pieces=2), network=NetworkSettings(set_up=0))
    with pytest.raises(ValueError, match="request_pieces must be 1 where set_up is 0"):
        on_reference(Scene("poll", comes_at(0), run))
