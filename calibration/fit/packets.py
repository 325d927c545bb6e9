"""The costs of packets: interrupts and their way, long replies, emptied caches, datagrams.

CPU time of packets, the interrupt benches solved together:

    interrupt_X    stolen / operation = X_ns + callback_ns if watched by epoll
                                        + entry_ns x interrupts / operation
                                        + entry_since after the bench's pause / burst

They share entry_ns, so they are one system of equations. A connection that comes alone finds the
caches cold, and is omitted: its extra cost is cold_ns (micro_costs.py). The bench pauses before
each burst, so only the first entry follows a pause.
Sources: sim/cpu/interrupts.py, micro/interrupt.c.

The way of an interrupt to the server's CPU, and the writes that make it unnecessary:

                      median                                is in the model
    way_interrupt     from a send until the server is       way + send
                      robbed (its quantiles: way's)
    way_send          a send that interrupts                send + client interrupt_ns
    way_second        a send that does not                  send
    way_beside        begins of sends, after a write's      write - delivery_ns - send ...
                      begin, that do not interrupt          write - delivery_after_ns - send
    way_write         a write                               write

In the model a packet reaches the server at the end of the client's send, so the way begins there.
Sends begin at evenly spread times beside a write, so the outer tenths give the ends of the period
without interrupts. connect_ns and close_ns of clients already include a part of the interrupts:
their benches run in batches, and some packets of a batch interrupt.

The moments at which packets leave, and packets that arrive during a server's close:

                      median                                is in the model
    leaves_socket     before connect()                      connect_ns - connect_after_ns, all
    leaves_connect    from it until the server is robbed    three, with the way
    leaves_reset      from close() until it is robbed       close_ns - close_after_ns + way
    leaves_opened     from then until connect() returns     entry_ns + syn_ns (micro_costs.py)
    leaves_closing    begins of sends that do not           close - close_delivery_ns - send ...
                      interrupt, after a close's begin      close - close_delivery_after_ns - send
    leaves_close      a close that sends a FIN              close

Sources: sim/cpu/receiving.py, sim/cpu/interrupts.py, micro/way.c, micro/leaving.c.

Long replies, and a CPU whose caches other threads have filled:

                     median                       is in the model
    write_flights    b bytes, up to a window      constant + b / 1024 x write_kib_ns
                     b bytes, in f flights        the same + f x ack_ns + n x acked_ns
                     interrupts / operation       x entry_ns, beyond those within a window
    (packet clients) less its writes              reply_acked_ns + entry_ns x interrupts / operation
    cache_refill     others for x us              refill(x)

The sending CPU receives the reply for the client, as on the machine under test. So its work is in
these costs, and acknowledgements come within the write, without an interrupt. Acknowledgements of
packet clients come later, by an interrupt. That of a connection's last reply is in reset_ns. The
model has n = one acknowledgement for every second segment of a flight except the first
(sim/tcp/windows.py). Linux sends fewer if segments travel together, here one for about ten.
acked_ns refers to the model's count, so the total is right. Without long replies, write_kib_ns is
that of short replies, which is lower because they fit the caches.

In cache_refill the other threads read memory line by line, and the server's round is a wait and 64
reads. Threads that only compute cost less.
Sources: sim/tcp/windows.py, sim/cpu/scheduling.py, micro/flights.c, micro/refill.c.

Floods: datagrams, and entries that cost more after a longer pause.

    flood.jsonl ─► costs of packets that come alone ──┬─► datagram_ns, datagram_entry_ns
                        └─► resampled rounds          ├─► entry_since: extra cost of an entry
                                                      │   by microseconds
                                                      └─► 95% intervals

    call ─ enqueue ─► ...signal... ─► CPU stops ─ entry ─ packet ─ packet ─► goes on
    └───────── stop_ns ────────────┘ └─────── what is taken ───────────────┘

    taken = entry_ns(time since the last interrupt) + packets * (packet_ns + segments * segment_ns)

`entry_ns` comes from single packets at several distances, `segment_ns` from packets of several
datagrams, `packet_ns` from trains whose interrupts the kernel counted. Held-out floods are not
used.

`datagram_entry_ns` is the entry of an interrupt soon after another; its increase with time is
`entry_since`, which applies to TCP segments, too. The benches of packets pause, so they measure an
entry after that pause. Beyond the longest measured time the cost stays constant, because clock
ticks interrupt any thread that computes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ...sim.state.units import PERMILLE
from ...sim.wire.way import SEGMENT_BYTES, n_segments_of
from ..points.flood_points import US_NS, FloodPoint
from ..points.point import WINDOW
from ..profiles.cost import Cost
from ..records.flood_records import FloodRecord, Quantiles
from ..records.measured_runs import DataError
from .curve_fit import (
    KNOTS_MAX,
    Floats,
    bootstrap,
    choose_knots,
    fit_curve,
    fit_line,
    fit_nonnegative,
    fit_rest,
    tenths,
)
from .medians import BATCH, Fitted, Known, Medians, columns, constant, curve, first


class Packets(NamedTuple):
    """CPU time of entering an interrupt and of what each packet does in it, in ns.

    callback_ns is the extra cost of epoll's wake-up callback for a packet on a watched socket.
    later_ns is a request that is not acknowledged at once, because its connection had a reply
    before. dropped_ns is a connection request without room in the queue. NaN: not measured.
    """

    entry_ns: float
    syn_ns: float
    data_ns: float
    reset_ns: float
    callback_ns: float
    later_ns: float
    dropped_ns: float
    residual: float


_Where = Mapping[str, int | str]
_LATER, _DROPPED = "interrupt_later", "interrupt_dropped"
CONNECT = "interrupt_connect"
USUAL_PAUSE_US = 300
"""The usual pause of benches with one pause or several."""
_LINES: tuple[tuple[tuple[int, ...], str, _Where], ...] = (
    # syn, data, reset, callback, later, dropped
    ((1, 0, 0, 0, 0, 0), CONNECT, {}),
    ((0, 1, 0, 0, 0, 0), "interrupt_data", {"mechanism": "none"}),
    ((0, 1, 0, 1, 0, 0), "interrupt_data", {"mechanism": "epoll"}),
    ((0, 0, 1, 0, 0, 0), "interrupt_reset", {"mechanism": "none"}),
    ((0, 0, 1, 1, 0, 0), "interrupt_reset", {"mechanism": "epoll"}),
    ((0, 0, 0, 0, 1, 0), _LATER, {}),
    ((0, 0, 0, 0, 0, 1), _DROPPED, {}),
)
"""The work of an operation of each bench, besides entering an interrupt."""


def solve_packets(medians: Medians, since: Fitted | None = None) -> Packets:
    """Return the costs of packets on the server's CPU.

    Parameters
    ----------
    medians:
        Medians of the interrupt benches.
    since:
        Extra cost of an entry by microseconds since the last one; None: unknown.

    Raises
    ------
    FitError
        If a bench is missing. Sockets watched by epoll and the last two benches are optional.
    """
    rows, totals = [], []
    measured = {name: bool(medians.values_of(name, "burst")) for name in (_LATER, _DROPPED)}
    for own, bench, where in _LINES:
        optional = where.get("mechanism") == "epoll"
        if optional and "epoll" not in medians.values_of(bench, "mechanism"):
            continue
        if not measured.get(bench, True):
            continue
        stolen = medians.points(bench, "burst", where, least=1 if optional else 2)
        entries = medians.points(bench, "burst", where, field="interrupts_per_operation")
        paused_ns = after_pause_ns(medians, bench, since)
        for (burst, stolen_ns), (_, n_entries) in zip(stolen, entries, strict=True):
            if burst == 1 and bench == CONNECT and knows_cold(medians):
                continue  # its extra cost is cold_ns
            rows.append([n_entries, *own])
            totals.append(max(0.0, stolen_ns - paused_ns / burst))
    solution = fit_nonnegative(rows, totals)
    entry, syn, data, reset, callback, later, dropped = solution.unknowns
    later = later if measured[_LATER] else math.nan
    dropped = dropped if measured[_DROPPED] else math.nan
    return Packets(entry, syn, data, reset, callback, later, dropped, solution.residual)


def knows_cold(medians: Medians) -> bool:
    """Return whether connections were measured alone and in bursts.

    A connection of a packet client takes several interrupts; none handles the handshake alone.
    """
    bursts = medians.values_of(CONNECT, "burst")
    return 1 in bursts and len(bursts) > 2 and not (medians.of_packets or medians.loopback)


def usual(points: Sequence[tuple[int, float]]) -> float:
    """Return the time after the usual pause in *points* (pause in us, ns), else the first."""
    return dict(points).get(USUAL_PAUSE_US, points[0][1])


def pause_us_of(medians: Medians, bench: str) -> float:
    """Return the pause of *bench* in us, the usual one of several; 0 without one."""
    pauses_us = medians.values_of(bench, "pause_us")
    if not pauses_us:
        return 0.0
    return float(USUAL_PAUSE_US if USUAL_PAUSE_US in pauses_us else pauses_us[0])


def after_pause_ns(medians: Medians, bench: str, since: Fitted | None) -> float:
    """Return the extra cost of an entry after the pause of *bench*."""
    if not medians.values_of(bench, "pause_us"):
        return 0.0
    return more_after_ns(since, pause_us_of(medians, bench))


def more_after_ns(since: Fitted | None, pause_us: float) -> float:
    """Return the extra cost of an entry after a pause; 0 if it is unknown."""
    return 0.0 if since is None else float(np.interp(pause_us, since.at, since.value))


_QUANTILES = ((0, "p10"), (100, "p10"), (500, "median"), (900, "p90"), (1000, "p90"))
"""The known quantiles of a distribution, in thousandths."""
_INNER = 0.8
"""The share of a distribution between its outer tenths."""


def way_ns(costs: Known) -> float:
    """Return the median way of an interrupt; 0 if it is unknown."""
    way = costs.get("interrupt.way")
    return 0.0 if way is None else float(np.interp(PERMILLE // 2, way.at, way.value))


def way_costs(medians: Medians, _costs: Known) -> Known:
    """Return way, the clients' interrupt_ns, and the delivery of replies, if measured."""
    if medians.loopback or not medians.has("way_interrupt"):
        return {}
    send_ns = medians.one("way_second")
    ways_ns = [medians.one("way_interrupt", field=name) - send_ns for _, name in _QUANTILES]
    interrupting_ns = medians.one("way_send") - send_ns
    beside = "interrupt_way: sends beside a write that interrupt nobody"
    from_ns, until_ns = _uninterrupted(medians, "way_beside", "way_write", send_ns)
    return {
        "interrupt.way": Fitted(
            tuple(at for at, _ in _QUANTILES),
            tuple(np.maximum.accumulate(np.maximum(0.0, ways_ns)).tolist()),
            0.0,
            "interrupt_way: until the server is robbed, less a send that interrupts nobody",
        ),
        "client.interrupt_ns": constant(interrupting_ns, 0.0, "interrupt_way: the two sends"),
        "call.delivery_ns": constant(from_ns, 0.0, beside),
        "call.delivery_after_ns": constant(until_ns, 0.0, beside),
    }


