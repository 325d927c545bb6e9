"""Without kernel costs several workers are queues that theory knows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.served import Served, on_server
from tests.sim.test_theory import SERVICE_NS, free_kernel

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, open_loop
from dispatchsim.sim.state.costs import InterruptCosts
from dispatchsim.sim.state.kinds import Activity
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS
from dispatchsim.sim.wire.way import flow_hash

ONE_AT_A_TIME = on_server(accept_limit=1, max_events=1)


def arrivals(c: int, rho: float, seed: int, seconds: float = 1.0) -> Trace:
    """Return a Poisson trace that keeps *c* servers busy for *rho* of their time."""
    return open_loop(rate_per_s=c * rho * SECOND_NS / SERVICE_NS, seconds=seconds, seed=seed)


def served(trace: Trace, server: Served) -> Outcome:
    """Return the outcome of *trace* where only requests cost anything."""
    settings = RunSettings(**server, duration_ns=2 * SECOND_NS, sample_every_ns=0)
    return simulate("epoll_level", trace, free_kernel("epoll_level"), settings, engine="fast")


def waits_ns(outcome: Outcome) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return how long each request waited for its service."""
    assert (outcome.done_ns >= 0).all()
    return np.asarray(outcome.done_ns - outcome.intended_ns - SERVICE_NS, np.float64)


def m_d_c_departures(trace: Trace, c: int) -> list[int]:
    """Return when the requests of *trace* leave *c* servers that take the first that came."""
    free_ns = [0] * c
    departures = []
    for at_ns in trace.at_ns.tolist():
        first = free_ns.index(min(free_ns))
        free_ns[first] = max(at_ns, free_ns[first]) + SERVICE_NS
        departures.append(free_ns[first])
    return sorted(departures)


@pytest.mark.parametrize("c", [2, 4])
@pytest.mark.parametrize("sharing", [Sharing.READY_LIST, Sharing.ACCEPT_QUEUE])
def test_whoever_is_free_takes_the_next_where_a_queue_is_shared(c: int, sharing: Sharing) -> None:
    # One event and one accept at a time, read at once where a worker may: a free worker takes the
    # oldest request. That is M/D/c to the nanosecond, on a trace of its own.
    server = ONE_AT_A_TIME.but(
        workers=c,
        cpus=c,
        sharing=int(sharing),
        read_after_accept=sharing != Sharing.READY_LIST,
    )
    trace = arrivals(c, 0.8, seed=3, seconds=0.2)
    outcome = served(trace, server)
    assert np.sort(outcome.done_ns).tolist() == m_d_c_departures(trace, c)


def test_own_accept_queues_are_lindleys_recursion_each() -> None:
    c = 3
    trace = arrivals(c, 0.8, seed=3, seconds=0.2)
    server = on_server(workers=c, cpus=c, sharing=int(Sharing.NOTHING))
    expected: list[int] = []
    for number in range(c):
        # The high half of a flow's hash chooses the queue.
        is_here = [(flow_hash(row) >> 16) % c == number for row in range(len(trace))]
        free_ns = 0
        for at_ns in trace.at_ns[is_here].tolist():
            free_ns = max(at_ns, free_ns) + SERVICE_NS
            expected.append(free_ns)
    assert np.sort(served(trace, server).done_ns).tolist() == sorted(expected)


def erlang_c(c: int, rho: float) -> float:
    """Return the probability that a request of M/M/c has to wait."""
    load = c * rho
    terms = [load**k / math.factorial(k) for k in range(c)]
    last = load**c / math.factorial(c) / (1 - rho)
    return last / (sum(terms) + last)


def mean_wait_m_d_c_ns(c: int, rho: float) -> float:
    """Return the mean wait of M/D/c, after Cosmetatos (1975): within 2% where rho is not small."""
    m_m_c_ns = erlang_c(c, rho) * SERVICE_NS / (c * (1 - rho))
    return m_m_c_ns / 2 * (1 + (1 - rho) * (c - 1) * (math.sqrt(4 + 5 * c) - 2) / (16 * rho * c))


