"""Without kernel costs a server is a queue that theory knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.toy import MECHANISM, MECHANISMS, Steps, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.load.workload import open_loop
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import (
    NO_CLIENT,
    NO_INTERRUPT,
    ApplicationCosts,
    CallCosts,
    Costs,
    flat,
)
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS

SERVICE_NS = 40_000


def free_kernel(mechanism: str) -> Costs:
    """Return costs of nothing but the request itself."""
    table: Any = MECHANISM[mechanism]
    free = {
        name: flat(0) if isinstance(value, tuple) else 0 for name, value in table._asdict().items()
    }
    return Costs(
        NO_INTERRUPT,
        CallCosts(0, 0, 0, 0, 0, 0, 0),
        ApplicationCosts(SERVICE_NS),
        NO_CLIENT,
        table._replace(**free),
    )


# Not of a server that waits in vain all the time: it cannot do so for free. Nor of one whose
# replies leave together, when the whole batch has been served.
@pytest.mark.parametrize(
    "mechanism", [m for m in MECHANISMS if m not in ("epoll_once", "io_uring")]
)
@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_a_free_kernel_is_lindleys_recursion_exactly(mechanism: str, rho: float) -> None:
    trace = open_loop(rate_per_s=rho * SECOND_NS / SERVICE_NS, seconds=0.2, seed=11)
    settings = RunSettings(client=ClientSettings(idle=100), duration_ns=SECOND_NS)
    outcome = simulate(mechanism, trace, free_kernel(mechanism), settings)
    free_ns = 0
    expected = []
    for at_ns in trace.at_ns.tolist():
        free_ns = max(at_ns, free_ns) + SERVICE_NS
        expected.append(free_ns)
    # First come first served on every mechanism: the departures, if not who departs, are fixed.
    assert np.sort(outcome.done_ns).tolist() == expected


def test_mean_wait_of_m_d_1_follows_pollaczek_and_khinchine() -> None:
    rho = 0.7
    means = []
    for seed in range(8):
        trace = open_loop(rate_per_s=rho * SECOND_NS / SERVICE_NS, seconds=0.5, seed=seed)
        outcome = simulate(
            "epoll_level",
            trace,
            free_kernel("epoll_level"),
            RunSettings(duration_ns=SECOND_NS, sample_every_ns=0),
        )
        means.append(float((outcome.done_ns - outcome.intended_ns).mean()) - SERVICE_NS)
    expected = rho * SERVICE_NS / (2 * (1 - rho))
    error = np.std(means, ddof=1) / len(means) ** 0.5
    # t quantile for 7 degrees of freedom at 99%.
    assert abs(np.mean(means) - expected) < 3.5 * error


def test_utilisation_law_and_conservation_of_time() -> None:
    trace = open_loop(rate_per_s=10_000, seconds=0.5, seed=2)
    outcome = simulate(
        "epoll_level", trace, free_kernel("epoll_level"), RunSettings(duration_ns=SECOND_NS)
    )
    assert outcome.ledger_ns[Activity.USER] == len(trace) * SERVICE_NS
    assert outcome.ledger_ns.sum() == SECOND_NS
    summary = summarise(outcome)
    assert summary.cpu.busy_ns + summary.cpu.idle_ns == SECOND_NS
    assert summary.replied == summary.offered == len(trace) == outcome.counts[Count.REPLIES]


def test_a_wait_on_a_million_idle_costs_the_simulator_no_more_work() -> None:
    """Count what the reference does, rather than time it: the calendar's entries."""
    entries = []
    for idle in (1_000, 1_000_000):
        seen = Steps()
        trace = open_loop(rate_per_s=200, seconds=0.05, seed=4)
        simulate(
            "select",
            trace,
            toy_costs("select"),
            RunSettings(client=ClientSettings(idle=idle), duration_ns=SECOND_NS),
            observe=seen,
        )
        entries.append(len(seen.steps))
    assert entries[1] <= entries[0]
