"""The load generator without sockets: its packets, and what it does with those of a server."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.calibration.c.c_programs import (
    DEADLINE_S,
    NOT_REACHED,
    REFUSED,
    REPLIED,
    RESET,
    STILL_OPEN,
    TIMEOUT,
    Record,
    Server,
    assert_all_replied,
    assert_refused,
    eventually,
    read_records,
    run_load,
    write_kept_trace,
    write_trace,
)

from dispatchsim.calibration.testbed.testbed import Testbed

PORT = 8080


class FarEnd:
    """A testbed whose clients are far_end, and what is started in it."""

    def __init__(self, testbed: Testbed, programs: Path, folder: Path) -> None:
        self.testbed, self.programs, self.folder = testbed, programs, folder
        self.servers: list[Server] = []

    def serve(self, *options: str) -> Server:
        """Return a server, at the address that far_end reaches."""
        server = Server(
            self.programs, self.folder, "epoll_level", "--address", self.testbed.address, *options,
            prefix=self.testbed.server_prefix,
        )  # fmt: skip
        self.servers.append(server)
        return server

    def command(self) -> list[str]:
        """Return how far_end begins."""
        return self.testbed.on_client(
            str(self.programs / "far_end"), "--address", self.testbed.address, *self.testbed.far_end
        )

    def run(self, port: int, trace: Path, *options: str) -> tuple[dict[str, Any], list[Record]]:
        """Replay *trace*; return the summary and the records."""
        return run_load(self.programs, port, trace, *options, program=self.command())


@pytest.fixture
def far_end(testbed: Testbed, programs: Path, tmp_path: Path) -> Iterator[FarEnd]:
    """Yield a testbed; whatever server runs at the end of the test is ended."""
    opened = FarEnd(testbed, programs, tmp_path)
    yield opened
    for server in opened.servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


def test_an_open_loop_has_the_records_of_a_load(far_end: FarEnd, tmp_path: Path) -> None:
    server = far_end.serve()
    trace = write_trace(tmp_path / "t.trace", [(200_000 * i, 1, 64, 128, 0) for i in range(300)])
    replies = tmp_path / "replies"
    summary, rows = far_end.run(server.port, trace, "--replies", str(replies))
    assert_all_replied(summary, rows, replies=300)
    assert [row.intended_ns for row in rows] == [200_000 * i for i in range(300)]
    assert len(replies.read_bytes()) == 300 * 24
    assert summary["packets"]["dropped"] == 0
    counters = server.stop()
    assert (counters["accepts"], counters["closes"], counters["replies"]) == (300, 300, 300)


@pytest.mark.parametrize("reply_bytes", [64, 1448, 1449, 70_000, 3_000_000])
@pytest.mark.parametrize("request_bytes", [64, 1449, 60_000])
def test_requests_and_replies_of_many_segments_are_whole(
    reply_bytes: int, request_bytes: int, far_end: FarEnd, tmp_path: Path
) -> None:
    server = far_end.serve()
    rows_of = [(0, 2, request_bytes, reply_bytes, 0)] * 3
    summary, rows = far_end.run(server.port, write_trace(tmp_path / "t.trace", rows_of))
    assert_all_replied(summary, rows, replies=6)
    assert server.stop()["replies"] == 6


def test_a_closed_loop_with_pauses_goes_on(far_end: FarEnd, tmp_path: Path) -> None:
    server = far_end.serve()
    trace = write_trace(tmp_path / "t.trace", [(0, 3, 64, 128, 50_000)], users=4)
    summary, rows = far_end.run(server.port, trace, "--connections-max", "40")
    assert_all_replied(summary, rows, replies=120)
    for row in rows:
        assert row.done_ns >= row.intended_ns + 2 * 50_000
    assert server.stop()["accepts"] == 40


def test_a_burst_is_begun_at_once(far_end: FarEnd, tmp_path: Path) -> None:
    server = far_end.serve("--backlog", "200")
    trace = write_trace(tmp_path / "t.trace", [(1_000_000, 1, 64, 128, 0)] * 100)
    summary, rows = far_end.run(server.port, trace)
    assert_all_replied(summary, rows, replies=100)
    server.stop()


def test_kept_connections_have_requests_when_they_are_due(far_end: FarEnd, tmp_path: Path) -> None:
    server = far_end.serve()
    due = [(100_000 * (i // 2), i % 16) for i in range(320)]
    path = tmp_path / "requests"
    trace = write_kept_trace(tmp_path / "t.trace", due, users=16)
    _summary, rows = far_end.run(server.port, trace, "--requests", str(path))
    requests = read_records(path)
    assert [request.intended_ns for request in requests] == [due_ns for due_ns, _ in due]
    assert {request.status for request in requests} == {REPLIED}
    assert rows == [Record(0, 0, 0, NOT_REACHED, STILL_OPEN)] * 16
    eventually(lambda: server.counters()["connections_open"] == 0)
    counters = server.stop()
    assert (counters["accepts"], counters["closes"], counters["replies"]) == (16, 16, 320)


def test_kept_connections_are_replaced(far_end: FarEnd, tmp_path: Path) -> None:
    server = far_end.serve()
    trace = write_kept_trace(tmp_path / "t.trace", [(0, 0)] * 6, users=1, each=2)
    path = tmp_path / "requests"
    _summary, rows = far_end.run(server.port, trace, "--requests", str(path))
    assert {request.status for request in read_records(path)} == {REPLIED}
    assert [row.status for row in rows[:3]] == [REPLIED] * 3
    server.stop()


def test_idle_connections_are_open_before_the_run_and_after_it_no_more(
    far_end: FarEnd, tmp_path: Path
) -> None:
    server = far_end.serve()
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 5)
    command = [*far_end.command(), "--port", str(server.port), "--trace", str(trace)]
    with subprocess.Popen(
        [*command, "--idle", "300", "--held"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "opened 300\n"
        eventually(lambda: server.counters()["connections_open"] == 300)
        assert server.counters()["reads"] == 0
        output, _ = process.communicate("\n", timeout=DEADLINE_S)
    assert process.returncode == 0
    assert '"idle": 300, "idle_lost": 0' in output
    eventually(lambda: server.counters()["connections_open"] == 0)
    counters = server.stop()
    assert (counters["accepts"], counters["replies"]) == (305, 5)


def test_a_port_where_nobody_listens_refuses(far_end: FarEnd, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 7)
    summary, rows = far_end.run(9, trace)
    assert [row.status for row in rows] == [REFUSED] * 7
    assert summary["connected"] == 0


def test_a_client_gives_up_after_its_intended_start(far_end: FarEnd, tmp_path: Path) -> None:
    # The request takes longer than the clients wait; one server, so that the second waits, too.
    server = far_end.serve("--request-us", "400000")
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 2)
    _summary, rows = far_end.run(server.port, trace, "--timeout-ms", "100")
    assert [row.status for row in rows] == [TIMEOUT] * 2
    assert {row.done_ns for row in rows} == {NOT_REACHED}
    eventually(lambda: server.counters()["connections_open"] == 0)


def test_a_syn_that_nobody_answers_is_sent_again(far_end: FarEnd, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)] * 3)
    drop = ("route", "add", "blackhole", "10.213.0.16/28")
    ip = [*far_end.testbed.server_prefix, "ip"]
    subprocess.run([*ip, *drop], check=True, timeout=DEADLINE_S)
    try:
        summary, rows = far_end.run(PORT, trace, "--timeout-ms", "1500")
    finally:
        subprocess.run([*ip, "route", "del", *drop[2:]], check=True, timeout=DEADLINE_S)
    assert [row.status for row in rows] == [TIMEOUT] * 3
    assert summary["packets"]["syn_repeated"] == 3


class NotOurServer:
    """A socket in the server's namespace that does what a test tells it to."""

    def __init__(self, far_end: FarEnd, script: str) -> None:
        program = (
            "import socket,sys\n"
            f"s = socket.create_server(('{far_end.testbed.address}', 0), backlog=8)\n"
            "print(s.getsockname()[1], flush=True)\n" + script
        )
        self.process = subprocess.Popen(
            far_end.testbed.on_server("python3", "-c", program), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("c,_ = s.accept(); c.recv(99); c.sendall(b'x' * 64); c.recv(1)", RESET),
        ("c,_ = s.accept(); c.recv(99); c.sendall(b'HTTP/1.1'.ljust(65)); c.recv(1)", RESET),
        ("c,_ = s.accept(); c.recv(99); c.sendall(b'HTTP/1.1'.ljust(63)); c.close()", RESET),
        ("c,_ = s.accept(); c.close(); s.accept()", RESET),
        ("c,_ = s.accept(); c.recv(99); c.sendall(b'HTTP/1.1'.ljust(64)); c.close()", REPLIED),
    ],
)
def test_a_reply_is_checked(script: str, status: int, far_end: FarEnd, tmp_path: Path) -> None:
    server = NotOurServer(far_end, script)
    try:
        trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)])
        _summary, rows = far_end.run(server.port, trace, "--timeout-ms", "20000")
    finally:
        server.process.kill()
        server.process.communicate()
    assert [row.status for row in rows] == [status]


