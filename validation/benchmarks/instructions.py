"""Instructions per connection, counted by callgrind, whole and by function of the source.

Two runs of different lengths are counted; their difference, divided by the connections between,
leaves out everything that happens once in a run. Where a library has line numbers, an instruction
belongs to the function that encloses its line, whatever the compiler has inlined.
Source: Valgrind manual, "Callgrind Format Specification".
"""

from __future__ import annotations

import functools
import platform
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from . import contestants as c
from .plan import Bench, Job
from .processes import run_child
from .results import Metric
from .scenarios import Case

_COUNTED = (c.BY_HAND, c.FOLDED, c.GENERAL)
_LENGTHS = 20_000, 60_000
_TOP = 15
_NAMED = re.compile(r"(c?f[nlie]|c?ob)=\((\d+)\)(?: (.*))?$")
_COST = re.compile(r"([+-]?\d+|\*) (\d+)$")
_C_FUNCTION = re.compile(r"^\w.*?\b(?!__)(\w+)\([^;]*$")


def instruction_jobs(bench: Bench) -> list[Job]:
    """Return the counts of C by hand and of the C engine."""
    lacking = [tool for tool in ("valgrind", "gcc") if shutil.which(tool) is None]
    if lacking or platform.machine() != "x86_64":
        bench.note(f"{lacking[0]} is not installed" if lacking else "instructions: x86-64 only")
        return []

    def count(name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out")
            lengths = [str(length) for length in _LENGTHS]
            run_child(
                *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--dump-line=yes"),
                *(f"--callgrind-out-file={out}", sys.executable, "-P", "-m"),
                *(f"{__package__}.children", "counted", name, folder, *lengths),
            )
            few, many = (by_function(Path(f"{out}.{i + 1}").read_text()) for i in range(2))
        between = _LENGTHS[1] - _LENGTHS[0]
        many.subtract(few)
        metric = Metric("instructions", f"{Case()}, per connection", name)
        bench.results.add(metric, many.total() / between)
        bench.by_function[name] = [(who, n / between) for who, n in many.most_common(_TOP)]

    return [
        Job(f"instructions: {name}", functools.partial(count, name))
        for name in _COUNTED
        if not c.missing(name)
    ]


def by_function(text: str) -> Counter[str]:
    """Return the instructions of each function, in a file that callgrind has written."""
    names: dict[tuple[str, str], str] = {}
    found: Counter[str] = Counter()
    file = function = ""
    line = 0
    skip = False
    for row in text.splitlines():
        if named := _NAMED.match(row):
            spec, number, name = named.groups()
            # Files of all kinds are numbered together, and so are functions.
            kind = "file" if spec[-1] in "lie" else spec[-2:]
            name = names.setdefault((kind, number), name or "")
            if spec == "fn":
                function = name
            elif spec in ("fl", "fi", "fe"):
                file = name
        elif row.startswith("calls="):
            skip = True  # the next line has the cost of the callee
        elif cost := _COST.match(row):
            position, instructions = cost.groups()
            line = _line(position, line)
            if not skip:
                found[_enclosing(file, line) or function] += int(instructions)
            skip = False
    return found


def _line(position: str, before: int) -> int:
    if position == "*":
        return before
    return before + int(position) if position[0] in "+-" else int(position)


def _enclosing(file: str, line: int) -> str:
    """Return the function of the source that holds a line; nothing if that is unknown."""
    return _functions(file).get(line, "")


@functools.cache
def _functions(file: str) -> dict[int, str]:
    """Return the function of each line of a C file."""
    path = Path(file)
    found: dict[int, str] = {}
    if path.suffix not in (".c", ".h") or not path.is_file():
        return found
    text = path.read_text(errors="replace")
    name = ""
    for number, row in enumerate(text.splitlines(), start=1):
        if match := _C_FUNCTION.match(row):
            name = f"{path.stem}.{match[1]}"
        if name:
            found[number] = name
    return found
