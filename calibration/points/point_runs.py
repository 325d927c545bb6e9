"""From an operating point to what a run takes, for the machine under test and the simulator alike.

Point ─┬─ seed ──► Trace             who comes
       ├─────────► server_options    of the real server
       └─────────► RunSettings       the same for the simulator, limits, lengths
"""

from __future__ import annotations

import numpy as np

from ...models.completions.io_uring import with_habits
from ...sim.load.trace_file import COLUMNS
from ...sim.load.workload import Trace
from ...sim.state.client_settings import ClientSettings, NetworkSettings
from ...sim.state.family_settings import CompletionSettings, SignalSettings, Threads, ThreadSettings
from ...sim.state.kernel_settings import KernelSettings, LimitSettings
from ...sim.state.program_settings import ProgramSettings, Sharing
from ...sim.state.settings import RunSettings
from ...sim.state.units import SECOND_NS
from .points import Point, Share

WINDOW = 10
"""Segments that may be under way at first (Linux TCP_INIT_CWND, RFC 6928)."""
FDS_MAX = 19_900
"""Descriptors that server and clients ask for, each, unless a point says otherwise."""
_THINK_ROWS = 100_000
_TICK_NS = 4_000_000
"""Of CONFIG_HZ=250, which Debian and all shipped machines have (timer_hz): a slice is over when a
tick finds that it is (kernel/sched/fair.c task_tick_fair()). Two workers of nginx 1.22 on one CPU
of Linux 6.18 had p99 of 4.6 and 4.8 ms."""
_SHARING: dict[Share, Sharing] = {
    "accept queue": Sharing.ACCEPT_QUEUE,
    "nothing": Sharing.NOTHING,
    "handed over": Sharing.HANDED_OVER,
}


def trace_for(point: Point, seed: int, seconds: float, *, rows: int = 0) -> Trace:
    """Return the arrivals of a run of *seconds*; in a closed loop at least *rows* connections.

    A machine under test begins again with the first row where a closed loop runs out of them; the
    simulator has one row a connection, and asks for as many as it needs.
    """
    if point.loop == "closed":
        # Without think times all rows are equal, and one a user does for a machine under test.
        rows = max(rows, point.users if point.think_ns == 0 else _THINK_ROWS)
    if point.burst == 1:
        return point.load.trace(seed, seconds, rows)
    # Arrivals at equal distances end with the last whole one, and a burst begins one.
    firsts = point.load.trace(seed, seconds + point.burst / point.rate_per_s, rows)
    in_time = firsts.at_ns < seconds * SECOND_NS
    columns = (np.repeat(getattr(firsts, name)[in_time], point.burst) for name in COLUMNS)
    return Trace(firsts.loop, firsts.users, *columns)


def server_options(point: Point) -> list[str]:
    """Return the options of the real server at *point*: all but where it listens and its limits.

    Raises
    ------
    ValueError
        For several event loops, which are for servers of others.
    """
    if point.has_loops:
        raise ValueError(f"our server has one event loop, got {point.workers} workers")
    return [
        "--mechanism", point.mechanism, "--backlog", str(point.backlog),
        "--accept-limit", str(point.accept_limit), "--listener", point.listener,
        "--max-events", str(point.max_events),
        *(["--read-after-accept"] if point.read_after_accept else []),
        *(["--signal-queue", str(point.signal_queue)] if point.signal_queue else []),
        *(
            ["--threads", point.threads.replace(" ", "-"), "--workers", str(point.workers)]
            if point.blocks
            else []
        ),
    ]  # fmt: skip


def settings_of(
    point: Point,
    *,
    warm_up_ns: int,
    window_ns: int,
    network_delay_ns: int,
    kernel: str = "",
    seed: int = 1,
) -> RunSettings:
    """Return the settings of the simulator for a run at *point* that ends with its window."""
    threads = {"pool": Threads.POOL, "on demand": Threads.ON_DEMAND, "processes": Threads.PROCESSES}
    program = ProgramSettings(
        accept_limit=point.accept_limit,
        listener_last=point.listener == "last",
        read_after_accept=point.read_after_accept,
        max_events=point.max_events,
        workers=point.workers or 1,
        sharing=int(_SHARING[point.share]),
        # Linux wakes one of those that sleep in accept.
        wake_one=point.blocks or point.wake == "one",
    )
    return RunSettings(
        program=program,
        completions=with_habits(CompletionSettings(), point.mechanism, kernel),
        blocking=ThreadSettings(threads=int(threads[point.threads])),
        signals=SignalSettings(signal_queue=point.signal_queue or FDS_MAX),
        limits=LimitSettings(
            backlog=point.backlog,
            syn_cookies=False,  # as the testbeds set net.ipv4.tcp_syncookies
            fd_limit=point.fd_limit or FDS_MAX,
        ),
        kernel=KernelSettings(slice_ns=_TICK_NS) if point.has_loops else KernelSettings(),
        network=NetworkSettings(delay_ns=network_delay_ns, window_segments=WINDOW),
        client=ClientSettings(timeout_ns=point.timeout_ns, fd_limit=FDS_MAX, idle=point.idle),
        duration_ns=warm_up_ns + window_ns,
        warm_up_ns=warm_up_ns,
        seed=seed,
    )
