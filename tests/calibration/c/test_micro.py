"""The microbenchmarks run and report in their format; what they measure is not judged here."""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from tests.calibration.c.sanitized import sanitized

# The smallest settings at which a bench still does everything that it does.
OPTIONS = {
    "select_sparse": "--n 10 --span 100",
    "cache_refill": "--n 10 --pause-us 100",
    "select_scan": "--n 10",
    "poll_scan": "--n 10",
    "select_first": "--n 10 --first 5",
    "poll_first": "--n 10 --first 5",
    "select_ready": "--n 10 --ready 3",
    "poll_ready": "--n 10 --ready 3",
    "epoll_wait_ready": "--n 10 --ready 3",
    "epoll_recheck": "--n 10 --ready 3",
    "epoll_add": "--n 10 --batch 4",
    "epoll_mod": "--n 10 --batch 4",
    "epoll_del": "--n 10 --batch 4",
    "select_block": "--n 10",
    "poll_block": "--n 10",
    "epoll_block": "--n 10",
    "serve_calls": "--n 3 --batch 4 --mechanism epoll",
    "serve_amid": "--batch 4 --burst 2",
    "serve_kept": "--n 128",
    "interrupt_connect": "--burst 2",
    "interrupt_data": "--burst 2 --mechanism epoll",
    "interrupt_signal": "--burst 2",
    "interrupt_signal_lost": "--burst 2",
    "interrupt_reset": "--burst 2",
    "watch_calls": "--n 3 --batch 4",
    "wait_ready": "--n 10 --first 5 --ready 3 --mechanism epoll",
    "wait_told": "--n 10 --ready 3",
    "wait_recovers": "--n 20 --queue 4",
    "pingpong_block": "--n 3 --mechanism poll",
    "client_calls": "--batch 4",
    "client_again": "--batch 4",
    "interrupt_later": "--burst 2",
    "interrupt_dropped": "--burst 2",
    "wait_listed": "--n 1100",
    "interrupt_posted": "--burst 2",
    "ring_calls": "--batch 4",
    "close_ended": "--batch 4",
    "gaps": "--pause-us 1000",
}
BENCHES = [
    *(
        "floor",
        "clock",
        "spin",
        "memory",
        "calm",
        "gaps",
        "select_scan",
        "poll_scan",
        "select_sparse",
    ),
    *("select_first", "poll_first", "select_ready", "poll_ready", "epoll_wait_ready"),
    *("epoll_recheck", "epoll_add", "epoll_mod", "epoll_del", "watch_calls", "wait_ready"),
    *("wait_listed", "wait_told", "wait_vain", "wait_recovers", "signals_flushed"),
    *(
        "descriptor_passed",
        "select_block",
        "poll_block",
        "epoll_block",
        "serve_calls",
        "serve_crowded",
        "serve_amid",
        "serve_kept",
        "write_flights",
        "interrupt_way",
        "packets_leave",
        "cache_refill",
        "interrupt_connect",
        "interrupt_data",
        "interrupt_later",
        "interrupt_dropped",
        "interrupt_signal",
    ),
    *("interrupt_signal_lost", "interrupt_reset", "interrupt_posted", "read_block"),
    *("accept_block", "ring_block", "ring_calls", "close_ended", "handover_threads"),
    *("handover_processes", "spawn_thread", "spawn_process"),
    *("pingpong_spin", "pingpong_block", "handshake_idle", "handshake_spin"),
    *("lone_connection", "serve_paced", "serve_asked", "client_calls", "client_again"),
]
LINES = {
    "serve_kept": ["kept_received", "kept_served"],
    "lone_connection": ["lone_bare", "lone_open", "lone_calls", "lone_awake"],
    # On loopback nobody interrupts the server: no line is of a packet.
    "serve_paced": [
        *("paced_accept", "paced_add", "paced_read", "paced_write", "paced_delete"),
        *("paced_close", "paced_idle"),
    ],
    "serve_asked": ["asked_read", "asked_write", "asked_idle"],
    "serve_calls": [
        *("serve_accept", "serve_accept_again", "serve_epoll_add", "serve_read"),
        *("serve_read_again", "serve_write", "serve_close"),
    ],
    "watch_calls": ["watch_add", "watch_delete"],
    "descriptor_passed": ["descriptor_sent", "descriptor_received"],
    "interrupt_way": [
        *("way_interrupt", "way_send", "way_second", "way_beside", "way_seen", "way_write")
    ],
    "packets_leave": [
        *("leaves_socket", "leaves_connect", "leaves_opened", "leaves_softirq", "leaves_reset"),
        *("leaves_closing", "leaves_close"),
    ],
    "wait_told": ["wait_told", "wait_pending", "wait_blocked", "wait_after"],
    "ring_calls": [
        *("ring_enter", "ring_accept", "ring_arm", "ring_receive_armed", "ring_reply"),
        *("ring_receive", "ring_close"),
    ],
    "client_calls": ["client_connect", "client_send", "client_receive", "client_close"],
}
SERVED = ("rt_signals", "signalfd", "epoll_edge", "epoll_once")
BLOCKING = {"cpu_ns", "busy_ns", "sleeps_per_operation"}
# On loopback the sender's CPU receives, so that nothing is stolen from the server's. A look in vain
# is a difference, and so is what a client's second SYN takes.
MAY_BE_NOTHING = (
    *("interrupt_", "packets_leave", "wait_vain", "cache_", "client_again", "serve_kept"),
    "serve_amid",
)
INTERRUPTS = {"interrupts_per_operation", "mean", "quiet_median", "quiet_mean"}


