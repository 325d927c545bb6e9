"""Queued signals: what overflows is recovered, what was never merged says so, on any machine.

A stopped server takes nothing from its queue, so the queue overflows whatever the machine's speed.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path

import pytest
from tests.calibration.c.c_programs import (
    MECHANISMS_OF_CHANGES,
    SIGNAL_MECHANISMS,
    UNMERGED_MECHANISMS,
    Serve,
    assert_counters_agree,
    eventually,
    fetch,
)

N_CONNECTIONS = 40


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("mechanism", SIGNAL_MECHANISMS)
@pytest.mark.parametrize("n_signals", [1, 8, N_CONNECTIONS - 1])
def test_what_overflows_the_queue_is_served_all_the_same(
    mechanism: str, n_signals: int, serve: Serve
) -> None:
    server = serve(mechanism, "--signal-queue", str(n_signals))
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(server.connect()) for _ in range(N_CONNECTIONS)]
        for connection in held:
            fetch(connection, 100, minor=1)
        before = server.counters()["overflows"]
        server.process.send_signal(signal.SIGSTOP)
        eventually(lambda: is_stopped(server.process.pid))
        for connection in held:
            connection.sendall(b"GET /100 HTTP/1.1\r\n\r\n")
        late = [stack.enter_context(server.connect()) for _ in range(N_CONNECTIONS)]
        server.process.send_signal(signal.SIGCONT)
        for connection in held:
            assert len(connection.recv(100)) == 100
        for connection in late:
            fetch(connection, 200)
        assert server.counters()["overflows"] > before
    counters = server.stop()
    assert_counters_agree(counters, connections=2 * N_CONNECTIONS, requests=3 * N_CONNECTIONS)


@pytest.mark.parametrize("mechanism", MECHANISMS_OF_CHANGES)
def test_a_long_queue_does_not_overflow(mechanism: str, serve: Serve) -> None:
    server = serve(mechanism, "--signal-queue", "4096")
    with server.connect() as connection:
        for _ in range(100):
            fetch(connection, 100, minor=1)
    counters = server.stop()
    assert counters["overflows"] == 0
    assert counters["notices"] >= 100
    assert counters["asks"] >= 1
    assert_counters_agree(counters, connections=1, requests=100)


def asks_for_a_burst(mechanism: str, serve: Serve) -> int:
    """Return the calls that take what is queued while the server is stopped: one signal each."""
    server = serve(mechanism)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(server.connect()) for _ in range(N_CONNECTIONS)]
        eventually(lambda: server.counters()["read_again"] == N_CONNECTIONS)
        server.process.send_signal(signal.SIGSTOP)
        eventually(lambda: is_stopped(server.process.pid))
        before = server.counters()["asks"]
        for connection in held:
            connection.sendall(b"GET /100 HTTP/1.0\r\n\r\n")
        server.process.send_signal(signal.SIGCONT)
        for connection in held:
            assert len(connection.recv(100)) == 100
        n_asks = server.counters()["asks"] - before
    server.stop()
    return n_asks


def test_signals_are_taken_one_a_call_or_many(serve: Serve) -> None:
    assert asks_for_a_burst("rt_signals", serve) >= N_CONNECTIONS
    assert asks_for_a_burst("signalfd", serve) < N_CONNECTIONS / 4


@pytest.mark.parametrize("mechanism", UNMERGED_MECHANISMS)
def test_what_was_never_merged_is_refused_where_it_is_not(mechanism: str, programs: Path) -> None:
    finished = subprocess.run(
        [str(programs / "server"), "--mechanism", mechanism, "--fd-limit", "64"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    if finished.returncode == 0:
        pytest.skip(f"this machine has {mechanism}")
    assert finished.returncode == 1
    assert f"cannot open {mechanism} for 64 descriptors" in finished.stderr
    assert len(finished.stderr.splitlines()) == 1
