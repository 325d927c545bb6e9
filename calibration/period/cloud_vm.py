"""The hosts of Bruguera 2019: virtual machines of a cloud, of whose costs nothing is stated.

Proportions of the counted machine, of which an instruction takes a nanosecond, times what it takes
on a virtual machine of that year.
"""

from __future__ import annotations

from .machine import PeriodMachine

CLOUD_VM = PeriodMachine(
    name="cloud-vm-2019",
    about="3 virtual CPUs of a DigitalOcean host, of Bruguera 2019",
    kernel="4.x",
    mechanisms=("select", "poll", "epoll_level", "blocking"),
    steps=(),
    factor=(0.4, 1.6),  # 2.5 GHz and one instruction a cycle; four, for a VM exit and its caches
    delay_ns=(50_000.0, 300_000.0),  # one way, between hosts of one data centre
)
