"""The speed limit: the model of level-triggered epoll with free clients, by hand in C.

epoll_by_hand.c implements one mechanism, and only the parts that the benchmark needs. Its outcome
equals that of `simulate("epoll_level", ...)` in every entry, unless a softirq hands packets over to
ksoftirqd. Its speed is therefore that of this model without the overhead of an engine.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...sim.figures.fates import NOBODY
from ...sim.figures.outcome import Integers, Outcome
from ...sim.figures.queue_lengths import SAMPLE_COLUMNS
from ...sim.load.workload import Trace
from ...sim.native.compiler import CompilerFailedError, finished, first_error
from ...sim.state.client_settings import NetworkSettings
from ...sim.state.costs import Costs
from ...sim.state.kernel_settings import SEND_BUFFER_MAX, KernelSettings
from ...sim.state.kinds import NONE, Activity, Count, Status
from ...sim.state.memory_settings import MemorySettings
from ...sim.state.settings import FloodSettings, RunSettings
from .results import Timer, cpu_seconds

_SOURCES = ("epoll_by_hand.c", "by_hand_state.c")
_FLAGS = ("-std=c11", "-O3", "-march=native", "-flto", "-fPIC", "-shared", "-Wall", "-Wextra")
_COMPILE_SECONDS_MAX = 120
# An entry of the calendar has 26 bits for a connection and 34 for the sequence number.
_CONNECTIONS_MAX = 1 << 26
_REQUESTS_MAX = 1 << 30
_SPARE_FDS = 16
_SAMPLED = 7
"""SAMPLE_COLUMNS of epoll_by_hand.h: the queues, requests not read, descriptors watched."""

_USUAL = KernelSettings()
_LAST_COUNTED = int(Count.RECHECKED) + 1

_FIELDS = (
    *("entry_ns", "syn_ns", "ack_ns", "data_ns", "reset_ns", "idle_exit_ns", "sleep_ns"),
    *("wake_ns", "accept_ns", "accept_again_ns", "read_ns", "write_ns", "write_kib_ns"),
    *("close_ns", "request_ns", "call_ns", "event_ns", "recheck_ns", "add_ns", "delete_ns"),
    "cold_ns",
    *("backlog", "max_events", "delay_ns", "idle", "users", "duration_ns", "warm_up_ns"),
    *("sample_every_ns", "n_connections", "n_requests"),
)


class _Input(ctypes.Structure):
    """struct input of epoll_by_hand.h."""

    _fields_ = [(name, ctypes.c_int64) for name in _FIELDS]


class CompileError(RuntimeError):
    """The C program could not be compiled; the message is one sentence."""


class ByHand(NamedTuple):
    """One run of the C program.

    Attributes
    ----------
    outcome:
        The record of the run, as the engines leave it.
    took:
        The result of the timer: by default CPU seconds of the run alone.
    bytes_per_connection:
        Bytes of all arrays over all connections, traced and idle.
    """

    outcome: Outcome
    took: float
    bytes_per_connection: float


@functools.cache
def compiled(*more_flags: str) -> ctypes.CDLL:
    """Compile the program for the CPU of this machine, and load it.

    Parameters
    ----------
    more_flags:
        Further flags for gcc.

    Raises
    ------
    CompileError
        If gcc is missing or fails.
    """
    if shutil.which("gcc") is None:
        raise CompileError("gcc is not installed, C by hand needs it: apt-get install gcc")
    sources = [str(Path(__file__).with_name(name)) for name in _SOURCES]
    # A loaded library does not need its file any more.
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "epoll_by_hand.so")
        command = ["gcc", *_FLAGS, *more_flags, *sources, "-o", str(target)]
        try:
            status, messages = finished(command, Path(folder), _COMPILE_SECONDS_MAX)
        except CompilerFailedError as error:
            raise CompileError(f"epoll_by_hand.c does not compile: {error}") from None
        if status != 0:
            raise CompileError(f"epoll_by_hand.c does not compile: {first_error(messages, 'gcc')}")
        return _load(target)


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.by_hand_create.restype = ctypes.c_void_p
    library.by_hand_create.argtypes = [ctypes.POINTER(_Input)] + [ctypes.c_void_p] * 7
    library.by_hand_run.restype = ctypes.c_int64
    library.by_hand_run.argtypes = [ctypes.c_void_p]
    library.by_hand_record.restype = None
    library.by_hand_record.argtypes = [ctypes.c_void_p] * 10
    library.by_hand_totals.restype = None
    library.by_hand_totals.argtypes = [ctypes.c_void_p] * 2
    library.by_hand_free.restype = None
    library.by_hand_free.argtypes = [ctypes.c_void_p]
    return library


def run_by_hand(
    library: ctypes.CDLL,
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
    timer: Timer = cpu_seconds,
) -> ByHand:
    """Simulate *trace* with level-triggered epoll in the compiled program.

    Raises
    ------
    ValueError
        If the run needs a feature that the program lacks.
    """
    _check(trace, costs, settings)
    n, idle = len(trace), settings.client.idle
    n_requests = int(trace.requests.sum())
    due_ns = np.full(n_requests, NONE, np.int64)
    reply_ns = np.full(n_requests, NONE, np.int64)
    every_ns = settings.sample_every_ns
    n_samples = settings.duration_ns // every_ns + 2 if every_ns > 0 else 0
    samples = np.zeros((n_samples, _SAMPLED), np.int64)
    columns = [trace.at_ns, trace.requests, trace.reply_bytes, trace.think_ns]
    columns = [np.ascontiguousarray(column) for column in columns]
    run = library.by_hand_create(
        ctypes.byref(_input(trace, costs, settings)),
        *(array.ctypes.data for array in (*columns, due_ns, reply_ns, samples)),
    )
    try:
        took = timer(lambda: library.by_hand_run(run))
        totals = np.zeros(4, np.int64)
        library.by_hand_totals(run, totals.ctypes.data)
        n_started, n_sampled, mark_ns, n_bytes = totals.tolist()
        were_due = np.flatnonzero((due_ns != NONE) & (due_ns <= settings.duration_ns))
        replied_ns = np.where(reply_ns > settings.duration_ns, NONE, reply_ns)
        connection = np.repeat(np.arange(n), trace.requests)
        requests = due_ns[were_due], replied_ns[were_due], connection[were_due]
        sampled = _with_memory(samples[:n_sampled], settings.memory)
        ends = mark_ns, settings.duration_ns
        outcome = _outcome(library, run, n_started, ends, (requests, sampled))
    finally:
        library.by_hand_free(run)
    n_bytes += due_ns.nbytes + reply_ns.nbytes
    return ByHand(outcome, took, n_bytes / (n + idle))


def _with_memory(sampled: Integers, memory: MemorySettings) -> Integers:
    """Return samples with the columns of memory, computed from the program's samples."""
    at_ns, n_half, n_queued, n_ready, n_open, n_unread, n_watched = sampled.T
    sockets = n_open * memory.socket_bytes + n_queued * memory.queued_bytes
    columns = {
        "at_ns": at_ns,
        "half_open": n_half,
        "accept_queue": n_queued,
        "ready_list": n_ready,
        "connections_open": n_open,
        "sockets": sockets + n_half * memory.half_open_bytes,
        "buffers": n_unread * memory.request_bytes,
        "watches": n_watched * memory.epoll_bytes,
        "threads": np.full_like(at_ns, memory.thread_bytes),
        "time_wait": np.zeros_like(at_ns),
    }
    return np.column_stack([columns[name] for name in SAMPLE_COLUMNS])


