"""The profiler's machine: every instruction on the path that the kernel was on."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibration.emulated.instructions.streams import (
    ENTRY_AREA,
    IDLE_STACK,
    INTERRUPT_STACK,
    NAMES,
    TASK_A,
    TASK_B,
    Kernel,
    output_of,
)

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def _enter(kernel: Kernel, stack: int) -> None:
    kernel.run("entry", 10, start=True)
    kernel.call(stack, 0, "dispatch", 5)


def _leave(kernel: Kernel, stack: int) -> None:
    kernel.back(stack, 0, "entry", 7)
    kernel.run("main", 100)


def _counting() -> Kernel:
    """Return a kernel whose window has begun, by a process that is not looked at again."""
    kernel = Kernel()
    kernel.run("observer_main", 1)
    kernel.event("begin")
    return kernel


def test_the_way_into_a_system_call_and_out_belongs_to_the_call() -> None:
    kernel = _counting()
    _enter(kernel, TASK_A)
    kernel.call(TASK_A, 1, "sys_read", 3)
    kernel.call(TASK_A, 2, "vfs_read", 20)
    kernel.back(TASK_A, 2, "sys_read", 4)
    kernel.back(TASK_A, 1, "dispatch", 6)
    _leave(kernel, TASK_A)
    assert kernel.counts() == {
        "call/sys_read/entry": 17,
        "call/sys_read/entry/dispatch": 11,
        "call/sys_read/entry/dispatch/sys_read": 7,
        "call/sys_read/entry/dispatch/sys_read/vfs_read": 20,
        "user/main": 100,
    }


def test_a_jump_to_another_function_goes_on_in_the_same_frame() -> None:
    kernel = _counting()
    _enter(kernel, TASK_A)
    kernel.call(TASK_A, 1, "sys_read", 3)
    kernel.run("vfs_read", 20, start=True)  # a tail call: its return ends sys_read
    kernel.run("cold", 2)
    kernel.run("vfs_read", 1)
    kernel.back(TASK_A, 1, "dispatch", 6)
    counts = kernel.counts()
    assert counts["call/sys_read/entry/dispatch/sys_read/vfs_read"] == 21
    assert counts["call/sys_read/entry/dispatch/sys_read/vfs_read/cold"] == 2
    assert counts["call/sys_read/entry/dispatch"] == 11


def test_a_call_that_is_jumped_to_names_the_path_too() -> None:
    kernel = _counting()
    _enter(kernel, TASK_A)
    kernel.run("sys_read", 9, start=True)
    _leave(kernel, TASK_A)
    assert kernel.counts()["call/sys_read/entry/dispatch/sys_read"] == 9


def test_an_operation_is_told_from_others_of_the_same_call() -> None:
    kernel = _counting()
    for remove in (True, False):
        _enter(kernel, TASK_A)
        kernel.call(TASK_A, 1, "sys_ctl", 3)
        if remove:
            kernel.call(TASK_A, 2, "remove", 20)
            kernel.back(TASK_A, 2, "sys_ctl", 1)
        kernel.back(TASK_A, 1, "dispatch", 6)
        _leave(kernel, TASK_A)
    counts = kernel.counts()
    assert counts["call/remove/entry"] == counts["call/sys_ctl/entry"] == 17
    assert counts["call/remove/entry/dispatch/sys_ctl"] == 4
    assert counts["call/sys_ctl/entry/dispatch/sys_ctl"] == 3


def test_an_interrupt_suspends_the_path_it_interrupts() -> None:
    kernel = _counting()
    _enter(kernel, TASK_A)
    kernel.call(TASK_A, 1, "sys_read", 3)
    kernel.run("vector", 4, start=True)
    kernel.call(TASK_A, 2, "save", 15)
    # error_entry pushes the registers below its return address: it returns from 120 bytes lower.
    kernel.lines.append(f"return {TASK_A + (1 << 14) - 256 - 512 - 120:x}")
    kernel.run("vector", 2)
    kernel.call(TASK_A, 4, "handler", 30)
    kernel.call(INTERRUPT_STACK, 0, "softirq", 50)
    kernel.back(INTERRUPT_STACK, 0, "handler", 1)
    kernel.back(TASK_A, 4, "vector", 5)
    kernel.event("to_kernel")
    kernel.event("iret")
    kernel.run("sys_read", 40)
    kernel.back(TASK_A, 1, "dispatch", 6)
    counts = kernel.counts()
    assert counts["interrupt/vector"] == 11
    assert counts["interrupt/vector/save"] == 15
    assert counts["interrupt/vector/handler"] == 31
    assert counts["interrupt/vector/handler/softirq"] == 50
    assert counts["call/sys_read/entry/dispatch/sys_read"] == 43
    assert counts["call/sys_read/entry/dispatch"] == 11


def test_an_interrupt_of_user_mode_begins_on_a_stack_of_its_own() -> None:
    kernel = _counting()
    kernel.run("main", 100)
    kernel.run("vector", 4, start=True)
    kernel.call(ENTRY_AREA, 0, "save", 15)
    kernel.lines.append(f"return {ENTRY_AREA + (1 << 14) - 256 - 120:x}")
    kernel.run("vector", 2)
    kernel.call(TASK_A, 0, "handler", 30)
    kernel.back(TASK_A, 0, "vector", 5)
    kernel.event("iret")
    kernel.run("main", 1)
    assert kernel.counts() == {
        "user/main": 101,
        "interrupt/vector": 11,
        "interrupt/vector/save": 15,
        "interrupt/vector/handler": 30,
    }


def _sleep_until_idle(kernel: Kernel) -> None:
    """Have task A wait, and the idle task, which slept in schedule_idle, take over and halt."""
    _enter(kernel, TASK_A)
    kernel.call(TASK_A, 1, "sys_wait", 3)
    kernel.call(TASK_A, 2, "schedule", 8)
    kernel.call(TASK_A, 3, "switch", 6)
    kernel.back(IDLE_STACK, 2, "schedule_idle", 9)
    kernel.back(IDLE_STACK, 1, "do_idle", 12)
    kernel.event("halt")


def _idle_before() -> Kernel:
    """Return a kernel whose idle task has given the CPU to task A before the window."""
    kernel = Kernel()
    kernel.run("observer_main", 1)
    kernel.call(IDLE_STACK, 0, "do_idle", 1)
    kernel.call(IDLE_STACK, 1, "schedule_idle", 1)
    kernel.call(IDLE_STACK, 2, "switch", 1)
    kernel.run("observer_main", 1)
    kernel.event("begin")
    return kernel


def _interrupt_idle(kernel: Kernel) -> None:
    kernel.run("vector", 4, start=True)
    kernel.call(IDLE_STACK, 5, "handler", 30)
    kernel.back(IDLE_STACK, 5, "vector", 5)
    kernel.event("to_kernel")
    kernel.event("iret")
    kernel.run("do_idle", 11)


def _wake(kernel: Kernel) -> None:
    kernel.call(IDLE_STACK, 1, "schedule_idle", 13)
    kernel.call(IDLE_STACK, 2, "switch", 6)
    kernel.back(TASK_A, 3, "schedule", 21)
    kernel.back(TASK_A, 2, "sys_wait", 2)


def test_a_task_sleeps_and_wakes_around_the_idle_one() -> None:
    kernel = _idle_before()
    _sleep_until_idle(kernel)
    _interrupt_idle(kernel)
    _wake(kernel)
    _leave(kernel, TASK_A)
    counts = kernel.counts()
    call = "call/sys_wait/entry/dispatch/sys_wait"
    assert counts[call] == 5
    assert counts[f"{call}/schedule"] == 8
    assert counts[f"{call}/(resumed)/schedule"] == 21
    assert counts["idle down/do_idle/schedule_idle"] == 9
    assert counts["idle down/do_idle"] == 12
    assert counts["interrupt idle/vector"] == 9
    assert counts["idle up/do_idle"] == 11
    assert counts["idle up/do_idle/schedule_idle"] == 13


def test_an_interrupt_that_wakes_nobody_leads_to_the_next_halt() -> None:
    kernel = _idle_before()
    _sleep_until_idle(kernel)
    _interrupt_idle(kernel)
    kernel.event("halt")
    _interrupt_idle(kernel)
    _wake(kernel)
    counts = kernel.counts()
    assert counts["idle again/do_idle"] == 11
    assert counts["idle up/do_idle"] == 11
    assert counts["idle up/do_idle/schedule_idle"] == 13


def test_the_observer_is_kept_apart() -> None:
    kernel = Kernel()
    kernel.run("observer_main", 1)
    _enter(kernel, TASK_B)
    kernel.call(TASK_B, 1, "sys_read", 3)
    kernel.back(TASK_B, 1, "dispatch", 6)
    kernel.back(TASK_B, 0, "entry", 7)
    kernel.run("observer_main", 1)
    kernel.event("begin")
    for stack in (TASK_B, TASK_A):
        _enter(kernel, stack)
        kernel.call(stack, 1, "sys_read", 3)
        kernel.back(stack, 1, "dispatch", 6)
        _leave(kernel, stack)
    counts = kernel.counts()
    assert counts["observer/sys_read/entry"] == counts["call/sys_read/entry"] == 17
    assert counts["observer/main"] == counts["user/main"] == 100


def test_a_function_of_no_table_is_known_by_its_address() -> None:
    kernel = _counting()
    _enter(kernel, TASK_A)
    kernel.lines += [f"call {TASK_A + 4096:x}", "block -1 - k 77"]
    assert kernel.counts()["call/entry/dispatch/0x4d"] == 77


def test_nothing_outside_the_window_is_counted() -> None:
    kernel = _counting()
    kernel.run("main", 5)
    kernel.event("end")
    kernel.run("main", 1000)
    _enter(kernel, TASK_A)
    assert kernel.counts() == {"user/main": 5}


_STACKS = st.sampled_from([IDLE_STACK, TASK_A, TASK_B, INTERRUPT_STACK, ENTRY_AREA])
_SLOTS = st.builds(lambda stack, depth: f"{stack + 8 * depth:x}", _STACKS, st.integers(1, 2000))
_BLOCKS = st.builds(
    lambda function, kind, mode, n: f"block {function} {kind} {mode} {n}",
    st.integers(-1, len(NAMES) - 1), st.sampled_from("--ESUDIVFWLN"), st.sampled_from("kkku"),
    st.integers(0, 50),
)  # fmt: skip
_EVENTS = st.one_of(
    _BLOCKS,
    st.builds("call {}".format, _SLOTS),
    st.builds("return {}".format, _SLOTS),
    st.sampled_from(["halt", "to_kernel", "iret"]),
)


@given(st.lists(_EVENTS, max_size=15))
def test_no_instruction_is_lost_or_counted_twice_whatever_happens(events: list[str]) -> None:
    text = output_of("\n".join(["block 0 - u 3", "begin", *events]) + "\n")
    nodes = [line.split() for line in text.splitlines() if line.startswith("node ")]
    executed = sum(int(event.split()[-1]) for event in events if event.startswith("block "))
    assert sum(int(node[3]) for node in nodes) == executed
    assert all(int(node[1]) < index for index, node in enumerate(nodes) if index > 12)
