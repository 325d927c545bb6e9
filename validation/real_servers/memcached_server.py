"""memcached: one thread accepts and hands connections over, others serve them, each with libevent.

An environment variable takes a back end out of libevent's choice, so the same program waits with
epoll, with poll, or with select, which aborts beyond 1024 descriptors.
Sources: memcached(1); memcached's doc/threads.txt; event.h of libevent 2.1, event_base_new().
"""

from __future__ import annotations

from dataclasses import replace

from ...calibration.observed.habits import Habits
from ...calibration.observed.observing import Asking
from .description import ADDRESS, RealServer, Variant

_ONE = Habits("epoll_level", accept_limit=1, share="handed over")
_COMMAND = ("memcached", "-p", "11311", "-U", "0", "-l", ADDRESS, "-u", "nobody", "-c", "20000")
NO_EPOLL = {"EVENT_NOEPOLL": "1"}
NO_POLL = NO_EPOLL | {"EVENT_NOPOLL": "1"}

MEMCACHED = RealServer(
    name="memcached",
    package="memcached",
    port=11311,
    asking=Asking(protocol="memcached", key_prefix="key:", keys=100),
    value_bytes=100,
    fitted=Variant("epoll", _ONE, (*_COMMAND, "-t", "1")),
    others=(
        Variant("poll", replace(_ONE, mechanism="poll"), (*_COMMAND, "-t", "1"), NO_EPOLL),
        Variant("select", replace(_ONE, mechanism="select"), (*_COMMAND, "-t", "1"), NO_POLL),
        Variant("two threads", replace(_ONE, workers=2), (*_COMMAND, "-t", "2")),
    ),
)
