"""`dispatchsim validate rules`: rules of the kernel, tested on Linux and in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..scenario.errors import UserError, nearest
from .door import notes, people
from .options import grouped
from .working import writable

if TYPE_CHECKING:
    from ..calibration.rules.asked import Answers, Source
    from ..validation.rules.comparison import Compared

_QUESTIONS_MAX = 10
"""Up to this many rules are printed with their questions; the page of --output has all."""
_WITH_SOURCES_COLUMNS_MIN = 110
"""A narrower terminal has no room for the names of the kernel's files beside the answers."""
_MANY = "Questions and lines of the kernel: --only with fewer rules, or the page of --output."


@dataclass(frozen=True, kw_only=True)
class OfRules:
    """Which rules are tested, and where."""

    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Test only rules with this text in their name or family, such as epoll. "
            "Repeatable.",
        ),
    ] = None
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Leave out rules that take 4 s or longer."),
    ] = False
    emulated: Annotated[
        bool, typer.Option("--emulated", help="Test the kernel of the emulated target.")
    ] = False
    kept: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE",
            help="Compare the simulator with the stored results of Linux RELEASE. The kernel of "
            "this machine is not tested.",
        ),
    ] = None
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Store this kernel's results in the --output folder, for a later --kept. Without "
            "--output they go into the source tree, which must be a git checkout.",
        ),
    ] = False


@grouped
def validate_rules(
    *,
    of_rules: OfRules,
    output: Annotated[
        Path | None, typer.Option(help="Folder for a page with all rules. Default: none.")
    ] = None,
) -> None:
    """Check that the simulator behaves like the kernel of this machine.

    dispatchsim validate rules --only epoll
    """
    from ..calibration.rules.asked import FOLDER, keep
    from ..sim.files.whole_files import write_whole
    from ..validation.rules.comparison import LEFT_OUT, compare, rules_page

    only = _only(of_rules.only or [])
    _check(of_rules, output)
    answers, source = _answers(of_rules, only)
    left_out = "left out by --quick" if of_rules.quick else LEFT_OUT
    rows = compare(answers, source.release, only, left_out)
    _print(rows)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_whole(output / "rules.md", rules_page(rows, source.release))
    if of_rules.keep:
        notes().print(f"kept in {keep(answers, source, output or FOLDER)}")


def _print(rows: Sequence[Compared]) -> None:
    """Print the questions, if they are few, both answers, and why they differ or are missing."""
    from ..sim.files.tables import rich_table
    from ..validation.rules.comparison import (
        Verdict,
        differences_table,
        families_table,
        not_asked_table,
        questions_table,
        rules_table,
    )

    console = people()
    few = len(rows) <= _QUESTIONS_MAX
    sources = not few and console.width >= _WITH_SOURCES_COLUMNS_MIN
    tables = [
        *([questions_table(rows)] if few else []),
        replace(rules_table(rows, sources=sources), note="" if few else _MANY),
        differences_table(row for row in rows if row.verdict is Verdict.DIFFERS),
        not_asked_table(rows),
        families_table(rows),
    ]
    for table in tables:
        if table.rows:
            console.print(rich_table(table))


def _only(texts: Sequence[str]) -> list[str]:
    from ..calibration.rules.asked import catalogue, selected

    try:
        return selected(texts)
    except LookupError as error:
        families = {rule.family for rule in catalogue().values()}
        near = nearest(str(error), [*catalogue(), *families])
        near = near or f" (families: {', '.join(sorted(families))})"
        raise UserError(
            f'--only: must be a part of the name of a rule or of a family{near}, got "{error}"'
        ) from None


def _check(of_rules: OfRules, output: Path | None) -> None:
    from ..calibration.records.kernel_files import is_checkout
    from ..calibration.rules.asked import FOLDER

    if of_rules.kept and (of_rules.emulated or of_rules.quick or of_rules.keep):
        raise UserError("--kept: must be absent where Linux is asked")
    if of_rules.keep and (of_rules.only or of_rules.quick):
        raise UserError("--keep: must be absent unless all rules are asked")
    if of_rules.keep and output is None and not is_checkout(FOLDER):
        raise UserError("--keep: needs --output FOLDER: an installed library keeps nothing itself")
    if of_rules.quick and of_rules.emulated:
        raise UserError("--quick: must be absent with --emulated, whose clock does not wait")
    if output is not None:
        writable(output, "--output")


def _answers(of_rules: OfRules, only: Sequence[str]) -> tuple[Answers, Source]:
    from ..calibration.rules.asked import (
        Source,
        ask,
        ask_guest,
        guest,
        kept_answers,
        this_machine,
    )

    if of_rules.kept:
        try:
            return kept_answers(of_rules.kept), Source(of_rules.kept, "", {})
        except ValueError as error:
            raise UserError(f"--kept: {error}") from None
    try:
        if of_rules.emulated:
            return ask_guest(only=only), guest()
        all_of_them = not only and not of_rules.quick
        takes = ": all rules take 80 s, or some seconds with --quick" if all_of_them else ""
        notes().print(f"asking Linux{takes}")
        answers = ask(only=only, quick=of_rules.quick)
    except ValueError as error:
        raise UserError(f"Linux cannot be asked: {error}") from None
    return answers, this_machine()
