"""The planner's question: how many requests a second, over 20,000 kept connections on four CPUs?

The answer is held against a sum by hand: what one request takes of a CPU, from the profile. At
capacity each wait returns many events and no worker sleeps, so neither is in the sum.
"""

from __future__ import annotations

import json
import shlex

import pytest
from tests.made_up_profile import Call

import dispatchsim as ds
from dispatchsim.calibration.running.preparation import profile_of
from dispatchsim.scenario.examples import scenario_path
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.costs import sending_ns
from dispatchsim.sim.state.units import SECOND_NS


def request_ns(scenario: Scenario) -> float:
    """Return what a request takes of a CPU: its interrupt, its event, read, application, write."""
    costs = profile_of(scenario).costs(
        scenario.server.mechanism, open_connections=scenario.n_open, free_clients=True
    )
    interrupt_ns = costs.interrupt.entry_ns + costs.interrupt.data_ns
    event_ns = costs.mechanism.event_ns + costs.mechanism.recheck_ns
    own_ns = costs.application.request_ns + scenario.server.request_cpu
    write_ns = sending_ns(costs.call, scenario.load.reply_size)
    return float(interrupt_ns + event_ns + costs.call.read_ns + own_ns + write_ns)


def test_two_commands_answer_what_four_cpus_have_time_for(call: Call) -> None:
    # "My epoll server holds 20,000 websockets on 4 cores and a 10 Gb/s link, replies of 8 KB, p99
    # below 20 ms: how many requests a second?" What it does not state is the example's.
    stated = ("--connections", "20k", "--cpus", 4, "--link", "10 Gb/s", "--reply-size", "8 KB")
    new = call("new", "websocket_hub", "hub.toml", *stated, "--p99", "20 ms", "--defaults")
    assert new.exit_code == 0, new.output
    lines = new.stdout.splitlines()
    (second,) = (line for line in lines if line.lstrip().startswith("dispatchsim capacity"))
    _, *words = shlex.split(second)
    assert words == ["capacity", "hub.toml", "--p99", "20 ms"]
    answer = json.loads(call(*words, "--replications", 1, "--workers", 1, "--json").stdout)
    scenario = Scenario.read("hub.toml")
    by_hand_per_s = scenario.machine.cpus * SECOND_NS / request_ns(scenario)
    # The centre is moved by past forecast errors, the search is not.
    (search,) = answer["searches"]
    assert (search["low"] + search["high"]) / 2 == pytest.approx(by_hand_per_s, rel=0.1)
    assert answer["low"] < answer["centre"] < answer["high"]


def test_the_same_question_in_other_words_has_the_same_answer() -> None:
    hub = Scenario.read(scenario_path("websocket_hub"))
    short = {"duration": "1 s", "warm_up": "200 ms", "replications": 1}
    # As people write it, and with each request a connection's first of 1000.
    typed = hub.with_values(server={"mechanism": "epoll"}, load={"connections": "20k"}, run=short)
    ended = typed.with_values(load={"requests": 1_000})
    first, second = (ds.run(each).replications[0].summary for each in (typed, ended))
    assert first.offered == second.offered
    assert first.latency_ns.p99 == pytest.approx(second.latency_ns.p99, rel=0.02)


def test_a_link_that_is_full_is_named_and_no_error_of_the_server_is_applied() -> None:
    hub = Scenario.read(scenario_path("websocket_hub"))
    narrow = hub.with_values(network={"up": "1 Gbit/s", "down": "1 Gbit/s"})
    answer = ds.capacity(narrow, "p99 < 20 ms", replications=1)
    assert ", where the link is " in answer.sentence
    assert answer.past is None
    assert answer.searches[0].tried[answer.searches[0].low].figures["cpu_busiest"] < 0.9