@pytest.mark.parametrize("c", [2, 4])
def test_mean_wait_at_a_shared_ready_list_follows_erlang(c: int) -> None:
    # A ready list from which workers take one connection at a time is M/D/c (above); with more at
    # a time one worker holds what another could begin, and requests wait longer.
    rho = 0.7
    server = on_server(workers=c, cpus=c, sharing=int(Sharing.READY_LIST))
    one = server.but(accept_limit=1, max_events=1)
    traces = [arrivals(c, rho, seed, seconds=0.5) for seed in range(8)]
    means = [float(waits_ns(served(trace, one)).mean()) for trace in traces]
    expected_ns = mean_wait_m_d_c_ns(c, rho)
    error_ns = np.std(means, ddof=1) / len(means) ** 0.5
    # t quantile for 7 degrees of freedom at 99%, and the error of the approximation.
    assert abs(np.mean(means) - expected_ns) < 3.5 * error_ns + 0.02 * expected_ns
    in_batches = [float(waits_ns(served(trace, server)).mean()) for trace in traces]
    assert np.mean(in_batches) > np.mean(means) + 3.5 * error_ns


def test_mean_wait_at_own_accept_queues_is_that_of_one() -> None:
    c, rho = 4, 0.7
    server = on_server(workers=c, cpus=c, sharing=int(Sharing.NOTHING))
    outcomes = [served(arrivals(c, rho, seed, seconds=0.5), server) for seed in range(8)]
    means = [float(waits_ns(outcome).mean()) for outcome in outcomes]
    expected_ns = rho * SERVICE_NS / (2 * (1 - rho))
    error_ns = np.std(means, ddof=1) / len(means) ** 0.5
    # A flow chooses the same queue in every run, so that its luck is no error of the mean: 5%.
    assert abs(np.mean(means) - expected_ns) < 3.5 * error_ns + 0.05 * expected_ns
    # Far from Erlang's pooled servers: that is what sharing nothing costs.
    assert np.mean(means) > 2 * mean_wait_m_d_c_ns(c, rho)


def test_each_worker_is_as_busy_as_what_it_accepted_says() -> None:
    server = on_server(workers=4, cpus=4, sharing=int(Sharing.NOTHING))
    outcome = served(arrivals(4, 0.7, seed=1, seconds=0.2), server)
    busy_ns = outcome.cpu_ledger_ns[:, Activity.USER]
    assert (busy_ns == outcome.worker_accepts * SERVICE_NS).all()


def test_workers_of_one_cpu_are_no_faster_than_one() -> None:
    # Who has done its work may have to wait for the others' turns to say so; the last has not.
    trace = arrivals(1, 0.9, seed=5, seconds=0.2)
    server = on_server(workers=4, cpus=1, sharing=int(Sharing.NOTHING), tick_ns=SERVICE_NS)
    outcome = served(trace, server)
    expected = m_d_c_departures(trace, 1)
    assert (np.sort(outcome.done_ns) >= expected).all()
    assert outcome.done_ns.max() == expected[-1]
    assert outcome.ledger_ns[Activity.USER] == len(trace) * SERVICE_NS


def test_the_cpu_of_the_packets_is_a_queue_before_the_workers() -> None:
    # 12 us of packets for each connection on one CPU, 40 us of work on four others: at one in
    # 12.5 us the first is nearly full and the others are not.
    interrupt = InterruptCosts(0, 6_000, 2_000, 4_000, 0, 0, 0, 0)
    costs = free_kernel("epoll_level")._replace(interrupt=interrupt)
    server = on_server(
        workers=4, cpus=5, interrupt_cpu=4, sharing=int(Sharing.READY_LIST), softirq_budget=0
    )
    settings = RunSettings(**server, duration_ns=2 * SECOND_NS, sample_every_ns=0)
    trace = open_loop(rate_per_s=80_000, seconds=0.2, seed=2)
    outcome = simulate("epoll_level", trace, costs, settings, engine="fast")
    assert outcome.cpu_ledger_ns[4, Activity.INTERRUPT_IDLE] == 12_000 * len(trace)
    handled_ns = [0]
    for at_ns in trace.at_ns.tolist():
        handled_ns.append(max(at_ns, handled_ns[-1]) + 12_000)
    # Packets of several connections mix, but no more are whole than there was time for.
    assert (np.sort(outcome.done_ns) >= np.array(handled_ns[1:]) + SERVICE_NS).all()
