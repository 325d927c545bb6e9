"""The reference of figures: what is known of each run, by name and unit."""

from __future__ import annotations

from dispatchsim.scenario.metrics import METRICS

_HEAD = """# Figures by name and unit

What is known of each run. These names are columns of the store and of every frame, and are what
`--figure`, `--columns` and `--where` take. Latency begins when a connection was *due*, whatever its
client did then; all is counted in the window after the warm-up.

| figure | unit | what it is |
|---|---|---|
"""


def figure_page() -> str:
    """Return the page on figures."""
    rows = [
        f"| `{name}` | {metric.unit or metric.kind} | {metric.about} |"
        for name, metric in METRICS.items()
    ]
    return _HEAD + "\n".join(rows) + "\n"
