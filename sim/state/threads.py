"""CPUs, the threads that run on them, and what threads wait on: interest sets and listeners.

    workers        0 ... W-1   threads of the server program, pinned to the CPUs in turn
    others, by CPU:
      packet thread   W + k    handles packets that interrupts leave to it (ksoftirqd)
      stalls      W + C + k    keeps the CPU from all others
      busy processes           compute, and do nothing else

sim/cpu/processor.py has the laws about threads, sim/kernel/interest_set.py those about sets, and
sim/tcp/listen_queue.py those about listeners. Source of the weights: Linux kernel/sched/core.c,
sched_prio_to_weight: a step of the nice value is a factor of about 1.25.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .kinds import NONE

NICE_MIN, NICE_MAX = -20, 19
_WEIGHTS = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip


def weight_of_nice(nice: int) -> int:
    """Return the weight of a thread of that nice value; threads share a CPU by their weights.

    >>> weight_of_nice(0), weight_of_nice(-20), weight_of_nice(19)
    (1024, 88761, 15)
    """
    return _WEIGHTS[nice - NICE_MIN]


@dataclass(slots=True, eq=False)
class InterestSet:
    """One set of watched descriptors: epoll's instance, or what a program hands to select, poll."""

    number: int
    one_shot: bool
    ready: list[int]  # ring of at least D, a power of two
    waiters: list[int]  # stack of workers that block, or are about to
    own: Any  # what the mechanism itself keeps: `Mechanism.memory`
    n_watched: int = 0
    first_ready: int = 0
    n_ready: int = 0  # entries, stale ones among them
    n_stale: int = 0
    n_waiting: int = 0
    timer_fd: int = NONE  # of the timer that has the server look for late requests


@dataclass(slots=True, eq=False)
class Listener:
    """One listening socket: its queues, and the descriptors that workers have of it."""

    number: int
    queue: list[int]  # ring of at least backlog + 2 connections, a power of two
    fds: list[int]  # one a worker that listens, shape (workers,)
    n_fds: int = 0
    owner: int = 0  # which of them is told of connections, where the listener is handed on
    first_queued: int = 0
    n_queued: int = 0
    n_half: int = 0
    empty_ns: int = 0  # when nobody waited to be accepted, the last time


ON_CPU, OFF_CPU, COMES_BACK = 0, 1, 2
"""`Worker.slice_state`: the thread goes on; it had to leave its CPU; it is on its way back."""
WEIGHT = weight_of_nice(0)
"""Of all threads but processes that compute, which may be more or less nice."""
NEVER_NS = 1 << 62
"""Later than anything that happens."""


@dataclass(slots=True, eq=False)
class Cpu:
    """One CPU: what it does now, and where its time went.

    While it is idle, `runnable_ns` says when the first of its queue may run. A step that is cut
    ends as soon as no interrupt is running, and another thread goes on.
    """

    number: int
    runnable: list[int]  # ring of threads that wait for this CPU
    ledger_ns: list[int]  # by Activity
    ledger_mark_ns: list[int]
    packets: list[int]  # ring of packets that wait for the packet thread
    first_runnable: int = 0
    n_runnable: int = 0
    runnable_ns: int = 0
    running: int = NONE  # the thread that has the CPU; NONE: idle
    last: int = NONE  # the thread that has it, or had it last
    switched: bool = False  # another thread had it before this one
    handed_over: bool = False  # and it was not idle in between
    left_work: bool = False  # calls have left some to a thread of the kernel, for the next sleep
    slice_from_ns: int = 0
    given_ns: int = 0  # when it was given to the thread that has it
    idle: bool = False
    idle_from_ns: int = 0
    irq_begin_ns: int = 0
    irq_free_ns: int = NONE
    stolen_ns: int = 0
    in_step: bool = False
    cut: bool = False
    step_begin_ns: int = 0
    step_ns: int = 0
    step_stolen_ns: int = 0
    first_packet: int = 0
    n_packets: int = 0
    in_hand: int = NONE  # the packet that the packet thread is at
    n_at_once: int = 0  # packets that the interrupt has handled, one after the other
    tick: int = 0  # the last in which packets were polled for
    polled_ns: int = 0  # for how long, in that tick
    awaits_tick: bool = False
    awaits_delivery: bool = False
    stalled_until_ns: int = 0


@dataclass(slots=True, eq=False)
class Worker:
    """One thread: of the server program, and what it works on, or another one.

    A thread that had to leave its CPU needs `back_ns` to come back, and more if it `switches`, and
    then does what was left of its step.
    """

    number: int
    cpu: Cpu
    interests: InterestSet
    listener: Listener
    listener_fd: int
    event_fd: list[int]  # the descriptors of the last wait, and as much room to sort them in
    own: Any  # what the program itself keeps: `Program.memory`
    handed: list[int]  # ring of descriptors that another one has accepted for it
    n_events: int = 0
    n_listener_signals: int = 0  # of n_notices, if the program accepts one for each
    n_listener_left: int = 0  # of the signals that are still queued
    n_notices: int = 0  # what the kernel told in the last call, where these are not the events
    n_accepts: int = 0
    first_handed: int = 0
    n_handed: int = 0
    n_handed_on: int = 0  # that it has accepted for others: sim/kernel/handing_over.py
    spin_ns: int = 0  # what it takes to ask again, for a server that does not block
    activity: int = 0
    woken: bool = False
    blocked: bool = False
    slice_state: int = ON_CPU
    left_step_ns: int = 0
    left_activity: int = 0
    back_ns: int = 0
    switches: bool = False  # another thread had its CPU: coming back is a switch
    slice_used_ns: int = 0  # before it had to leave
    done_ns: int = 0  # of a step that was cut: what had been done of it
    left_ns: int = 0  # when it left its CPU
    had_ns: int = 0  # how long it has had a CPU so far, by its weight
    timer_ns: int = NEVER_NS  # when the time of a read is over that it sleeps in
    timed_out: bool = False
