"""How long packets and calls take in a server, saturated or not, beside benches of their costs.

    server                SYN | accept, read .. | ACK, request | write, close | SYN | ...
    bench interrupts      SYN SYN SYN ... ACK ACK ACK ... request request ...
    bench calls           accept accept ... read read ... write write ...

In a server, packets and calls alternate, and displace each other's code and data from the caches.
In a bench one kind follows itself. Both are traced by the same events, whose own time is the same
in both. Calls during which another CPU interrupted, or another thread ran, are left out; those with
a tick are not, and neither are softirqs at the end of a call.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from scipy.stats import trim_mean

from ...sim.files.tables import DASH, Column, Table
from ..points.point import Point
from ..records.noise import Series
from ..testbed.c_build import Programs
from ..testbed.kernel_trace import KernelTrace, Traced, kernel_trace
from ..testbed.testbed import Testbed
from .macro import Timing, run_point
from .microbenchmarks import run_bench

USERS = (64, 256)
RATES_PER_S = (1_000, 5_000, 15_000)
"""Loads of servers that are idle in between."""
BENCH = "bench"
_BENCH_COMMAND = "serve_calls --mechanism epoll_edge"
"""It makes connections in bursts, and then calls in batches, with the server's own code."""
_CALLS = ("accept4", "epoll_ctl", "read", "write", "writev", "close")
_EVENTS = (
    *(f"irq/softirq_{way}" for way in ("entry", "exit")),
    *("irq_vectors/call_function_single_entry", "sched/sched_switch"),
    *("net/netif_receive_skb", "net/net_dev_xmit"),
    *(f"syscalls/sys_{way}_{call}" for call in _CALLS for way in ("enter", "exit")),
)
TIMING = Timing(warm_up_s=0.5, window_s=1.5, calibration_ms=20)
"""Of a run of a server: short, as only packets or durations are counted."""
_TRACED_S, _BENCH_STARTS_S, _SERVER_STARTS_S = 0.05, 0.35, 1.6
_LEAST = 20
"""Fewer durations give no mean."""
_CUT = 0.1
"""The share of durations that is left out at each end: ticks and gaps are among them."""

STEPS = {
    "SYN, until the SYN-ACK leaves": ("in 60", "out 74"),
    "acknowledgement, until the request behind it": ("in 52", "in 116"),
    "request, until its acknowledgement leaves": ("in 116", "out 66"),
    "accept": ("accept4", ""),
    "read": ("read", ""),
    "write": ("write", ""),
    "epoll_ctl": ("epoll_ctl", ""),
    "close": ("close", ""),
}
"""What is compared: a packet by its bytes and what follows it, or a call. Frames are of the
benches' requests of 64 bytes."""


class StepTimes(NamedTuple):
    """The mean times of a step in us, by round, for each place: "bench", or a load."""

    step: str
    by_place: Mapping[str, Sequence[float]]


def durations_us(events: Iterable[Traced], cpu: int) -> dict[str, list[float]]:
    """Return all durations of each of `STEPS` on that *cpu*."""
    found: dict[str, list[float]] = defaultdict(list)
    of_packets = {pair: step for step, pair in STEPS.items() if pair[1]}
    of_calls = {pair[0]: step for step, pair in STEPS.items() if not pair[1]}
    last, last_us = "", 0.0
    call, call_us = "", 0.0
    for event in events:
        if event.cpu != cpu:
            continue
        name = _named(event)
        if (last, name) in of_packets:
            found[of_packets[last, name]].append(event.at_us - last_us)
        last, last_us = name, event.at_us
        if name == "disturbed":
            call = ""
        elif began := re.fullmatch(r"sys_(\w+)\(.*", event.name + event.fields):
            call, call_us = began[1].replace("writev", "write"), event.at_us
        elif "-> " in event.fields and event.name.startswith("sys_"):
            if call in of_calls and not re.search(r"-> 0xf{8}", event.fields):
                found[of_calls[call]].append(event.at_us - call_us)
            call = ""
    return found