def _uninterrupted(medians: Medians, beside: str, call: str, send_ns: float) -> tuple[float, float]:
    """Return the period before the end of *call* in which sends do not interrupt."""
    call_ns = medians.one(call) - send_ns
    first_ns, last_ns = (medians.one(beside, field=name) for name in ("p10", "p90"))
    beyond_ns = (last_ns - first_ns) * (1 / _INNER - 1) / 2
    return call_ns - (first_ns - beyond_ns), call_ns - (last_ns + beyond_ns)


def leaving_costs(medians: Medians, costs: Known) -> Known:
    """Return the moments at which packets leave within clients' calls, and the delivery of close.

    Empty if not measured: packets then leave at the end of the call, and a close handles none.
    """
    if medians.loopback or not (medians.has("leaves_connect") and medians.has("way_interrupt")):
        return {}
    connecting_ns = medians.one("leaves_socket") + medians.one("leaves_connect") - way_ns(costs)
    closing_ns = medians.one("leaves_reset") - way_ns(costs)
    from_ns, until_ns = _uninterrupted(
        medians, "leaves_closing", "leaves_close", medians.one("way_second")
    )
    source = "packets_leave, less the way of an interrupt"
    beside = "packets_leave: sends beside a close that interrupt nobody"
    return {
        "client.connect_after_ns": _rest(costs, "client.connect_ns", connecting_ns, source),
        "client.close_after_ns": _rest(costs, "client.close_ns", closing_ns, source),
        "call.close_delivery_ns": constant(from_ns, 0.0, beside),
        "call.close_delivery_after_ns": constant(until_ns, 0.0, beside),
    }


