"""What the engines are timed against does the same work; how fast it is, no test says."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.served import on_server
from tests.toy import CALL, arrivals, toy_costs
from tests.validation.benchmarks.first_simpy_model import run_first_model

from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.load.workload import Trace, closed_loop, open_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts, ClientCosts, Costs
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS
from dispatchsim.validation.benchmarks import contestants
from dispatchsim.validation.benchmarks.by_hand import (
    ByHand,
    CompileError,
    compiled,
    run_by_hand,
)
from dispatchsim.validation.benchmarks.scenarios import CLOSED, OPEN, Case, scenario_of
from dispatchsim.validation.benchmarks.single_queue import (
    SERVICE_NS,
    TOOLS,
    Customers,
    MissingToolError,
    available,
    draw_customers,
    queue_scenario,
    run_queue,
    run_queue_on_epoll,
)

COSTS = toy_costs("epoll_level")
CROWD = arrivals(*[0] * 40)  # all at once

SCENARIOS: dict[str, tuple[Trace, RunSettings]] = {
    "low load": (
        open_loop(rate_per_s=20_000, seconds=0.02, seed=1),
        RunSettings(duration_ns=30_000_000, warm_up_ns=5_000_000),
    ),
    "high load with ties": (
        open_loop(rate_per_s=400_000, seconds=0.01, seed=2, process="constant"),
        RunSettings(duration_ns=9_000_000, sample_every_ns=100_000),
    ),
    "64 users": (closed_loop(users=64, connections=3_000), RunSettings(duration_ns=10_000_000)),
    "idle": (
        open_loop(rate_per_s=200_000, seconds=0.01, seed=3),
        RunSettings(client=ClientSettings(idle=1_000), duration_ns=20_000_000),
    ),
    "delay": (
        open_loop(rate_per_s=200_000, seconds=0.01, seed=4, requests=2, think_ns=3_000),
        RunSettings(network=NetworkSettings(delay_ns=50_000), duration_ns=20_000_000),
    ),
    "requests and think time": (
        closed_loop(users=16, connections=500, requests=3, think_ns=20_000),
        RunSettings(**on_server(max_events=4), duration_ns=50_000_000),
    ),
    "dropped SYNs": (
        CROWD,
        RunSettings(**on_server(backlog=2, softirq_budget=0), duration_ns=200 * SECOND_NS),
    ),
    "dropped ACKs": (
        arrivals(*range(0, 6_000, 100)),
        RunSettings(
            **on_server(backlog=3, softirq_budget=0),
            network=NetworkSettings(delay_ns=400),
            duration_ns=100 * SECOND_NS,
            sample_every_ns=0,
        ),
    ),
}


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return compiled()


# The limit


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_limit_equals_the_reference_to_the_nanosecond(name: str, library: ctypes.CDLL) -> None:
    trace, settings = SCENARIOS[name]
    reference = simulate("epoll_level", trace, COSTS, settings)
    by_hand = run_by_hand(library, trace, COSTS, settings).outcome
    assert reference.same_as(by_hand)
    assert by_hand.counts[Count.REPLIES] > 0
    assert by_hand.cpu_ledger_ns.sum() == settings.duration_ns


@pytest.mark.parametrize("case", [Case(CLOSED, idle=1_000), Case(OPEN)], ids=str)
def test_the_limit_equals_both_engines_with_the_shipped_costs(
    case: Case, library: ctypes.CDLL
) -> None:
    scenario = scenario_of(example_profile(), case, 2_000)
    # The way into the kernel has a cost there; no call of epoll saves it.
    assert scenario.costs.call.crossing_ns > 0
    by_hand = run_by_hand(library, *scenario[1:]).outcome
    assert simulate(*scenario, engine="reference").same_as(by_hand)
    assert simulate(*scenario, engine="fast").same_as(by_hand)
    assert by_hand.counts[Count.REPLIES] == len(scenario.trace)


@pytest.mark.parametrize(
    ("name", "count"), [("dropped SYNs", Count.SYN_DROPS), ("dropped ACKs", Count.ACK_DROPS)]
)
def test_the_crowded_scenarios_drop_packets(name: str, count: int, library: ctypes.CDLL) -> None:
    trace, settings = SCENARIOS[name]
    assert run_by_hand(library, trace, COSTS, settings).outcome.counts[count] > 0


@pytest.mark.parametrize(
    ("trace", "delay_ns"),
    [
        (closed_loop(users=20, connections=60, think_ns=SECOND_NS), 0),
        (arrivals(*range(0, 2_000_000, 50_000)), 400),
    ],
    ids=["closed", "open"],
)
def test_the_limit_gives_up_connecting_as_the_reference_does(
    trace: Trace, delay_ns: int, library: ctypes.CDLL
) -> None:
    hour = COSTS._replace(application=ApplicationCosts(3600 * SECOND_NS))
    settings = RunSettings(
        **on_server(backlog=2, softirq_budget=0),
        network=NetworkSettings(delay_ns),
        duration_ns=400 * SECOND_NS,
        sample_every_ns=SECOND_NS,
    )
    reference = simulate("epoll_level", trace, hour, settings)
    assert reference.same_as(run_by_hand(library, trace, hour, settings).outcome)
    assert (reference.status == Status.DROPPED).sum() > 20


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Trace, Costs, RunSettings]:
    requests = draw(st.integers(1, 3))
    think_ns = draw(st.sampled_from([0, 500, 30_000]))
    trace = closed_loop(
        users=draw(st.integers(1, 70)),
        connections=draw(st.integers(1, 200)),
        seed=draw(st.integers(0, 5)),
        requests=requests,
        think_ns=think_ns,
    )
    if draw(st.booleans()):
        # Few distinct times make many ties.
        grid_ns = draw(st.sampled_from([1, 100, 5_000]))
        at = draw(st.lists(st.integers(0, 60), min_size=1, max_size=100))
        at_ns = [grid_ns * time for time in sorted(at)]
        trace = arrivals(*at_ns, requests=requests, reply_bytes=5_000, think_ns=think_ns)
    costs = COSTS
    if draw(st.booleans()):
        costs = costs._replace(
            interrupt=costs.interrupt._replace(entry_ns=0, idle_exit_ns=0, wake_ns=0),
            call=costs.call._replace(close_ns=0, write_ns=0),
            application=costs.application._replace(request_ns=0),
            mechanism=costs.mechanism._replace(add_ns=0, delete_ns=0),
        )
    settings = RunSettings(
        **on_server(
            backlog=draw(st.sampled_from([1, 3, 128])),
            max_events=draw(st.sampled_from([1, 4, 1024])),
        ),
        network=NetworkSettings(draw(st.sampled_from([0, 50, 20_000]))),
        client=ClientSettings(idle=draw(st.sampled_from([0, 1, 70]))),
        duration_ns=draw(st.sampled_from([50_000, 1_000_000, 5 * SECOND_NS])),
        warm_up_ns=draw(st.sampled_from([0, 12_345])),
        sample_every_ns=draw(st.sampled_from([0, 100_000_000])),
    )
    return trace, costs, settings


@hypothesis_settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(scenario=scenarios())
def test_the_limit_equals_the_reference_wherever_it_runs(
    library: ctypes.CDLL, scenario: tuple[Trace, Costs, RunSettings]
) -> None:
    reference = simulate("epoll_level", *scenario)
    assert reference.same_as(run_by_hand(library, *scenario).outcome)


SANITIZED = """
import pickle, sys
from dispatchsim.validation.benchmarks.by_hand import compiled, run_by_hand

