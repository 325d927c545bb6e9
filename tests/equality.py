"""Hold the C engine against the reference engine on random scenes: `make equality N=2000`.

Every mechanism, with one worker and several, in the general engine and, where that fits, in the
folded one. Outcomes must be equal in every entry, and so must all numbers and columns of the worlds
at the end of the run. Prints a line for each mechanism; the exit status is 1 if anything differs,
or if no scene fitted the folded engine.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
import types
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# Some installed packages bring a package of this name: this folder is meant, as under pytest.
sys.modules["tests"] = types.ModuleType("tests")
sys.modules["tests"].__path__ = [str(Path(__file__).parent)]

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.scenes import Scene, on_reference, scenes

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.models.simulate import kept_as, prepare_world, program_of
from dispatchsim.sim.engine.c.folding import assumptions, fits
from dispatchsim.sim.engine.c.run import CRun
from dispatchsim.sim.figures.outcome import Outcome, outcome_of
from dispatchsim.sim.files.parallel import cpu_count
from dispatchsim.sim.state.columns import as_arrays
from dispatchsim.sim.state.costs import NO_CLIENT
from dispatchsim.sim.state.world import World

ASSUMED = assumptions()
_OWN = ("calendar", "free_fds", "event_fd")
"""Members that each engine keeps in its own way; behind the events each sorts as it likes."""
_OF_LAST_STEP = ("waker", "step_begin_ns", "step_ns", "step_stolen_ns")
"""Members of the last step that an engine need not write where nothing comes in between."""


class DifferenceError(AssertionError):
    """Two engines differ; the message names the scene and the first difference."""


def on_c(scene: Scene, *, folded: bool) -> tuple[Outcome, World]:
    """Return the outcome of *scene* on the C engine, and its world at the end."""
    program = program_of(scene.mechanism)
    world = prepare_world(program, scene.trace, scene.costs, scene.run, as_arrays)
    duration_ns, warm_up_ns = scene.run.duration_ns, scene.run.warm_up_ns
    run = CRun(
        program,
        world,
        duration_ns=duration_ns,
        warm_up_ns=warm_up_ns,
        folded=folded,
        kept_as=kept_as(program),
    )
    return outcome_of(run.run(), duration_ns, program.mechanism), world


def folded_fits(scene: Scene) -> bool:
    """Return whether the folded engine may run *scene*."""
    program = program_of(scene.mechanism)
    return not fits(prepare_world(program, scene.trace, scene.costs, scene.run, as_arrays))


def plain(scene: Scene) -> Scene:
    """Return *scene* with the settings that the folded engine takes for granted."""
    run = scene.run

    def as_folded(settings: Any) -> Any:
        label = type(settings).__name__
        names = [name.partition(".")[2] for name in ASSUMED if name.startswith(f"{label}.")]
        return settings._replace(**{name: settings._field_defaults[name] for name in names})

    run = run._replace(
        program=as_folded(run.program)._replace(workers=1),
        overload=as_folded(run.overload),
        limits=as_folded(run.limits),
        signals=as_folded(run.signals),
        blocking=as_folded(run.blocking),
        machine=as_folded(run.machine)._replace(cpus=1),
        network=as_folded(run.network)._replace(paths=()),
        client=as_folded(run.client),
        kernel=as_folded(run.kernel),
        flood=as_folded(run.flood),
        backend=as_folded(run.backend),
        laws=run.laws._replace(backend_delay=None),
        faults=(),
    )
    return scene._replace(run=run, client=NO_CLIENT)


def differences(a: Any, b: Any, path: str = "world", seen: set[int] | None = None) -> Iterator[str]:
    """Yield where two worlds differ, member by member."""
    seen = set() if seen is None else seen
    if id(a) in seen:
        return
    if dataclasses.is_dataclass(a):
        seen.add(id(a))
        for field in dataclasses.fields(a):
            if field.name not in (*_OWN, *_OF_LAST_STEP):
                one, other = getattr(a, field.name), getattr(b, field.name)
                yield from differences(one, other, f"{path}.{field.name}", seen)
    elif isinstance(a, list | tuple) and len(a) > 0 and dataclasses.is_dataclass(a[0]):
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(one, other, f"{path}[{i}]", seen)
    elif isinstance(a, list | np.ndarray):
        n = min(len(a), len(b))  # an engine may hold more room
        unequal = np.flatnonzero(np.asarray(a[:n]) != np.asarray(b[:n]))
        if unequal.size:
            i = int(unequal[0])
            yield f"{path}[{i}]: {a[i]} and {b[i]}"
    elif a != b:
        yield f"{path}: {a} and {b}"


def check(scene: Scene, found: Counter[str]) -> None:
    """Hold the engines against each other on *scene*.

    Raises
    ------
    DifferenceError
        If they differ.
    """
    expected, reference = on_reference(scene)
    found["scenes"] += 1
    found["of several workers"] += scene.run.program.workers > 1
    found["connections"] += len(scene.trace)
    variants = (False, True) if folded_fits(scene) else (False,)
    found["on the folded engine"] += len(variants) - 1
    for folded in variants:
        outcome, world = on_c(scene, folded=folded)
        name = "folded" if folded else "general"
        if not expected.same_as(outcome):
            raise DifferenceError(f"{name} engine: another outcome of {scene}")
        for difference in differences(reference, world):
            raise DifferenceError(f"{name} engine: {difference}, at the end of {scene}")


class Held(NamedTuple):
    """The scenes of one mechanism: a line to print, whether all were equal, and their numbers."""

    line: str
    is_equal: bool
    found: Counter[str]


def hold(mechanism: str, n: int, seed_of_scenes: int) -> Held:
    """Draw *n* scenes of *mechanism* and hold the engines against each other on each."""
    found: Counter[str] = Counter()
    began_s = time.perf_counter()

    @seed(seed_of_scenes)
    @settings(
        max_examples=n,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(scenes(mechanism, keeps=True, classes=True))
    def every(scene: Scene) -> None:
        check(scene, found)
        with contextlib.suppress(ValueError):  # its settings may not go together any more
            check(plain(scene), found)

    try:
        every()
        verdict = "equal"
    except DifferenceError as difference:
        verdict = f"DIFFERENT: {difference}"
    counts = ", ".join(f"{count} {name}" for name, count in found.items())
    took_s = time.perf_counter() - began_s
    line = f"{mechanism:20s} {verdict}: {counts} ({took_s:.0f} s)"
    return Held(line, verdict == "equal", found)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0] + ".")
    parser.add_argument("n", type=int, help="how many scenes, of all mechanisms together")
    parser.add_argument("--seed", type=int, default=1, help="of the scenes (1)")
    parser.add_argument("--mechanisms", default=",".join(MECHANISMS), help="separated by commas")
    options = parser.parse_args(arguments)
    names = options.mechanisms.split(",")
    each = -(-options.n // len(names))
    is_equal, found = True, Counter[str]()
    with ProcessPoolExecutor(cpu_count()) as executor:
        for held in executor.map(hold, names, [each] * len(names), [options.seed] * len(names)):
            print(held.line, flush=True)
            is_equal &= held.is_equal
            found += held.found
    n_folded = found["on the folded engine"]
    verdict = "none" if is_equal else "some"
    print(f"{found['scenes']} scenes, {n_folded} on the folded engine, too: {verdict} different")
    return 0 if is_equal and n_folded > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
