"""Bad options and hostile traces are refused in one line, and never crash a C program."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest
from tests.calibration.c.c_programs import CALIBRATION, DEADLINE_S, assert_refused

MECHANISMS = (
    "select, poll, epoll_level, epoll_oneshot, epoll_close, epoll_once, epoll_edge, epoll_ctlv, "
    "rt_signals, signalfd, "
    "signal_per_fd, sigtimedwait4, dev_poll, aio_poll, io_uring, blocking"
)
LOAD = ("load", "--port", "1", "--trace", "/dev/null")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ("server", "--mechanism", "poll", "--backlog", "x"),
            'server: --backlog must be between 1 and 65535, got "x"',
        ),
        (
            ("server", "--mechanism", "kqueue"),
            f'server: --mechanism must be one of {MECHANISMS}, got "kqueue"',
        ),
        (("server",), f'server: --mechanism must be one of {MECHANISMS}, got ""'),
        (
            ("server", "--mechanism", "poll", "--listener", "middle"),
            'server: --listener must be first or last, got "middle"',
        ),
        (
            ("server", "--mechanism", "poll", "--address", "localhost"),
            'server: --address must be a dotted IPv4 address, got "localhost"',
        ),
        (("server", "--port", "65536"), 'server: --port must be between 0 and 65535, got "65536"'),
        (("server", "--port", " 1"), 'server: --port must be between 0 and 65535, got " 1"'),
        (
            ("server", "--accept-limit", "99999999999999999999"),
            'server: --accept-limit must be between 0 and 2147483647, got "99999999999999999999"',
        ),
        (
            ("server", "--seconds-max", "1e9"),
            'server: --seconds-max must be between 0.001 and 3600, got "1e9"',
        ),
        (
            ("server", "--seconds-max", "nan"),
            'server: --seconds-max must be between 0.001 and 3600, got "nan"',
        ),
        (("server", "--backlog"), "server: --backlog needs a value"),
        (("server", "--fast"), 'server: unknown option "--fast" (see --help)'),
        (("server", "poll"), 'server: unexpected argument "poll" (see --help)'),
        (("load", "--trace", "x"), "load: --port must be given"),
        (("load", "--port", "1"), "load: --trace must be given"),
        (
            (*LOAD, "--timeout-ms", "-5"),
            'load: --timeout-ms must be between 1 and 3600000, got "-5"',
        ),
        (
            ("load", "--port", "1", "--trace", "/nowhere"),
            'load: --trace must be a readable file, got "/nowhere": No such file or directory',
        ),
        (("idle", "--port", "1"), "idle: --connections must be given"),
        (
            ("idle", "--port", "0", "--connections", "1"),
            'idle: --port must be between 1 and 65535, got "0"',
        ),
    ],
)
def test_bad_options_are_refused_in_one_line(
    command: tuple[str, ...], message: str, programs: Path
) -> None:
    assert_refused(programs, command, message)


@pytest.mark.parametrize("name", ["server", "load", "idle"])
def test_help_names_every_option(name: str, programs: Path) -> None:
    finished = subprocess.run(
        [str(programs / name), "--help"], capture_output=True, text=True, timeout=20, check=True
    )
    source = (CALIBRATION / ("servers" if name == "server" else "load") / f"{name}.c").read_text()
    for option in re.findall(r'\{"([a-z-]+)", OPTION_', source):
        assert f"--{option}" in finished.stdout


HEAD = b"# dispatchsim trace 1\nloop open\nusers 0\nconnections 2\n"
ROW = b"0 1 64 128 0\n"
KEPT = HEAD.replace(b"open", b"kept").replace(b"users 0", b"users 2") + ROW * 2


@pytest.mark.parametrize(
    ("content", "line", "rule"),
    [
        (b"", 0, "must begin with"),
        (b"loop open\n", 1, 'must begin with "# dispatchsim trace 1"'),
        (b"# dispatchsim trace 12\n", 1, "must begin with"),
        (HEAD[:22], 1, 'must have a line "loop'),
        (HEAD.replace(b"open", b"ajar"), 2, 'loop must be open, closed or kept, got "ajar"'),
        (HEAD.replace(b"users 0", b"users"), 3, 'must have "users VALUE"'),
        (HEAD.replace(b"users 0", b"users 7"), 3, 'users must be between 0 and 0, got "7"'),
        (HEAD.replace(b"open", b"closed"), 3, "users must be between 1 and"),
        (HEAD.replace(b"s 2", b"s 50000001"), 4, "connections must be between 1 and 50000000"),
        (HEAD.replace(b"s 2", b"s 0"), 4, "connections must be between"),
        (HEAD.replace(b"s 2", b"s 49999999") + ROW, 5, "must have 49999999 rows, got 1"),
        (HEAD + ROW, 5, "must have 2 rows, got 1"),
        (HEAD + ROW * 3, 7, "must end after 2 rows"),
        (HEAD + b"-1 1 64 128 0\n", 5, 'at_ns must be between 0 and 1000000000000000, got "-1"'),
        (HEAD + b"0 0 64 128 0\n", 5, "requests must be between 1"),
        (HEAD + b"0 1 31 128 0\n", 5, "request_bytes must be between 32 and 65536"),
        (HEAD + b"0 1 64 99999999999 0\n", 5, "reply_bytes must be between 0 and"),
        (HEAD + b"0 1 64 128 99999999999999999999999\n", 5, "think_ns must be between"),
        (HEAD + b"0 1 64 128\n", 5, "a row must have 5 numbers, got 4"),
        (HEAD + b"0 1 64 128 0 0\n", 5, "at most 5 words"),
        (HEAD + b"0 1 64 0x80 0\n", 5, "reply_bytes must be between"),
        (HEAD + b"0 1 64 1.5 0\n", 5, 'got "1.5"'),
        (HEAD + b"5 1 64 128 0\n4 1 64 128 0\n", 6, "arrivals must be sorted"),
        (HEAD + b"\xff\xfe\x00\n", 5, "got a zero byte"),
        (HEAD + b"7" * 100_000, 5, "at most 255 bytes"),
        (
            HEAD + b"\x1b[31m 1 64 128 0\n",
            5,
            'at_ns must be between 0 and 1000000000000000, got "?',
        ),
        (HEAD.replace(b"open", b"closed").replace(b"s 0", b"s 1") + b"5 1 64 128 0\n", 5, "at_ns"),
        (KEPT.replace(b"users 2", b"users 0"), 3, "users must be between 1 and"),
        (KEPT.replace(b"0 1 64", b"1 1 64"), 5, "at_ns must be between 0 and 0"),
        (KEPT, 6, 'must have a line "requests ..."'),
        (KEPT + b"requests 0\n", 7, "requests must be between 1 and 50000000"),
        (KEPT + b"requests 2\n0 1\n", 8, "must have 2 requests, got 1"),
        (KEPT + b"requests 1\n0\n", 8, "a row must have 2 numbers, got 1"),
        (KEPT + b"requests 1\n0 2\n", 8, 'user must be between 0 and 1, got "2"'),
        (KEPT + b"requests 1\n-1 0\n", 8, "due_ns must be between 0 and"),
        (KEPT + b"requests 2\n5 0\n4 1\n", 9, "requests must be sorted: due_ns 4 precedes 5"),
        (KEPT + b"requests 1\n0 0\n0 1\n", 9, "must end after 1 requests"),
    ],
)
def test_a_hostile_trace_is_refused_with_file_line_and_rule(
    content: bytes, line: int, rule: str, programs: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "hostile.trace"
    trace.write_bytes(content)
    finished = subprocess.run(
        [str(programs / "load"), "--port", "1", "--trace", str(trace)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith(f"load: {trace}:{line}: ")
    assert rule in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_random_traces_are_refused_and_never_crash(programs: Path, tmp_path: Path) -> None:
    rng = random.Random(11)
    good = HEAD + ROW * 2
    trace = tmp_path / "random.trace"
    for _ in range(25):
        damaged = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        trace.write_bytes(b"#" + bytes(damaged[1:-1]) + rng.randbytes(rng.randrange(1, 300)))
        finished = subprocess.run(
            [str(programs / "load"), "--port", "1", "--trace", str(trace), "--seconds", "0.01"],
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert finished.returncode in {0, 2}  # damage in a comment is no damage
        assert b"Sanitizer" not in finished.stderr
        assert b"runtime error" not in finished.stderr
