"""What the simulator calls it: from paths through the kernel to the rows of the CPU's ledger.

    system call   ──► wait, accept, read, ...   the way in and out included
      schedule    ──► sleep, and wake from where the task has the CPU again
      softirq     ──► interrupt                 whoever runs it
    interrupt     ──► interrupt, interrupt_idle when the CPU was idle
      tick        ──► tick
      RCU, timers ──► deferred
    idle task     ──► sleep until the halt, wake from the halt to the switch

A path inherits the activity of the path above it until a function on it says otherwise.

Sources: sim/state/kinds.py, Activity; Linux 6.1, kernel/sched/idle.c do_idle(), kernel/softirq.c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .call_tree import RESUMED, ROOTS, CallTree, path_of

ACTIVITIES = (
    "user", "wait", "accept", "read", "write", "close", "watch", "rewatch", "unwatch", "sleep",
    "wake", "interrupt", "interrupt_idle", "tick", "deferred", "fault", "observer", "other",
)  # fmt: skip
"""Those of the simulator by its names, then what it leaves out or to others.

tick: the scheduler's clock; deferred: RCU callbacks, timer softirqs, threads of the kernel; fault:
page faults and other exceptions; observer: the process that reads the counters at both ends of
the window; other: system calls that no server makes for a request.
"""

_CALL = "call"
_CALL_ROOT = ROOTS.index(_CALL)
_ROOT_ACTIVITIES = {
    "user": "user",
    "interrupt": "interrupt",
    "interrupt idle": "interrupt_idle",
    "idle down": "sleep",
    "idle up": "wake",
    "idle again": "interrupt_idle",  # an interrupt that woke nobody, and the halt after it
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
# epoll_ctl is three operations; the plugin names it after the one it is.
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
"""What a function makes of the activity above it."""


def _next_activity(above: str, name: str, *, first: bool) -> str:
    """Return the activity of a path that goes on with *name*; *first*: below its root."""
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
    functions: Mapping[str, int]  # executed in the function itself
    inclusive: Mapping[str, Mapping[str, int]]  # activity -> function -> with what it called
    entries: Mapping[str, Mapping[str, int]]  # activity -> function -> how often it was entered
    paths: Mapping[tuple[str, ...], tuple[int, int]]  # (activity, *functions) -> itself, entries

    @property
    def n_instructions(self) -> int:
        """All instructions of the window."""
        return sum(self.activities.values())


def ledger_of(tree: CallTree) -> Ledger:
    """Return where the instructions of *tree* went."""
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
