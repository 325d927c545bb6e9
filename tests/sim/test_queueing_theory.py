"""Without kernel costs a server is one of the queues that theory has solved.

Service times are drawn per connection: a reply costs a nanosecond a byte to write, so that its size
is its service time. Where a request is cut into many small ones, an event loop that serves them in
turn shares the CPU out. All is checked by intervals of 99% over replications with fixed seeds.

Sources: Kleinrock 1975, "Queueing Systems", volume 1 (M/M/1, M/M/c, M/M/1/K, M/G/1); Kleinrock
1976, volume 2, chapter 4 (processor sharing); Takagi 1991, "Queueing Analysis", volume 1, and
Boxma and Groenendijk 1987, "Pseudo-conservation laws in cyclic-service systems" (vacations,
gated service).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.served import Served, on_server
from tests.sim.test_theory import free_kernel
from tests.sim.test_worker_theory import erlang_c

from dispatchsim.models.simulate import Engine, simulate
from dispatchsim.sim.figures.fates import Fate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import REPLY_BYTES_MIN, Trace
from dispatchsim.sim.state.costs import ApplicationCosts, Costs
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS

Integers = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int], Integers]

SERVICE_NS = 40_000
ARRIVALS = 150_000
LONG_NS = 1_000 * SECOND_NS
FIFO = on_server(
    accept_limit=1, max_events=1, read_after_accept=True, send_buffer_bytes=2**40, backlog=2**20
)
"""Whoever has accepted reads and answers at once, the oldest connection first."""


def exponential(rng: np.random.Generator, n: int) -> Integers:
    return np.maximum(REPLY_BYTES_MIN, np.rint(rng.exponential(SERVICE_NS, n))).astype(np.int64)


def constant(rng: np.random.Generator, n: int) -> Integers:
    del rng
    return np.full(n, SERVICE_NS, np.int64)


def short_or_long(rng: np.random.Generator, n: int) -> Integers:
    """Draw nine of ten half as long as the mean, and one 5.5 times as long."""
    return np.where(rng.random(n) < 0.9, SERVICE_NS // 2, SERVICE_NS * 11 // 2)


MEAN_SQUARES: dict[Draw, float] = {
    exponential: 2.0 * SERVICE_NS**2,
    constant: 1.0 * SERVICE_NS**2,
    short_or_long: (0.9 * 0.25 + 0.1 * 30.25) * SERVICE_NS**2,
}


def trace_of(
    draw: Draw, load: float, seed: int, n: int, *, requests: Integers | None = None
) -> Trace:
    """Return *n* Poisson arrivals that bring *load* servers' worth of work."""
    rng = np.random.default_rng(seed)
    at_ns = np.cumsum(rng.exponential(SERVICE_NS / load, n)).astype(np.int64)
    ones = np.ones(n, np.int64)
    each = ones if requests is None else requests
    return Trace("open", 0, at_ns, each, ones, draw(rng, n), 0 * ones)


def by_the_byte() -> Costs:
    """Return costs of nothing but a nanosecond for each byte of a reply."""
    costs = free_kernel("epoll_level")
    call = costs.call._replace(write_kib_ns=1024)
    return costs._replace(call=call, application=ApplicationCosts(0))


def served(trace: Trace, server: Served, engine: Engine = "fast") -> Outcome:
    settings = RunSettings(**server, duration_ns=LONG_NS, sample_every_ns=0)
    return simulate("epoll_level", trace, by_the_byte(), settings, engine=engine)


def waits_ns(trace: Trace, outcome: Outcome) -> Integers:
    """Return how long each connection waited for its service."""
    assert (outcome.fates() == Fate.REPLIED).all()
    waited_ns: Integers = outcome.done_ns - outcome.intended_ns - trace.reply_bytes
    return waited_ns


def assert_holds(found: Sequence[float], expected: float, slack: float = 0.0) -> None:
    """Check that *expected* is in the 99% interval of the mean of *found*, but for *slack*."""
    error = float(np.std(found, ddof=1)) / len(found) ** 0.5
    half_width = float(stats.t.ppf(0.995, len(found) - 1)) * error
    # An interval that could hold anything would say nothing.
    assert half_width < 0.05 * abs(expected)
    assert abs(float(np.mean(found)) - expected) <= half_width + slack


