"""Measure the mechanisms of signals below and above capacity: what overflows, what a call brings.

    python -m dispatchsim.calibration.emulated.kernel_mechanisms.overload > table.txt

Each row is one guest: the micro server under an open loop of Poisson arrivals of one seed, counted
in a window that begins after the warm-up. Two runs of a row give the same figures, to the last
digit, as long as kernel, programs and modules are the same.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from typing import NamedTuple

from ..guest_programs import init_program, server_program
from ..guest_run import COUNTERS_PATH, SERVER_ADDRESS, GuestOutput, MacroLoad, macro_job, run_guest
from ..kernel_build import Kernel, kernel
from ..kernel_modules import WIRE_FOLDER, build_module
from . import INSERTIONS, MODULES

SEED = 1
WARM_UP_NS = 150_000_000
WINDOW_NS = 150_000_000
# A full backlog has more signals of the listener than the queue has room for; the descriptors,
# of which there are as many as the queue has room for, have not.
FDS_MAX = 1024
BACKLOG = 4096
_NS_PER_S = 1_000_000_000


class Point(NamedTuple):
    """One row: the server, the bound of its signal queue (0: the kernel's), the load."""

    mechanism: str
    queue_max: int
    gap_ns: int  # mean time between two connections
    n_requests: int = 1  # of each connection
    idle: int = 250


class Figures(NamedTuple):
    """What was counted in the window."""

    offered: int  # connections per second
    replies: int  # per second
    refused_or_lost: int  # connections of the whole run without a complete reply
    cpu_ns: float  # busy time per reply
    asks: float  # calls that asked for signals or events, per reply
    notices: float  # signals or events they brought, per reply
    unwanted: float
    accept_again: float
    overflows: int  # since the begin
    updates: float


def poisson_trace(point: Point, end_ns: int) -> tuple[bytes, int]:
    """Return a trace of Poisson arrivals until *end_ns* and the number of its connections."""
    arrivals = random.Random(SEED)
    rows = []
    at_ns = 0.0
    while (at_ns := at_ns + arrivals.expovariate(1 / point.gap_ns)) < end_ns:
        rows.append(f"{int(at_ns)} {point.n_requests} 64 128 0")
    header = f"# dispatchsim trace 1\nloop open\nusers 0\nconnections {len(rows)}\n"
    return (header + "\n".join(rows) + "\n").encode(), len(rows)


def counter_names() -> list[str]:
    """Return the counters of the server, in the order of their file."""
    layout = subprocess.run(
        [str(server_program()), "--counters-layout"],
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    return layout.stdout.split()


def measure(point: Point, target: Kernel) -> Figures:
    """Return the figures of one guest that runs *point* on *target*."""
    trace, n_rows = poisson_trace(point, WARM_UP_NS + WINDOW_NS)
    load = MacroLoad(
        trace=trace, records_max=n_rows, warm_up_ns=WARM_UP_NS, window_ns=WINDOW_NS,
        idle=point.idle, timeout_ns=4 * _NS_PER_S,
    )  # fmt: skip
    arguments = (
        "--mechanism", point.mechanism, "--address", SERVER_ADDRESS, "--port", str(load.port),
        "--counters", COUNTERS_PATH, "--fd-limit", str(FDS_MAX), "--backlog", str(BACKLOG),
        "--signal-queue", str(point.queue_max), "--accept-limit", "1",
        "--read-after-accept", "--seconds-max", "3600",
    )  # fmt: skip
    modules = tuple(build_module(folder, target) for folder in (WIRE_FOLDER, *MODULES))
    job = macro_job(server_program(), arguments, load, modules)
    return figures_of(run_guest(job, kernel=target, init=init_program()), n_rows)


def figures_of(output: GuestOutput, n_rows: int) -> Figures:
    """Return the figures in the frames of a guest."""
    names = counter_names()
    before, after = (
        struct.unpack(f"<{len(names)}Q", output.frames[f"counters_{when}"])
        for when in ("before", "after")
    )
    count = {name: after[i] - before[i] for i, name in enumerate(names)}
    # struct wire_status begins with the time and the idle time.
    (begin_ns, idle_begin_ns), (end_ns, idle_end_ns) = (
        struct.unpack_from("<2Q", output.frames[f"wire_{when}"]) for when in ("before", "after")
    )
    seconds = (end_ns - begin_ns) / _NS_PER_S
    busy_ns = (end_ns - begin_ns) - (idle_end_ns - idle_begin_ns)
    records = list(struct.iter_unpack("<5q", output.frames["records"]))
    replies = max(count["replies"], 1)
    # The mechanisms that tell of states ask once a wait, and count nothing of it themselves.
    asks = count["asks"] or count["waits"]
    notices = count["notices"] or count["events"]
    return Figures(
        offered=round(n_rows / (WARM_UP_NS + WINDOW_NS) * _NS_PER_S),
        replies=round(count["replies"] / seconds),
        refused_or_lost=sum(1 for record in records if record[4] != 0),
        cpu_ns=round(busy_ns / replies, 1),
        asks=round(asks / replies, 3),
        notices=round(notices / replies, 3),
        unwanted=round(count["notices_unwanted"] / replies, 3),
        accept_again=round(count["accept_again"] / replies, 3),
        overflows=after[names.index("overflows")],
        updates=round(count["updates"] / replies, 3),
    )


POINTS = tuple(
    Point(mechanism, queue_max, gap_ns, n_requests)
    for gap_ns, n_requests in ((25_000, 1), (70_000, 4), (200_000, 1))
    for mechanism, queue_max in (
        ("rt_signals", FDS_MAX),
        ("signal_per_fd", FDS_MAX),
        ("sigtimedwait4", FDS_MAX),
        ("signalfd", FDS_MAX),
        ("rt_signals", 2 * (FDS_MAX + BACKLOG)),
        ("sigtimedwait4", 2 * (FDS_MAX + BACKLOG)),
        ("signal_per_fd", FDS_MAX // 16),
        ("epoll_level", 0),
        ("epoll_edge", 0),
        ("epoll_ctlv", 0),
        ("dev_poll", 0),
    )
)


def main() -> None:
    """Print a table, one row a point; a progress line on standard error before each."""
    target = kernel(patches=INSERTIONS)
    print(*Point._fields, *Figures._fields)
    for number, point in enumerate(POINTS, start=1):
        print(f"{number} of {len(POINTS)}: {point}", file=sys.stderr, flush=True)
        print(*point, *measure(point, target), flush=True)


if __name__ == "__main__":
    main()