LOAD = ("far_end", "--port", "1", "--trace", "t")
LINK = (*LOAD, "--interface", "lo", "--mac", "02:00:00:00:00:01")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("far_end", "--trace", "x"), "--port must be given"),
        (LOAD, "--interface must be given"),
        (
            (*LOAD, "--interface", "lo", "--mac", "02:00"),
            '--mac must be an Ethernet address like 02:00:00:00:00:01, got "02:00"',
        ),
        (
            LINK,
            '--server-mac must be an Ethernet address like 02:00:00:00:00:01, got ""',
        ),
        (
            (*LINK, "--server-mac", "02:00:00:00:00:02", "--source", "here"),
            '--source must be a dotted IPv4 address, got "here"',
        ),
        (
            (*LINK, "--server-mac", "02:00:00:00:00:02", "--source", "127.0.0.0"),
            '--source must be the first of 16 addresses without the server\'s, got "127.0.0.0"',
        ),
        ((*LOAD, "--sources", "0"), '--sources must be between 1 and 250, got "0"'),
        ((*LOAD, "--path", "/"), 'unknown option "--path" (see --help)'),
    ],
)
def test_bad_options_are_refused_in_one_line(
    command: tuple[str, ...], message: str, programs: Path
) -> None:
    assert_refused(programs, command, f"far_end: {message}")


