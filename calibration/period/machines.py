"""The machines of the papers by name."""

from __future__ import annotations

from .alpha import ALPHA
from .machine import PeriodMachine
from .pentium3 import PENTIUM3

MACHINES: dict[str, PeriodMachine] = {machine.name: machine for machine in (ALPHA, PENTIUM3)}
