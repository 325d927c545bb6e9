"""Old spellings of commands and options, which work until 0.2.0, and the new ones.

    dispatchsim measure micro  ─►  dispatchsim measure machine micro, and a hint on standard error

A word keeps its place, so that the new command is the old one with other words in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..scenario.errors import nearest_names

UNTIL = "0.2.0"
COMMANDS = {
    "lab": {
        "misses": "forecast-errors",
        "memory-prices": "memory-costs",
        "far-end": "client-machine",
    }
}
"""Subcommands by group: the old name and the new one."""
OPTIONS = {"--draws": "--cost-samples", "--figure": "--metric"}
OPTIONS_OF = {("lab", "interrupt-load"): {"--figure": "--plot"}}
"""Options of one command that have another new name than everywhere else."""
VALUES = {("--steering", "far_end"): "client_machine"}
_SUBCOMMANDS = {
    "measure": ("machine", "server", "overload", "flood"),
    "calibrate": ("machine", "server"),
    "validate": ("machine", "point", "server", "papers", "rules"),
}
_KINDS = ("all", "micro", "fit", "heldout")
_FLAGS = {
    *("--ablation", "--anyway", "--closes-first", "--closes-last", "--emulated", "--fast"),
    *("--keep", "--no-ablation", "--quick", "--reads-after-accept", "--waits-after-accept"),
}
"""Options without a value, of commands that had no subcommands."""


def renewed(words: Sequence[str]) -> list[str]:
    """Return the *words* after `dispatchsim` in the new spelling.

    >>> renewed(["measure", "--quick", "micro"])
    ['measure', 'machine', '--quick', 'micro']
    >>> renewed(["validate", "--profile", "p", "--runs", "mine"])
    ['validate', 'server', '--profile', 'p', 'mine']
    >>> renewed(["run", "x", "--draws=3"])
    ['run', 'x', '--cost-samples=3']
    """
    first, rest = words[:1], list(words[1:])
    command = first[0] if first else ""
    if command in COMMANDS and rest:
        rest[0] = COMMANDS[command].get(rest[0], rest[0])
    names = OPTIONS | OPTIONS_OF.get((command, rest[0] if rest else ""), {})
    rest = list(_with_new_options(rest, names))
    # A bare `measure` prints its commands. It started 90 minutes of measurements before.
    if command in _SUBCOMMANDS and rest and not {"--help", "--help-all"} & set(rest):
        rest = _with_subcommand(command, rest)
    return [*first, *rest]


def hint(old: Sequence[str], new: Sequence[str]) -> str:
    """Return the sentence that names the new spelling.

    >>> hint(["calibrate", "m"], ["calibrate", "machine", "m"])[:61]
    'hint: the new spelling is `dispatchsim calibrate machine m`; '
    """
    before, after = (shlex.join(["dispatchsim", *words]) for words in (old, new))
    return f"hint: the new spelling is `{after}`; `{before}` is accepted until {UNTIL}"


def _with_new_options(words: Sequence[str], names: dict[str, str]) -> Iterator[str]:
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        if equals and option.startswith("--"):
            yield f"{names.get(option, option)}={VALUES.get((option, value), value)}"
        else:
            yield VALUES.get((before, word), names.get(word, word))
        before = word


def _with_subcommand(command: str, words: list[str]) -> list[str]:
    """Return *words* with the subcommand that *command* had not, unless it is there."""
    places = _places(words)
    is_there = words[0] in _SUBCOMMANDS[command]
    if is_there or (places and _is_mistyped(command, words[places[0]])):
        return words
    for place in places:  # `measure --output x flood`: its words were in any order
        if words[place] in ("overload", "flood", "papers", "rules"):
            return [words[place], *words[:place], *words[place + 1 :]]
    option = {"measure": "--server", "validate": "--runs"}.get(command)
    kept = words if option is None else _without_option(words, option)
    if kept != words or (command == "measure" and any(word.startswith("--pid") for word in words)):
        return ["server", *kept]
    # `measure` had a kind at most, the others a folder: `measure x.toml` was never a spelling
    is_old = all(words[i] in _KINDS for i in places) if command == "measure" else bool(places)
    if not is_old:
        return words
    if command == "calibrate" and not _is_machine([words[i] for i in places]):
        return ["server", *words]
    return ["machine", *words]


def _is_mistyped(command: str, word: str) -> bool:
    """Return whether *word* is more like a subcommand of *command* than what it took before."""
    known = command == "measure" and word in _KINDS
    is_near = nearest_names(word, _SUBCOMMANDS[command])
    return not known and bool(is_near) and not Path(word).exists() and word not in is_near


def _places(words: Sequence[str]) -> list[int]:
    """Return where *words* are arguments: neither options nor their values."""
    found = []
    is_value = False
    for place, word in enumerate(words):
        if not is_value and not word.startswith("--"):
            found.append(place)
        is_value = word.startswith("--") and "=" not in word and word not in _FLAGS
    return found


def _without_option(words: Sequence[str], option: str) -> list[str]:
    """Return *words* with the values of *option* as arguments."""
    kept = [word.removeprefix(f"{option}=") for word in words]
    return [word for word in kept if word != option]


def _is_machine(paths: Sequence[str]) -> bool:
    """Return whether *paths* are one folder of a machine, and not observed runs of a server."""
    from ..calibration.observed.run_files import RUNS_FILE

    path = Path(paths[0])
    if len(paths) > 1 or path.is_file() or path.suffix == ".jsonl":
        return False
    return not (path / RUNS_FILE).is_file()
