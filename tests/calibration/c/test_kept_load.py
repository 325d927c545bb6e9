"""The load generator keeps connections open, and its requests are due whatever the server does."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.calibration.c.c_programs import (
    DEADLINE_S,
    DESCRIPTORS,
    NOT_REACHED,
    REFUSED,
    REPLIED,
    RESET,
    SERVERS,
    STILL_OPEN,
    TIMEOUT,
    Record,
    Serve,
    assert_refused,
    eventually,
    read_records,
    receive,
    run_load,
    write_kept_trace,
    write_trace,
)

REPLY = b"HTTP/1.1 200 OK\r\n".ljust(64, b"x")
THREADS = ("pool", "on-demand", "processes")


def run_kept(
    programs: Path, port: int, trace: Path, *options: str
) -> tuple[dict[str, Any], list[Record], list[Record]]:
    """Replay *trace*; return the summary, the records of connections, and those of requests."""
    path = trace.with_suffix(".requests")
    summary, rows = run_load(programs, port, trace, "--requests", str(path), *options)
    requests = read_records(path)
    assert (summary["loop"], len(requests)) == ("kept", summary["requests"]["offered"])
    assert len(requests) == sum(
        summary["requests"][name] for name in ("replied", "timeout", "reset", "open")
    )
    for request in requests:
        times = [t for t in request[:4] if t != NOT_REACHED]
        assert times == sorted(times)
    return summary, rows, requests


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [
        *((mechanism, ()) for mechanism in SERVERS),
        *(("blocking", ("--threads", name, "--workers", "17")) for name in THREADS),
    ],
)
def test_a_server_answers_many_requests_on_each_kept_connection(
    mechanism: str, options: tuple[str, ...], serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism, *options)
    due = [(100_000 * i, i % 16) for i in range(320)]
    trace = write_kept_trace(tmp_path / "t.trace", due, users=16)
    summary, rows, requests = run_kept(programs, server.port, trace)
    assert [request.intended_ns for request in requests] == [due_ns for due_ns, _ in due]
    assert {request.status for request in requests} == {REPLIED}
    assert summary["replies"] == summary["requests"]["replied"] == 320
    # They were open before the first request was due, and stay so.
    assert rows == [Record(0, 0, 0, NOT_REACHED, STILL_OPEN)] * 16
    assert summary["connected"] == summary["errors"]["open"] == 16
    lags_ns = [request.started_ns - request.intended_ns for request in requests]
    assert summary["lag_ns"]["max"] == max(lags_ns)
    eventually(lambda: server.counters()["connections_open"] == 0)
    counters = server.stop()
    assert (counters["accepts"], counters["closes"], counters["replies"]) == (16, 16, 320)


def test_a_request_that_is_due_on_a_busy_connection_waits_at_its_client(
    serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("epoll_level")
    # All of one user are due before a reply can have come, in the middle one of another.
    due = [(0, 0), (0, 0), (0, 1), (0, 0)]
    trace = write_kept_trace(tmp_path / "t.trace", due, users=2)
    replies = tmp_path / "replies"
    summary, _, requests = run_kept(programs, server.port, trace, "--replies", str(replies))
    first, second, other, third = requests
    assert summary["requests"]["waited"] == 2
    assert second.connected_ns >= first.done_ns
    assert third.connected_ns >= second.done_ns
    assert other.connected_ns <= second.connected_ns
    # Waiting does not move when a request was due, nor when the generator got to it.
    assert {request.intended_ns for request in requests} == {0}
    assert third.started_ns <= first.done_ns
    assert server.stop()["accepts"] == 2
    assert len(replies.read_bytes()) == 4 * 24


def test_a_lost_connection_is_opened_again_and_what_waited_is_sent_on_it(
    programs: Path, tmp_path: Path
) -> None:
    trace = write_kept_trace(tmp_path / "t.trace", [(0, 0), (0, 0)], users=1)
    records, requests = tmp_path / "records", tmp_path / "requests"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [
            *(str(programs / "load"), "--port", str(listener.getsockname()[1])),
            *("--trace", str(trace), "--seconds", "30", "--records", str(records)),
            *("--requests", str(requests)),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            first, _ = listener.accept()
            receive(first, 64)
            first.close()
            second, _ = listener.accept()
            receive(second, 64)
            second.sendall(REPLY)
            output, _ = process.communicate(timeout=DEADLINE_S)
            second.close()
    summary = json.loads(output.splitlines()[-1])
    assert process.returncode == 0
    assert [row.status for row in read_records(records)] == [RESET, STILL_OPEN]
    assert [row.status for row in read_records(requests)] == [RESET, REPLIED]
    assert (summary["requests"]["reset"], summary["errors"]["reset"]) == (1, 1)


def test_a_connection_that_has_had_its_requests_is_replaced(
    serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("poll")
    trace = write_kept_trace(tmp_path / "t.trace", [(0, 0)] * 6, users=1, each=2)
    summary, rows, requests = run_kept(programs, server.port, trace)
    assert {request.status for request in requests} == {REPLIED}
    assert [row.status for row in rows[:3]] == [REPLIED] * 3
    assert summary["replied"] == 3
    assert [row.done_ns for row in rows[:3]] == [requests[i].done_ns for i in (1, 3, 5)]


def test_the_patience_of_a_request_begins_when_it_is_due(programs: Path, tmp_path: Path) -> None:
    trace = write_kept_trace(tmp_path / "t.trace", [(0, 0), (0, 0)], users=1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        summary, rows, (sent, waited) = run_kept(programs, port, trace, "--timeout-ms", "300")
    # The connection goes with the request on it; the one behind it was never sent.
    assert (sent.status, waited.status, rows[0].status) == (TIMEOUT, TIMEOUT, TIMEOUT)
    assert sent.connected_ns >= 0
    assert waited.connected_ns == sent.done_ns == NOT_REACHED
    assert summary["requests"]["timeout"] == 2


def test_requests_of_connections_that_cannot_be_opened_fail(programs: Path, tmp_path: Path) -> None:
    trace = write_kept_trace(tmp_path / "t.trace", [(0, 0), (0, 1)], users=2)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, so that no other process listens there
        port = nobody.getsockname()[1]
        summary, rows, requests = run_kept(programs, port, trace, "--timeout-ms", "50")
    assert rows[:2] == [Record(0, 0, NOT_REACHED, NOT_REACHED, REFUSED)] * 2
    assert summary["errors"]["refused"] == len(rows)
    assert {(row.connected_ns, row.status) for row in requests} == {(NOT_REACHED, TIMEOUT)}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        options = ("--timeout-ms", "300", "--fd-limit", "1")
        summary, rows, _ = run_kept(programs, port, trace, *options)
    assert [row.status for row in rows[:2]] == [TIMEOUT, DESCRIPTORS]
    assert rows[1].connected_ns == NOT_REACHED


def test_a_held_replay_begins_by_a_line(serve: Serve, programs: Path, tmp_path: Path) -> None:
    server = serve("epoll_level")
    trace = write_kept_trace(tmp_path / "t.trace", [(0, i) for i in range(5)], users=5)
    gaps = tmp_path / "gaps"
    command = [str(programs / "load"), "--port", str(server.port), "--trace", str(trace), "--held"]
    with subprocess.Popen(
        [*command, "--gaps", str(gaps)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "opened 5\n"
        eventually(lambda: server.counters()["connections_open"] == 5)
        assert server.counters()["reads"] == 0
        time.sleep(0.05)  # it is held, and sleeps a millisecond at a time: none of that is a gap
        output, _ = process.communicate("\n", timeout=DEADLINE_S)
    first, last = output.splitlines()
    assert first.startswith("start ")
    summary = json.loads(last)
    assert summary["requests"]["replied"] == 5
    rows = list(struct.iter_unpack("<2q", gaps.read_bytes()))
    assert [at_ns for at_ns, _ in rows] == sorted(at_ns for at_ns, _ in rows)
    assert summary["gaps"]["lost_ns"] <= summary["wall_ns"]


def test_a_replay_ends_by_its_time_with_requests_on_the_way(programs: Path, tmp_path: Path) -> None:
    due = [(0, 0), (0, 0), (3_600_000_000_000, 0)]
    trace = write_kept_trace(tmp_path / "t.trace", due, users=1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        summary, _, requests = run_kept(programs, port, trace, "--seconds", "0.2")
    # The third was never due: it is not offered.
    assert [row.status for row in requests] == [STILL_OPEN, STILL_OPEN]
    assert summary["requests"]["open"] == 2


def test_options_that_the_loop_has_no_use_for_are_refused(programs: Path, tmp_path: Path) -> None:
    kept = write_kept_trace(tmp_path / "kept.trace", [(0, 0)], users=1)
    plain = write_trace(tmp_path / "open.trace", [(0, 1, 64, 64, 0)])
    load = ("load", "--port", "1", "--trace")
    assert_refused(
        programs,
        (*load, str(kept), "--retries", "2"),
        "load: --retries must be 0 for kept connections, which are reopened, got 2",
    )
    assert_refused(
        programs,
        (*load, str(plain), "--requests", "r"),
        'load: --requests must be absent without kept connections, got "r"',
    )
    assert_refused(
        programs,
        (*load, str(plain), "--held"),
        "load: --held must be absent without kept connections",
    )
