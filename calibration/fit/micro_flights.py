"""What long replies take, and what a CPU takes more that others have had.

                     median                       is in the model
    write_flights    b bytes, up to a window      constant + b / 1024 x write_kib_ns
                     b bytes, in f flights        the same + f x ack_ns + n x acked_ns
                     interrupts / operation       x entry_ns
    cache_refill     others for x us              refill(x)

The reply is received for the client on the CPU that sends it, as in the machine under test, so
that its work is in these prices, and acknowledgements come within the write that set them off:
nothing is interrupted. The model has n = one acknowledgement for every second segment of a flight
but the first (sim/tcp/windows.py). Linux sends fewer where segments travel together, one for some
ten here; acked_ns is by the model's count, and so is what all of them take. Where long replies were
not measured, write_kib_ns is that of short ones, which is less: they fit the caches.

Those who have had the CPU in cache_refill went through memory line by line, and the server's round
is a wait and 64 reads: others who compute take less.
Sources: sim/tcp/windows.py, sim/cpu/scheduling.py, micro/flights.c, micro/refill.c.
"""

from __future__ import annotations

import numpy as np

from ...sim.wire.segments import SEGMENT_BYTES, n_segments_of
from ..points.point_runs import WINDOW
from .curve_fit import fit_curve, fit_line, fit_slope
from .micro_medians import Medians, columns
from .micro_solution import Fitted, Known, constant
from .micro_terms import BATCH, first

_KIB = 1024
_BENCH = "write_flights"


def copying(medians: Medians) -> Fitted:
    """Return what a KiB of a reply takes: of replies up to a window where these were measured."""
    if _measured(medians):
        line = fit_line(*_within_a_window(medians))
        return constant(line.unknowns[1], line.residual, f"{_BENCH} up to {WINDOW} segments")
    sizes = medians.points(
        "serve_write", "reply", {"batch": BATCH, "n": 0, "mechanism": "none"}, least=2
    )
    line = fit_line([size / _KIB for size, _ in sizes], [ns for _, ns in sizes])
    return constant(line.unknowns[1], line.residual, "serve_write over sizes")


def flight_costs(medians: Medians, costs: Known) -> Known:
    """Return acked_ns and refill, those of them that were measured."""
    found: Known = {}
    if _measured(medians):
        found["interrupt.acked_ns"] = _acknowledging(medians, costs)
    if medians.values_of("cache_refill", "pause_us"):
        counts, totals = columns(medians.points("cache_refill", "pause_us"))
        fit = fit_curve([0, *counts], [0.0, *(max(0.0, ns) for ns in totals)], from_zero=True)
        # Caches can be no emptier than after the longest time measured, but for what is not known.
        found["sharing.refill"] = Fitted(
            (*fit.at, fit.at[-1] + 1), (*fit.ns, fit.ns[-1]), fit.residual, "cache_refill"
        )
    return found


def _measured(medians: Medians) -> bool:
    """Tell whether long replies were measured where they are cut into segments of an Ethernet."""
    return bool(medians.values_of(_BENCH, "reply")) and not medians.loopback


def _within_a_window(medians: Medians) -> tuple[list[float], list[float]]:
    sizes = [
        (size, ns) for size, ns in medians.points(_BENCH, "reply") if size <= WINDOW * SEGMENT_BYTES
    ]
    return [size / _KIB for size, _ in sizes], [ns for _, ns in sizes]


def _acknowledging(medians: Medians, costs: Known) -> Fitted:
    base_ns, kib_ns = fit_line(*_within_a_window(medians)).unknowns
    ack_ns, entry_ns = first(costs, "interrupt.ack_ns"), first(costs, "interrupt.entry_ns")
    entries = medians.points(_BENCH, "reply", field="interrupts_per_operation")
    n_more, left_ns = [], []
    for (size, ns), (_, n_entries) in zip(medians.points(_BENCH, "reply"), entries, strict=True):
        if size > WINDOW * SEGMENT_BYTES:
            flights = _flights(size)
            n_more.append(sum(max(0, n // 2 - 1) for n in flights))
            known_ns = base_ns + size / _KIB * kib_ns + len(flights) * ack_ns + n_entries * entry_ns
            left_ns.append(max(0.0, ns - known_ns))
    fit = fit_slope(n_more, left_ns)
    source = f"{_BENCH} beyond {WINDOW} segments, less what is copied, ack_ns and entry_ns"
    return constant(float(np.round(fit.unknowns[0], 6)), fit.residual, source)


def _flights(n_bytes: int) -> list[int]:
    """Return the segments of each flight of a reply: a window that doubles.

    >>> _flights(65_536)
    [10, 20, 16]
    """
    left, window, flights = n_segments_of(n_bytes), WINDOW, []
    while left > 0:
        flights.append(min(left, window))
        left -= flights[-1]
        window *= 2
    return flights
