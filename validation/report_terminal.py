"""The report in a terminal of 100 columns: targets first, then every point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from .report_tables import TextTable, missing_table, score_tables, target_table

if TYPE_CHECKING:
    from .report import Report

_STYLES = {"reached": "green", "missed": "bold red", "no": "red", "not measured": "yellow"}


def print_report(report: Report, console: Console | None = None) -> None:
    """Print *report*: targets, points by group, what was not measured, where it is written."""
    console = console or Console()
    p = report.provenance
    console.print(
        f"profile {escape(p.profile)}, {p.draws} draws; {p.n_runs} runs, "
        f"{p.n_rejected} rejected; code {escape(p.code)}",
        highlight=False,
    )
    for notice in p.notices:
        console.print(Text(notice, style="yellow"))
    tables = [target_table(report.targets), *score_tables(report.scores)]
    if report.missing:
        tables.append(missing_table(report.missing))
    for table in tables:
        console.print()
        console.print(rich_table(table))
    console.print()
    for path in (report.html_path, report.scores_path):
        console.print(Text(str(path)), soft_wrap=True)


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
