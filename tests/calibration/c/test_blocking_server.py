"""The C server whose threads sleep in their calls: a pool, or threads and processes on demand."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from socket import socket

import pytest
from tests.calibration.c.c_programs import (
    Serve,
    assert_all_replied,
    eventually,
    fetch,
    receive,
    run_load,
    write_trace,
)

THREADS = ("pool", "on-demand", "processes")


def keep(connection: socket) -> None:
    """Have one request of a connection answered that stays open."""
    connection.sendall(b"GET /100 HTTP/1.1\r\n\r\n")
    receive(connection, 100)


@pytest.mark.parametrize("threads", THREADS)
def test_connections_are_served_by_threads(
    threads: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("blocking", "--threads", threads, "--workers", "16")
    trace = write_trace(tmp_path / "t.trace", [(0, 3, 64, 128, 0)] * 8, users=4)
    _, rows = run_load(programs, server.port, trace, "--seconds", "0.3")
    eventually(lambda: server.counters()["closes"] == server.counters()["accepts"])
    counters = server.stop()
    assert counters["accepts"] >= len(rows) > 0
    # The load ends by resetting what its users are about to be answered.
    assert counters["writes"] - 4 <= counters["replies"] <= counters["writes"]
    assert counters["writes"] <= 3 * counters["accepts"]
    assert counters["spawns"] == (0 if threads == "pool" else counters["accepts"])
    asked = ("waits", "events", "watches", "read_again", "accept_again", "spawn_again")
    assert {counters[name] for name in (*asked, "connections_open")} == {0}


@pytest.mark.parametrize("threads", THREADS)
def test_an_open_trace_is_served_by_threads(
    threads: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("blocking", "--threads", threads, "--workers", "64")
    trace = write_trace(tmp_path / "t.trace", [(i * 2_000_000, 1, 64, 128, 0) for i in range(40)])
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=40)
    counters = server.stop()
    assert (counters["accepts"], counters["closes"], counters["replies"]) == (40, 40, 40)


@pytest.mark.parametrize("threads", THREADS)
def test_a_server_stops_while_its_threads_sleep(threads: str, serve: Serve) -> None:
    server = serve("blocking", "--threads", threads, "--workers", "8")
    with ExitStack() as held:
        for _ in range(3):
            keep(held.enter_context(server.connect()))
        assert server.counters()["connections_open"] == 3
        assert server.stop()["connections_open"] == 0


@pytest.mark.parametrize("threads", THREADS)
def test_there_are_no_more_threads_than_workers(threads: str, serve: Serve) -> None:
    server = serve("blocking", "--threads", threads, "--workers", "3")
    n_served = 3 if threads == "pool" else 2  # one accepts
    with ExitStack() as held:
        for _ in range(n_served):
            keep(held.enter_context(server.connect()))
        last = held.enter_context(server.connect())
        if threads == "pool":
            assert server.counters()["accepts"] == n_served  # it waits to be accepted
        else:
            assert last.recv(1) == b""
            assert server.counters()["spawn_again"] == 1
    server.stop()


def test_a_reply_that_does_not_fit_is_written_whole(serve: Serve) -> None:
    server = serve("blocking", "--workers", "1", "--send-buffer", "4096")
    with server.connect() as connection:
        fetch(connection, 3_000_000)
    assert server.stop()["replies"] == 1
