"""The vocabulary of a run: marks and bits, and the lists of integers as enumerations.

The lists stand in modules of plain integers: activity, count, occurrence, stage and status. Laws
and mechanisms use these (`activity.READ`): looking up a member of an enumeration takes Python many
times as long. `Activity`, `Count` and the others are made from the modules, for code that prints
names or walks through all members.
"""

from __future__ import annotations

from enum import IntEnum
from types import ModuleType
from typing import Any

from . import activity, count, occurrence, stage, status

SLEEP = -1
"""What a mechanism yields when it blocks until its descriptors call it."""

READABLE = 1
WRITABLE = 2
"""Bits of a descriptor's state and of an interest in it."""

NONE = -1
"""No descriptor, no connection, no time."""

NOT_ENDED, IS_GONE, SENDS_NO_MORE = 0, 1, 2
"""`World.ended`: what the server knows of the client's end of a connection. The client that has
reset it is gone: nothing can be sent to it. The client that has sent a FIN sends no more."""

SERVER_CLOSED, CLIENT_CLOSED, SERVER_RESET = 1, 2, 4
"""Bits of `World.ending`: the client has the server's FIN, the client has closed, the server has
answered with a reset, after which it knows of no connection."""


def enumeration(name: str, module: ModuleType) -> Any:
    """Return the integers of *module* as an enumeration of that *name*.

    >>> enumeration("Activity", activity)(3).name
    'READ'
    """
    members = {key: value for key, value in vars(module).items() if key.isupper()}
    return IntEnum(name, members, module=__name__)


Activity = enumeration("Activity", activity)
Count = enumeration("Count", count)
Occurrence = enumeration("Occurrence", occurrence)
Stage = enumeration("Stage", stage)
Status = enumeration("Status", status)
