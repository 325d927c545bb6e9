"""The worked example of CONTRIBUTING.md: a new metric is one entry of the table."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

from dispatchsim.scenario.metrics import METRICS

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"

EXAMPLE = """
import importlib.util, sys

# The table as it would be with one more entry: nothing else is written anywhere.
found = importlib.util.find_spec("dispatchsim.scenario.metrics")
before = found.loader.get_source(found.name)
after = before.replace("_MAIN = (\\n", f"_MAIN = (\\n{ENTRY},\\n")
assert after != before
module = importlib.util.module_from_spec(found)
sys.modules[found.name] = module
exec(compile(after, found.origin, "exec"), module.__dict__)

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
    section = CONTRIBUTING.read_text().partition("### A new metric\n")[2]
    entry = section.partition("```python\n")[2].partition("```")[0].rstrip()
    code = f"ENTRY = {entry!r}\n{EXAMPLE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "waits per second" in done.stdout
    assert done.stdout.splitlines()[-4:] == ["True", "True", "waits < 5,000/s", "True"]


def test_values_that_are_none_or_counts_are_written_as_such() -> None:
    for metric in METRICS.values():
        assert metric.exact(math.nan) == "none"
    assert METRICS["events_per_wait"].exact(12.0) == "12"
    assert METRICS["p99_ns"].exact(math.inf) == "infinite"
