"""Plant faults, one at a time, and report which tests notice them: `make faults`.

    planted_faults.toml ──► a copy of the tree, one text replaced ──► the fault's tests ──► caught?

The tree itself is never changed, and stopping the command (Ctrl-C) loses nothing. Each fault names
the tests that should notice it; those run on the sound copy first, so that a test that fails anyway
catches nothing. A fault that no run can show is said to be equivalent, with the argument.

    python -P tests/planted_faults.py [--only NAME ...] [--unnoticed]

Prints one line a fault and a table of sums; the exit status is 1 if a fault was not caught that is
not equivalent, or if its text is not in its file exactly once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FAULTS_FILE = Path(__file__).with_suffix(".toml")
_QUICK = """
hypothesis.settings.register_profile(
    "planted", derandomize=True, deadline=None, phases=[hypothesis.Phase.generate]
)
hypothesis.settings.load_profile("planted")
"""
"""Appended to the copy's conftest.py: the same examples each time, and none made smaller."""
LONGEST_S = 600
"""A fault may have a run go on for ever; a test that does not end has noticed it."""


class Edit(NamedTuple):
    """A text of *file* that is replaced; it occurs once."""

    file: str
    before: str
    after: str


class Fault(NamedTuple):
    """A fault to be planted.

    Attributes
    ----------
    name:
        What is wrong, in a few words.
    edits:
        What is replaced.
    tests:
        Arguments of pytest: the tests that should notice it.
    was_noticed:
        Whether the suite noticed it at the commit for which it was written (0fc57bd).
    equivalent:
        Why no run can show it; empty for all others.
    """

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    was_noticed: bool
    equivalent: str


def read_faults(path: Path = FAULTS_FILE) -> list[Fault]:
    """Return the faults that are described in *path*."""
    described = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    return [
        Fault(
            each["name"],
            tuple(Edit(**edit) for edit in each["edits"]),
            tuple(each.get("tests", ())),
            each["was_noticed"],
            each.get("equivalent", ""),
        )
        for each in described
    ]


def misplaced(fault: Fault, root: Path = ROOT) -> list[str]:
    """Return what is wrong with where *fault* is to be planted below *root*."""
    wrong = []
    for edit in fault.edits:
        n = (root / edit.file).read_text(encoding="utf-8").count(edit.before)
        if n != 1:
            wrong.append(f"{fault.name}: {edit.file} holds its text {n} times, must be once")
    return wrong


def copy_tree(folder: Path) -> None:
    """Copy all files of the repository to *folder*, with what makes the copy the package there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    with (folder / "tests/conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(_QUICK)
    python(folder, "-P", "tests/size.py", "--link", "build/names")
    place = (
        "import dispatchsim.sim, pathlib; print(pathlib.Path(dispatchsim.sim.__file__).resolve())"
    )
    imported = python(folder, "-P", "-c", place).stdout.strip()
    if imported != str((folder / "sim/__init__.py").resolve()):
        raise SystemExit(f"the copy in {folder} must be what is imported, is {imported}")


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy in *folder*, whose package comes before the installed one."""
    environment = os.environ | {
        "PYTHONPATH": str(folder / "build/names"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )


def first_failed(folder: Path, tests: Sequence[str]) -> str:
    """Return the first of *tests* that fails in the copy in *folder*; "" if none does."""
    options = ("-q", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider")
    try:
        # Without -P the folder dispatchsim/ of the copy would be the package, and be incomplete.
        ended = python(folder, "-P", "-m", "pytest", *options, *tests)
    except subprocess.TimeoutExpired:
        return f"no end within {LONGEST_S} s"
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if failed:
        return failed[0].split(" ", 1)[1].split(" - ")[0]
    return "" if ended.returncode == 0 else (ended.stdout + ended.stderr).strip()[-300:]


def plant(folder: Path, fault: Fault) -> dict[Path, str]:
    """Plant *fault* in the copy in *folder*; return the sound text of each file that it changed.

    The tree may change while the command runs, so the copy is all that it looks at.
    """
    sound: dict[Path, str] = {}
    for edit in fault.edits:
        path = folder / edit.file
        text = path.read_text(encoding="utf-8")
        sound.setdefault(path, text)
        path.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
        compile(path.read_text(encoding="utf-8"), edit.file, "exec")  # a typing error is no fault
    return sound


def judged(folder: Path, fault: Fault) -> tuple[str, str]:
    """Plant *fault* in the copy in *folder*; return the verdict and the test that gave it."""
    if fault.equivalent:
        return "equivalent", fault.equivalent
    sound = plant(folder, fault)
    try:
        test = first_failed(folder, fault.tests)
    finally:
        for path, text in sound.items():
            path.write_text(text, encoding="utf-8")
    return ("caught", test) if test else ("NOT CAUGHT", " ".join(fault.tests))


def main(arguments: Sequence[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0] + ".")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these faults")
    parser.add_argument("--unnoticed", action="store_true", help="only those once unnoticed")
    options = parser.parse_args(arguments)
    faults = [
        fault
        for fault in read_faults()
        if (not options.only or fault.name in options.only)
        and not (options.unnoticed and fault.was_noticed)
    ]
    wrong = [line for fault in faults for line in misplaced(fault)]
    if wrong:
        print(*wrong, sep="\n")
        return 1
    found: Counter[tuple[bool, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="planted_faults_") as name:
        folder = Path(name)
        copy_tree(folder)
        tests = sorted({test for fault in faults for test in fault.tests})
        if tests and (failed := first_failed(folder, tests)):
            print(f"a test fails without a fault: {failed}")
            return 1
        try:
            for fault in faults:
                verdict, why = judged(folder, fault)
                found[fault.was_noticed, verdict] += 1
                print(f"{fault.name:36} {verdict:12} {why}", flush=True)
        except KeyboardInterrupt:
            print("stopped")
    print_sums(found)
    return 1 if any(verdict == "NOT CAUGHT" for _, verdict in found) else 0


def print_sums(found: Counter[tuple[bool, str]]) -> None:
    """Print how many faults had which verdict."""
    for was_noticed, name in ((False, "once unnoticed"), (True, "once noticed")):
        sums = {verdict: n for (was, verdict), n in sorted(found.items()) if was == was_noticed}
        n_all = sum(sums.values())
        print(f"{name}: {n_all}", *(f"{verdict} {n}" for verdict, n in sums.items()), sep=", ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
