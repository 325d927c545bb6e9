"""How much longer packets and calls take if they alternate, by a microbenchmark (`serve_amid`).

    packets alone + calls alone  <  both at once     they displace each other from the caches
    calls by kind  <  calls connection by connection     so do calls of different kinds

Connections come one by one, with an interrupt each, or several at once, with fewer interrupts. The
difference between both depends on interrupts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...sim.files.tables import Column, Table
from ...sim.state.units import MICROSECOND_NS
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .microbenchmarks import run_bench
from .packet_times import range_text

AT_ONCE = (1, 2, 16)
"""How many connections begin at once."""
STEPS = {
    "packets of a connection, the server computes": "computing_ns",
    "calls, each kind for all connections before the next": "by_kind_ns",
    "calls, connection by connection": "quiet_ns",
    "packets and calls, connection by connection": "amid_ns",
    "both, less packets and calls alone": "median",
    "interrupts a connection (number)": "amid_interrupts",
}
"""What is measured: a field of the bench's result."""


class Displacement(NamedTuple):
    """A step of `STEPS` in us, or a number, by round, for each number of connections at once."""

    step: str
    found: Mapping[int, Sequence[float]]


def measure_displacement(
    testbed: Testbed,
    programs: Programs,
    *,
    rounds: int,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Displacement]:
    """Return the times of all steps.

    Raises
    ------
    RunError
        If a bench fails.
    """
    found: dict[str, dict[int, list[float]]] = {step: {n: [] for n in AT_ONCE} for step in STEPS}
    for number in range(rounds):
        for n in AT_ONCE:
            progress(f"round {number + 1} of {rounds}: {n} at once")
            (result,) = run_bench(
                f"serve_amid --burst {n}", number, testbed=testbed, programs=programs
            )
            values = result.model_dump()
            for step, field in STEPS.items():
                is_number = field.endswith("interrupts")
                found[step][n].append(values[field] / (1 if is_number else MICROSECOND_NS))
    return [Displacement(step, own) for step, own in found.items()]


def displacement_table(times: Sequence[Displacement]) -> Table:
    """Return a row for each step: its median, with the least and the greatest of the rounds."""
    columns: list[Column[Displacement]] = [
        Column("step", lambda each: each.step, words=True),
        *(Column(f"{n} at once", _at_once(n), range_text) for n in AT_ONCE),
    ]
    return Table.of(
        "Packets and calls of a connection: median of the rounds (least ... greatest), us",
        list(times),
        columns,
        "At once: connections whose requests to connect follow each other. The last row is the "
        "median of differences, so it may differ a little from that of the medians above.",
    )


def _at_once(n: int) -> Callable[[Displacement], Sequence[float]]:
    return lambda each: each.found[n]
