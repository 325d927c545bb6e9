"""The kernel's rules as data: what is asked of Linux, and what it answers.

    catalogue.toml ──► Rule          calibration/c/rules ──► one JSON line a rule ──► Answer
                                                                    │
                                     linux-<release>.json ◄── keep ─┘ for machines that cannot ask

A kernel that forbids a question (no namespaces, io_uring off) is no failure: the rule is "not
asked", with the reason, and never counts as one that agrees.
"""

from __future__ import annotations

import datetime
import functools
import json
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...sim.files.whole_files import write_whole
from ..testbed.machine_facts import machine_facts

FOLDER = Path(__file__).parent
_FORMAT = "dispatchsim-rules/1"
_SECONDS_MAX = 300  # the slowest rules take 80 s, all at the same time
_FACTS = ("kernel", "timer_hz", "cpu_model", "cpu_count")
Value = bool | int | str | list[Any]


class Rule(NamedTuple):
    """A question to the kernel: `source` are the lines of Linux, or the page, that decide.

    `answer` names what an answer consists of. With `timing` it depends on times.
    """

    name: str
    family: str
    question: str
    source: str
    answer: str
    timing: bool = False


class Answer(NamedTuple):
    """What the kernel answered, or why it was not asked."""

    value: Value | None = None
    not_asked: str = ""


Answers = dict[str, Answer]


@functools.cache
def catalogue() -> Mapping[str, Rule]:
    """Return all rules by name, family by family."""
    families = tomllib.loads((FOLDER / "catalogue.toml").read_text(encoding="utf-8"))
    return {
        name: Rule(name, family, **words)
        for family, rules in families.items()
        for name, words in rules.items()
    }


def read_answers(lines: Iterable[str]) -> Answers:
    """Return the answers that the program printed.

    Raises
    ------
    ValueError
        For a line that is no answer to a rule of the catalogue.
    """
    answers = {}
    for line in lines:
        try:
            found = json.loads(line)
            name = found.pop("rule")
            if name not in catalogue() or set(found) not in ({"answer"}, {"not_asked"}):
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"no answer to a rule of the catalogue: {line.strip()!r}") from None
        answers[name] = Answer(found.get("answer"), found.get("not_asked", ""))
    return answers


def ask(program: Path, *, only: str | None = None, quick: bool = False) -> Answers:
    """Return what the running kernel answers to *only* a rule or a family, or to all.

    A *quick* round leaves out rules that take longer than some seconds. The whole takes 80 s.

    Raises
    ------
    ValueError
        If the program fails, or *only* is neither a rule nor a family.
    """
    options = [*(("--only", only) if only else ()), *(("--quick",) if quick else ())]
    finished = subprocess.run(
        [program, *options], capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    if finished.returncode != 0:
        raise ValueError(finished.stderr.strip() or f"{program.name} failed without a word")
    return read_answers(finished.stdout.splitlines())


def keep(answers: Answers, folder: Path = FOLDER) -> Path:
    """Write what this machine's kernel answered to *folder*; return the file."""
    facts = machine_facts()
    release = str(facts["kernel"]).split("-")[0]
    content = {
        "format": _FORMAT,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "dispatchsim validate rules --keep",
        **{name: facts[name] for name in _FACTS},
        "answers": {name: found.value for name, found in answers.items() if not found.not_asked},
        "not_asked": {name: found.not_asked for name, found in answers.items() if found.not_asked},
    }
    # A rule a line: a difference between kernels is a line of a diff.
    text = json.dumps(content, indent=1)
    for name, found in answers.items():
        if not found.not_asked:
            long, short = (json.dumps({name: found.value}, indent=n) for n in (1, None))
            text = text.replace(long[2:-2].replace("\n", "\n "), short[1:-1])
    path = folder / f"linux-{release}.json"
    write_whole(path, text + "\n")
    return path


def kept(path: Path) -> Answers:
    """Return the answers that *path* holds.

    Raises
    ------
    ValueError
        If it is no such file.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{path}: format must be {_FORMAT}")
    asked = {name: Answer(value) for name, value in content["answers"].items()}
    return asked | {name: Answer(not_asked=why) for name, why in content["not_asked"].items()}


def kept_files() -> list[Path]:
    """Return the files of answers that come with the library, the newest kernel last."""
    return sorted(FOLDER.glob("linux-*.json"), key=lambda path: _version(path.stem))


def _version(name: str) -> list[int]:
    return [int(part) for part in name.removeprefix("linux-").split(".") if part.isdigit()]
