"""Tables of the mechanisms that were never merged, made from records; README.md has them verbatim.

    measured/ID/{fit,heldout}.jsonl ─► Measured ─► one table a claim ─► Markdown

A cell without a run holds a dash. All numbers are of the windows: replies, calls and CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....sim.files.tables import Table, markdown
from ...points.point import Point, point_at
from ...points.points import EMULATED, FIT_POINT, SIGNALS, SIGNALS_QUEUE
from ...records.measured_runs import DataError, RunRecord, read_rows
from ...testbed.c_build import SOURCE_FOLDER
from .unmerged_target import ID

SHIPPED = SOURCE_FOLDER / "measured" / ID
_MISSING = "-"
_FCNTLS = 3  # F_SETSIG, F_SETOWN and F_SETFL for each connection: servers/signal_queue.c
_RECOVERY_CALLS = 5  # after an overflow: sigaction twice for each of two signals, poll

COMPARED = ("select", "poll", "epoll_level")
SCANNING = ("select", "poll", "dev_poll")
EPOLL = ("epoll_level", "epoll_ctlv", "epoll_edge", "epoll_once")
BOUNDED = SIGNALS[:3]
"""Mechanisms with several bounds of the queue; signalfd has that of rt_signals."""
FRACTIONS = (0.5, 0.9, 1.1, 1.5)
OVERLOADS = FRACTIONS[2:]
IDLE_COUNTS = (0, 250, 1_000, 4_000)
IDLE = 1_000
QUEUES = (128, SIGNALS_QUEUE, 4_096)
"""The last bound has room for a signal of each descriptor."""
ACCEPT_LIMIT = 10
BURST_LOADS = ((500, 1, 0.5), (2_000, 1, 0.5), (500, 4, 1.0))
"""Connections at an instant, requests of each, and request rate as a share of the capacity."""
LONG_REPLY_BYTES = 65_536

Figure = Callable[[RunRecord], str]


@dataclass(frozen=True)
class Measured:
    """The accepted runs of a folder, by point, and the capacity that its rates are fractions of."""

    capacity_per_s: float
    runs: dict[Point, RunRecord]

    @classmethod
    def read(cls, folder: Path) -> Measured:
        """Return what *folder* holds; DataError if it has no capacity."""
        fits = [run for run in read_rows(folder / "fit.jsonl", RunRecord).rows if run.accepted]
        capacities = [r.result.reply_rate_per_s.mean for r in fits if r.point == FIT_POINT]
        if not capacities:
            raise DataError(
                f"{folder / 'fit.jsonl'}: must hold an accepted run of {FIT_POINT.label}, got "
                f"none: `dispatchsim lab measure-unmerged fit --output {folder}` writes it"
            )
        held_out = read_rows(folder / "heldout.jsonl", RunRecord).rows
        runs = {run.point: run for run in held_out if run.accepted and run.repeat == 0}
        return cls(capacities[0], runs)

    def cell(self, point: Point, figure: Figure) -> str:
        """Return *figure* of the run at *point*."""
        run = self.runs.get(point)
        return _MISSING if run is None else figure(run)

    def percent(self, run: RunRecord) -> str:
        """Return the replies a second, in percent of the capacity."""
        per_s = run.result.calls["replies"] * 1e9 / run.window_ns
        return f"{100 * per_s / self.capacity_per_s:.0f}%"

    def at(self, mechanism: str, fraction: float, **more: Any) -> Point:
        """Return the open-loop point of *mechanism* at *fraction* of the capacity."""
        keys = {"server.mechanism": mechanism, "load.of_capacity": fraction}
        return point_at(EMULATED.point(keys, self.capacity_per_s), **more)

    def bursts(self, mechanism: str) -> list[Point]:
        """Return the points of *mechanism* at which many connections come at an instant."""
        loads = [
            {"burst": burst, "load.requests": n_requests, "load.of_capacity": fraction}
            for burst, n_requests, fraction in BURST_LOADS
        ]
        server = {"server.mechanism": mechanism}
        return [EMULATED.point(server | load, self.capacity_per_s) for load in loads]


def tables_of(folder: Path) -> str:
    """Return all tables of README.md, from the records of *folder*.

    Raises
    ------
    DataError
        If they cannot be read, or hold no capacity.
    """
    measured = Measured.read(folder)
    parts = (load_table, bound_table, signal_table, call_table, scan_table)
    return "\n".join(part(measured) for part in parts)


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], note: str) -> str:
    return markdown(Table.of_cells(title, headings, map(tuple, rows), note))


def load_table(measured: Measured) -> str:
    """Return the table of CPU and latency at each load."""
    header = [
        "mechanism", "idle", *(f"CPU at {f:g}" for f in FRACTIONS),
        *(f"latency at {f:g}" for f in FRACTIONS[:2]),
        *(f"replies at {f:g}" for f in FRACTIONS[2:]),
    ]  # fmt: skip
    names = (*COMPARED, "dev_poll", "epoll_ctlv", *SIGNALS, *EPOLL[2:])
    rows = []
    for idle in (0, IDLE):
        for name in names:
            at = [measured.at(name, f, idle=idle) for f in FRACTIONS]
            rows.append([
                name, f"{idle:,}", *(measured.cell(point, cpu_us) for point in at),
                *(measured.cell(point, latency_us) for point in at[:2]),
                *(measured.cell(point, measured.percent) for point in at[2:]),
            ])  # fmt: skip
    note = (
        "CPU in µs a reply, mean latency in µs. Loads, and the replies above the capacity, are "
        f"parts of {measured.capacity_per_s:,.0f}/s, what epoll_level serves to 64 users. A queue "
        f"holds {SIGNALS_QUEUE:,} signals."
    )
    return _table("Loads", header, rows, note)


def bound_table(measured: Measured) -> str:
    """Return the table of overflows of signal queues, by their bound."""

    def points_of(name: str) -> list[Point]:
        at = [measured.at(name, fraction) for fraction in OVERLOADS]
        return at + measured.bursts(name)

    loads = [f"load {fraction:g}" for fraction in OVERLOADS]
    for burst, requests, _ in BURST_LOADS:
        kept = f" for {requests} requests" if requests > 1 else ""
        loads.append(f"{burst:,} at once{kept}")
    rows = [
        [name, f"{queue:,}", *(
            measured.cell(point_at(point, signal_queue=queue), overflows_and_cpu)
            for point in points_of(name)
        )]
        for name in BOUNDED
        for queue in QUEUES
    ]  # fmt: skip
    for name in ("epoll_level", "epoll_ctlv", "dev_poll"):
        rows.append([name, _MISSING, *(measured.cell(point, cpu_us) for point in points_of(name))])
    note = (
        f"Overflows in the window; CPU in µs a reply. {QUEUES[-1]:,} descriptors, no idle "
        "connections."
    )
    return _table("Bounds of the queue", ["mechanism", "queue", *loads], rows, note)


def signal_table(measured: Measured) -> str:
    """Return the table of signals and calls."""
    header = [
        "mechanism", "accepts a wait", "load", "calls a reply", "signals a reply",
        "signals a call", "accepts of none", "overflows", "overflows a call", "CPU",
    ]  # fmt: skip
    loads = [(0, fraction) for fraction in FRACTIONS]
    loads += [(ACCEPT_LIMIT, fraction) for fraction in OVERLOADS]
    rows = []
    for name in (*SIGNALS, "epoll_level"):
        for limit, fraction in loads:
            run = measured.runs.get(measured.at(name, fraction, accept_limit=limit))
            if run is not None:
                rows.append([name, f"{limit or 'all'}", f"{fraction:g}", *_signal_cells(run)])
    note = (
        f"A queue of {SIGNALS_QUEUE:,} signals, no idle connections; accepts that found none for a "
        "reply, CPU in µs a reply. epoll_level for comparison."
    )
    return _table("Signals a call", header, rows, note)


def _signal_cells(run: RunRecord) -> list[str]:
    """Return the cells of a run in the table of signals; other mechanisms have few of them."""
    calls, replies = run.result.calls, max(run.result.calls["replies"], 1)
    if run.point.server.mechanism not in SIGNALS:
        return [f"{calls['waits'] / replies:.3f}", *[_MISSING] * 5, cpu_us(run)]
    asks = max(calls["asks"], 1)
    return [
        f"{calls['asks'] / replies:.3f}", f"{calls['notices'] / replies:.3f}",
        f"{calls['notices'] / asks:.2f}", f"{calls['accept_again'] / replies:.3f}",
        f"{calls['overflows']:,}", f"{calls['overflows'] / asks:.3f}", cpu_us(run),
    ]  # fmt: skip


def call_table(measured: Measured) -> str:
    """Return the table of dispatching calls for a reply, for mechanisms that save some."""
    names = (*EPOLL, "dev_poll", "poll")
    columns = {
        **{
            f"load {fraction:g}": [measured.at(name, fraction) for name in names]
            for fraction in FRACTIONS
        },
        "500 at once": [measured.bursts(name)[0] for name in names],
        "long replies": [measured.at(name, 0.1, reply_bytes=LONG_REPLY_BYTES) for name in names],
    }
    rows = [
        [name, *(measured.cell(column[i], calls_and_cpu) for column in columns.values())]
        for i, name in enumerate(names)
    ]
    note = (
        "Calls that wait or register interest, for a reply; CPU in µs a reply. Long replies have "
        f"{LONG_REPLY_BYTES // 1024} KiB, more than a send buffer takes at once."
    )
    return _table("Calls a reply", ["mechanism", *columns], rows, note)


def scan_table(measured: Measured) -> str:
    """Return the table of the costs of idle connections."""
    rows = []
    for name in (*SCANNING, "epoll_level"):
        at = [measured.at(name, FRACTIONS[0], idle=idle) for idle in IDLE_COUNTS]
        rows.append([
            name, *(measured.cell(point, waits_and_cpu) for point in at),
            *(measured.cell(point, measured.percent) for point in at[-1:]),
            _slope(measured.runs.get(at[0]), measured.runs.get(at[1]), IDLE_COUNTS[1]),
        ])  # fmt: skip
    header = [
        "mechanism", *(f"idle {n:,}" for n in IDLE_COUNTS), f"replies at idle {IDLE_COUNTS[-1]:,}",
        "ns a descriptor and wait",
    ]  # fmt: skip
    note = (
        f"Waits for a reply; CPU in µs a reply, at {FRACTIONS[0]:g} of the capacity. "
        f"The last column is what {IDLE_COUNTS[1]} idle connections add, by waits and descriptors."
    )
    return _table("Idle connections", header, rows, note)


def cpu_ns(run: RunRecord) -> float:
    """Return the server CPU's busy time for a reply."""
    return run.result.cpu.busy_ns / max(run.result.calls["replies"], 1)


