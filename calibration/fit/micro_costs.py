"""From the medians of the microbenchmarks to costs: one equation for each cost.

This file has the equations for all servers, and for select, poll and epoll_level. Those of
mechanisms that are notified of changes are in told.py, of threads in threads.py, of io_uring in
rings.py.

    measured total = sum of (cost in the model x its number of occurrences)

                     median                      is in the model
    interrupt_X      stolen / operation          X_ns + entry_ns x interrupts / operation
                                                 (of a connection: syn_ns + ack_ns)
    interrupt_later              the same        data_ns - data_saved_ns + entry_ns x ...
    interrupt_dropped            the same        syn_ns - syn_saved_ns + entry_ns x ...
    select_scan      n descriptors, none ready   call_ns + bitmap(n) + scan(n)
    poll_scan        the same                    call_ns + scan(n)
    X_first          first ready at f            X_first at 0 + register(f)
    X_ready          R ready                     constant + R x event_ns
    select_sparse    highest descriptor d        constant + bitmap(d)
    epoll_wait_ready R ready                     call_ns + R x event_ns
    epoll_recheck    R drained                   call_ns + R x recheck_ns
    serve_write      b bytes                     write_ns + b / 1024 x write_kib_ns
    write_flights    replies up to a window and beyond: packets.py
    interrupt_way    an interrupt's way, writes without one: packets.py
    serve_close      watched by epoll            close_ns + delete_ns - one system call
    serve_crowded    a batch of n, less one      crowding(n)
                     of 64
    serve_kept       64 of n kept connections    returning(n) + entry_ns x interrupts
                     in turn, less the same 64
    handshake_spin   round trip                  client connect_ns, less epoll add_ns
                                                 + way + entry_ns + syn_ns + 2 x delay_ns
    leaves_opened    from the robbery on         entry_ns + syn_ns + 2 x delay_ns
    interrupt_connect alone                      entry_ns + syn_ns + ack_ns + cold_ns
    lone_open, less lone_bare                    syn_cold_ns
    lone_calls, less lone_awake                  accept_cold_ns
    handshake_idle   round trip                  handshake_spin + idle_exit_ns
                     by its pause                + idle_exit_since
    pingpong_block   round trip                  pingpong_spin + idle_exit_ns + wake_ns + event_ns
    epoll_block      CPU, interrupts included    call_ns + event_ns + read_ns + sleep_ns + wake_ns
                                                 + entry_ns - idle_saved_ns + data_ns

A negative difference counts as 0. On the machine under test one softirq handles a whole handshake
(SYN, SYN-ACK and ACK on one CPU). The client's connect() returns during this softirq, so
handshake_spin ends before it does; its remaining work is ack_ns. A request or a reset on a socket
watched by epoll also runs the wake-up callback, which is in data_ns and reset_ns if it was measured
(packets.py).
Sources: sim/cpu/interrupts.py, models/*.py, calibration/c/micro/README.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .cold import after_idleness_ns, cold_costs
from .curve_fit import (
    KNOTS_MAX,
    Floats,
    choose_knots,
    fit_curve,
    fit_intercept_curve,
    fit_line,
    fit_slope,
)
from .medians import (
    BATCH,
    ON_LOOPBACK,
    REPLY_BYTES,
    FitError,
    Fitted,
    Known,
    Medians,
    columns,
    constant,
    curve,
    first,
)
from .packets import (
    CONNECT,
    after_pause_ns,
    copying,
    flight_costs,
    knows_cold,
    leaving_costs,
    pause_us_of,
    solve_packets,
    usual,
    way_costs,
    way_ns,
)
from .rings import micro_ring_costs
from .threads import micro_blocking_costs
from .told import micro_told_costs

_KIB = 1024
_SINCE = "interrupt.entry_since"
_SYN_SAVED = "interrupt_connect, less interrupt_dropped"
_FOREIGN_NS_MAX = 20_000
"""Busy time of a wake-up, beyond its thread and packet, above which other tasks ran, too."""


def micro_costs(medians: Medians, since: Fitted | None = None) -> dict[str, Fitted]:
    """Return all costs from the microbenchmarks, by table and name: "poll.scan".

    Parameters
    ----------
    medians:
        Medians of the microbenchmarks over some rounds.
    since:
        Extra cost of an interrupt's entry by microseconds since the last one, which benches with
        pauses include. None: every entry costs the same.

    Raises
    ------
    FitError
        If a bench is missing.
    """
    known: dict[str, Fitted] = {} if since is None else {_SINCE: since}
    costs = dict(known)
    for equations in _EQUATIONS:
        costs |= equations(medians, costs)
    return {name: cost for name, cost in costs.items() if name not in known}


def open_connections_max(medians: Medians) -> int:
    """Return the largest number of descriptors at which both scans were measured."""
    return min(medians.points(f"{name}_scan", "n")[-1][0] for name in ("select", "poll"))


def _interrupts(medians: Medians, costs: Known) -> Known:
    if medians.loopback:
        names = ("entry", "syn", "data", "reset")
        return {f"interrupt.{name}_ns": constant(0, 0, ON_LOOPBACK) for name in names}
    packets = solve_packets(medians, costs.get(_SINCE))
    source = "interrupt_connect, interrupt_data, interrupt_reset"
    callback_ns = packets.callback_ns
    watched = f"{source}; wake-up callback {callback_ns:.0f} ns" if callback_ns > 0 else source
    priced = (
        ("entry", packets.entry_ns, source),
        ("syn", packets.syn_ns, source),
        ("data", packets.data_ns + callback_ns, watched),
        ("reset", packets.reset_ns + callback_ns, watched),
    )
    saved = (
        ("data_saved", packets.data_ns - packets.later_ns, "interrupt_data, less interrupt_later"),
        ("syn_saved", packets.syn_ns - packets.dropped_ns, _SYN_SAVED),
    )
    return {
        f"interrupt.{name}_ns": constant(max(0.0, ns), packets.residual, where)
        for name, ns, where in (*priced, *saved)
        if not math.isnan(ns)
    }


def _epoll(medians: Medians, _costs: Known) -> Known:
    n = int(medians.points("epoll_wait_ready", "n")[0][0])
    n_ready = medians.points("epoll_wait_ready", "ready", {"n": n}, least=2)
    wait = fit_line(*zip(*n_ready, strict=True))
    call_ns, event_ns = wait.unknowns
    drained = medians.points("epoll_recheck", "ready")
    recheck = fit_slope([k for k, _ in drained], [max(0.0, ns - call_ns) for _, ns in drained])
    costs = {
        "epoll_level.call_ns": constant(call_ns, wait.residual, "epoll_wait_ready"),
        "epoll_level.event_ns": constant(event_ns, wait.residual, "epoll_wait_ready"),
        "epoll_level.recheck_ns": constant(recheck.unknowns[0], recheck.residual, "epoll_recheck"),
    }
    for name, bench in (("add", "epoll_add"), ("modify", "epoll_mod"), ("delete", "epoll_del")):
        fit = fit_curve(*zip(*medians.points(bench, "n"), strict=True))
        costs[f"epoll_level.{name}_ns"] = curve(fit, bench)
    return costs


def _calls(medians: Medians, costs: Known) -> Known:
    """Return the costs of calls by open connections, in batches as at the fit point."""
    watched = "epoll" in medians.values_of("serve_read", "mechanism")
    where: dict[str, int | str] = {"batch": BATCH, "reply": REPLY_BYTES}
    where["mechanism"] = "epoll" if watched else "none"
    found: Known = {"call.crossing_ns": constant(medians.one("floor"), 0.0, "floor")}
    for name in ("accept", "accept_again", "read", "read_again", "write", "close"):
        bench = f"serve_{name}"
        counts, totals = zip(*medians.points(bench, "n", where), strict=True)
        source = f"{bench}, batches of {BATCH}"
        if name == "write":
            found["call.write_kib_ns"] = copying(medians)
            kib_ns = found["call.write_kib_ns"].value[0]
            totals = tuple(max(0.0, ns - kib_ns * REPLY_BYTES / _KIB) for ns in totals)
        if name == "close" and watched:
            # In the bench, close removes the descriptor from the interest list. The model charges
            # EPOLL_CTL_DEL for that; only entering the kernel is not in the bench.
            delete = costs["epoll_level.delete_ns"]
            entered_ns = medians.one("floor")
            removal_ns = np.maximum(0, np.interp(counts, delete.at, delete.value) - entered_ns)
            totals = tuple(np.maximum(0, np.array(totals) - removal_ns).tolist())
            source += ", less the removal from epoll (epoll_del, floor)"
        fit = fit_curve(counts, totals)
        found[f"call.{name}_ns"] = curve(fit, source)
    return found


def _crowding(medians: Medians, _costs: Known) -> Known:
    """Return what a connection costs more among many that wait, if measured."""
    if not medians.values_of("serve_crowded", "batch"):
        return {}
    counts, more_ns = zip(*medians.points("serve_crowded", "batch"), strict=True)
    return {"call.crowding": _among_many(counts, more_ns, "serve_crowded")}


def _returning(medians: Medians, costs: Known) -> Known:
    """Return what a request costs more on one of many kept connections, if measured.

    In the model the number of interrupts is separate.
    """
    if not medians.values_of("kept_served", "n"):
        return {}
    counts, served_ns = columns(medians.points("kept_served", "n"))
    received_ns, few, many = (
        np.array(columns(medians.points("kept_received", "n", field=field))[1])
        for field in ("median", "few_interrupts", "many_interrupts")
    )
    more_ns = served_ns + received_ns - first(costs, "interrupt.entry_ns") * (many - few)
    source = "serve_kept: kept_received and kept_served, less entry_ns of interrupts"
    return {"call.returning": _among_many(counts, more_ns.tolist(), source)}


def _among_many(counts: Sequence[int], more_ns: Sequence[float], source: str) -> Fitted:
    """Return what is more by the number of connections, compared with few (BATCH).

    The curve stays at its last value beyond the largest number, as nothing was measured there.
    """
    totals = [0.0, *(max(0.0, ns) for ns in more_ns)]
    fit = fit_curve([BATCH, *counts, 2 * counts[-1]], [*totals, totals[-1]], from_zero=True)
    return curve(fit, source)


def _bitmap(medians: Medians, _costs: Known) -> Known:
    points = medians.points("select_sparse", "span", least=2)
    _, fit = fit_intercept_curve(*zip(*points, strict=True))
    return {"select.bitmap": curve(fit, "select_sparse")}


def _scans(medians: Medians, costs: Known) -> Known:
    found: Known = {}
    for name in ("select", "poll"):
        counts, totals = zip(*medians.points(f"{name}_scan", "n", least=2), strict=True)
        source = f"{name}_scan"
        if name == "select":
            bitmap = costs["select.bitmap"]
            bits_ns = _extended(bitmap, counts)
            totals = tuple(np.maximum(0, np.array(totals) - bits_ns).tolist())
            source += ", less select.bitmap"
        call_ns, fit = fit_intercept_curve(counts, totals)
        found[f"{name}.call_ns"] = constant(call_ns, fit.residual, f"{source}, extended to n = 0")
        found[f"{name}.scan"] = curve(fit, f"{source}, less call_ns")
        found[f"{name}.register"] = _register(medians, name)
        n = min(n for n, _ in medians.points(f"{name}_ready", "n"))
        ready = medians.points(f"{name}_ready", "ready", {"n": n}, least=2)
        line = fit_line(*zip(*ready, strict=True))
        found[f"{name}.event_ns"] = constant(line.unknowns[1], line.residual, f"{name}_ready")
    return found


def _register(medians: Medians, name: str) -> Fitted:
    """Return the cost of wait-queue entries: the extra time of a later first ready descriptor."""
    bench = f"{name}_first"
    added: list[tuple[int, float]] = []
    for n in sorted({n for n, _ in medians.points(bench, "n")}):
        points = medians.points(bench, "first", {"n": n})
        # With the first descriptor ready the call is the same without the entries.
        base_ns = points[0][1] if points[0][0] == 0 else medians.one(f"{name}_scan", {"n": n})
        added += [(first, max(0.0, ns - base_ns)) for first, ns in points if first > 0]
    if not added:
        raise FitError(
            f"micro.jsonl: {bench}: must have at least 1 result with first above 0, got 0"
        )
    counts, totals = zip(*sorted(added), strict=True)
    knots = [0, *choose_knots(counts, KNOTS_MAX - 1)]
    fit = fit_curve(counts, totals, knots=knots, from_zero=True)
    return curve(fit, f"{bench}, less that with the first one ready")


def _extended(cost: Fitted, counts: Sequence[int]) -> Floats:
    """Return *cost* at *counts*, with the last slope beyond the last knot."""
    inside = np.interp(counts, cost.at, cost.value)
    slope = (cost.value[-1] - cost.value[-2]) / (cost.at[-1] - cost.at[-2])
    beyond: Floats = inside + np.maximum(0, np.array(counts) - cost.at[-1]) * slope
    return beyond


def _clients(medians: Medians, _costs: Known) -> Known:
    found: Known = {}
    for name in ("connect", "send", "receive", "close"):
        bench = f"client_{name}"
        batch, ns = medians.points(bench, "batch")[-1]
        found[f"client.{name}_ns"] = constant(ns, 0.0, f"{bench}, batches of {batch}")
    if medians.of_packets:
        # Both are a frame. At most: the acknowledgement of a SYN-ACK shares a call with a request.
        found["client.ack_ns"] = found["client.send_ns"]
    if medians.values_of("client_again", "batch"):
        again_ns = max(0.0, medians.one("client_again"))
        found["client.again_ns"] = constant(again_ns, 0.0, "client_again")
    return found


def _idle_exits(medians: Medians, costs: Known) -> list[tuple[int, float]]:
    """Return the cost of leaving idleness by pause in us, for pauses of both benches."""
    idle = medians.points("handshake_idle", "pause_us")
    spin = dict(medians.points("handshake_spin", "pause_us"))
    at_once_ns = spin[min(spin)] if spin else 0.0

    def exit_ns(pause_us: int, idle_ns: float) -> float:
        # The pause itself has cooled the SYN in either bench. What idleness cools beyond that is no
        # part of leaving it.
        paused_ns = spin[pause_us] - at_once_ns
        cooled_ns = max(0.0, after_idleness_ns(costs, "syn", pause_us) - paused_ns)
        return max(0.0, idle_ns - spin[pause_us] - cooled_ns)

    exits = [(pause_us, exit_ns(pause_us, ns)) for pause_us, ns in idle if pause_us in spin]
    if not exits:
        raise FitError(
            "micro.jsonl: handshake_spin: must have at least 1 result with a pause of "
            "handshake_idle, got 0"
        )
    return exits


def _waking(medians: Medians, costs: Known) -> Known:
    """Return the costs of sleep: latency from round trips, CPU time from epoll_block.

    A handshake needs no process, so only the idle exit delays it; the wake-up delays a ping-pong,
    too. The remaining CPU time is falling asleep. Where the interrupt of an idle CPU takes less
    CPU time than that of a busy one, the difference is idle_saved_ns.
    """
    exits = _idle_exits(medians, costs)
    exit_ns = usual(exits)
    slower_ns = medians.one("pingpong_block", {"mechanism": "epoll"}) - medians.one("pingpong_spin")
    slept_us = pause_us_of(medians, "pingpong_block")
    slower_ns -= sum(after_idleness_ns(costs, name, slept_us) for name in ("data", "read", "write"))
    woken_ns = max(0.0, slower_ns - exit_ns - first(costs, "epoll_level.event_ns"))
    where = {"n": medians.points("epoll_block", "n")[0][0]}
    thread_ns = medians.one("epoll_block", where)
    beside_ns = medians.one("epoll_block", where, field="busy_ns")
    beside_ns -= medians.one("epoll_block", where, field="cpu_ns")
    interrupt_ns = first(costs, "interrupt.entry_ns", "interrupt.data_ns")
    interrupt_ns += after_pause_ns(medians, "epoll_block", costs.get(_SINCE))
    calls_ns = first(costs, "epoll_level.call_ns", "epoll_level.event_ns", "call.read_ns")
    slept_us = pause_us_of(medians, "epoll_block")
    interrupt_ns += after_idleness_ns(costs, "data", slept_us)
    calls_ns += after_idleness_ns(costs, "read", slept_us)
    source = "epoll_block, less its calls"
    saved_ns = 0.0
    if beside_ns - interrupt_ns <= _FOREIGN_NS_MAX:
        thread_ns += max(0.0, beside_ns - interrupt_ns)
        saved_ns = min(max(0.0, interrupt_ns - beside_ns), first(costs, "interrupt.entry_ns"))
        source += " and interrupt"
    else:
        source += "; of the thread only, as other tasks ran beside it"
    # If a wake-up takes longer than the thread's CPU time, the rest is waiting.
    slept_ns = max(0.0, thread_ns - calls_ns)
    wake_ns = min(woken_ns, slept_ns)
    waited_ns = woken_ns - wake_ns
    exit_source = "handshake_idle, less handshake_spin"
    least_ns = min(ns for _, ns in exits)
    varying: Known = {}
    if len(exits) > 1:
        pauses_us, exits_ns = zip(*exits, strict=True)
        more_ns = tuple(ns - least_ns for ns in exits_ns)
        since = Fitted(pauses_us, more_ns, 0.0, f"{exit_source}, by the pause before")
        varying = {"interrupt.idle_exit_since": since.staying()}
    if waited_ns > 0:
        exit_source += f"; and {waited_ns:.0f} ns of a wake-up in which the thread has not run"
    return varying | {
        "interrupt.idle_exit_ns": constant(least_ns + waited_ns, 0.0, exit_source),
        "interrupt.idle_saved_ns": constant(
            saved_ns, 0.0, "entry_ns and data_ns, less epoll_block beside its thread"
        ),
        "interrupt.wake_ns": constant(
            wake_ns, 0.0, "pingpong_block, less pingpong_spin, idle_exit_ns and event_ns"
        ),
        "interrupt.sleep_ns": constant(slept_ns - wake_ns, 0.0, f"{source}, less wake_ns"),
    }


def _network(medians: Medians, costs: Known) -> Known:
    """Split the handshake at the return of connect(), or find the delay between the two sides.

    If connect() returns before the softirq ends, the rest of the softirq is the ACK's cost. If it
    returns later, half of the time beyond the client's call and the softirq is the delay each way.
    The bench begins with connect(); its client is in no interest set.
    """
    handshake = costs["interrupt.syn_ns"]
    handshake_ns = handshake.value[0]
    known_ns = first(costs, "interrupt.entry_ns") + handshake_ns
    if medians.has("leaves_opened"):
        left_ns = medians.one("leaves_opened") - known_ns
        split = f"{CONNECT}; split by packets_leave"
        delay = "packets_leave, less its softirq, halved"
    else:
        known_ns += _connecting_ns(medians, costs) + way_ns(costs)
        known_ns += after_pause_ns(medians, "handshake_spin", costs.get(_SINCE))
        left_ns = usual(medians.points("handshake_spin", "pause_us")) - known_ns
        split = f"{CONNECT}; split by handshake_spin, less client_connect"
        delay = "handshake_spin, less client_connect, way and softirq, halved"
    ack_ns = min(max(0.0, -left_ns), handshake_ns)
    if medians.loopback:
        split = handshake.source
    saved = costs.get("interrupt.syn_saved_ns")
    # A dropped request has no ACK either, whose cost is separate.
    own = (
        {}
        if saved is None
        else {
            "interrupt.syn_saved_ns": constant(
                max(0.0, saved.value[0] - ack_ns), saved.residual, saved.source
            )
        }
    )
    return (
        own
        | _cold_handshake(medians, costs)
        | {
            "interrupt.syn_ns": constant(handshake_ns - ack_ns, handshake.residual, split),
            "interrupt.ack_ns": constant(ack_ns, handshake.residual, split),
            "network.delay_ns": constant(left_ns / 2, 0.0, delay),
        }
    )


def _connecting_ns(medians: Medians, costs: Known) -> float:
    """Return the cost of connect() without the client's interest set."""
    connect_ns = first(costs, "client.connect_ns")
    if medians.of_packets:
        return connect_ns  # packets have no interest set
    return max(0.0, connect_ns - first(costs, "epoll_level.add_ns"))