def _outcome(
    library: ctypes.CDLL,
    run: int,
    n_started: int,
    ends: tuple[int, int],
    written: tuple[tuple[Integers, Integers, Integers], Integers],
) -> Outcome:
    """Return the record of *run*, given its mark, its end and its output.

    The run has started *n_started* connections.
    """
    mark_ns, duration_ns = ends
    (due_ns, reply_ns, asked_on), samples = written
    times = [np.zeros(n_started, np.int64) for _ in range(5)]
    ledgers = [np.zeros(len(Activity), np.int64) for _ in range(2)]
    counts = [np.zeros(len(Count), np.int64) for _ in range(2)]
    arrays = [*times, *ledgers, *counts]
    library.by_hand_record(run, *(array.ctypes.data for array in arrays))
    for each in counts:
        each[Count.SYN_DROPS_ACCEPT_QUEUE] = each[Count.SYN_DROPS]  # the only reason for drops
        # It stores its last count where the counts begin that it lacks.
        each[Count.HALF_OPEN_EXPIRED] = each[_LAST_COUNTED]
        each[_LAST_COUNTED] = 0
    # Free clients are computed ahead: events beyond the end have not happened.
    due = times[0] <= duration_ns
    intended_ns, connected_ns, done_ns, n_left, was_reset = (column[due] for column in times)
    open_still = (done_ns == NONE) | (done_ns > duration_ns)
    # An ended connection with a request left had all its SYNs dropped, or was reset.
    failed = np.where(was_reset > 0, int(Status.RESET), int(Status.DROPPED))
    ended = np.where(n_left > 0, failed, int(Status.REPLIED))
    status = np.where(open_still, int(Status.OPEN), ended)
    done_ns = np.where(open_still, NONE, done_ns)
    replied = reply_ns != NONE
    return Outcome(
        duration_ns=duration_ns,
        mark_ns=mark_ns,
        intended_ns=intended_ns,
        started_ns=intended_ns,
        connected_ns=connected_ns,
        done_ns=done_ns,
        status=status,
        attempts=np.ones(intended_ns.size, np.int64),
        due_ns=due_ns,
        reply_ns=reply_ns,
        asked_on=asked_on,
        ended_ns=np.where(replied, reply_ns, done_ns[asked_on]),
        ended_as=np.where(replied, int(Status.REPLIED), status[asked_on]),
        cpu_ledger_ns=ledgers[0][np.newaxis],
        cpu_ledger_mark_ns=ledgers[1][np.newaxis],
        counts=counts[0],
        counts_mark=counts[1],
        samples=samples,
        worker_accepts=counts[0][[Count.ACCEPTS]],
        stranded=NOBODY,
    )