def test_an_interface_that_is_not_there_is_refused(far_end: FarEnd, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.trace", [(0, 1, 64, 64, 0)])
    command = far_end.command()
    command[command.index("--interface") + 1] = "nowhere0"
    finished = subprocess.run(
        [*command, "--port", "1", "--trace", str(trace)],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert (finished.returncode, finished.stderr) == (
        2,
        'far_end: --interface must be an Ethernet interface that exists here, got "nowhere0"\n',
    )


# Of the parser: frames are made here, from the RFCs, and changed at random.


def frame_of(data: bytes, *, options: bytes = b"", ip_options: bytes = b"") -> bytes:
    """Return a whole segment from 10.0.0.1:80 to 10.0.0.2:5000."""
    tcp = struct.pack(
        ">HHIIBBHHH", 80, 5000, 1000, 2000, (5 + len(options) // 4) << 4, 24, 500, 0, 0
    )
    total = 20 + len(ip_options) + 20 + len(options) + len(data)
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45 + len(ip_options) // 4, 0, total, 0, 0x4000, 64, 6, 0,
        socket.inet_aton("10.0.0.1"), socket.inet_aton("10.0.0.2"),
    )  # fmt: skip
    return bytes(12) + b"\x08\x00" + head + ip_options + tcp + options + data


def understood(programs: Path, frames: list[bytes]) -> list[str]:
    """Return what far_end reads in each of *frames*."""
    finished = subprocess.run(
        [str(programs / "read_segments")],
        input=b"".join(struct.pack("<H", len(frame)) + frame for frame in frames),
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, b"")
    return finished.stdout.decode().splitlines()


STAMPS = b"\x01\x01\x08\x0a" + struct.pack(">II", 77, 88)
SCALE = b"\x02\x04\x05\xb4\x01\x03\x03\x07"
BEGIN = f"{0x0A000001} {0x0A000002} 80 5000 1000 2000 24 500"


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (frame_of(b""), f"{BEGIN} 0 0 0 0 0 0 0 0"),
        (frame_of(b"\x03\x04"), f"{BEGIN} 0 0 0 0 0 2 2 7"),
        (frame_of(b"\x05", options=STAMPS), f"{BEGIN} 1 77 88 0 0 1 1 5"),
        (frame_of(b"\x05", options=SCALE), f"{BEGIN} 0 0 0 1 7 1 1 5"),
        (frame_of(b"\x05", ip_options=b"\x01" * 8), f"{BEGIN} 0 0 0 0 0 1 1 5"),
        # A short frame is padded, a long one is captured in part.
        (frame_of(b"\x05") + b"\xff" * 9, f"{BEGIN} 0 0 0 0 0 1 1 5"),
        (frame_of(b"\x01" * 100)[:-60], f"{BEGIN} 0 0 0 0 0 100 40 40"),
        (frame_of(b"", options=b"\x08\x0a\x01\x01"), "none"),
        (frame_of(b"", options=b"\x03\x01\x01\x01"), "none"),
        (frame_of(b"")[:-1], "none"),
        (frame_of(b"")[:33], "none"),
        (b"", "none"),
        (frame_of(b"")[:12] + b"\x86\xdd" + frame_of(b"")[14:], "none"),
        (frame_of(b"")[:23] + b"\x11" + frame_of(b"")[24:], "none"),
        (frame_of(b"")[:16] + b"\x00\x27" + frame_of(b"")[18:], "none"),
        (frame_of(b"")[:20] + b"\x20\x00" + frame_of(b"")[22:], "none"),
        (frame_of(b"")[:46] + b"\x40" + frame_of(b"")[47:], "none"),
        (frame_of(b"")[:46] + b"\xf0" + frame_of(b"")[47:], "none"),
        (frame_of(b"")[:14] + b"\x44" + frame_of(b"")[15:], "none"),
    ],
)
def test_a_frame_is_read_as_the_standards_have_it(frame: bytes, line: str, programs: Path) -> None:
    assert understood(programs, [frame]) == [line]


@pytest.mark.parametrize("seed", range(3))
def test_no_frame_is_read_beyond_its_end(seed: int, programs: Path) -> None:
    draw = random.Random(seed)
    frames = []
    for _ in range(3000):
        options = draw.choice([b"", STAMPS, SCALE, STAMPS + SCALE])
        frame = bytearray(frame_of(draw.randbytes(draw.randrange(90)), options=options))
        for _ in range(draw.randrange(4)):
            frame[draw.randrange(12, min(len(frame), 80))] = draw.randrange(256)
        frames.append(bytes(frame[: draw.choice([len(frame), draw.randrange(len(frame) + 1)])]))
    lines = understood(programs, frames)
    assert len(lines) == len(frames)
    for given, line in zip(frames, lines, strict=True):
        if line != "none":
            n_data, n_captured = map(int, line.split()[13:15])
            assert n_captured <= min(n_data, len(given) - 54)
