"""signal-per-fd: at most one queued signal for each descriptor, which stands for all its events.

                  bit set?  interrupt                       sigwaitinfo, clears the bit
    event ──────► nothing
             └──► no ──────► queue of signals ──────────────────► readiness ──► event
                             one a descriptor        one

The queue holds no more signals than there are descriptors, so a bound of that many is never
reached. A signal says that something happened, not what: the server asks the descriptor. The bit
belongs to a number: after a close it may stand for the next connection of that number.
Never merged into Linux. Source: Chandra and Mosberger 2001, §5; calibration/servers/
signal_per_fd.c.
"""

from __future__ import annotations

from ...sim.state.columns import MakeColumn
from ...sim.state.settings import ServerSettings
from .signal_queue import SignalMemory, signal_memory
from .signalled import asking, signalled


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> SignalMemory:
    """Return an empty queue that coalesces."""
    return signal_memory(server, n_fds, column, coalesced=True)


SIGNAL_PER_FD = signalled("signal_per_fd", asking(1), memory=memory)
