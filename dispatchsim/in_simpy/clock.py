"""The time of a SimPy environment, which has no unit, in ns of a run.

    unit "ns"            whole numbers; a fraction is refused, as it belongs to another unit
    unit "us", "ms", "s" numbers of any kind, rounded to the nanosecond

All servers of an environment have the same unit: two would mean two speeds of time.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import simpy

from ..scenario.errors import UserError
from ..scenario.quantities import DURATION, shown
from ..sim.state.kinds import NEVER_NS

NS_PER = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class _Registered(NamedTuple):
    unit: str
    n_servers: int


_REGISTERED: WeakKeyDictionary[simpy.Environment, _Registered] = WeakKeyDictionary()


def register(env: simpy.Environment, unit: str) -> int:
    """Return the number of a new server of *env*: the number of servers so far.

    Raises
    ------
    UserError
        If these have another unit.
    """
    known = _REGISTERED.get(env, _Registered(unit, 0))
    if known.unit != unit:
        raise UserError(
            f'unit: must be "{known.unit}" as for the other servers of this environment, '
            f'got "{unit}"'
        )
    _REGISTERED[env] = _Registered(unit, known.n_servers + 1)
    return known.n_servers


class HostClock:
    """The time of *env* in ns since now.

    Parameters
    ----------
    env:
        The environment.
    unit:
        Unit of its time: a key of `NS_PER`.
    duration_ns:
        Length of the run.

    Raises
    ------
    UserError
        If the environment's time is a fraction of a nanosecond, or too large to resolve one.
    """

    def __init__(self, env: simpy.Environment, unit: str, duration_ns: int) -> None:
        if unit not in NS_PER:
            raise UserError(f"unit: must be one of {', '.join(NS_PER)}, got {shown(unit)}")
        self.env = env
        self.unit = unit
        self._per = NS_PER[unit]
        self.start = env.now
        if self._per == 1:
            self._whole(env.now, "env.now")
        step_ns = math.ulp(float(env.now) + duration_ns / self._per) * self._per
        if step_ns > 0.5 and not (self._per == 1 and isinstance(env.now, int)):
            raise UserError(
                f"env.now: must be small enough for floating point to resolve nanoseconds "
                f"until the end of the run, got {env.now} {unit}: begin at 0, or use whole ns"
            )

    def now_ns(self) -> int:
        """Return the time now."""
        if self._per == 1:
            return self._whole(self.env.now - self.start, "env.now")
        return round((self.env.now - self.start) * self._per)

    def next_ns(self) -> int:
        """Return a time at or before the next event of the environment."""
        next_at = self.env.peek()
        if next_at == math.inf:
            return NEVER_NS
        return math.floor((next_at - self.start) * self._per)

    def delay(self, at_ns: int) -> float:
        """Return the time until *at_ns*, in the unit of the environment."""
        return max(0, self.time_of(at_ns) - self.env.now)

    def time_of(self, at_ns: int) -> float:
        """Return *at_ns* as a time of the environment; whole in ns."""
        return self.start + (at_ns if self._per == 1 else at_ns / self._per)

    def duration_ns(self, name: str, value: Any) -> int:
        """Return the duration *value*, in the environment's unit, in ns.

        Raises
        ------
        UserError
            With *name*, unless it is a number above 0, and a whole one if the unit is ns.
        """
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not (is_number and 0 < value < math.inf):
            raise UserError(f"{name}: must be a number of {self.unit} above 0, got {shown(value)}")
        if self._per == 1:
            return self._whole(value, name)
        return max(1, round(float(value) * self._per))

    def words(self, at_ns: int) -> str:
        """Return a time of the run in words."""
        return DURATION.format(at_ns)

    def _whole(self, value: float, name: str) -> int:
        if value != int(value):
            raise UserError(
                f"{name}: must be a whole number of ns, got {value}: round() random times, or give "
                f'the unit of the environment, e.g. unit="s"'
            )
        return int(value)
