"""From trace, costs and settings to the state before a run: planned clients, nothing open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..clients.clients import idle_lives_ns
from ..clients.retries import retry_draws
from ..cpu.interrupts import is_beside_clients
from ..cpu.receiving import asks_after, comes_late
from ..engine.disturbances import gaps_ns
from ..figures.queue_lengths import SAMPLE_COLUMNS
from ..kernel.handing_over import FDS_OF_SIBLING
from ..load.client_classes import class_tables
from ..load.laws import draws_ns, share_draws
from ..load.workload import Trace
from ..state.columns import I32, I64, DeclaredColumn, MakeColumn, Per, as_lists, power_of_two
from ..state.costs import ColdCosts, Costs
from ..state.kinds import NONE, Activity, Count, KernelPath, weight_of_nice
from ..state.mechanism import Program, Trait
from ..state.memory_settings import MemorySettings
from ..state.program_settings import Sharing
from ..state.rules import sets_of
from ..state.settings import FaultKind, RunSettings
from ..state.world import COLUMNS, Cpu, InterestSet, Listener, Worker, World
from ..wire.link import PERIODS
from ..wire.paths import loss_draws
from .checks import check, check_backend, fds_needed_by, has_siblings, has_timers
from .host import first_gaps, gap_columns, gap_numbers

_OF_CLASSES = ("class_requests", "class_request_bytes", "class_reply_bytes", "class_path")
_SPARE_FDS = 12  # besides those that are counted


def build_world(
    program: Program,
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
    column: MakeColumn = as_lists,
    *,
    n_connections: int | None = None,
    n_led: int = 0,
    requests_max: int | None = None,
    has_several: bool = False,
) -> World:
    """Return the state before a run; all random numbers besides the trace are made here.

    Parameters
    ----------
    program, trace, costs, settings:
        The run. The trace may be the first rows of a longer one.
    column:
        How columns are held.
    n_connections:
        Connections that may be open at once, at most; None: all of the trace and the idle ones.
    n_led:
        Connections of processes that may be open at once besides, at most (`engine/hosted.py`).
    requests_max:
        Largest number of requests due in the run; None: as many as the trace could make. Beyond
        it clients fall silent.
    has_several:
        Whether connections behind those of *trace* may make several requests.

    Raises
    ------
    ValueError
        If a setting is out of its range, or the idle population does not fit the server's
        descriptors.
    """
    mechanism, one_at_a_time = program.mechanism, program.mechanism.one_at_a_time
    siblings = has_siblings(settings.signals, mechanism) and not program.calls
    own_fds = mechanism.fds + FDS_OF_SIBLING * siblings
    check(settings, own_fds, one_at_a_time=one_at_a_time)
    check_backend(settings, program, one_at_a_time=one_at_a_time, has_siblings=siblings)
    own_fds += has_timers(settings.program, one_at_a_time=one_at_a_time)
    n_idle = settings.client.idle
    server, limits, machine, kernel, network, client = (
        *(settings.program, settings.limits, settings.machine, settings.kernel),
        *(settings.network, settings.client),
    )
    rows_each, is_kept = 1 + client.retries, trace.loop == "kept"
    n_before = n_idle + (trace.users if is_kept else 0)
    c = n_idle + len(trace) * rows_each
    n_at_once = n_idle + len(trace) if n_connections is None else n_connections
    # What is left of an attempt at the server may outlast it at its client.
    n_at_server = (c if n_connections is None else n_connections) + n_led
    n_sets = 1 if one_at_a_time else sets_of(server)
    n_listeners = server.workers if server.sharing == Sharing.NOTHING and not one_at_a_time else 1
    n_listening = 1 if one_at_a_time else server.workers
    n_siblings, n_threads = server.workers * siblings, server.workers * (1 + siblings)
    n_own_fds = fds_needed_by(n_listening, own_fds) + settings.backend.connections
    d = min(limits.fd_limit, n_at_server + n_own_fds + _SPARE_FDS)
    _check_room(settings, n_before, n_before + n_own_fds)
    n_others = 2 * machine.cpus + machine.busy_processes
    cpus = [
        Cpu(
            number=k,
            runnable=column(n_threads + n_others, NONE, I32),
            ledger_ns=column(len(Activity), 0, I64),
            ledger_mark_ns=column(len(Activity), 0, I64),
            idle_at_last_ns=column(len(KernelPath), 0, I64),
            packets=column(power_of_two(kernel.receive_queue), NONE, I64),
            asks_after=asks_after(kernel, costs),
            **gaps_of_cpu,
        )
        for k, gaps_of_cpu in enumerate(first_gaps(settings))
    ]
    sets = [
        InterestSet(
            number=i,
            one_shot=Trait.ONE_SHOT in mechanism.traits
            or (server.sharing == Sharing.READY_LIST and server.workers > 1),
            ready=column(power_of_two(d), 0, I32),
            waiters=column(server.workers, NONE, I32),
            own=mechanism.memory(settings, d, column),
        )
        for i in range(n_sets + n_siblings)
    ]
    listeners = [
        Listener(
            number=i,
            queue=column(power_of_two(limits.backlog + 2), NONE, I32),
            fds=column(n_sets // n_listeners, NONE, I32),
        )
        for i in range(n_listeners)
    ]

    def thread(number: int, cpu: Cpu, n_events: int) -> Worker:
        is_worker = number < n_threads
        accepts_for_it = server.sharing == Sharing.HANDED_OVER and number > 0
        takes = is_worker and (accepts_for_it or n_siblings > 0)
        return Worker(
            number=number,
            cpu=cpu,
            interests=sets[number % len(sets)],
            listener=listeners[number % n_listeners],
            listener_fd=NONE,
            event_fd=column(n_events, 0, I32),
            own=program.memory(settings, d if is_worker else 1, column),
            handed=column(power_of_two(d) if takes else 1, 0, I32),
        )

    n_events = 1 if one_at_a_time else 2 * d
    workers = [thread(w, cpus[w % machine.cpus], n_events) for w in range(n_threads)]
    others = [thread(n_threads + i, cpus[i % machine.cpus], 1) for i in range(n_others)]

    draws = _draws(trace, settings, costs)
    requests = draws["class_requests"] if trace.user_class.size else trace.requests
    sizes = {
        Per.CONNECTION: c,
        Per.REQUEST: _room_for_requests(trace, requests_max, requests),
        Per.DESCRIPTOR: d,
        Per.TIMED_DESCRIPTOR: d if server.request_timeout_ns > 0 else 1,
        Per.FREE_DESCRIPTOR: 0 if column is as_lists else d,
        Per.BACKEND: max(1, settings.backend.connections),
        Per.ASKING_DESCRIPTOR: d if settings.backend.connections > 0 else 1,
        Per.WORKER: server.workers,
        Per.DIRECTION: 2,
        Per.BUSY_PERIOD: 2 * PERIODS if _may_be_busy(settings) else 2,
        Per.IDLE: max(1, n_idle),
        Per.USER: trace.users if is_kept else 1,
        Per.COUNT: len(Count),
        Per.SAMPLE: _n_samples(settings) * len(SAMPLE_COLUMNS),
    }
    records: dict[Per, Sequence[Any]] = {Per.PATH: network.paths, Per.FAULT: settings.faults}

    def before(name: str, each: DeclaredColumn) -> list[int]:
        """Return the column *name* as it is before the run."""
        if each.per == Per.CONNECTION and each.of:
            values = getattr(trace, each.of)
            if not values.size:
                return column(c, each.first, each.dtype)
            values = values if rows_each == 1 else np.repeat(values, rows_each)
            return column(c, values, each.dtype, n_idle)  # of idle connections it holds nothing
        if each.per == Per.ARRIVAL:
            arrivals = getattr(trace, name) if is_kept else [0]
            return column(len(arrivals), arrivals, each.dtype)
        if each.per in sizes:
            return column(sizes[each.per], each.first, each.dtype)
        values = (
            draws[name]
            if each.per == Per.DRAW
            else [getattr(record, each.of) for record in records[each.per]]
        )
        return column(max(1, len(values)), values, each.dtype)

    columns: dict[str, Any] = {name: before(name, each) for name, each in COLUMNS.items()}
    columns["row"] = column(c, np.append(np.arange(n_idle), np.arange(c - n_idle)), I64)
    if network.paths:  # up to and with each of them
        columns["path_until"][:] = np.cumsum(columns["path_until"]).tolist()
    return World(
        costs=costs,
        program=server,
        overload=settings.overload,
        limits=limits,
        signals=settings.signals,
        blocking=settings.blocking,
        completions=settings.completions,
        scans=settings.scans,
        machine=machine,
        network=network._replace(paths=()),  # they are columns
        client=client,
        backend=settings.backend,
        cpus=cpus,
        kernel=kernel,
        memory=settings.memory,
        watch_bytes=watch_bytes(settings.memory, mechanism.watch_memory),
        flood=settings.flood,
        workers=workers,
        others=others,
        sets=sets,
        listeners=listeners,
        n_siblings=n_siblings,
        n_idle=n_idle,
        end_row=c,
        n_users=trace.users,
        free_clients=not is_kept
        and not any(costs.client)
        and not network.up_bits_per_s
        and not network.down_bits_per_s
        and not any(fault.kind in (FaultKind.LINK, FaultKind.READING) for fault in settings.faults)
        and not network.paths
        and network.set_up == 1
        and client.fd_limit >= n_at_once
        and client.ports == 0
        and client.request_pieces == 1,
        asks_after=asks_after(kernel, costs),
        comes_late=comes_late(kernel, costs),
        delivers_own=is_beside_clients(costs, network),
        caches_cool=costs.cold != ColdCosts(),
        entry_varies=any(costs.interrupt.entry_since.ns),
        idle_exit_varies=any(costs.interrupt.idle_exit_since.ns),
        replies_acked=costs.interrupt.reply_acked_ns > 0,
        some_stop_reading=any(fault.kind == FaultKind.READING for fault in settings.faults),
        rows_each=rows_each,
        is_kept=is_kept,
        timers_each=is_kept or rows_each > 1 or has_several or bool((requests > 1).any()),
        n_classes=max(1, len(settings.classes)),
        **columns,
        busy_weight=weight_of_nice(machine.busy_nice),
        n_paths=len(network.paths),
        up_bits_per_s=network.up_bits_per_s,
        down_bits_per_s=network.down_bits_per_s,
        signals_elsewhere=settings.signals.signals_elsewhere,
        **gap_numbers(settings, costs),
        sample_every_ns=settings.sample_every_ns,
        next_row=n_idle,
        oldest=n_idle,
    )


def _draws(trace: Trace, settings: RunSettings, costs: Costs) -> dict[str, Any]:
    """Return the columns of random values, and of values by class, by name."""
    seed, client, classes = settings.seed, settings.client, settings.classes
    _check_classes(trace, len(classes))
    return {
        "idle_life_ns": idle_lives_ns(client, seed),
        "retry_draws": retry_draws(client, seed),
        "loss_draws": loss_draws(settings.network, seed),
        "pause_ns": draws_ns(settings.laws.pause, seed, "pauses"),
        "request_cpu_ns": draws_ns(settings.laws.request_cpu, seed, "request cpu"),
        "backend_delay_ns": draws_ns(settings.laws.backend_delay, seed, "backend delay"),
        "backend_draws": share_draws(
            seed, "backend share", is_drawn=settings.backend.connections > 0
        ),
        "flood_gap_ns": gaps_ns(settings.flood, seed),
        **gap_columns(settings, costs),
        "class_of_user": trace.user_class,
        **dict.fromkeys(_OF_CLASSES, np.zeros(0, np.int64)),
        **class_tables(classes, seed, of_users=trace.users > 0),
    }


def _check_classes(trace: Trace, n_classes: int) -> None:
    """Refuse a trace whose classes of clients are not those of the settings."""
    column = trace.user_class if trace.users else trace.client_class
    if (column.size > 0) != (n_classes > 0) or (column.size and column.max() >= n_classes):
        numbers = f"{column.min()} to {column.max()}" if column.size else "none"
        raise ValueError(
            f"classes of the trace must be of the {n_classes} of the settings (from 0), "
            f"got {numbers}"
        )


def _may_be_busy(settings: RunSettings) -> bool:
    """Return whether the link's bandwidth is finite, or a fault may make it so."""
    network = settings.network
    return bool(network.up_bits_per_s or network.down_bits_per_s or settings.faults)


