"""What a kernel does in its own way, by its version, that no cost can say.

    profile.kernel "6.18.44" ──► settings of a run

Only io_uring's so far. What is due: since Linux 6.13 20 pieces at a time ("io_uring: limit local tw
done"); before that all there was, of which those after 6.8 leave to the next call what comes
meanwhile, which is not modelled; before 6.5 the last first ("io_uring: maintain ordering for
DEFER_TASKRUN tw list"). A multishot accept: before 6.10 a look in vain after the last connection
("io_uring/net: wire up IORING_CQE_F_SOCK_NONEMPTY for accept").
"""

from __future__ import annotations

import re

from ..sim.state.settings import ServerSettings

_ALL = 0
_IN_ORDER_SINCE, _NO_LOOK_SINCE, _SOME_SINCE = (6, 5), (6, 10), (6, 13)


def with_habits(server: ServerSettings, mechanism: str, kernel: str) -> ServerSettings:
    """Return *server* as *kernel* runs it with *mechanism*; a kernel without a version is new.

    >>> with_habits(ServerSettings(), "io_uring", "6.1.0").due_last_first
    True
    >>> with_habits(ServerSettings(), "io_uring", "6.18.44-cloud").due_at_once
    20
    """
    version = re.match(r"(\d+)\.(\d+)", kernel)
    if mechanism != "io_uring" or version is None:
        return server
    known = (int(version[1]), int(version[2]))
    if known >= _SOME_SINCE:
        return server
    return server._replace(
        due_at_once=_ALL,
        due_last_first=known < _IN_ORDER_SINCE,
        accept_looks_again=known < _NO_LOOK_SINCE,
    )
