"""Tables and numbers of the accuracy page, from the committed scores of the last validation.

validation/reported/scores.json, papers/scores.json ──► tables in MyST, numbers by name
                                                    └─► the table of the README
symptoms and suspects (validation/scoring/suspects.py) ──► the table of find-the-wrong-cost.md

`python -m docs.making.accuracy` writes the last two.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dispatchsim.calibration.profiles.choosing import EXAMPLE
from dispatchsim.calibration.profiles.cost_profile import NOISY
from dispatchsim.sim.files.tables import Column, Table, markdown
from dispatchsim.sim.files.whole_files import write_whole
from dispatchsim.validation.noise_free.promises import NAMES
from dispatchsim.validation.report.hardware_section import Asked, asked_tables
from dispatchsim.validation.report.last_run_table import last_run_table
from dispatchsim.validation.report.point_tables import FIGURE_NAMES, REGIME_NAMES
from dispatchsim.validation.report.reported import REPORTED
from dispatchsim.validation.report.summary_tables import symptom_table
from dispatchsim.validation.scoring.knee import KneeErrors
from dispatchsim.validation.scoring.last_run import Pair
from dispatchsim.validation.scoring.regimes import (
    CAPACITY,
    CLOSED,
    CPU,
    NEAR,
    QUIET,
    RegimeErrors,
)
from dispatchsim.validation.scoring.targets import OURS
from dispatchsim.validation.scoring.value_verdicts import (
    ErrorSummary,
    factor_of,
    in_words,
    signed,
    unsigned,
)

Section = dict[str, Any]
"""A part of a report, as its file of scores has it."""


def scores() -> Section:
    """Return what the last committed validation found."""
    content: Section = json.loads((REPORTED / "scores.json").read_text())
    return content


def papers() -> list[Section]:
    """Return what the last committed validation found of each paper."""
    content: list[Section] = json.loads((REPORTED / "papers" / "scores.json").read_text())
    return content


def real_servers() -> Section:
    """Return the summary of the last committed forecasts of servers of others."""
    content = json.loads((REPORTED / "real_servers" / "scores.json").read_text())
    summary: Section = content["summary"]
    return summary


def accuracy_tables() -> str:
    """Return the tables of all machines and papers, to be included in a page."""
    found = scores()
    return "\n".join(
        [
            "## Median errors of all machines\n",
            markdown(errors_table()),
            "## Measured on hardware\n",
            *(markdown(table) for section in found["hardware"] for table in asked_of(section)),
            "## Counted, without noise\n",
            *(markdown(noise_free_table(section)) for section in found["noise_free"]),
            markdown(papers_table(papers()), level=2),
            markdown(effects_table(found["effects"]), level=2),
        ]
    )


def asked_of(section: Section) -> list[Table]:
    """Return the tables of one machine: the knee and errors by regime first, then all targets."""
    kept_up = section["kept_up"]
    tables = asked_tables(
        asked(section),
        asked(kept_up),
        differ=kept_up["left_out"] > 0,
        knows_lateness=kept_up.get("lateness_recorded", False),
    )
    if section["against_first"]["pairs"]:
        tables.append(other_run_table(section))
    name = section["name"]
    titles = [f"{name}: {table.title[0].lower()}{table.title[1:]}" for table in tables]
    return [
        *(replace(table, title=title) for table, title in zip(tables, titles, strict=True)),
        hardware_table(section),
    ]


def asked(section: Section) -> Asked:
    """Return the errors of the knee and by regime, as a file of scores has them."""
    return (
        [KneeErrors(**row) for row in section["knees"]],
        [RegimeErrors(**row) for row in section["regimes"]],
    )


def other_run_table(section: Section) -> Table:
    """Return the errors of another run and of the forecast of one machine."""
    return last_run_table(pairs_in(section), section["against_first"]["cpu_within"])


def pairs_in(section: Section) -> list[Pair]:
    """Return the errors of another run and of the forecast, as a file of scores has them."""
    return [
        (KneeErrors(**last), KneeErrors(**model))
        if "bound_ns" in last
        else (RegimeErrors(**last), RegimeErrors(**model))
        for last, model in section["against_first"]["pairs"]
    ]


BEGIN, END = "<!-- errors: python -m docs.making.accuracy -->", "<!-- end of errors -->"
"""Around the table in the README."""
_KNEE = "load at which p99 exceeds {}"


def _row(figure: str, regime: str) -> tuple[str, str]:
    """Return the words of a metric and of a regime in the table of all machines."""
    return FIGURE_NAMES[figure], REGIME_NAMES[regime]


_P50, _P99 = "p50, up to 80% of capacity", "p99, up to 80% of capacity"
TRUST = {
    _KNEE.format("20 ms"): (_KNEE.format("20 ms"), ""),
    "throughput of a saturated server": _row(CAPACITY, CLOSED),
    "CPU busy, up to 80% of capacity": _row(CPU, QUIET),
    _P50: _row("p50_ns", QUIET),
    _P99: _row("p99_ns", QUIET),
    "p99, 80% to 100% of capacity": _row("p99_ns", NEAR),
}
"""The rows of the table in the README: their names, metrics and regimes."""
TRUSTED = (
    "epyc-family25-2cpu-linux-6.18",
    "epyc-family25-model1-2cpu-linux-6.18",
    "epyc-family25-model17-2cpu-linux-6.18",
    EXAMPLE,
    "xeon-family6-model207-2cpu-linux-6.18",
)
"""The machines of the table in the README."""
REPEATED = "epyc-family25-model17-2cpu-linux-6.18"
"""The machine whose repeated runs the README compares."""


def errors_table() -> Table:
    """Return the median errors of all machines by metric and regime."""
    sections = scores()["hardware"]
    rows: dict[tuple[str, str], dict[str, ErrorSummary]] = {}
    for section in sections:
        for row, errors in errors_of(section).items():
            rows.setdefault(row, {})[section["name"]] = errors

    def of(section: Section) -> Column[tuple[str, str]]:
        noisy = " (noisy)" if NOISY in section["provenance"]["machine"] else ""
        return Column(
            f"{section['name'].split('-2cpu')[0]}{noisy}",
            lambda row: _summary(rows[row].get(section["name"])),
            words=True,
        )

    columns: list[Column[tuple[str, str]]] = [
        Column("error of", lambda row: row[0], words=True),
        Column("load", lambda row: row[1], words=True),
        *map(of, sections),
    ]
    return Table.of("", rows, columns)


def errors_of(section: Section) -> dict[tuple[str, str], ErrorSummary]:
    """Return the errors of a machine by metric and regime."""
    knee, regimes = asked(section)
    rows: list[KneeErrors | RegimeErrors] = [*knee, *regimes]
    return {_place(errors): errors for errors in rows}


def _place(errors: KneeErrors | RegimeErrors) -> tuple[str, str]:
    """Return the words of the metric and of the regime of *errors*."""
    if isinstance(errors, KneeErrors):
        return _KNEE.format(ms(errors.bound_ns)), ""
    return _row(errors.figure, errors.regime)


def trust_table() -> Table:
    """Return the table of the README: median errors of five machines, and their direction."""
    errors = {s["name"]: errors_of(s) for s in scores()["hardware"] if s["name"] in TRUSTED}

    def of(name: str) -> Column[str]:
        own = errors[name]
        return Column(
            name.split("-2cpu", maxsplit=1)[0],
            lambda row: _with_direction(own[TRUST[row]].median, own[TRUST[row]].signed),
            words=True,
        )

    columns = [Column[str]("forecast of", lambda row: row, words=True), *map(of, TRUSTED)]
    return Table.of("", list(TRUST), columns)


def runs_text() -> str:
    """Return how far two runs of the same load differ."""
    section = next(s for s in scores()["hardware"] if s["name"] == REPEATED)
    pairs = {_place(pair[0]): pair for pair in pairs_in(section)}
    p50, p99 = (unsigned(pairs[TRUST[row]][0].median) for row in (_P50, _P99))
    name = REPEATED.split("-2cpu", maxsplit=1)[0]
    return (
        f"Even two measured runs of the same load differ. On `{name}` at up to 80% of capacity, "
        f"the median difference is {p50} in p50\nand {p99} in p99."
    )


def order_text() -> str:
    """Return how many pairs of real servers are forecast in the order of their capacities."""
    summary = real_servers()
    return (
        f"Capacities of nginx, memcached, Redis and Transmission: median error "
        f"{unsigned(summary['median'])} over {summary['n_cases']} measured cases.\n"
        f"Pairs of these cases were compared, too: the same server with two settings or two "
        f"numbers of idle connections. In {summary['pairs']} pairs\nthe measured capacities "
        f"clearly differ. In {summary['ordered']} of these the forecast finds the case with the "
        f"higher capacity."
    )


def ms(value_ns: float) -> str:
    """Return a time in whole milliseconds."""
    return f"{value_ns / 1e6:.0f} ms"


def _summary(errors: ErrorSummary | None) -> str:
    """Return the median error, the median error with its sign, and how many are within 15%."""
    if errors is None or not errors.n:
        return "-"
    median = f"{unsigned(errors.median)} ({signed(errors.signed)})"
    return f"{median}, {errors.n_within} of {errors.n}"


def _with_direction(median: float, of_signed: float) -> str:
    """Return the *median* size of errors in words, with its direction unless errors nearly cancel.

    They do if the median of the signed errors is less than half as large, in logarithms.

    >>> _with_direction(0.1, 0.06), _with_direction(0.1, 0.03), _with_direction(-0.75, -0.7)
    ('10% too high', '10%', '4 times too low')
    """
    size, left = (math.log(factor_of(error)) for error in (median, of_signed))
    text = in_words(median)
    return text if left >= size / 2 else text.partition(" too ")[0]


def readme_block() -> str:
    """Return the table of errors as the README has it, with its marks."""
    table = markdown(trust_table()).strip()
    return f"{BEGIN}\n{table}\n\n{runs_text()}\n{order_text()}\n{END}"


def write_readme(path: Path) -> None:
    """Put the table of errors in its place in the README at *path*."""
    _write_block(path, BEGIN, readme_block(), END)


def _write_block(path: Path, begin: str, block: str, end: str) -> None:
    """Replace all between the marks *begin* and *end* in *path*, and the marks, by *block*."""
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    write_whole(path, f"{before}{block}{rest.partition(end)[2]}")


SUSPECTS_PAGE = Path(__file__).parents[1] / "how-to" / "find-the-wrong-cost.md"
SUSPECTS_BEGIN = "<!-- suspects: python -m docs.making.accuracy -->"
SUSPECTS_END = "<!-- end of suspects -->"


def suspects_block() -> str:
    """Return the table of symptoms and suspects as its page has it, with its marks."""
    return f"{SUSPECTS_BEGIN}\n{markdown(symptom_table()).strip()}\n{SUSPECTS_END}"


def hardware_table(section: Section) -> Table:
    """Return the table of one machine: each target, ours and the baselines."""
    provenance = section["provenance"]

    def of(name: str) -> Column[Section]:
        return Column(name, lambda target: error(target["values"][name], target["unit"]))

    columns: list[Column[Section]] = [
        Column("metric", lambda target: f"{target['name']}, {target['statistic']}", words=True),
        Column("wanted", lambda target: error(target["limit"], target["unit"])),
        *map(of, section["targets"][0]["values"]),
        Column("points within", lambda t: f"{t['n_within']} of {t['n_points'][OURS]}"),
    ]
    note = (
        f"{provenance['n_runs']} runs from {provenance['measured_from'][:10]} on, of which "
        f"{provenance['n_rejected']} were rejected as disturbed; forecasts of "
        f"{provenance['date'][:10]}. Only points that no fit has seen count."
        f"{noisy_text(provenance['machine'])}"
    )
    return Table.of(section["name"], section["targets"], columns, note)


def noisy_text(machine: Section) -> str:
    """Return a sentence if the record of a machine states that it was disturbed."""
    return f" Noisy: {machine[NOISY]}." if NOISY in machine else ""


def noise_free_table(section: Section) -> Table:
    """Return the table of a machine that counts instructions."""
    columns: list[Column[Section]] = [
        Column("metric", lambda promise: NAMES[promise["figure"]], words=True),
        Column("wanted of each", lambda promise: error(promise["limit"])),
        Column("median", lambda promise: error(promise["errors"][OURS]["median"])),
        Column("worst", lambda promise: error(promise["errors"][OURS]["worst"])),
        Column("points within", lambda p: f"{p['n_points_within']} of {p['n_points']}"),
    ]
    repeated = section["repeated"]
    note = (
        f"{section['provenance']['n_runs']} runs, each forecast with its own arrivals. At or "
        "above the capacity one arrival may decide between two states of a queue. Against the "
        f"median of runs with other arrivals, {repeated['n_within']} of {repeated['n_points']} "
        f"capacities are within the limit, {unsigned(repeated['median_error'])} off in the median."
    )
    return Table.of(section["name"], section["promises"], columns, note)


def papers_table(found: Sequence[Section]) -> Table:
    """Return the table of papers: how many of their claims are reproduced."""

    def good(paper: Section) -> list[Section]:
        return [claim for claim in paper["claims"] if claim["reproduced"]]

    def link(paper: Section) -> str:
        return f'<a href="validation/reported/papers/{paper["paper"]}.html">{paper["paper"]}</a>'

    columns: list[Column[Section]] = [
        Column("paper", lambda paper: paper["title"], words=True),
        Column("claims reproduced", lambda p: f"{len(good(p))} of {len(p['claims'])}"),
        Column("revised of these", lambda paper: sum(claim["revised"] for claim in good(paper))),
        Column("page", link, words=True),
    ]
    return Table.of("Claims of the literature", found, columns)


def effects_table(effects: Sequence[Section]) -> Table:
    """Return the table of effects that were found by comparing."""

    def worth(effect: Section) -> Section:
        return effect["noise_free"] or effect["hardware"] or {}

    columns: list[Column[Section]] = [
        Column("effect", lambda effect: effect["what"], words=True),
        Column("where", lambda effect: f"`{effect['where']}`", words=True),
        Column("metric", lambda effect: worth(effect).get("figure", "not tried"), words=True),
        Column("error before", lambda effect: error(worth(effect).get("before"))),
        Column("after", lambda effect: error(worth(effect).get("after"))),
    ]
    return Table.of("Effects found, and what each was worth", effects, columns)


def error(value: float | None, unit: str = "relative") -> str:
    """Return an error as a page shows it.

    >>> error(0.0436), error(1.3), error(0.085, "points"), error(None)
    ('4.4%', 'x2.3', '8.5 points', '-')
    """
    if value is None:
        return "-"
    if unit == "points":
        return f"{100 * value:.{0 if abs(value) >= 0.0995 else 1}f} points"
    return unsigned(value)


def numbers() -> dict[str, str]:
    """Return the numbers that pages name: each is read from what was reported."""
    found, claims = scores(), [claim for paper in papers() for claim in paper["claims"]]
    hardware = found["hardware"]
    capacity = {
        (section["name"], target["statistic"]): target
        for section in hardware
        for target in section["targets"]
        if target["name"] == "capacity"
    }
    median, worst = capacity[EXAMPLE, "median"], capacity[EXAMPLE, "worst"]
    counted = [section["promises"][0] for section in found["noise_free"]]
    real = real_servers()
    return {
        "shown_machine": EXAMPLE,
        "capacity_median_error": error(median["values"][OURS]),
        "capacity_worst_error": error(worst["values"][OURS]),
        "capacity_points_within": f"{worst['n_within']} of {worst['n_points'][OURS]}",
        "capacity_wanted": error(worst["limit"]),
        "counted_cpu_median_error": error(
            statistics.median(promise["errors"][OURS]["median"] for promise in counted)
        ),
        "n_claims": str(len(claims)),
        "n_claims_reproduced": str(sum(claim["reproduced"] for claim in claims)),
        "n_papers": str(len(papers())),
        "n_real_points": str(real["n_cases"]),
        "real_median_error": unsigned(real["median"]),
        "real_noise": unsigned(real["noise"]),
        "n_real_pairs": str(real["pairs"]),
        "n_real_ordered": str(real["ordered"]),
        "n_measured_runs": f"{sum(s['provenance']['n_runs'] for s in hardware):,}",
    }


if __name__ == "__main__":
    write_readme(Path(__file__).parents[2] / "README.md")
    _write_block(SUSPECTS_PAGE, SUSPECTS_BEGIN, suspects_block(), SUSPECTS_END)