@pytest.fixture(scope="module")
def micro() -> Path:
    """Return the benches with the sanitizers."""
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("the benches need CPUs 0 and 1")
    return sanitized("micro") / "micro"


def io_uring_is_there() -> bool:
    """Return whether the kernel sets a ring up at all: io_uring_setup(0, NULL) says EFAULT then."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(425, 0, None)
    return ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM)


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one bench to its end."""
    return subprocess.run(
        [str(program), *words], capture_output=True, text=True, timeout=120, check=False
    )


def measured(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one bench longer and longer, until it has measured something.

    How long that takes depends on what else the machine does; that it ends does not.
    """
    for milliseconds in ("20", "200", "2000", "20000"):
        done = run(program, *words, "--milliseconds", milliseconds)
        none_done = "no operation was completed" in done.stderr
        # A median of no more than the clock costs was disturbed.
        is_nothing = not words[0].startswith(MAY_BE_NOTHING) and any(
            json.loads(line)["median"] <= 0 for line in done.stdout.splitlines()
        )
        if not (none_done or is_nothing):
            break
    if "ended within 35 ms" in done.stderr:
        pytest.skip("a turn takes longer here than the clients' timer allows")
    return done


def test_the_list_names_every_bench(micro: Path) -> None:
    listed = run(micro, "--list")
    assert listed.returncode == 0
    assert listed.stdout.split() == BENCHES


def test_the_help_names_every_bench_and_option(micro: Path) -> None:
    shown = run(micro, "--help")
    assert shown.returncode == 0
    for word in [*BENCHES, "--n", "--mechanism", "--server-netns", "--milliseconds"]:
        assert word in shown.stdout


@pytest.mark.parametrize("bench", BENCHES)
def test_a_bench_reports_in_the_format(micro: Path, bench: str) -> None:
    options = OPTIONS.get(bench, "").split()
    done = measured(micro, bench, *options)
    if "io_uring: " in done.stderr and not io_uring_is_there():
        pytest.skip("the kernel refuses io_uring here")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["bench"] for result in results] == LINES.get(bench, [bench])
    for result in results:
        assert result["format"] == "dispatchsim-micro/1"
        assert result["unit"] == "ns"
        assert result["steering"] == "loopback"
        assert result["operations"] > 0
        assert all(math.isfinite(result[name]) for name in ("median", "p10", "p90"))
        assert result["p10"] <= result["median"] <= result["p90"]
        assert result["median"] > 0 or bench.startswith(MAY_BE_NOTHING)


@pytest.mark.parametrize(
    "command",
    [
        *(f"wait_told --n 10 --ready 3 --mechanism {name}" for name in ("rt_signals", "signalfd")),
        *(f"serve_calls --batch 4 --mechanism {name}" for name in SERVED),
        "interrupt_signal --burst 2 --mechanism signalfd",
        "interrupt_signal_lost --burst 2 --mechanism signalfd",
        "wait_recovers --n 20 --queue 4 --mechanism signalfd",
        "wait_vain --mechanism epoll_once",
        "wait_ready --n 10 --first 0 --mechanism epoll_once",
        "watch_calls --n 3 --batch 4 --mechanism epoll_once",
    ],
)
def test_a_bench_takes_the_mechanisms_of_the_server(micro: Path, command: str) -> None:
    done = measured(micro, *command.split())
    assert (done.returncode, done.stderr) == (0, "")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert {result["parameters"]["mechanism"] for result in results} <= set(SERVED)
    if command.startswith("serve_calls"):
        assert {"serve_watch", "serve_unwatch"} < {result["bench"] for result in results}


def test_the_parameters_are_those_given(micro: Path) -> None:
    done = measured(micro, "poll_first", "--n", "7", "--first", "2")
    assert json.loads(done.stdout)["parameters"] == {"n": 7, "first": 2}
    done = measured(micro, "poll_first", "--n", "7")
    assert json.loads(done.stdout)["parameters"] == {"n": 7, "first": 6}


def test_calls_of_the_bench_amid_take_time(micro: Path) -> None:
    done = measured(micro, "serve_amid", "--batch", "4", "--burst", "1024")
    (result,) = map(json.loads, done.stdout.splitlines())
    assert min(result["quiet_ns"], result["by_kind_ns"], result["amid_ns"]) > 0
    assert min(result["computing_interrupts"], result["amid_interrupts"]) >= 0


@pytest.mark.parametrize(
    ("bench", "fields"),
    [
        ("poll_block", BLOCKING),
        ("pingpong_spin", BLOCKING),
        ("read_block", BLOCKING),
        ("accept_block", BLOCKING),
        ("spawn_thread", {"begin_ns"}),
        ("serve_crowded", {"few_ns", "many_ns"}),
        (
            "serve_amid",
            {"computing_ns", "amid_ns", "quiet_ns", "by_kind_ns", "amid_interrupts"},
        ),
        ("serve_kept --n 128", {"few_ns", "many_ns", "few_interrupts", "many_interrupts"}),
        ("interrupt_data", INTERRUPTS),
        ("write_flights", {"written_ns", "segments_out", "segments_in"}),
        ("cache_refill", {"warm_ns", "foreign_kib"}),
        ("calm", {"last_ns", "beside_last_ns", "waited_ns", "calm", "busy_share"}),
    ],
)
def test_some_benches_have_more_fields(micro: Path, bench: str, fields: set[str]) -> None:
    for line in measured(micro, *bench.split()).stdout.splitlines():
        result = json.loads(line)
        assert fields <= set(result)
        assert all(math.isfinite(result[name]) for name in fields)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which bench? (try --list or --help)"),
        (["lift"], "unknown bench 'lift' (try --list)"),
        (["floor", "--speed", "3"], "unknown option '--speed' (try --help)"),
        (["floor", "--n", "3"], "floor does not take --n"),
        (["floor", "--recording", "x"], "floor does not take --recording"),
        (["floor", "--mechanism", "poll"], "floor does not take --mechanism"),
        (["poll_scan", "--n"], "--n needs a value (try --help)"),
        (["serve_kept", "--n", "100"], "serve_kept: --n must be a multiple of 64 above it"),
        (["poll_scan", "--n", "3x"], "--n must be a whole number, got '3x'"),
        (["poll_scan", "--n", "0"], "--n must be at least 1, got 0"),
        (["poll_scan", "--n", "-1"], "--n must be between 0 and 1000000, got -1"),
        (
            ["poll_first", "--n", "5", "--first", "5"],
            "--first must be less than --n 5, got 5",
        ),
        (
            ["poll_ready", "--n", "5", "--ready", "6"],
            "--ready must be at most --n 5, got 6",
        ),
        (
            ["select_sparse", "--n", "5", "--span", "4"],
            "--span must be at least --n 5, got 4",
        ),
        (
            ["pingpong_block", "--mechanism", "none"],
            "pingpong_block needs a mechanism to block in: select, poll or epoll",
        ),
        (
            ["serve_calls", "--mechanism", "poll"],
            "serve_calls --mechanism must be none, epoll or one of the server's, got poll",
        ),
        (
            ["interrupt_data", "--mechanism", "select"],
            "interrupt_data --mechanism must be none or epoll, got select",
        ),
        (
            ["interrupt_reset", "--mechanism", "poll"],
            "interrupt_reset --mechanism must be none or epoll, got poll",
        ),
        (
            ["interrupt_signal", "--mechanism", "epoll_edge"],
            "interrupt_signal --mechanism must be one that queues signals, got epoll_edge",
        ),
        (
            ["wait_recovers", "--n", "20"],
            "--queue must be at least 1 and 9 less than --n 20",
        ),
        (
            ["pingpong_block", "--mechanism", "kqueue"],
            "--mechanism must be select, poll, epoll or none, got 'kqueue'",
        ),
        (
            [
                "pingpong_block",
                "--mechanism",
                "rt_signals",
            ],  # the emulated target's benches have it
            "--mechanism must be select, poll, epoll or none, got 'rt_signals'",
        ),
        (
            ["poll_scan", "--peer-cpu", "0"],
            "--server-cpu and --peer-cpu must differ, got 0 twice",
        ),
        (
            ["poll_scan", "--server-address", "10.0.0.1"],
            "--server-netns, --peer-netns and --server-address go together",
        ),
    ],
)
def test_wrong_options_end_with_one_line_and_2(micro: Path, words: list[str], message: str) -> None:
    done = run(micro, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"micro: {message}\n"


def test_too_few_descriptors_are_explained(micro: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit on this machine")
    words = ["prlimit", "--nofile=256:256", str(micro), "poll_scan", "--n", "300"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode == 0:
        pytest.skip("this user may raise the limit, and the program does so")
    assert done.returncode == 1
    assert done.stderr == (
        "micro: poll_scan --n 300 needs 400 descriptors, the limit is 256:"
        " raise it with ulimit -n\n"
    )


def test_a_missing_namespace_is_one_line(micro: Path) -> None:
    network = ["--server-netns", "/no/a", "--peer-netns", "/no/b", "--server-address", "10.0.0.1"]
    done = run(micro, "poll_scan", *network)
    assert done.returncode == 1
    assert done.stderr == "micro: network namespace /no/b: No such file or directory\n"


def test_a_cpu_that_is_not_there_is_one_line(micro: Path) -> None:
    done = run(micro, "poll_scan", "--peer-cpu", "1000")
    assert done.returncode == 1
    assert done.stderr == "micro: cannot run on CPU 1000: Invalid argument\n"


@pytest.mark.parametrize(("limit_ps", "calm"), [(1_000_000_000, True), (1, False)])
def test_a_core_is_calm_by_the_limit_that_is_given(
    micro: Path, limit_ps: int, *, calm: bool
) -> None:
    done = run(micro, "calm", "--milliseconds", "500", "--limit-ps", str(limit_ps))
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["calm"] is calm
    assert result["waited_ns"] >= (50_000_000 if calm else 500_000_000)
    assert result["p10"] <= result["median"] <= result["p90"]
    assert 0 <= result["busy_share"] < 1
    assert result["busy_ratio"] >= 1


def test_gaps_are_recorded_with_their_times(micro: Path, tmp_path: Path) -> None:
    file = tmp_path / "gaps"
    done = run(micro, "gaps", "--milliseconds", "300", "--recording", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    words = struct.unpack(f"<{file.stat().st_size // 8}q", file.read_bytes())
    at_ns, length_ns = words[::2], words[1::2]
    assert list(at_ns) == sorted(at_ns)
    assert all(length > result["above_ns"] == 5000 for length in length_ns)
    # No two overlap, all are within the run, and all of them are among those that were counted.
    ends_ns = [at + length for at, length in zip(at_ns, length_ns, strict=True)]
    rounding_ns = 2
    assert all(end <= at + rounding_ns for end, at in zip(ends_ns, at_ns[1:], strict=False))
    assert not ends_ns or ends_ns[-1] <= result["elapsed_ns"] + rounding_ns
    assert len(at_ns) <= result["operations"]
    assert sum(length_ns) <= result["lost_ns"] < result["elapsed_ns"]
    assert max(length_ns, default=0) <= result["worst_ns"]


def test_a_recording_that_cannot_be_written_is_one_line(micro: Path) -> None:
    done = run(micro, "gaps", "--milliseconds", "1", "--recording", "/no/file")
    assert done.returncode == 1
    assert done.stderr == "micro: --recording /no/file: No such file or directory\n"
