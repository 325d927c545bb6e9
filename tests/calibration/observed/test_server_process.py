"""A server that somebody else wrote: found, watched, and gone at the end, whatever it did."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.calibration.c.c_programs import eventually

from dispatchsim.calibration.observed import server_process
from dispatchsim.calibration.observed.server_process import attached, descendants, started
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.processes import RunError
from dispatchsim.calibration.testbed.testbed import Testbed

HERE = Testbed(steering="loopback", address="127.0.0.1", server_cpu=min(os.sched_getaffinity(0)))
LISTEN = """
import os, socket, sys, time
if sys.argv[2] == "dies":
    print("out of luck")
    sys.exit(3)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
how = sys.argv[2]
if how == "daemon":
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
if how == "workers":
    os.fork(), os.fork()
if how == "stubborn":
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
time.sleep(600)
"""


@pytest.fixture
def box_programs(programs: Path) -> Programs:
    return Programs(folder=programs, code="test")


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number: int = listener.getsockname()[1]
    return number


def command(port: int, how: str) -> list[str]:
    return [sys.executable, "-c", LISTEN, str(port), how]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.parametrize(
    ("how", "n_processes"), [("plain", 1), ("workers", 4), ("daemon", 1), ("stubborn", 1)]
)
def test_all_of_a_server_is_found_and_gone_at_the_end(
    how: str, n_processes: int, port: int, box_programs: Programs
) -> None:
    with started(command(port, how), port, testbed=HERE, programs=box_programs) as box:
        eventually(lambda: len(box.processes()) == n_processes)
        pids = box.processes()
        assert set(box.times()) == set(pids)
        assert all(times.run_ns > 0 for times in box.times().values())
        assert box.has_one_thread is (n_processes == 1)
        assert {os.sched_getaffinity(pid) == {HERE.server_cpu} for pid in pids} == {True}
    assert all(is_gone(pid) for pid in pids)


def test_a_server_that_dies_first_is_one_sentence_with_its_last_words(
    port: int, box_programs: Programs
) -> None:
    with (
        pytest.raises(RunError, match=r"before it listened: out of luck; keeper: .* status 3"),
        started(command(port, "dies"), port, testbed=HERE, programs=box_programs),
    ):
        pytest.fail("it never listened")


def test_a_program_that_is_not_there_is_named(port: int, box_programs: Programs) -> None:
    with (
        pytest.raises(RunError, match="there is no program nginxx"),
        started(["nginxx"], port, testbed=HERE, programs=box_programs),
    ):
        pytest.fail("it cannot start")


def test_a_port_that_another_has_is_not_taken_for_the_servers(
    box_programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_process, "START_SECONDS_MAX", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        idle = [sys.executable, "-c", "import time; time.sleep(600)"]
        with (
            pytest.raises(RunError, match="another process has that port"),
            started(idle, taken, testbed=HERE, programs=box_programs),
        ):
            pytest.fail("it does not listen")


def test_a_server_ends_when_whoever_measured_it_was_killed(
    port: int, box_programs: Programs
) -> None:
    script = f"""
import subprocess, sys, time
subprocess.Popen([{box_programs.path("keeper")!r}, "--", *sys.argv[1:]])
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script, *command(port, "workers")]) as harness:
        eventually(lambda: len(descendants(harness.pid)) == 5)
        pids = descendants(harness.pid)
        harness.send_signal(signal.SIGKILL)
    eventually(lambda: all(is_gone(pid) for pid in pids))


def test_a_server_that_was_there_goes_on(port: int) -> None:
    with subprocess.Popen(command(port, "plain"), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        with attached(server.pid, port) as box:
            assert box.processes() == [server.pid]
        assert server.poll() is None
        with (
            pytest.raises(RunError, match=r"does not listen on port 1$"),
            attached(server.pid, 1),
        ):
            pytest.fail("it does not listen there")
        server.kill()
    with pytest.raises(RunError, match="has started this command"), attached(os.getpid(), port):
        pytest.fail("it is this process")
    with pytest.raises(RunError, match="there is no process"), attached(server.pid, port):
        pytest.fail("it is no more")