def _rest(costs: Known, name: str, begun_ns: float, source: str) -> Fitted:
    """Return the rest of a cost after *begun_ns*, which is at most the whole cost."""
    whole_ns = costs[name].value[0]
    return constant(min(whole_ns, whole_ns - begun_ns), 0.0, source)


_KIB = 1024
_FLIGHTS = "write_flights"
_CALM_US = 100
"""Time without packets before each reply of that bench (micro/flights.c)."""
_APART_MIN = 0.5
"""Interrupts a reply from which on its acknowledgement counts as a packet after the write."""
_ACKED_LEAST_NS = 1.0
"""The least cost of such a packet: without a cost, clients would send none."""


def copying(medians: Medians) -> Fitted:
    """Return the cost of a KiB of a reply, from replies up to a window if measured."""
    if _has_flights(medians):
        line = fit_line(*_within_a_window(medians))
        return constant(line.unknowns[1], line.residual, f"{_FLIGHTS} up to {WINDOW} segments")
    sizes = medians.points(
        "serve_write", "reply", {"batch": BATCH, "n": 0, "mechanism": "none"}, least=2
    )
    line = fit_line([size / _KIB for size, _ in sizes], [ns for _, ns in sizes])
    return constant(line.unknowns[1], line.residual, "serve_write over sizes")


