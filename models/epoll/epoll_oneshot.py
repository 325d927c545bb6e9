"""epoll with EPOLLONESHOT: a returned descriptor is disarmed until the server arms it again.

    ADD ──► armed ──event──► returned, disarmed ──served──► MOD ──► armed, or listed at once

So it costs an epoll_ctl more for each request after which the connection stays, and nothing where
it ends. In return several threads may wait on one set and none gets what another serves (with a
ready list in common epoll_level is armed so, too: sim/kernel/interest_set.py). The listener stays
armed.
Sources: epoll(7), EPOLLONESHOT; Linux fs/eventpoll.c ep_send_events(), ep_modify().
"""

from __future__ import annotations

from .epoll_level import EPOLL_LEVEL

EPOLL_ONESHOT = EPOLL_LEVEL._replace(name="epoll_oneshot", one_shot=True)
