"""sigtimedwait4: one call takes many queued signals, and says by their number how busy it is.

            interrupt                       sigtimedwait4
    event ──────────► queue of signals ──────────────────► readiness ──► events
             steals ns   bounded: SIGIO     up to 500

One pass over the queue for all of them. A timeout of zero returns EAGAIN where none is queued, a
negative one waits without end; with room for one signal it is sigtimedwait.
Never merged into Linux. Source: Provos, Lever and Tweedie 2000, §3 and §5 (500 signals);
calibration/servers/sigtimedwait4.c.
"""

from __future__ import annotations

from .signalled import asking, signalled

SIGNALS_MAX = 500

SIGTIMEDWAIT4 = signalled("sigtimedwait4", asking(SIGNALS_MAX), fds=1)