def flight_costs(medians: Medians, costs: Known) -> Known:
    """Return acked_ns, reply_acked_ns and refill, if measured."""
    found: Known = {}
    if _has_flights(medians):
        found["interrupt.acked_ns"] = _acknowledging(medians, costs)
        if medians.of_packets:
            found["interrupt.reply_acked_ns"] = _acknowledged_alone(medians, costs)
    if medians.values_of("cache_refill", "pause_us"):
        counts, totals = columns(medians.points("cache_refill", "pause_us"))
        fit = fit_curve([0, *counts], [0.0, *(max(0.0, ns) for ns in totals)], from_zero=True)
        # After the longest measured time the caches count as empty.
        found["sharing.refill"] = curve(fit, "cache_refill").staying()
    return found


def _has_flights(medians: Medians) -> bool:
    """Return whether long replies were measured in segments of an Ethernet."""
    return bool(medians.values_of(_FLIGHTS, "reply")) and not medians.loopback


def _within_a_window(medians: Medians) -> tuple[list[float], list[float]]:
    sizes = [
        (size, ns)
        for size, ns in medians.points(_FLIGHTS, "reply")
        if size <= WINDOW * SEGMENT_BYTES
    ]
    return [size / _KIB for size, _ in sizes], [ns for _, ns in sizes]


