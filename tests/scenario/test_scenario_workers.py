"""What several workers have in common, as a scenario says it."""

from __future__ import annotations

from typing import Any

import pytest

from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.program_settings import Sharing

LOAD = {"loop": "open", "rate": "2000/s"}


def scenario(**server: Any) -> Scenario:
    keys = {"mechanism": "epoll_level", "share": "handed over"} | server
    return Scenario.check({"server": keys, "load": LOAD}, "x.toml")


def test_connections_may_be_handed_over() -> None:
    server = settings_of(scenario(workers=3), 0, 1).program
    assert (server.workers, server.sharing) == (3, Sharing.HANDED_OVER)


@pytest.mark.parametrize(
    ("server", "rule"),
    [
        ({}, 'workers: must be at least 2 where server.share is "handed over"'),
        (
            {"workers": 2, "read_after_accept": True},
            'read_after_accept: must be false where server.share is "handed over"',
        ),
        (
            {"workers": 2, "mechanism": "rt_signals"},
            'share: must not be "handed over" where server.mechanism is "rt_signals", whose',
        ),
    ],
)
def test_what_hands_nothing_over_is_refused(server: dict[str, Any], rule: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(**server)
    assert str(caught.value).startswith(f"x.toml: server.{rule}")
