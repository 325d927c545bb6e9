"""Somebody else's server measured whole: resumed, refused, and what it leaves when it misbehaves.

Servers are our own, and a few lines of Python that do one thing wrong. Whether a run was quiet is
not asked here: other tests compute beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatchsim.calibration.measure.campaign import CampaignError
from dispatchsim.calibration.measure.macro import Timing
from dispatchsim.calibration.measure.surroundings import REFERENCE
from dispatchsim.calibration.observed import counting, measuring_server, observing
from dispatchsim.calibration.observed.counting import count_calls
from dispatchsim.calibration.observed.measuring_server import (
    NO_TRACER,
    ServerMeasured,
    ServerPlan,
    measure_server,
)
from dispatchsim.calibration.observed.observed_run import (
    ObservedRun,
    ObservedServer,
    observed_run,
    read_observed,
)
from dispatchsim.calibration.observed.observing import Asking, Bench, load_fields, why_not
from dispatchsim.calibration.observed.preloading import preload
from dispatchsim.calibration.observed.server_process import started
from dispatchsim.calibration.observed.tracers import TRACERS
from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.records.noise import Series
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.machine_facts import machine_id
from dispatchsim.calibration.testbed.testbed import Testbed, open_testbed

SHORT = Timing(warm_up_s=0.1, window_s=0.2, after_s=1.0, calibration_ms=20)
LOAD = point_at(mechanism="epoll_level", users=2)
STUB = Path(__file__).parent / "misbehaving.py"
Plan = Callable[..., ServerPlan]


@pytest.fixture
def plan(c_programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Plan:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a testbed needs two CPUs")
    monkeypatch.setattr(measuring_server, "alone", contextlib.nullcontext)
    monkeypatch.setattr(measuring_server, "check_quiet", lambda *_, **__: None)
    monkeypatch.setattr(observing, "judge", lambda _noise, lag_p50_ns: (True, ""))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]

    def made(how: str = "", **settings: Any) -> ServerPlan:
        command = shlex.join([sys.executable, str(STUB), how, str(port)]) if how else own(port)
        usual = ServerPlan(
            port, command, asking=Asking(path="/500"), loads=(LOAD,), repeats=1,
            tracer=NO_TRACER, timing=SHORT,
        )  # fmt: skip
        return dataclasses.replace(usual, **settings)

    def own(port: int) -> str:
        return (
            f"{c_programs.path('server')} --mechanism epoll_level --address {{address}} "
            f"--port {port} --backlog 512 --fd-limit 1000 --seconds-max 60"
        )

    return made


def measured(plan: ServerPlan, folder: Path) -> ServerMeasured:
    return measure_server(plan, folder, steering="loopback")


def test_what_is_there_is_not_measured_again(plan: Plan, tmp_path: Path) -> None:
    said = ObservedServer(mechanism="epoll_level", accept_limit=0)
    asked = plan(said=said)
    first = measured(asked, tmp_path)
    assert (first.summary.measured, first.summary.skipped) == (1, 0)
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"format": "disp')
    again = measured(dataclasses.replace(asked, repeats=2), tmp_path)
    assert (again.summary.measured, again.summary.skipped) == (1, 1)
    assert any("torn" in notice for notice in again.summary.notices)
    runs = read_observed(tmp_path / "runs.jsonl").rows
    assert len({run.seed for run in runs}) == len(runs)
    assert {(run.server.mechanism, run.server.accept_limit) for run in runs} == {("epoll_level", 0)}
    with pytest.raises(CampaignError, match=r"--output: .* choose another folder"):
        measured(plan("answers"), tmp_path)
    other = dataclasses.replace(asked, asking=Asking(path="/9"))
    with pytest.raises(CampaignError, match="of the request `GET /500 of localhost`, not of"):
        measured(other, tmp_path)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have runs answer so many requests, one after the other, instead of measuring them."""
    replies: list[int] = []

    def observed(
        _box: object, load: Point, asking: Asking, *_: object, known: ObservedServer, **__: object
    ) -> ObservedRun:
        fields = load_fields(load)
        run: dict[str, Any] = {
            "source": {"tool": "dispatchsim"},
            "server": {**known.model_dump(), "protocol": asking.protocol},
            "load": fields,
            "window_ns": 10**9,
            "offered": replies[0],
            "replied": replies.pop(0),
        }
        return observed_run("run", run)

    monkeypatch.setattr(measuring_server, "observe", observed)
    return replies


