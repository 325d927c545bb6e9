"""Hold what the program computes against the record: `python -P tests/recorded.py [--write]`.

    outcomes   every shipped scenario on both engines: each entry of the outcome of its first run
    results    the JSON of the commands that ask: run, sweep, compare, forecast, steady, capacity
    ...
    exports    schema, mechanisms, programs, profiles, examples
    fits       the profile that `calibrate` makes of each measured folder
    scores     every point of `validate` over the measured folders, at central costs and one draw

A refactoring leaves all of it equal to the bit. Whatever changes outcomes on purpose writes the
record anew, and its commit says why. The record holds a hash for each item, so that a difference
names the item. What depends on the date, the code's version or a path is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parent / "recorded.json"
MEASURED = Path(__file__).parents[1] / "calibration" / "measured"
PROFILES = MEASURED.parent / "profiles"
_VARIES = {"code", "date", "dispatchsim", "version", "versions", "seconds", "took_s", "sources"}
"""Keys of JSON that are about the program or the hour, not about what was computed."""
_OF_FILES = re.compile(r"^(date|version|code|dispatchsim).*=.*\n", re.MULTILINE)

_SLOW = (
    "epyc-family25-model1-2cpu-linux-6.18",
    "epyc-family25-model17-2cpu-linux-6.18",
    "xeon-family6-model207-2cpu-linux-6.18",
)
"""Folders whose forecasts take minutes and are of the same points as another machine's."""

Items = Iterator[tuple[str, str]]


def digest(value: bytes | str) -> str:
    """Return sixteen hexadecimal digits of a hash."""
    raw = value.encode() if isinstance(value, str) else value
    return hashlib.sha256(raw).hexdigest()[:16]


def command(*arguments: str) -> str:
    """Return what the command line prints."""
    whole = [sys.executable, "-P", "-m", "dispatchsim", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return done.stdout


def lasting(value: Any) -> Any:
    """Return *value* without what varies from one run of the same program to the next."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in _VARIES}
    return [lasting(item) for item in value] if isinstance(value, list) else value


def rounded(value: Any) -> Any:
    """Return *value* with floats of 12 digits: sums differ in the last ones by the kind of CPU."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def json_digest(text: str) -> str:
    """Return the hash of JSON, whatever the order of its keys."""
    return digest(json.dumps(rounded(lasting(json.loads(text))), sort_keys=True))


def examples() -> list[str]:
    """Return the names of the shipped scenarios."""
    return sorted(json.loads(command("scenarios", "--json")))


def outcomes() -> Items:
    """Yield a hash of every entry of the first run of each shipped scenario, on both engines."""
    for engine in ("fast", "reference"):
        for name in examples():
            yield f"{name}, {engine}", outcome_digest(name, engine)


def outcome_digest(name: str, engine: str) -> str:
    """Return the hash of the outcome of the first run of a shipped scenario."""
    import dataclasses

    import numpy as np

    from dispatchsim.calibration.running.preparation import (
        job_of,
        profile_of,
        record_job,
        with_engine,
    )
    from dispatchsim.scenario.examples import scenario_path
    from dispatchsim.scenario.scenario import Scenario

    scenario = with_engine(Scenario.read(scenario_path(name)), engine)
    _, outcome = record_job(job_of(scenario, profile_of(scenario), scenario.seeds[0]))
    entries = hashlib.sha256()
    of_classes = {"class_of_requests", "n_classes"} if outcome.n_classes == 0 else set()
    for field in dataclasses.fields(outcome):
        if field.name in of_classes:
            continue  # all clients are alike
        array = np.asarray(getattr(outcome, field.name)).astype(np.int64)
        entries.update(f"{field.name} {array.shape} ".encode() + array.tobytes())
    return entries.hexdigest()[:16]


def results() -> Items:
    """Yield a hash of the answer to each kind of question."""
    short = ("--set", "run.duration=1 s", "--set", "run.warm_up=200 ms")
    asked = {
        **{f"run {name}": ("run", name, "--cost-samples", "2") for name in examples()},
        "sweep": ("sweep", "poll_10k_idle", "--vary", "idle.connections=0,1000,10000", *short),
        "compare": ("compare", "poll_10k_idle", "--cost-samples", "2"),
        "contest": ("compare", "poll_10k_idle", "--vary", "load.rate=1000/s..8000/s:3", *short),
        "forecast": ("forecast", "epoll_10k_idle", "--cost-samples", "8"),
        "steady": ("steady", "poll_10k_idle"),
        "capacity": ("capacity", "poll_10k_idle", "--p99", "50 ms"),
        "tune": ("tune", "poll_10k_idle", "--vary", "server.max_events=8,64,512", *short),
        "sensitivity": ("sensitivity", "select_closed_loop", "--samples", "4", *short),
    }
    for name, arguments in asked.items():
        yield name, json_digest(command(*arguments, "--json"))


def exports() -> Items:
    """Yield a hash of each export."""
    yield "schema", json_digest(command("schema"))
    for name in ("mechanisms", "programs", "profiles", "scenarios"):
        yield name, json_digest(command(name, "--json"))


def fits() -> Items:
    """Yield a hash of the profile fitted to each measured folder."""
    for folder in sorted(MEASURED.iterdir()):
        if (folder / "fit.jsonl").is_file():
            with tempfile.TemporaryDirectory() as made:
                target = Path(made, f"{folder.name}.toml")
                command("calibrate", "machine", str(folder), "--output", str(target))
                yield folder.name, digest(_OF_FILES.sub("", target.read_text()))


def scores() -> Items:
    """Yield a hash of every point of a report over the measured folders, but for slow ones."""
    # A folder without a profile of its name has nothing to be forecast from.
    folders = [
        str(folder)
        for folder in sorted(MEASURED.iterdir())
        if (PROFILES / f"{folder.name}.toml").is_file() and folder.name not in _SLOW
    ]
    profiles = [part for folder in folders for part in ("--profile", Path(folder).name)]
    with tempfile.TemporaryDirectory() as made:
        options = (*profiles, "--cost-samples", "2", "--output", made)
        command("validate", "machine", *folders, *options)
        content = lasting(json.loads(Path(made, "scores.json").read_text()))
    for kind, entries in (("hardware", "points"), ("noise_free", "runs")):
        for section in content[kind]:
            for i, entry in enumerate(section[entries]):
                text = json.dumps(entry, sort_keys=True)
                yield f"{section['name']}, {entries[:-1]} {i}", digest(text)


GROUPS: dict[str, Callable[[], Items]] = {
    "outcomes": outcomes,
    "results": results,
    "exports": exports,
    "fits": fits,
    "scores": scores,
}


def main() -> int:
    """Compare, or write; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0] + ".")
    parser.add_argument("--write", action="store_true", help="write the record anew")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    options = parser.parse_args()
    record: dict[str, dict[str, str]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    n_different = 0
    for group in options.only:
        found = dict(GROUPS[group]())
        known = record.get(group, {})
        different = sorted(name for name in found | known if found.get(name) != known.get(name))
        print(f"{group}: {len(found)} items, {len(different)} different", flush=True)
        for name in different[:20]:
            print(f"    {name}")
        n_different += len(different)
        record[group] = found
    if options.write:
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        return 0
    return 1 if n_different else 0


if __name__ == "__main__":
    sys.exit(main())
