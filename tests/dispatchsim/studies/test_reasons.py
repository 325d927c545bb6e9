"""Reasons for a verdict: failed requests, requests left waiting, pauses without a reply."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dispatchsim.calibration.running.preparation import profile_of
from dispatchsim.scenario.examples import scenario_path
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.studies import past_errors
from dispatchsim.studies.comparison import run
from dispatchsim.studies.past_errors import far_p99, mostly_work
from dispatchsim.validation.scoring.misses import Known, Miss


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


P99_IS_UNRELIABLE = "p99 is unreliable with a CPU at least 85% busy: 90% of "


@pytest.mark.parametrize(("rate", "n"), [("2000/s", 0), ("60000/s", 1)])
def test_p99_near_the_capacity_has_a_warning(rate: str, n: int) -> None:
    assert warned({"rate": rate}).count(P99_IS_UNRELIABLE) == n


def test_past_errors_of_p99_are_those_of_servers_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(busy: float, idle: float) -> None:
        of = {0.9: math.log(busy), 0.2: math.log(idle)}
        points = [Miss("poll", used, {"p99_answered_ns": of[used]}) for used in of] * 20
        monkeypatch.setattr(past_errors, "misses_for", lambda profile: (Known(points), []))

    known(busy=0.25, idle=1.0)
    said = warned({"rate": "60000/s"})
    far = "4 times too high"
    errors = f"the 20 past forecasts of such runs had errors from {far} to {far}"
    assert f"{P99_IS_UNRELIABLE}{errors}" in said
    known(busy=0.75, idle=0.25)
    assert P99_IS_UNRELIABLE not in warned({"rate": "60000/s"})


@pytest.mark.parametrize("is_of_others", [False, True])
def test_only_errors_of_other_machines_are_called_theirs(
    monkeypatch: pytest.MonkeyPatch, *, is_of_others: bool
) -> None:
    points = [Miss("poll", 0.9, {"p99_answered_ns": math.log(0.25)})] * 20
    known = Known(points, is_of_others=is_of_others)
    # A quickly measured profile has a notice, too.
    monkeypatch.setattr(past_errors, "misses_for", lambda profile: (known, ["measured quickly"]))
    server = Scenario.read(scenario_path("epoll_10k_idle"))
    (warning,) = far_p99(server, profile_of(server), 0.9)
    assert ("such runs of other machines" in warning) == is_of_others


def test_more_application_work_than_half_is_said_to_rest_on_few_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = {"a": [0.0, 0.5, 0.6, 0.9], "b": [0.0, 0.4]}
    shipped = {
        name: Known([Miss("poll", 0.9, {}, share) for share in own]) for name, own in shares.items()
    }
    monkeypatch.setattr(past_errors, "shipped_misses", lambda: shipped)
    assert mostly_work(0.5) == []
    assert mostly_work(0.625) == [
        "the application takes 62.5% of the CPU time: above 50%, the rule for the interval rests "
        "on 2 runs of one machine only"
    ]
    shipped["b"] = shipped["a"]
    assert mostly_work(0.625)[0].endswith(" rests on 4 runs of 2 machines only")


def test_the_cpu_of_a_client_says_nothing_of_past_forecasts() -> None:
    server, client = (
        Scenario.read(scenario_path(name))
        for name in ("epoll_10k_idle", "client_with_1000_connections")
    )
    assert len(far_p99(server, profile_of(server), 0.9)) == 1
    assert far_p99(server, profile_of(server), 0.8) == []
    assert far_p99(client, profile_of(client), 0.9) == []
