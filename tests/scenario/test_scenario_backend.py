"""The section [backend]: what it may say, what goes with it, and what a run is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.preparation import warnings_of
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.backend_settings import BackendSettings
from dispatchsim.sim.state.laws import Law

LOAD = {"loop": "open", "rate": "2000/s"}
BACKEND = {"delay": "20 ms", "connections": 64}


def scenario(
    backend: dict[str, Any], server: dict[str, Any] | None = None, **more: Any
) -> Scenario:
    """Return a scenario with that backend."""
    server = {"mechanism": "epoll", **(server or {})}
    return Scenario.of(**{"server": server, "load": LOAD, "backend": backend, **more})


def test_a_backend_is_told_to_a_run() -> None:
    settings = settings_of(scenario({**BACKEND, "limit": 8, "share": 0.5}), 0, 1)
    assert settings.backend == BackendSettings(64, 20_000_000, limit=8, share_permille=500)
    assert settings.laws.backend_delay is None


def test_without_the_section_there_is_none() -> None:
    plain = Scenario.of(server={"mechanism": "epoll"}, load=LOAD)
    assert settings_of(plain, 0, 1).backend == BackendSettings()
    assert "backend" not in plain.to_dict()


def test_delays_follow_a_law() -> None:
    lognormal = scenario({**BACKEND, "delay_spread": "lognormal", "delay_p99": "60 ms"})
    assert lognormal.is_random
    settings = settings_of(lognormal, 0, 1)
    assert settings.laws.backend_delay == Law("lognormal", 20_000_000, 60_000_000)
    assert settings.backend.delay_ns == 0


def test_a_file_of_delays_is_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "delays.txt").write_text("5 ms\n35 ms\n")
    (tmp_path / "x.toml").write_text(
        '[server]\nmechanism = "epoll"\n[load]\nloop = "open"\nrate = "2000/s"\n'
        '[backend]\nconnections = 4\ndelay_spread = "samples"\ndelay_file = "delays.txt"\n'
    )
    law = Scenario.read(tmp_path / "x.toml").backend.law
    assert law == Law("samples", samples_ns=(5_000_000, 35_000_000))
    assert law.mean == 20_000_000


def test_a_key_of_it_can_be_set_alone() -> None:
    changed = scenario(BACKEND).with_values(backend={"delay": "5 ms"})
    assert settings_of(changed, 0, 1).backend == BackendSettings(64, 5_000_000)


@pytest.mark.parametrize(
    ("backend", "more", "rule"),
    [
        ({**BACKEND, "limit": 0}, {}, "backend.limit: must be at least 1, got 0"),
        ({**BACKEND, "share": 1.5}, {}, "backend.share: must be at most 1, got 1.5"),
        ({**BACKEND, "connections": 0}, {}, "backend.connections: must be at least 1, got 0"),
        ({"delay": "5 ms"}, {}, "backend.connections: must be given where [backend] is given"),
        ({}, {}, "backend.connections: must be given where [backend] is given"),
        ({"connections": 4}, {}, "backend.delay: must be given unless backend.delay_file is"),
        ({**BACKEND, "delay": "-1 ms"}, {}, 'backend.delay: must not be negative, got "-1 ms"'),
        (
            {**BACKEND, "delay_spread": "samples"},
            {},
            'backend.delay_file: must be given where backend.delay_spread is "samples", '
            "got nothing",
        ),
        (
            {**BACKEND, "delay_p99": "60 ms"},
            {},
            'backend.delay_p99: must be absent where backend.delay_spread is "constant", got 60 ms',
        ),
        (
            {**BACKEND, "delay": "0 s", "delay_spread": "exponential"},
            {},
            'backend.delay: must be above 0 s where backend.delay_spread is "exponential", got 0 s',
        ),
        (
            {**BACKEND, "delay": "0 s", "delay_spread": "lognormal", "delay_p99": "1 ms"},
            {},
            'backend.delay: must be above 0 s where backend.delay_spread is "lognormal", got 0 s',
        ),
        ({**BACKEND, "delays": "5 ms"}, {}, 'backend.delays: unknown key (did you mean "delay"?)'),
        (
            BACKEND,
            {"server": {"mechanism": "io_uring"}},
            'backend.connections: must be absent where server.mechanism is "io_uring", whose '
            "program cannot query a backend in this model, got 64",
        ),
        (
            {**BACKEND, "connections": 3},
            {"machine": {"cpus": 4}},
            "backend.connections: must be at least 4 where server.workers is 4 (each event loop "
            "that serves clients needs one of its own), got 3",
        ),
        (
            BACKEND,
            {"load": {**LOAD, "close": "half-close"}},
            'load.close: must not be "half-close" where [backend] is given',
        ),
        (
            BACKEND,
            {"server": {"mechanism": "rt_signals", "recovery_thread": "sibling"}},
            'server.recovery_thread: must not be "sibling" where [backend] is given',
        ),
        (
            BACKEND,
            {
                "machine": {"role": "client"},
                "load": {"loop": "closed", "users": 4},
            },
            'backend.connections: must be absent where machine.role is "client", got 64',
        ),
        (
            {**BACKEND, "connections": 2_000},
            {"server": {"mechanism": "epoll", "descriptors": 1_000}},
            "server.descriptors: must be at least 2008 (0 open connections and 2000 to the "
            "backend, the server's own), got 1000",
        ),
    ],
)
def test_what_no_backend_can_be_is_refused_in_one_sentence(
    backend: dict[str, Any], more: dict[str, Any], rule: str
) -> None:
    content = {"server": {"mechanism": "epoll"}, "load": LOAD, "backend": backend, **more}
    with pytest.raises(ScenarioError) as caught:
        Scenario.check(content, "x.toml")
    (mistake,) = caught.value.mistakes
    assert rule in mistake


def test_a_list_of_backends_is_refused() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.check(
            {"server": {"mechanism": "epoll"}, "load": LOAD, "backend": [BACKEND]}, "x.toml"
        )
    assert caught.value.mistakes == ["x.toml: backend: must be one section [backend], got a list"]


@pytest.mark.parametrize(
    ("limit", "warnings"),
    [
        (64, []),
        (65, ["backend.limit: has no effect above backend.connections (64), got 65"]),
    ],
)
def test_a_limit_that_no_requests_reach_is_a_warning(
    profile: Profile, limit: int, warnings: list[str]
) -> None:
    assert warnings_of(scenario({**BACKEND, "limit": limit}), profile) == warnings
