"""Profile one operating point: run it under the plugin, name what it counted, check the sum.

    Point ──► macro job ──► guest under the plugin ──► call tree ──► ledger, per reply

The plugin only watches: the guest prints the same bytes as without it. The checks:

    instructions of the window  =  length of the window - time halted   (1 instruction = 1 ns)
    idle time as the kernel counts it  >  time halted, by the way into and out of idleness
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...points.points import Point
from ...records.run_result import difference
from ..grid import RunLengths
from ..guest_frames import macro_frames
from ..guest_programs import counter_names, init_program, server_program
from ..guest_run import GuestOutput, Job, run_guest
from ..kernel_build import WIRE_FOLDER, Kernel, build_module, kernel
from ..macro_run import job_of
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
LENGTHS = RunLengths(warm_up_ns=200_000_000, window_ns=400_000_000)
"""Of the parts of a profiled run, unless told otherwise."""


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
    lengths: RunLengths = LENGTHS,
    target_kernel: Kernel | None = None,
    cpu: int | None = None,
) -> InstructionProfile:
    """Return the profile of one repeat of *point*, as a campaign runs it but for its *lengths*.

    Raises
    ------
    TargetMissingError
        If something that the target is made from is not installed.
    TargetError
        If the guest or the profiler fails.
    """
    used = target_kernel or kernel()
    wire, server = build_module(WIRE_FOLDER, used), server_program()
    job = job_of(point, point.seed(repeat), lengths, server=server, modules=(wire,))
    output, tree = run_profiled(job, used, modules=(wire,), cpu=cpu)
    frames = macro_frames(output.frames, counter_names(server))
    on_wire = difference(frames.wire_before, frames.wire_after)
    return InstructionProfile(
        point=point,
        repeat=repeat,
        replies=difference(frames.counters_before, frames.counters_after)["replies"],
        window_ns=on_wire["now_ns"],
        idle_ns=on_wire["idle_ns"],
        ledger=ledger_of(tree),
    )


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
