"""Memory of a run: parts by hand, laws, and that both engines sample the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import simpy
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.scenario.metrics import METRICS
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.queue_lengths import SAMPLE_COLUMNS, SAMPLED_MEMORY
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.family_settings import Recovery, Threads
from dispatchsim.sim.state.kinds import IS_GONE, Stage
from dispatchsim.sim.state.memory_settings import MemorySettings
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS
from dispatchsim.sim.state.world import World

ROUND = MemorySettings(
    half_open_bytes=10,
    queued_bytes=100,
    socket_bytes=1_000,
    time_wait_bytes=7,
    request_bytes=50,
    reply_kib_bytes=2_048,
    epoll_bytes=3,
    poll_bytes=2,
    select_bytes=1,
    armed_bytes=4,
    signal_bytes=6,
    thread_bytes=10_000,
)
"""Prices that can be told apart in a sum."""


def sampled(mechanism: str, settings: RunSettings, trace: Any, user_ns: int = 150) -> Outcome:
    """Return the outcome of a run with prices that are round, of both engines."""
    costs = toy_costs(mechanism, application=ApplicationCosts(user_ns))
    settings = settings._replace(memory=ROUND)
    outcome = simulate(mechanism, trace, costs, settings, engine="reference")
    assert simulate(mechanism, trace, costs, settings, engine="fast").same_as(outcome)
    return outcome


def parts_at(outcome: Outcome, at_ns: int) -> list[int]:
    """Return the memory sampled at *at_ns*, by part."""
    (row,) = outcome.samples[outcome.samples[:, 0] == at_ns]
    return [int(row[SAMPLE_COLUMNS.index(name)]) for name in SAMPLED_MEMORY]


def test_connections_at_a_busy_server_take_sockets_buffers_and_an_item_each() -> None:
    # The server accepts the first, and is busy with its request for a millisecond. The second and
    # third come meanwhile: they wait in the accept queue, each with its request.
    trace = arrivals(10_000, 50_000, 60_000)
    settings = RunSettings(duration_ns=900_000, sample_every_ns=100_000)
    outcome = sampled("epoll_level", settings, trace, 1_000_000)
    # One accepted, two queued; two requests not read; the listener and one connection watched.
    assert parts_at(outcome, 100_000) == [1_000 + 2 * 100, 2 * 50, 2 * 3, 10_000, 0]
    # Before the first came there was the listener, and a thread.
    assert parts_at(outcome, 0) == [0, 0, 3, 10_000, 0]


@pytest.mark.parametrize(
    ("mechanism", "each"),
    [
        *(("select", 1), ("poll", 2), ("epoll_level", 3), ("epoll_edge", 3), ("epoll_once", 3)),
        *(("epoll_oneshot", 3), ("epoll_close", 3), ("epoll_ctlv", 3), ("rt_signals", 4)),
        *(("signal_per_fd", 4), ("signalfd", 4), ("dev_poll", 0), ("kqueue", 3)),
    ],
)
def test_an_idle_connection_takes_a_socket_and_what_its_mechanism_keeps(
    mechanism: str, each: int
) -> None:
    settings = RunSettings(
        client=ClientSettings(idle=30), duration_ns=SECOND_NS // 2, sample_every_ns=100_000_000
    )
    outcome = sampled(mechanism, settings, arrivals(SECOND_NS // 4))
    # Thirty connections and the listener are watched.
    assert parts_at(outcome, 100_000_000) == [30 * 1_000, 0, 31 * each, 10_000, 0]


def test_queued_signals_take_memory_until_they_are_taken() -> None:
    settings = RunSettings(
        **on_server(signal_queue=3, recovery=int(Recovery.NOTHING)),
        duration_ns=30_000,
        sample_every_ns=10_000,
    )
    # Twelve connections at 10 us fill the queue; the sample of that instant is taken after them.
    outcome = sampled("rt_signals", settings, arrivals(*[10_000] * 12))
    assert parts_at(outcome, 10_000)[:3] == [12 * 100, 12 * 50, 4 + 3 * 6]


def test_a_thread_for_each_connection_takes_its_stacks() -> None:
    settings = RunSettings(
        **on_server(threads=int(Threads.ON_DEMAND), workers=8),
        client=ClientSettings(idle=3),
        duration_ns=SECOND_NS // 2,
        sample_every_ns=100_000_000,
    )
    outcome = sampled("blocking", settings, arrivals(SECOND_NS // 4))
    assert parts_at(outcome, 100_000_000) == [3 * 1_000, 0, 0, (1 + 3) * 10_000, 0]


def test_a_reply_takes_its_send_buffer_until_it_is_acknowledged() -> None:
    # A window of one segment: most of 10 KiB waits in the buffer while round trips pass.
    settings = RunSettings(
        network=NetworkSettings(delay_ns=100_000, window_segments=1),
        duration_ns=5_000_000,
        sample_every_ns=100_000,
    )
    outcome = sampled("epoll_level", settings, arrivals(10_000, reply_bytes=10_240))
    buffers = outcome.samples[:, SAMPLE_COLUMNS.index("buffers")]
    assert buffers.max() == 10_240 * 2_048 // 1_024
    assert buffers[-1] == 0
    falls = np.diff(buffers[int(buffers.argmax()) :])
    assert (falls <= 0).all()


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("mechanism", ["epoll_level", "rt_signals", "blocking", "io_uring"])
def test_what_is_in_buffers_is_what_connections_have_there(mechanism: str, window: int) -> None:
    """Clients that give up, and replies that do not fit, leave nothing behind."""
    settings = RunSettings(
        **on_server(send_buffer_bytes=4_096, workers=2 if mechanism == "blocking" else 1),
        network=NetworkSettings(delay_ns=20_000, window_segments=window),
        client=ClientSettings(timeout_ns=300_000),
        duration_ns=900_000,
        sample_every_ns=50_000,
    )
    trace = arrivals(*range(10_000, 400_000, 20_000), reply_bytes=20_000, requests=2, think_ns=100)
    costs = toy_costs(mechanism, application=ApplicationCosts(30_000))
    seen = []

    def adds_up(env: simpy.Environment, world: World) -> Any:
        while True:
            yield env.timeout(10_000)
            rows = range(world.end_row)
            unread = [c for c in rows if world.pending[c] and world.stage[c] != Stage.CLOSED]
            of_clients = [c for c in rows if world.ended[c] != IS_GONE]
            assert world.n_unread == len(unread)
            assert world.n_unacked == sum(world.unacked[c] for c in of_clients)
            seen.append(world.n_unread + world.n_unacked)

    def extend(env: simpy.Environment, world: World) -> None:
        env.process(adds_up(env, world))

    simulate(mechanism, trace, costs, settings, engine="reference", extend=extend)
    assert len(seen) > 50
    assert max(seen) > 0


def test_peak_and_mean_are_of_the_samples_of_the_window_and_the_parts_add_up() -> None:
    trace = arrivals(10_000, 50_000, 60_000)
    settings = RunSettings(duration_ns=250_000, warm_up_ns=100_000, sample_every_ns=100_000)
    found = summarise(sampled("epoll_level", settings, trace, 1_000_000))
    # Samples at 100 and 200 us: one accepted, two queued with a request each, two items, a thread.
    n = 1_200 + 100 + 6 + 10_000
    assert (found.memory_bytes.peak, found.memory_bytes.mean) == (n, n)
    assert sum(found.memory_bytes.at_peak.values()) == n
    assert METRICS["memory_peak_bytes"].of(found) == n
    assert METRICS["memory_peak_bytes"].text(n) == "11.0 KiB"
    none = summarise(
        sampled("epoll_level", RunSettings(duration_ns=250_000, sample_every_ns=0), trace)
    )
    assert math.isnan(none.memory_bytes.peak)