def cpu_us(run: RunRecord) -> str:
    """Return the busy time for a reply, in µs."""
    return f"{cpu_ns(run) / 1e3:,.1f}"


def latency_us(run: RunRecord) -> str:
    """Return the mean latency in µs."""
    latency_ns = run.result.latency_ns
    return _MISSING if latency_ns is None else f"{latency_ns.mean / 1e3:,.0f}"


def overflows_and_cpu(run: RunRecord) -> str:
    """Return the overflows and the busy time for a reply."""
    return f"{run.result.calls['overflows']:,}; {cpu_us(run)}"


def dispatch_calls(run: RunRecord) -> int:
    """Return the number of system calls that wait or register descriptors."""
    calls, mechanism = run.result.calls, run.point.server.mechanism
    if mechanism in SIGNALS:
        return calls["asks"] + _FCNTLS * calls["watches"] + _RECOVERY_CALLS * calls["overflows"]
    told = {
        "epoll_level": calls["watches"] + calls["rewatches"] + calls["unwatches"],
        "epoll_edge": calls["watches"] + calls["unwatches"],
        "epoll_once": calls["watches"] + calls["unwatches"],
    }
    return (calls["asks"] or calls["waits"]) + told.get(mechanism, calls["updates"])


def calls_and_cpu(run: RunRecord) -> str:
    """Return the calls of dispatching and the busy time, each for a reply."""
    return f"{dispatch_calls(run) / run.result.calls['replies']:.2f}; {cpu_us(run)}"


def waits_and_cpu(run: RunRecord) -> str:
    """Return the waits and the busy time, each for a reply."""
    return f"{run.result.calls['waits'] / run.result.calls['replies']:.2f}; {cpu_us(run)}"


def _slope(without: RunRecord | None, idle: RunRecord | None, n_idle: int) -> str:
    if without is None or idle is None:
        return _MISSING
    waits = idle.result.calls["waits"] / idle.result.calls["replies"]
    return f"{(cpu_ns(idle) - cpu_ns(without)) / waits / n_idle:.1f}"
