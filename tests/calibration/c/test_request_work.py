"""`--request-us`: user code of the C servers between a whole request and its reply."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest
from tests.calibration.c.c_programs import (
    SERVERS,
    Serve,
    Server,
    assert_all_replied,
    assert_refused,
    eventually,
    fetch,
    run_load,
    write_trace,
)

_USER_TICKS = 13
"""The field of /proc/PID/stat with the user time, from 0."""


def work_of(server: Server) -> dict[str, int]:
    """Return what the server prints of its work, after it is ready."""
    assert server.process.stdout is not None
    found: dict[str, int] = json.loads(server.process.stdout.readline())
    return found


def user_s(server: Server) -> float:
    """Return the CPU time that the server has spent in user code: no load of others is in it."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[_USER_TICKS - 2]) / os.sysconf("SC_CLK_TCK")


def has_read_more(server: Server, n_reads: int) -> bool:
    """Return whether the server has read more often than *n_reads* times."""
    return server.counters()["reads"] > n_reads


@pytest.mark.parametrize("mechanism", [*SERVERS, "blocking"])
def test_requests_are_answered_after_the_work(
    mechanism: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism, "--request-us", "50")
    assert work_of(server)["request_us"] == 50
    trace = write_trace(tmp_path / "t.trace", [(i * 20_000, 2, 64, 128, 0) for i in range(20)])
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=40)
    assert server.stop()["replies"] == 40


@pytest.mark.parametrize("mechanism", ["epoll_level", "io_uring", "blocking"])
def test_each_request_has_its_work(mechanism: str, serve: Serve) -> None:
    server = serve(mechanism, "--request-us", "100000")
    assert work_of(server)["request_steps"] > 0
    before_s = user_s(server)
    for _ in range(3):
        with server.connect() as connection:
            fetch(connection, 100)
    # Three times 0.1 s of a CPU as it was at the start; without the work it is a few ms.
    assert user_s(server) - before_s > 0.1


def test_a_part_of_a_request_has_no_work(serve: Serve) -> None:
    server = serve("epoll_level", "--request-us", "100000")
    work_of(server)
    before_s = user_s(server)
    with server.connect() as connection:
        for part in (b"GET /100 HT", b"TP/1.0\r\n", b"Host: a\r\n"):
            reads = server.counters()["reads"]
            connection.sendall(part)
            eventually(functools.partial(has_read_more, server, reads))
    assert user_s(server) - before_s < 0.1
    assert server.stop()["replies"] == 0


def test_without_the_option_nothing_is_printed(serve: Serve) -> None:
    server = serve("epoll_level")
    with server.connect() as connection:
        fetch(connection, 100)
    server.process.terminate()
    output, errors = server.process.communicate(timeout=20)
    assert (output, errors) == ("", "")


@pytest.mark.parametrize("value", ["-1", "1000001", "2.5", "x"])
def test_an_impossible_work_is_refused(value: str, programs: Path) -> None:
    message = f'server: --request-us must be between 0 and 1000000, got "{value}"'
    command = ("server", "--mechanism", "poll", "--request-us", value)
    assert_refused(programs, command, message)
