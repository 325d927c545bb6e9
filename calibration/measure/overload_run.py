"""Run one operating point of overload on the real machine.

    capacity (closed loop) ─► trace at a share of it ─► capacity again ─► did it drift?

The run sets the SYN time-outs and the port range of the client's side, so it needs namespaces.
Clients have sockets, or are packets of `far_end`, which obeys the same SYN time-outs.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from dataclasses import replace
from math import inf

from ...sim.load.workload import Trace
from ...sim.state.units import SECOND_NS
from ..points.overload_points import OverloadPoint
from ..points.point import Point, trace_to_replay
from ..records.generator_gate import generator_fault, is_timed
from ..records.measured_runs import RunResult
from ..records.noise import Series, judge, limits_for
from ..records.overload_records import (
    KernelCounts,
    OverloadRecord,
    delays_of,
    replied_bins,
    started_bins,
)
from ..records.run_result import Window
from ..testbed.c_build import Programs
from ..testbed.processes import RunError
from ..testbed.testbed import Testbed
from .macro import Timing, run_trace

CAPACITY_TIMING = Timing(
    warm_up_s=0.4, warm_up_accept_limited_s=0.4, window_s=2.0, calibration_ms=50
)
TIMING = Timing(
    warm_up_s=1.0, warm_up_accept_limited_s=1.0, window_s=6.9, after_s=0.1, calibration_ms=50
)
DRIFT_MAX = 0.25
"""The largest change of the capacity from before to after a run. Beyond it the run is repeated:
the machine has changed, or the pattern of wake-ups has."""
FOREIGN_SHARE_MAX = 0.25
"""Other programs use the server's idle time; the CPU's busy time is then not the server's."""
_PORTS = "1024 65535"
_CLIENT_SYSCTLS = "/proc/sys/net/ipv4"
_SOFTNET_DROPPED = 1  # column of /proc/net/softnet_stat


def run_overload(
    point: OverloadPoint,
    repeat: int,
    *,
    testbed: Testbed,
    programs: Programs,
    series: Series,
    timing: Timing = TIMING,
    capacity_timing: Timing = CAPACITY_TIMING,
) -> OverloadRecord:
    """Measure one repeat of *point* and judge its noise.

    Raises
    ------
    RunError
        If a process of the run ends early or does not answer in time.
    """

    def capacity() -> float:
        closed = point.capacity_point()
        trace = trace_to_replay(closed, 1, capacity_timing.run_seconds(closed))
        replayed = run_trace(
            closed, trace, testbed=testbed, programs=programs, series=series, timing=capacity_timing
        )
        return replies_per_s(replayed.result, replayed.window, closed)

    set_client(testbed, point.linear_syn_timeouts)
    before_per_s = capacity()
    seed, rate_per_s = point.seed(repeat), round(point.share * before_per_s)
    opened = point.at_rate(rate_per_s)
    run_ns = round(timing.run_seconds(opened) * SECOND_NS)
    trace = opened.trace(seed, run_ns / SECOND_NS)
    counted = _kernel_counts(testbed)
    replayed = run_trace(
        opened,
        trace,
        testbed=testbed,
        programs=programs,
        series=series,
        timing=timing,
        load_options=point.load_options(),
    )
    records, window, result = replayed.records, replayed.window, replayed.result
    noise = replayed.noise
    kernel = difference(
        counted, _kernel_counts(testbed), n_syn_repeated=replayed.packets.get("syn_repeated", 0)
    )
    after_per_s = capacity()
    limits = replace(
        limits_for(opened),
        server_delay_share_max=inf,  # softirqs delay the server, too
        foreign_share_max=FOREIGN_SHARE_MAX,
    )
    if point.load.retries:  # simultaneous retries are the load, not noise
        limits = replace(limits, lag_p50_ns_max=sys.maxsize)
    accepted, reason = judge(noise, lag_p50_ns=result.client.lag_p50_ns, limits=limits)
    if accepted and abs(after_per_s / before_per_s - 1) > DRIFT_MAX:
        drift = after_per_s / before_per_s - 1
        accepted, reason = False, f"capacity must drift by less than {DRIFT_MAX}, got {drift:+.3f}"
    if accepted and (fault := load_fault(point, trace, window, result)):
        accepted, reason = False, fault
    return OverloadRecord(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        code=programs.code,
        steering=testbed.steering,
        point=point,
        repeat=repeat,
        seed=seed,
        capacity_before_per_s=before_per_s,
        capacity_after_per_s=after_per_s,
        rate_per_s=rate_per_s,
        run_ns=run_ns,
        warm_up_ns=window.begin_ns,
        window_ns=window.length_ns,
        result=result,
        # Later connections may still wait for their time-out at the end of the run.
        delays=delays_of(
            records,
            Window(window.begin_ns, max(window.begin_ns, run_ns - point.load.timeout)),
            run_ns,
        ),
        started=started_bins(records, run_ns),
        replied=replied_bins(records, run_ns),
        kernel=kernel,
        noise=noise,
        accepted=accepted,
        reason=reason,
    )


