"""The machines of the papers by name; those of which little is known stand here whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..profiles.cost_profile import period_folder
from .k6 import K6
from .machine import SINCE_2_6_30, PeriodMachine
from .pentium3 import PENTIUM3
from .xeon import XEON

ALPHA = PeriodMachine(
    name="decstation-3000-osf1",
    about="DECstation 3000/300 (Alpha 21064) of Mogul and Ramakrishnan 1996",
    kernel="Digital UNIX V3.2",
    mechanisms=("select",),
    # An interrupt and a packet together take 7.0 us on our machine; here 4700 packets a second are
    # the most that are forwarded without a user's process (figure 6-1), 213 us each.
    factor=(27.0, 34.0),
    absent=SINCE_2_6_30,
    steps=(),
)
"""The DECstation of Mogul and Ramakrishnan 1996, as far as packets go."""

CLOUD_VM = PeriodMachine(
    name="cloud-vm-2019",
    about="3 virtual CPUs of a DigitalOcean host, of Bruguera 2019",
    kernel="4.x",
    mechanisms=("select", "poll", "epoll_level", "blocking"),
    steps=(),
    factor=(0.4, 1.6),  # 2.5 GHz and one instruction a cycle; four, for a VM exit and its caches
    delay_ns=(50_000.0, 300_000.0),  # one way, between hosts of one data centre
)
"""The hosts of Bruguera 2019: virtual machines of a cloud, of whose costs nothing is stated.

Proportions of the counted machine, of which an instruction takes a nanosecond, times the time of
one on a virtual machine of that year.
"""

MACHINES: dict[str, PeriodMachine] = {
    machine.name: machine for machine in (ALPHA, K6, PENTIUM3, XEON, CLOUD_VM)
}


def write_profiles() -> Iterator[Path]:
    """Write the profile of every machine anew, each whole or not at all; yield where."""
    for name, machine in MACHINES.items():
        path = period_folder() / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        machine.profile().write(path)
        yield path
