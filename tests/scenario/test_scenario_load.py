"""The section [load]: what its keys come to, and what does not go together."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.preparation import trace_of, warnings_of
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.load.arrivals import Bursts, Crowd, Pattern, Ramp, Wave
from dispatchsim.sim.state.client_settings import ClientSettings


def scenario(**load: Any) -> Scenario:
    return Scenario.of(
        server={"mechanism": "poll"}, load={"loop": "open", "rate": "2000/s", **load}
    )


def client_of(**load: Any) -> ClientSettings:
    return settings_of(scenario(**load), 0, 1).client


WRONG = [
    ({"time_wait": "1 s"}, "load.time_wait: must be absent where load.ports is"),
    (
        {"burst_gap": "1 s"},
        'load.burst_gap: must be absent unless load.arrivals is "bursts"',
    ),
    (
        {"arrivals": "bursts", "burst_gap": "1 s"},
        'load.burst_length: is missing, and load.arrivals = "bursts" needs it',
    ),
    (
        {"arrivals": "flash crowd", "crowd_start": "1 s", "crowd_length": "1 s"},
        'load.crowd_factor: is missing, and load.arrivals = "flash crowd" needs it',
    ),
    (
        {"arrivals": "waves", "wave_period": "1 s", "wave_swing": 2},
        "load.wave_swing: must be at most 1, got 2",
    ),
    (
        {"reply_mix": "specweb99", "reply_size": "1 KiB"},
        "load.reply_size: must be absent where load.reply_mix is given",
    ),
    (
        {"arrivals": "ramp"},
        'load.ramp: is missing, and load.arrivals = "ramp" needs it',
    ),
    (
        {"arrivals": "ramp", "ramp": [["1 s", 1], ["1 s", 2]]},
        "load.ramp: must be in order of time, got 1 s after 1 s",
    ),
    (
        {"arrivals": "ramp", "ramp": [["1 s", 0], ["2 s", 0]]},
        "load.ramp: must be above 0 at one point at least, got 0 at all",
    ),
    (
        {"arrivals": "ramp", "ramp": [["1 s", 2000], ["2 s", 0]]},
        "load.ramp 1 2: must be at most 1000, got 2000",
    ),
    (
        {"arrivals": "flash crowd", "crowd_start": "3 s", "crowd_length": "1 s", "crowd_factor": 2},
        "load.crowd_start: must be before the end of the run (run.duration, 2500 ms), got 3 s",
    ),
    (
        {"retries": 1, "retry_jitter": 0.0005},
        "load.retry_jitter: must be a multiple of 0.001, got 0.0005",
    ),
    ({"retries": 31}, "load.retries: must be at most 30, got 31"),
    ({"retry_jitter": 0.5}, "load.retry_jitter: must be absent where load.retries is 0"),
    (
        {"retries": 2, "retry_pause": "1 s", "retry_pause_max": "50 ms"},
        "load.retry_pause_max: must be at least load.retry_pause, which must not be 0 (1 s), "
        "got 50 ms",
    ),
    (
        {"retries": 2, "retry_pause_max": "50 ms"},
        "load.retry_pause_max: must be at least load.retry_pause, which must not be 0 (0 ns), "
        "got 50 ms",
    ),
]


@pytest.mark.parametrize(("load", "rule"), WRONG, ids=[rule for _, rule in WRONG])
def test_a_wrong_load_is_refused_in_one_sentence(load: dict[str, Any], rule: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(**load)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


def test_retries_come_to_settings() -> None:
    client = client_of(
        timeout="1 s",
        retries=3,
        retry_pause="50 ms",
        retry_pause_max="10 s",
        retry_jitter=0.25,
        retry_budget=0.1,
    )
    assert client == ClientSettings(
        timeout_ns=10**9,
        fd_limit=client.fd_limit,
        retries=3,
        retry_pause_ns=50_000_000,
        retry_pause_max_ns=10 * 10**9,
        retry_jitter_permille=250,
        retry_budget_permille=100,
    )


@pytest.mark.parametrize(
    ("load", "pattern"),
    [
        ({}, None),
        ({"arrivals": "constant"}, None),
        (
            {"arrivals": "bursts", "burst_length": "100 ms", "burst_gap": "2 s"},
            Bursts(0.1, 2.0, math.inf),
        ),
        (
            {
                "arrivals": "flash crowd",
                "crowd_start": "0 s",
                "crowd_length": "1 min",
                "crowd_factor": 3,
            },
            Crowd(0.0, 60.0, 3.0),
        ),
        (
            {"arrivals": "ramp", "ramp": [["0 s", 0.5], ["1 min", 1]]},
            Ramp(((0.0, 0.5), (60.0, 1.0))),
        ),
        ({"arrivals": "waves", "wave_period": "24 h", "wave_swing": 0.5}, Wave(86_400.0, 0.5)),
    ],
)
def test_arrivals_come_to_a_pattern(load: dict[str, Any], pattern: Pattern | None) -> None:
    drawn = scenario(**load)
    assert drawn.load.pattern == pattern
    even = trace_of(scenario(arrivals="constant"), 1, 0)
    assert (len(trace_of(drawn, 1, 0)) == len(even)) == ("constant" in load.values())


def test_replies_come_in_a_mixture_of_sizes() -> None:
    sizes = trace_of(scenario(reply_mix="specweb99"), 1, 0).reply_bytes
    assert sizes.min() < 1_000
    assert sizes.max() > 100_000


def test_ports_come_to_settings() -> None:
    assert (client_of().ports, client_of().time_wait_ns) == (0, 0)
    assert (client_of(ports=28_232).ports, client_of(ports=1).time_wait_ns) == (28_232, 60 * 10**9)


def test_jitter_is_random_and_retries_alone_are_not() -> None:
    even = {"arrivals": "constant"}
    assert not scenario(**even, retries=1).is_random
    assert scenario(**even, retries=1, retry_jitter=0.5).is_random


def test_users_who_come_only_after_the_warm_up_are_a_warning(profile: Profile) -> None:
    def asked(think_time: str, **load: Any) -> Scenario:
        return Scenario.of(
            server={"mechanism": "epoll_level"},
            load={"loop": "closed", "users": 100, "think_time": think_time, **load},
            run={"duration": "5 s", "warm_up": "500 ms"},
        )

    assert warnings_of(asked("500 ms"), profile) == []
    assert warnings_of(asked("1 s"), profile) == [
        "run.warm_up: must be about 3 s (three times load.think_time), so that users connect "
        "before the measured window, got 500 ms"
    ]


@pytest.mark.parametrize(
    ("rate", "more", "is_warned"),
    [
        ("900/s", {"requests": 10}, True),
        ("1000/s", {"requests": 10}, False),  # ten on each connection
        ("900/s", {"requests": 10, "requests_spread": "geometric"}, False),
        ("900/s", {}, False),  # clients never close them
    ],
)
def test_connections_of_equal_length_that_do_not_end_in_the_run_are_a_warning(
    profile: Profile, rate: str, more: dict[str, Any], is_warned: bool
) -> None:
    asked = scenario(rate=rate, connections=100, **more).with_values(run={"duration": "1 s"})
    found = [each for each in warnings_of(asked, profile) if each.startswith("load.requests: ")]
    expected = "load.requests: a connection has some 9 requests in this run and ends after 10, "
    assert [each.startswith(expected) for each in found] == [True] * is_warned
