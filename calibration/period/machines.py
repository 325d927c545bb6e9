"""The machines of the papers by name."""

from __future__ import annotations

from .alpha import ALPHA
from .cloud_vm import CLOUD_VM
from .k6 import K6
from .machine import PeriodMachine
from .pentium3 import PENTIUM3
from .xeon import XEON

MACHINES: dict[str, PeriodMachine] = {
    machine.name: machine for machine in (ALPHA, K6, PENTIUM3, XEON, CLOUD_VM)
}
