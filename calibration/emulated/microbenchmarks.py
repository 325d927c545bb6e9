"""The microbenchmarks of the emulated target: which there are, and what a guest printed of them.

    command = benches joined by " + " ──► arguments of /micro, one boot ──► JSON lines ──► results

A boot takes longer than most benches, and no bench disturbs another: each has a process of its
own and no time passes but its own. So a command is as many benches as fit one boot.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from ..measure import microbenchmarks as hardware
from ..points.points import BLOCKING, FURTHER_MECHANISMS, RINGS
from ..records.measured_runs import MicroResult
from ..testbed.c_build import SOURCE_FOLDER
from ..testbed.processes import RunError
from .guest_image import build_program

JOINT = " + "
MICRO_FOLDER = Path(__file__).resolve().parent / "micro"
_WITHOUT_THREAD = (
    "epoll_control.c failure.c handover.c machine.c options.c ring.c rings.c samples.c scan.c "
    "served.c sockets.c spawned.c timing.c told.c wait.c waiter.c watched.c"
)
"""Of the benches of hardware: what needs no second thread."""
_SERVER_PROGRAM = (
    "blocking.c",
    "completion_loop.c",
    "program.c",
    "serve.c",
    "server.c",
)  # the rest is mechanisms and protocol
SIZES = (1, 100, 1000, 6000)
"""Few: without caches all is straight, which the points in the middle show."""
SIZES_OTHERS = (0, 1000, 4000)
BURSTS = (1, 4, 16, 64)
BURSTS_APART = (1, 4, 16, 32)  # of packets that do not come at once: 64 take longer than a tick
BATCHES = (1, 8, 16, 32)  # and 64, with other connections beside them
REPLIES = (1024, 1448, 2896, 6144)
SCANS = ("select", "poll")
MECHANISMS = (*SCANS, "epoll")

MERGED = ("rt_signals", "signalfd", "epoll_edge", "epoll_once", BLOCKING, *RINGS)
"""Mechanisms of every Linux, besides those above, by the names of their servers."""
UNMERGED = ("signal_per_fd", "sigtimedwait4", "epoll_ctlv", "dev_poll")
"""Those that need a kernel of kernel_mechanisms/."""
SIGNALS = ("rt_signals", "signalfd", "signal_per_fd", "sigtimedwait4")
TOLD = (1, 16, 64)  # descriptors with news
FEW_AT_ONCE = 8  # connections of a batch: all are in the allocator's lists
CHANGED = (1, 16, 64)
ENDED_AT_ONCE = BURSTS_APART[1]
POLLED = (1, 16, 64)  # polls submitted at once
QUEUE, QUEUE_LONG = 64, 1000  # signals; the second with as many events as one wait gives
RECOVERED = (100, 1100, 3000)  # descriptors that a recovery polls, each more than QUEUE
RECOVERED_LONG = 1100
HANDOVERS = (2, 8, 64)  # threads that take turns


def micro_program() -> Path:
    """Return the microbenchmarks as a static program, built if need be."""
    sources = sorted(MICRO_FOLDER.glob("*.c"))
    sources += [SOURCE_FOLDER / "c/micro" / name for name in _WITHOUT_THREAD.split()]
    servers = sorted((SOURCE_FOLDER / "c/servers").glob("*.c"))
    sources += [path for path in servers if path.name not in _SERVER_PROGRAM]
    return build_program("micro", sources)


def _with(bench: str, option: str, values: Iterable[int | str], *rest: str) -> list[str]:
    """Return one bench for each value of *option*."""
    return [" ".join((bench, f"--{option} {value}", *rest)) for value in values]


def bench_commands(mechanisms: Sequence[str] = MERGED) -> list[str]:
    """Return the commands of the one round that there is: another would give the same.

    Parameters
    ----------
    mechanisms
        Those of MERGED and UNMERGED that the guest's kernel has.

    >>> bench_commands(["epoll_once"])[-1].split(JOINT)[0]
    'wait_ready --n 1 --first 0 --mechanism epoll_once'
    """
    boots = _shared_boots()
    if set(SIGNALS) & set(mechanisms):
        boots.append(_unsignalled_benches())
    for name in mechanisms:
        boots.extend(_blocking_boots() if name == BLOCKING else [_benches_of(name)])
    return [JOINT.join(benches) for benches in boots]


def _shared_boots() -> list[list[str]]:
    waits = [
        *_with("epoll_recheck", "ready", (1, 16, 64), "--n 1000"),
        *_with("wait_ready", "ready", (1, 16, 256), "--n 1000 --first 0 --mechanism epoll"),
    ]
    packets = [
        *_with("interrupt_connect", "burst", BURSTS),
        *_with("interrupt_data_queued", "burst", BURSTS),
        *_with("interrupt_reset", "burst", BURSTS_APART),
    ]
    calls = [
        *_with("serve_calls", "n", SIZES_OTHERS, "--mechanism epoll"),
        *_with("serve_calls", "batch", BATCHES, "--mechanism epoll"),
        *_with("serve_calls", "reply", REPLIES),
        *_with("deferred_tick", "n", (0, 1, 16, 64)),
        *_with("deferred_again", "n", (0, 1, 16)),
        *_with("deferred_sleep", "n", (0, 1)),
    ]
    sleeps = [
        *(line for name in SCANS for line in _with("asleep", "n", (1, 1000), _own(name))),
        *_with("block", "mechanism", MECHANISMS),
        "handshake_idle",
        "handshake_spin",
    ]
    moments = [
        "write_leaves",
        "accept_looks",
        *(line for name in SCANS for line in _with("wait_looks", "n", (2, 1000), _own(name))),
        *_with("interrupt_syn_dropped", "burst", BURSTS[1:]),  # the last: they come again
    ]
    return [[*waits, *calls], packets, sleeps, *map(_scan_benches, SCANS), moments, ["floor"]]


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
    ]


def _unsignalled_benches() -> list[str]:
    """Return the benches of packets that what a signal adds to them is less."""
    return [
        *_with("interrupt_data", "burst", BURSTS),
        *_with("interrupt_data_more", "burst", BURSTS[1:]),
    ]


def _benches_of(name: str) -> list[str]:
    """Return the benches of one of MERGED or UNMERGED."""
    if name in SIGNALS:
        return _signal_benches(name)
    own = _own(name)
    watching = [f"serve_calls --batch {FEW_AT_ONCE} {own}", f"wait_vain {own}"]
    changing = [
        *_with("wait_changed", "batch", CHANGED, own),
        *_with("wait_ready", "ready", (1, 16, 256), "--n 1000 --first 0", own),
    ]
    items = [
        *_with("wait_ready", "n", (1, 100, 6000), "--first 0", own),
        *_with("wait_looks", "n", (2, 1000), own),
    ]
    return {
        "epoll_edge": [*_with("wait_told", "ready", TOLD, own), *watching],
        "epoll_once": [*_with("wait_ready", "n", (1, 100, 1000), "--first 0", own), *watching],
        "epoll_ctlv": changing,
        "dev_poll": [*changing, *items],
        "aio_poll": [*_with("polls_submitted", "batch", POLLED), "polls_sleep"],
        "io_uring": [
            f"ring_calls --batch {FEW_AT_ONCE}",
            "ring_sleeps",
            f"close_ended --burst {ENDED_AT_ONCE}",
        ],
    }[name]


def _blocking_boots() -> list[list[str]]:
    """Return the benches of threads; what begins them is alone, as a server is that is forked."""
    handovers = [
        line
        for kind in ("threads", "processes")
        for line in _with(f"handover_{kind}", "n", HANDOVERS)
    ]
    return [["read_sleeps", "accept_sleeps", *handovers], ["spawn_thread"], ["spawn_process"]]


def _signal_benches(name: str) -> list[str]:
    own, full = _own(name), "--queue 1"
    bounds = ("", full) if name == "signal_per_fd" else (full,)
    return [
        f"serve_calls --batch {FEW_AT_ONCE} {own}",
        *_with("wait_told", "ready", TOLD, own),
        *_with("interrupt_data", "burst", BURSTS, own),
        *(
            line
            for bound in bounds
            for line in _with("interrupt_data_more", "burst", BURSTS[1:], *bound.split(), own)
        ),
        *_with("wait_recovers", "n", RECOVERED, f"--queue {QUEUE}", own),
        f"wait_recovers --n {RECOVERED_LONG} --queue {QUEUE_LONG} {own}",
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


def missing_commands(micro: Sequence[MicroResult]) -> list[str]:
    """Return the command lines of a whole round of which there is no result.

    On hardware: of those that every profile needs, and of the mechanisms that were begun with.

    >>> len(missing_commands([])) == len(hardware.bench_commands(mechanisms=()))
    True
    """
    counted = any((row.model_extra or {}).get("steering") == "emulated" for row in micro)
    found = {row.command for row in micro}
    if counted:
        commands = bench_commands()
    else:
        begun = [name for name in FURTHER_MECHANISMS if _is_begun(name, found)]
        commands = hardware.bench_commands(mechanisms=begun)
    return [command for command in commands if command not in found]


def _is_begun(mechanism: str, found: Collection[str]) -> bool:
    others = (name for name in FURTHER_MECHANISMS if name != mechanism)
    shared = {command for name in others for command in hardware.further_commands(name)}
    own = set(hardware.further_commands(mechanism)) - shared
    return not own.isdisjoint(found)
