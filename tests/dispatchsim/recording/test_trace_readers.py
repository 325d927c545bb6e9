"""What others' readers make of a trace: Chromium's trace viewer, and Perfetto's trace processor.

    trace.json ─┬─► trace viewer (of chrome://tracing), as Go ships it ─► its model, its warnings
                └─► trace_processor_shell ─► SQL tables

Neither is part of the environment: each test looks for its reader, and says what it lacks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dispatchsim as ds
from dispatchsim.recording import chrome_trace

_VIEWER = "src/internal/trace/traceviewer/static"
_PAGE = """<!DOCTYPE html><html><head><script src="/webcomponents.min.js"></script>
<link rel="import" href="/trace_viewer_full.html"></head><body></body></html>"""
_READ = """(text) => {
  const model = new tr.Model();
  new tr.importer.Import(model).importTraces([text]);
  const found = {warnings: model.importWarnings.map((w) => w.message), tracks: {}, counters: {}};
  for (const process of model.getAllProcesses()) {
    for (const thread of Object.values(process.threads)) {
      found.tracks[process.name + "/" + thread.name] =
        [thread.sliceGroup.length, thread.asyncSliceGroup.length];
    }
    for (const counter of Object.values(process.counters)) {
      found.counters[counter.name] = counter.series[0].samples.length;
    }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def recording() -> ds.Recording:
    """Return a window of a run on two CPUs."""
    scenario = ds.Scenario.of(
        server={"mechanism": "epoll_level", "workers": 2},
        machine={"cpus": 2},
        load={"loop": "open", "rate": "8000/s"},
    )
    return ds.record(scenario, begin="20 ms", length="3 ms")


def phases(recording: ds.Recording) -> Counter[str]:
    """Return how many events of each phase the trace has."""
    return Counter(str(event["ph"]) for event in chrome_trace.trace_events(recording))


def trace_viewer() -> tuple[str, Path]:
    """Return Chromium and the folder of the trace viewer; skip the test where there is none."""
    browser, go = shutil.which("chromium"), shutil.which("go")
    if browser is None or go is None:
        pytest.skip("Chromium's trace viewer comes with Go: chromium and go must be installed")
    root = subprocess.run([go, "env", "GOROOT"], capture_output=True, text=True, check=True)
    folder = Path(root.stdout.strip()) / _VIEWER
    if not (folder / "trace_viewer_full.html").is_file():
        pytest.skip(f"this Go has no trace viewer in {_VIEWER}")
    return browser, folder


def test_the_trace_viewer_reads_all_of_it_without_a_warning(recording: ds.Recording) -> None:
    browser, folder = trace_viewer()
    from playwright.sync_api import Route, sync_playwright

    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        if (folder / name).is_file():
            route.fulfill(path=folder / name)
        else:
            route.fulfill(body=_PAGE, content_type="text/html")

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page()
        page.route("**/*", serve)
        page.goto("http://viewer.invalid/")
        page.wait_for_function("!!(window.tr && tr.Model && tr.importer && tr.importer.Import)")
        found: dict[str, Any] = page.evaluate(_READ, chrome_trace.to_json(recording))
        chromium.close()
    assert found["warnings"] == []
    counted = phases(recording)
    slices = sum(n for name, (n, _) in found["tracks"].items() if not name.startswith("clients"))
    assert slices == counted["X"]
    assert found["tracks"]["clients/clients"] == [counted["i"], counted["b"]]
    assert sum(found["counters"].values()) == counted["C"]


def trace_processor() -> str:
    """Return Perfetto's trace processor; skip the test where there is none."""
    named = os.environ.get("PERFETTO_TRACE_PROCESSOR")
    known = Path.home() / ".local/share/perfetto"
    kept = sorted(str(path) for path in known.rglob("trace_processor_shell*") if path.is_file())
    found = named or shutil.which("trace_processor_shell") or next(iter(kept), None)
    if found is None:
        pytest.skip(
            "Perfetto's trace processor is not here: name its binary in PERFETTO_TRACE_PROCESSOR"
        )
    return found


def test_perfetto_reads_all_of_it_without_an_error(recording: ds.Recording, tmp_path: Path) -> None:
    binary = trace_processor()
    perfetto = import_module("perfetto.trace_processor")  # without types
    path = tmp_path / "trace.json"
    recording.write_trace(path)
    config = perfetto.TraceProcessorConfig(bin_path=binary)
    with perfetto.TraceProcessor(trace=str(path), config=config) as processor:

        def number(query: str) -> int:
            return int(next(iter(processor.query(f"select count(*) as n from {query}"))).n)

        counted = phases(recording)
        assert number("stats where severity in ('error', 'data_loss') and value > 0") == 0
        assert number("slice") == counted["X"] + counted["i"] + counted["b"]
        assert number("counter") == counted["C"]
