"""How many workers a server has, and what they have in common, as a scenario says it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dispatchsim.scenario.cpus import uneven_loops, uneven_share, unused_cpus
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.store.records import scenario_json

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


def on_cpus(cpus: int | str, **server: Any) -> Scenario:
    return Scenario.check({"server": server, "load": LOAD, "machine": {"cpus": cpus}}, "x.toml")


@pytest.mark.parametrize(
    ("cpus", "server", "workers"),
    [
        (4, {"mechanism": "epoll"}, 4),
        (1, {"mechanism": "epoll"}, 1),
        ("1k", {"mechanism": "poll"}, 1000),
        (4, {"mechanism": "io_uring"}, 4),
        (4, {"program": "thttpd"}, 4),
        (4, {"mechanism": "epoll", "share": "handed over"}, 4),
        (4, {"mechanism": "epoll", "workers": 1}, 1),
        (4, {"mechanism": "blocking"}, 1),
        (4, {"mechanism": "completion_port"}, 1),
    ],
)
def test_an_event_loop_runs_on_each_cpu_unless_workers_are_given(
    cpus: int | str, server: dict[str, Any], workers: int
) -> None:
    asked = on_cpus(cpus, **server)
    assert settings_of(asked, 0, 1).program.workers == workers
    assert asked.to_dict()["server"].get("workers") == server.get("workers")
    assert Scenario.check(json.loads(scenario_json(asked)), "x").server.workers == workers


def test_other_cpus_have_other_loops_unless_workers_are_given() -> None:
    asked = on_cpus(4, mechanism="epoll")
    assert asked.with_values(machine={"cpus": 8}).server.workers == 8
    assert asked.with_values(server={"mechanism": "blocking"}).server.workers == 1
    given = on_cpus(4, mechanism="epoll", workers=4)
    assert given.with_values(machine={"cpus": 8}).server.workers == 4


def test_one_worker_on_four_cpus_and_four_are_kept_apart() -> None:
    """In a store: a key that is left away is not the one that has the value of one CPU."""
    absent, one, four = (
        scenario_json(on_cpus(4, mechanism="epoll", **given))
        for given in (dict[str, Any](), {"workers": 1}, {"workers": 4})
    )
    assert absent == four != one


def test_absurd_cpus_are_one_mistake() -> None:
    with pytest.raises(ScenarioError) as caught:
        on_cpus(2_000, mechanism="epoll")
    assert caught.value.mistakes == ["x.toml: machine.cpus: must be at most 1024, got 2000"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (on_cpus(4, mechanism="epoll"), ""),
        (on_cpus(2, mechanism="epoll", workers=4), ""),
        (
            on_cpus(4, mechanism="epoll", workers=1),
            "server.workers: must be at least 4 to use all CPUs (machine.cpus), got 1",
        ),
        (
            on_cpus(2, mechanism="blocking"),
            "server.workers: must be at least 2 to use all CPUs (machine.cpus), got 1",
        ),
        (
            on_cpus(
                2, mechanism="rt_signals", workers=1, recovery="poll", recovery_thread="sibling"
            ),
            "",  # the sibling runs on the other
        ),
        (
            Scenario.of(
                server={"mechanism": "epoll"},
                load={"loop": "closed", "users": 4, "service_time": "1 ms"},
                machine={"cpus": 3, "role": "client"},
            ),
            "machine.cpus: must be at most 1 for the client to use all CPUs, got 3",
        ),
    ],
)
def test_cpus_without_a_worker_are_one_sentence(asked: Scenario, sentence: str) -> None:
    assert unused_cpus(asked) == sentence


def test_the_fullest_of_own_queues_has_the_expected_maximum_of_kept_connections() -> None:
    def kept(n: int, **server: Any) -> Scenario:
        return scenario(**server).with_values(load={"connections": n})

    own = {"share": "nothing", "workers": 8}
    drawn = np.random.default_rng(1).multinomial(5_000, [1 / 8] * 8, size=4_000).max(axis=1)
    assert uneven_share(kept(5_000, **own)) == pytest.approx(drawn.mean() / 625 - 1, rel=0.05)
    assert uneven_loops(kept(5_000, **own)).endswith("the busiest of 8 workers has some 6% more")
    assert uneven_loops(kept(100_000, **own)) == ""
    assert uneven_loops(kept(5_000, share="accept queue", workers=8)) == ""
    assert uneven_loops(scenario(**own)) == ""
