"""Simulated runs of testbeds and papers on disk: a validation resumes after an interruption.

    simulated.jsonl    {"key": HASH, "result": ...}    one line a run

The key is a hash of everything that determines a run: the name of the function that simulates it,
its job (point, costs, seed, lengths), the sources that a run executes (`simulation_hash`), and the
versions of NumPy and SciPy. A change of any of them gives a new key; old lines are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from ...calibration.records.measured_runs import drop_torn_line
from ...sim.figures.summary import Verdict
from ...sim.files.parallel import run_all
from ..points.figures import Figures, Result
from .provenance import simulation_hash

KEPT_RUNS = "simulated.jsonl"
"""The file's name in a report's folder."""


def _to_json(result: Result) -> list[Any]:
    figures, verdict = result
    return [list(figures), str(verdict)]


def _of_json(content: list[Any]) -> Result:
    figures, verdict = content
    return Figures(*figures), Verdict(verdict)


class KeptRuns:
    """Runs in the file *path*, made by the sources that hash to *code*.

    It simulates like `run_all`, except for runs that the file holds. *to_json* and *of_json* write
    and read a result, by default that of a testbed run.
    """

    def __init__(
        self,
        path: Path,
        code: str | None = None,
        *,
        to_json: Callable[[Any], Any] = _to_json,
        of_json: Callable[[Any], Any] = _of_json,
    ) -> None:
        self._path = path
        self._code = simulation_hash() if code is None else code
        self._to_json = to_json
        drop_torn_line(path)
        self._known = dict(_read(path, of_json))

    def __call__(
        self, work: Callable[[Any], Any], jobs: Sequence[Any], executor: Executor | None
    ) -> Iterator[tuple[int, Any]]:
        """Yield the index of each of *jobs* with its result; results of *work* are stored."""
        name = f"{work.__module__}.{work.__qualname__}"
        keys = [self._key(name, job) for job in jobs]
        missing = []
        for index, key in enumerate(keys):
            if key in self._known:
                yield index, self._known[key]
            else:
                missing.append(index)
        for n, result in run_all(work, [jobs[index] for index in missing], executor):
            self._keep(keys[missing[n]], result)
            yield missing[n], result

    def _key(self, work: str, job: Any) -> str:
        # A job consists of plain values with an exact representation.
        return hashlib.sha256(f"{self._code} {work} {job!r}".encode()).hexdigest()[:24]

    def _keep(self, key: str, result: Any) -> None:
        self._known[key] = result
        line = json.dumps({"key": key, "result": self._to_json(result)})
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path, of_json: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Yield the runs in *path*; unreadable lines are skipped, and their runs simulated again."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            content = json.loads(line)
            yield content["key"], of_json(content["result"])
        except (ValueError, KeyError, TypeError):
            continue
