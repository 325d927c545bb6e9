"""Reasons for a verdict: failed requests, requests left waiting, pauses without a reply."""

from __future__ import annotations

from typing import Any

import pytest

from dispatchsim.scenario.scenario import Scenario
from dispatchsim.studies.comparison import run


def warned(load: dict[str, Any], *, drops_half_closed: bool = False, **sections: Any) -> str:
    """Return all that is said of a run of half a second."""
    settings = {"duration": "500 ms", "warm_up": "0 ms", "replications": 1}
    scenario = Scenario.of(
        server={"mechanism": "epoll_level", "drops_half_closed": drops_half_closed},
        load={"loop": "open", **load},
        run={**settings, "engine": "reference"},
        **sections,
    )
    return " ".join(run(scenario).warnings)


@pytest.mark.parametrize(
    ("rate", "patience", "expected"),
    [("60000/s", "10 s", "the server falls behind"), ("60000/s", "20 ms", "requests failed")],
)
def test_a_server_that_is_asked_for_too_much_is_said_to_be(
    rate: str, patience: str, expected: str
) -> None:
    said = warned({"rate": rate, "timeout": patience})
    assert expected in said
    assert "not for lack of CPU" not in said


def test_clients_without_descriptors_say_nothing_of_the_server() -> None:
    said = warned({"rate": "5000/s", "descriptors": 1})
    assert "clients ran out of descriptors or ports" in said
    assert "falls behind" not in said


def test_a_pause_is_seen_whatever_the_verdict() -> None:
    stall = {"kind": "stall", "at": "100 ms", "length": "250 ms"}
    assert "sent no reply for 100 ms or more" in warned({"rate": "2000/s"}, fault=[stall])
    assert warned({"rate": "2000/s"}) == ""


def test_who_fails_beside_an_idle_server_is_not_short_of_cpu() -> None:
    said = warned({"rate": "1000/s", "close": "half-close"}, drops_half_closed=True)
    assert "not for lack of CPU" in said
