"""A run through a small window of rows gives the figures of the run that holds them all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenes import Scene, scenes
from tests.served import on_server
from tests.toy import MECHANISMS, TraceSlices, toy_costs

from dispatchsim.models.simulate import simulate, simulate_stream
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.load.workload import (
    ClosedLoopBlocks,
    Load,
    OpenLoopBlocks,
    closed_loop,
    open_loop,
)
from dispatchsim.sim.state.backend_settings import BackendSettings
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.settings import FloodSettings, RunSettings


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "blocking"])
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data(), window_rows=st.sampled_from([4, 7, 32]))
def test_a_window_changes_nothing(mechanism: str, data: st.DataObject, window_rows: int) -> None:
    check_window(data.draw(scenes(mechanism)), window_rows)


@pytest.mark.parametrize("mechanism", ["epoll_level", "poll", "blocking"])
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data(), window_rows=st.sampled_from([4, 7, 32]))
def test_nor_does_it_with_a_backend(mechanism: str, data: st.DataObject, window_rows: int) -> None:
    scene = data.draw(scenes(mechanism, asks=True))
    backend = scene.run.backend
    if backend.connections == 0:
        backend = BackendSettings(connections=4, delay_ns=5_000, limit=2)
    check_window(scene._replace(run=scene.run._replace(backend=backend)), window_rows)


def check_window(scene: Scene, window_rows: int) -> None:
    """Check that a streamed run of *scene* has the figures of one that holds all of its rows."""
    mechanism = scene.mechanism
    # Without a limit on the clients' descriptors: it decides whether they count as free.
    run = scene.run._replace(client=scene.run.client._replace(fd_limit=2**40))
    # A window begins before the run ends, or there is none to count in.
    run = run._replace(warm_up_ns=min(run.warm_up_ns, run.duration_ns - 1))
    whole = summarise(simulate(mechanism, scene.trace, scene.costs, run))
    streamed = simulate_stream(
        mechanism, TraceSlices(scene.trace), scene.costs, run, exact=True, window_rows=window_rows
    )
    np.testing.assert_equal(streamed.to_dict(), whole.to_dict())


def test_a_request_that_is_on_its_way_when_its_client_tries_again_is_not_forgotten() -> None:
    # A flood has the server's packets wait; a client gives up, and its request comes after that.
    run = RunSettings(
        **on_server(max_events=1, backlog=1, fd_limit=8, send_buffer_bytes=1_000, tick_ns=400),
        network=NetworkSettings(up_bits_per_s=10_000_000, down_bits_per_s=10_000_000),
        client=ClientSettings(timeout_ns=400_000, fd_limit=2**40, retries=1),
        flood=FloodSettings(gap_ns=100, is_poisson=False, until_ns=40_000),
        duration_ns=1_000_000,
        sample_every_ns=0,
    )
    trace, costs = closed_loop(users=3, connections=6), toy_costs("dev_poll")
    whole = summarise(simulate("dev_poll", trace, costs, run))
    streamed = simulate_stream(
        "dev_poll", TraceSlices(trace), costs, run, exact=True, window_rows=4
    )
    assert whole.calls["retries"] > 0
    np.testing.assert_equal(streamed.to_dict(), whole.to_dict())


def test_histograms_are_close_to_exact() -> None:
    draw: dict[str, Any] = {"rate_per_s": 200_000.0, "seconds": 0.2, "seed": 3}
    # Clients with a limit on their descriptors do not count as free in a streamed run. Then their
    # requests come behind the last packet of the handshake, and samples may fall in between.
    free = ClientSettings(fd_limit=2**40)
    run = RunSettings(duration_ns=220_000_000, warm_up_ns=20_000_000, client=free)
    costs = toy_costs("epoll_level")
    whole = summarise(simulate("epoll_level", open_loop(**draw), costs, run))
    blocks = OpenLoopBlocks(Load("open", rate_per_s=200_000.0), seconds=0.2, seed=3)
    streamed = simulate_stream("epoll_level", blocks, costs, run, window_rows=1000)
    assert streamed.latency_ns.p99 == pytest.approx(whole.latency_ns.p99, rel=0.001)
    assert streamed.latency_ns.mean == whole.latency_ns.mean
    alike = replace(
        streamed,
        latency_ns=whole.latency_ns,
        connections=replace(
            streamed.connections,
            lifetime_ns=whole.connections.lifetime_ns,
            connect_ns=whole.connections.connect_ns,
        ),
        latency_due_ns=whole.latency_due_ns,
    )
    assert alike == whole


def test_an_endless_closed_loop_lasts_as_long_as_the_run() -> None:
    blocks = ClosedLoopBlocks(Load("closed", users=8, think_ns=10_000), seed=1)
    run = RunSettings(duration_ns=50_000_000)
    summary = simulate_stream("poll", blocks, toy_costs("poll"), run, window_rows=64)
    assert summary.replied > 1000
