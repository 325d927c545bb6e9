"""A table of records, by columns, for a page, a terminal and Markdown.

    records ─┐
    columns ─┴─► Table ─┬─► rich_table()     a terminal
                        ├─► markdown()       a README, a page of the documents
                        └─► validation/templates/grid.html.jinja

A column has a heading, the value that it takes of a record, and how the value is written.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import rich.table

DASH = "–"  # noqa: RUF001
"""A missing value."""
Record = TypeVar("Record")
Row = tuple[str, ...]
_NOTE_WIDTH = 100


@dataclass(frozen=True)
class Column(Generic[Record]):
    """One column of a table.

    Attributes
    ----------
    heading:
        Above it.
    of:
        Returns the value of a record.
    shown:
        Returns the text of a value.
    words:
        Whether it holds words, which are aligned left; numbers are aligned right.
    whole:
        Whether its words are never folded: the column is as wide as the longest of them.
    means:
        What a short heading stands for: in the note below the table, and in a page where one
        points at the heading.
    """

    heading: str
    of: Callable[[Record], Any]
    shown: Callable[[Any], str] = str
    words: bool = False
    whole: bool = False
    means: str = ""

    def cell(self, record: Record) -> str:
        """Return the text of *record* in this column."""
        return self.shown(self.of(record))


@dataclass(frozen=True)
class Table:
    """A table of ready text: a cell a column in every row."""

    title: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Row]
    note: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        records: Iterable[Record],
        columns: Sequence[Column[Record]],
        note: str = "",
    ) -> Table:
        """Return the table of *records*: a row each; the note ends with what headings mean."""
        meanings = "; ".join(f"{c.heading}: {c.means}" for c in columns if c.means)
        note = " ".join(filter(None, (note, meanings and f"{meanings}.")))
        return cls(title, columns, [tuple(c.cell(r) for c in columns) for r in records], note)

    @classmethod
    def of_cells(
        cls,
        title: str,
        headings: Sequence[str],
        rows: Iterable[Row],
        note: str = "",
        n_words: int = 1,
    ) -> Table:
        """Return the table of ready *rows*, whose first *n_words* columns are words."""
        columns = [
            Column[Row](name, lambda _: "", words=i < n_words) for i, name in enumerate(headings)
        ]
        return cls(title, columns, list(rows), note)

    def with_row(self, row: Row) -> Table:
        """Return this table with one more row, as of a sum."""
        return replace(self, rows=[*self.rows, row])

    @property
    def headings(self) -> list[str]:
        """The headings of the columns."""
        return [column.heading for column in self.columns]

    @property
    def widths(self) -> list[int]:
        """The letters that each column needs. Headings may wrap, and words that are not `whole`."""
        found = []
        for index, column in enumerate(self.columns):
            cells = [*column.heading.split(), *(row[index] for row in self.rows)]
            if column.whole:
                cells = [word for cell in cells for word in cell.split()]
            found.append(max(map(len, cells), default=0))
        return found


def rich_table(table: Table, styles: Mapping[str, str] | None = None) -> rich.table.Table:
    """Return *table* for a terminal, nothing in it taken for markup; *styles* by text of a cell."""
    import rich.box
    import rich.table
    from rich.text import Text

    drawn = rich.table.Table(
        title=Text(table.title, style="bold") if table.title else None,
        caption=Text(table.note, style="dim") if table.note else None,
        title_justify="left",
        caption_justify="left",
        box=rich.box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        show_header=any(table.headings),
    )
    for column, width in zip(table.columns, table.widths, strict=True):
        # Headings and words may wrap in a narrow terminal; numbers may not.
        drawn.add_column(
            Text(column.heading),
            justify="left" if column.words else "right",
            width=width if column.whole or not column.words else None,
            max_width=width if column.words else None,
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in row))
    return drawn


def markdown(table: Table, level: int = 3) -> str:
    """Return *table* as Markdown below a heading of *level*: words left, numbers right."""
    lines = [table.headings, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]

    def drawn(line: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if column.words else cell.rjust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        ]
        return "| " + " | ".join(cells) + " |"

    rule = "|".join(
        "-" * (width + 2) if column.words else "-" * (width + 1) + ":"
        for width, column in zip(widths, table.columns, strict=True)
    )
    note = [textwrap.fill(table.note, _NOTE_WIDTH), ""] if table.note else []
    head = ["#" * level + f" {table.title}", "", *note] if table.title else note
    return "\n".join([*head, drawn(lines[0]), f"|{rule}|", *map(drawn, lines[1:]), ""])