def _acknowledging(medians: Medians, costs: Known) -> Fitted:
    base_ns, kib_ns = fit_line(*_within_a_window(medians)).unknowns
    ack_ns, entry_ns = first(costs, "interrupt.ack_ns"), first(costs, "interrupt.entry_ns")
    entries = medians.points(_FLIGHTS, "reply", field="interrupts_per_operation")
    # The base includes those of a reply within a window: of packet clients, which acknowledge
    # later.
    in_base = _entries_within_a_window(medians)
    n_more, left_ns, whole_ns = [], [], []
    for (size, ns), (_, n_entries) in zip(medians.points(_FLIGHTS, "reply"), entries, strict=True):
        if size > WINDOW * SEGMENT_BYTES:
            flights = flights_of(size)
            n_more.append(acknowledged_later(flights))
            known_ns = base_ns + size / _KIB * kib_ns + len(flights) * ack_ns
            known_ns += max(0.0, n_entries - in_base) * entry_ns
            left_ns.append(max(0.0, ns - known_ns))
            whole_ns.append(ns)
    fit = fit_rest(n_more, left_ns, whole_ns)
    source = f"{_FLIGHTS} beyond {WINDOW} segments, less what is copied, ack_ns and entry_ns"
    return constant(float(np.round(fit.unknowns[0], 6)), fit.residual, source)


def _acknowledged_alone(medians: Medians, costs: Known) -> Fitted:
    """Return the cost of the packet that acknowledges a reply within a window.

    If packets are quick, it may come before the end of a long reply's write. Then it has no
    interrupt, and its time is part of the write, so such a reply does not show its cost.
    """
    kib, totals = _within_a_window(medians)
    written, entries = (
        np.array(columns(medians.points(_FLIGHTS, "reply", field=field))[1][: len(kib)])
        for field in ("written_ns", "interrupts_per_operation")
    )
    is_apart = entries >= _APART_MIN
    entry_ns = first(costs, "interrupt.entry_ns") + more_after_ns(costs.get(SINCE), _CALM_US)
    source = f"{_FLIGHTS} up to {WINDOW} segments, less their writes and interrupts"
    if np.count_nonzero(is_apart) < 2:
        return constant(_ACKED_LEAST_NS, 0.0, f"{source}: fewer than two with an interrupt")
    line = fit_line(np.array(kib)[is_apart].tolist(), (totals - written)[is_apart].tolist())
    left_ns = line.unknowns[0] - float(np.mean(entries[is_apart])) * entry_ns
    return constant(max(_ACKED_LEAST_NS, left_ns), line.residual, source)


def _entries_within_a_window(medians: Medians) -> float:
    entries = medians.points(_FLIGHTS, "reply", field="interrupts_per_operation")
    return float(np.mean([n for size, n in entries if size <= WINDOW * SEGMENT_BYTES]))


