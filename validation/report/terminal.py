"""The report in a terminal of 100 columns: what was promised first, then points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..forecast.provenance import Provenance
from .effects_table import short_effects_table
from .noise_free_regimes import regime_table
from .noise_free_section import NoiseFreeSection
from .noise_free_tables import group_tables, ledger_summary, promise_table, worst_table
from .overload_tables import overload_tables
from .tables import TextTable, missing_table, score_tables, target_table

if TYPE_CHECKING:
    from .report import Report

_STYLES = {"reached": "green", "missed": "bold red", "no": "red", "not measured": "yellow",
           "better": "green", "worse": "red"}  # fmt: skip


def print_report(report: Report, console: Console | None = None) -> None:
    """Print *report*: for each machine what was promised and the points, then where it is."""
    console = console or Console()
    for section in report.hardware:
        missing = [missing_table(section.missing)] if section.missing else []
        tables = [target_table(section.targets), *score_tables(section.scores), *missing]
        print_section(console, f"on hardware: {section.name}", section.provenance, tables)
    for overload in report.overload:
        console.print(Text(f"overload: {overload.name}", style="bold"))
        console.print(rich_table(overload_tables(overload.compared)[0]))
    for noise_free in report.noise_free:
        tables = _noise_free_tables(noise_free)
        print_section(console, f"without noise: {noise_free.name}", noise_free.provenance, tables)
    if report.effects:
        console.print(rich_table(short_effects_table(report.effects)))
        console.print()
    for path in (report.html_path, report.scores_path):
        console.print(Text(str(path)), soft_wrap=True)


def _noise_free_tables(section: NoiseFreeSection) -> list[TextTable]:
    """Return what fits a screen or two; the page has every point."""
    missing = [missing_table(section.missing)] if section.missing else []
    ledger = [ledger_summary(section.ledgers)] if section.ledgers else []
    return [
        promise_table(section.promises),
        regime_table(section.scores),
        *group_tables(section.scores),
        worst_table(section.scores),
        *ledger,
        *missing,
    ]


def print_section(
    console: Console, title: str, provenance: Provenance, tables: Sequence[TextTable]
) -> None:
    """Print a section: where it comes from, what to know of it, its tables."""
    p = provenance
    draws = f", {p.method['draws']} draws" if "draws" in p.method else ""
    console.print(
        f"{escape(title)}: profile {escape(p.profile)}{draws}; {p.n_runs} runs, "
        f"{p.n_rejected} rejected; code {escape(p.code)}",
        highlight=False,
    )
    for notice in p.notices:
        console.print(Text(notice, style="yellow"))
    for table in tables:
        console.print()
        console.print(rich_table(table))
    console.print()


def rich_table(content: TextTable) -> Table:
    """Return *content* as a Rich table; nothing in it is taken for markup."""
    table = Table(
        title=Text(content.title, style="bold"),
        caption=Text(content.note, style="dim") if content.note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for index, column in enumerate(content.columns):
        words = index < content.n_text
        # Headings may wrap between words; what stands below them may not.
        cells = [*column.split(), *(row[index] for row in content.rows)]
        table.add_column(
            Text(column),
            justify="left" if words else "right",
            width=max(map(len, cells)),
            overflow="fold",
        )
    for row in content.rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    return table