def _input(trace: Trace, costs: Costs, settings: RunSettings) -> _Input:
    """Return the input of the program."""
    values = {
        **costs.interrupt._asdict(),
        **costs.call._asdict(),
        **costs.application._asdict(),
        **costs.mechanism._asdict(),
        "backlog": settings.limits.backlog,
        "max_events": settings.program.max_events,
        "delay_ns": settings.network.delay_ns,
        "idle": settings.client.idle,
        "users": trace.users,
        "duration_ns": settings.duration_ns,
        "warm_up_ns": settings.warm_up_ns,
        "sample_every_ns": settings.sample_every_ns,
        "n_connections": len(trace),
        "n_requests": int(trace.requests.sum()),
    }
    return _Input(*(values[name] for name in _FIELDS))


_NEVER_PAID = ("connect_ns", "crossing_ns", "datagram_ns", "datagram_entry_ns", "acked_ns")
"""Costs that the program does not use: of simulated clients, of floods and of windows; of the
kernel entry, which only io_uring and a server in the kernel save (models/completions/io_uring.py,
models/epoll/other_kernels.py)."""


def _check(trace: Trace, costs: Costs, settings: RunSettings) -> None:
    """Refuse features that the program lacks."""
    program, limits = settings.program, settings.limits
    network, client = settings.network, settings.client
    n_all = len(trace) + client.idle
    effects = [
        name
        for table in (costs.call, costs.interrupt)
        for name, value in table._field_defaults.items()
        if name not in (*_NEVER_PAID, *_FIELDS) and getattr(table, name) != value
    ]
    left_out = {
        "clients that cost CPU time": any(costs.client),
        "a finite bandwidth, or timers that count ticks": (
            network != NetworkSettings(network.delay_ns)
        ),
        "clients short of descriptors": client.fd_limit < n_all,
        "time-outs": client.timeout_ns > 0,
        "linear SYN time-outs": client.linear_syn_timeouts > 0,
        "idle connections that come and go": client.idle_life_ns > 0,
        "several workers or CPUs": program.workers > 1 or settings.machine.cpus > 1,
        "an accept limit": program.accept_limit > 0,
        "a listener that is served last": program.listener_last,
        "a read after accept": program.read_after_accept,
        "work of the application for a request": program.request_cpu_ns > 0,
        "refused connections": limits.refuse,
        "a bound of half-open connections": not limits.syn_cookies,
        f"the costs {', '.join(effects)}": bool(effects),
        "floods, faults, and kernels that share CPUs out": (
            settings.flood != FloodSettings()
            or bool(settings.faults)
            or settings.kernel._replace(softirq_budget=_USUAL.softirq_budget) != _USUAL
        ),
        "clients that try again, or run out of ports": client.retries > 0 or client.ports > 0,
        "a server short of descriptors": limits.fd_limit < n_all + _SPARE_FDS,
        "replies beyond the send buffer": trace.reply_bytes.max()
        > (limits.send_buffer_bytes or SEND_BUFFER_MAX),
        "other mechanisms than epoll": not hasattr(costs.mechanism, "recheck_ns"),
        f"over {_CONNECTIONS_MAX} connections": n_all > _CONNECTIONS_MAX,
        f"over {_REQUESTS_MAX} requests": trace.requests.sum() > _REQUESTS_MAX,
    }
    for what, wanted in left_out.items():
        if wanted:
            raise ValueError(f"the program written by hand lacks {what}")
