"""What requests wait for besides a CPU: a backend that is busy, as part of a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from ..scenario.formats import number_text, share_text, time_text
from ..scenario.scenario import Scenario
from ..sim.state.units import SECOND_NS

BACKEND_BUSY = 0.9
"""A backend, or all connections to it, that is busy for this share of the time is named."""
BACKEND_FIGURES = ("backend_waiting", "backend_working")
"""The metrics that tell how busy it is."""


def busy_backend(
    scenario: Scenario, figures: Mapping[str, float], least: float = BACKEND_BUSY
) -> str:
    """Return how busy the backend, or connections to it, are; empty below a share of *least*."""
    backend = scenario.backend
    if backend.connections is None:
        return ""
    working, waiting = figures["backend_working"], figures["backend_waiting"]
    used = working / backend.limit if backend.limit is not None else 0.0
    taken = (working + waiting) / backend.connections
    if backend.limit is not None and used >= least:
        most = _most(scenario, backend.limit)
        return f"the backend is busy {share_text(used)} of the time: {most}"
    if taken >= least:
        busy = f"connections to the backend are busy {share_text(taken)} of the time"
        return f"{busy}: {_most(scenario, backend.connections)}"
    return ""


def _most(scenario: Scenario, n_at_once: int) -> str:
    """Return what so many requests at once come to, in words."""
    backend = scenario.backend
    mean_ns = backend.law.mean
    text = f"{number_text(n_at_once, trim=True)} at once of {time_text(mean_ns, trim=True)}"
    if mean_ns == 0 or backend.share == 0:
        return text
    per_s = n_at_once * SECOND_NS / (mean_ns * backend.share)
    of_those = "" if backend.share == 1 else f", of which {share_text(backend.share)} need it"
    return f"{text} are {number_text(per_s, trim=True)} requests/s{of_those}"
