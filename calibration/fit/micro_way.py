"""How an interrupt gets to the server's CPU, and beside which writes none is needed.

                      median                                is in the model
    way_interrupt     from a send until the server is       way + send
                      robbed (its quantiles: way's)
    way_send          a send that interrupts                send + client interrupt_ns
    way_second        one that does not                     send
    way_beside        begins of sends, after a write's      write - delivery_ns - send ...
                      begin, that interrupt nobody          write - delivery_after_ns - send
    way_write         a write                               write

A packet is with the server when the client's send is over in the model, so the way begins there.
The begins are spread evenly beside a write, so that the outer tenths give the ends of those that
interrupt nobody. What connecting and closing take besides does not tell them apart: of benches in
batches, some of whose packets interrupt, client connect_ns and close_ns have a part of it already.
Sources: sim/cpu/receiving.py, sim/cpu/interrupts.py, micro/way.c.
"""

from __future__ import annotations

import numpy as np

from .micro_medians import Medians
from .micro_solution import Fitted, Known, constant

_QUANTILES = ((0, "p10"), (100, "p10"), (500, "median"), (900, "p90"), (1000, "p90"))
"""By which thousandth what is known of a distribution stands."""
_INNER = 0.8
"""The share of a distribution between its outer tenths."""


def way_costs(medians: Medians, _costs: Known) -> Known:
    """Return way, interrupt_ns of clients, and the delivery of replies, if they were measured."""
    if medians.loopback or not medians.has("way_interrupt"):
        return {}
    send_ns = medians.one("way_second")
    ways_ns = [medians.one("way_interrupt", field=name) - send_ns for _, name in _QUANTILES]
    first_ns, last_ns = (medians.one("way_beside", field=name) for name in ("p10", "p90"))
    beyond_ns = (last_ns - first_ns) * (1 / _INNER - 1) / 2
    write_ns = medians.one("way_write")
    interrupting_ns = medians.one("way_send") - send_ns
    beside = "interrupt_way: sends beside a write that interrupt nobody"
    return {
        "interrupt.way": Fitted(
            tuple(at for at, _ in _QUANTILES),
            tuple(np.maximum.accumulate(np.maximum(0.0, ways_ns)).tolist()),
            0.0,
            "interrupt_way: until the server is robbed, less a send that interrupts nobody",
        ),
        "client.interrupt_ns": constant(interrupting_ns, 0.0, "interrupt_way: the two sends"),
        "call.delivery_ns": constant(write_ns - (first_ns - beyond_ns) - send_ns, 0.0, beside),
        "call.delivery_after_ns": constant(write_ns - (last_ns + beyond_ns) - send_ns, 0.0, beside),
    }
