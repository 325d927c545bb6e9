"""The mechanisms by name, with what one wants to know of each: the one place to add a mechanism."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from types import ModuleType
from typing import Any, NamedTuple

from ..sim.state.mechanism import Mechanism, Program
from .completions import aio_poll, completion_port, io_uring
from .elsewhere import in_kernel, kqueue, next_event
from .epoll import epoll_close, epoll_ctlv, epoll_edge, epoll_level, epoll_once, epoll_oneshot
from .programs.client_loop import client_loop
from .programs.client_threads import client_threads
from .programs.completion_loop import completion_loop
from .programs.event_loop import event_loop
from .programs.port_pool import port_pool
from .programs.thread_per_connection import thread_per_connection
from .scans import dev_poll, dev_poll_or, poll_pollfd, select_fdset
from .signals import rt_signals, signal_handlers, signal_per_fd, signalfd_batch, sigtimedwait4
from .signals.signal_handlers import SignalHandlerCosts, interrupted_loop
from .signals.signal_queue import SignalCosts
from .threads import blocking

making_programs = threading.Lock()
"""Held while a program is made: threads that each made one of their own would each compile it."""


class CSupport(StrEnum):
    """Where the server of the same name in calibration/servers runs."""

    LINUX = "Linux"
    INSERTED = "Linux with our insertions"  # calibration/emulated/kernel_mechanisms
    NONE = "none"


class Entry(NamedTuple):
    """A mechanism and its description.

    Attributes
    ----------
    mechanism:
        For the engines.
    costs:
        The named tuple that holds its costs: a table of a profile.
    module:
        The file that it is in.
    about:
        One line: its name, and what it does.
    source:
        Who described it, and where.
    c_support:
        Where a real server with it runs.
    wait_call:
        What the call is named that it waits in; without one, what it does instead.
    shares_ready_list:
        Whether threads may wait on one set, as the kernel keeps its ready list between calls.
    wakes_one:
        Whether a new connection may wake one waiting worker only (EPOLLEXCLUSIVE; accept).
    program:
        Makes the server program that uses it.
    client:
        Makes the client that uses it, if there is one.
    """

    mechanism: Mechanism
    costs: Any
    module: str
    about: str
    source: str
    c_support: CSupport
    wait_call: str
    shares_ready_list: bool = False
    wakes_one: bool = False
    program: Callable[[Mechanism], Program] = event_loop
    client: Callable[[Mechanism], Program] | None = None

    @property
    def by_signals(self) -> bool:
        """Whether queued signals report its events."""
        return self.costs in (SignalCosts, SignalHandlerCosts)

    @property
    def passes_listener(self) -> bool:
        """Whether the listener can be handed on: signals go to the owner of a descriptor."""
        return self.by_signals

    @property
    def runs_event_loop(self) -> bool:
        """Whether its program is the event loop."""
        return self.program in (event_loop, interrupted_loop)


def _entry(
    module: ModuleType,
    mechanism: Mechanism,
    costs: Any,
    source: str,
    c_support: CSupport,
    *,
    wait_call: str,
    **more: Any,
) -> Entry:
    """Return the entry of *mechanism*, described by the first line of its module by default."""
    about = more.pop("about", (module.__doc__ or "").split("\n", 1)[0])
    return Entry(mechanism, costs, module.__name__, about, source, c_support, wait_call, **more)


_ENTRIES = (
    _entry(
        select_fdset,
        select_fdset.SELECT,
        select_fdset.SelectCosts,
        "select(2); Chandra and Mosberger 2001, §2",
        CSupport.LINUX,
        wait_call="select",
        client=client_loop,
    ),
    _entry(
        poll_pollfd,
        poll_pollfd.POLL,
        poll_pollfd.PollCosts,
        "poll(2); Gammo et al. 2004, §2",
        CSupport.LINUX,
        wait_call="poll",
        client=client_loop,
    ),
    _entry(
        dev_poll,
        dev_poll.DEV_POLL,
        dev_poll.DevPollCosts,
        "Provos and Lever 2000, §3",
        CSupport.INSERTED,
        wait_call="DP_POLL",
    ),
    _entry(
        dev_poll,
        dev_poll.DEV_POLL_UNHINTED,
        dev_poll.DevPollCosts,
        "Provos and Lever 2000, §3.2",
        CSupport.NONE,
        wait_call="DP_POLL",
        about="/dev/poll without hints: the kernel keeps the set, and checks all of it.",
    ),
    _entry(
        dev_poll,
        dev_poll.DEV_POLL_MMAP,
        dev_poll.DevPollCosts,
        "Provos and Lever 2000, §3",
        CSupport.NONE,
        wait_call="DP_POLL",
        about="/dev/poll with a mapped result area: the kernel leaves its results there.",
    ),
    _entry(
        dev_poll_or,
        dev_poll_or.DEV_POLL_OR,
        dev_poll.DevPollCosts,
        "poll(7D) of Solaris 8",
        CSupport.NONE,
        wait_call="DP_POLL",
    ),
    _entry(
        rt_signals,
        rt_signals.RT_SIGNALS,
        SignalCosts,
        "Chandra and Mosberger 2001, §3.4",
        CSupport.LINUX,
        wait_call="sigwaitinfo",
    ),
    _entry(
        signal_handlers,
        signal_handlers.RT_SIGNALS_HANDLER,
        SignalHandlerCosts,
        "Provos and Lever 2000, §5",
        CSupport.NONE,
        wait_call="sigsuspend",
        program=interrupted_loop,
    ),
    _entry(
        signal_per_fd,
        signal_per_fd.SIGNAL_PER_FD,
        SignalCosts,
        "Chandra and Mosberger 2001, §5",
        CSupport.INSERTED,
        wait_call="sigwaitinfo",
    ),
    _entry(
        sigtimedwait4,
        sigtimedwait4.SIGTIMEDWAIT4,
        SignalCosts,
        "Provos, Lever and Tweedie 2000, §3",
        CSupport.INSERTED,
        wait_call="sigtimedwait4",
    ),
    _entry(
        signalfd_batch,
        signalfd_batch.SIGNALFD,
        SignalCosts,
        "signalfd(2)",
        CSupport.LINUX,
        wait_call="read(signalfd)",
    ),
    _entry(
        epoll_level,
        epoll_level.EPOLL_LEVEL,
        epoll_level.EpollCosts,
        "epoll(7); Gammo et al. 2004, §2",
        CSupport.LINUX,
        wait_call="epoll_wait",
        shares_ready_list=True,
        wakes_one=True,
        client=client_loop,
    ),
    _entry(
        epoll_edge,
        epoll_edge.EPOLL_EDGE,
        epoll_edge.EpollEdgeCosts,
        "Gammo et al. 2004, §3.2",
        CSupport.LINUX,
        wait_call="epoll_wait",
        wakes_one=True,
    ),
    _entry(
        epoll_oneshot,
        epoll_oneshot.EPOLL_ONESHOT,
        epoll_level.EpollCosts,
        "epoll(7), EPOLLONESHOT",
        CSupport.LINUX,
        wait_call="epoll_wait",
        shares_ready_list=True,
        wakes_one=True,
    ),
    _entry(
        epoll_close,
        epoll_close.EPOLL_CLOSE,
        epoll_close.EpollCloseCosts,
        "Gammo et al. 2004, §2",
        CSupport.LINUX,
        wait_call="epoll_wait",
        shares_ready_list=True,
        wakes_one=True,
    ),
    _entry(
        epoll_once,
        epoll_once.EPOLL_ONCE,
        epoll_once.EpollOnceCosts,
        "Gammo et al. 2004, §3.3",
        CSupport.LINUX,
        wait_call="epoll_wait",
        wakes_one=True,
    ),
    _entry(
        epoll_ctlv,
        epoll_ctlv.EPOLL_CTLV,
        epoll_ctlv.EpollCtlvCosts,
        "Gammo et al. 2004, §3.4",
        CSupport.INSERTED,
        wait_call="epoll_wait",
        wakes_one=True,
    ),
    _entry(
        blocking,
        blocking.BLOCKING,
        blocking.BlockingCosts,
        "Chandra and Mosberger 2001, §1; accept(2)",
        CSupport.LINUX,
        wait_call="wait",
        wakes_one=True,
        program=thread_per_connection,
        client=client_threads,
    ),
    _entry(
        next_event,
        next_event.NEXT_EVENT,
        next_event.NextEventCosts,
        "Banga, Mogul and Druschel 1999, §3",
        CSupport.NONE,
        wait_call="get_next_event",
    ),
    _entry(
        kqueue,
        kqueue.KQUEUE,
        kqueue.KqueueCosts,
        "Lemon 2001, §4",
        CSupport.NONE,
        wait_call="kevent",
    ),
    _entry(
        aio_poll,
        aio_poll.AIO_POLL,
        aio_poll.AioPollCosts,
        "io_submit(2), IOCB_CMD_POLL",
        CSupport.LINUX,
        wait_call="io_getevents",
    ),
    _entry(
        io_uring,
        io_uring.IO_URING,
        io_uring.IoUringCosts,
        "io_uring(7)",
        CSupport.LINUX,
        wait_call="io_uring_enter",
        wakes_one=True,
        program=completion_loop,
    ),
    _entry(
        completion_port,
        completion_port.COMPLETION_PORT,
        completion_port.CompletionPortCosts,
        "Microsoft, CreateIoCompletionPort; Chandra and Mosberger 2001",
        CSupport.NONE,
        wait_call="GetQueuedCompletionStatus",
        program=port_pool,
    ),
    _entry(
        in_kernel,
        in_kernel.IN_KERNEL,
        in_kernel.InKernelCosts,
        "Joubert et al. 2001",
        CSupport.NONE,
        wait_call="look",
    ),
)

CATALOGUE: dict[str, Entry] = {entry.mechanism.name: entry for entry in _ENTRIES}
"""Every built-in mechanism, in the order of the literature."""

MECHANISMS: dict[str, Mechanism] = {name: entry.mechanism for name, entry in CATALOGUE.items()}
"""The mechanisms themselves."""

CLIENTS: tuple[str, ...] = tuple(name for name, entry in CATALOGUE.items() if entry.client)
"""Those that a client may wait with, too."""


def client_with(name: str) -> Program:
    """Return the client that waits with the mechanism *name*.

    Raises
    ------
    ValueError
        If there is none.
    """
    client = CATALOGUE[name].client if name in CATALOGUE else None
    if client is None:
        raise ValueError(f'a client\'s mechanism must be one of {", ".join(CLIENTS)}, got "{name}"')
    with making_programs:
        return client(CATALOGUE[name].mechanism)
