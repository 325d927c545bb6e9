"""CPUs, and the threads that run on them.

    workers        0 ... W-1   threads of the server program, pinned to the CPUs in turn
    others, by CPU:
      packet thread   W + k    handles packets that interrupts leave to it (ksoftirqd)
      stalls      W + C + k    keeps the CPU from all others
      busy processes           compute, and do nothing else

sim/cpu/processor.py has the laws about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .interests import InterestSet
from .kinds import NONE
from .listener import Listener
from .nice import weight_of_nice

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