def _n_samples(settings: RunSettings) -> int:
    """Return how often queue lengths are sampled, at most; 0: never."""
    every_ns = settings.sample_every_ns
    return settings.duration_ns // every_ns + 2 if every_ns else 0


def watch_bytes(memory: MemorySettings, price: str) -> int:
    """Return the memory of a watched descriptor, by the name of its cost; 0: unknown."""
    return int(getattr(memory, price)) if price else 0


def _room_for_requests(trace: Trace, requests_max: int | None, requests: NDArray[np.int64]) -> int:
    """Return the number of requests for which a run of *trace* has room.

    *requests* are those of its connections, or a table of random values for classes of users.
    """
    if trace.loop == "kept":
        return int(trace.arrival_ns.size)  # each is due
    of_users = trace.user_class.size > 0
    n = len(trace) * int(requests.max()) if of_users else int(requests.sum())
    return n if requests_max is None else min(n, requests_max)


def _check_room(settings: RunSettings, n_before: int, fds_needed: int) -> None:
    kernel, limits = settings.kernel, settings.limits
    if n_before > 0 and fds_needed > limits.fd_limit:
        raise ValueError(
            f"idle must leave the server a descriptor: {n_before} connections open before "
            f"the run need {fds_needed} descriptors, fd_limit is {limits.fd_limit}"
        )
    least = fds_needed + kernel.files_elsewhere
    if 0 < kernel.files_max < least:
        raise ValueError(
            f"files_max must be at least {least}, for {n_before} open connections, the server's "
            f"own files and those elsewhere, or 0, got {kernel.files_max}"
        )
    if 0 < kernel.memory_bytes < n_before * kernel.connection_bytes:
        raise ValueError(
            f"memory_bytes must hold {n_before} open connections of {kernel.connection_bytes} "
            f"bytes, or be 0, got {kernel.memory_bytes}"
        )
