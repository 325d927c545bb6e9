"""RT signals: each event on a descriptor queues a signal, and sigwaitinfo takes one a call.

            interrupt                       sigwaitinfo
    event ──────────► queue of signals ──────────────────► readiness ──► event
             steals ns   bounded: SIGIO        one

Three calls of fcntl arm a connection. The signal is blocked, and only ever taken from the queue.
When the queue was full the server flushes it and asks all descriptors for their state (poll).
Sources: Chandra and Mosberger 2001, §3.4; Provos and Lever 2000, §5;
models/signals/signal_queue.py; calibration/servers/rt_signals.c.
"""

from __future__ import annotations

from .signalled import asking, signalled

RT_SIGNALS = signalled("rt_signals", asking(1))
