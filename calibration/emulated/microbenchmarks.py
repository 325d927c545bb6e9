"""The microbenchmarks of the emulated target: which there are, and what a guest printed of them.

    command = benches joined by " + " ──► arguments of /micro, one boot ──► JSON lines ──► results

A boot takes longer than most benches, and no bench disturbs another: each has a process of its
own and no time passes but its own. So a command is as many benches as fit one boot.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from ..c_build import SOURCE_FOLDER
from ..measured_runs import MicroResult
from ..processes import RunError
from .guest_programs import build_program

JOINT = " + "
MICRO_FOLDER = Path(__file__).resolve().parent / "micro"
_WITHOUT_THREAD = (
    "epoll_control.c failure.c machine.c options.c samples.c scan.c sockets.c timing.c waiter.c"
)
"""Of the benches of hardware: what needs no second thread."""
_SERVER_PROGRAM = ("program.c", "serve.c", "server.c")  # the rest is mechanisms and protocol
SIZES = (1, 100, 1000, 6000)
"""Few: without caches all is straight, which the points in the middle show."""
SIZES_OTHERS = (0, 1000, 4000)
BURSTS = (1, 4, 16, 64)
BATCHES = (1, 8, 16, 32, 256)  # and 64, with other connections beside them
REPLIES = (1024, 1448, 2896, 6144)
SCANS = ("select", "poll")
MECHANISMS = (*SCANS, "epoll")


def micro_program() -> Path:
    """Return the microbenchmarks as a static program, built if need be."""
    sources = sorted(MICRO_FOLDER.glob("*.c"))
    sources += [SOURCE_FOLDER / "micro" / name for name in _WITHOUT_THREAD.split()]
    servers = sorted((SOURCE_FOLDER / "servers").glob("*.c"))
    sources += [path for path in servers if path.name not in _SERVER_PROGRAM]
    return build_program("micro", sources)


def _with(bench: str, option: str, values: Iterable[int | str], *rest: str) -> list[str]:
    """Return one bench for each value of *option*."""
    return [" ".join((bench, f"--{option} {value}", *rest)) for value in values]


def bench_commands() -> list[str]:
    """Return the commands of the one round that there is: another would give the same.

    >>> bench_commands()[0].split(JOINT)[:3]
    ['floor', 'clock', 'tick']
    """
    return [JOINT.join(benches) for benches in _boots()]


def _boots() -> list[list[str]]:
    machine = ["floor", "clock", "tick"]
    waits = [
        *_with("epoll_wait_ready", "ready", (0, 1, 16, 256), "--n 1000"),
        *_with("epoll_recheck", "ready", (1, 16, 64), "--n 1000"),
        *_with("wait_ready", "ready", (1, 16, 256), "--n 1000 --first 0 --mechanism epoll"),
    ]
    packets = [
        *_with("interrupt_connect", "burst", BURSTS),
        *_with("interrupt_connect", "n", SIZES_OTHERS[1:], "--burst 16"),
        "interrupt_connect --burst 16 --mechanism epoll",
        *(
            line
            for bench in ("interrupt_data", "interrupt_data_queued", "interrupt_data_later")
            for line in _with(bench, "burst", BURSTS)
        ),
        *_with("interrupt_data", "n", SIZES_OTHERS[1:], "--burst 16"),
        "interrupt_data --burst 16 --mechanism epoll",
        "interrupt_data_later --burst 16 --mechanism epoll",
        *_with("interrupt_reset", "burst", BURSTS),
        "interrupt_reset_open --burst 16",
        "interrupt_reset_open --burst 16 --mechanism epoll",
        *_with("interrupt_ack_data", "reply", (2896, 6144), "--burst 16"),
        "interrupt_idle",
    ]
    calls = [
        *_with("serve_calls", "n", SIZES_OTHERS, "--mechanism epoll"),
        *_with("serve_calls", "batch", BATCHES, "--mechanism epoll"),
        *_with("serve_calls", "reply", REPLIES),
        *_with("deferred_tick", "n", (0, 1, 16, 64)),
        *_with("deferred_again", "n", (0, 1, 16)),
        *_with("deferred_sleep", "n", (0, 1, 16)),
    ]
    sleeps = [
        *_with("asleep", "mechanism", MECHANISMS),
        *_with("asleep", "mechanism", MECHANISMS, "--n 1000"),
        *_with("block", "mechanism", MECHANISMS),
        *_with("block", "mechanism", MECHANISMS, "--n 1000"),
        *_with("block", "ready", (2, 16), "--n 16"),
        "pingpong_spin",
        *_with("pingpong_block", "mechanism", MECHANISMS),
        "handshake_idle",
        "handshake_spin",
    ]
    moments = [
        "write_leaves",
        "accept_looks",
        *(line for name in SCANS for line in _with("wait_looks", "n", (2, 1000), _own(name))),
        *_with("interrupt_syn_dropped", "burst", BURSTS[1:]),  # the last: they come again
    ]
    return [[*machine, *waits, *calls], packets, sleeps, *map(_scan_benches, SCANS), moments]


def _own(name: str) -> str:
    return f"--mechanism {name}"


def _scan_benches(name: str) -> list[str]:
    """Return the benches of a mechanism that looks at all descriptors."""
    own = _own(name)
    return [
        *_with("wait_ready", "n", SIZES, "--first 0", own),
        *_with("wait_ready", "first", (500, 999), "--n 1000", own),
        *_with("wait_ready", "first", (5999,), "--n 6000", own),
        *_with("wait_ready", "ready", (16, 256), "--n 1000 --first 0", own),
        *(
            _with("wait_ready", "span", (100, 1000, 6000), "--n 100 --first 0", own)
            if name == "select"
            else ()
        ),
        *_with(f"{name}_scan", "n", (100, 1000)),
        *_with(f"{name}_first", "first", (0, 999), "--n 1000"),
    ]


def bench_arguments(command: str) -> tuple[str, ...]:
    """Return the arguments of /micro for *command*: a bench with its options each."""
    return tuple(command.split(JOINT))


def micro_results(command: str, printed: str, stamp: Mapping[str, object]) -> list[MicroResult]:
    """Return the results that a guest printed, at least one a bench.

    *stamp* has the fields `date`, `code`, `round` and `steering`.

    Raises
    ------
    RunError
        If there are too few results, or one is not valid.
    """
    lines = printed.splitlines()
    if len(lines) < len(bench_arguments(command)):
        raise RunError(f"micro printed {len(lines)} results of {command[:80]}")
    try:
        return [
            MicroResult.model_validate(json.loads(line) | {**stamp, "command": command})
            for line in lines
        ]
    except (ValueError, TypeError, ValidationError) as error:
        raise RunError(f"micro printed no valid result of {command[:80]}") from error
