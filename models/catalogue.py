"""The mechanisms by name."""

from __future__ import annotations

from ..sim.mechanism import Mechanism
from .epoll_level import EPOLL_LEVEL
from .poll_pollfd import POLL
from .select_fdset import SELECT

MECHANISMS: dict[str, Mechanism] = {m.name: m for m in (SELECT, POLL, EPOLL_LEVEL)}
"""Every built-in mechanism, in the order of the literature."""