def load_fault(point: OverloadPoint, trace: Trace, window: Window, result: RunResult) -> str:
    """Return why a run of *trace* is rejected if its load generator was the limit, else nothing.

    With retries the number of connections depends on the server, and simultaneous retries delay
    each other; such runs are not checked. A connection without a free descriptor counts as begun:
    the limit of descriptors belongs to the point.
    """
    if not is_timed(point):
        return ""
    return generator_fault(
        int(window.contains(trace.at_ns).sum()),
        result.offered,
        lag_p99_ns=result.client.lag_p99_ns,
        p99_ns=result.latency_ns.p99 if result.latency_ns else None,
    )


def replies_per_s(result: RunResult, window: Window, point: Point) -> float:
    """Return the number of connections per second with all their replies."""
    rate = result.replied / point.load.requests / (window.length_ns / SECOND_NS)
    if rate <= 0:
        raise RunError(f"{point.label}: the server sent no reply while its capacity was measured")
    return rate


def set_client(testbed: Testbed, linear_syn_timeouts: int) -> None:
    """Set the SYN retransmissions of the client's side, and give it all ports.

    If half of a port range is used, connect() searches long, because Linux first tries the ports of
    one parity.
    """
    if testbed.steering == "loopback":
        raise RunError(
            "overload needs network namespaces (root), whose SYN time-outs can be set: "
            f"got {testbed.steering}"
        )
    script = (
        f"echo {linear_syn_timeouts} > {_CLIENT_SYSCTLS}/tcp_syn_linear_timeouts; "
        f"echo '{_PORTS}' > {_CLIENT_SYSCTLS}/ip_local_port_range"
    )
    _said(testbed.on_client("sh", "-ec", script))


def _kernel_counts(testbed: Testbed) -> KernelCounts:
    files = ("cat", "/proc/net/netstat", "/proc/net/snmp")
    server, client = (
        _named(_said(command)) for command in (testbed.on_server(*files), testbed.on_client(*files))
    )
    with open("/proc/net/softnet_stat", encoding="ascii") as file:
        lines = file.read().splitlines()
    dropped = int(lines[testbed.server_cpu].split()[_SOFTNET_DROPPED], 16)
    return KernelCounts(server=server, client=client, softnet_drops=dropped)


def difference(
    before: KernelCounts, after: KernelCounts, *, n_syn_repeated: int = 0
) -> KernelCounts:
    """Return the counts from *before* to *after*, without those of 0.

    The SYNs that `far_end` repeated count as those of the client's kernel.
    """
    server, client = (
        {name: n - old.get(name, 0) for name, n in new.items() if n != old.get(name, 0)}
        for old, new in ((before.server, after.server), (before.client, after.client))
    )
    if n_syn_repeated:
        client["TCPSynRetrans"] = n_syn_repeated
    return KernelCounts(
        server=server, client=client, softnet_drops=after.softnet_drops - before.softnet_drops
    )


def _named(text: str) -> dict[str, int]:
    """Return the counters of /proc/net/netstat and snmp, whose names are above their values.

    Two protocols may have a counter of the same name (InErrors), so names get the protocol as
    prefix, except those of TCP.
    """
    lines = text.splitlines()
    counts: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group = names.split()[0].removesuffix(":")
        prefix = "" if group in ("Tcp", "TcpExt") else group
        found = zip(names.split()[1:], map(int, values.split()[1:]), strict=True)
        counts |= {prefix + name: n for name, n in found}
    return counts


def _said(command: list[str]) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if finished.returncode != 0:
        words = finished.stderr.strip().splitlines() or ["no message"]
        raise RunError(f"`{command[-1][:60]}` failed: {words[-1]}")
    return finished.stdout
