"""The command `results`: the runs in a store, one line per point; filtered, or as a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..scenario.errors import UserError
from ..scenario.metrics import metric_text
from ..sim.files.tables import Column, Table, rich_table
from ..sim.files.whole_files import to_json
from .door import notes, people
from .options import STORE, AsJson

if TYPE_CHECKING:  # they take their time to import
    from ..store.records import Record
    from ..studies.listing import Point

_ROWS_MAX = 100
_FIGURES = ("p99_ns", "throughput_per_s")
_GAP = 2
"""Letters between two columns of a table."""
_WRITTEN_BY = (
    "capacity, sweep, tune, forecast and compare --vary write results "
    f"(to --store, by default {STORE})"
)


def results(
    folder: Annotated[Path, typer.Argument(help="Folder that runs were stored in.")] = STORE,
    *,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help='Show only matching rows: "server.mechanism=poll", "load.rate>2000/s", '
            '"p99_ns<=50 ms". Repeatable; all must match.'
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Fields and metrics to show, separated by commas."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the rows to this .parquet, .csv or .json file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the stored results of studies.

    dispatchsim results --where "load.rate>2000/s"

    Each scenario has one line. It shows the fields that differ between scenarios, as many as there
    is room for.
    """
    from ..studies.listing import Condition, check_fields, differing, matching, points_of

    conditions = [Condition.parse(text) for text in where or ()]
    if columns is not None and as_json:
        raise UserError("--columns: must be absent with --json, which prints all columns")
    rows = _rows(folder)
    wanted = [name.strip() for name in columns.split(",")] if columns else []
    check_fields(wanted, rows, "--columns")
    chosen = matching(rows, conditions)
    if export is not None:
        from ..store.fragments import export as write

        write(chosen, export)
        notes().print(f"{len(chosen)} of {len(rows)} rows are in {export}", markup=False)
        return
    points = points_of(chosen)
    if as_json:
        typer.echo(to_json([_to_dict(point) for point in points]))
        return
    if not points:
        raise UserError(f"--where: no row matches (of {len(rows)} in {folder})")
    console = people()
    varied = [] if wanted else differing(points)
    fields = wanted or _fitting(points, varied, console.width)
    console.print(rich_table(_table(points, fields if wanted else [*fields, *_FIGURES])))
    if left := [name for name in varied if name not in fields]:
        notes().print(
            f"further fields that differ: {', '.join(left)} (--columns shows those that you name, "
            "--json and --export have all)",
            markup=False,
        )
    if len(points) > _ROWS_MAX:
        notes().print(f"... and {len(points) - _ROWS_MAX} more (--json or --export: all)")
    if any(point.has_twins for point in points):
        notes().print(
            "some seeds occur twice, from different profiles of the same name",
            style="yellow",
        )


def _rows(folder: Path) -> list[Record]:
    """Return all rows of the store; print which fragments could not be read."""
    from ..store.store import QUARANTINE, Store

    if not folder.is_dir():
        raise UserError(f"FOLDER: must be an existing folder, got {folder}; {_WRITTEN_BY}")
    store = Store(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # printed below, in the words of a command
        rows = store.records()
    for path, reason in store.quarantined:
        notes().print(
            f"{path.name} is incomplete ({reason}): it was moved to {folder / QUARANTINE}, and its "
            "runs are simulated again when a study needs them",
            style="yellow",
            markup=False,
        )
    if not rows:
        raise UserError(f"FOLDER: must hold results, got none in {folder}; {_WRITTEN_BY}")
    return rows


def _fitting(points: Sequence[Point], varied: Iterable[str], width: int) -> list[str]:
    """Return as many of the *varied* fields as fit a line of this *width*.

    Those with the most values come first.
    """
    cells = {name: [_cell(point, name) for point in points] for name in varied}
    widths = _table(points, _FIGURES).widths
    room = width - sum(widths) - _GAP * len(widths)
    found = []
    for name in sorted(cells, key=lambda name: -len(set(cells[name]))):
        needed = max(len(name), *map(len, cells[name][:_ROWS_MAX])) + _GAP
        if needed <= room:
            found.append(name)
            room -= needed
    return found


def _table(points: Sequence[Point], wanted: Sequence[str]) -> Table:
    """Return one line per point: its mechanism, the *wanted* fields and metrics, its runs."""

    def column(name: str) -> Column[Point]:
        return Column(name, lambda point: _cell(point, name))

    columns: list[Column[Point]] = [
        Column("mechanism", lambda point: point.fields["mechanism"] or "", words=True),
        *map(column, wanted),
        Column("replications", lambda point: len(point.central)),
    ]
    if any(point.drawn for point in points):
        columns.append(Column("cost samples", lambda point: len(point.drawn)))
    columns.append(Column("verdict", lambda point: point.verdict, words=True))
    return Table.of("", points[:_ROWS_MAX], columns)


def _cell(point: Point, name: str) -> str:
    if name in point.fields:
        return point.fields[name] or "-"
    rows = point.central or point.drawn
    if name == "verdict":
        return point.verdict
    if name in {"seed", "draw"}:
        return ", ".join(str(getattr(row, name)) for row in rows)
    return metric_text(name, point.estimate(name).mean)


def _to_dict(point: Point) -> dict[str, Any]:
    from ..studies.rows import in_order

    rows = (*point.central, *point.drawn)
    figures = dict.fromkeys(name for row in rows for name in row.figures)
    estimates = in_order({name: point.estimate(name) for name in figures})
    return {
        "fields": {name: value for name, value in point.fields.items() if value is not None},
        "seeds": [row.seed for row in point.central],
        "draws": [row.draw for row in point.drawn],
        "verdict": point.verdict,
        "estimates": {name: known.to_dict() for name, known in estimates.items()},
    }
