"""Redis: one thread, an event loop of its own (ae) over epoll; it takes up to 1000 at a time.

Source: redis.conf of Redis 7.0; its ae_epoll.c and networking.c, MAX_ACCEPTS_PER_CALL.
"""

from __future__ import annotations

from ...calibration.observed.habits import Habits
from ...calibration.observed.observing import Asking
from .description import ADDRESS, RealServer, Variant

REDIS = RealServer(
    name="redis",
    package="redis-server",
    port=6400,
    asking=Asking(protocol="resp", key_prefix="key:", keys=100),
    value_bytes=100,
    fitted=Variant(
        "epoll",
        Habits("epoll_level", accept_limit=0),
        (
            "redis-server", "--port", "6400", "--bind", ADDRESS, "--protected-mode", "no",
            "--save", "", "--appendonly", "no", "--maxclients", "19000",
        ),
    ),
)  # fmt: skip
