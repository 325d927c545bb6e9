"""Rules of Linux and of the simulator side by side: agreement, differences, and reasons.

    catalogue ──► question ─┬─► Linux: asked now, or kept ─┐
                            └─► simulator: a scene ────────┴─► agrees, declared, differs, ...

The model distinguishes less than the kernel: an end is an end, whether a read returns 0 or
ECONNRESET, and a failed write has one reason. `_WORDS` translates the kernel's answers.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from ...calibration.rules.asked import Answer, Rule, Value, catalogue
from ...sim.files.tables import Column, Table, markdown
from . import connections, cpus, waits

SCENES = {**connections.SCENES, **cpus.SCENES, **waits.SCENES}
"""The simulator's scene for each rule."""
_END: Mapping[Any, Value] = {"ECONNRESET": 0}
_FAILS: Mapping[Any, Value] = {"ECONNRESET": "fails", "EPIPE": "fails"}
_WORDS: dict[str, Mapping[Any, Value]] = {
    "read_after_reset": _END,
    "accept_after_reset": _END,
    "accept_after_request_and_reset": _END,
    "ring_receive_after_reset": _END,
    "write_after_reset": _FAILS,
    "serve_after_reset": _FAILS,
    "ring_send_after_reset": _FAILS,
    "ring_link_broken": _FAILS,
}

LEFT_OUT = "it was left out"
_NO_TRACEFS = "/sys/kernel/tracing/instances: No such file or directory"


class Verdict(StrEnum):
    """The result of comparing the two answers to a rule.

    DECLARED: a constant, a flag or a default of the model equals the answer of Linux; no run.
    """

    AGREES = "agrees"
    DECLARED = "declared"
    DIFFERS = "differs"
    NOT_MODELLED = "not modelled"
    NOT_ASKED = "not asked"


class Compared(NamedTuple):
    """A rule, the answer of Linux in the model's words, the simulator's, and the reason."""

    rule: Rule
    linux: Answer
    ours: Value | None
    verdict: Verdict
    why: str


@functools.cache
def differences() -> Mapping[str, Mapping[str, str]]:
    """Return the reasons for differing or unmodelled rules, by verdict's key and rule."""
    path = Path(__file__).with_name("differences.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def in_models_words(rule: str, value: Value) -> Value:
    """Return Linux' *value* in the words of the model.

    >>> in_models_words("read_after_reset", [100, "ECONNRESET", 0])
    [100, 0, 0]
    """
    words = _WORDS.get(rule, {})
    if not isinstance(value, list):
        return words.get(value, value)
    return [words.get(part, part) if isinstance(part, str) else part for part in value]


def compare(
    answers: Mapping[str, Answer],
    release: str,
    only: Collection[str] = (),
    left_out: str = LEFT_OUT,
) -> list[Compared]:
    """Compare the *answers* of a Linux *release* with the simulator's.

    *only* selects rules; if empty, all. *left_out* is the reason for a missing answer.
    """
    return [
        _compared(rule, release, answers.get(name, Answer(not_asked=left_out)))
        for name, rule in catalogue().items()
        if not only or name in only
    ]


def _compared(rule: Rule, release: str, linux: Answer) -> Compared:
    simulated = SCENES.get(rule.name)
    ours = simulated.answer(release) if simulated else None
    if linux.not_asked:
        return Compared(rule, linux, ours, Verdict.NOT_ASKED, _with_cure(linux.not_asked))
    assert linux.value is not None
    linux = Answer(in_models_words(rule.name, linux.value))
    if simulated is None:
        why = differences()["not_modelled"].get(rule.name, "")
        return Compared(rule, linux, ours, Verdict.NOT_MODELLED, why)
    if linux.value == ours:
        verdict = Verdict.DECLARED if simulated.declared else Verdict.AGREES
        return Compared(rule, linux, ours, verdict, "")
    why = differences()["differs"].get(rule.name, "")
    return Compared(rule, linux, ours, Verdict.DIFFERS, why)


def _with_cure(not_asked: str) -> str:
    """Return why a rule was not asked, with the remedy if there is one."""
    if not_asked == _NO_TRACEFS:
        return "tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)"
    return not_asked


def _shown(value: Value | None) -> str:
    return "" if value is None else json.dumps(value)


_RULE = Column[Compared]("Rule", lambda row: row.rule.name, words=True, whole=True)
_LINUX = Column[Compared]("Linux", lambda row: row.linux.value, _shown, words=True)
_OURS = Column[Compared]("Simulator", lambda row: row.ours, _shown, words=True)
_VERDICT = Column[Compared]("Verdict", lambda row: str(row.verdict), words=True)
_SOURCE = Column[Compared]("Kernel", lambda row: row.rule.source, words=True, whole=True)
_WHY = Column[Compared]("Reason", lambda row: row.why, words=True)


def rules_table(rows: Iterable[Compared], *, sources: bool = True) -> Table:
    """Return the table of both answers to each rule; *sources* adds the lines of the kernel."""
    columns = (_RULE, _LINUX, _OURS, _VERDICT, *(_SOURCE,) * sources)
    return Table.of("Rules of the kernel", rows, columns)


def questions_table(rows: Iterable[Compared]) -> Table:
    """Return the table of questions, parts of an answer, and places in the kernel."""
    cells = []
    for row in rows:
        cells += [(row.rule.name, row.rule.question)]
        cells += [("", f"Answer: {row.rule.answer}"), ("", f"Kernel: {row.rule.source}")]
    return Table.of_cells("Questions", ("Rule", "Question"), cells, n_words=2)


def differences_table(rows: Iterable[Compared]) -> Table:
    """Return the table of reasons for differences from Linux."""
    return Table.of("Reasons for differences", rows, (_RULE, _WHY))


def not_asked_table(rows: Iterable[Compared]) -> Table:
    """Return the table of reasons for not asking rules, a row for each reason."""
    rules: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict is Verdict.NOT_ASKED:
            rules.setdefault(row.why, []).append(row.rule.name)
    cells = [(why, ", ".join(names)) for why, names in rules.items()]
    return Table.of_cells("Rules not asked", ("Reason", "Rules"), cells, n_words=2)


def rules_page(rows: Sequence[Compared], release: str) -> str:
    """Return the page of all rules as Markdown: question, source and both answers."""
    parts = [f"# The kernel's rules: Linux {release} and the simulator", ""]
    parts += [markdown(families_table(rows), 2), ""]
    for row in rows:
        parts += [f"## {row.rule.name}: {row.verdict}", "", row.rule.question, ""]
        parts += [f"- Linux: `{_shown(row.linux.value)}` ({row.rule.answer})"]
        parts += [f"- Simulator: `{_shown(row.ours)}`", f"- Kernel: {row.rule.source}"]
        parts += [f"- Reason: {row.why}"] * bool(row.why) + [""]
    return "\n".join(parts)


def families_table(rows: Iterable[Compared]) -> Table:
    """Return the number of rules by family and verdict."""
    counts: dict[str, Counter[Verdict]] = {}
    for row in rows:
        counts.setdefault(row.rule.family, Counter())[row.verdict] += 1
    counts["all"] = sum(counts.values(), Counter())
    cells = [
        (name, *(str(found[verdict]) for verdict in Verdict)) for name, found in counts.items()
    ]
    return Table.of_cells("Rules by family", ("Family", *Verdict), cells)
