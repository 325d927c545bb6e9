"""Figures of a run whose every reply is known."""

from dataclasses import astuple

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.histogram import Distribution, Histogram, Values
from dispatchsim.sim.figures.summary import Verdict, cpu, latency, reply_rate, summarise, verdict_of
from dispatchsim.sim.figures.tally import Progress
from dispatchsim.sim.load.workload import open_loop
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS


@pytest.mark.parametrize("durations", [Values(), Histogram()])
def test_quantiles_are_those_of_numpy(durations: Distribution) -> None:
    durations.add(np.arange(1, 1001, dtype=np.int64))
    found = latency(durations)
    assert (found.mean, found.p50, found.p90, found.max) == (500.5, 500.5, 900.1, 1000)
    assert (found.p95, found.p99) == pytest.approx((950.05, 990.01))
    assert found.p999 == pytest.approx(999.001)


@pytest.mark.parametrize("durations", [Values(), Histogram()])
def test_no_reply_has_no_latency(durations: Distribution) -> None:
    assert np.isnan(astuple(latency(durations))).all()


def test_reply_rate_is_counted_in_tenths_of_a_second() -> None:
    rate = reply_rate(np.array([3, 1, 1]), 100_000_000)
    assert (rate.min, rate.max) == (10, 30)
    assert rate.mean == pytest.approx(50 / 3)


def test_a_request_is_not_as_late_as_its_connection() -> None:
    outcome = simulate(
        "poll",
        arrivals(10_000, requests=2, think_ns=50_000),
        toy_costs("poll"),
        RunSettings(duration_ns=200_000),
    )
    summary = summarise(outcome)
    # The connection takes as long as both its requests and the time to think between them.
    both_ns = 2 * summary.latency_ns.mean
    assert summary.connections.lifetime_ns.mean == 50_000 + both_ns
    assert summary.latency_due_ns.p99 == summary.latency_ns.max
    assert (summary.offered, summary.replied) == (2, 2)
    assert (summary.connections.offered, summary.connections.replied) == (1, 1)
    assert summary.connections.connect_ns.max == outcome.connected_ns[0] - 10_000


def test_the_three_accountings_of_cpu_differ_by_who_was_interrupted() -> None:
    outcome = simulate(
        "epoll_level", arrivals(10_000), toy_costs("epoll_level"), RunSettings(duration_ns=20_000)
    )
    cpu = summarise(outcome).cpu
    assert cpu.busy_ns + cpu.idle_ns == 20_000
    # The handshake hit an idle CPU (430 ns, billed to nobody), the reset a running server.
    assert cpu.busy_ns - cpu.process_ns == 430
    assert cpu.by_activity_ns["interrupt"] == 160


@pytest.mark.parametrize(
    ("rate_per_s", "expected"), [(8_000, Verdict.STABLE), (14_000, Verdict.OVERLOADED)]
)
def test_the_verdict_follows_the_load(rate_per_s: float, expected: Verdict) -> None:
    costs = toy_costs("epoll_level", application=ApplicationCosts(80_000))
    outcome = simulate(
        "epoll_level",
        open_loop(rate_per_s=rate_per_s, seconds=1, seed=3),
        costs,
        RunSettings(duration_ns=SECOND_NS, warm_up_ns=SECOND_NS // 5),
    )
    assert summarise(outcome).verdict is expected


def test_errors_are_counted_by_kind() -> None:
    settings = RunSettings(client=ClientSettings(timeout_ns=50_000_000), duration_ns=SECOND_NS)
    costs = toy_costs("epoll_level", application=ApplicationCosts(200_000_000))
    summary = summarise(simulate("epoll_level", arrivals(1, 2, 3), costs, settings))
    others = dict.fromkeys(("refused", "reset", "descriptors", "dropped", "ports"), 0)
    assert summary.errors == {"timeout": 3, **others}
    assert summary.replied == 0
    assert summary.verdict is Verdict.OVERLOADED


@pytest.mark.parametrize(
    ("growth", "expected"),
    # Of 100 open connections four standard deviations are 40, of 1,000 offered 1% are 10, 5% 50.
    [
        (50, Verdict.STABLE),
        (51, Verdict.BACKLOGGED),
        (90, Verdict.BACKLOGGED),
        (91, Verdict.OVERLOADED),
    ],
)
def test_growth_within_the_noise_of_a_count_is_no_sign(growth: int, expected: Verdict) -> None:
    progress = Progress(answered=1_000, answered_late=500)
    found = verdict_of(growth, 100, 1_000, 0, progress=progress)
    assert found is expected


def test_a_process_is_not_billed_for_what_others_do() -> None:
    # Each activity has a bit of its own.
    billed = cpu(np.array([[1 << i for i in range(len(Activity))]], np.int64))
    others = ("INTERRUPT_IDLE", "KSOFTIRQD", "OTHER", "INTERRUPT_OTHER", "HOST_OTHER", "IDLE")
    expected = sum(1 << each for each in Activity if each.name not in others)
    assert billed.process_ns == expected


def test_the_busiest_cpu_is_the_one_that_was_idle_for_the_least_time() -> None:
    ledger_ns = np.zeros((2, len(Activity)), np.int64)
    ledger_ns[0, [Activity.READ, Activity.IDLE]] = 30, 70
    ledger_ns[1, [Activity.INTERRUPT_IDLE, Activity.IDLE]] = 90, 10
    found = cpu(ledger_ns)
    assert found.busy_of_each_ns == (30, 90)
    assert (found.busy_ns, found.idle_ns, found.process_ns) == (120, 80, 30)


def test_a_cpu_without_a_worker_is_not_the_busiest() -> None:
    """A connection is served on the first of two CPUs, and its packets are handled there."""
    run = RunSettings(**on_server(cpus=2), duration_ns=20_000)
    summary = summarise(simulate("poll", arrivals(10_000), toy_costs("poll"), run))
    busy_ns, nothing = summary.cpu.busy_of_each_ns
    assert (nothing, busy_ns) == (0, summary.cpu.busy_ns)
    assert summary.cpu_busiest == busy_ns / 20_000 == 2 * summary.cpu_busy


def test_events_per_wait_are_of_waits() -> None:
    outcome = simulate(
        "poll",
        arrivals(10_000, 10_000, 10_000),
        toy_costs("poll"),
        RunSettings(duration_ns=40_000),
        engine="reference",
    )
    waits, events = int(outcome.counts[Count.WAITS]), int(outcome.counts[Count.EVENTS])
    assert outcome.counts[Count.ASKS] == 0 < waits < events
    assert summarise(outcome).events_per_wait == events / waits
