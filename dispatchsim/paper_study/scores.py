"""Score papers: all runs of all draws, kept as they end, then claims, questions and ablations.

tasks of each draw ─► runs.jsonl (what ended is kept) ─► figures ─► PaperResult
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

from ..running.compiling import Side, compile_engines
from ..sim.files.parallel import run_all
from ..validation.papers.ablation import ABLATIONS
from ..validation.papers.draws import draws
from ..validation.papers.paper import Paper
from ..validation.papers.result import PaperResult, ablated, result_of
from .runs import (
    CurveTask,
    Points,
    central_profile,
    constants_of,
    points_of,
    run_curve,
    scenario_of,
    tasks_of,
)

Progress = Callable[[int, int], None]
_PACKAGE = Path(__file__).resolve().parents[1]
_FOLDERS = ("sim", "models", "scenario", "calibration", "validation")
_SHOWING = ("pages.py", "plots.py", "tables.py", "why_not.py", "words.py")
"""Of validation/papers: they say what was found, and decide no run."""


class Setting(NamedTuple):
    """How much is run.

    Attributes
    ----------
    draws:
        Of all that is free, each with a seed of its own.
    few:
        Fewer points and shorter runs.
    ablation_draws:
        Of each ablation; 0: none is made.
    """

    draws: int
    few: bool
    ablation_draws: int = 0


FAST = Setting(draws=10, few=True)
FULL = Setting(draws=40, few=False, ablation_draws=10)


def score_paper(
    paper: Paper,
    setting: Setting,
    *,
    kept: Path | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Return what the simulator says of *paper*.

    Parameters
    ----------
    setting:
        How much is run.
    kept:
        A file of runs that have ended, which are not run again; None: nothing is kept.
    executor:
        Where runs are simulated; None: here, one after the other.
    progress:
        Called with (curves done, curves in all) as they end.
    """
    tasks = tasks_of(paper, paper.all_conditions, n_draws=setting.draws, few=setting.few)
    n = setting.ablation_draws
    without = [
        task
        for rule in ABLATIONS
        if n > 0
        for task in tasks_of(paper, paper.conditions, n_draws=n, few=True, ablation=rule)
    ]
    base = tasks_of(paper, paper.conditions, n_draws=n, few=True) if n > 0 else []
    found = _runs([*tasks, *base, *without], kept, executor, progress)

    def figures(own: Sequence[CurveTask], n_draws: int) -> list[Points]:
        of_draws: list[Points] = [{} for _ in range(n_draws)]
        for task in own:
            of_draws[task.draw].update(found[task])
        return of_draws

    result = result_of(
        paper, draws(constants_of(paper), setting.draws), figures(tasks, setting.draws)
    )
    if n == 0:
        return result
    with_rules = figures(base, n)
    rules = []
    for rule in ABLATIONS:
        changed = figures([task for task in without if task.ablation == rule], n)
        both = [{**before, **after} for before, after in zip(with_rules, changed, strict=True)]
        rules.append(ablated(paper, rule, with_rules, both))
    return result._replace(ablated=rules)


def compile_for(papers: Iterable[Paper], telling: Any = None) -> None:
    """Compile the engines that the runs of *papers* need, once."""
    _code()  # before any module is loaded that somebody may edit meanwhile
    for paper in papers:
        profile = central_profile(paper.machine)
        sides: dict[Side, set[str]] = {}
        for condition in paper.all_conditions:
            x = points_of(condition, few=True)[0]
            for server in condition.servers:
                scenario = scenario_of(condition, server, x)
                sides.setdefault(Side.of(scenario), set()).add(scenario.server.mechanism)
        for side, names in sides.items():
            compile_engines(sorted(names), profile, side=side, telling=telling)


def _runs(
    tasks: Sequence[CurveTask],
    kept: Path | None,
    executor: Executor | None,
    progress: Progress | None,
) -> dict[CurveTask, Points]:
    """Return the figures of each of *tasks*; what *kept* has is not run again."""
    code = _code()
    found = {}
    if kept is not None and kept.exists():
        found = dict(_read(kept, code))
    left = [task for task in dict.fromkeys(tasks) if task not in found]
    n_done = len(tasks) - len(left)
    for index, points in run_all(run_curve, left, executor):
        found[left[index]] = points
        if kept is not None:
            _append(kept, code, left[index], points)
        n_done += 1
        if progress:
            progress(n_done, len(tasks))
    return found


def _append(path: Path, code: str, task: CurveTask, points: Points) -> None:
    line = json.dumps({"code": code, "task": task, "points": list(points.items())})
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")  # a line that was cut by a kill must not swallow this one


def _read(path: Path, code: str) -> Iterable[tuple[CurveTask, Points]]:
    """Yield what is in *path* and was made by this code; a line that was cut is run again."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            content = json.loads(line)
            if content["code"] != code:
                continue
            points = {(c, s, float(x)): figures for (c, s, x), figures in content["points"]}
            yield CurveTask(*content["task"]), points
        except (ValueError, KeyError, TypeError):
            continue


@functools.cache
def _code() -> str:
    """Return what changes with any source that decides a run, as it was when first asked for."""
    digest = hashlib.sha256()
    roots = [_PACKAGE, *(_PACKAGE.parent / folder for folder in _FOLDERS)]
    paths = {
        p
        for root in roots
        if root.is_dir()
        for kind in ("py", "toml")
        for p in root.rglob(f"*.{kind}")
    }
    showing = {_PACKAGE.parent / "validation" / "papers" / name for name in _SHOWING}
    for path in sorted(paths - showing):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
