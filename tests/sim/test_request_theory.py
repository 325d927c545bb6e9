"""Requests over kept connections, and closed loops, hold the laws of queues.

    N users, pauses of mean Z      X (R + Z) = N                        Denning and Buzen 1978
    Poisson requests, one CPU      Pollaczek and Khinchine, by request  Kleinrock 1975, volume 1
    several CPUs                   Erlang's C
    any run                        U = X S, L = X R                     Little 1961

Without kernel costs the application's CPU time is all of a request's service.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.served import Served
from tests.sim.test_queueing_theory import FIFO, assert_holds
from tests.sim.test_theory import free_kernel
from tests.sim.test_worker_theory import erlang_c

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.kernel.sockets import request_ns
from dispatchsim.sim.load.laws import N_DRAWS, draws_ns, quantiles_ns
from dispatchsim.sim.load.workload import Load, Trace
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Status
from dispatchsim.sim.state.laws import P99_BY_MEAN_MAX, Law, Laws
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS

SERVICE_NS = 40_000
LAWS = {
    "constant": Law("constant", SERVICE_NS),
    "exponential": Law("exponential", SERVICE_NS),
    "lognormal": Law("lognormal", SERVICE_NS, 4 * SERVICE_NS),
    "lognormal to 8": Law("lognormal", SERVICE_NS, 8 * SERVICE_NS),
    "samples": Law("samples", samples_ns=(20_000,) * 9 + (220_000,)),
}


def free_costs() -> Any:
    return free_kernel("epoll_level")._replace(application=ApplicationCosts(0))


def kept(rho: float, seed: int, *, users: int = 20_000, seconds: float = 4) -> Trace:
    """Return Poisson requests that bring *rho* CPUs' worth of work to so many connections."""
    load = Load("kept", users=users, rate_per_s=rho * SECOND_NS / SERVICE_NS, requests=2**30)
    return load.trace(seed, seconds, 0)


def responses_ns(law: Law, rho: float, seed: int, server: Served = FIFO) -> Any:
    """Return the response times of all requests that were due after a second of warm-up."""
    settings = RunSettings(
        **server, duration_ns=5 * SECOND_NS, sample_every_ns=0, seed=seed, laws=Laws(law)
    )
    outcome = simulate("epoll_level", kept(rho, seed), free_costs(), settings, engine="fast")
    assert (outcome.ended_as == Status.REPLIED).all()
    late = outcome.due_ns > SECOND_NS
    return (outcome.reply_ns - outcome.due_ns)[late]


def mean_square(law: Law) -> float:
    """Return the mean of the squares of a law's times."""
    if law.kind == "samples":
        return float(np.mean(np.square(law.samples_ns, dtype=float)))
    if law.kind == "lognormal":  # p99 / mean = exp(z s - s^2 / 2), E[X^2] = mean^2 exp(s^2)
        z = stats.norm.ppf(0.99)
        sigma = z - math.sqrt(z * z - 2 * math.log(law.p99_ns / law.mean_ns))
        return float(law.mean_ns**2 * math.exp(sigma * sigma))
    return law.mean_ns**2 * (2 if law.kind == "exponential" else 1)


@pytest.mark.parametrize("kind", ["constant", "exponential", "lognormal", "samples"])
def test_the_mean_response_time_is_pollaczek_and_khinchines(kind: str) -> None:
    law, rho = LAWS[kind], 0.6
    means = [float(responses_ns(law, rho, seed).mean()) for seed in range(10)]
    waits_ns = rho / SERVICE_NS * mean_square(law) / (2 * (1 - rho))
    assert_holds(means, SERVICE_NS + waits_ns)


@pytest.mark.parametrize("kind", ["exponential", "constant"])
def test_several_cpus_are_an_m_g_k(kind: str) -> None:
    c, rho = 3, 0.7
    server = FIFO.but(workers=c, cpus=c, sharing=2, read_after_accept=False)
    means = [float(responses_ns(LAWS[kind], c * rho, seed, server).mean()) for seed in range(10)]
    waits_ns = erlang_c(c, rho) * SERVICE_NS / (c * (1 - rho))
    if kind == "exponential":
        assert_holds(means, SERVICE_NS + waits_ns)
    else:  # between an M/M/c and half of it (Cosmetatos 1976), whose approximation errs by 1%
        near = (1 + (1 - rho) * (c - 1) * (math.sqrt(4 + 5 * c) - 2) / (16 * rho * c)) / 2
        assert_holds(means, SERVICE_NS + near * waits_ns, slack=0.01 * waits_ns)


