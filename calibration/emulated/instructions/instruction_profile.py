"""Profile one operating point: run it under the plugin, name the functions, check the sum.

    Point ──► macro job ──► guest under the plugin ──► call tree ──► ledger, per reply ──► a table

The plugin only observes: the guest prints the same bytes as without it. It is built once for each
version of its sources, into a folder of the user's cache; a hash of plugin/*.c and guest/marker.h
names it. The checks:

    instructions of the window  =  length of the window - time halted   (1 instruction = 1 ns)
    idle time by the kernel's count  >  time halted, by the way into and out of idleness
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...points.point import Point, stored
from ...records.run_result import difference
from ...testbed.c_build import cache_folder
from ..guest_image import compiled, counter_names, init_program, server_program
from ..guest_run import GuestOutput, Job, macro_frames, run_guest
from ..kernel_build import WIRE_FOLDER, Kernel, build_module, kernel
from ..kernel_source import TargetMissingError
from ..macro_run import job_of
from ..run_lengths import RunLengths
from .call_tree import CallTree, Ledger, discovered_addresses, ledger_of, parse_call_tree
from .symbols import (
    Function,
    address_of,
    function_table,
    kernel_functions,
    module_names,
    object_functions,
    table_text,
)

PLUGIN_FOLDER = Path(__file__).resolve().parent / "plugin"
_MARKER = PLUGIN_FOLDER.parent.parent / "guest" / "marker.h"
_MACHINE = ("call_tree.c", "shadow_stack.c", "context.c")
_OPTIONS = (
    "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion",
    "-Wstrict-prototypes", "-Werror",
)  # fmt: skip
_SHARED = ("-fPIC", "-fvisibility=hidden", "-shared")
_BUILD_SECONDS_MAX = 120


def plugin() -> Path:
    """Return the plugin's shared object, built if necessary.

    Raises
    ------
    TargetMissingError
        If gcc is not installed.
    TargetError
        If a source does not compile.
    """
    return _built("libprofiler.so", (*_MACHINE, "symbol_table.c", "profiler.c"), _SHARED)


def stream_program() -> Path:
    """Return the program that simulates the profiler's machine from a text, for its tests."""
    return _built("stream", (*_MACHINE, "stream.c"), ())


def _built(name: str, sources: Sequence[str], options: Sequence[str]) -> Path:
    if shutil.which("gcc") is None:
        raise TargetMissingError(
            "gcc is not installed, but the profiler needs it: apt-get install gcc"
        )
    return compiled(
        cache_folder() / f"profiler-{_source_hash()}" / name,
        [*_OPTIONS, *options, *(str(PLUGIN_FOLDER / source) for source in sources)],
        name="the profiler",
        seconds_max=_BUILD_SECONDS_MAX,
    )


def _source_hash() -> str:
    digest = hashlib.sha256(" ".join((*_OPTIONS, *_SHARED)).encode())
    for path in [*sorted(PLUGIN_FOLDER.glob("*.[ch]")), _MARKER]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


FORMAT = "dispatchsim-instructions/1"
FUNCTIONS_MAX = 60
INCLUSIVE_MAX = 120
LENGTHS = RunLengths(warm_up_ns=200_000_000, window_ns=400_000_000)
"""Default lengths of the parts of a profiled run."""


@dataclass(frozen=True)
class InstructionProfile:
    """The instructions of a window by function.

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
        """The part of the window that the kernel does not count as idle."""
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
            "point": stored(self.point),
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
    """Return the profile of one repeat of *point*, as in a campaign but with other *lengths*.

    Raises
    ------
    TargetMissingError
        If a program or package that the target needs is not installed.
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
    """Run *job* under the plugin; return the guest's output and the named call tree.

    *modules*: those modules of the job whose functions are named, the most used first.
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


_FUNCTIONS_SHOWN = 40
_SHOWN_LEAST = 60  # instructions per reply, including callees, of a line that is shown
_SHARE_LEAST = 0.03  # of its activity, likewise
_CHAIN_SHARE = 0.985  # a function with this share of its instructions in one callee is left out
_DEPTH_MAX = 14


@dataclass
class _Path:
    """A path in one activity, and the instructions of all its instances."""

    n_inclusive: int = 0
    n_entries: int = 0
    below: dict[str, _Path] = field(default_factory=dict)


def table_of(profile: InstructionProfile) -> str:
    """Return a profile as lines of text, all numbers per reply."""
    ledger, n = profile.ledger, max(profile.replies, 1)
    lines = [
        f"{profile.point.label}, repeat {profile.repeat}",
        f"{profile.replies} replies in {profile.window_ns / 1e6:.3f} ms, "
        f"{profile.replies / profile.window_ns * 1e9:.0f}/s, "
        f"idle {profile.idle_ns / profile.window_ns:.2%}",
        f"{ledger.n_instructions} instructions, {ledger.n_instructions / n:.1f} a reply; "
        f"busy time {profile.busy_ns / n:.1f}; counted beyond it {profile.excess} in total "
        f"({profile.excess / profile.busy_ns:.4%})",
        "",
        f"{'activity, and the functions it called':<64} instructions   entries",
    ]
    trees = _trees(profile)
    for activity, count in sorted(ledger.activities.items(), key=lambda item: -item[1]):
        if count == 0:
            continue
        lines.append(f"{activity:<64} {count / n:12.1f}")
        least = max(_SHOWN_LEAST * n, _SHARE_LEAST * count) if count > n else count + 1
        lines += [
            f"{'  ' * depth + name:<64} {path.n_inclusive / n:12.1f} {path.n_entries / n:9.4f}"
            for depth, name, path in _shown(trees[activity], least, 1)
        ]
    lines += ["", f"{'function itself':<64} instructions"]
    functions = sorted(ledger.functions.items(), key=lambda item: (-item[1], item[0]))
    lines += [f"{name:<64} {count / n:12.1f}" for name, count in functions[:_FUNCTIONS_SHOWN]]
    return "\n".join(lines)


def _trees(profile: InstructionProfile) -> dict[str, _Path]:
    trees = {activity: _Path() for activity in profile.ledger.activities}
    for (activity, *names), (n_instructions, n_entries) in profile.ledger.paths.items():
        path = trees[activity]
        path.n_inclusive += n_instructions
        for name in names:
            path = path.below.setdefault(name, _Path())
            path.n_inclusive += n_instructions
        path.n_entries += n_entries
    return trees


def _shown(path: _Path, least: float, depth: int) -> Iterator[tuple[int, str, _Path]]:
    """Yield the lines below *path*, the largest first, without those that only call one other."""
    for name, child in sorted(path.below.items(), key=lambda item: -item[1].n_inclusive):
        if child.n_inclusive < least or depth > _DEPTH_MAX:
            continue
        largest = max((below.n_inclusive for below in child.below.values()), default=0)
        if largest >= _CHAIN_SHARE * child.n_inclusive:
            yield from _shown(child, least, depth)
        else:
            yield depth, name, child
            yield from _shown(child, least, depth + 1)
