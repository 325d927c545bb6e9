"""Classes of clients: a few busy ones beside many quiet ones, each with requests of its own."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from .kinds import NONE
from .laws import Counts, Law, ReplyMix

CLASSES_MAX = 16


class ClientClass(NamedTuple):
    """Clients that are alike.

    Attributes
    ----------
    share_permille:
        Of the connections of an open loop; of the users of a closed one; of the connections that
        are kept. The shares of all classes add up to a thousand.
    requests:
        How many each of its connections makes.
    request_bytes, reply_bytes, reply_mix:
        The size of each request and of the replies on a connection; a mixture, where there is one.
    pause:
        How its pauses are distributed; with a mean of 0 there are none.
    path:
        The number of the path of its connections; NONE: they are on all paths by their shares.
    requests_permille:
        Of kept connections: the share of all requests that is due on those of the class; those of
        all classes add up to a thousand.
    """

    share_permille: int
    requests: Counts = Counts()
    request_bytes: int = 64
    reply_bytes: int = 128
    reply_mix: ReplyMix | None = None
    pause: Law = Law("exponential")
    path: int = NONE
    requests_permille: int = 0

    @property
    def has_drawn_pauses(self) -> bool:
        """Whether its pauses differ from each other."""
        return self.pause.kind != "constant" and self.pause.mean > 0


def class_sizes(classes: tuple[ClientClass, ...], n: int) -> list[int]:
    """Return how many of *n* clients are of each class: their shares, rounded up to all of them.

    >>> class_sizes((ClientClass(10), ClientClass(990)), 250)
    [2, 248]
    """
    ends, upto = [0], 0
    for each in classes:
        upto += each.share_permille
        ends.append(round(upto * n / 1_000))
    return [end - begin for begin, end in itertools.pairwise(ends)]