def lindley_ns(trace: Trace, c: int = 1) -> list[int]:
    """Return when each connection leaves *c* servers that take the oldest one."""
    free_ns = [0] * c
    departures = []
    for at_ns, service_ns in zip(trace.at_ns.tolist(), trace.reply_bytes.tolist(), strict=True):
        first = free_ns.index(min(free_ns))
        free_ns[first] = max(at_ns, free_ns[first]) + service_ns
        departures.append(free_ns[first])
    return departures


def several(c: int) -> Served:
    return FIFO.but(workers=c, cpus=c)


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize("c", [1, 3])
def test_each_departs_when_lindley_says(engine: Engine, c: int) -> None:
    trace = trace_of(exponential, 0.8 * c, seed=1, n=1_000)
    assert served(trace, several(c), engine).done_ns.tolist() == lindley_ns(trace, c)


@pytest.mark.parametrize("draw", list(MEAN_SQUARES))
@pytest.mark.parametrize("rho", [0.3, 0.7])
def test_mean_wait_is_pollaczek_and_khinchines(draw: Draw, rho: float) -> None:
    traces = [trace_of(draw, rho, seed, ARRIVALS) for seed in range(10)]
    means = [float(waits_ns(trace, served(trace, FIFO)).mean()) for trace in traces]
    assert_holds(means, rho / SERVICE_NS * MEAN_SQUARES[draw] / (2 * (1 - rho)))


def test_time_in_an_m_m_1_is_exponential() -> None:
    rho = 0.7
    quantiles: dict[float, list[float]] = {0.5: [], 0.9: [], 0.99: []}
    for seed in range(10):
        outcome = served(trace_of(exponential, rho, seed, ARRIVALS), FIFO)
        times_ns = outcome.done_ns - outcome.intended_ns
        for q, found in quantiles.items():
            found.append(float(np.quantile(times_ns, q)))
    for q, found in quantiles.items():
        assert_holds(found, -math.log(1 - q) * SERVICE_NS / (1 - rho))


@pytest.mark.parametrize("c", [2, 4])
def test_waits_of_m_m_c_follow_erlang(c: int) -> None:
    rho, means, shares, tails = 0.7, [], [], []
    for seed in range(10):
        trace = trace_of(exponential, c * rho, seed, ARRIVALS)
        waited_ns = waits_ns(trace, served(trace, several(c)))
        means.append(float(waited_ns.mean()))
        shares.append(float((waited_ns > 0).mean()))
        tails.append(float((waited_ns > SERVICE_NS).mean()))
    waits = erlang_c(c, rho)
    assert_holds(means, waits * SERVICE_NS / (c * (1 - rho)))
    assert_holds(shares, waits)
    assert_holds(tails, waits * math.exp(-c * (1 - rho)))


@pytest.mark.parametrize("rho", [0.8, 1.3])
@pytest.mark.parametrize("backlog", [1, 6])
def test_a_finite_queue_refuses_as_m_m_1_k(rho: float, backlog: int) -> None:
    # One is served and, as the queue is full above its backlog, one more than that waits.
    k = backlog + 2
    server = FIFO.but(backlog=backlog, refuse=True)
    lost, numbers = [], []
    for seed in range(10):
        trace = trace_of(exponential, rho, seed, ARRIVALS)
        outcome = served(trace, server)
        found = np.bincount(outcome.fates(), minlength=len(Fate))
        assert found[Fate.REPLIED] + found[Fate.REFUSED] == len(trace)
        lost.append(float(found[Fate.REFUSED] / len(trace)))
        in_system_ns = int((outcome.done_ns - outcome.intended_ns).sum())
        numbers.append(in_system_ns / int(outcome.done_ns.max()))
    states = rho ** np.arange(k + 1)
    states /= states.sum()
    assert_holds(lost, float(states[k]))
    assert_holds(numbers, float(states @ np.arange(k + 1)))


def test_a_server_that_polls_is_on_vacation_between() -> None:
    # A wait that finds nothing takes as long as any: an arrival waits for the rest of it, and a
    # server that accepts and answers until nobody is left serves exhaustively.
    rho, vacation_ns = 0.6, 30_000
    costs = by_the_byte()
    costs = costs._replace(mechanism=costs.mechanism._replace(call_ns=vacation_ns))
    server = FIFO.but(accept_limit=0, max_events=1024, busy=True)
    settings = RunSettings(**server, duration_ns=20 * SECOND_NS, sample_every_ns=0)
    means = []
    for seed in range(10):
        trace = trace_of(exponential, rho, seed, ARRIVALS)
        outcome = simulate("epoll_level", trace, costs, settings, engine="fast")
        means.append(float(waits_ns(trace, outcome).mean()))
    in_queue_ns = rho / SERVICE_NS * MEAN_SQUARES[exponential] / (2 * (1 - rho))
    assert_holds(means, in_queue_ns + vacation_ns / 2)


