"""A window of rows that moves along a trace: memory only for open connections.

    trace     ... done done done │ open  done  open  next  ... │ not drawn yet
                                 └──────── the window ─────────┘
    refill    ended ones go to the tally ─ open ones move to the front ─ new rows behind them

A run numbers its connections by their row in the window. When the rows run out, ended connections
are counted and dropped. The others are renumbered everywhere: on the calendar, in accept queues,
in waiting packets, and in the table of descriptors. Their order stays, so the run continues
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ..clients.backend import count_backend_times
from ..figures.fates import NOBODY, fates_of, stranded
from ..figures.outcome import (
    class_of_requests,
    connections_of_workers,
    last_attempts,
    ledgers_of,
    requests_of,
    samples_of,
)
from ..figures.summary import Summary, summary_of
from ..figures.tally import ONE_FOR_ALL, Tallies
from ..load.workload import Trace, TraceBlocks
from ..state.columns import Per
from ..state.kinds import (
    KIND_BITS,
    NEVER_NS,
    NONE,
    Occurrence,
    Stage,
    Status,
    packet_connection,
    packet_kind,
)
from ..state.mechanism import Mechanism
from ..state.world import COLUMNS, Cpu, World
from ..wire.paths import paths_of

_OF_ROWS = {name: each for name, each in COLUMNS.items() if each.per == Per.CONNECTION}
_UNKNOWN = [int(each) for each in (Stage.NONE, Stage.CLOSED, Stage.BY_COOKIE, Stage.EXPIRED)]
"""Stages in which the server keeps no record of a connection."""
_OF_NO_CONNECTION = [int(Occurrence.DATAGRAM), int(Occurrence.BACKEND_REPLY)]
"""Kinds of packets without a client's connection."""
_MARGIN = 2
"""Rows in reserve when the engine asks for more: no occurrence starts more connections."""
_REQUESTS_MARGIN = 20_000
"""Room in reserve when the engine asks for more: with calls of no cost the server may reply to all
events of a wait before the engine checks, and each reply makes a request due."""
_OF_REQUESTS = tuple(name for name, each in COLUMNS.items() if each.per == Per.REQUEST)

Indices = NDArray[np.int64]


