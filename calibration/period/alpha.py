"""The DECstation of Mogul and Ramakrishnan 1996, as far as packets go."""

from __future__ import annotations

from .machine import SINCE_2_6_30, PeriodMachine

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
