"""Round numbers for tests: costs that can be added up by hand, traces of a few connections."""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np

from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.models.completions.aio_poll import AioPollCosts
from dispatchsim.models.completions.completion_port import CompletionPortCosts
from dispatchsim.models.completions.io_uring import IoUringCosts
from dispatchsim.models.epoll.epoll_ctlv import EpollCtlvCosts
from dispatchsim.models.epoll.epoll_edge import EpollEdgeCosts
from dispatchsim.models.epoll.epoll_level import EpollCloseCosts, EpollCosts
from dispatchsim.models.epoll.epoll_once import EpollOnceCosts
from dispatchsim.models.epoll.other_kernels import InKernelCosts, KqueueCosts, NextEventCosts
from dispatchsim.models.scans.dev_poll import DevPollCosts
from dispatchsim.models.scans.poll_pollfd import PollCosts
from dispatchsim.models.scans.select_fdset import SelectCosts
from dispatchsim.models.signals.signal_handlers import SignalHandlerCosts
from dispatchsim.models.signals.signal_queue import SignalCosts
from dispatchsim.models.simulate import simulate
from dispatchsim.models.threads.blocking import BlockingCosts
from dispatchsim.sim.cpu.processor import thread_of
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.trace_file import COLUMNS
from dispatchsim.sim.load.workload import Columns, Trace, TraceBlocks
from dispatchsim.sim.state.costs import (
    NO_CLIENT,
    ApplicationCosts,
    CallCosts,
    ClientCosts,
    Costs,
    Curve,
    InterruptCosts,
    curve,
    flat,
    per_item,
)
from dispatchsim.sim.state.kinds import Activity
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import Cpu, World

INTERRUPT = InterruptCosts(
    entry_ns=100,
    syn_ns=200,
    ack_ns=50,
    data_ns=80,
    reset_ns=60,
    idle_exit_ns=1000,
    sleep_ns=40,
    wake_ns=500,
    datagram_ns=70,
    acked_ns=35,
)
SINCE = curve({0: 0, 10: 50, 100: 60})
"""What an interrupt costs more the longer ago the last one was, in microseconds."""
WAY = curve({0: 90, 500: 120, 1000: 300})
"""How long an interrupt is on its way, by the thousandth of those that are no longer."""
IDLE = curve({0: 0, 2: 0, 5: 400, 50: 600})
"""How much longer it takes to leave idleness, by the microseconds that a CPU was idle."""
CALL = CallCosts(
    accept_ns=300,
    accept_again_ns=100,
    read_ns=200,
    read_again_ns=90,
    write_ns=400,
    write_kib_ns=0,
    close_ns=250,
)
REFILL = curve({0: 0, 100: 20})
"""Coming back to caches that others have filled: 1 ns for each 5 us that they had the CPU."""
SIGNALS = SignalCosts(
    arm_ns=120,
    queue_ns=15,
    call_ns=70,
    signal_ns=30,
    event_ns=4,
    lost_ns=9,
    merged_ns=3,
    flush_ns=55,
    discard_ns=2,
    poll=per_item(10),
)
HANDLERS = SignalHandlerCosts(
    arm_ns=120,
    queue_ns=15,
    call_ns=70,
    mask_ns=12,
    deliver_ns=33,
    return_ns=17,
    event_ns=4,
    lost_ns=9,
    flush_ns=55,
    discard_ns=2,
    poll=per_item(10),
)
EPOLL = EpollCosts(call_ns=70, event_ns=30, recheck_ns=20, add_ns=110, modify_ns=40, delete_ns=60)
DEV_POLL = DevPollCosts(
    call_ns=70,
    scan=per_item(2),
    ask_ns=20,
    event_ns=6,
    entry_ns=35,
    add_ns=75,
    modify_ns=25,
    delete_ns=60,
)


def made_up(costs: Any) -> Any:
    """Return costs of a type, each cost another number: for mechanisms that have none here."""
    kinds = get_type_hints(costs).values()
    return costs(*(per_item(2) if kind is Curve else 11 + 2 * i for i, kind in enumerate(kinds)))


