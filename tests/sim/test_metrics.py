"""Figures of a run whose every reply is known."""

import numpy as np
import pytest
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.costs import ApplicationCosts
from dispatchsim.sim.metrics import Verdict, latency, reply_rate, summarise
from dispatchsim.sim.settings import ClientSettings, RunSettings
from dispatchsim.sim.units import SECOND_NS
from dispatchsim.sim.workload import open_loop


def test_quantiles_are_those_of_numpy() -> None:
    values = np.arange(1, 1001, dtype=np.int64)
    found = latency(values)
    assert (found.mean, found.p50, found.p90, found.max) == (500.5, 500.5, 900.1, 1000)


def test_no_reply_has_no_latency() -> None:
    assert np.isnan(latency(np.array([], np.int64)).p99)


def test_reply_rate_is_counted_in_tenths_of_a_second() -> None:
    done_ns = np.array([1, 2, 3, 150_000_000, 250_000_000], np.int64)
    rate = reply_rate(done_ns, 0, 300_000_000)
    assert (rate.min, rate.max) == (10, 30)
    assert rate.mean == pytest.approx(50 / 3)


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
    assert summary.errors == {"timeout": 3, "refused": 0, "reset": 0, "descriptors": 0}
    assert summary.replied == 0
    assert summary.verdict is Verdict.OVERLOADED