def _cold_handshake(medians: Medians, costs: Known) -> Known:
    """Return the extra cost of a handshake alone in its interrupt, if measured."""
    if medians.of_packets:
        source = "packet clients: no interrupt handles a whole handshake"
        return {"interrupt.cold_ns": constant(0.0, 0.0, source)}
    if not knows_cold(medians):
        return {}
    alone: dict[str, int | str] = {"burst": 1}
    n_entries = medians.one(CONNECT, alone, field="interrupts_per_operation")
    warm_ns = n_entries * first(costs, "interrupt.entry_ns") + first(costs, "interrupt.syn_ns")
    warm_ns += after_pause_ns(medians, CONNECT, costs.get(_SINCE))
    more_ns = medians.one(CONNECT, alone) - warm_ns
    source = f"{CONNECT}: one alone, less what it takes in a burst"
    return {"interrupt.cold_ns": constant(more_ns, 0.0, source)}


def _after_idleness(medians: Medians, costs: Known) -> Known:
    """Return the extra costs of the first handshake and accept after idleness, if measured."""
    bench = "lone_connection"
    if "cold.syn" in costs:
        return {
            "interrupt.syn_cold_ns": constant(0.0, 0.0, "part of cold.syn"),
            "call.accept_cold_ns": constant(0.0, 0.0, "part of cold.accept"),
        }
    if not medians.has("lone_open"):
        return {}
    # On loopback the client's CPU handles the handshake.
    syn_ns = 0.0 if medians.loopback else medians.one("lone_open") - medians.one("lone_bare")
    calls_ns = medians.one("lone_calls") - medians.one("lone_awake")
    return {
        "interrupt.syn_cold_ns": constant(
            max(0.0, syn_ns), 0.0, f"{bench}: lone_open, less lone_bare"
        ),
        "call.accept_cold_ns": constant(
            max(0.0, calls_ns), 0.0, f"{bench}: lone_calls, less lone_awake"
        ),
    }


_EQUATIONS: tuple[Callable[[Medians, Known], Known], ...] = (
    _interrupts,
    _epoll,
    _calls,
    _crowding,
    _returning,
    _bitmap,
    _scans,
    _clients,
    way_costs,
    leaving_costs,
    _network,
    cold_costs,
    _waking,
    _after_idleness,
    flight_costs,
    micro_told_costs,
    micro_blocking_costs,
    micro_ring_costs,
)
"""In an order that solves the costs needed by each equation before it."""
