"""What a scenario says of a server's patience: settings, warnings, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from dispatchsim.calibration.running.preparation import job_of, profile_of, run_job, warnings_of
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario


def scenario(**server: Any) -> Scenario:
    return Scenario.of(
        server={"mechanism": "epoll_level", **server},
        load={"loop": "open", "rate": "1000/s"},
        idle={"connections": 100},
        run={"duration": "100 ms", "warm_up": "10 ms"},
    )


def test_patience_comes_to_settings() -> None:
    server = settings_of(scenario(request_timeout="15 s", timeout_check="5 s"), 0, 1).program
    assert (server.request_timeout_ns, server.timeout_check_ns) == (15 * 10**9, 5 * 10**9)


def test_a_walk_has_a_price_that_is_said_to_be_assumed() -> None:
    impatient = scenario(request_timeout="50 ms", timeout_check="10 ms")
    profile = profile_of(impatient)
    job = job_of(impatient, profile, 1)
    assert job.costs.application.look_ns > 0
    assert any("no cost for a time-out scan" in text for text in warnings_of(impatient, profile))
    assert run_job(job).summary.calls["late"] > 100
    assert not any("time-out scan" in text for text in warnings_of(scenario(), profile))


@pytest.mark.parametrize(
    ("server", "rule"),
    [
        (
            {"timeout_check": "1 s"},
            "server.timeout_check: must be absent where server.request_timeout is",
        ),
        (
            {"request_timeout": "1 s", "workers": 2, "share": "ready list"},
            'server.request_timeout: must be 0 s where server.share is "ready list"',
        ),
        (
            {"request_timeout": "1 s", "mechanism": "io_uring"},
            "server.request_timeout: must be 0",
        ),
        (
            {"request_timeout": "1 s", "descriptors": 108},
            "server.descriptors: must be at least 109",
        ),
    ],
)
def test_patience_that_does_not_go_together_is_refused(server: dict[str, Any], rule: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(**server)
    assert rule in str(caught.value)