def test_a_server_that_serves_what_one_wait_told_of_is_gated() -> None:
    # All connections are open and have had a reply when the second requests come, as a Poisson
    # process: each wait tells of those that are there, and who comes later belongs to the next.
    rho, call_ns, n = 0.6, 30_000, 40_000
    costs = by_the_byte()
    costs = costs._replace(mechanism=costs.mechanism._replace(call_ns=call_ns))
    server = FIFO.but(
        accept_limit=0,
        max_events=2**20,
        read_after_accept=False,
        busy=True,
        backlog=2**20,
        softirq_budget=0,  # no packet of 40,000 at once is lost
    )
    settings = RunSettings(**server, duration_ns=8 * SECOND_NS, sample_every_ns=0)
    twos, ones = np.full(n, 2, np.int64), np.ones(n, np.int64)
    means = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        service_ns = exponential(rng, n)
        begin_ns = 3 * SECOND_NS
        due_ns = begin_ns + np.cumsum(rng.exponential(SERVICE_NS / rho, n)).astype(np.int64)
        # What a client must think for its second request to come then: as long as it has had its
        # first reply, which does not depend on what comes later.
        never = Trace("open", 0, 0 * ones, twos, ones, service_ns, 100 * SECOND_NS * ones)
        first = simulate("epoll_level", never, costs, settings._replace(duration_ns=begin_ns))
        think_ns = due_ns - first.reply_ns
        trace = Trace("open", 0, 0 * ones, twos, ones, service_ns, think_ns)
        outcome = simulate("epoll_level", trace, costs, settings, engine="fast")
        assert (outcome.due_ns[1::2] == due_ns).all()
        means.append(float((outcome.reply_ns[1::2] - due_ns - service_ns).mean()))
    in_queue_ns = rho / SERVICE_NS * MEAN_SQUARES[exponential] / (2 * (1 - rho))
    assert_holds(means, in_queue_ns + call_ns / 2 + rho * call_ns / (1 - rho))


QUANTUM_NS = 800
IN_TURN = on_server(send_buffer_bytes=2**40, backlog=2**20)


def geometric(rng: np.random.Generator, n: int) -> Integers:
    return rng.geometric(QUANTUM_NS / SERVICE_NS, n).astype(np.int64)


def fifty(rng: np.random.Generator, n: int) -> Integers:
    del rng
    return np.full(n, SERVICE_NS // QUANTUM_NS, np.int64)


def few_or_many(rng: np.random.Generator, n: int) -> Integers:
    return np.where(rng.random(n) < 0.9, 25, 275).astype(np.int64)


@pytest.mark.parametrize("draw_quanta", [geometric, fifty, few_or_many])
def test_a_loop_that_serves_in_turn_shares_the_processor(draw_quanta: Draw) -> None:
    # Each connection asks again as soon as it has a reply, so the loop goes round: every turn is a
    # quantum of service. Processor sharing does not care how service times are distributed.
    rho, means, slopes = 0.6, [], []
    n = 60_000 if draw_quanta is few_or_many else 30_000  # what half of that leaves open differs
    for seed in range(8):
        quanta = draw_quanta(np.random.default_rng(100 + seed), n)
        equal: Draw = lambda _, n: np.full(n, QUANTUM_NS, np.int64)  # noqa: E731
        trace = trace_of(equal, rho, seed, quanta.size, requests=quanta)
        outcome = served(trace, IN_TURN)
        times_ns = outcome.done_ns - outcome.intended_ns
        means.append(float(times_ns.mean()))
        longest = quanta == quanta.max() if draw_quanta is few_or_many else quanta > 100
        if longest.any():
            slopes.append(float(times_ns[longest].sum() / (QUANTUM_NS * quanta[longest].sum())))
    # Whoever comes joins behind a round that has begun, of as many quanta as there are others.
    round_ns = QUANTUM_NS * (1 + rho / (1 - rho))
    assert_holds(means, SERVICE_NS / (1 - rho), slack=round_ns)
    if slopes:
        # A job of any length takes as much longer than alone: the slowdown is the same for all.
        assert_holds(slopes, 1 / (1 - rho), slack=round_ns / (100 * QUANTUM_NS))
