"""The load generator speaks HTTP, and the text protocols of memcached and Redis."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.calibration.c.c_programs import (
    DEADLINE_S,
    REPLIED,
    RESET,
    run_load,
    write_trace,
)

GOOD = {
    "http/1.0": b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length:  5\r\n\r\nhello",
    "http/1.1": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"a;x=1\r\n0123456789\r\n1\r\nz\r\n0\r\nTrailer: 1\r\n\r\n",
    "memcached": b"VALUE key:0 0 11\r\nEND\r\nxEND\r\n\r\nEND\r\n",
    "resp": b"$7\r\n$-1\r\nab\r\n",
}
"""Whole answers, in which what ends other parts occurs, too."""
ERRORS = {
    "http/1.0": b"HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
    "http/1.1": b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
    "memcached": b"END\r\n",
    "resp": b"-ERR unknown\r\n",
}
"""Whole answers that say that there is none."""
UNCOMMON = [
    ("http/1.1", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", "k"),
    ("http/1.1", b"HTTP/1.1 204 No Content\r\n\r\n", "k"),
    ("http/1.1", b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD["http/1.1"], "k"),
    (
        "http/1.0",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 400 + b"\r\nContent-Length: 1\r\n\r\nz",
        "k",
    ),
    (
        "memcached",
        b"VALUE " + b"k" * 100 + b"0 0 1024\r\n" + b"x" * 1024 + b"\r\nEND\r\n",
        "k" * 100,
    ),
    ("memcached", b"VALUE ERROR:0 0 1\r\nx\r\nEND\r\n", "ERROR:"),
]
"""Whole answers that are rare: no body, two in a row, long lines, names of errors in keys."""
INVALID = {
    "http/1.0": [b"HTTP/2 200\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n", b"hello\n"],
    "http/1.1": [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 99 Early\r\n\r\n",
    ],
    "memcached": [
        b"VALUE key:0 0 x\r\n",
        b"VALUE " + b"k" * 185 + b" 0 1024\r\n",
        b"STORED\r\n",
        b"END\r\nEND\r\n",
    ],
    "resp": [b"*1\r\n", b"$9999999999999999\r\n", b"+OK\r\n+OK\r\n"],
}
REQUESTS = {
    "http/1.0": b"GET /a?b=1 HTTP/1.0\r\nHost: there\r\n\r\n",
    "http/1.1": b"GET /a?b=1 HTTP/1.1\r\nHost: there\r\nConnection: close\r\n\r\n",
    "memcached": b"get k0\r\n",
    "resp": b"*2\r\n$3\r\nGET\r\n$2\r\nk0\r\n",
}
OPTIONS = ("--path", "/a?b=1", "--host", "there", "--key-prefix", "k")
PROTOCOLS = sorted(GOOD)


class Scripted:
    """A server that answers each request with *answer*, in pieces of *n* bytes."""

    def __init__(self, answer: bytes, n: int, *, closes: bool) -> None:
        self.answer, self.n, self.closes = answer, n, closes
        self.requests: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def serve(self) -> None:
        """Serve one connection after the other until the listener is shut."""
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(ConnectionError):
                connection.settimeout(DEADLINE_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        while request := connection.recv(4096):
            self.requests.append(request)
            for at in range(0, len(self.answer), self.n):
                connection.sendall(self.answer[at : at + self.n])
            if self.closes:
                return


@contextlib.contextmanager
def scripted(answer: bytes, n: int, *, closes: bool = False) -> Iterator[Scripted]:
    """Yield a server that runs until the end of the block."""
    server = Scripted(answer, n, closes=closes)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        thread.join(DEADLINE_S)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("n", [1, 3, 1000])
def test_an_answer_in_pieces_is_whole_when_its_last_byte_has_come(
    protocol: str, n: int, programs: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 3, 64, 64, 0)])
    with scripted(GOOD[protocol], n) as server:
        summary, rows = run_load(programs, server.port, trace, "--protocol", protocol, *OPTIONS)
    assert [record.status for record in rows] == [REPLIED]
    assert (summary["replies"], summary["error_replies"], summary["protocol"]) == (3, 0, 0)
    assert server.requests[-1] == REQUESTS[protocol]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_says_no_is_an_answer_and_counted(
    protocol: str, programs: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 2, 64, 64, 0)])
    with scripted(ERRORS[protocol], 2) as server:
        summary, rows = run_load(programs, server.port, trace, "--protocol", protocol, *OPTIONS)
    assert [record.status for record in rows] == [REPLIED]
    assert (summary["replies"], summary["error_replies"]) == (2, 2)


@pytest.mark.parametrize(("protocol", "answer", "prefix"), UNCOMMON)
def test_rare_answers_are_whole_when_they_are(
    protocol: str, answer: bytes, prefix: str, programs: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 2, 64, 64, 0)])
    with scripted(answer, 7) as server:
        options = ("--protocol", protocol, "--key-prefix", prefix)
        summary, rows = run_load(programs, server.port, trace, *options)
    assert [record.status for record in rows] == [REPLIED]
    assert (summary["replies"], summary["error_replies"]) == (2, 0)


@pytest.mark.parametrize(
    ("protocol", "answer"), [(name, answer) for name in PROTOCOLS for answer in INVALID[name]]
)
def test_what_is_not_of_the_protocol_is_a_reset(
    protocol: str, answer: bytes, programs: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)])
    with scripted(answer, 1000) as server:
        summary, rows = run_load(programs, server.port, trace, "--protocol", protocol)
    assert [record.status for record in rows] == [RESET]
    assert summary["protocol"] == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_that_is_cut_is_a_reset(protocol: str, programs: Path, tmp_path: Path) -> None:
    answer = GOOD[protocol]
    for end in range(1, len(answer), 7):
        trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)])
        with scripted(answer[:end], 1000, closes=True) as server:
            _, rows = run_load(programs, server.port, trace, "--protocol", protocol)
        assert [record.status for record in rows] == [RESET]


def test_a_body_without_a_length_ends_with_its_connection(programs: Path, tmp_path: Path) -> None:
    answer = b"HTTP/1.0 200 OK\r\n\r\nas long as it takes"
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 3)
    with scripted(answer, 5, closes=True) as server:
        summary, rows = run_load(programs, server.port, trace, "--protocol", "http/1.0")
    assert [record.status for record in rows] == [REPLIED] * 3
    assert summary["replies"] == 3


def test_what_was_still_to_be_asked_of_a_server_that_closes_is_a_reset(
    programs: Path, tmp_path: Path
) -> None:
    answer = b"HTTP/1.1 200 OK\r\n\r\nbody"
    trace = write_trace(tmp_path / "t.trace", [(0, 2, 64, 64, 0)])
    with scripted(answer, 1000, closes=True) as server:
        summary, rows = run_load(programs, server.port, trace, "--protocol", "http/1.1")
    assert [record.status for record in rows] == [RESET]
    assert summary["replies"] == 1


def test_each_reply_of_a_kept_connection_has_a_row(programs: Path, tmp_path: Path) -> None:
    think_ns = 3_000_000
    trace = write_trace(tmp_path / "t.trace", [(0, 3, 64, 64, think_ns)])
    path = tmp_path / "replies"
    with scripted(ERRORS["resp"], 1000) as server:
        _, rows = run_load(
            programs, server.port, trace, "--protocol", "resp", "--replies", str(path)
        )
    replies = [*struct.iter_unpack("<3q", path.read_bytes())]
    due, done, errors = zip(*replies, strict=True)
    assert errors == (1, 1, 1)
    assert due[0] == rows[0].intended_ns
    # Thinking begins with the last byte of the reply before.
    assert due[1:] == (done[0] + think_ns, done[1] + think_ns)
    assert done[2] == rows[0].done_ns
    assert all(later > earlier for earlier, later in zip(due, done, strict=True))


def test_keys_take_turns(programs: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 4, 64, 64, 0)])
    with scripted(GOOD["resp"], 1000) as server:
        run_load(programs, server.port, trace, "--protocol", "resp", "--keys", "3")
    keys = [request.split(b"\r\n")[4] for request in server.requests]
    assert keys == [b"key:0", b"key:1", b"key:2", b"key:0"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--protocol", "gopher"), '--protocol must be micro, http/1.0, .* got "gopher"'),
        (("--path", "/a b"), "--path must be printable characters without blanks"),
        (("--host", "x\r\nEvil: 1"), "--host must be printable characters without blanks"),
        (("--key-prefix", ""), "--key-prefix must be 1 to 100 characters, got 0"),
        (("--path", "/" * 1001), "--path must be 1 to 1000 characters, got 1001"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    options: tuple[str, ...], rule: str, programs: Path, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)])
    command = [str(programs / "load"), "--port", "9", "--trace", str(trace), *options]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 2
    assert len(finished.stderr.splitlines()) == 1
    assert re.search(rule, finished.stderr), finished.stderr
