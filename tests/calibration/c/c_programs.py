"""What the tests of the C programs share: a server, a replay, idle connections, and the laws.

Nothing here judges a duration: `eventually` waits for a state and fails if it never comes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CALIBRATION = Path(__file__).parents[3] / "calibration/c"
# What a Linux of today can do, and what needs a kernel or a module of
# calibration/emulated/kernel_mechanisms/.
SIGNAL_MECHANISMS = ("rt_signals", "signalfd")
MECHANISMS_OF_CHANGES = ("epoll_edge", *SIGNAL_MECHANISMS)
MECHANISMS = (
    "select",
    "poll",
    "epoll_level",
    "epoll_oneshot",
    "epoll_close",
    "epoll_once",
    *MECHANISMS_OF_CHANGES,
    "aio_poll",
)
SERVERS = (*MECHANISMS, "io_uring")
"""With the one whose loop is not the event loop, and serves one connection after the other."""
UNMERGED_MECHANISMS = ("epoll_ctlv", "signal_per_fd", "sigtimedwait4", "dev_poll")
HEADER_BYTES = 64
DEADLINE_S = 20.0

# The columns and states of the records, as calibration/README.md has them.
REPLIED, TIMEOUT, REFUSED, RESET, DESCRIPTORS, STILL_OPEN = range(6)
NOT_REACHED = -1


class Record(NamedTuple):
    """One row of the records file."""

    intended_ns: int
    started_ns: int
    connected_ns: int
    done_ns: int
    status: int


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds; fail if it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "what was waited for never happened"
        time.sleep(0.002)


class UnavailableError(RuntimeError):
    """This machine does not let programs use the mechanism."""


class Server:
    """A running server, its port and its counters."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        mechanism: str,
        *options: str,
        prefix: Sequence[str] = (),
    ) -> None:
        self.counters_path = folder / "counters"
        binary = str(programs / "server")
        layout = subprocess.run(
            [binary, "--counters-layout"], capture_output=True, text=True, timeout=20, check=True
        )
        self.names = layout.stdout.split()
        self.process = subprocess.Popen(
            [
                *(*prefix, binary, "--mechanism", mechanism, "--port", "0", "--seconds-max", "60"),
                *("--fd-limit", "1024", "--counters", str(self.counters_path), *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            _, errors = self.process.communicate(timeout=DEADLINE_S)
            raise UnavailableError(errors.strip())
        word, port = line.split()
        assert word == "ready"
        self.port = int(port)

    def counters(self) -> dict[str, int]:
        """Return what the server has done so far."""
        values = struct.unpack(f"<{len(self.names)}Q", self.counters_path.read_bytes())
        return dict(zip(self.names, values, strict=True))

    def stop(self) -> dict[str, int]:
        """End the server by SIGTERM, check that it ended well, return its last counters."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        assert (self.process.returncode, errors) == (0, "")
        return self.counters()

    def connect(self) -> socket.socket:
        """Return a new connection to the server."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)


Serve = Callable[..., Server]


def write_trace(path: Path, rows: list[tuple[int, int, int, int, int]], *, users: int = 0) -> Path:
    """Write a trace of *rows*: open, or closed if there are users."""
    header = ["# dispatchsim trace 1", f"loop {'closed' if users else 'open'}", f"users {users}"]
    lines = [*header, f"connections {len(rows)}", *(" ".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_kept_trace(
    path: Path, requests: list[tuple[int, int]], *, users: int, each: int = 2**31 - 1
) -> Path:
    """Write a trace of *users* who keep connections for *each* requests, 64 B there and back.

    *requests* are pairs of due time and user.
    """
    header = ["# dispatchsim trace 1", "loop kept", f"users {users}", "connections 1"]
    lines = [*header, f"0 {each} 64 64 0", f"requests {len(requests)}"]
    path.write_text("\n".join([*lines, *(f"{due_ns} {user}" for due_ns, user in requests), ""]))
    return path


def read_records(path: Path) -> list[Record]:
    """Return the rows of a records file, or of one of requests."""
    return [Record(*row) for row in struct.iter_unpack("<5q", path.read_bytes())]


def run_load(
    programs: Path, port: int, trace: Path, *options: str, program: Sequence[str] = ()
) -> tuple[dict[str, Any], list[Record]]:
    """Replay *trace*, by `load` or the command *program*; return the summary and the records."""
    records = trace.with_suffix(".records")
    finished = subprocess.run(
        [
            *(*(program or [str(programs / "load")]), "--port", str(port), "--trace", str(trace)),
            *("--seconds", "30", "--fd-limit", "512", "--records", str(records), *options),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    first, last = finished.stdout.splitlines()
    summary: dict[str, Any] = json.loads(last)
    assert first == f"start {summary['start_monotonic_ns']}"
    rows = read_records(records)
    assert len(rows) == summary["offered"]
    assert not records.with_name(records.name + ".tmp").exists()
    return summary, rows


def assert_all_replied(summary: dict[str, Any], rows: list[Record], *, replies: int) -> None:
    """Check that every connection was served, and that its times are in order."""
    assert {record.status for record in rows} == {REPLIED}
    assert summary["replied"] == summary["connected"] == len(rows)
    assert summary["replies"] == replies
    assert not any(summary["errors"].values())
    for record in rows:
        times = record[:4]
        assert times[0] >= 0
        assert list(times) == sorted(times)


def assert_counters_agree(counters: dict[str, int], *, connections: int, requests: int) -> None:
    """Check the laws that hold once a server has ended."""
    assert counters["accepts"] == counters["closes"] == connections
    assert counters["watches"] == counters["unwatches"] == connections
    assert counters["replies"] == requests
    assert counters["connections_open"] == 0
    assert counters["writes"] - counters["write_short"] == requests
    assert counters["reads"] >= requests
    assert counters["accept_no_fd"] == 0
    # A wait without end returns with an event, because of the signal that ends the server, or with
    # what only the mechanism epoll_once is told and does not want.
    assert counters["waits"] <= counters["events"] + counters["notices_unwanted"] + 2
    assert counters["notices_unwanted"] <= counters["notices"]


def expected_reply(reply_bytes: int) -> tuple[bytes, bytes]:
    """Return how a reply must begin, and its body."""
    body_bytes = reply_bytes - HEADER_BYTES
    block = bytes(ord("a") + i % 26 for i in range(65536))
    body = (block * (body_bytes // len(block) + 1))[:body_bytes]
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % body_bytes, body


def receive(connection: socket.socket, n_bytes: int) -> bytes:
    """Return exactly *n_bytes*."""
    received = b""
    while len(received) < n_bytes:
        part = connection.recv(n_bytes - len(received))
        assert part, f"the end came after {len(received)} of {n_bytes} bytes"
        received += part
    return received


def fetch(connection: socket.socket, asked_bytes: int, *, minor: int = 0) -> None:
    """Ask for one reply and check every byte of it, and that HTTP/1.0 ends the connection."""
    connection.sendall(b"GET /%d HTTP/1.%d\r\n\r\n" % (asked_bytes, minor))
    reply = receive(connection, max(asked_bytes, HEADER_BYTES))
    beginning, body = expected_reply(len(reply))
    assert reply.startswith(beginning)
    assert reply[HEADER_BYTES - 4 : HEADER_BYTES] == b"\r\n\r\n"
    assert reply[HEADER_BYTES:] == body
    if minor == 0:
        assert connection.recv(1) == b""


def end_sending(connection: socket.socket) -> None:
    """Say that nothing more will come, unless the other side has gone already."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


def assert_refused(programs: Path, command: tuple[str, ...], message: str) -> None:
    """Check that the program ends for its options, and says *message* and nothing else."""
    finished = subprocess.run(
        [str(programs / command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (2, "", message + "\n")


@contextlib.contextmanager
def hold_idle(
    programs: Path, port: int, connections: int, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Yield a running holder that has said it is ready."""
    command = [str(programs / "idle"), "--port", str(port), "--connections", str(connections)]
    with subprocess.Popen(
        [*command, "--seconds-max", "60", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"ready {connections}\n"
            yield process
        finally:
            process.kill()
