"""Profile one operating point: run it under the plugin, name what it counted, check the sum.

    Point ──► macro job ──► guest under the plugin ──► call tree ──► ledger, per reply

The plugin only watches: the guest prints the same bytes as without it. The checks:

    instructions of the window  =  length of the window - time halted   (1 instruction = 1 ns)
    idle time as the kernel counts it  >  time halted, by the way into and out of idleness
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...point_runs import trace_for
from ...points import Point
from ..guest_programs import init_program, server_program
from ..guest_run import (
    COUNTERS_PATH,
    SERVER_ADDRESS,
    GuestOutput,
    Job,
    MacroLoad,
    macro_job,
    run_guest,
)
from ..kernel_build import Kernel, kernel
from ..kernel_modules import WIRE_FOLDER, build_module
from .activities import Ledger, ledger_of
from .call_tree import CallTree, discovered_addresses, parse_call_tree
from .plugin_build import plugin
from .symbols import (
    Function,
    address_of,
    function_table,
    kernel_functions,
    module_names,
    object_functions,
    table_text,
)

FORMAT = "dispatchsim-instructions/1"
FUNCTIONS_MAX = 60
INCLUSIVE_MAX = 120
_PORT = 8080
_FDS_SPARE = 4096
_SECONDS_MAX = 600
_RATE_SHARE_CLOSED = 60_000  # connections a second that a closed loop may start: room for records


@dataclass(frozen=True, kw_only=True)
class ProfileTiming:
    """How long the parts of a profiled run last, in seconds of the guest."""

    warm_up_s: float = 0.2
    window_s: float = 0.4
    after_s: float = 0.02

    @property
    def run_s(self) -> float:
        """The length of the load."""
        return self.warm_up_s + self.window_s + self.after_s


@dataclass(frozen=True)
class InstructionProfile:
    """Where the instructions of a window went.

    Times in ns of the guest, which are instructions; `idle_ns` is the kernel's idle time.
    """

    point: Point
    repeat: int
    replies: int
    window_ns: int
    idle_ns: int
    ledger: Ledger

    @property
    def busy_ns(self) -> int:
        """What of the window the kernel does not count as idle."""
        return self.window_ns - self.idle_ns

    @property
    def excess(self) -> int:
        """Instructions counted beyond the busy time: the way into and out of idleness."""
        return self.ledger.n_instructions - self.busy_ns

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON data; instructions and entries are per reply."""
        n = max(self.replies, 1)
        inclusive = {
            activity: _largest(functions, n, INCLUSIVE_MAX)
            for activity, functions in self.ledger.inclusive.items()
            if functions
        }
        return {
            "format": FORMAT,
            "point": asdict(self.point),
            "repeat": self.repeat,
            "replies": self.replies,
            "window_ns": self.window_ns,
            "idle_ns": self.idle_ns,
            "busy_ns": self.busy_ns,
            "instructions": self.ledger.n_instructions,
            "activities": {name: count / n for name, count in self.ledger.activities.items()},
            "functions": _largest(self.ledger.functions, n, FUNCTIONS_MAX),
            "inclusive": inclusive,
            "entries": {
                activity: {
                    name: self.ledger.entries[activity].get(name, 0) / n for name in functions
                }
                for activity, functions in inclusive.items()
            },
        }


def _largest(counts: Mapping[str, int], n_replies: int, n_max: int) -> dict[str, float]:
    """Return the largest counts, per reply."""
    names = sorted(counts, key=lambda name: (-counts[name], name))[:n_max]
    return {name: counts[name] / n_replies for name in names if counts[name] > 0}


