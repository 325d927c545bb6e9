"""Runs against black boxes, whose servers here are our own, which count for themselves."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dispatchsim.calibration.measure.macro import Timing
from dispatchsim.calibration.observed.observed_run import ObservedRun
from dispatchsim.calibration.observed.observing import LATE, Asking, Bench, observe, seen_by_clients
from dispatchsim.calibration.observed.server_process import Snapshot, Watched, started
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.records.noise import Series
from dispatchsim.calibration.records.run_result import REPLIED, Records, Window
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.processes import CpuTicks, ScheduleTimes
from dispatchsim.calibration.testbed.testbed import Testbed, open_testbed

SHORT = Timing(warm_up_s=0.1, window_s=0.2, after_s=1.0, calibration_ms=20)
TRIES = 5
REPLY = Asking(path="/500")


@pytest.fixture
def bench(c_programs: Programs) -> Iterator[Bench]:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a testbed needs two CPUs")
    with open_testbed("loopback") as testbed:
        yield Bench(testbed, c_programs, Series(), SHORT)


def server(testbed: Testbed, programs: Programs, port: int) -> list[str]:
    return [
        programs.path("server"), "--mechanism", "epoll_level", "--address", testbed.address,
        "--port", str(port), "--backlog", "512", "--fd-limit", "1000", "--seconds-max", "60",
    ]  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number: int = listener.getsockname()[1]
    return number


def in_time(observed: Callable[[Bench], ObservedRun], bench: Bench) -> ObservedRun:
    """Return a run whose window is within its load.

    The load of each try lasts longer after the window: 1, 2, 4 s and so on. A machine that is
    only busy passes in the end; if every run is late, the harness is wrong.
    """
    after_s = bench.timing.after_s
    for _ in range(TRIES):
        run = observed(
            dataclasses.replace(bench, timing=dataclasses.replace(bench.timing, after_s=after_s))
        )
        if run.reason != LATE:
            return run
        after_s *= 2
    pytest.fail(f"{TRIES} times {LATE}, at last with a load that lasted {after_s / 2:.0f} s longer")


def test_a_window_behind_the_load_is_no_measurement(bench: Bench) -> None:
    load = point_at(mechanism="epoll_level", users=2)
    port = free_port()
    command = server(bench.testbed, bench.programs, port)
    early = dataclasses.replace(SHORT, after_s=-0.25)
    with started(command, port, testbed=bench.testbed, programs=bench.programs) as box:
        run = observe(box, load, REPLY, dataclasses.replace(bench, timing=early), seed=3)
    assert (run.accepted, run.reason) == (False, LATE)


@pytest.mark.parametrize("requests", [1, 5])
def test_what_clients_see_adds_up(bench: Bench, requests: int) -> None:
    load = point_at(mechanism="epoll_level", users=4, requests=requests, idle=20)
    port = free_port()
    command = server(bench.testbed, bench.programs, port)
    with started(command, port, testbed=bench.testbed, programs=bench.programs) as box:
        run = in_time(lambda longer: observe(box, load, REPLY, longer, seed=3), bench)
    assert run.errors == {}
    assert run.replied > 0
    # Each user has at most one reply at either end of the window that belongs to none in it.
    assert abs(run.replied - run.offered * requests) <= 2 * load.users * requests
    assert run.latency_ns is not None
    # Little's law: all are with the server at any time, as nobody thinks; whoever is at either end
    # of the window counts there for at most its longest latency.
    with_server = run.throughput_per_s * (run.latency_ns.mean or 0) / 1e9
    at_the_ends = 2 * load.users * (run.latency_ns.max or 0) / run.window_ns
    assert with_server == pytest.approx(load.users, abs=at_the_ends + 0.1)
    assert run.verdict is None
    assert run.process_ns is not None
    assert 0 < run.process_ns <= 1.1 * run.window_ns
    assert (run.load.idle, run.seed, run.server.name) == (20, 3, "server")


def test_response_times_at_the_begin_of_the_window_are_left_out_but_counted() -> None:
    # The first of three is due while counters are read: it waits 900 ns for that.
    due_ns = np.array([1_000, 1_050, 1_200])
    done_ns = due_ns + np.array([900, 40, 60])
    late_ns = due_ns + np.array([2_000_000, 0, 0])
    records = Records(due_ns, late_ns, late_ns, done_ns, np.full(3, REPLIED))
    replies = np.column_stack([due_ns, done_ns, np.zeros(3, np.int64)])
    load = point_at(mechanism="epoll_level", loop="open", rate_per_s=1000)
    seen = seen_by_clients(records, replies, Window(1_000, 2_000, untimed_ns=50), load)
    assert (seen["offered"], seen["replied"]) == (3, 3)
    assert (seen["latency_ns"]["mean"], seen["latency_ns"]["max"]) == (50, 60)
    assert seen["doubts"] == ()


@pytest.mark.parametrize(("is_one_thread", "share"), [(True, 0.25), (False, 0.0)])
def test_threads_that_wait_for_each_other_are_not_taken_for_somebody_else(
    *, is_one_thread: bool, share: float
) -> None:
    def at(run_ns: int, delay_ns: int, *, is_one_thread: bool = True) -> Snapshot:
        server = {7: ScheduleTimes(run_ns=run_ns, delay_ns=delay_ns, user_ns=0)}
        ticks = CpuTicks(user_ns=0, idle_ns=0, softirq_ns=0, steal_ns=0, n_calls=0)
        return Snapshot(run_ns, server, None, ticks, is_one_thread)

    seen = Watched(at(1_000, 0, is_one_thread=is_one_thread), at(5_000, 1_000))
    noise = seen.noise((1.0, 1.0), (1.0, 1.0), is_pinned=True, is_one_thread=seen.is_one_thread)
    assert noise.server_delay_share == share


def test_an_open_loop_offers_what_it_was_told(bench: Bench) -> None:
    load = point_at(mechanism="epoll_level", loop="open", rate_per_s=1000)
    port = free_port()
    command = server(bench.testbed, bench.programs, port)
    with started(command, port, testbed=bench.testbed, programs=bench.programs) as box:
        run = in_time(lambda longer: observe(box, load, REPLY, longer, seed=3), bench)
    due = load.rate_per_s * run.window_ns / 1e9
    assert run.offered == pytest.approx(due, abs=5 * due**0.5)
    assert run.verdict is not None


def test_a_server_that_dies_during_a_run_leaves_what_was_seen_of_it(bench: Bench) -> None:
    load = point_at(mechanism="epoll_level", users=2)
    port = free_port()
    command = server(bench.testbed, bench.programs, port)
    command[command.index("--seconds-max") + 1] = "3"
    slow = dataclasses.replace(bench, timing=dataclasses.replace(SHORT, window_s=6.0))
    with started(command, port, testbed=bench.testbed, programs=bench.programs) as box:
        run = observe(box, load, REPLY, slow, seed=3)
    assert not run.accepted
    assert "server ended during the run" in run.reason
    assert run.replied > 0
    assert run.errors["refused"] > 0
    assert run.process_ns is None
