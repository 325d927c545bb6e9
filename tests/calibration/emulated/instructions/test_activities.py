"""From paths through the kernel to the rows of the simulator's ledger."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.emulated.instructions.call_tree import (
    ACTIVITIES,
    ROOTS,
    CallTree,
    Node,
    activities_of,
    ledger_of,
    parse_call_tree,
    path_of,
)
from dispatchsim.calibration.emulated.kernel_source import TargetError
from dispatchsim.sim.state.kinds import Activity


def _tree(*paths: tuple[str, int]) -> CallTree:
    """Return a tree of paths `root/function/...`, each with so many instructions."""
    nodes = [Node(index, name, 0, 0) for index, name in enumerate(ROOTS)]
    for path, n_instructions in paths:
        root, *names = path.split("/")
        parent = ROOTS.index(root)
        for name in names:
            children = [i for i, node in enumerate(nodes) if node.parent == parent != i]
            known = [i for i in children if nodes[i].name == name]
            if not known:
                nodes.append(Node(parent, name, 0, 0))
            parent = known[0] if known else len(nodes) - 1
        nodes[parent] = Node(nodes[parent].parent, nodes[parent].name, n_instructions, 1)
    return tuple(nodes)


@pytest.mark.parametrize(
    ("path", "activity"),
    [
        ("user/main", "user"),
        ("call/__x64_sys_poll/entry_SYSCALL_64/do_poll", "wait"),
        ("call/__x64_sys_epoll_wait/entry_SYSCALL_64/ep_poll", "wait"),
        ("call/__x64_sys_accept4/entry_SYSCALL_64", "accept"),
        ("call/__x64_sys_writev/entry_SYSCALL_64/tcp_sendmsg", "write"),
        ("call/__x64_sys_close/entry_SYSCALL_64/task_work_run", "close"),
        ("call/ep_ptable_queue_proc/entry_SYSCALL_64", "watch"),
        ("call/__x64_sys_epoll_ctl/entry_SYSCALL_64", "rewatch"),
        ("call/ep_remove/entry_SYSCALL_64", "unwatch"),
        ("call/__x64_sys_openat/entry_SYSCALL_64", "other"),
        ("call/__x64_sys_poll/entry_SYSCALL_64/do_poll/schedule", "sleep"),
        ("call/__x64_sys_poll/do_poll/schedule/(resumed)/__schedule/finish", "wake"),
        ("call/__x64_sys_writev/tcp_sendmsg/__do_softirq/net_rx_action/tcp_v4_rcv", "interrupt"),
        ("interrupt/asm_sysvec_apic_timer_interrupt/hrtimer_interrupt", "interrupt"),
        ("interrupt/asm_sysvec_apic_timer_interrupt/hrtimer_interrupt/tick_sched_timer", "tick"),
        ("interrupt/asm_sysvec_apic_timer_interrupt/__do_softirq/rcu_core", "deferred"),
        ("interrupt/asm_exc_page_fault/handle_mm_fault", "fault"),
        ("interrupt idle/asm_sysvec_apic_timer_interrupt/net_rx_action", "interrupt_idle"),
        ("idle down/do_idle/tick_nohz_idle_enter", "sleep"),
        ("idle up/do_idle/schedule_idle/__schedule", "wake"),
        ("idle again/do_idle", "interrupt_idle"),
        ("thread/kthread/worker_thread", "deferred"),
        ("thread/kthread/run_ksoftirqd/__do_softirq/net_rx_action", "interrupt"),
        ("observer/__x64_sys_read/entry_SYSCALL_64/vfs_read", "observer"),
    ],
)
def test_a_path_is_an_activity(path: str, activity: str) -> None:
    tree = _tree((path, 10))
    assert activities_of(tree)[-1] == activity
    assert ledger_of(tree).activities[activity] == 10


def test_the_activities_of_the_simulator_go_by_its_names() -> None:
    # No profiled server begins threads or shares its CPU, none is a client, and no host takes it.
    shared = {Activity.KSOFTIRQD, Activity.OTHER, Activity.INTERRUPT_OTHER}
    taken = {Activity.HOST, Activity.HOST_OTHER}
    not_profiled = {Activity.IDLE, Activity.SPAWN, Activity.CONNECT, *shared, *taken}
    simulated = {activity.name.lower() for activity in Activity if activity not in not_profiled}
    assert simulated < set(ACTIVITIES)


def test_a_ledger_adds_up_three_ways() -> None:
    tree = _tree(
        ("call/__x64_sys_read/entry/vfs_read", 30),
        ("call/__x64_sys_read/entry/vfs_read/copy", 5),
        ("call/__x64_sys_read/entry", 7),
        ("interrupt/asm_sysvec/copy", 2),
    )
    ledger = ledger_of(tree)
    assert ledger.n_instructions == sum(ledger.functions.values()) == 44
    assert sum(own for own, _ in ledger.paths.values()) == 44
    assert ledger.functions["copy"] == 7
    assert ledger.inclusive["read"] == {
        "__x64_sys_read": 42, "entry": 42, "vfs_read": 35, "copy": 5,
    }  # fmt: skip


def test_a_function_that_calls_itself_counts_once() -> None:
    ledger = ledger_of(_tree(("call/__x64_sys_read/walk/walk", 10)))
    assert ledger.inclusive["read"]["walk"] == 10


def test_an_output_that_is_cut_off_is_refused() -> None:
    with pytest.raises(TargetError, match="did not finish"):
        parse_call_tree("node 0 0 1 1\n", [], [])


def test_a_tree_has_the_names_of_its_functions() -> None:
    roots = [f"node {index} {index} 0 0" for index in range(len(ROOTS))]
    lines = [*roots, "node 1 0 5 1", "node 12 1073741824 6 2", "function 1073741824 a0", "done"]
    tree = parse_call_tree("\n".join(lines), ["main"], ["poll [wire]"])
    assert path_of(tree, 13) == ("user", "main", "poll [wire]")
    assert tree[13] == Node(12, "poll [wire]", 6, 2)
