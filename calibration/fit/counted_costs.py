"""From the microbenchmarks of the emulated target to costs: one equation for each cost.

    measured total = sum of (cost in the model x its number of occurrences)

                      median                    is in the model
    interrupt_X       a packet of the burst     X_ns + entry_ns x interrupts / packet
                      (dropped: syn_ns - syn_saved_ns)
    block poll        a later request, stolen   entry_ns + data_ns - data_saved_ns
    wait_ready epoll  R ready                   call_ns + R x event_ns
    epoll_recheck     R drained                 constant + R x recheck_ns
    wait_ready        n descriptors, the first  call_ns + scan(n) + event_ns
                      ready at f                + register(f) + release(f) + read_back(f)
                      bitmap of d bits          constant + bitmap(d)
                      R ready                   constant + R x event_ns
    X_first           ready at f, without the   that at 0 + register(f) + release(f)
                      server's own code
    asleep            n descriptors             call_ns + scan(n) + register(n) + half a sleep
    serve_calls       a call, one connection    the call
    serve_all         b connections at once     that of one + crowding(b)
    interrupt_reset   b connections at once     the same
    wait_looks        n descriptors             look(n), of call_ns and scan(n)
    deferred_tick     n connections closed      constant + n x what close leaves for later
    deferred_again    n failed accepts          constant + n x what accept leaves for later
    write_leaves      begin until departure     write_ns - write_after_ns
    accept_looks      begin until the look      accept_again_ns - accept_after_ns
    handshake_spin    round trip                entry_ns + syn_ns - syn_after_ns + 2 x delay_ns
    handshake_idle    round trip                handshake_spin + idle_exit_ns
    block             busy time of a wait       the wait + sleep_ns + wake_ns + interrupt
    block             latency of its request    interrupt + wake_ns + idle_exit_ns
                                                + what the wait does afterwards
    deferred_sleep    a sleep with work left    deferred_sleep n 0 + n x deferred_again
                                                + left_ns
    write_flights     b bytes, in f flights     that of a segment + b x write_kib_ns
                                                + f x (entry_ns + ack_ns) + n x acked_ns

The guest has one CPU, so work of different CPUs need not be separated. Clients cost nothing; the
delay to them is a setting of the target. Closing leaves memory to RCU, which a kernel thread frees
before the CPU may sleep (Linux kernel/rcu/tiny.c, kernel/softirq.c wakeup_softirqd). The model
charges it at the first sleep after such a call. Mechanisms that only some kernels or servers have
get costs if a guest measured them: told.py, changes.py, threads.py, rings.py.
Sources: sim/cpu/interrupts.py, models/*.py, micro/*.c.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...sim.wire.way import SEGMENT_BYTES
from ..emulated.run_lengths import DELAY_NS
from ..points.points import FIT_POINTS_OF
from .changes import change_costs
from .curve_fit import fit_curve, fit_intercept_curve, fit_line, fit_nonnegative, fit_rest
from .medians import (
    CALLS,
    FEW,
    MANY,
    MANY_AT_ONCE,
    REPLY_BYTES,
    Fitted,
    Known,
    Medians,
    at_one,
    call_cost,
    columns,
    constant,
    curve,
    first,
    undisturbed,
)
from .packets import acknowledged_later, flights_of
from .rings import counted_ring_costs
from .threads import counted_blocking_costs
from .told import counted_signal_costs, counted_told_costs

_KIB = 1024
_EPOLL = {"mechanism": "epoll"}
_SCANS = ("select", "poll")
_BENCH_NAMES = {"select": "select", "poll": "poll", "epoll_level": "epoll"}


def counted_costs(medians: Medians) -> Known:
    """Return all costs from the microbenchmarks, by table and name: "poll.scan".

    Raises
    ------
    FitError
        If a bench is missing.
    """
    costs: Known = {}
    for equations in (
        _interrupts, _epoll, _calls, _long_replies, _scans, _sleeping, _surroundings,
        counted_told_costs, counted_signal_costs, change_costs, counted_blocking_costs,
        counted_ring_costs,
    ):  # fmt: skip
        costs |= equations(medians, costs)
    return costs


def counted_connections_max(medians: Medians) -> int:
    """Return the largest number of descriptors at which both scans were measured."""
    return min(medians.points("wait_ready", "n", {"mechanism": name})[-1][0] for name in _SCANS)


_PACKETS = (("syn", "interrupt_syn"), ("ack", "interrupt_ack"), ("data", "interrupt_data_queued"),
            ("reset", "interrupt_reset"))  # fmt: skip
"""Requests arrive at connections that wait for accept; resets follow a reply and a close."""


def _interrupts(medians: Medians, _costs: Known) -> Known:
    """Solve the benches of packets together, as they share entry_ns."""
    crowded_ns = dict(_resets_beside(medians))
    rows, totals = [], []
    for number, (_, bench) in enumerate(_PACKETS):
        where: dict[str, int | str] = {"n": 0} if bench != "interrupt_reset" else {}
        if bench in ("interrupt_syn", "interrupt_ack"):
            where["mechanism"] = "none"
        for burst, stolen_ns, n_entries in undisturbed(medians, bench, where):
            rows.append([n_entries, *(float(k == number) for k in range(len(_PACKETS)))])
            totals.append(stolen_ns - (crowded_ns[burst] if bench == "interrupt_reset" else 0))
    solution = fit_nonnegative(rows, totals)
    source = ", ".join(bench for _, bench in _PACKETS)
    names = ("entry", *(name for name, _ in _PACKETS))
    costs = {
        f"interrupt.{name}_ns": constant(ns, solution.residual, source)
        for name, ns in zip(names, solution.unknowns, strict=True)
    }
    dropped = medians.points("interrupt_syn_dropped", "burst", least=2)
    entries = medians.points("interrupt_syn_dropped", "burst", field="interrupts_per_operation")
    entry_ns, syn_ns = solution.unknowns[:2]
    saved_ns = [
        syn_ns - (ns - n * entry_ns) for (_, ns), (_, n) in zip(dropped, entries, strict=True)
    ]
    costs["interrupt.syn_saved_ns"] = constant(
        float(np.mean(saved_ns)), 0.0, "syn_ns, less interrupt_syn_dropped"
    )
    later_ns = medians.one("block", {"mechanism": "poll", "n": 1}, field="stolen_ns")
    first_ns = entry_ns + first(costs, "interrupt.data_ns")
    costs["interrupt.data_saved_ns"] = constant(
        max(0.0, first_ns - later_ns), 0.0, "interrupt_data_queued, less block: stolen"
    )
    return costs


def _resets_beside(medians: Medians) -> list[tuple[int, float]]:
    """Return the extra cost of a reset by number of simultaneous connections."""
    points = undisturbed(medians, "interrupt_reset", {})
    return [(burst, max(0.0, ns - points[0][1])) for burst, ns, _ in points]


def _epoll(medians: Medians, _costs: Known) -> Known:
    wait = fit_line(*columns(medians.points("wait_ready", "ready", _EPOLL, least=2)))
    drained = fit_line(*columns(medians.points("epoll_recheck", "ready", least=2)))
    costs = {
        "epoll_level.call_ns": constant(wait.unknowns[0], wait.residual, "wait_ready epoll"),
        "epoll_level.event_ns": constant(wait.unknowns[1], wait.residual, "wait_ready epoll"),
        "epoll_level.recheck_ns": constant(drained.unknowns[1], drained.residual, "epoll_recheck"),
    }
    for name, call in (("add", "add"), ("modify", "mod"), ("delete", "del")):
        costs[f"epoll_level.{name}_ns"] = call_cost(medians, f"serve_epoll_{call}")
    return costs


def _calls(medians: Medians, _costs: Known) -> Known:
    """Return the costs of calls by open connections, deferred work included."""
    later_ns = {
        "close": _deferred(medians, "deferred_tick"),
        "accept_again": _deferred(medians, "deferred_again"),
    }
    by_size: dict[str, int | str] = {"batch": MANY_AT_ONCE, "n": 0, "mechanism": "none"}
    sizes = medians.points("serve_write", "reply", by_size, least=2)
    line = fit_line([size / _KIB for size, _ in sizes], [ns for _, ns in sizes])
    kib_ns = line.unknowns[1]
    later_ns["write"] = -kib_ns * REPLY_BYTES / _KIB
    found = {"call.write_kib_ns": constant(kib_ns, line.residual, "serve_write over sizes")}
    for name in ("accept", "accept_again", "read", "read_again", "write", "close"):
        found[f"call.{name}_ns"] = call_cost(medians, f"serve_{name}", later_ns.get(name, 0.0))
    for name, call, moment in (
        ("write_after", "write", "write_leaves"),
        ("accept_after", "accept_again", "accept_looks"),
    ):
        after_ns = first(found, f"call.{call}_ns") - medians.one(moment)
        found[f"call.{name}_ns"] = constant(after_ns, 0.0, f"call.{call}_ns, less {moment}")
    found["call.crowding"] = _crowding(medians)
    found["call.crossing_ns"] = constant(medians.one("floor"), 0.0, "floor")
    return found


def _long_replies(medians: Medians, costs: Known) -> Known:
    """Return acked_ns, if measured: the rest of a long reply, by the model's number of packets.

    The model has an interrupt for each flight, the kernel one for nearly each acknowledgement.
    """
    if not medians.values_of("write_flights", "reply"):
        return {}
    one_ns = medians.one("write_flights", {"reply": SEGMENT_BYTES})
    kib_ns = first(costs, "call.write_kib_ns")
    flight_ns = first(costs, "interrupt.entry_ns", "interrupt.ack_ns")
    n_more, left_ns, whole_ns = [], [], []
    for size, ns in medians.points("write_flights", "reply"):
        flights = flights_of(size)
        if len(flights) > 1:
            copied_ns = one_ns + (size - SEGMENT_BYTES) / _KIB * kib_ns
            n_more.append(acknowledged_later(flights))
            left_ns.append(max(0.0, ns - copied_ns - len(flights) * flight_ns))
            whole_ns.append(ns)
    fit = fit_rest(n_more, left_ns, whole_ns)
    source = "write_flights beyond a window, less what is copied, entry_ns and ack_ns"
    return {"interrupt.acked_ns": constant(fit.unknowns[0], fit.residual, source)}


def _crowding(medians: Medians) -> Fitted:
    """Return the extra cost of a connection by simultaneous ones: its calls and its reset.

    The curve ends at the number of users of the fit points. The benches grow beyond, because they
    open a whole batch before closing any. A server opens and closes in turns: its instruction
    profile at overload (instructions/select-idle0-open35158.json) has no more expensive calls.
    """
    most = FIT_POINTS_OF["emulated"][0].users
    calls = medians.points("serve_all", "batch", {**CALLS, "n": 0}, least=2)
    few_ns = dict(calls)[FEW]
    resets = columns(_resets_beside(medians))
    within = [(n, ns) for n, ns in calls if n <= most]
    totals = [max(0.0, ns - few_ns) + float(np.interp(n, *resets)) for n, ns in within]
    fit = fit_curve([*(n for n, _ in within), 2 * most], [*totals, totals[-1]])
    return curve(fit, "serve_all, interrupt_reset: by number at once")


def _deferred(medians: Medians, bench: str) -> float:
    """Return the work that each call leaves for a tick."""
    return fit_line(*columns(medians.points(bench, "n", least=2))).unknowns[1]


def _scans(medians: Medians, _costs: Known) -> Known:
    found: Known = {}
    for name in _SCANS:
        own: dict[str, int | str] = {"mechanism": name, "first": 0, "ready": 1}
        counts, totals = columns(_dense(medians, own))
        bits_ns = np.zeros(len(counts))
        source = "wait_ready"
        if name == "select":
            where = {**own, "n": 100}
            _, bitmap = fit_intercept_curve(*columns(medians.points("wait_ready", "span", where)))
            bits_ns = np.interp(counts, bitmap.at, bitmap.ns)
            found["select.bitmap"] = curve(bitmap, "wait_ready, 100 in bitmaps of other lengths")
            source += ", less select.bitmap"
        at_ready: dict[str, int | str] = {"mechanism": name, "first": 0, "n": MANY}
        event = fit_line(*columns(medians.points("wait_ready", "ready", at_ready, least=2)))
        event_ns = event.unknowns[1]
        base_ns, scan = fit_intercept_curve(
            counts, np.maximum(0, np.array(totals) - bits_ns).tolist()
        )
        found[f"{name}.call_ns"] = constant(base_ns - event_ns, scan.residual, source)
        found[f"{name}.scan"] = curve(scan, source)
        found[f"{name}.event_ns"] = constant(event_ns, event.residual, "wait_ready over ready")
        own_looks = medians.points("wait_looks", "n", {"mechanism": name}, least=2)
        look = fit_curve(*columns(own_looks))
        found[f"{name}.look"] = curve(look, "wait_looks")
        found |= _wait_queue_entries(medians, name, scan.at, scan.ns)
    return found


def _dense(medians: Medians, where: dict[str, int | str]) -> list[tuple[int, float]]:
    """Return (n, ns) for waits whose descriptors are the lowest n."""
    return [
        (n, ns)
        for n in sorted({n for n, _ in medians.points("wait_ready", "n", where)})
        for _, ns in medians.points("wait_ready", "", {**where, "n": n, "span": n})
    ]


def _wait_queue_entries(
    medians: Medians, name: str, scan_at: Sequence[int], scan_ns: Sequence[float]
) -> Known:
    """Return the costs of entering wait queues, and of leaving them at the end of the call.

    A later first ready descriptor adds both costs to a wait. A wait that falls asleep has entered
    all queues and left none.
    """
    both: list[tuple[int, float]] = [(0, 0.0)]
    for n in sorted({n for n, _ in medians.points("wait_ready", "n", {"mechanism": name})}):
        here: dict[str, int | str] = {"mechanism": name, "n": n, "span": n, "ready": 1}
        points = medians.points("wait_ready", "first", here)
        base_ns = points[0][1]
        both += [(first + 1, ns - base_ns) for first, ns in points if first > 0]
    fit = fit_curve(*columns(sorted(both)), from_zero=True)
    one, many = columns(medians.points("asleep", "n", {"mechanism": name}, least=2))[1][:2]
    scanned = np.diff(np.interp([1, MANY], scan_at, scan_ns))[0]
    entered = (many - one - scanned) / (MANY - 1)
    share = min(1.0, max(0.0, entered * MANY / float(np.interp(MANY, fit.at, fit.ns))))
    read_ns = _read_back_ns(medians, name)
    source = "wait_ready, less that with the first one ready; asleep, less scan"
    found: Known = {
        f"{name}.register": Fitted(
            fit.at, tuple(share * ns for ns in fit.ns), fit.residual, source
        ),
        f"{name}.release": Fitted(
            fit.at,
            tuple((1 - share) * ns - n * read_ns for n, ns in zip(fit.at, fit.ns, strict=True)),
            fit.residual,
            f"{source}, less read_back" if read_ns > 0 else source,
        ),
    }
    if read_ns > 0:
        found[f"{name}.read_back"] = Fitted(
            (0, fit.at[-1]),
            (0.0, fit.at[-1] * read_ns),
            0.0,
            f"wait_ready with the last one ready, less the first, less {name}_first of both",
        )
    return found


def _read_back_ns(medians: Medians, name: str) -> float:
    """Return the time in which the server's own code passes an entry without an event.

    The call itself takes as much in both benches. 0 if the second was not measured.
    """
    calls = medians.points(f"{name}_first", "first", {"n": MANY}, least=0)
    if len(calls) < 2:
        return 0.0
    own: dict[str, int | str] = {"mechanism": name, "n": MANY, "span": MANY, "ready": 1}
    waits = medians.points("wait_ready", "first", own)
    n_passed = calls[-1][0] - calls[0][0]
    within_ns = calls[-1][1] - calls[0][1]
    return max(0.0, waits[-1][1] - waits[0][1] - within_ns) / n_passed


def _sleeping(medians: Medians, costs: Known) -> Known:
    """Return the costs that sleep adds to a wait: latency, and busy time before and after.

    The scheduler does the work of sleeping and waking, so the median over mechanisms counts.
    """
    exit_ns = max(0.0, medians.one("handshake_idle") - medians.one("handshake_spin"))
    # one kernel thread does all deferred work, for one call as for many
    left_ns = medians.one("deferred_sleep", {"n": 1}) - medians.one("deferred_sleep", {"n": 0})
    thread_ns = max(0.0, left_ns - _deferred(medians, "deferred_again"))
    woken_ns, busy_ns = {}, {}
    for name, bench in _BENCH_NAMES.items():
        where: dict[str, int | str] = {"mechanism": bench, "n": 1}
        # data_ns and reset_ns include the epoll callback
        interrupt_ns = medians.one("block", where, field="stolen_ns")
        returns_ns = first(costs, f"{name}.event_ns")
        looks_ns = first(costs, f"{name}.call_ns")
        if name != "epoll_level":
            looks_ns += at_one(costs, f"{name}.scan") + at_one(costs, f"{name}.register")
            returns_ns += at_one(costs, f"{name}.scan") + at_one(costs, f"{name}.release")
        latency_ns = medians.one("block", where, field="latency_ns")
        woken_ns[name] = latency_ns - interrupt_ns - returns_ns - exit_ns
        busy_ns[name] = medians.one("block", where) - interrupt_ns - returns_ns - looks_ns
    answered_ns = medians.one("handshake_spin") - 2 * DELAY_NS
    syn_ns = first(costs, "interrupt.entry_ns") + first(costs, "interrupt.syn_ns")
    wake_ns = float(np.median(list(woken_ns.values())))
    sleep_ns = float(np.median(list(busy_ns.values()))) - wake_ns
    return {
        "interrupt.syn_after_ns": constant(
            syn_ns - answered_ns, 0.0, "entry_ns and syn_ns, less handshake_spin"
        ),
        "interrupt.idle_exit_ns": constant(exit_ns, 0.0, "handshake_idle, less handshake_spin"),
        "interrupt.wake_ns": constant(
            wake_ns, 0.0, "block: latency, less interrupt, what is left of the wait, idle_exit_ns"
        ),
        "interrupt.sleep_ns": constant(sleep_ns, 0.0, "block: busy time, less all else"),
        "interrupt.left_ns": constant(thread_ns, 0.0, "deferred_sleep, less deferred_again"),
    }


def _surroundings(_medians: Medians, _costs: Known) -> Known:
    """Return the target's settings: clients cost nothing, the delay to them is given."""
    clients = ("connect", "send", "receive", "close")
    return {
        **{f"client.{name}_ns": constant(0, 0.0, "none: no CPU of theirs") for name in clients},
        "network.delay_ns": constant(DELAY_NS, 0.0, "a setting of the target"),
    }