flags = "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
library = compiled(*flags)
for trace, costs, settings in pickle.load(sys.stdin.buffer):
    print(run_by_hand(library, trace, costs, settings).outcome.counts.tolist())
"""


def test_the_limit_has_no_undefined_behaviour(library: ctypes.CDLL) -> None:
    cases = [(trace, COSTS, settings) for trace, settings in SCENARIOS.values()]
    # A library with the address sanitizer needs its runtime loaded before Python itself.
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    finished = subprocess.run(
        [sys.executable, "-c", SANITIZED],
        input=pickle.dumps(cases),
        env=os.environ | {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert finished.stderr.decode() == ""
    expected = [str(run_by_hand(library, *case).outcome.counts.tolist()) for case in cases]
    assert finished.stdout.decode().splitlines() == expected


def run_with(library: ctypes.CDLL, **changes: Any) -> ByHand:
    costs = changes.pop("costs", COSTS)
    return run_by_hand(library, CROWD, costs, RunSettings(**changes))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"costs": toy_costs("epoll_level", ClientCosts(1, 1, 1, 1))}, "clients that cost"),
        ({"costs": toy_costs("poll")}, "other mechanisms"),
        ({"network": NetworkSettings(0, 1_000, 0)}, "bandwidth"),
        ({"client": ClientSettings(fd_limit=39)}, "clients short"),
        ({"client": ClientSettings(timeout_ns=1)}, "time-outs"),
        ({"client": ClientSettings(linear_syn_timeouts=4)}, "linear SYN time-outs"),
        ({"client": ClientSettings(idle=1, idle_life_ns=1)}, "come and go"),
        (on_server(accept_limit=1), "accept limit"),
        (on_server(listener_last=True), "last"),
        (on_server(read_after_accept=True), "read after accept"),
        (on_server(request_cpu_ns=1), "work of the application"),
        (on_server(refuse=True), "refused"),
        (on_server(fd_limit=40), "server short"),
        (on_server(send_buffer_bytes=100), "send buffer"),
        (on_server(workers=2), "several workers"),
        ({"costs": COSTS._replace(call=CALL._replace(accept_after_ns=7))}, "accept_after_ns"),
    ],
)
def test_the_limit_refuses_what_it_leaves_out(
    changes: dict[str, Any], what: str, library: ctypes.CDLL
) -> None:
    with pytest.raises(ValueError, match=f"lacks .*{what}"):
        run_with(library, **changes)


def test_a_connection_takes_few_bytes(library: ctypes.CDLL) -> None:
    run = run_with(library, client=ClientSettings(idle=100_000), duration_ns=1_000)
    assert 64 < run.bytes_per_connection < 128


def test_a_source_that_does_not_compile_is_a_sentence() -> None:
    with pytest.raises(CompileError, match="does not compile"):
        compiled("-Dstruct=")


def test_a_missing_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(CompileError, match="apt-get install gcc"):
        compiled("-DANOTHER")


# The first model


@pytest.mark.parametrize(
    ("trace", "settings"),
    [
        (
            open_loop(rate_per_s=200_000, seconds=0.005, seed=5),
            RunSettings(client=ClientSettings(idle=100), duration_ns=6_000_000),
        ),
        (
            open_loop(rate_per_s=100_000, seconds=0.005, seed=6, requests=3, think_ns=9_000),
            RunSettings(network=NetworkSettings(delay_ns=50_000), duration_ns=8_000_000),
        ),
        (closed_loop(users=8, connections=800), RunSettings(duration_ns=3_000_000)),
    ],
    ids=["open loop", "delay", "8 users"],
)
def test_the_first_model_agrees_closely(trace: Trace, settings: RunSettings) -> None:
    reference = summarise(simulate("epoll_level", trace, COSTS, settings))
    run = run_first_model(trace, COSTS, settings)
    assert 0.1 < reference.cpu_busy < 0.9
    assert run.cpu_busy == pytest.approx(reference.cpu_busy, rel=0.02)
    assert run.replied == reference.connections.replied == len(trace)


# One queue


def left_after(gaps: list[Any], services: list[Any]) -> list[Any]:
    """Return when each customer leaves, first come, first served."""
    left, free = [], gaps[0] * 0
    for arrived, takes in zip(np.cumsum(gaps).tolist(), services, strict=True):
        free = max(free, arrived) + takes
        left.append(free)
    return left


def mean_in_system_s(customers: Customers) -> float:
    """Return the mean time in system by Lindley's recursion."""
    left_s = left_after(customers.gap_s.tolist(), customers.service_s.tolist())
    return float(np.mean(np.array(left_s) - np.cumsum(customers.gap_s)))


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_simulates_the_same_queue(tool: str) -> None:
    customers = draw_customers(2_000, 0.7, seed=1)
    run = run_queue(tool, customers)
    assert run.customers == 2_000
    assert run.mean_s == pytest.approx(mean_in_system_s(customers), rel=1e-9)