def profile_point(
    point: Point,
    repeat: int = 0,
    *,
    timing: ProfileTiming | None = None,
    target_kernel: Kernel | None = None,
    cpu: int | None = None,
) -> InstructionProfile:
    """Return the profile of one repeat of *point*, whose arrivals are those of a measured run.

    Raises
    ------
    TargetMissingError
        If something that the target is made from is not installed.
    TargetError
        If the guest or the profiler fails.
    """
    timing = timing or ProfileTiming()
    used = target_kernel or kernel()
    wire = build_module(WIRE_FOLDER, used)
    job = _job(point, repeat, timing, wire)
    output, tree = run_profiled(job, used, modules=(wire,), cpu=cpu)
    counters = [struct.unpack_from("<14Q", output.frames[f"counters_{end}"]) for end in _ENDS]
    status = [struct.unpack_from("<2Q", output.frames[f"wire_{end}"]) for end in _ENDS]
    return InstructionProfile(
        point=point,
        repeat=repeat,
        replies=counters[1][_REPLIES] - counters[0][_REPLIES],
        window_ns=status[1][0] - status[0][0],
        idle_ns=status[1][1] - status[0][1],
        ledger=ledger_of(tree),
    )


_ENDS = ("before", "after")
_REPLIES = 13  # sim/kinds.py, Count: the counters of the server in the order of its file


def _job(point: Point, repeat: int, timing: ProfileTiming, wire: Path) -> Job:
    """Return the macro job of *point*."""
    trace = trace_for(point, point.seed(repeat), timing.run_s)
    with tempfile.TemporaryDirectory(prefix="dispatchsim-profile-") as scratch:
        path = Path(scratch, "trace")
        trace.write(path)
        content = path.read_bytes()
    n_rows = len(trace.at_ns)
    records_max = n_rows if point.loop == "open" else round(_RATE_SHARE_CLOSED * timing.run_s)
    load = MacroLoad(
        trace=content,
        records_max=records_max,
        warm_up_ns=round(timing.warm_up_s * 1e9),
        window_ns=round(timing.window_s * 1e9),
        after_ns=round(timing.after_s * 1e9),
        timeout_ns=point.timeout_ns,
        idle=point.idle,
        port=_PORT,
    )
    arguments = (
        "--mechanism", point.mechanism, "--address", SERVER_ADDRESS, "--port", str(_PORT),
        "--backlog", str(point.backlog), "--accept-limit", str(point.accept_limit),
        "--listener", point.listener, "--max-events", str(point.max_events),
        "--fd-limit", str(point.idle + _FDS_SPARE), "--counters", COUNTERS_PATH,
        "--seconds-max", str(_SECONDS_MAX),
        *(["--read-after-accept"] if point.read_after_accept else []),
    )  # fmt: skip
    return macro_job(server_program(), arguments, load, (wire,))


def run_profiled(
    job: Job, target_kernel: Kernel, *, modules: tuple[Path, ...] = (), cpu: int | None = None
) -> tuple[GuestOutput, CallTree]:
    """Run *job* under the plugin; return what the guest printed, and the named call tree.

    *modules* are those of the job's whose functions are to be named, the most used one first.
    """
    system_map = target_kernel.system_map.read_text()
    table = function_table(kernel_functions(system_map), object_functions(job.program))
    with tempfile.TemporaryDirectory(prefix="dispatchsim-profile-") as scratch:
        symbols_path, tree_path = Path(scratch, "symbols"), Path(scratch, "tree")
        symbols_path.write_text(table_text(table))
        idle_stack = address_of(system_map, "init_stack")
        options = (
            "-plugin",
            f"{plugin()},symbols={symbols_path},output={tree_path},idle_stack={idle_stack:x}",
        )
        output = run_guest(
            job, kernel=target_kernel, init=init_program(), cpu=cpu, more_options=options
        )
        text = tree_path.read_text()
    return output, _named(text, table, modules)


def _named(text: str, table: list[Function], modules: tuple[Path, ...]) -> CallTree:
    addresses = discovered_addresses(text)
    names = [f"{address:#x}" for address in addresses]
    if modules:
        names = module_names(addresses, modules[0].stem, object_functions(modules[0]))
    return parse_call_tree(text, [function.name for function in table], names)
