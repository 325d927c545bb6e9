"""One source, two clocks: SimPy and compiled code agree in every entry of the outcome."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.toy import MECHANISMS, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.costs import NO_CLIENT, ClientCosts
from dispatchsim.sim.kinds import Activity, Count, Status
from dispatchsim.sim.outcome import Outcome
from dispatchsim.sim.settings import (
    ClientSettings,
    NetworkSettings,
    RunSettings,
    ServerSettings,
)
from dispatchsim.sim.workload import Trace, closed_loop, open_loop


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    requests = draw(st.integers(1, 3))
    reply_bytes = draw(st.sampled_from([64, 1_500, 20_000]))
    think_ns = draw(st.sampled_from([0, 500, 30_000]))
    if draw(st.booleans()):
        return closed_loop(
            users=draw(st.integers(1, 20)),
            connections=draw(st.integers(1, 120)),
            seed=draw(st.integers(0, 5)),
            requests=requests,
            reply_bytes=reply_bytes,
            think_ns=think_ns,
        )
    # Few distinct times make many ties.
    grid_ns = draw(st.sampled_from([1, 100, 5_000]))
    at = draw(st.lists(st.integers(0, 60), min_size=1, max_size=80))
    n = len(at)
    columns = (np.full(n, v, np.int64) for v in (requests, 64, reply_bytes, think_ns))
    return Trace("open", 0, np.sort(np.array(at, np.int64)) * grid_ns, *columns)


@st.composite
def run_settings(draw: st.DrawFn) -> RunSettings:
    idle = draw(st.sampled_from([0, 1, 40]))
    idle_life_ns = draw(st.sampled_from([0, 50_000]))
    # Long enough for retransmissions, unless it would be filled by idle ones that come and go.
    long_ns = 2_000_000 if idle_life_ns else 5_000_000_000
    bits = draw(st.sampled_from([0, 10_000_000, 1_000_000_000]))
    return RunSettings(
        server=ServerSettings(
            accept_limit=draw(st.integers(0, 3)),
            listener_last=draw(st.booleans()),
            read_after_accept=draw(st.booleans()),
            backlog=draw(st.sampled_from([1, 3, 128])),
            refuse=draw(st.booleans()),
            max_events=draw(st.sampled_from([1, 4, 1024])),
            fd_limit=draw(st.sampled_from([idle + 9, idle + 20, 10_000])),
            send_buffer_bytes=draw(st.sampled_from([1_000, 4_096, 10**6])),
        ),
        network=NetworkSettings(draw(st.sampled_from([0, 50, 20_000])), bits, bits),
        client=ClientSettings(
            timeout_ns=draw(st.sampled_from([0, 20_000, 400_000])),
            fd_limit=draw(st.sampled_from([3, 10_000])),
            idle=idle,
            idle_life_ns=idle_life_ns,
        ),
        duration_ns=draw(st.sampled_from([50_000, 1_000_000, long_ns])),
        warm_up_ns=draw(st.sampled_from([0, 12_345])),
        sample_every_ns=draw(st.sampled_from([0, 100_000_000])),
    )


def conserved(outcome: Outcome) -> None:
    """Check the laws that hold for every run: time, requests, descriptors."""
    assert outcome.ledger_ns.sum() == outcome.duration_ns
    assert outcome.ledger_mark_ns.sum() == outcome.mark_ns
    assert (outcome.ledger_ns >= 0).all()
    counts = outcome.counts
    assert counts[Count.REPLIES] <= counts[Count.READS]
    assert counts[Count.WATCHES] >= counts[Count.UNWATCHES] - 40  # the idle were watched before
    replied = outcome.status == int(Status.REPLIED)
    assert (outcome.done_ns[replied] >= outcome.intended_ns[replied]).all()
    open_or_lost = outcome.done_ns[outcome.status == int(Status.OPEN)]
    assert (open_or_lost == -1).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(trace=traces(), run=run_settings(), busy_client=st.booleans())
def test_engines_agree_to_the_nanosecond(
    mechanism: str, trace: Trace, run: RunSettings, busy_client: bool
) -> None:
    client = ClientCosts(700, 300, 200, 250) if busy_client else NO_CLIENT
    costs = toy_costs(mechanism, client)
    reference = simulate(mechanism, trace, costs, run, engine="reference")
    conserved(reference)
    assert reference.same_as(simulate(mechanism, trace, costs, run, engine="fast"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_engines_agree_on_a_busy_second(mechanism: str) -> None:
    trace = open_loop(rate_per_s=250_000, seconds=0.02, seed=5)
    run = RunSettings(client=ClientSettings(idle=500), duration_ns=25_000_000, warm_up_ns=5_000_000)
    costs = toy_costs(mechanism)
    reference = simulate(mechanism, trace, costs, run, engine="reference")
    conserved(reference)
    assert reference.counts[Count.EVENTS] > 1_000
    assert reference.ledger_ns[Activity.INTERRUPT] > 0
    assert reference.same_as(simulate(mechanism, trace, costs, run, engine="fast"))
