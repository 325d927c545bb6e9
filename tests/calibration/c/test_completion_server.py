"""The C server of completions: what only it does."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

from tests.calibration.c.c_programs import (
    Serve,
    assert_all_replied,
    assert_counters_agree,
    end_sending,
    eventually,
    fetch,
    receive,
    run_load,
    write_trace,
)

PIECE_BYTES = 64 + 65536


def reset(connection: socket.socket) -> None:
    """Close *connection* with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_connection_is_two_completions(serve: Serve) -> None:
    server = serve("io_uring")
    for _ in range(5):
        with server.connect() as connection:
            fetch(connection, 100)
    counters = server.stop()
    assert_counters_agree(counters, connections=5, requests=5)
    assert counters["events"] == 10
    asked = ("accept_again", "read_again", "rewatches", "asks", "updates")
    assert {counters[name] for name in asked} == {0}


def test_a_long_reply_is_sent_in_pieces_and_then_a_request_received(serve: Serve) -> None:
    server = serve("io_uring", "--send-buffer", "4096")
    with server.connect() as connection:
        for asked_bytes in (PIECE_BYTES, PIECE_BYTES + 1, PIECE_BYTES + 2 * 65536):
            fetch(connection, asked_bytes, minor=1)
        fetch(connection, PIECE_BYTES - 1)
    counters = server.stop()
    assert_counters_agree(counters, connections=1, requests=4)
    assert counters["writes"] == 1 + 2 + 3 + 1


def test_who_goes_away_amid_a_reply_is_closed(serve: Serve) -> None:
    server = serve("io_uring", "--send-buffer", "4096")
    for minor in (0, 1):
        for asked_bytes in (60_000, 3_000_000):
            connection = server.connect()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET /{asked_bytes} HTTP/1.{minor}\r\n\r\n".encode())
            receive(connection, 64)
            reset(connection)
    eventually(lambda: server.counters()["connections_open"] == 0)
    with server.connect() as connection:
        fetch(connection, 100)
    counters = server.stop()
    assert counters["closes"] == counters["accepts"] == 5
    assert counters["writes"] - counters["write_short"] == counters["replies"]


def test_descriptors_are_free_again_after_replies_that_failed(serve: Serve) -> None:
    server = serve("io_uring", "--fd-limit", "16", "--send-buffer", "4096")
    for _ in range(40):
        connection = server.connect()
        connection.sendall(b"GET /60000 HTTP/1.0\r\n\r\n")
        receive(connection, 64)
        reset(connection)
    with server.connect() as connection:
        fetch(connection, 100)
    assert server.stop()["accepts"] == 41


def test_more_completions_than_one_wait_gives_are_given_by_the_next(
    serve: Serve, programs: Path, tmp_path: Path
) -> None:
    server = serve("io_uring", "--max-events", "2", "--backlog", "64")
    trace = write_trace(tmp_path / "t.trace", [(0, 1 + i % 2, 64, 64, 0) for i in range(40)])
    summary, rows = run_load(programs, server.port, trace)
    assert_all_replied(summary, rows, replies=60)
    counters = server.stop()
    assert_counters_agree(counters, connections=40, requests=60)
    assert counters["waits"] >= counters["events"] / 2


def test_a_request_may_come_in_pieces_and_end_in_the_middle(serve: Serve) -> None:
    server = serve("io_uring")
    with server.connect() as connection:
        for piece in (b"GET /10", b"0 HTTP/1.1\r\n", b"X: y\r\n", b"\r\n"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(piece)
        receive(connection, 100)
        fetch(connection, 70)
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"GET /100 HT")
        end_sending(connection)
        assert connection.recv(100) == b""
    assert_counters_agree(server.stop(), connections=2, requests=2)
