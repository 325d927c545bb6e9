"""The machines of the papers by name."""

from __future__ import annotations

from .alpha import ALPHA
from .cloud_vm import CLOUD_VM
from .machine import PeriodMachine
from .pentium3 import PENTIUM3
from .xeon import XEON

MACHINES: dict[str, PeriodMachine] = {
    machine.name: machine for machine in (ALPHA, PENTIUM3, XEON, CLOUD_VM)
}
