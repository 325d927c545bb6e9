"""Instructions by path through the kernel, from the plugin's output, and their activities.

    system call   ──► wait, accept, read, ...   including the entry and exit
      schedule    ──► sleep, and wake from where the task has the CPU again
      softirq     ──► interrupt                 in any context
    interrupt     ──► interrupt, interrupt_idle when the CPU was idle
      tick        ──► tick
      RCU, timers ──► deferred
    idle task     ──► sleep until the halt, wake from the halt to the switch

A path inherits the activity of the path above it, a row of the CPU's ledger, unless a function on
it sets another activity.

Sources: sim/state/kinds.py, Activity; Linux 6.1, kernel/sched/idle.c do_idle(), kernel/softirq.c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..kernel_source import TargetError

ROOTS = (
    "boot", "user", "call", "unnamed call", "interrupt", "interrupt idle", "idle down", "idle up",
    "idle again", "unnamed idle", "thread", "observer",
)  # fmt: skip
"""The roots of paths: enum root of plugin/call_tree.h."""
RESUMED = "(resumed)"
_DISCOVERED, _RESUMED, _NONE = 0x40000000, 0x7FFFFFFE, 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Node:
    """A function on one path: its own instructions, and how often it was entered.

    `parent` is an index in the tree, smaller than the node's own; a root is its own parent.
    """

    parent: int
    name: str
    n_instructions: int
    n_entries: int


CallTree = tuple[Node, ...]
"""All nodes, parents before their children; the first are the ROOTS."""


def discovered_addresses(text: str) -> list[int]:
    """Return the addresses of the functions outside of all tables, in the plugin's order."""
    return [int(line.split()[2], 16) for line in text.splitlines() if line.startswith("function ")]


def parse_call_tree(text: str, names: Sequence[str], discovered: Sequence[str]) -> CallTree:
    """Return the tree in the plugin's output.

    Parameters
    ----------
    names
        The names of functions in the table that the plugin read.
    discovered
        The names of the functions at `discovered_addresses`.

    Raises
    ------
    TargetError
        If the output is not complete.
    """
    lines = text.splitlines()
    if not lines or lines[-1] != "done":
        raise TargetError("the profiler did not finish: did the guest end early?")
    rows = [[int(word) for word in line.split()[1:]] for line in lines if line.startswith("node ")]
    special = {_RESUMED: RESUMED, _NONE: "(unknown)"}
    special |= {_DISCOVERED + index: name for index, name in enumerate(discovered)}
    nodes = [
        Node(
            parent,
            ROOTS[index] if index < len(ROOTS) else _name(function, names, special),
            n_instructions,
            n_entries,
        )
        for index, (parent, function, n_instructions, n_entries) in enumerate(rows)
    ]
    return tuple(nodes)


def _name(function: int, names: Sequence[str], special: Mapping[int, str]) -> str:
    return names[function] if function < len(names) else special[function]


def path_of(tree: CallTree, index: int) -> tuple[str, ...]:
    """Return the path of a node, from its root."""
    path = [tree[index].name]
    while tree[index].parent != index:
        index = tree[index].parent
        path.append(tree[index].name)
    return tuple(reversed(path))


ACTIVITIES = (
    "user", "wait", "accept", "read", "write", "close", "watch", "rewatch", "unwatch", "sleep",
    "wake", "interrupt", "interrupt_idle", "tick", "deferred", "fault", "observer", "other",
)  # fmt: skip
"""The simulator's activities by name, then those that it leaves out or counts elsewhere.

tick: the scheduler's clock; deferred: RCU callbacks, timer softirqs, threads of the kernel; fault:
page faults and other exceptions; observer: the process that reads the counters at both ends of
the window; other: system calls that no server makes for requests.
"""

