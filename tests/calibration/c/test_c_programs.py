"""The server, the load generator and the holder of idle connections keep their contract.

The programs are built once a session with the address and undefined sanitizers, and talk over
loopback.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import signal
import socket
import struct
import subprocess
from pathlib import Path

import pytest
from tests.calibration.c.c_programs import (
    DEADLINE_S,
    DESCRIPTORS,
    MECHANISMS,
    MECHANISMS_OF_CHANGES,
    NOT_REACHED,
    REFUSED,
    RESET,
    SERVERS,
    STILL_OPEN,
    TIMEOUT,
    UNMERGED_MECHANISMS,
    Serve,
    assert_all_replied,
    assert_counters_agree,
    end_sending,
    eventually,
    fetch,
    hold_idle,
    read_records,
    receive,
    run_load,
    write_trace,
)


@pytest.mark.parametrize("mechanism", SERVERS)
def test_an_open_trace_is_served(
    mechanism: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism)
    trace = write_trace(tmp_path / "t.trace", [(i * 20_000, 1, 64, 128, 0) for i in range(300)])
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=300)
    assert [record.intended_ns for record in rows] == [i * 20_000 for i in range(300)]
    assert summary["lag_ns"]["max"] == max(r.started_ns - r.intended_ns for r in rows)
    assert_counters_agree(server.stop(), connections=300, requests=300)


@pytest.mark.parametrize("mechanism", SERVERS)
def test_a_closed_trace_is_served(
    mechanism: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism)
    rows_of_trace = [(0, 1, 64, 128, 0), (0, 1, 200, 5000, 1000)]
    trace = write_trace(tmp_path / "t.trace", rows_of_trace, users=8)
    summary, rows = run_load(programs, server.port, trace, "--connections-max", "300")
    assert summary["truncated"]
    assert_all_replied(summary, rows, replies=300)
    assert_counters_agree(server.stop(), connections=300, requests=300)


@pytest.mark.parametrize("mechanism", SERVERS)
def test_a_connection_carries_several_requests(
    mechanism: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism)
    trace = write_trace(
        tmp_path / "t.trace", [(i * 10_000, 3, 5000, 700, 50_000 * (i % 2)) for i in range(60)]
    )
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=180)
    assert all(r.done_ns - r.started_ns >= 100_000 for r in rows[1::2])
    assert_counters_agree(server.stop(), connections=60, requests=180)


@pytest.mark.parametrize("mechanism", SERVERS)
def test_a_large_reply_passes_a_small_send_buffer(
    mechanism: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism, "--send-buffer", "4096")
    with server.connect() as connection:
        for asked_bytes in (1 << 20, 64, 200_000):
            fetch(connection, asked_bytes, minor=1)
        fetch(connection, 1 << 20)
    trace = write_trace(tmp_path / "t.trace", [(0, 2, 64, 1 << 20, 0)] * 3)
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=6)
    counters = server.stop()
    assert_counters_agree(counters, connections=4, requests=10)
    assert counters["write_short"] > 0
    assert counters["rewatches"] > 0 or mechanism == "io_uring"  # which watches for itself


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "options",
    [
        ("--accept-limit", "1"),
        ("--accept-limit", "3", "--listener", "last"),
        ("--listener", "last", "--read-after-accept"),
        ("--accept-limit", "2", "--max-events", "2", "--read-after-accept", "--backlog", "64"),
    ],
)
def test_every_strategy_serves_all(
    mechanism: str, options: tuple[str, ...], serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism, *options)
    trace = write_trace(tmp_path / "t.trace", [(0, 1 + i % 2, 64, 64, 0) for i in range(40)])
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=60)
    counters = server.stop()
    assert_counters_agree(counters, connections=40, requests=60)
    # What is told once has to be tried until it blocks, also by a server that takes one a time.
    if options[:2] == ("--accept-limit", "1") and mechanism not in MECHANISMS_OF_CHANGES:
        assert counters["accept_again"] == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_read_after_accept_tries_before_there_is_anything(mechanism: str, serve: Serve) -> None:
    server = serve(mechanism, "--read-after-accept")
    with server.connect() as connection:
        eventually(lambda: server.counters()["read_again"] == 1)
        fetch(connection, 100)
    assert_counters_agree(server.stop(), connections=1, requests=1)


@pytest.mark.parametrize("mechanism", SERVERS)
def test_idle_connections_are_held_and_let_go(
    mechanism: str, serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve(mechanism)
    with hold_idle(programs, server.port, 200) as idle:
        eventually(lambda: server.counters()["connections_open"] == 200)
        trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 128, 0)] * 50)
        summary, rows = run_load(programs, server.port, trace)
        assert_all_replied(summary, rows, replies=50)
        output, errors = idle.communicate(timeout=DEADLINE_S)
        assert (idle.returncode, errors) == (0, "")
        assert json.loads(output) == {"connections": 200, "reopened": 0, "dead": 0}
    eventually(lambda: server.counters()["connections_open"] == 0)
    assert_counters_agree(server.stop(), connections=250, requests=50)


@pytest.mark.parametrize("mechanism", SERVERS)
def test_sigterm_closes_what_is_open(mechanism: str, serve: Serve) -> None:
    server = serve(mechanism)
    with server.connect(), server.connect():
        eventually(lambda: server.counters()["connections_open"] == 2)
        assert_counters_agree(server.stop(), connections=2, requests=0)


@pytest.mark.parametrize("mechanism", SERVERS)
def test_a_server_out_of_descriptors_serves_again_when_some_are_free(
    mechanism: str, serve: Serve
) -> None:
    server = serve(mechanism, "--fd-limit", "16")
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(30)]
        eventually(lambda: server.counters()["accept_no_fd"] > 0)
        assert server.counters()["connections_open"] < 16
        for connection in connections[:20]:
            connection.close()
        fetch(connections[29], 100)
    server.stop()


@pytest.mark.parametrize("mechanism", SERVERS)
def test_garbage_closes_the_connection_and_nothing_else(mechanism: str, serve: Serve) -> None:
    server = serve(mechanism)
    rng = random.Random(7)
    garbage = [rng.randbytes(rng.randrange(1, 9000)) for _ in range(20)]
    garbage += [
        *(b"\r\n", b"\n\n\n", b"GET /\r\n\r\n", b"GET /x HTTP/1.0\r\n\r\n", b"\0" * 5000),
        *(b"GET /1 HTTP/1.2\r\n\r\n", b"GET /1 HTTP/1.0 \r\n\r\n", b"GET /-1 HTTP/1.0\r\n\r\n"),
        *(b"GET /" + b"9" * 40 + b" HTTP/1.0\r\n\r\n", b"GET /1073741825 HTTP/1.0\r\n\r\n"),
        *(b"GET /" + b"a" * 100_000, b"POST /1 HTTP/1.0\r\n\r\n", b"GET /1" + b"\r" * 60),
    ]
    for text in garbage:
        # The server may answer with a reset, at any of these calls.
        with server.connect() as connection, contextlib.suppress(ConnectionError):
            connection.sendall(text)
            end_sending(connection)
            assert connection.recv(100) == b""
    for text in (b"", b"GET /100 HTT", b"GET /100 HTTP/1.0\r\nX: y\r\n"):
        with server.connect() as connection:  # half a request, then the end
            connection.sendall(text)
            end_sending(connection)
            assert connection.recv(100) == b""
    with server.connect() as connection:
        fetch(connection, 100)
    counters = server.stop()
    assert_counters_agree(counters, connections=len(garbage) + 4, requests=1)


def test_a_request_may_come_byte_by_byte_and_others_behind_it_are_dropped(serve: Serve) -> None:
    server = serve("epoll_level")
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /77 HTTP/1.1\r\nPadding: x\r\n\r":
            connection.sendall(bytes([byte]))
        assert server.counters()["replies"] == 0
        connection.sendall(b"\n" + b"GET /99 HTTP/1.1\r\n\r\n")
        assert len(receive(connection, 77)) == 77
        fetch(connection, 50)
    assert server.stop()["replies"] == 2


def test_the_lists_name_the_mechanisms_and_the_counters(programs: Path, serve: Serve) -> None:
    listed = subprocess.run(
        [str(programs / "server"), "--list"], capture_output=True, text=True, check=True
    )
    assert sorted(listed.stdout.split()) == sorted((*SERVERS, *UNMERGED_MECHANISMS, "blocking"))
    server = serve("poll")
    assert server.counters_path.stat().st_size == 8 * len(server.names)
    assert set(server.counters().values()) <= {0, 1}


# ------------------------------------------------------------------ idle connections


def test_a_lost_idle_connection_is_reported(programs: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        hold_idle(programs, listener.getsockname()[1], 3) as idle,
    ):
        accepted = [listener.accept()[0] for _ in range(3)]
        accepted[0].close()
        assert idle.stderr is not None
        assert idle.stderr.readline() == "idle: the server closed an idle connection\n"
        output, _ = idle.communicate(timeout=DEADLINE_S)
        assert json.loads(output) == {"connections": 2, "reopened": 0, "dead": 1}
        assert idle.returncode == 1
        for connection in accepted[1:]:
            connection.close()


def test_a_lost_idle_connection_is_reopened(programs: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        hold_idle(programs, listener.getsockname()[1], 3, "--reopen") as idle,
    ):
        accepted = [listener.accept()[0] for _ in range(3)]
        accepted[1].close()
        accepted.append(listener.accept()[0])
        output, errors = idle.communicate(timeout=DEADLINE_S)
        assert json.loads(output) == {"connections": 3, "reopened": 1, "dead": 0}
        assert (idle.returncode, errors) == (0, "")
        for connection in accepted:
            connection.close()


# ------------------------------------------------------------------ what can go wrong


def test_a_refused_connection_is_recorded(programs: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 2)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, so that no other process listens there
        summary, rows = run_load(programs, nobody.getsockname()[1], trace)
    assert [record.status for record in rows] == [REFUSED, REFUSED]
    assert summary["errors"]["refused"] == 2
    assert all(record.connected_ns == record.done_ns == NOT_REACHED for record in rows)


def test_silence_ends_in_a_timeout_and_the_limit_in_want_of_descriptors(
    programs: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        summary, rows = run_load(
            programs, silent.getsockname()[1], trace, "--timeout-ms", "100", "--fd-limit", "1"
        )
    assert [record.status for record in rows] == [TIMEOUT, DESCRIPTORS, DESCRIPTORS]
    assert rows[0].connected_ns >= 0
    assert rows[1].started_ns == NOT_REACHED
    assert summary["errors"]["timeout"] == 1
    assert summary["errors"]["descriptors"] == 2


def test_a_failed_connection_is_tried_again_and_given_up(programs: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)])
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, so that no other process listens there
        port = nobody.getsockname()[1]
        at_once, rows = run_load(programs, port, trace, "--retries", "2")
        doubling = ("--retries", "3", "--retry-after-ms", "2", "--retry-doubles")
        paused, paused_rows = run_load(programs, port, trace, *doubling)
    assert [record.status for record in rows] == [REFUSED] * 3
    assert (at_once["retries"], at_once["given_up"], at_once["errors"]["refused"]) == (2, 1, 3)
    assert (paused["retries"], paused["given_up"]) == (3, 1)
    # A try is intended at the end of its pause, which begins when the failure is seen.
    starts_ns = [record.intended_ns for record in paused_rows]
    pauses_ns = [later - earlier for earlier, later in itertools.pairwise(starts_ns)]
    assert all(pause_ns >= 2_000_000 << i for i, pause_ns in enumerate(pauses_ns)), pauses_ns


def test_a_try_has_the_patience_of_the_first_one(programs: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        options = ("--timeout-ms", "50", "--retries", "1")
        summary, rows = run_load(programs, port, trace, *options)
    assert [record.status for record in rows] == [TIMEOUT] * 4
    assert (summary["offered"], summary["retries"], summary["given_up"]) == (4, 2, 2)
    assert all(record.intended_ns >= 50_000_000 for record in rows[2:])


def test_a_reply_ends_the_tries(serve: Serve, programs: Path, tmp_path: Path) -> None:
    server = serve("epoll_level")
    trace = write_trace(tmp_path / "t.trace", [(0, 2, 64, 64, 0)] * 20)
    summary, rows = run_load(programs, server.port, trace, "--retries", "5")
    assert_all_replied(summary, rows, replies=40)
    assert (summary["retries"], summary["given_up"]) == (0, 0)


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\n", b"SSH-2.0-" + b"x" * 56, b"H" * 65])
def test_a_broken_reply_is_a_reset(reply: bytes, programs: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        records = tmp_path / "records"
        with subprocess.Popen(
            [
                *(str(programs / "load"), "--port", str(listener.getsockname()[1])),
                *("--trace", str(trace), "--seconds", "30", "--records", str(records)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            connection, _ = listener.accept()
            receive(connection, 64)
            connection.sendall(reply)
            connection.close()
            output, _ = process.communicate(timeout=DEADLINE_S)
    assert [record.status for record in read_records(records)] == [RESET]
    assert json.loads(output.splitlines()[-1])["errors"]["reset"] == 1


def test_an_interrupted_replay_writes_its_records(
    serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("epoll_level")
    trace = write_trace(tmp_path / "t.trace", [(0, 2, 64, 64, 10**12)], users=3)
    records = tmp_path / "records"
    with subprocess.Popen(
        [
            *(str(programs / "load"), "--port", str(server.port), "--trace", str(trace)),
            *("--seconds", "60", "--timeout-ms", "60000", "--records", str(records)),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        eventually(lambda: server.counters()["replies"] == 3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert [record.status for record in read_records(records)] == [STILL_OPEN] * 3
    assert json.loads(output.splitlines()[-1])["errors"]["open"] == 3


def test_comments_blank_lines_and_carriage_returns_are_no_content(
    serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("poll")
    trace = tmp_path / "t.trace"
    trace.write_bytes(
        b"# dispatchsim trace 1\r\n\r\n  loop  open # why not\nusers 0\n#" + b"x" * 5000 + b"\n"
        b"connections 2\n\n0 1 64 0 0 # the smallest reply\r\n\t0 1 32 100 0"
    )
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=2)
    assert_counters_agree(server.stop(), connections=2, requests=2)


def test_the_gaps_of_a_generator_lie_in_its_run(
    serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("epoll_level")
    trace = write_trace(tmp_path / "t.trace", [(100_000 * i, 1, 64, 64, 0) for i in range(500)])
    path = tmp_path / "gaps"
    summary, _ = run_load(programs, server.port, trace, "--gaps", str(path))
    rows = list(struct.iter_unpack("<2q", path.read_bytes()))
    gaps = summary["gaps"]
    assert gaps["above_ns"] == 20_000
    assert len(rows) <= gaps["n"]
    assert sum(length_ns for _, length_ns in rows) <= gaps["lost_ns"] <= summary["wall_ns"]
    for (begin_ns, length_ns), (later_ns, _) in itertools.pairwise([*rows, (2**62, 0)]):
        assert length_ns > 20_000
        assert begin_ns + length_ns <= later_ns
