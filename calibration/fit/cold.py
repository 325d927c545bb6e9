"""What packets and calls take more with cold caches: connections one by one, beside benches.

                     median, by idle time         less
    paced_syn        its interrupt                entry_ns + syn_ns
    paced_ack        acknowledgement, request     entry_ns + ack_ns + data_ns, and the next line
    asked_request    a later request              entry_ns + data_ns - data_saved_ns
    paced_accept     the call                     accept_ns
    asked_read       the call                     read_ns
    asked_write      the call                     write_ns and its copying

What is left without idleness is that of packets and calls that take turns. What idleness adds is
the difference of paced_X from its own value without idleness. Connections that come one by one are
reset before the server closes them, so resets and closes are compared among themselves only.
Of clients with sockets one interrupt handles a whole handshake, so these rows have another meaning.
Sources: sim/cpu/caches.py, micro/paced.c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...sim.state.units import MICROSECOND_NS
from .curve_fit import Floats
from .medians import REPLY_BYTES, Fitted, Known, Medians, columns, first

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

    saved_ns = first(costs, "interrupt.data_saved_ns")
    copied_ns = first(costs, "call.write_kib_ns") * REPLY_BYTES / _KIB
    entries_ns = first(costs, "interrupt.entry_ns") + _since_ns(costs, idle_us)
    request_ns = taken_ns("asked_request") - entries_ns
    first_ns = taken_ns("paced_ack") - first(costs, "interrupt.entry_ns")
    data = _cooling(request_ns, first(costs, "interrupt.data_ns") - max(0.0, saved_ns))
    alone_ns = {name: first(costs, f"call.{name}_ns") for name in ("accept", "read", "write")}
    found = {
        "syn": _cooling(taken_ns("paced_syn") - entries_ns, first(costs, "interrupt.syn_ns")),
        "ack": _cooling(first_ns - data, first(costs, "interrupt.ack_ns", "interrupt.data_ns")),
        "data": data,
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
    """Return what is more by idle time; it never falls.

    `awake_ns` is the time without idleness, by default the first of *taken_ns*; *alone_ns* that in
    benches of one kind.
    """
    least_ns = taken_ns[0] if math.isnan(awake_ns) else awake_ns
    more_ns = max(0.0, least_ns - alone_ns) + taken_ns - taken_ns[0]
    return np.asarray(np.maximum.accumulate(more_ns), np.float64)


def _since_ns(costs: Known, idle_us: Sequence[int]) -> Floats:
    """Return the extra cost of an entry after each idle time; 0 if it is unknown."""
    since = costs.get("interrupt.entry_since")
    if since is None:
        return np.zeros(len(idle_us))
    return np.asarray(np.interp(idle_us, since.at, since.value), np.float64)


def after_idleness_ns(costs: Known, name: str, idle_us: float) -> float:
    """Return what idleness adds to a packet or call of that *name*; 0 if it is unknown."""
    cold = costs.get(f"cold.{name}")
    if cold is None:
        return 0.0
    return float(np.interp(idle_us, cold.at, cold.value)) - cold.value[0]
