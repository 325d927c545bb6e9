"""Keys of [server] for a completion port: what goes with it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.served import served

from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario

LOAD = {"loop": "open", "rate": "2000/s"}


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (
            {"busy": True},
            'server.busy: must be false where server.mechanism is "completion_port", whose '
            "threads block in their calls, got true",
        ),
        (
            {"workers": 2, "wake": "one"},
            'server.wake: must not be "one" where server.mechanism is "completion_port", which '
            'has no exclusive wake-ups, got "one"',
        ),
        ({"sends": "late"}, 'server.sends: must be "overlapped" or "blocking", got "late"'),
        ({"concurrent_threads": -1}, "server.concurrent_threads: must be at least 0, got -1"),
        (
            {"threads": "processes", "workers": 2},
            'server.threads: must be "pool" where server.mechanism is "completion_port", whose '
            'workers all start before the run, got "processes"',
        ),
    ],
)
def test_what_does_not_go_with_a_completion_port_is_refused(
    server: dict[str, Any], message: str
) -> None:
    content = {"server": {"mechanism": "completion_port", **server}, "load": LOAD}
    with pytest.raises(ScenarioError) as caught:
        Scenario.check(content, "x.toml")
    assert str(caught.value) == f"x.toml: {message}"


def test_a_port_is_told_how_many_run_and_how_they_send() -> None:
    server = {"mechanism": "completion_port", "concurrent_threads": 3, "sends": "blocking"}
    scenario = Scenario.of(server={**server, "workers": 2_000}, load=LOAD)
    settings = served(settings_of(scenario, 0, seed=1))
    assert (settings.workers, settings.concurrent_threads, settings.sends_block) == (2_000, 3, True)


def test_idle_connections_hold_no_thread_of_a_port() -> None:
    server = {"mechanism": "completion_port", "workers": 2}
    scenario = Scenario.of(server=server, load=LOAD, idle={"connections": 1_000})
    assert scenario.server.ignored == []
