"""The command `results`: what a store holds, one line a point; filtered, or as a file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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


def results(
    folder: Annotated[Path, typer.Argument(help="A store.")] = STORE,
    *,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help='Only such rows: "server.mechanism=poll", "load.rate>2000/s", '
            '"p99_ns<=50 ms". All of several must hold.'
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Fields and figures to show instead, with commas between."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write these rows to a .parquet, .csv or .json file instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the results in FOLDER: one line a scenario, with what differs between them."""
    from ..studies.listing import Condition, check_fields, matching, points_of

    conditions = [Condition.parse(text) for text in where or ()]
    if columns is not None and as_json:
        raise UserError("--columns: must be absent with --json, which has all of them")
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
        raise UserError(f"--where: must leave a row, none of the {len(rows)} in {folder} is so")
    people().print(rich_table(_table(points, wanted)))
    if len(points) > _ROWS_MAX:
        notes().print(f"... and {len(points) - _ROWS_MAX} more: --json or --export has all")
    if any(point.has_twins for point in points):
        notes().print(
            "some seeds are there twice, of profiles that differ and have the same name",
            style="yellow",
        )


def _rows(folder: Path) -> list[Record]:
    """Return all rows of the store; say which fragments could not be read."""
    from ..store.store import QUARANTINE, Store

    if not folder.is_dir():
        raise UserError(f"FOLDER: must be a folder with results, got {folder}, which is none")
    store = Store(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said below, in the words of a command
        rows = store.records()
    for path, reason in store.quarantined:
        notes().print(
            f"{path.name} is no whole fragment ({reason}): it is in {folder / QUARANTINE}, and its "
            "runs are simulated again when they are wanted",
            style="yellow",
            markup=False,
        )
    if not rows:
        raise UserError(f"FOLDER: must hold results, {folder} has none yet")
    return rows


def _table(points: Sequence[Point], wanted: Sequence[str]) -> Table:
    """Return one line a point: its mechanism, what differs or what is *wanted*, its figures."""
    from ..studies.listing import differing

    def column(name: str) -> Column[Point]:
        return Column(name, lambda point: _cell(point, name))

    columns: list[Column[Point]] = [
        Column("mechanism", lambda point: point.fields["mechanism"] or "", words=True),
        *map(column, list(wanted) or [*differing(points), *_FIGURES]),
        Column("replications", lambda point: len(point.central)),
    ]
    if any(point.drawn for point in points):
        columns.append(Column("draws", lambda point: len(point.drawn)))
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
    rows = (*point.central, *point.drawn)
    figures = dict.fromkeys(name for row in rows for name in row.figures)
    return {
        "fields": {name: value for name, value in point.fields.items() if value is not None},
        "seeds": [row.seed for row in point.central],
        "draws": [row.draw for row in point.drawn],
        "verdict": point.verdict,
        "estimates": {name: point.estimate(name).to_dict() for name in figures},
    }