def _named(event: Traced) -> str:
    """Return a short name of what happened."""
    if event.name == "netif_receive_skb":
        return f"in {_bytes_of(event)}"
    if event.name == "net_dev_xmit":
        return f"out {_bytes_of(event)}"
    if event.name in ("call_function_single_entry", "sched_switch"):
        return "disturbed"
    return event.name


def _bytes_of(event: Traced) -> int:
    found = re.search(r"len=(\d+)", event.fields)
    return int(found[1]) if found else 0


def mean_us(durations: Sequence[float]) -> float:
    """Return the mean without the longest and the shortest tenth; NaN of fewer than 20."""
    if len(durations) < _LEAST:
        return float("nan")
    return float(trim_mean(durations, _CUT))


def measure_packet_times(
    testbed: Testbed,
    programs: Programs,
    *,
    rounds: int,
    users: Sequence[int] = USERS,
    rates_per_s: Sequence[int] = RATES_PER_S,
    progress: Callable[[str], None] = lambda _: None,
) -> list[StepTimes]:
    """Return the times of all steps; a round measures the bench, and a server at each load.

    Raises
    ------
    RunError
        If the kernel cannot be traced, or a bench or a run fails.
    """

    def bench() -> object:
        return run_bench(_BENCH_COMMAND, 0, testbed=testbed, programs=programs)

    def serve(**load: object) -> Callable[[], object]:
        point = Point.of(server={"mechanism": "epoll_level"}, load=load)
        return lambda: run_point(
            point, 0, testbed=testbed, programs=programs, series=Series(), timing=TIMING
        )

    places: dict[str, tuple[Callable[[], object], float]] = {BENCH: (bench, _BENCH_STARTS_S)}
    places |= {f"{n:,} users": (serve(loop="closed", users=n), _SERVER_STARTS_S) for n in users}
    places |= {
        f"{n:,}/s": (serve(loop="open", rate=f"{n}/s"), _SERVER_STARTS_S) for n in rates_per_s
    }
    found: dict[str, dict[str, list[float]]] = {
        step: {place: [] for place in places} for step in STEPS
    }
    with kernel_trace(_EVENTS) as trace:
        for number in range(rounds):
            for place, (work, starts_s) in places.items():
                progress(f"round {number + 1} of {rounds}: {place}")
                times = durations_us(_traced(trace, work, starts_s), testbed.server_cpu)
                for step in STEPS:
                    found[step][place].append(mean_us(times.get(step, [])))
    return [StepTimes(step, by_place) for step, by_place in found.items()]


def _traced(trace: KernelTrace, work: Callable[[], object], starts_s: float) -> list[Traced]:
    """Do *work*, and return the events from *starts_s* after its begin on."""
    with ThreadPoolExecutor(1) as beside:
        recorded = beside.submit(trace.recorded, _TRACED_S, after_s=starts_s)
        work()
        return recorded.result()


def packet_times_table(times: Sequence[StepTimes]) -> Table:
    """Return a row for each step: its mean, with the least and the greatest of the rounds."""
    places = list(times[0].by_place) if times else []
    return Table.of(
        "Time of a packet or call, traced: median of the rounds (least ... greatest), us",
        list(times),
        [
            Column("step", lambda t: t.step, words=True),
            *(Column(place, _of_place(place), range_text) for place in places),
        ],
        "The events themselves take time, as much in each column.",
    )


def _of_place(place: str) -> Callable[[StepTimes], Sequence[float]]:
    return lambda times: times.by_place[place]


def range_text(values: Sequence[float]) -> str:
    """Return the median, with the least and the greatest; a dash without any."""
    known = sorted(value for value in values if not math.isnan(value))
    if not known:
        return DASH
    return f"{statistics.median(known):.1f} ({known[0]:.1f} ... {known[-1]:.1f})"
