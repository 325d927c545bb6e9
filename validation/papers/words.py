"""How papers are read: one number for each word of their claims, what users of httperf left open.

Words that only one paper has ("small", "slowly") are read where they stand. Numbers that a paper
gives are held to: CPU and rates 10%, counts 20%, profile shares 2 points.
"""

from __future__ import annotations

from .paper import Choice, Unstated

RATE = 0.10
"""CPU and rates; "similar", "comparable", "tracks", "independent of"."""
COUNT = 0.20
"""Counts of calls and events."""
POINTS = 0.02
"""Shares of a profile, and errors that are said to be none."""
SAME = 0.05
"""Of "identical", "very similar", "very close"."""
MUCH = 2 / 3
"""At most this share of the other is "much less", "dramatically lower"; at least its inverse "much
more"."""
LESS = 0.95
"""At most this share of the other is "less" or "affected"."""
ALL = 0.97
"""At least this share of a CPU is "100%", "saturated"."""
KEPT = 0.95
"""At least this share of what was asked for is answered where a server "keeps up"."""
LOST = 0.90
"""At most this share is answered where it "loses load", "drops", "breaks down"."""
DROP = 0.70
"""At most this share of its peak is left where a server "drops sharply"; at least as much, where it
"declines slowly"."""
LINEAR = 0.98
"""At least this R squared is "linear"."""


TIMEOUT = Unstated("load.timeout", 1, 10, "s", "httperf's, as others of that time set it")


def arrivals(otherwise: str) -> Choice:
    """Return how requests are spaced; *otherwise* says why it may not be evenly."""
    why = f"one httperf spaces its requests evenly; {otherwise}"
    return Choice("load.arrivals", ("constant", "poisson"), why)