def acknowledged_later(flights: Sequence[int]) -> int:
    """Return the acknowledgements of *flights* after the first of each.

    >>> acknowledged_later([10, 20, 16])
    20
    """
    return sum(max(0, n // 2 - 1) for n in flights)


def flights_of(n_bytes: int) -> list[int]:
    """Return the segments of each flight of a reply: a window that doubles.

    >>> flights_of(65_536)
    [10, 20, 16]
    """
    left, window, flights = n_segments_of(n_bytes), WINDOW, []
    while left > 0:
        flights.append(min(left, window))
        left -= flights[-1]
        window *= 2
    return flights


WARM_US = 200
"""Time between packets up to which an entry's cost hardly grows with the time since the last."""

_SPREAD = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class FloodPrices:
    """Costs in ns: on the receiving CPU, and of the sending calls.

    `entry_ns[i]` is the entry of an interrupt `since_us[i]` microseconds after the end of the last
    one, with straight lines between. `spread` holds equally likely factors by which runs differ:
    within one hour entries took 6 us in some runs and 8 us in others. `stop_ns` is the time from
    the start of the call to the stop of the other CPU. `calling_ns` is a call that must signal the
    other CPU, `call_ns` a call that finds it working.
    """

    since_us: tuple[float, ...]
    entry_ns: tuple[float, ...]
    spread: tuple[float, ...]
    packet_ns: float
    segment_ns: float
    stop_ns: float
    calling_ns: float
    call_ns: float

    def taken_ns(self, segments: int) -> float:
        """Return the cost of a further packet of *segments* datagrams in an interrupt."""
        return self.packet_ns + segments * self.segment_ns

    def of_each_run(self) -> list[FloodPrices]:
        """Return equally likely costs of a run."""
        return [
            replace(self, entry_ns=tuple(factor * ns for ns in self.entry_ns), spread=(1.0,))
            for factor in self.spread
        ]

    @property
    def enqueued_ns(self) -> float:
        """The time in a call until the packet is in the queue: half of the call."""
        return self.call_ns / 2


def fit_flood_prices(records: Sequence[FloodRecord]) -> FloodPrices:
    """Return the costs that best explain the accepted calibration floods among *records*.

    Raises
    ------
    DataError
        If there are too few: single packets at two distances at least, trains, segments.
    """
    rows = [r for r in records if r.accepted and r.point.use == "calibration" and r.train]
    alone = _medians_by_point(rows, lambda p: p.train == 1 and p.segments == 1)
    of_segments = _medians_by_point(rows, lambda p: p.train == 1 and 1e6 / p.rate_per_s <= WARM_US)
    trains = [r for r in rows if r.point.train > 1]
    warm = [r for r in rows if r.point.train == 1 and 1e6 / r.point.rate_per_s <= WARM_US]
    if len(alone) < 2 or not trains or len({point.segments for point in of_segments}) < 2:
        raise DataError(
            "flood.jsonl: calibration floods are missing (packets alone, trains, segments): "
            "run `dispatchsim measure flood` again to measure them"
        )
    segment_ns = float(
        np.polyfit([p.segments for p in of_segments], list(of_segments.values()), 1)[0]
    )
    packet_ns = _packet_ns([*trains, *(r for r in warm if r.point.segments == 1)], segment_ns)
    first_ns = packet_ns + segment_ns
    periods = sorted(alone, key=lambda point: -point.rate_per_s)
    since_us = [(1e9 / p.rate_per_s - alone[p]) / US_NS for p in periods]
    # An entry's data leave the caches with time, so its cost does not fall with time.
    entry = fit_curve(
        [round(us) for us in since_us], [max(0.0, alone[p] - first_ns) for p in periods]
    )
    warm_alone = [r for r in warm if r.point.segments == 1]
    typical_ns = statistics.median(_taken(r).p50 for r in warm_alone)
    return FloodPrices(
        since_us=tuple(float(us) for us in entry.at),
        entry_ns=entry.ns,
        spread=tuple(
            np.quantile(
                [(_taken(r).p50 - first_ns) / (typical_ns - first_ns) for r in warm_alone], _SPREAD
            ).tolist()
        ),
        packet_ns=packet_ns,
        segment_ns=segment_ns,
        stop_ns=statistics.median(r.train.delay_ns.p50 for r in warm_alone if r.train),
        calling_ns=statistics.median(r.sender.call_ns.p50 for r in warm_alone),
        call_ns=statistics.median(r.sender.call_ns.p10 for r in trains if r.point.train > 2),
    )


def _medians_by_point(
    rows: Sequence[FloodRecord], chosen: Callable[[FloodPoint], bool]
) -> dict[FloodPoint, float]:
    """Return the cost of a train in each chosen flood: the median over rounds of medians."""
    points = dict.fromkeys(row.point for row in rows if chosen(row.point))
    return {p: statistics.median(_taken(r).p50 for r in rows if r.point == p) for p in points}


def _packet_ns(rows: Sequence[FloodRecord], segment_ns: float) -> float:
    """Return the cost of a packet: the time of trains beyond their interrupts' entries.

    Interrupts of a train follow each other at once, so they share one entry cost, which is fitted,
    too.
    """
    counts, taken_ns = [], []
    for row in rows:
        n_trains = row.sender.sent / row.point.train
        n_interrupts = min(row.kernel.calls / n_trains, row.point.train)
        counts.append((max(n_interrupts, 1.0), row.point.train))
        taken_ns.append(_taken(row).p50 - row.point.train * segment_ns)
    weights = 1 / np.maximum(taken_ns, 1.0)  # relative errors count equally
    (_, packet_ns), _ = nnls(np.array(counts) * weights[:, None], np.array(taken_ns) * weights)
    return float(packet_ns)


def _taken(row: FloodRecord) -> Quantiles:
    assert row.train is not None
    return row.train.taken_ns


SINCE = "interrupt.entry_since"
"""The key of the extra cost of an entry by microseconds since the last interrupt."""
_ALONE, _TRAINS = "flood: packets that come alone", "flood: trains and packets of several"


def datagram_costs(
    records: Sequence[FloodRecord], *, replicates: int, seed: int
) -> dict[str, Cost]:
    """Return the costs from calibration floods, by table and name; {} without floods.

    Parameters
    ----------
    records:
        All floods of flood.jsonl; held-out and rejected floods are not used.
    replicates, seed:
        Number of resamples of rounds, and seed.

    Raises
    ------
    DataError
        If there are floods, but too few for a fit.
    """
    rows = [row for row in records if row.accepted and row.point.use == "calibration"]
    if not rows:
        return {}
    central = fit_flood_prices(rows)
    since_us = [round(us) for us in central.since_us]
    knots = choose_knots(since_us, KNOTS_MAX - 1)
    value, residual = _values(central, knots)
    low, high = _intervals(rows, knots, replicates, seed)
    at = ((0,), (0,), (*knots, knots[-1] + 1))
    sources = (_TRAINS, _ALONE, f"{_ALONE}, by the microseconds since the last interrupt")
    costs = {}
    for name, n, source in zip(
        ("interrupt.datagram_ns", "interrupt.datagram_entry_ns", SINCE), at, sources, strict=True
    ):
        part = slice(0, len(n))
        costs[name] = Cost(
            at=n,
            value=tenths(value[part]),
            low=tenths(np.minimum(low, value)[part]),
            high=tenths(np.maximum(high, value)[part]),
            residual=0.0 if name == "interrupt.datagram_ns" else round(residual, 4),
            source=source,
        )
        value, low, high = value[len(n) :], low[len(n) :], high[len(n) :]
    return costs


def _values(prices: FloodPrices, knots: Sequence[int]) -> tuple[Floats, float]:
    """Return the costs of a datagram and its entry, and entry_since at *knots* and beyond."""
    since_us = np.clip(np.round(prices.since_us), knots[0], knots[-1]).astype(int).tolist()
    entry = fit_curve(since_us, prices.entry_ns, knots=knots)
    more_ns = np.array(entry.ns) - entry.ns[0]
    return np.array([prices.taken_ns(1), entry.ns[0], *more_ns, more_ns[-1]]), entry.residual


def _intervals(
    rows: Sequence[FloodRecord], knots: Sequence[int], replicates: int, seed: int
) -> tuple[Floats, Floats]:
    """Return the ends of the 95% intervals when rounds are resampled."""
    rounds = sorted({row.repeat for row in rows})
    of_round = [[row for row in rows if row.repeat == number] for number in rounds]

    def estimate(drawn: NDArray[np.int64]) -> list[float]:
        try:
            again = fit_flood_prices([row for i in drawn for row in of_round[i]])
        except DataError:  # a round that is not whole
            again = fit_flood_prices(rows)
        return [float(ns) for ns in _values(again, knots)[0]]

    return bootstrap(estimate, len(rounds), replicates=replicates, seed=seed, name="floods")
