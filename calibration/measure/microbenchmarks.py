"""The microbenchmarks of a calibration: their command lines, and running one of them.

Every round runs each bench once. A slow period of the machine then affects one sample of many
benches, not all samples of one.
"""

from __future__ import annotations

import datetime
import json
import shlex
from collections.abc import Iterable, Sequence

from pydantic import ValidationError

from ..points.point import BLOCKING
from ..points.points import IO_URING, STOCK_MECHANISMS
from ..records.measured_runs import QUICK, MicroResult
from ..testbed.c_build import Programs
from ..testbed.processes import PRIORITY_HIGHEST, Child, RunError
from ..testbed.testbed import Testbed

_BENCH_SECONDS_MAX = 120

SIZES = (10, 100, 500, 1000, 2000, 4000, 6000, 10_000)
SIZES_FEW = (100, 1000, 6000)
BURSTS = (1, 4, 16, 64, 256)
BURSTS_SIGNALLED = (4, 16, 64)  # not 1 (mostly the interrupt) or 256 (mostly a tick)
LONG_REPLIES = (
    1024,
    4096,
    14_336,
    28_672,
    65_536,
)  # bytes; 14,336 fit the initial window
IDLE_US = (0, 20, 50, 100, 300, 1000, 5000)  # time that a CPU is idle
OTHERS_US = (50, 200, 1000, 4000)  # time that other programs have the CPU
TOLD = (1, 16, 64)  # changed descriptors
LISTED = (1, 100, 1000)  # writable descriptors, returned by one epoll_wait
LISTED_IN_TURN = (100, 1000, 2000, 6000, 10_000)  # more than one wait returns: in turn
CROWDS = (256, 1024, 4000)  # connections that wait together; the accept queue holds 4096
KEPT = (256, 1024, 1536)
"""Kept connections. Clients acknowledge a reply by a timer after 40 ms, so a turn of all must take
less time. On a slow machine a turn of 2048 took more."""
FEW_AT_ONCE = 8  # of a ring; Linux does its work in batches of 20
FLUSHED = (0, 64, 1000)  # signals
QUEUE = 64  # signals that a recovery finds
RECOVERED = (100, 1000, 6000)  # descriptors that it polls, all more than QUEUE


def _with(bench: str, option: str, values: Iterable[int | str], *rest: str) -> list[str]:
    """Return one command line for each value of *option*."""
    return [" ".join((bench, f"--{option} {value}", *rest)) for value in values]


def bench_commands(
    *, quick: bool = False, mechanisms: Sequence[str] = STOCK_MECHANISMS
) -> list[str]:
    """Return the command lines of one round, without the testbed's options.

    Every profile needs the benches that all servers share and those of select, poll and
    epoll_level, so these are always included. *quick* benches are as many and take about 30 s in
    all.

    >>> bench_commands(quick=True)[:2]
    ['floor --milliseconds 50', 'clock --milliseconds 50']
    """
    commands = [
        "floor",
        "clock",
        "spin",
        "memory",
        *(line for name in ("select", "poll") for line in _scan_commands(name)),
        *_with("select_sparse", "span", (100, 1000, 6000, 10_000), "--n 100"),
        *_with("epoll_wait_ready", "ready", (1, 4, 16, 64, 256, 1000), "--n 1000"),
        *_with("epoll_wait_ready", "ready", (16,), "--n 6000"),
        *_with("epoll_recheck", "ready", (1, 16, 64), "--n 1000"),
        *(
            line
            for name in ("epoll_add", "epoll_mod", "epoll_del")
            for line in _with(name, "n", (*SIZES_FEW, 10_000))
        ),
        *(
            line
            for name in ("select_block", "poll_block", "epoll_block")
            for line in _with(name, "n", (1, *SIZES_FEW))
        ),
        *_with("serve_calls", "mechanism", ("none", "epoll")),
        *_with("serve_calls", "n", (1000, 6000), "--mechanism epoll"),
        *_with("serve_calls", "batch", (1, FEW_AT_ONCE, 256)),
        *_with("serve_calls", "reply", (1024, 6144)),
        *_with("serve_crowded", "batch", CROWDS),
        *_with("serve_kept", "n", KEPT),
        *_with("interrupt_connect", "burst", BURSTS),
        *_with("interrupt_data", "burst", BURSTS, "--mechanism none"),
        *_with("interrupt_data", "burst", (8,), "--mechanism epoll"),
        *_with("interrupt_later", "burst", BURSTS),
        *_with("interrupt_dropped", "burst", BURSTS),
        *_with("interrupt_reset", "burst", BURSTS, "--mechanism none"),
        *_with("interrupt_reset", "burst", (8,), "--mechanism epoll"),
        "interrupt_way",
        "packets_leave",
        *_with("write_flights", "reply", LONG_REPLIES),
        *_with("cache_refill", "pause-us", OTHERS_US),
        "pingpong_spin",
        *_with("pingpong_block", "mechanism", ("select", "poll", "epoll")),
        *_with("handshake_idle", "pause-us", IDLE_US),
        *_with("handshake_spin", "pause-us", IDLE_US),
        "lone_connection",
        *_with("serve_paced", "pause-us", IDLE_US),
        *_with("serve_asked", "pause-us", IDLE_US),
        *_with("client_calls", "batch", (1, 64)),
        "client_again",
        # benches of two mechanisms are measured once
        *dict.fromkeys(line for name in mechanisms for line in further_commands(name)),
    ]
    return [f"{line}{QUICK}" for line in commands] if quick else commands


