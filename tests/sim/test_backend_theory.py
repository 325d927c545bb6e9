"""A backend is the queue of the textbooks: Poisson requests, exponential delays, c at once.

    at the backend   connections plenty, limit = c      requests wait at it
    at the server    connections = c, no limit          requests wait for a connection

Both are an M/M/c: without kernel costs nothing else takes time. Source: Kleinrock 1975, volume 1,
sections 3.5 and 5.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from tests.sim.test_queueing_theory import FIFO, assert_holds
from tests.sim.test_request_theory import free_costs
from tests.sim.test_worker_theory import erlang_c

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.load.workload import Load
from dispatchsim.sim.state.backend_settings import BackendSettings
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.laws import Law, Laws
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS

DELAY_NS = 100_000
PLENTY = 3_000


def run(backend: BackendSettings, per_s: float, seed: int, seconds: float = 3) -> Outcome:
    """Return a run of Poisson requests over kept connections to a server that takes no time."""
    load = Load("kept", users=20_000, rate_per_s=per_s, requests=2**30)
    settings = RunSettings(
        **FIFO,
        backend=backend,
        laws=Laws(backend_delay=Law("exponential", DELAY_NS)),
        duration_ns=round((seconds + 0.2) * SECOND_NS),
        warm_up_ns=SECOND_NS // 5,
        sample_every_ns=0,
        seed=seed,
    )
    trace = load.trace(seed, seconds, 0)
    return simulate("epoll_level", trace, free_costs(), settings, engine="fast")


def p90_ns(c: int, rho: float) -> float:
    """Return the 90th percentile of the response time of an M/M/c."""
    waits, spare = erlang_c(c, rho), c - 1 - c * rho

    def longer(t: float) -> float:
        """Return the share that takes longer than *t* mean delays."""
        return math.exp(-t) * (1 + waits * (1 - math.exp(-t * spare)) / spare)

    return DELAY_NS * float(brentq(lambda t: longer(t) - 0.1, 0.1, 50))


@pytest.mark.parametrize(
    "backend",
    [BackendSettings(PLENTY, limit=3), BackendSettings(3)],
    ids=["at the backend", "for a connection"],
)
def test_response_times_are_those_of_m_m_c(backend: BackendSettings) -> None:
    c, rho = 3, 0.7
    means, tails = [], []
    for seed in range(10):
        outcome = run(backend, c * rho * SECOND_NS / DELAY_NS, seed)
        assert (outcome.ended_as == Status.REPLIED).all()
        times_ns = (outcome.reply_ns - outcome.due_ns)[outcome.due_ns > SECOND_NS // 5]
        means.append(float(times_ns.mean()))
        tails.append(float(np.quantile(times_ns, 0.9)))
    waits_ns = erlang_c(c, rho) * DELAY_NS / (c * (1 - rho))
    assert_holds(means, DELAY_NS + waits_ns)
    assert_holds(tails, p90_ns(c, rho))


def test_a_share_of_the_requests_waits_and_the_rest_does_not() -> None:
    backend = BackendSettings(PLENTY, share_permille=250)
    outcome = run(backend, 20_000, 1)
    sent, n = outcome.counts[Count.BACKEND_QUERIES], outcome.due_ns.size
    assert sent == pytest.approx(0.25 * n, abs=4 * math.sqrt(0.25 * 0.75 * n))
    # But for those that find the connection of their client busy, one of some 100,000.
    at_once = (outcome.reply_ns == outcome.due_ns).sum()
    assert n - sent - 10 <= at_once <= n - sent


def test_requests_at_the_backend_are_rate_times_delay() -> None:
    summary = summarise(run(BackendSettings(PLENTY), 20_000, 2))
    at_work = summary.calls["backend_work_ns"] / summary.window_ns
    # Little's law: 20,000/s of 100 us each, which come in 2.8 of the 3 seconds of the window.
    rate = summary.throughput_per_s
    assert at_work == pytest.approx(rate * summary.latency_ns.mean / SECOND_NS, rel=0.001)
    assert at_work == pytest.approx(2.0 * 2.8 / 3, rel=0.03)
    assert summary.calls["backend_queue_ns"] == summary.calls["backend_line_ns"] == 0
