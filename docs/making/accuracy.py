"""Tables and numbers of the accuracy page, from the committed scores of the last validation.

validation/reported/scores.json, papers/scores.json ──► tables in MyST, numbers by name
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

REPORTED = Path(__file__).parents[2] / "validation" / "reported"
OURS = "dispatchsim"
_FIGURES = {
    "cpu_ns_per_request": "CPU per request",
    "waits_per_request": "waits per request",
    "events_per_wait": "events per wait",
    "mean_ns": "mean latency",
    "p99_ns": "p99 latency",
    "throughput_per_s": "capacity",
}


def scores() -> dict[str, Any]:
    """Return what the last committed validation found."""
    content: dict[str, Any] = json.loads((REPORTED / "scores.json").read_text())
    return content


def papers() -> list[dict[str, Any]]:
    """Return what the last committed validation found of each paper."""
    content: list[dict[str, Any]] = json.loads((REPORTED / "papers" / "scores.json").read_text())
    return content


def accuracy_tables() -> str:
    """Return the tables of all machines and papers, to be included in a page."""
    found = scores()
    parts = ["## Measured on hardware\n"]
    for section in found["hardware"]:
        parts += [hardware_table(section)]
    parts += ["## Counted, without noise\n"]
    for section in found["noise_free"]:
        parts += [noise_free_table(section)]
    parts += ["## Claims of the literature\n", papers_table(papers())]
    parts += ["## Effects found, and what each was worth\n", effects_table(found["effects"])]
    return "\n".join(parts)


def hardware_table(section: dict[str, Any]) -> str:
    """Return the table of one machine: each target, ours and the baselines."""
    provenance = section["provenance"]
    names = list(section["targets"][0]["values"])
    lines = [
        f"### {section['name']}\n",
        f"{provenance['n_runs']} runs from {provenance['measured_from'][:10]} on, of which "
        f"{provenance['n_rejected']} were rejected as disturbed; forecasts of "
        f"{provenance['date'][:10]}. Only points that no fit has seen count.\n",
        "| figure | wanted | " + " | ".join(names) + " | points within |",
        "|---" * (len(names) + 3) + "|",
    ]
    for target in section["targets"]:
        n_points = target["n_points"][OURS]
        values = " | ".join(error(value, target["unit"]) for value in target["values"].values())
        lines.append(
            f"| {target['name']}, {target['statistic']} | {error(target['limit'], target['unit'])} "
            f"| {values} | {target['n_within']} of {n_points} |"
        )
    return "\n".join([*lines, ""])


def noise_free_table(section: dict[str, Any]) -> str:
    """Return the table of a machine that counts instructions."""
    lines = [
        f"### {section['name']}\n",
        f"{section['provenance']['n_runs']} runs, each forecast with its own arrivals.\n",
        "| figure | wanted of each | median | worst | points within |",
        "|---|---|---|---|---|",
    ]
    for promise in section["promises"]:
        ours = promise["errors"][OURS]
        lines.append(
            f"| {_FIGURES[promise['figure']]} | {error(promise['limit'])} "
            f"| {error(ours['median'])} | {error(ours['worst'])} "
            f"| {promise['n_points_within']} of {promise['n_points']} |"
        )
    return "\n".join([*lines, ""])


def papers_table(found: list[dict[str, Any]]) -> str:
    """Return the table of papers: how many of their claims are reproduced."""
    lines = ["| paper | claims reproduced | of them revised | page |", "|---|---|---|---|"]
    for paper in found:
        claims = paper["claims"]
        good = [claim for claim in claims if claim["reproduced"]]
        n_revised = sum(claim["revised"] for claim in good)
        link = f'<a href="validation/reported/papers/{paper["paper"]}.html">{paper["paper"]}</a>'
        lines.append(f"| {paper['title']} | {len(good)} of {len(claims)} | {n_revised} | {link} |")
    return "\n".join([*lines, ""])


def effects_table(effects: list[dict[str, Any]]) -> str:
    """Return the table of effects that were found by comparing."""
    lines = ["| effect | where | figure | error before | after |", "|---|---|---|---|---|"]
    for effect in effects:
        worth = effect["noise_free"] or effect["hardware"]
        before_after = (
            f"{worth['figure']} | {error(worth['before'])} | {error(worth['after'])}"
            if worth
            else "not tried | - | -"
        )
        lines.append(f"| {effect['what']} | `{effect['where']}` | {before_after} |")
    return "\n".join([*lines, ""])


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