def test_a_load_that_is_known_is_measured_no_further(
    plan: Plan, tmp_path: Path, answers: list[int]
) -> None:
    answers += [1000, 1000, 1000, 5]
    asked = plan(repeats=10, within=0.03)
    found = measured(asked, tmp_path)
    assert (found.summary.measured, answers) == (3, [5])
    assert any("1 of 1 loads are known to 3%" in text for text in found.summary.notices)
    again = measured(asked, tmp_path)
    assert (again.summary.measured, again.summary.skipped, answers) == (0, 3, [5])


def test_a_load_that_scatters_has_all_its_repeats(
    plan: Plan, tmp_path: Path, answers: list[int]
) -> None:
    answers += [1000, 1300, 900, 1200, 1100]
    found = measured(plan(repeats=5, within=0.03), tmp_path)
    assert found.summary.measured == 5
    assert any(text.startswith("0 of 1 loads are known") for text in found.summary.notices)


@pytest.mark.usefixtures("answers")
def test_a_machine_too_noisy_is_refused_before_the_server_begins(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def refuse(folder: Path, machine: str, *_: object, quick: bool, anyway: bool) -> None:
        assert (folder, machine, quick) == (tmp_path, machine_id(), True)
        asked.append(anyway)
        if not anyway:
            raise CampaignError("too noisy")

    monkeypatch.setattr(measuring_server, "check_quiet", refuse)
    monkeypatch.setattr(measuring_server, "started", None)
    with pytest.raises(CampaignError, match=r"^too noisy$"):
        measured(plan(), tmp_path)
    with pytest.raises(TypeError):  # the server is begun
        measured(plan(anyway=True), tmp_path)
    assert asked == [False, True]


def test_our_own_server_is_measured_before_and_after_each_run(
    plan: Plan, tmp_path: Path, answers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    took_ns = iter([100.0, 200.0, 100.0, 50.0])  # a reply of the reference

    class Neighbours:
        def __init__(self, *_: object) -> None:
            self.latest = next(took_ns)

        def around(
            self, measure: Callable[[], ObservedRun]
        ) -> tuple[ObservedRun, dict[str, tuple[float, float]]]:
            before, self.latest = self.latest, next(took_ns)
            return measure(), {REFERENCE: (before, self.latest)}

    @contextlib.contextmanager
    def opened(*_: object) -> Iterator[Testbed]:
        yield Testbed("namespaces", "127.0.0.1")  # and nothing keeps it apart

    monkeypatch.setattr(measuring_server, "Surroundings", Neighbours)
    monkeypatch.setattr(measuring_server, "_opened", opened)
    answers += [500, 500, 1000]  # as fast as the machine was: 150, 150 and 75 ns
    found = measured(plan(repeats=3, within=0.03), tmp_path)
    assert [run.around for run in found.runs] == [
        {REFERENCE: (100.0, 200.0)},
        {REFERENCE: (200.0, 100.0)},
        {REFERENCE: (100.0, 50.0)},
    ]
    assert any(
        text.endswith("and by 0.0% relative to the runs of our own server beside them")
        for text in found.summary.notices
    )


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("hangs", "accepts a connection and does not answer within"),
        ("closes", "closes connections without an answer in http/1.1"),
        ("errs", r"answers GET /500 with an error"),
        ("babbles", "is not of --protocol http/1.1"),
        ("dies", "ended before it listened: out of luck"),
    ],
)
def test_a_server_that_does_not_answer_is_one_sentence(
    how: str, sentence: str, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "GREET_SECONDS_MAX", 0.5)
    asked = plan(how)
    with pytest.raises(CampaignError, match=sentence):
        measured(asked, tmp_path)
    assert not (tmp_path / "runs.jsonl").exists()
    assert_gone(asked)


@pytest.mark.parametrize(
    ("how", "reason"), [("dies later", "ended during the run"), ("hangs later", "sent no replies")]
)
def test_what_was_seen_of_a_server_that_fails_is_kept_and_marked(
    how: str, reason: str, plan: Plan, tmp_path: Path
) -> None:
    # Where this process gets no CPU in time, that is the reason instead: the machine's, not ours.
    reasons = (reason, "woke so late that")
    asked = plan(how)
    with pytest.raises(CampaignError, match=f"({'|'.join(reasons)}).*kept in .*, and not accepted"):
        measured(asked, tmp_path)
    run = read_observed(tmp_path / "runs.jsonl").rows[-1]
    assert not run.accepted
    assert any(each in run.reason for each in reasons)
    assert_gone(asked)