def test_the_customers_are_those_of_the_theory() -> None:
    # M/M/1: the mean time in system is 1 / (mu - lambda), here 1 / (1 - 0.7) s.
    customers = draw_customers(200_000, 0.7, seed=1)
    assert mean_in_system_s(customers) == pytest.approx(1 / 0.3, rel=0.05)


def test_a_missing_tool_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(available()) == set(TOOLS)
    found: Callable[[str], object | None] = {"simpy": object()}.get
    monkeypatch.setattr("importlib.util.find_spec", found)
    assert set(available()) == {"SimPy"}
    with pytest.raises(MissingToolError, match=r"pip install 'dispatchsim\[bench\]'"):
        run_queue("Ciw", draw_customers(10, 0.7, seed=1))


def test_a_queue_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="tool must be one of SimPy, Ciw, salabim"):
        run_queue("Arena", draw_customers(10, 0.7, seed=1))
    for n, load in ((0, 0.7), (10, 1.0), (10, 0.0)):
        with pytest.raises(ValueError, match="a queue needs customers"):
            draw_customers(n, load, seed=1)


@pytest.mark.parametrize("load", [0.7, 0.95])
def test_the_queue_on_epoll_is_first_come_first_served(load: float) -> None:
    scenario = queue_scenario(draw_customers(4_000, load, seed=3))
    trace, outcome = scenario.trace, contestants.run(contestants.REFERENCE, scenario).outcome
    # To the nanosecond: the server takes its batches in the order of arrival.
    gaps_ns = np.diff(trace.at_ns, prepend=0).tolist()
    assert outcome.done_ns.tolist() == left_after(gaps_ns, trace.reply_bytes.tolist())


def test_the_mean_is_in_the_seconds_of_the_customers() -> None:
    # One after the other: each takes its own service time.
    ran = run_queue_on_epoll(
        contestants.REFERENCE, Customers(np.full(3, 10.0), np.array([1.0, 2.0, 3.0]))
    )
    assert ran.customers == 3
    assert ran.mean_s == 2.0


def test_a_service_is_a_reply_of_at_least_64_bytes() -> None:
    scenario = queue_scenario(Customers(np.ones(2), np.array([1e-9, 1.0])))
    assert scenario.trace.reply_bytes.tolist() == [64, SERVICE_NS]
