"""Three back-of-envelope formulae as baselines.

    one wait per request      c = fixed + wait(n)                         every request pays a wait
    constant cost per event   c = fixed + call + event + flat * n / b     a wait is shared by b
    M/G/1 processor sharing   s = 1 / throughput at the fit point         one number, no mechanism

The first two use the same costs as the simulator; the third uses the one measurement of the fit.
`fixed` is the cost of a connection besides waiting: user code, calls and interrupts.
Sources: Banga and Mogul 1998, §2 (cost per call linear in n); Kleinrock 1976, §4.4 (processor
sharing); Pollaczek-Khinchine for deterministic service; Little 1961.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...calibration.points.point import Point
from ...models.scans.select_fdset import SelectCosts
from ...sim.state.costs import Costs, curve_ns
from ...sim.state.units import SECOND_NS

BASELINES = ("one wait per request", "constant cost per event", "M/G/1 processor sharing")
FLAT_AT = 500
"""Idle connections at which the flat cost per descriptor is read; the table fits the caches."""
_PACKETS_PER_CONNECTION = 4  # SYN, ACK, data, reset


class Baseline(NamedTuple):
    """The predictions of a formula; None where it makes none."""

    throughput_per_s: float | None
    cpu_busy: float | None
    p50_ns: float | None


NOTHING = Baseline(None, None, None)


def baselines(
    point: Point, costs: Costs, network_delay_ns: int, fit_cost_ns: float | None
) -> dict[str, Baseline]:
    """Return the prediction of each of `BASELINES` for *point*.

    *fit_cost_ns* is the measured CPU time per request of the fit point, None if not measured.
    """
    elsewhere_ns = outside_ns(costs, network_delay_ns)
    fixed_ns = fixed_cost_ns(point, costs)
    answers = (
        single_server(point, fixed_ns + full_wait_ns(point, costs), elsewhere_ns),
        single_server(point, fixed_ns + shared_wait_ns(point, costs), elsewhere_ns),
        NOTHING if fit_cost_ns is None else processor_sharing(point, fit_cost_ns, elsewhere_ns),
    )
    return dict(zip(BASELINES, answers, strict=True))


def fixed_cost_ns(point: Point, costs: Costs) -> float:
    """Return the cost of a request besides waiting.

    A connection costs one accept, one close, the calls that declare and withdraw an interest in it
    (epoll: ADD and DEL; signals: arming) and four packet interrupts, each entered separately. A
    request costs one read, one write, the user code, and its share of the connection.
    """
    call, irq = costs.call, costs.interrupt
    connection_ns = call.accept_ns + call.close_ns
    connection_ns += costs.application.connection_ns + irq.displaced_ns
    connection_ns += irq.syn_ns + irq.ack_ns + irq.data_ns + irq.reset_ns
    connection_ns += _PACKETS_PER_CONNECTION * irq.entry_ns
    connection_ns += sum(getattr(costs.mechanism, name, 0) for name in _DECLARING)
    request_ns: float = call.read_ns + call.write_ns + costs.application.request_ns
    request_ns += point.server.request_cpu
    request_ns += call.write_kib_ns * point.load.reply_size // 1024
    return request_ns + connection_ns / point.load.requests


def full_wait_ns(point: Point, costs: Costs) -> float:
    """Return the cost of one wait over all descriptors that returns one event.

    Scanning mechanisms: call + scan(n) + register(n) + event, with n the idle connections and the
    listener. Others: call + event, with the kernel's notification.
    """
    table, n = costs.mechanism, point.idle.connections + 1
    wait_ns = _call_ns(table, n) + _event_ns(table)
    if hasattr(table, "scan"):
        wait_ns += curve_ns(table.scan, n) + curve_ns(table.register, n)
    return wait_ns


def shared_wait_ns(point: Point, costs: Costs) -> float:
    """Return a request's share of a wait with constant cost per descriptor.

    (call + flat * n) / b + event, with flat = (scan(500) + register(500)) / 500 and b events a
    wait: users / 2 in a closed loop, 1 in an open one. Without a scan: call / b + event.
    """
    table, n = costs.mechanism, point.idle.connections + 1
    wait_ns = float(_call_ns(table, n))
    if hasattr(table, "scan"):
        at_size_ns = curve_ns(table.scan, FLAT_AT) + curve_ns(table.register, FLAT_AT)
        wait_ns += at_size_ns / FLAT_AT * n
    return wait_ns / max(1.0, point.users / 2) + _event_ns(table)


def outside_ns(costs: Costs, network_delay_ns: int) -> float:
    """Return the latency of a connection outside the server: clients and network.

    Two round trips (handshake; request and reply), and the client's three calls before the last.
    """
    client = costs.client
    return 4 * network_delay_ns + client.connect_ns + client.send_ns + client.receive_ns


def single_server(point: Point, cost_ns: float, elsewhere_ns: float) -> Baseline:
    """Return the throughput, CPU and latency of a server that takes *cost_ns* per request in turn.

    Closed loop of u users: X = min(u / (cost + elsewhere + think), 1 / cost), CPU = X * cost and,
    by Little's law, latency u / X - think. Open loop of rate r: X = min(r, 1 / cost), CPU = X *
    cost and latency cost + rho * cost / (2 * (1 - rho)) + elsewhere (deterministic service; a mean
    stands for the median), none at rho of 1 or more.
    """
    capacity_per_s = SECOND_NS / cost_ns
    if point.load.loop == "closed":
        return _closed(point, cost_ns, elsewhere_ns)
    rate_per_s = point.rate_per_s * point.load.requests
    rho = rate_per_s / capacity_per_s
    if rho >= 1:
        return Baseline(capacity_per_s, 1.0, None)
    return Baseline(rate_per_s, rho, cost_ns + rho * cost_ns / (2 * (1 - rho)) + elsewhere_ns)


def processor_sharing(point: Point, cost_ns: float, elsewhere_ns: float) -> Baseline:
    """Return the throughput, CPU and latency of M/G/1 processor sharing, mean service *cost_ns*.

    Open loop: X = min(r, 1 / s), CPU = rho = r * s, mean sojourn s / (1 - rho) + elsewhere, none
    at rho of 1 or more. Closed loop: as a single server.
    """
    if point.load.loop == "closed":
        return _closed(point, cost_ns, elsewhere_ns)
    rate_per_s = point.rate_per_s * point.load.requests
    rho = rate_per_s * cost_ns / SECOND_NS
    if rho >= 1:
        return Baseline(SECOND_NS / cost_ns, 1.0, None)
    return Baseline(rate_per_s, rho, cost_ns / (1 - rho) + elsewhere_ns)


def _closed(point: Point, cost_ns: float, elsewhere_ns: float) -> Baseline:
    away_ns = elsewhere_ns + point.load.think_time
    throughput_per_s = min(point.users * SECOND_NS / (cost_ns + away_ns), SECOND_NS / cost_ns)
    latency_ns = point.users * SECOND_NS / throughput_per_s - point.load.think_time
    busy = throughput_per_s * cost_ns / SECOND_NS
    return Baseline(throughput_per_s, busy, latency_ns if point.load.requests == 1 else None)


def _call_ns(table: Any, n: int) -> int:
    """Return the cost of a wait besides scan and events: the call and, for select, the bitmaps.

    Blocking threads make no such call.
    """
    call_ns: int = getattr(table, "call_ns", 0)
    return call_ns + (curve_ns(table.bitmap, n) if isinstance(table, SelectCosts) else 0)


def _event_ns(table: Any) -> int:
    """Return the cost of an event, with its notification or signal."""
    return sum(getattr(table, name, 0) for name in _TELLING)


_DECLARING = ("add_ns", "delete_ns", "arm_ns")
_TELLING = ("event_ns", "notice_ns", "signal_ns", "ask_ns")
