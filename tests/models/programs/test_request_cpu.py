"""Work of the application: it is the server's user code, and delays the reply by as much."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenes import BUSY_CLIENT
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings

OF_EACH_PROGRAM = ("epoll_level", "io_uring", "completion_port", "blocking")
REQUEST_NS = 150
"""What toy costs give the application."""


def agreed(mechanism: str, work_ns: int, *, requests: int = 3) -> Outcome:
    """Return the outcome of one connection that both engines agree on."""
    run = RunSettings(
        **on_server(request_cpu_ns=work_ns, **_own(mechanism)),
        network=NetworkSettings(delay_ns=5_000),
        duration_ns=500_000,
    )
    costs, trace = toy_costs(mechanism, BUSY_CLIENT), arrivals(10_000, requests=requests)
    outcome = simulate(mechanism, trace, costs, run, engine="reference")
    assert simulate(mechanism, trace, costs, run, engine="fast").same_as(outcome)
    return outcome


def _own(mechanism: str) -> dict[str, Any]:
    return {"workers": 2} if mechanism == "blocking" else {}


@pytest.mark.parametrize("mechanism", OF_EACH_PROGRAM)
def test_every_program_works_for_each_request(mechanism: str) -> None:
    plain, working = agreed(mechanism, 0), agreed(mechanism, 7_000)
    assert plain.counts[Count.REPLIES] == working.counts[Count.REPLIES] == 3
    assert plain.ledger_ns[Activity.USER] == 3 * REQUEST_NS
    assert working.ledger_ns[Activity.USER] == 3 * (REQUEST_NS + 7_000)
    # Nothing else comes meanwhile: the last reply is later by the work of all three.
    assert working.done_ns[0] - plain.done_ns[0] == 3 * 7_000


def test_a_scenario_says_the_work_with_its_unit() -> None:
    def scenario(work: str) -> Scenario:
        return Scenario.of(
            server={"mechanism": "poll", "request_cpu": work},
            load={"loop": "open", "rate": "1000/s"},
        )

    assert settings_of(scenario("20 us"), 0, 1).program.request_cpu_ns == 20_000
    with pytest.raises(ScenarioError, match=r"server\.request_cpu: must be at most 1 s"):
        scenario("1001 ms")


def test_a_client_has_no_requests_to_work_for() -> None:
    with pytest.raises(ScenarioError, match=r"server\.request_cpu: must be absent where machine"):
        Scenario.of(
            server={"mechanism": "poll", "request_cpu": "20 us"},
            load={"loop": "closed", "users": 4},
            machine={"role": "client"},
        )