MECHANISM = {name: made_up(entry.costs) for name, entry in CATALOGUE.items()} | {
    "select": SelectCosts(
        call_ns=70, bitmap=flat(5), scan=per_item(10), register=per_item(7), event_ns=0
    ),
    "poll": PollCosts(call_ns=70, scan=per_item(10), register=per_item(7), event_ns=0),
    "epoll_level": EPOLL,
    "epoll_oneshot": EPOLL,
    "epoll_close": EpollCloseCosts(
        call_ns=70, event_ns=30, recheck_ns=20, add_ns=110, modify_ns=40, forget_ns=45
    ),
    "epoll_edge": EpollEdgeCosts(
        call_ns=70, notice_ns=30, recheck_ns=20, add_ns=110, delete_ns=60, event_ns=4
    ),
    "epoll_once": EpollOnceCosts(call_ns=70, notice_ns=30, recheck_ns=20, add_ns=110, delete_ns=60),
    "epoll_ctlv": EpollCtlvCosts(
        call_ns=70,
        event_ns=30,
        recheck_ns=20,
        entry_ns=35,
        add_ns=75,
        modify_ns=25,
        delete_ns=60,
    ),
    "dev_poll": DEV_POLL,
    "get_next_event": NextEventCosts(
        call_ns=70, notice_ns=30, recheck_ns=20, add_ns=95, forget_ns=45, event_ns=4
    ),
    "kqueue": KqueueCosts(
        call_ns=70, event_ns=30, recheck_ns=20, add_ns=75, modify_ns=25, forget_ns=45
    ),
    "aio_poll": AioPollCosts(
        entry_ns=35, add_ns=75, call_ns=70, event_ns=5, ready_ns=3, post_ns=12, woken_ns=9
    ),
    "io_uring": IoUringCosts(
        call_ns=70,
        submit_ns=15,
        complete_ns=10,
        add_ns=75,
        link_ns=6,
        retry_ns=8,
        post_ns=12,
        woken_ns=9,
        ended_saved_ns=90,
    ),
    "in_kernel": InKernelCosts(call_ns=10, event_ns=30, recheck_ns=20),
    "dev_poll_unhinted": DEV_POLL,
    "dev_poll_mmap": DEV_POLL._replace(event_ns=2),
    "dev_poll_or": DEV_POLL,
    "rt_signals": SIGNALS,
    "rt_signals_handler": HANDLERS,
    "signal_per_fd": SIGNALS,
    "sigtimedwait4": SIGNALS,
    "signalfd": SIGNALS,
    "completion_port": CompletionPortCosts(
        call_ns=70, complete_ns=30, add_ns=110, switch=curve({0: 15, 1: 17}), saved_ns=30
    ),
    "blocking": BlockingCosts(
        block_ns=25,
        spawn_ns=600,
        exit_ns=350,
        fork_ns=6_000,
        process_exit_ns=3_500,
        refused_ns=45,
        switch=curve({0: 15, 1: 17}),
        process_switch=curve({0: 150, 1: 170}),
        saved_ns=30,
        stack_ns=280,
        stack_freed_ns=190,
    ),
}
VARIANTS = (
    *("epoll_oneshot", "epoll_close", "get_next_event", "in_kernel"),
    *("dev_poll_unhinted", "dev_poll_mmap", "dev_poll_or", "rt_signals_handler"),
)
"""Those that are another one but for a rule or a price: most tests are of the other."""
THREADED = ("blocking", "completion_port")
"""Those of which a thread has one descriptor at a time in hand."""
MECHANISMS = tuple(name for name in MECHANISM if name not in (*THREADED, *VARIANTS))
"""The others that one thread waits with for many."""
SIGNALLED = ("rt_signals", "signal_per_fd", "sigtimedwait4", "signalfd")
LENGTHEN_INTERRUPTS = (*SIGNALLED, "aio_poll", "io_uring")


def toy_costs(mechanism: str, client: ClientCosts = NO_CLIENT, **changes: Any) -> Costs:
    """Return the toy costs of *mechanism*, with whole parts replaced by *changes*."""
    application = ApplicationCosts(150)
    costs = Costs(INTERRUPT, CALL, application, client, MECHANISM[mechanism], REFILL)
    return costs._replace(**changes)


def arrivals(*at_ns: int, requests: int = 1, reply_bytes: int = 128, think_ns: int = 0) -> Trace:
    """Return an open loop of connections at exactly these times."""
    n = len(at_ns)
    values = (requests, 64, reply_bytes, think_ns)
    columns = (np.full(n, value, np.int64) for value in values)
    return Trace("open", 0, np.array(at_ns, np.int64), *columns)


def on_both(trace: Trace, costs: Costs, settings: RunSettings) -> Outcome:
    """Return the run of epoll_level on both engines, which agree."""
    reference, fast = (
        simulate("epoll_level", trace, costs, settings, engine=engine)
        for engine in ("reference", "fast")
    )
    assert reference.same_as(fast)
    return reference


class Steps:
    """An observer that keeps the steps of all threads, whole: (begin, end, activity)."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []

    def step_ends(self, world: World, cpu: Cpu) -> None:
        """Keep the step that *cpu* has ended."""
        if not cpu.idle:
            activity = Activity(thread_of(world, cpu.running).activity)
            self.steps.append((cpu.step_begin_ns, world.now_ns, activity.name))

    def went_on(self, world: World) -> None:
        """Leave it at that."""

    def happened(self, world: World, kind: int, subject: int) -> None:
        """Leave it at that."""


def timeline(
    mechanism: str, trace: Trace, settings: RunSettings, costs: Costs | None = None
) -> tuple[list[tuple[int, int, str]], Outcome]:
    """Return every step of the server as (begin, end, activity), and the outcome."""
    seen = Steps()
    costs = costs or toy_costs(mechanism)
    outcome = simulate(mechanism, trace, costs, settings, observe=seen)
    return seen.steps, outcome


class TraceSlices(TraceBlocks):
    """The rows of *trace*, which exists, block by block."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.loop, trace.users)
        self._trace = trace
        self._next = 0

    def _draw(self, n: int) -> Columns:
        rows = np.arange(self._next, min(self._next + n, len(self._trace)))
        self._next += rows.size
        return tuple(getattr(self._trace, name)[rows] for name in COLUMNS)