def test_a_server_that_ends_while_it_is_counted_is_not_blamed_on_who_counts(
    plan: Plan, tmp_path: Path
) -> None:
    asked = plan("dies later", tracer="")
    with pytest.raises(CampaignError, match="ended while its calls were counted: "):
        measured(asked, tmp_path)
    assert not (tmp_path / "calls.jsonl").exists()
    assert_gone(asked)


def assert_gone(asked: ServerPlan) -> None:
    with socket.create_server(("127.0.0.1", asked.port)):
        pass  # nobody has the port


def test_a_port_that_is_taken_is_said_at_once(plan: Plan, tmp_path: Path) -> None:
    asked = plan()
    with (
        socket.create_server(("127.0.0.1", asked.port)),
        pytest.raises(CampaignError, match=f"--port: another process listens on port {asked.port}"),
    ):
        measured(asked, tmp_path)


def test_a_server_that_is_there_goes_on_and_one_that_ends_is_said(
    plan: Plan, tmp_path: Path
) -> None:
    asked = plan("answers")
    words = [sys.executable, str(STUB), "answers", str(asked.port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            server.stdout.readline()
            there = dataclasses.replace(asked, command="", pid=server.pid)
            found = measure_server(there, tmp_path / "there")
            assert found.summary.measured == 1
            assert found.runs[-1].busy_share is None  # nobody knows which CPU it was on
            assert server.poll() is None
        finally:
            server.kill()  # otherwise a failure waits for it for ever
    with pytest.raises(CampaignError, match=f"--pid: there is no process {server.pid}"):
        measure_server(there, tmp_path / "gone")


@pytest.fixture
def bench(c_programs: Programs) -> Iterator[Bench]:
    with open_testbed("loopback") as testbed:
        yield Bench(testbed, c_programs, Series(), SHORT)


def why_it_cannot_trace(output: Path) -> str:
    """Return what strace says where it may not look at a process that sleeps."""
    with subprocess.Popen(["sleep", "1"]) as sleeper:
        words = ["strace", "-o", str(output), "-p", str(sleeper.pid)]
        finished = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    said = finished.stderr.strip().splitlines() or [f"exit status {finished.returncode}"]
    return said[-1] if finished.returncode else ""


def test_calls_are_counted_and_the_slow_down_with_them(
    bench: Bench, plan: Plan, tmp_path: Path
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if reason := why_it_cannot_trace(tmp_path / "traced"):
        pytest.skip(f"strace cannot trace a process here: {reason}")
    asked = plan()
    words = shlex.split(asked.command.replace("{address}", bench.testbed.address))
    with started(words, asked.port, testbed=bench.testbed, programs=bench.programs) as box:
        counted = count_calls(box, asked.asking, bench, tracer=TRACERS["strace"])
    found = counted.recognised
    assert found.mechanism == "epoll_level"
    assert (found.accept_limit, found.closes_first, found.threads) == (0, False, 1)
    assert counted.run.counted_by == "strace"
    assert (counted.run.slow_down or 0) > 0


@pytest.mark.parametrize(("answer", "stored"), [("STORED", True), ("SERVER_ERROR full", False)])
def test_keys_are_set_before_they_are_asked_for(answer: str, *, stored: bool) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(f"{answer}\r\n".encode() * 2)
        if stored:
            preload(here, "memcached", "k", 2, 3)
            assert there.recv(1000) == b"set k0 0 0 3\r\nxxx\r\nset k1 0 0 3\r\nxxx\r\n"
        else:
            with pytest.raises(ValueError, match=r'SET of k0 .* reply was "SERVER_ERROR full"'):
                preload(here, "memcached", "k", 2, 3)


@pytest.mark.parametrize(
    ("tool", "load", "protocol", "reason"),
    [
        ("wrk", LOAD, "resp", "wrk supports http only, got --protocol resp"),
        ("httperf", LOAD, "http/1.1", "needs a --rate"),
        ("wrk", point_at(LOAD, requests=7), "http/1.1", "got --requests 7"),
        ("wrk", LOAD, "http/1.0", "http/1.1 only"),
        ("wrk", point_at(mechanism="poll", loop="open", rate_per_s=9), "http/1.1", "no --rate"),
        ("wrk", LOAD, "http/1.1", ""),
    ],
)
def test_what_a_tool_cannot_do_is_said_first(
    tool: str, load: Point, protocol: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name)
    said = why_not(tool, load, protocol)
    assert reason in said
    assert bool(said) is bool(reason)


def test_a_tool_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert why_not("wrk", LOAD, "http/1.1") == "wrk is not installed: apt-get install wrk"
