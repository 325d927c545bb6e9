"""signalfd: queued signals are read from a descriptor, many a call.

            interrupt                       read(signalfd)
    event ──────────► queue of signals ──────────────────► readiness ──► events
             steals ns   bounded: SIGIO     up to 500

What Linux has of the idea of sigtimedwait4 today.
Sources: signalfd(2); Linux fs/signalfd.c signalfd_read(); calibration/servers/signalfd_batch.c.
"""

from __future__ import annotations

from .signalled import asking, signalled
from .sigtimedwait4 import SIGNALS_MAX

FDS = 2
"""One that blocks and one that does not: it is a property of the descriptor."""

SIGNALFD = signalled("signalfd", asking(SIGNALS_MAX), fds=FDS)
