"""Keys of a file that say how requests come over kept connections, pause, and what they take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.load.trace_file import REQUESTS_MAX
from dispatchsim.sim.state.laws import Law

KEPT = {"loop": "open", "connections": 50, "rate": "2000/s"}
ASKS_OFTEN = {"loop": "open", "rate": "100/s", "requests": 5, "think_time": "10 ms"}


def scenario(load: dict[str, Any], **server: Any) -> Scenario:
    return Scenario.of(server={"mechanism": "epoll_level", **server}, load=load)


def test_requests_come_over_connections_that_stay_open() -> None:
    trace = scenario(KEPT).trace(seed=1, seconds=1)
    assert (trace.loop, trace.users, len(trace)) == ("kept", 50, 50)
    assert set(trace.requests) == {REQUESTS_MAX}
    assert 1_800 < trace.arrival_ns.size < 2_200
    assert set(trace.arrival_user) == set(range(50))
    again = scenario(KEPT).trace(seed=1, seconds=2)
    n = trace.arrival_ns.size
    assert (again.arrival_ns[:n] == trace.arrival_ns).all()
    assert (again.arrival_user[:n] == trace.arrival_user).all()


def test_at_a_constant_rate_connections_take_turns() -> None:
    trace = scenario({**KEPT, "arrivals": "constant"}).trace(seed=1, seconds=0.1)
    assert trace.arrival_user.tolist() == [i % 50 for i in range(200)]
    assert trace.arrival_ns.tolist() == [500_000 * i for i in range(200)]


def test_a_connection_may_end_after_so_many() -> None:
    assert set(scenario({**KEPT, "requests": 7}).trace(1, 1).requests) == {7}


@pytest.mark.parametrize(
    ("load", "rule"),
    [
        ({"think_time": "1 s"}, "load.think_time: must be absent where load.connections is given"),
        ({"think": "constant"}, "load.think: must be absent where load.connections is given"),
        ({"descriptors": 49}, "load.descriptors: must be at least load.connections"),
        ({"ports": 49}, "load.ports: must be at least load.connections"),
        ({"retries": 2}, "load.retries: must be absent where load.connections is given"),
        ({"connections": 0}, "load.connections: must be at least 1, got 0"),
        ({"rate": None}, 'load.rate: is missing, and load.loop = "open" needs it'),
        ({"rate": "3/s"}, "load.rate: must give at least 10 requests in a run of 2500 ms, got 8"),
        (
            {"loop": "closed", "users": 3, "rate": None},
            'load.connections: must be absent where load.loop is "closed"',
        ),
    ],
)
def test_kept_connections_that_cannot_be_are_refused(load: dict[str, Any], rule: str) -> None:
    given = {key: value for key, value in {**KEPT, **load}.items() if value is not None}
    with pytest.raises(ScenarioError, match=rule):
        scenario(given)


def test_a_rate_that_the_connections_cannot_carry_is_refused() -> None:
    asked = {"server": {"mechanism": "epoll"}, "load": KEPT, "network": {"delay": "10 ms"}}
    # Fifty round trips of 20 ms at a time are 2500 requests a second.
    assert Scenario.of(**asked).rate_max_per_s == 2_500
    rule = (
        "load.rate: must be at most 2,500/s, as each of 50 connections carries one request per "
        "round trip (network.delay twice), got 2501/s"
    )
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(**{**asked, "load": {**KEPT, "rate": "2501/s"}})
    assert [each.split(": ", 1)[1] for each in caught.value.mistakes] == [rule]
    # What is absent is the testbed's, or a new connection for each.
    assert Scenario.of(**{**asked, "network": {}}).rate_max_per_s == math.inf


def test_kept_connections_need_descriptors_and_threads() -> None:
    with pytest.raises(ScenarioError, match=r"server.descriptors: must be at least"):
        scenario(KEPT, descriptors=50)
    with pytest.raises(ScenarioError, match=r"server.workers: must be at least 50"):
        Scenario.of(server={"mechanism": "blocking", "workers": 8}, load=KEPT)


def test_ways_of_clients_are_of_new_connections() -> None:
    with pytest.raises(ScenarioError, match=r"path: must be absent where load.connections"):
        Scenario.of(server={"mechanism": "poll"}, load=KEPT, path=[{"share": 1.0}])


def test_pauses_between_requests_are_drawn() -> None:
    law = settings_of(scenario(ASKS_OFTEN), 0, 1).laws.pause
    assert law == Law("exponential", 10_000_000)
    constant = scenario({**ASKS_OFTEN, "think": "constant"})
    assert settings_of(constant, 0, 1).laws.pause is None
    assert set(constant.trace(1, 1).think_ns) == {10_000_000}
    once = {**ASKS_OFTEN, "requests": 1}
    assert settings_of(scenario(once), 0, 1).laws.pause is None
    skew = {**ASKS_OFTEN, "think": "lognormal", "think_p99": "50 ms"}
    assert settings_of(scenario(skew), 0, 1).laws.pause == Law("lognormal", 10_000_000, 50_000_000)


def test_what_the_application_takes_has_a_law() -> None:
    constant = settings_of(scenario(KEPT, request_cpu="20 us"), 0, 1)
    assert (constant.program.request_cpu_ns, constant.laws.request_cpu) == (20_000, None)
    drawn = {"request_cpu": "20 us", "request_cpu_spread": "exponential"}
    assert settings_of(scenario(KEPT, **drawn), 0, 1).laws.request_cpu == Law("exponential", 20_000)


def test_samples_are_read_from_a_file_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "cpu.txt").write_text("# of a profiler\n10 us\n\n1.5 ms # slow\n")
    path = tmp_path / "scenario.toml"
    path.write_text(
        '[server]\nmechanism = "poll"\nrequest_cpu_spread = "samples"\n'
        'request_cpu_file = "cpu.txt"\n[load]\nloop = "closed"\nusers = 2\n'
    )
    law = settings_of(Scenario.read(path), 0, 1).laws.request_cpu
    assert law == Law("samples", samples_ns=(10_000, 1_500_000))
    assert law.mean == 755_000


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("10", "line 1: must be a duration"),
        ("1 us\n-3 us", "line 2: must not be negative"),
        ("fast", "line 1: must be a duration"),
        ("# nothing", "must have 1 to 1000000 times, got 0"),
        ("2 h", "line 1: must be at most 1 h, got 2 h"),
    ],
)
def test_a_file_of_samples_that_is_none_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    (tmp_path / "cpu.txt").write_text(text)
    file = str(tmp_path / "cpu.txt")
    with pytest.raises(ScenarioError, match=f"server.request_cpu_file: .*cpu.txt.* {rule}"):
        scenario(KEPT, request_cpu_spread="samples", request_cpu_file=file)


@pytest.mark.parametrize(
    ("server", "rule"),
    [
        ({"request_cpu_spread": "samples"}, "server.request_cpu_file: must be given"),
        ({"request_cpu_file": "x"}, "server.request_cpu_file: must be absent"),
        ({"request_cpu_p99": "1 ms"}, "server.request_cpu_p99: must be absent"),
        ({"request_cpu_spread": "lognormal"}, "server.request_cpu_p99: must be given"),
        (
            {"request_cpu": "1 ms", "request_cpu_spread": "lognormal", "request_cpu_p99": "1 ms"},
            r"server.request_cpu_p99: must be above the mean \(1 ms\)",
        ),
        (
            {"request_cpu": "1 ms", "request_cpu_spread": "lognormal", "request_cpu_p99": "20 ms"},
            r"server.request_cpu_p99: .* at most 8 times it",
        ),
        (
            {"request_cpu_spread": "samples", "request_cpu_file": "nowhere"},
            "server.request_cpu_file: nowhere cannot be read",
        ),
    ],
)
def test_keys_that_make_no_law_are_refused(server: dict[str, Any], rule: str) -> None:
    with pytest.raises(ScenarioError, match=rule):
        scenario(KEPT, **server)
