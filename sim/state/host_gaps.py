"""Gaps of the host: a recording of when a CPU of a guest did not run, played over and over.

    recording    ─── ▇ ─────── ▇▇ ── ▇ ─│─── ▇ ─────── ▇▇ ── ▇ ─│     period_ns
    run               └ begins here, drawn

The recording of a CPU is what a program that spins there finds (calibration/c/micro/gaps.c).
"""

from __future__ import annotations

from typing import NamedTuple


class HostGaps(NamedTuple):
    """Gaps of one CPU, in order of time; none overlap, and all end before period_ns is over.

    A run begins at a time of it that is drawn from its seed, of each CPU another, or at its
    beginning.
    """

    at_ns: tuple[int, ...] = ()
    length_ns: tuple[int, ...] = ()
    period_ns: int = 0
    is_drawn: bool = True

    @property
    def share(self) -> float:
        """Share of the time that the host takes."""
        return sum(self.length_ns) / self.period_ns if self.period_ns else 0.0


NO_GAPS = HostGaps()


def gaps_problem(gaps: HostGaps) -> str:
    """Return the rule that *gaps* break, with the value; empty if they keep all."""
    n, n_lengths = len(gaps.at_ns), len(gaps.length_ns)
    if n != n_lengths:
        return f"at_ns must have a length each, got {n} and {n_lengths}"
    end_ns = 0
    for at_ns, length_ns in zip(gaps.at_ns, gaps.length_ns, strict=True):
        if at_ns < end_ns:
            return f"at_ns must be in order, each behind the gap before it, got {at_ns}"
        if length_ns < 1:
            return f"length_ns must be at least 1, got {length_ns}"
        end_ns = at_ns + length_ns
    if end_ns > gaps.period_ns or (
        n > 0 and end_ns - gaps.at_ns[0] == gaps.period_ns == sum(gaps.length_ns)
    ):
        return f"period_ns must hold all gaps, and some time between them, got {gaps.period_ns}"
    return ""
