"""The bottleneck besides a CPU, as part of a sentence: the link or a backend.

busiest of these ─► at least 90% busy, and busier than each CPU? ─► it is named
"""

from __future__ import annotations

from collections.abc import Mapping

from ..scenario.formats import number_text, share_text, time_text
from ..scenario.scenario import Scenario
from ..sim.state.units import SECOND_NS

_BUSY = 0.9
"""Use from which a resource counts as the bottleneck."""
BUSIEST = "cpu_busiest"
LINK = "link_busy"
_BACKEND_FIGURES = ("backend_full", "backend_waiting", "backend_working")


def figures_for(scenario: Scenario) -> tuple[str, ...]:
    """Return the metrics of *scenario* that `bottleneck` needs."""
    of_backend = _BACKEND_FIGURES if scenario.backend.connections is not None else ()
    return (BUSIEST, LINK, *of_backend)


def bottleneck(scenario: Scenario, figures: Mapping[str, float]) -> str:
    """Return the resource busier than the CPUs, and its use; empty below 90%.

    A backend that works on 19 requests of 20 is 95% busy; it is full while it works on all 20.
    """
    link = figures[LINK]
    known = [(link, f"the link is {share_text(link)} busy"), *_of_backend(scenario, figures)]
    used, sentence = max(known, key=lambda each: each[0])
    return sentence if used >= _BUSY and used > figures[BUSIEST] else ""


def _of_backend(scenario: Scenario, figures: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return the use of the backend, or of the connections to it if they are fewer, in words."""
    backend = scenario.backend
    if backend.connections is None:
        return []
    working = figures["backend_working"]
    if backend.limit is not None and backend.limit <= backend.connections:
        full = share_text(figures["backend_full"])
        most = _most(scenario, backend.limit)
        return [(working / backend.limit, f"the backend is full {full} of the time: {most}")]
    taken = (working + figures["backend_waiting"]) / backend.connections
    most = _most(scenario, backend.connections)
    return [(taken, f"connections to the backend are {share_text(taken)} busy: {most}")]


def _most(scenario: Scenario, n_at_once: int) -> str:
    """Return the rate that *n_at_once* requests at once allow, in words."""
    backend = scenario.backend
    mean_ns = backend.law.mean
    text = f"{number_text(n_at_once, trim=True)} requests at once"
    if mean_ns == 0 or backend.share == 0:
        return text
    per_s = number_text(n_at_once * SECOND_NS / (mean_ns * backend.share), trim=True)
    of_those = "" if backend.share == 1 else f" if {share_text(backend.share)} of them need it"
    return f"{text}, {time_text(mean_ns, trim=True)} each, allow {per_s} requests/s{of_those}"
