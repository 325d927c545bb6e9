"""Servers of the literature by name: what each stands for, and what contradicts it."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from tests.made_up_profile import Call
from tests.served import Served, served
from tests.toy import arrivals, toy_costs

import dispatchsim as ds
from dispatchsim.calibration.profiles.cost_profile import shipped
from dispatchsim.calibration.running.preparation import warnings_of
from dispatchsim.models.simulate import simulate
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.programs import PROGRAMS
from dispatchsim.scenario.run_settings import settings_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.scenario.server import Server
from dispatchsim.sim.figures.summary import Summary
from dispatchsim.sim.state.family_settings import Recovery
from dispatchsim.sim.state.kinds import Count

LOAD = {"loop": "open", "rate": "2000/s"}


def settings_with(**server: Any) -> Served:
    return served(settings_of(Scenario.of(server=server, load=LOAD), 0, seed=1))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_the_keys_that_it_stands_for(name: str) -> None:
    program = PROGRAMS[name]
    scenario = Scenario.of(server={"program": name}, load=LOAD)
    spelt_out = Scenario.of(server=dict(program.keys), load=LOAD)
    assert scenario.server.run_settings == spelt_out.server.run_settings
    assert scenario.server.mechanism == program.keys["mechanism"]
    assert scenario.server.ignored == []
    assert set(program.keys) <= set(Server.model_fields)
    assert Scenario.check(scenario.to_dict(), "again").to_dict() == scenario.to_dict()
    assert program.about
    assert program.source


def test_m29_phhttpd_polls_all_once_and_its_forerunner_hands_over_for_ever() -> None:
    new, old = settings_with(program="phhttpd"), settings_with(program="phhttpd_old")
    assert (new.recovery, old.recovery) == (Recovery.POLL, Recovery.POLL_FOR_EVER)
    assert (new.recovery_hands_over, old.recovery_hands_over) == (False, True)
    for server in (new, old):
        assert not server.recovery_array_kept
        assert server.accept_each_signal
        assert server.read_after_accept
        assert server.passes_listener
        assert server.signal_numbers == 1


def test_m11_the_limiter_of_phhttpd_has_the_parameters_of_its_source() -> None:
    server = settings_with(program="phhttpd_limited")
    limiter = (server.max_events, server.limiter_gain_permille, server.limiter_threshold)
    assert limiter == (23, 300, 18)


def counts_of(program: str, engine: Literal["fast", "reference"]) -> list[int]:
    """Return replies, resets and calls for signals when 300 connections come in one softirq."""
    scenario = Scenario.of(server={"program": program, "backlog": 1024}, load=LOAD)
    run = settings_of(scenario, 0, seed=1)._replace(
        duration_ns=5_000_000, warm_up_ns=0, sample_every_ns=0
    )
    run = run._replace(kernel=run.kernel._replace(softirq_budget=0))
    mechanism = scenario.server.mechanism
    at_once = arrivals(*[10_000] * 300)
    outcome = simulate(mechanism, at_once, toy_costs(mechanism), run, engine=engine)
    return list(outcome.counts[[Count.REPLIES, Count.SHED, Count.ASKS]])


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_m11_the_limiter_of_phhttpd_limits(engine: Literal["fast", "reference"]) -> None:
    # After n calls that return 23 signals the mean is 23 (1 - 0.7^n): 17.5 after the fourth, 19.1
    # after the fifth. So the first 92 connections are served and the next ones reset. 300 signals
    # fill 13 calls. The 14th returns 1: the mean falls from 22.8 to 16.2, and the last is served.
    # One call came first, which found nothing and slept.
    assert counts_of("phhttpd_limited", engine) == [93, 207, 15]
    # The same program without a limit: the queue is emptied in one call.
    assert counts_of("phhttpd_sigtimedwait4", engine) == [300, 0, 2]
    assert counts_of("phhttpd", engine) == [300, 0, 301]


def overloaded(program: str, timeout: str) -> Summary:
    """Return the figures of *program* on the K6-2, which serves some 1,350/s, at 2000/s."""
    scenario = Scenario.of(
        server={"program": program, "backlog": 128},
        load={
            **LOAD,
            "arrivals": "constant",
            "reply_size": "1224 B",
            "timeout": timeout,
            "close": "fin",
        },
        machine={"profile": "k6-2-400-linux-2.2"},
        run={"duration": "3 s", "warm_up": "1 s"},
    )
    (replication,) = ds.run(scenario).replications
    return replication.summary


def test_m11_under_overload_only_the_limiter_keeps_replies_in_time_for_impatient_clients() -> None:
    # 128 connections wait to be accepted, 96 ms at 1,330/s: all of them longer than 50 ms.
    unlimited, limited = (
        overloaded(f"phhttpd_{name}", "50 ms") for name in ("sigtimedwait4", "limited")
    )
    assert unlimited.replied == unlimited.calls["shed"] == 0
    assert limited.calls["shed"] > 0
    assert limited.errors["timeout"] == 0
    assert limited.replied + limited.errors["reset"] == pytest.approx(limited.offered, abs=100)
    # Where clients wait, the resets take time from replies.
    patient, limited = (
        overloaded(f"phhttpd_{name}", "10 s") for name in ("sigtimedwait4", "limited")
    )
    assert patient.calls["shed"] == 0
    assert 0 < limited.replied < patient.replied


def test_m13_a_hybrid_polls_from_a_full_queue_on() -> None:
    server = settings_with(program="hybrid")
    assert server.poll_above == server.signal_queue


def test_keys_that_a_program_leaves_open_are_free() -> None:
    server = settings_with(program="thttpd", accept_limit=1, backlog=100)
    assert (server.array_rebuilt, server.accept_limit, server.backlog) == (True, 1, 100)
    same = settings_with(program="thttpd", mechanism="poll", array="rebuilt")
    assert same == settings_with(program="thttpd")


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (
            {"program": "phhttpd", "recovery": "nothing"},
            'x.toml: server.recovery: must be "poll" where server.program is "phhttpd" '
            '(Provos, Lever and Tweedie 2000, §2), got "nothing"',
        ),
        (
            {"program": "thttpd", "mechanism": "select"},
            'x.toml: server.mechanism: must be "poll" where server.program is "thttpd" '
            '(Provos and Lever 2000, §4), got "select"',
        ),
        (
            {"program": "userver_select", "accept_limit": 0},
            "x.toml: server.accept_limit: must be 1 where server.program is",
        ),
        ({"program": "thtpd"}, '(did you mean "thttpd"?), got "thtpd"'),
        ({"program": 5}, "x.toml: server.program: must be a text in quotes, got 5"),
        ({"programm": "thttpd"}, 'server.programm: unknown key (did you mean "program"?)'),
        ({}, "x.toml: server.mechanism: is missing"),
        (
            {"program": "phhttpd", "read_after_accept": 1},
            "x.toml: server.read_after_accept: must be true or false, got 1",
        ),
    ],
)
def test_what_contradicts_a_program_is_refused(server: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.check({"server": server, "load": LOAD}, "x.toml")
    assert message in str(caught.value)


def test_who_builds_its_array_anew_is_told_where_the_price_comes_from() -> None:
    profile = shipped()["counted-linux-6.1"]
    told = warnings_of(Scenario.of(server={"program": "thttpd"}, load=LOAD), profile)
    assert told == [
        "counted-linux-6.1 has no measured cost for poll.rebuild "
        "(borrowed: rt_signals.poll - poll.scan)"
    ]
    assert warnings_of(Scenario.of(server={"mechanism": "poll"}, load=LOAD), profile) == []


def test_keys_of_other_mechanisms_are_told_to_be_without_effect() -> None:
    keys = {"removes_first": False, "concurrent_threads": 2, "sends": "blocking"}
    server = Scenario.of(server={"mechanism": "poll", **keys}, load=LOAD).server
    assert server.ignored == [
        ("concurrent_threads", "2"),
        ("sends", '"blocking"'),
        ("removes_first", "false"),
    ]
    rebuilt = Scenario.of(server={"mechanism": "dev_poll", "array": "rebuilt"}, load=LOAD).server
    assert rebuilt.ignored == [("array", '"rebuilt"')]


def test_programs_are_listed_with_their_sources(call: Call) -> None:
    told = call("programs").stdout
    assert "phhttpd" in told
    content = json.loads(call("programs", "--json").stdout)
    assert content["thttpd"]["keys"] == {"mechanism": "poll", "array": "rebuilt"}
    assert all(entry["source"] for entry in content.values())


def test_m31_userver_waits_to_be_told_that_it_can_write_unless_it_is_told_of_changes() -> None:
    for name in ("2004_select", "2004_poll", "epoll_level", "epoll_ctlv", "epoll_once"):
        assert settings_with(program=f"userver_{name}").writes_when_told
    assert not settings_with(program="userver_epoll_edge").writes_when_told
    assert not settings_with(mechanism="epoll_level").writes_when_told


@pytest.mark.parametrize("mechanism", ["epoll_edge", "rt_signals", "blocking", "io_uring"])
def test_who_knows_that_it_can_write_does_not_wait_to_be_told(mechanism: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        settings_with(mechanism=mechanism, writes="when told")
    assert str(caught.value) == (
        f'scenario: server.writes: must be "at once" where server.mechanism is "{mechanism}", '
        'which does not report descriptors that stay writable, got "when told"'
    )
