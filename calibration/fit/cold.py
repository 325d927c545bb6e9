"""The extra time of packets and calls with cold caches, from connections that come one by one.

                     median, by idle time         less
    paced_syn        its interrupt                entry_ns + syn_ns
    paced_ack        its interrupt                entry_ns + ack_ns
    asked_request    its interrupt                entry_ns + data_ns - data_saved_ns
    paced_accept     the call                     accept_ns
    asked_read       the call                     read_ns
    asked_write      the call                     write_ns and its copying

At 0 us: the extra time among other packets and calls, compared with a bench that repeats one kind.
Beyond: paced_X less its value at 0 us. A request, its read and its write at 0 us are those of later
requests, as kept connections have many of them. What first ones take more stays in
interrupt.displaced_ns, which is fitted. Connections that come one by one are reset before the
server closes them, so resets and closes are compared among themselves only. With socket clients
one interrupt handles a whole handshake, so the fit skips them.
Sources: sim/cpu/caches.py, micro/paced.c.
"""

from __future__ import annotations

import math

import numpy as np

from ...sim.state.units import MICROSECOND_NS
from .curve_fit import Floats
from .medians import REPLY_BYTES, Fitted, Known, Medians, columns, first
from .packets import more_after_ns

_KIB = 1024
_SOURCE = "serve_paced and serve_asked, by idle time; at 0 less benches of one kind"


def cold_costs(medians: Medians, costs: Known) -> Known:
    """Return all costs of the table "cold", if measured with packet clients."""
    if not medians.of_packets or not medians.has("paced_syn"):
        return {}
    pauses_us, idle_ns = columns(medians.points("paced_idle", "pause_us", least=2))
    # Without a pause the bench does not sleep, but reads the clock.
    idle_us = tuple(
        0 if pause_us == 0 else round(ns / MICROSECOND_NS)
        for pause_us, ns in zip(pauses_us, idle_ns, strict=True)
    )

    def taken_ns(bench: str) -> Floats:
        by_pause = dict(medians.points(bench, "pause_us"))
        return np.array([by_pause[pause_us] for pause_us in pauses_us])

    copied_ns = first(costs, "call.write_kib_ns") * REPLY_BYTES / _KIB
    entry_ns = first(costs, "interrupt.entry_ns")
    # The SYN comes after the pause, the other packets 10 to 20 us after another one.
    since = costs.get("interrupt.entry_since")
    syn_entry_ns = entry_ns + np.array([more_after_ns(since, us) for us in idle_us])
    data_ns = first(costs, "interrupt.data_ns")
    saved_ns = max(0.0, first(costs, "interrupt.data_saved_ns"))
    later_ns = taken_ns("asked_request")[0] - entry_ns
    alone_ns = {name: first(costs, f"call.{name}_ns") for name in ("accept", "read", "write")}
    found = {
        "syn": _cooling(taken_ns("paced_syn") - syn_entry_ns, first(costs, "interrupt.syn_ns")),
        "ack": _cooling(taken_ns("paced_ack") - entry_ns, first(costs, "interrupt.ack_ns")),
        "data": _cooling(taken_ns("paced_request") - entry_ns, data_ns, later_ns + saved_ns),
        "reset": _cooling(taken_ns("paced_reset")),
        "accept": _cooling(taken_ns("paced_accept"), alone_ns["accept"]),
        "read": _cooling(taken_ns("paced_read"), alone_ns["read"], taken_ns("asked_read")[0]),
        "write": _cooling(
            taken_ns("paced_write"), alone_ns["write"] + copied_ns, taken_ns("asked_write")[0]
        ),
        "close": _cooling(taken_ns("paced_close")),
    }
    return {
        f"cold.{name}": Fitted(idle_us, tuple(ns.tolist()), 0.0, _SOURCE).staying()
        for name, ns in found.items()
    }


def _cooling(taken_ns: Floats, alone_ns: float = math.inf, awake_ns: float = math.nan) -> Floats:
    """Return the extra time for each idle time.

    `awake_ns` is the time without idleness, by default the first of *taken_ns*; *alone_ns* that in
    benches of one kind.
    """
    least_ns = taken_ns[0] if math.isnan(awake_ns) else awake_ns
    more_ns = max(0.0, least_ns - alone_ns) + taken_ns - taken_ns[0]
    return np.asarray(np.maximum(0.0, more_ns), np.float64)


def after_idleness_ns(costs: Known, name: str, idle_us: float) -> float:
    """Return what idleness adds to a packet or call of that *name*; 0 if it is unknown."""
    cold = costs.get(f"cold.{name}")
    if cold is None:
        return 0.0
    return float(np.interp(idle_us, cold.at, cold.value)) - cold.value[0]
