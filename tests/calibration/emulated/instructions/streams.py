"""Streams of events for the profiler's machine, written as what a kernel does."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import dataclass, field

from dispatchsim.calibration.emulated.instructions.call_tree import (
    CallTree,
    discovered_addresses,
    parse_call_tree,
    path_of,
)
from dispatchsim.calibration.emulated.instructions.instruction_profile import stream_program

IDLE_STACK = 0xFFFFFFFF81A00000  # as in plugin/stream.c
TASK_A, TASK_B, INTERRUPT_STACK = 0xFFFFC90000010000, 0xFFFFC90000020000, 0xFFFFC90000030000
ENTRY_AREA = 0xFFFFFE0000002000
STACK_BYTES = 1 << 14
NAMES = (
    "main", "entry", "dispatch", "sys_read", "vfs_read", "sys_wait", "schedule", "switch", "vector",
    "save", "handler", "softirq", "do_idle", "schedule_idle", "sys_ctl", "remove", "observer_main",
    "cold",
)  # fmt: skip
_KINDS = {
    "entry": "E", "sys_read": "S", "sys_wait": "S", "switch": "W", "vector": "I", "save": "F",
    "do_idle": "L", "schedule_idle": "N", "sys_ctl": "U", "remove": "D",
}  # fmt: skip


@dataclass
class Kernel:
    """Writes down what a kernel executes: each method is an event, in their order."""

    lines: list[str] = field(default_factory=list)

    def run(self, name: str, n: int, *, start: bool = False) -> None:
        """Execute *n* instructions of *name*; *start*: from its first one on."""
        kind = _KINDS.get(name, "-") if start else "-"
        mode = "u" if name in ("main", "observer_main") else "k"
        self.lines.append(f"block {NAMES.index(name)} {kind} {mode} {n}")

    def call(self, stack: int, depth: int, name: str, n: int) -> None:
        """Call *name*; its return address is in the slot *depth* of *stack*."""
        self.lines.append(f"call {_slot(stack, depth):x}")
        self.run(name, n, start=True)

    def back(self, stack: int, depth: int, name: str, n: int) -> None:
        """Return through the slot *depth* of *stack* into *name*."""
        self.lines.append(f"return {_slot(stack, depth):x}")
        self.run(name, n)

    def event(self, name: str) -> None:
        """Write an event without arguments."""
        self.lines.append(name)

    def tree(self) -> CallTree:
        """Return what the machine makes of it."""
        text = output_of("\n".join(self.lines) + "\n")
        names = [f"{address:#x}" for address in discovered_addresses(text)]
        return parse_call_tree(text, NAMES, names)

    def counts(self) -> dict[str, int]:
        """Return the instructions of each path that has any, as `root/function/function`."""
        return counts_of(self.tree())


def _slot(stack: int, depth: int) -> int:
    return stack + STACK_BYTES - 256 - 8 * 32 * depth


def output_of(stream: str) -> str:
    """Return what the machine prints for *stream*."""
    finished = subprocess.run(
        [str(stream_program())], input=stream, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    return finished.stdout


def counts_of(tree: CallTree) -> dict[str, int]:
    """Return the instructions of each path that has any."""
    counts: Counter[str] = Counter()
    for index, node in enumerate(tree):
        if node.n_instructions:
            counts["/".join(path_of(tree, index))] += node.n_instructions
    return dict(counts)
