"""The microbenchmarks of the emulated target: their commands, and the results of a guest.

    command = benches joined by " + " ──► arguments of /micro, one boot ──► JSON lines ──► results

A boot takes longer than most benches, and benches do not disturb each other: each has a process of
its own. So a command holds as many benches as fit one boot: benches.toml.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from ..measure import microbenchmarks as hardware
from ..points.point import BLOCKING
from ..points.points import FURTHER_MECHANISMS, RINGS
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
"""Sources of the hardware's benches that need no second thread."""
_SERVER_PROGRAM = (
    "blocking.c",
    "completion_loop.c",
    "program.c",
    "serve.c",
    "server.c",
)  # the rest is mechanisms and protocol
MERGED = ("rt_signals", "signalfd", "epoll_edge", "epoll_once", BLOCKING, *RINGS)
"""Mechanisms of every Linux, besides those above, by the names of their servers."""
UNMERGED = ("signal_per_fd", "sigtimedwait4", "epoll_ctlv", "dev_poll")
"""Mechanisms that need a kernel of kernel_mechanisms/."""
SIGNALS = ("rt_signals", "signalfd", "signal_per_fd", "sigtimedwait4")
_BENCHES = tomllib.loads(Path(__file__).with_name("benches.toml").read_text(encoding="utf-8"))


def micro_program() -> Path:
    """Return the microbenchmarks as a static program, built if necessary."""
    sources = sorted(MICRO_FOLDER.glob("*.c"))
    sources += [SOURCE_FOLDER / "c/micro" / name for name in _WITHOUT_THREAD.split()]
    servers = sorted((SOURCE_FOLDER / "c/servers").glob("*.c"))
    sources += [path for path in servers if path.name not in _SERVER_PROGRAM]
    return build_program("micro", sources)


def bench_commands(mechanisms: Sequence[str] = MERGED) -> list[str]:
    """Return the commands of the only round: another round would give the same results.

    Parameters
    ----------
    mechanisms
        The mechanisms of MERGED and UNMERGED that the guest's kernel has.

    >>> bench_commands(["epoll_once"])[-1].split(JOINT)[0]
    'wait_ready --n 1 --first 0 --mechanism epoll_once'
    """
    boots = [("", boot) for boot in _BENCHES["shared"]]
    if set(SIGNALS) & set(mechanisms):
        boots += [("", boot) for boot in _BENCHES["unsignalled"]]
    for name in mechanisms:
        boots += [(name, boot) for boot in _BENCHES["of"][name]]
    return [
        JOINT.join(bench for line in boot for bench in _each(line, name)) for name, boot in boots
    ]


def _each(line: str, mechanism: str) -> list[str]:
    """Return one bench for each value in braces.

    >>> _each("wait_told --ready {1,16} --mechanism {mechanism}", "signalfd")
    ['wait_told --ready 1 --mechanism signalfd', 'wait_told --ready 16 --mechanism signalfd']
    """
    before, _, rest = line.replace("{mechanism}", mechanism).partition("{")
    values, _, after = rest.partition("}")
    return [f"{before}{value}{after}" for value in values.split(",")]


def bench_arguments(command: str) -> tuple[str, ...]:
    """Return the arguments of /micro for *command*: one bench with its options each."""
    return tuple(command.split(JOINT))


def micro_results(command: str, printed: str, stamp: Mapping[str, object]) -> list[MicroResult]:
    """Return the results that a guest printed, at least one for each bench.

    *stamp* has the fields `date`, `code`, `round` and `steering`.

    Raises
    ------
    RunError
        If there are too few results, or one is invalid.
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
    """Return the commands of a whole round that have no result yet.

    On hardware: the commands that every profile needs, and those of mechanisms already begun.

    >>> len(missing_commands([])) == len(hardware.bench_commands(mechanisms=()))
    True
    """
    counted = any(row.steering == "emulated" for row in micro)
    found = {row.in_full for row in micro}
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
