"""The worked example of CONTRIBUTING.md: a new metric is one entry of the table."""

from __future__ import annotations

import math
import subprocess
import sys

from dispatchsim.scenario.metrics import METRICS

EXAMPLE = """
from dispatchsim.scenario import metrics
from dispatchsim.scenario.metrics import Kind, Metric

NEW = Metric(
    "waits_per_s", Kind.RATE, "waits per second", "waits / s", "waits of the server per second",
    lambda s: s.calls["waits"] * 1e9 / s.window_ns, short="waits",
)
metrics._MAIN += (NEW,)
metrics.MAIN += (NEW.name,)
metrics.METRICS[NEW.name] = NEW
metrics.ASKED_AS[NEW.short] = NEW

import dispatchsim as ds
from docs.making.reference_pages import figure_page
from rich.console import Console
from dispatchsim.command_line.rendering import print_result
from dispatchsim.studies.objective import read_objective

scenario = ds.Scenario.of(
    server={"mechanism": "epoll_level"},
    load={"loop": "open", "rate": "2000/s"},
    run={"duration": "50 ms", "warm_up": "10 ms", "replications": 2, "engine": "reference"},
)
result = ds.run(scenario)
print_result(Console(width=100), result)
print(result.to_dict()["estimates"]["waits_per_s"]["mean"] > 0)
print(ds.sweep(scenario, ["idle.connections=0,10"]).frame["waits_per_s"].min() > 0)
print(read_objective("waits < 5000/s"))
print("| `waits_per_s` | 1/s |" in figure_page())
"""


def test_a_metric_is_one_entry() -> None:
    """Its row in a table, its column, its objective and its line in the reference follow."""
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "waits per second" in done.stdout
    assert done.stdout.splitlines()[-4:] == ["True", "True", "waits < 5,000/s", "True"]


def test_values_that_are_none_or_counts_are_written_as_such() -> None:
    for metric in METRICS.values():
        assert metric.exact(math.nan) == "none"
    assert METRICS["events_per_wait"].exact(12.0) == "12"
    assert METRICS["p99_ns"].exact(math.inf) == "for ever"