_CALL = "call"
_CALL_ROOT = ROOTS.index(_CALL)
_ROOT_ACTIVITIES = {
    "user": "user",
    "interrupt": "interrupt",
    "interrupt idle": "interrupt_idle",
    "idle down": "sleep",
    "idle up": "wake",
    "idle again": "interrupt_idle",  # an interrupt that woke no task, and the halt after it
    "unnamed idle": "interrupt_idle",
    "thread": "deferred",
    "observer": "observer",
}
_CALLS = {
    "wait": (
        "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6",
        "rt_sigtimedwait", "io_getevents", "io_uring_enter",
    ),
    "accept": ("accept", "accept4"),
    "read": ("read", "recvfrom", "recvmsg", "readv"),
    "write": ("write", "sendto", "sendmsg", "writev"),
    "close": ("close",),
}  # fmt: skip
_ACTIVITY_OF_CALL = {
    f"__x64_sys_{name}": activity for activity, names in _CALLS.items() for name in names
}
# epoll_ctl is three operations; the plugin names each call after its operation.
_ACTIVITY_OF_CALL |= {
    "ep_ptable_queue_proc": "watch",
    "__x64_sys_epoll_ctl": "rewatch",
    "ep_remove": "unwatch",
}
_OF_A_PROCESS = {*_ACTIVITY_OF_CALL.values(), "other"}
_SCHEDULE = ("schedule", "__schedule")
_SOFTIRQ = ("do_softirq", "do_softirq_own_stack", "__do_softirq")
_NETWORK = "net_rx_action"
_DEFERRED = ("rcu_core", "rcu_core_si", "rcu_process_callbacks", "run_timer_softirq",
             "tasklet_action", "tasklet_hi_action", "hrtimer_run_softirq")  # fmt: skip
_TICK = ("tick_sched_timer", "tick_sched_handle.isra.0", "update_process_times")


def _changes(activity: str, names: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(names, activity)


_IN_A_PROCESS = _changes("sleep", _SCHEDULE) | _changes("interrupt", _SOFTIRQ)
_IN_AN_INTERRUPT = _changes("tick", _TICK) | _changes("deferred", _DEFERRED)
_CHANGES = {
    **dict.fromkeys(_OF_A_PROCESS, _IN_A_PROCESS),
    "interrupt": _IN_AN_INTERRUPT,
    "interrupt_idle": _IN_AN_INTERRUPT,
    "deferred": {_NETWORK: "interrupt"},  # left over by an interrupt for ksoftirqd
    "sleep": {RESUMED: "wake"},
}
"""The activity that a function sets, given the activity above it."""


def _next_activity(above: str, name: str, *, first: bool) -> str:
    """Return the activity of a path that continues with *name*; *first*: below its root."""
    if first and above == _CALL:
        return _ACTIVITY_OF_CALL.get(name, "other")
    if first and above in ("interrupt", "interrupt_idle") and name.startswith("asm_exc_"):
        return "fault"
    return _CHANGES.get(above, {}).get(name, above)


def activities_of(tree: CallTree) -> list[str]:
    """Return the activity of each node's own instructions."""
    result = [_ROOT_ACTIVITIES.get(root, "other") for root in ROOTS]
    for index in range(len(ROOTS), len(tree)):
        node = tree[index]
        assert node.parent < index, "the plugin writes parents first"
        first = node.parent < len(ROOTS)
        above = _CALL if node.parent == _CALL_ROOT else result[node.parent]
        result.append(_next_activity(above, node.name, first=first))
    return result


@dataclass(frozen=True)
class Ledger:
    """Instructions of a window, by activity, by function, and by both."""

    activities: Mapping[str, int]
    functions: Mapping[str, int]  # instructions of the function itself
    inclusive: Mapping[str, Mapping[str, int]]  # activity -> function -> including its callees
    entries: Mapping[str, Mapping[str, int]]  # activity -> function -> number of entries
    paths: Mapping[tuple[str, ...], tuple[int, int]]  # (activity, *functions) -> own, entries

    @property
    def n_instructions(self) -> int:
        """All instructions of the window."""
        return sum(self.activities.values())


def ledger_of(tree: CallTree) -> Ledger:
    """Return the instructions of *tree* by activity and function."""
    activities = activities_of(tree)
    totals: Counter[str] = Counter(dict.fromkeys(ACTIVITIES, 0))
    functions: Counter[str] = Counter()
    inclusive: dict[str, Counter[str]] = {name: Counter() for name in ACTIVITIES}
    entries: dict[str, Counter[str]] = {name: Counter() for name in ACTIVITIES}
    paths: dict[tuple[str, ...], tuple[int, int]] = {}
    for index, (node, activity) in enumerate(zip(tree, activities, strict=True)):
        if node.n_instructions == 0 and node.n_entries == 0:
            continue
        totals[activity] += node.n_instructions
        functions[node.name] += node.n_instructions
        entries[activity][node.name] += node.n_entries
        names = path_of(tree, index)[1:]
        for name in set(names):  # each once: recursion must not count twice
            inclusive[activity][name] += node.n_instructions
        before = paths.get((activity, *names), (0, 0))
        paths[activity, *names] = (before[0] + node.n_instructions, before[1] + node.n_entries)
    return Ledger(totals, functions, inclusive, entries, paths)
