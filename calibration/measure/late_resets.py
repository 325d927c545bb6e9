"""How often a server's FIN leaves before its client's reset comes, by counting packets.

    reset first      SYN, acknowledgement, request, acknowledgement, reset             5 packets
    FIN first        the same, and a reset in reply to the FIN                         6 packets

A server that closes a connection sends a FIN, unless the client has reset it. Clients here reset a
connection once they have its reply, and the server closes it after the reply, so both race. A
client that has reset a connection replies to its FIN by another reset, a late one, which interrupts
the server. Repeated packets do not count. The server is that of epoll_level: an epoll_ctl stands
between its write and its close, so other servers close earlier.

Sources: Linux net/ipv4/tcp.c __tcp_close(), tcp_ipv4.c tcp_v4_rcv() (no_tcp_socket).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...sim.files.tables import Column, Table
from ..points.point import Point, trace_to_replay
from ..records.noise import Series
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .macro import run_trace
from .packet_times import TIMING, range_text

PACKETS_OF_RESET_FIRST = 5
LOADS: dict[str, dict[str, object]] = {
    **{f"{n:,}/s": {"loop": "open", "rate": f"{n}/s"} for n in (1_000, 5_000, 10_000, 20_000)},
    **{f"{n} users": {"loop": "closed", "users": n} for n in (4, 64)},
}
"""Loads of a server with epoll_level, by their names."""


class LateResets(NamedTuple):
    """Packets of the client and interrupts of the server, both a connection, by round."""

    load: str
    packets: list[float]
    interrupts: list[float]


def measure_late_resets(
    testbed: Testbed,
    programs: Programs,
    *,
    rounds: int,
    progress: Callable[[str], None] = lambda _: None,
) -> list[LateResets]:
    """Return the packets and interrupts at each of `LOADS`.

    Raises
    ------
    RunError
        If a run fails.
    """
    found = [LateResets(name, [], []) for name in LOADS]
    for number in range(rounds):
        for row, load in zip(found, LOADS.values(), strict=True):
            progress(f"round {number + 1} of {rounds}: {row.load}")
            point = Point.of(server={"mechanism": "epoll_level"}, load=load)
            trace = trace_to_replay(point, point.seed(number), TIMING.run_seconds(point))
            run = run_trace(
                point, trace, testbed=testbed, programs=programs, series=Series(), timing=TIMING
            )
            n_connections = np.count_nonzero(run.records.started_ns >= 0)
            n_packets = run.packets["sent"] - run.packets["syn_repeated"]
            n_packets -= run.packets["data_repeated"]
            row.packets.append(n_packets / n_connections)
            row.interrupts.append(run.result.cpu.n_calls / run.result.replied)
    return found


def late_resets_table(found: Sequence[LateResets]) -> Table:
    """Return a row for each load."""
    columns: list[Column[LateResets]] = [
        Column("load", lambda row: row.load, words=True),
        Column("packets of the client", lambda row: row.packets, range_text),
        Column("late resets", _late, range_text),
        Column("interrupts of the server", lambda row: row.interrupts, range_text),
    ]
    return Table.of(
        "Packets and interrupts a connection: median (least ... greatest)",
        list(found),
        columns,
        f"A connection whose client's reset comes first has {PACKETS_OF_RESET_FIRST} packets.",
    )


def _late(row: LateResets) -> list[float]:
    return [n - PACKETS_OF_RESET_FIRST for n in row.packets]
