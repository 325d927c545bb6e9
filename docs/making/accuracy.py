"""Tables and numbers of the accuracy page, from the committed scores of the last validation.

validation/reported/scores.json, papers/scores.json ──► tables in MyST, numbers by name
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dispatchsim.sim.files.tables import Column, Table, markdown
from dispatchsim.validation.noise_free.promises import NAMES
from dispatchsim.validation.report.point_tables import knee_table, regime_table
from dispatchsim.validation.report.reported import REPORTED
from dispatchsim.validation.scoring.knee import KneeErrors, RegimeErrors
from dispatchsim.validation.scoring.targets import OURS

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


def accuracy_tables() -> str:
    """Return the tables of all machines and papers, to be included in a page."""
    found = scores()
    return "\n".join(
        [
            "## Measured on hardware\n",
            *(markdown(table) for section in found["hardware"] for table in asked_of(section)),
            "## Counted, without noise\n",
            *(markdown(noise_free_table(section)) for section in found["noise_free"]),
            markdown(papers_table(papers()), level=2),
            markdown(effects_table(found["effects"]), level=2),
        ]
    )


def asked_of(section: Section) -> list[Table]:
    """Return the tables of one machine: the knee and response times first, then all targets."""
    name = section["name"]
    knee = knee_table([KneeErrors(**row) for row in section["knees"]])
    regimes = regime_table([RegimeErrors(**row) for row in section["regimes"]])
    return [
        replace(knee, title=f"{name}: the knee"),
        replace(regimes, title=f"{name}: response times by regime"),
        hardware_table(section),
    ]


def hardware_table(section: Section) -> Table:
    """Return the table of one machine: each target, ours and the baselines."""
    provenance = section["provenance"]

    def of(name: str) -> Column[Section]:
        return Column(name, lambda target: error(target["values"][name], target["unit"]))

    columns: list[Column[Section]] = [
        Column("figure", lambda target: f"{target['name']}, {target['statistic']}", words=True),
        Column("wanted", lambda target: error(target["limit"], target["unit"])),
        *map(of, section["targets"][0]["values"]),
        Column("points within", lambda t: f"{t['n_within']} of {t['n_points'][OURS]}"),
    ]
    note = (
        f"{provenance['n_runs']} runs from {provenance['measured_from'][:10]} on, of which "
        f"{provenance['n_rejected']} were rejected as disturbed; forecasts of "
        f"{provenance['date'][:10]}. Only points that no fit has seen count."
    )
    return Table.of(section["name"], section["targets"], columns, note)


def noise_free_table(section: Section) -> Table:
    """Return the table of a machine that counts instructions."""
    columns: list[Column[Section]] = [
        Column("figure", lambda promise: NAMES[promise["figure"]], words=True),
        Column("wanted of each", lambda promise: error(promise["limit"])),
        Column("median", lambda promise: error(promise["errors"][OURS]["median"])),
        Column("worst", lambda promise: error(promise["errors"][OURS]["worst"])),
        Column("points within", lambda p: f"{p['n_points_within']} of {p['n_points']}"),
    ]
    note = f"{section['provenance']['n_runs']} runs, each forecast with its own arrivals."
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
        Column("of them revised", lambda paper: sum(claim["revised"] for claim in good(paper))),
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
        Column("figure", lambda effect: worth(effect).get("figure", "not tried"), words=True),
        Column("error before", lambda effect: error(worth(effect).get("before"))),
        Column("after", lambda effect: error(worth(effect).get("after"))),
    ]
    return Table.of("Effects found, and what each was worth", effects, columns)


def error(value: float | None, unit: str = "relative") -> str:
    """Return an error as a page says it.

    >>> error(0.0436), error(1.3), error(0.085, "points"), error(None)
    ('4.4%', '130%', '8.5 points', '-')
    """
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 0.0995 else 1
    number = f"{100 * value:.{digits}f}"
    return f"{number} points" if unit == "points" else f"{number}%"


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
    first = hardware[0]["name"]
    median, worst = capacity[first, "median"], capacity[first, "worst"]
    counted = [section["promises"][0] for section in found["noise_free"]]
    return {
        "default_machine": first,
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
        "n_measured_runs": f"{sum(s['provenance']['n_runs'] for s in hardware):,}",
    }