class RowWindow:
    """Feeds a run from *blocks*, and counts what has ended into `tally`.

    Parameters
    ----------
    blocks:
        The rest of the trace, behind the rows that *world* was built with.
    world:
        As built for the first rows, with columns that are arrays.
    tallies:
        Take the records of connections and requests.
    """

    def __init__(self, blocks: TraceBlocks, world: World, tallies: Tallies) -> None:
        self.tallies = tallies
        self._blocks = blocks
        self._world = world
        self._size = world.end_row - world.n_idle
        self._n_drawn = self._size
        self._each = world.rows_each
        world.refill_row = world.end_row - _MARGIN * self._each
        self._make_room_for_requests()

    def refill(self) -> None:
        """Make room for requests; where rows have run out, for new ones, and draw them."""
        world = self._world
        living = self._living()
        self._drop_requests(living)
        if world.next_row < world.refill_row:
            return
        self._count(~living, NOBODY)
        not_begun = np.arange(world.next_row, world.end_row)
        kept = np.concatenate([world.n_idle + np.flatnonzero(living), not_begun])
        if 2 * kept.size > self._size:
            self._size *= 2
        block = self._blocks.take((self._size - kept.size) // self._each)
        self._move(kept, block)
        world.refill_row = NEVER_NS if block is None else world.end_row - _MARGIN * self._each

    def finish(self, duration_ns: int, mechanism: Mechanism) -> Summary:
        """Count the remaining rows at the end, and return the metrics of the whole run."""
        world = self._world
        world.now_ns = duration_ns
        count_backend_times(world)
        if world.n_silent > 0:
            raise RuntimeError(f"{world.n_silent} requests found no room in a streamed run")
        lost = stranded(world, mechanism.tells)
        self._count(np.ones(world.next_row - world.n_idle, bool), lost)
        self._count_requests(np.ones(world.n_requests, bool), lost)
        return summary_of(
            self.tallies,
            ledger_ns=ledgers_of(world),
            ledger_mark_ns=np.array([cpu.ledger_mark_ns for cpu in world.cpus], np.int64),
            counts=_array(world.counts),
            counts_mark=_array(world.counts_mark),
            samples=samples_of(world),
            of_workers=connections_of_workers(world),
            stranded=lost,
        )

    def _begun(self, name: str) -> NDArray[np.int64]:
        """Return that column for the rows that have begun."""
        column = cast(NDArray[np.int64], getattr(self._world, name))
        return column[self._world.n_idle : self._world.next_row]

    def _living(self) -> NDArray[np.bool_]:
        """Return the begun rows to which the run still refers."""
        world = self._world
        stage = self._begun("stage")
        living: NDArray[np.bool_] = self._begun("status") == int(Status.OPEN)
        living &= self._begun("intended_ns") != NONE
        living |= ~np.isin(stage, _UNKNOWN)
        for connections in (_connections(world), *map(_waiting_packets, world.cpus)):
            begun = (connections >= world.n_idle) & (connections < world.next_row)
            living[connections[begun] - world.n_idle] = True
        if self._each == 1:
            return living
        # All attempts of a connection stay together, or go together.
        together = living.reshape(-1, self._each).any(axis=1)
        return cast(NDArray[np.bool_], np.repeat(together, self._each))

    def _count(self, ended: NDArray[np.bool_], lost: NDArray[np.int64]) -> None:
        """Hand the records of the *ended* rows to the tally, of which some are *lost*: stranded."""
        each = self._each

        def of_ended(name: str) -> NDArray[np.int64]:
            return self._begun(name)[ended]

        names = ("intended_ns", "connected_ns", "done_ns", "status")
        planned_ns, connected_ns, done_ns, status = map(of_ended, names)
        if each > 1:
            last = last_attempts(planned_ns, each)
            planned_ns, connected_ns = planned_ns[::each], connected_ns[last]
            done_ns, status = done_ns[last], status[last]
        if len(lost) > 0:
            status = fates_of(status, of_ended("row")[::each] // each, lost)
        self.tallies.add_connections(planned_ns, connected_ns, done_ns, status)

    def _requests(self, name: str) -> NDArray[np.int64]:
        """Return that column of the requests at hand."""
        return _array(getattr(self._world, name))[: self._world.n_requests]

    def _drop_requests(self, living: NDArray[np.bool_]) -> None:
        """Hand the requests with a known fate to the tally, and forget them.

        They have a reply, or their connection is no longer *living*. A reply on its way has not
        arrived. A failed attempt with packets on their way to the server still needs the due time
        of its request.
        """
        world = self._world
        reply_ns, row = self._requests("reply_ns"), self._requests("asked_on")
        replied = (reply_ns != NONE) & (reply_ns <= world.now_ns)
        request_of = _array(world.request_of)[world.n_idle : world.next_row]
        has_failed = living & (self._begun("status") != int(Status.OPEN)) & (request_of != NONE)
        dropped = replied | ~living[row - world.n_idle]
        dropped[request_of[has_failed]] = False
        self._count_requests(dropped, NOBODY)
        kept = np.flatnonzero(~dropped)
        for name in _OF_REQUESTS:
            column = _array(getattr(world, name))
            column[: kept.size] = column[kept]
        # The last request of a connection may be gone: nobody asks for it again.
        number = np.full(world.n_requests + 1, NONE)  # the last is that of no request
        number[kept] = np.arange(kept.size)
        request_of[:] = number[request_of]
        world.n_requests = kept.size
        self._make_room_for_requests()

    def _make_room_for_requests(self) -> None:
        """Have as much free room as there are requests at hand, and as there are rows."""
        world = self._world
        room = 2 * world.n_requests + self._size + 2 * _REQUESTS_MARGIN
        if len(world.due_ns) < room:
            for name in _OF_REQUESTS:
                column = _array(getattr(world, name))
                larger = np.zeros(2 * room, column.dtype)
                larger[: world.n_requests] = column[: world.n_requests]
                setattr(world, name, larger)
        world.refill_request = len(world.due_ns) - _REQUESTS_MARGIN

    def _count_requests(self, counted: NDArray[np.bool_], lost: NDArray[np.int64]) -> None:
        """Hand the records of the *counted* requests to the tally; see `_count`."""
        world, each = self._world, self._each
        requests = requests_of(world, self.tallies.requests.end_ns).take(counted)
        status = requests.status
        path = client_class = ONE_FOR_ALL
        if world.n_classes > 1:
            client_class = class_of_requests(world, requests.row)
        if len(lost) > 0 or world.n_paths > 0:
            numbers = _array(world.row)[requests.row] // each
            status = fates_of(status, numbers, lost)
            path = paths_of(numbers, client_class, world)
        self.tallies.requests.add(requests.due_ns, requests.ended_ns, status, path, client_class)

    def _move(self, kept: Indices, block: Trace | None) -> None:
        """Bring the rows *kept* to the front, and *block* behind them."""
        world, each = self._world, self._each
        n_idle, n_kept = world.n_idle, kept.size
        n_new = 0 if block is None else len(block) * each
        self._renumber(kept)
        n_rows = n_idle + n_kept + n_new
        for name, declared in _OF_ROWS.items():
            column = _array(getattr(world, name))
            moved = column[kept]
            if column.size < n_rows:
                idle = column[:n_idle]
                column = np.zeros(n_idle + self._size, column.dtype)
                column[:n_idle] = idle
                setattr(world, name, column)
            column[n_idle : n_idle + n_kept] = moved
            new = column[n_idle + n_kept : n_rows]
            new[:] = declared.first
            if block is not None and declared.of and getattr(block, declared.of).size:
                new.reshape(-1, each)[:] = getattr(block, declared.of)[:, np.newaxis]
        _array(world.row)[n_idle + n_kept : n_rows] = np.arange(
            self._n_drawn, self._n_drawn + n_new
        )
        self._n_drawn += n_new
        world.next_row = n_idle + int(np.searchsorted(kept, world.next_row))
        world.oldest = n_idle + int(np.searchsorted(kept, world.oldest))
        world.end_row = n_rows

    def _renumber(self, kept: Indices) -> None:
        """Rename connections wherever the run holds one; the idle ones stay."""
        world = self._world
        n_idle = world.n_idle
        # Not one entry for each idle connection, of which there may be millions.
        new_place = np.full(world.end_row - n_idle, NONE, np.int64)
        new_place[kept - n_idle] = np.arange(kept.size)

        def renamed(connections: Indices) -> Indices:
            of_trace = connections >= n_idle
            names = connections.copy()
            names[of_trace] = n_idle + new_place[connections[of_trace] - n_idle]
            return names

        connections = _connections(world)
        named = connections >= 0
        _, kinds, subjects = world.calendar.columns()
        handled = named & (kinds == int(Occurrence.HANDLED))
        plain = named & ~handled
        subjects[plain] = renamed(subjects[plain])
        subjects[handled] += (renamed(connections[handled]) - connections[handled]) << KIND_BITS
        for cpu in world.cpus:
            places = _packet_places(cpu)
            packets = _array(cpu.packets)
            packets[places] = _with_names(packets[places], renamed)
            in_hand = np.array([cpu.in_hand], np.int64)
            cpu.in_hand = int(_with_names(in_hand, renamed)[0])
        for listener in world.listeners:
            queue = _array(listener.queue)
            places = listener.first_queued + np.arange(listener.n_queued)
            places &= queue.size - 1
            queue[places] = renamed(queue[places])
        _array(world.asked_on)[: world.n_requests] = renamed(self._requests("asked_on"))
        fds = _array(world.fd_of)[kept]
        is_open = fds != NONE
        _array(world.connection_of)[fds[is_open]] = renamed(kept[is_open])


def _connections(world: World) -> Indices:
    """Return the connection that each entry of the calendar is about, or NONE."""
    _, kinds, subjects = world.calendar.columns()
    handled = np.where(_is_of_connection(subjects), packet_connection(subjects), NONE)
    return cast(Indices, np.where(kinds == int(Occurrence.HANDLED), handled, subjects))


def _packet_places(cpu: Cpu) -> Indices:
    """Return where on its ring the packets are that wait for *cpu*."""
    return (cpu.first_packet + np.arange(cpu.n_packets)) & (len(cpu.packets) - 1)


def _waiting_packets(cpu: Cpu) -> Indices:
    """Return the connection of each packet that waits for *cpu*, or that it is at."""
    packets = np.append(_array(cpu.packets)[_packet_places(cpu)], cpu.in_hand)
    return np.where(_is_of_connection(packets), packet_connection(packets), NONE)


def _is_of_connection(packets: Indices) -> NDArray[np.bool_]:
    is_other = np.isin(packet_kind(packets), _OF_NO_CONNECTION)
    return cast(NDArray[np.bool_], (packets != NONE) & ~is_other)


def _with_names(packets: Indices, renamed: Callable[[Indices], Indices]) -> Indices:
    """Return *packets* with their connections *renamed*."""
    rows = packet_connection(packets)
    named = _is_of_connection(packets)
    names = packets.copy()
    names[named] += (renamed(rows[named]) - rows[named]) << KIND_BITS
    return names


def _array(column: list[int]) -> NDArray[np.int64]:
    return cast(NDArray[np.int64], column)
