"""What papers that used httperf leave open of it."""

from __future__ import annotations

from .paper import Choice, Unstated

TIMEOUT = Unstated("load.timeout", 1, 10, "s", "httperf's, as others of that time set it")


def arrivals(otherwise: str) -> Choice:
    """Return how requests are spaced; *otherwise* says why it may not be evenly."""
    why = f"one httperf spaces its requests evenly; {otherwise}"
    return Choice("load.arrivals", ("constant", "poisson"), why)