def further_commands(name: str) -> list[str]:
    """Return the further benches of a mechanism, besides those of every profile."""
    own = f"--mechanism {name}"
    watching = [*_with("watch_calls", "n", (*SIZES_FEW, 10_000), own), f"wait_vain {own}"]
    told = _with("wait_told", "ready", TOLD, own)
    signalled = [
        f"serve_calls {own}",
        *told,
        *_with("interrupt_signal", "burst", BURSTS_SIGNALLED, own),
        *_with("interrupt_signal_lost", "burst", BURSTS_SIGNALLED, own),
        *_with("signals_flushed", "queue", FLUSHED),
        *_with("wait_recovers", "n", RECOVERED, f"--queue {QUEUE}", own),
        "descriptor_passed",
    ]
    return {
        "rt_signals": signalled,
        "signalfd": signalled,
        "epoll_edge": [*told, *watching],
        "epoll_once": [
            *_with("wait_ready", "n", LISTED, "--first 0", own),
            *_with("wait_listed", "n", LISTED_IN_TURN, own),
            *watching,
        ],
        BLOCKING: [
            "read_block",
            "accept_block",
            "handover_threads",
            "handover_processes",
            "spawn_thread",
            "spawn_process",
        ],
        IO_URING: [
            *_with("ring_calls", "batch", (FEW_AT_ONCE, 2 * FEW_AT_ONCE)),
            f"close_ended --batch {FEW_AT_ONCE}",
            "ring_block",
            *_with("interrupt_posted", "burst", BURSTS_SIGNALLED),
        ],
    }.get(name, [])


def _scan_commands(name: str) -> list[str]:
    """Return the benches of a mechanism that scans all descriptors."""
    return [
        *_with(f"{name}_scan", "n", SIZES),
        *_with(f"{name}_first", "first", (0, 100, 500, 999), "--n 1000"),
        *_with(f"{name}_first", "first", (0, 3000, 5999), "--n 6000"),
        *_with(f"{name}_ready", "ready", (1, 16, 128, 1000), "--n 1000"),
    ]


def run_bench(
    command: str, round_number: int, *, testbed: Testbed, programs: Programs
) -> list[MicroResult]:
    """Run one command line of `micro` and return the results it printed, at least one.

    Raises
    ------
    RunError
        If the bench fails, takes too long or prints something else.
    """
    arguments = [programs.path("micro"), *shlex.split(command), *testbed.micro_options()]
    # Its two threads pin themselves; until then the process must be allowed on both CPUs.
    with Child(
        f"micro {command}",
        arguments,
        cpu=(testbed.server_cpu, testbed.client_cpu),
        priority=PRIORITY_HIGHEST,
    ) as child:
        lines = child.read_all(timeout_s=_BENCH_SECONDS_MAX)
    if not lines:
        raise RunError(f"micro {command} printed no result")
    stamp = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "code": programs.code,
        "command": command,
        "round": round_number,
    }
    try:
        return [MicroResult.model_validate(json.loads(line) | stamp) for line in lines]
    except (ValueError, TypeError, ValidationError) as error:
        raise RunError(f"micro {command} printed no valid result: {lines[0][:80]}") from error
