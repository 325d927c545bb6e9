"""The command `import`: runs that other tools measured, in the format of observed runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..calibration.running.preparation import check_mechanisms
from ..scenario.errors import UserError
from ..scenario.formats import rate_text, time_text
from ..scenario.quantities import DURATION, RATE
from ..sim.files.tables import Table, rich_table
from ..sim.files.whole_files import to_json, write_whole
from .door import notes, people
from .options import AsJson
from .working import check_folder, quantity

if TYPE_CHECKING:
    from ..calibration.observed.observed_run import ObservedRun

_SHARES = {"median": "0.5", "p99": "0.99"}


def import_runs(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Output of httperf, wrk or wrk2; interval logs or percentile distributions "
            "(.hgrm) of HdrHistogram; CSV tables.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the runs to this new .jsonl file. Default: print only."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Request rate that was set in wrk2 (-R) or another load generator, such as 2000/s."
        ),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(min=1, help="Number of closed-loop clients, if the load was a closed loop."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of the values of a histogram: ns, us, ms or s.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(help="How long a percentile distribution was recorded, such as '30 s'."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN[:UNIT]",
            help="Meaning of a column of a table: rate_per_s=offered, p99=lat99:ms. Repeatable.",
        ),
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Dispatch mechanism of the server; no tool records it.")
    ] = None,
    idle: Annotated[
        int | None, typer.Option(min=0, help="Further idle connections; no tool records them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import runs that other tools measured.

    dispatchsim import wrk2.txt --rate 2000/s --output runs.jsonl

    The command prints which values the tool did not record. It also prints the state of the server
    in each run. stable: the server replied to all requests. overloaded: no request had a reply,
    or over 5% of them failed or still waited at the end. backlogged: in between. A run of a
    closed loop has no state, as its clients wait for the server. The command reports if the tool
    stalled or ran out of descriptors: the load was then lower than intended.
    """
    from ..calibration.observed.importing import Told, parse_columns, read_any

    told = Told(
        rate_per_s=float(quantity("--rate", RATE.parse, rate)) if rate is not None else None,
        users=users,
        unit=unit,
        window_ns=round(quantity("--window", DURATION.parse, window)) if window else None,
        columns=parse_columns(column or ()),
    )
    if mechanism is not None:
        (mechanism,) = check_mechanisms([mechanism], "--mechanism")
    if output is not None:
        check_folder("--output", output)
        if output.exists():
            raise UserError(f"--output: must be a new file, got {output}, which exists")
    runs = [_knowing(run, mechanism, idle) for path in files for run in read_any(_file(path), told)]
    if output is not None:
        write_whole(output, "".join(run.model_dump_json() + "\n" for run in runs))
        notes().print(f"{len(runs)} runs are in {output}", markup=False)
    if as_json:
        typer.echo(to_json([_to_dict(run) for run in runs]))
        return
    headings = ("file", "tool", "load", "replies/s", "median", "p99", "failed", "state")
    people().print(rich_table(Table.of_cells("", headings, map(_cells, runs), n_words=3)))
    for run in runs:
        for doubt in run.doubts:
            notes().print(f"{run.source.file}: {doubt}", style="yellow", markup=False)


def _file(path: Path) -> Path:
    if not path.is_file():
        found = "the folder " if path.is_dir() else ""
        raise UserError(f'FILE: must be a file that exists, got {found}"{path}"')
    return path


def _knowing(run: ObservedRun, mechanism: str | None, idle: int | None) -> ObservedRun:
    """Return *run* with the options in place of what its file lacks."""
    server, load = run.server, run.load
    if mechanism is not None and server.mechanism is None:
        server = server.model_copy(update={"mechanism": mechanism})
    if idle is not None and load.idle is None:
        load = load.model_copy(update={"idle": idle})
    return run.model_copy(update={"server": server, "load": load})


def _cells(run: ObservedRun) -> tuple[str, ...]:
    load = run.load
    asked = f"{load.users or '?'} users"
    if load.loop == "open" and load.rate_per_s is not None:
        asked = rate_text(load.rate_per_s)
    known = run.latency_ns.quantiles if run.latency_ns else {}
    quantiles = [known.get(share) for share in _SHARES.values()]
    return (
        run.source.file,
        run.source.tool,
        asked,
        rate_text(run.throughput_per_s),
        *("unknown" if value is None else time_text(value) for value in quantiles),
        f"{sum(run.errors.values()):,}",
        "unknown" if run.verdict is None else str(run.verdict),
    )


def _to_dict(run: ObservedRun) -> dict[str, Any]:
    verdict = None if run.verdict is None else str(run.verdict)
    return {**run.model_dump(mode="json"), "verdict": verdict}