def closed(users: int, requests: int, pause_ns: int, kind: str, seconds: float) -> Outcome:
    law = Law(kind, pause_ns)  # type: ignore[arg-type]
    load = Load(
        "closed", users=users, requests=requests, think_ns=pause_ns, think=law, pauses_first=True
    )
    rows = 4 * users + round(2 * users * seconds * SECOND_NS / pause_ns / requests)
    settings = RunSettings(
        **FIFO.but(max_events=1024, accept_limit=0),
        duration_ns=round(seconds * SECOND_NS),
        warm_up_ns=round(0.2 * seconds * SECOND_NS),
        sample_every_ns=0,
        laws=Laws(Law("constant", 2_000), law if requests > 1 else None),
    )
    trace = load.trace(1, seconds, rows)
    most = 2 * users + round(1.5 * users * seconds * SECOND_NS / pause_ns)
    outcome = simulate(
        "epoll_level", trace, free_costs(), settings, engine="fast", requests_max=most
    )
    assert outcome.n_silent == 0
    return outcome


@pytest.mark.parametrize("requests", [1, 10, 100, 1_000])
@pytest.mark.parametrize("users", [1, 64, 20_000])
@pytest.mark.parametrize("kind", ["constant", "exponential"])
def test_as_many_users_are_there_as_wait_or_pause(users: int, requests: int, kind: str) -> None:
    # So short pauses that chance is small: 100,000 requests, whose mean is known to 0.3%.
    pause_ns = users * 10_000 if users > 64 else 100_000 * users
    seconds = 100_000 * max(pause_ns, 100_000) / users / SECOND_NS
    summary = summarise(closed(users, requests, pause_ns, kind, seconds))
    there = summary.throughput_per_s * (summary.latency_ns.mean + pause_ns) / SECOND_NS
    assert there == pytest.approx(users, rel=0.01)
    # The utilisation law, and Little's: what X requests a second of S each keep busy.
    assert summary.cpu_busy == pytest.approx(summary.throughput_per_s * 2_000 / SECOND_NS, rel=0.01)


@pytest.mark.parametrize(("n", "per_s", "ms"), [(384, 8_365, 45.9), (640, 8_249, 77.6)])
def test_published_response_times_are_littles_law(n: int, per_s: float, ms: float) -> None:
    # A closed loop without pauses: N / X, whatever the server (384 and 640 connections).
    service_ns = round(SECOND_NS / per_s)
    load = Load("closed", users=n, requests=1_000)
    settings = RunSettings(
        **FIFO.but(max_events=1024, accept_limit=0),
        duration_ns=4 * SECOND_NS,
        warm_up_ns=SECOND_NS,
        sample_every_ns=0,
        laws=Laws(Law("constant", service_ns)),
    )
    trace = load.trace(1, 4, 4 * n)
    outcome = simulate("epoll_level", trace, free_costs(), settings, requests_max=50_000)
    summary = summarise(outcome)
    assert summary.throughput_per_s == pytest.approx(per_s, rel=0.001)
    assert round(summary.latency_ns.mean / MILLISECOND_NS, 1) == ms


@pytest.mark.parametrize("kind", LAWS)
def test_a_table_has_the_mean_and_the_percentile_of_its_law(kind: str) -> None:
    law = LAWS[kind]
    table = draws_ns(law, 3, "any")
    assert table.size == N_DRAWS
    assert table.mean() == pytest.approx(law.mean, rel=1e-4)
    assert np.mean(table.astype(float) ** 2) == pytest.approx(mean_square(law), rel=0.015)
    if law.kind == "lognormal":
        assert np.quantile(table, 0.99) == pytest.approx(law.p99_ns, rel=0.01)
    other = draws_ns(law, 4, "any")
    assert sorted(other) == sorted(table)
    assert law.kind == "constant" or (other != table).any()


@pytest.mark.parametrize("factor", [1.0, 0.5, P99_BY_MEAN_MAX * 1.01])
def test_a_percentile_that_no_lognormal_law_has_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="p99_ns must be above the mean"):
        quantiles_ns(Law("lognormal", 1_000, factor * 1_000), np.array([0.5]))


def test_a_connection_and_a_reply_take_what_they_are_said_to() -> None:
    server = FIFO.but(connection_cpu_ns=70_000, reply_cpu_per_kb_ns=1_000)
    settings = RunSettings(**server, duration_ns=SECOND_NS, sample_every_ns=0)
    ones = np.ones(1, np.int64)
    trace = Trace("open", 0, 0 * ones, 2 * ones, ones, 3_500 * ones, 1_000_000 * ones)
    seen: list[tuple[int, int]] = []

    def look(env: Any, world: Any) -> None:
        def ask() -> Any:
            for at_ns in (10, 500_000):
                yield env.timeout(at_ns - env.now)
                seen.append((int(world.answered[0]), request_ns(world, int(world.fd_of[0]))))

        env.process(ask())

    costs = free_costs()
    outcome = simulate("epoll_level", trace, costs, settings, engine="reference", extend=look)
    assert seen == [(0, 73_500), (1, 3_500)]
    assert simulate("epoll_level", trace, costs, settings, engine="fast").same_as(outcome)
    assert (outcome.reply_ns - outcome.due_ns).tolist() == [73_500, 3_500]
