"""What a server does, so far as a forecast must know it: recognised, or told by its owner.

run's server section ── says ──┐
Habits of the owner  ── else ──┴─► Habits of that run
"""

from __future__ import annotations

from dataclasses import dataclass

from ..points.points import Share, Wake
from .observed_run import ObservedServer


@dataclass(frozen=True)
class Habits:
    """How the server does it.

    Attributes
    ----------
    mechanism:
        By the names of the catalogue.
    accept_limit:
        Connections for one notice; 0: until there is none.
    reads_after_accept:
        Whether it reads before it waits again.
    workers:
        Event loops that serve; one that only accepts and hands over is none of them.
    share, wake:
        Of several workers; what is handed over may be so to a single one.
    """

    mechanism: str
    accept_limit: int = 0
    reads_after_accept: bool = False
    workers: int = 1
    share: Share = "accept queue"
    wake: Wake = "all"

    @property
    def loops(self) -> int:
        """Event loops, the one that only accepts among them."""
        return self.workers + (self.share == "handed over")


def habits_of(server: ObservedServer, otherwise: Habits) -> Habits:
    """Return what *server* does; *otherwise* says what its run does not."""
    return Habits(
        server.mechanism or otherwise.mechanism,
        otherwise.accept_limit if server.accept_limit is None else server.accept_limit,
        otherwise.reads_after_accept
        if server.reads_after_accept is None
        else server.reads_after_accept,
        otherwise.workers if server.workers is None else server.workers,
        server.share or otherwise.share,
        server.wake or otherwise.wake,
    )
