"""The microbenchmarks whose clients are packets of the far end; what they measure is not judged."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.calibration.c.sanitized import sanitized
from tests.calibration.c.test_micro import (
    LINES,
    MAY_BE_NOTHING,
    OPTIONS,
    io_uring_is_there,
    measured,
    run,
)

from dispatchsim.calibration.testbed.testbed import Testbed

BENCHES = (
    *("poll_scan", "select_first", "poll_ready", "epoll_recheck", "epoll_mod", "watch_calls"),
    *("wait_ready", "wait_told", "wait_vain", "epoll_block", "serve_calls", "write_flights"),
    *("serve_crowded", "serve_kept", "serve_amid"),
    *("interrupt_way", "packets_leave", "cache_refill", "interrupt_connect", "interrupt_data"),
    *(
        "interrupt_later",
        "interrupt_dropped",
        "interrupt_signal",
        "interrupt_reset",
        "interrupt_posted",
    ),
    *("read_block", "accept_block", "ring_block", "ring_calls", "close_ended", "spawn_thread"),
    *("pingpong_spin", "pingpong_block", "handshake_idle", "handshake_spin", "client_calls"),
    *("client_again", "lone_connection", "serve_paced", "serve_asked"),
)
"""One of each kind that has connections."""
LINES_OF_PACKETS = {
    "serve_paced": [
        *("paced_syn", "paced_ack", "paced_request", *LINES["serve_paced"][:4], "paced_reset"),
        *LINES["serve_paced"][4:],
    ],
    "serve_asked": ["asked_request", *LINES["serve_asked"]],
}
"""Lines of benches that have some of packets, which interrupt the server."""

SEGMENT_BYTES = 1448


@pytest.fixture(scope="module")
def micro() -> Path:
    """Return the benches with the sanitizers."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("the benches need CPUs 0 and 1")
    return sanitized("micro") / "micro"


def counters(testbed: Testbed) -> dict[str, int]:
    """Return what the kernel of the clients' namespace has counted of TCP."""
    command = testbed.on_client("cat", "/proc/net/snmp")
    text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("Tcp:"))
    return {name: int(value) for name, value in zip(names, values, strict=True)}


def results(micro: Path, testbed: Testbed, bench: str, *options: str) -> list[dict[str, Any]]:
    """Run a bench with clients of the far end, and return its lines."""
    done = measured(micro, bench, *options, *testbed.micro_options())
    if "io_uring: " in done.stderr and not io_uring_is_there():
        pytest.skip("the kernel refuses io_uring here")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("bench", BENCHES)
def test_a_bench_has_clients_of_the_far_end(micro: Path, testbed: Testbed, bench: str) -> None:
    rows = results(micro, testbed, bench, *OPTIONS.get(bench, "").split())
    assert [row["bench"] for row in rows] == (LINES | LINES_OF_PACKETS).get(bench, [bench])
    for row in rows:
        assert row["format"] == "dispatchsim-micro/1"
        assert row["steering"] == "far_end"
        assert row["operations"] > 0
        assert all(math.isfinite(row[name]) for name in ("median", "p10", "p90"))
        assert row["median"] > 0 or bench.startswith((*MAY_BE_NOTHING, "way_"))


def test_the_kernel_of_the_clients_has_no_part(micro: Path, testbed: Testbed) -> None:
    before = counters(testbed)
    assert results(micro, testbed, "serve_calls", "--batch", "4")
    after = counters(testbed)
    for name in ("ActiveOpens", "OutSegs", "OutRsts"):
        assert after[name] == before[name]


@pytest.mark.parametrize("reply_bytes", [128, 1449, 14_480, 65_536])
def test_a_reply_is_acknowledged(micro: Path, testbed: Testbed, reply_bytes: int) -> None:
    (row,) = results(micro, testbed, "write_flights", "--reply", str(reply_bytes))
    # Retransmissions of a busy machine add segments, nothing takes any away.
    assert row["segments_out"] >= math.ceil(reply_bytes / SEGMENT_BYTES)
    assert row["segments_in"] >= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--interface", "lo"],
            "--interface needs --server-netns, --peer-netns and --server-address",
        ),
        (
            ["--source", "10.0.0.9"],
            "--interface needs --server-netns, --peer-netns and --server-address",
        ),
        (["--sources", "0"], "--sources must be between 1 and 250, got 0"),
    ],
)
def test_wrong_options_end_with_one_line_and_2(micro: Path, words: list[str], message: str) -> None:
    done = run(micro, "poll_scan", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"micro: {message}\n"


def test_a_far_end_that_is_half_given_is_one_line(micro: Path) -> None:
    network = ["--server-netns", "/no/a", "--peer-netns", "/no/b", "--server-address", "10.0.0.1"]
    done = run(micro, "poll_scan", *network, "--interface", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        'micro: --mac must be an Ethernet address like 02:00:00:00:00:01, got ""\n'
    )
