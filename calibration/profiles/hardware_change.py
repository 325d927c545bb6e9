"""Change the hardware of a profile: clock rate, cost of system calls; both add uncertainty.

    profile ─┬─ clock x f ──► every CPU cost / f ... ─┬─► a profile, wider intervals
             └─ crossing ───► + difference per call ──┘

A faster clock shortens computation, not waits for memory. The computing share of a cost is not
measured; it is assumed to be from one half to all. So the factor is from 1/f to (1 + 1/f) / 2; its
middle is their geometric mean. Mitigations (for Meltdown and similar) make entering and leaving the
kernel more expensive for each call: `call.crossing_ns` of the profile.

Source: Gregg 2020, "Systems Performance", §6.3 (cycles that stall); Linux,
Documentation/admin-guide/hw-vuln (what mitigations do on the way into the kernel).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .cost import Cost
from .cost_profile import Profile, ProfileError

CLOCK_MAX = 100.0
CHANGED_FROM = "changed_from"
"""The fact of a changed profile that names the measured profile."""
_NOT_THE_CPU = {"network"}
_CROSSINGS: dict[str, int] = {
    "call.accept_ns": 1,
    "call.accept_again_ns": 1,
    "call.read_ns": 1,
    "call.read_again_ns": 1,
    "call.write_ns": 1,
    "call.close_ns": 1,
    "call.connect_ns": 2,  # socket() and connect()
    "call.crossing_ns": 1,
    "call_ns": 1,
    "arm_ns": 3,  # F_SETOWN, F_SETSIG, F_SETFL
    "mask_ns": 1,
    "entry_ns": 1,
    "flush_ns": 1,
}
"""Kernel entries in a cost: TABLE.COST, or a cost of any mechanism."""
_CHANGES = ("add_ns", "modify_ns", "delete_ns")
"""Each is a system call, except where a mechanism has entry_ns for several at once."""


class HardwareChange(NamedTuple):
    """What differs from the machine of a profile.

    Attributes
    ----------
    clock:
        Clock rate relative to the measured machine.
    crossing_ns:
        Cost of entering and leaving the kernel, before the clock is changed; None: unchanged.
    """

    clock: float = 1.0
    crossing_ns: float | None = None

    @property
    def is_none(self) -> bool:
        """Whether nothing changes."""
        return self == HardwareChange()


def changed(profile: Profile, change: HardwareChange) -> Profile:
    """Return *profile* on other hardware, with the uncertainty that this adds.

    Raises
    ------
    ProfileError
        If a number is out of range, or the profile lacks the cost of a crossing.
    """
    if not 1 / CLOCK_MAX <= change.clock <= CLOCK_MAX:
        raise ProfileError(
            f"clock: must be from {1 / CLOCK_MAX:g} to {CLOCK_MAX:g} times, got {change.clock:g}"
        )
    more_ns = (0.0, 0.0, 0.0)
    if change.crossing_ns is not None:
        known = profile.cost["call"].get("crossing_ns")
        if known is None:
            raise ProfileError(
                f"{profile.name}: cost.call.crossing_ns: must be in the profile to be changed, "
                "got none"
            )
        if not 0 <= change.crossing_ns <= 1e6:
            raise ProfileError(
                f"crossing: must be from 0 ns to 1 ms, got {change.crossing_ns:g} ns"
            )
        was = known.high[0], known.value[0], known.low[0]
        more_ns = tuple(change.crossing_ns - ns for ns in was)  # type: ignore[assignment]
    tables = {
        table: {
            name: _changed(cost, _crossings(table, name, costs), more_ns, change.clock)
            if table not in _NOT_THE_CPU
            else cost
            for name, cost in costs.items()
        }
        for table, costs in profile.cost.items()
    }
    facts = {**profile.machine, CHANGED_FROM: profile.name}
    name = f"{profile.name}{_words(change)}"
    return profile.model_copy(update={"name": name, "machine": facts, "cost": tables})


def _factors(clock: float) -> tuple[float, float]:
    """Return the least and the greatest factor of a cost at *clock* times the clock rate."""
    least, most = sorted((1 / clock, (1 + 1 / clock) / 2))
    return least, most


def clock_factor(clock: float) -> float:
    """Return the middle factor of costs at *clock* times the clock rate.

    >>> clock_factor(1.0)
    1.0
    """
    least, most = _factors(clock)
    return math.sqrt(least * most)


def _crossings(table: str, name: str, costs: dict[str, Cost]) -> int:
    if name in _CHANGES:
        return 0 if "entry_ns" in costs else 1
    if table == "interrupt":
        return 0
    return _CROSSINGS.get(f"{table}.{name}", 0 if table == "call" else _CROSSINGS.get(name, 0))


def _changed(cost: Cost, crossings: int, more_ns: tuple[float, float, float], clock: float) -> Cost:
    """Return *cost* at another clock, with a difference for each crossing (least, middle, most)."""
    least, most = _factors(clock)
    middle, doubt = clock_factor(clock), math.log(most / least) / 2
    columns: list[tuple[float, float, float]] = []
    for value, low, high in zip(cost.value, cost.low, cost.high, strict=True):
        # The old crossing is as uncertain as the cost: its uncertainty is added at both ends.
        low_ns, now_ns, high_ns = (
            max(0.0, ns + crossings * more)
            for ns, more in zip((low, value, high), more_ns, strict=True)
        )
        if low_ns <= 0 or now_ns <= 0:
            columns.append((now_ns * middle, 0.0, max(now_ns * middle, high_ns * most)))
            continue
        # Independent uncertainties add as squares; of logarithms, because intervals are factors.
        below = math.hypot(math.log(now_ns / low_ns), doubt)
        above = math.hypot(math.log(high_ns / now_ns), doubt)
        now = now_ns * middle
        columns.append((now, now * math.exp(-below), now * math.exp(above)))
    values, lows, highs = zip(*columns, strict=True)
    return cost.model_copy(update={"value": values, "low": lows, "high": highs})


def _words(change: HardwareChange) -> str:
    """Return the changes, for the name of a profile.

    >>> _words(HardwareChange(clock=1.5, crossing_ns=300.0))
    ', clock x 1.5, crossing 300 ns'
    """
    clock = "" if change.clock == 1 else f", clock x {change.clock:g}"
    crossing = "" if change.crossing_ns is None else f", crossing {change.crossing_ns:g} ns"
    return clock + crossing
