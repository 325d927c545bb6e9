"""The report section on overload: measured and simulated curves side by side.

goodput        against the load: a panel for each server, a colour for each backlog
shares         of connections, by the SYN that connected them
storms         goodput over time, before, during and after a surge
floods         CPU left to a computing process beside datagrams (interrupt_load.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ...calibration.points.overload_points import SURGE_BEGIN_NS, SURGE_END_NS
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.flood_records import FLOOD_FILE, FloodRecord
from ...calibration.records.measured_runs import read_rows
from ...calibration.records.overload_records import BIN_NS, OVERLOAD_FILE, OverloadRecord
from ...sim.engine.workers import workers_for
from ...sim.files.parallel import run_all
from ...sim.state.units import SECOND_NS
from ..drawing.figures import legend, style
from ..drawing.looks import OKABE_ITO, nth_look
from ..forecast.kept_runs import KeptRuns
from ..forecast.provenance import MachineRuns, file_hash, simulation_hash
from ..overload import overload
from ..overload.interrupt_load import FIGURE_CAPTION, FloodScore, flood_figure, score_floods
from ..overload.overload import Compared, OverloadFigures, SimulatedRun, compare
from ..overload.verdicts import overload_tables
from .page import DrawnFigure, Shown

CAPTIONS = {
    "overload_goodput": "Overload: goodput against the offered load, both in units of the "
    "capacity. Points: median of the measured runs; lines: simulation of the same runs.",
    "overload_shares": "Overload: shares of connections by the SYN that connected them. Each pair "
    "of bars is a point: measured on the left, simulated (hatched) on the right.",
    "overload_storms": "Retry storms: goodput over time. Solid: measured; dashed: simulation of "
    "the same runs; shaded: the surge.",
}
_TEXT = (
    "Loads around and beyond the capacity, overflowing backlogs and retry storms, with the C "
    "server and load generator. Each measured run is simulated with its own arrivals at the costs "
    "of the profile. Nothing is fitted to these runs. The capacity is a median of closed loops."
)
_SHARES = (
    ("first SYN", "at_once"), ("second", "second"), ("third", "third"), ("fourth", "fourth"),
    ("never", "never"),
)  # fmt: skip


@dataclass(frozen=True)
class OverloadSection:
    """Measured and simulated overload of a machine, and its floods of datagrams."""

    name: str
    compared: list[Compared]
    floods: Sequence[FloodScore] = ()


def overload_section(
    machine: MachineRuns, *, workers: int = 1, kept: KeptRuns | None = None
) -> OverloadSection | None:
    """Simulate the overload runs in the folder of *machine*; None if it holds none.

    *kept* comes from `kept_overload`.
    """
    records = read_rows(machine.folder / OVERLOAD_FILE, OverloadRecord).rows
    if not any(record.accepted for record in records):
        return None
    floods = read_rows(machine.folder / FLOOD_FILE, FloodRecord).rows
    profile = Profile.read(machine.profile_path)
    with workers_for("auto", workers) as executor:
        compared = compare(records, profile, simulate=kept or run_all, executor=executor)
    return OverloadSection(
        machine.name,
        compared,
        score_floods(floods, profile) if floods else (),
    )


def kept_overload(folder: Path) -> KeptRuns:
    """Return the simulated overload runs that are stored in a report's *folder*."""
    code = f"{simulation_hash()} {file_hash(Path(overload.__file__))}"
    return KeptRuns(
        folder / "simulated_overload.jsonl",
        code,
        to_json=lambda run: [list(run.figures), list(run.replied)],
        of_json=lambda row: SimulatedRun(OverloadFigures(*row[0]), tuple(row[1])),
    )


def show_overload(section: OverloadSection) -> Shown:
    """Return the parts of *section* that a report shows."""
    first, every = overload_tables(section.compared)
    n_runs = sum(entry.n_runs for entry in section.compared)
    n_rejected = sum(entry.n_rejected for entry in section.compared)
    return Shown(
        title=f"Overload: {section.name}",
        heading=f"overload: {section.name}",
        text=_TEXT,
        name=section.name,
        first=[first],
        folded=[("Every point", [every])],
        brief=[first],
        screen=[first],
        figures=lambda: drawn_overload(section),
        facts=[("runs", f"{n_runs} accepted, {n_rejected} of the same points rejected")],
    )


def drawn_overload(section: OverloadSection) -> dict[str, DrawnFigure]:
    """Return the pictures of a machine's overload, and of its floods if there are any."""
    drawn = {
        name: DrawnFigure(figure, CAPTIONS[name])
        for name, figure in overload_figures(section.compared).items()
    }
    if section.floods:
        with style():
            drawn["flood_progress"] = DrawnFigure(flood_figure(section.floods), FIGURE_CAPTION)
    return drawn


def overload_figures(compared: Sequence[Compared]) -> dict[str, Figure]:
    """Return the pictures for which *compared* has points, by file name."""
    doubling = [
        c for c in compared if c.point.kind == "backlog" and not c.point.linear_syn_timeouts
    ]
    storms = [c for c in compared if c.point.kind == "storm"]
    drawn = {}
    with style():
        if doubling:
            drawn["overload_goodput"] = goodput(doubling)
            drawn["overload_shares"] = shares(doubling)
        if storms:
            drawn["overload_storms"] = over_time(storms)
    return drawn


def goodput(compared: Sequence[Compared]) -> Figure:
    """Return goodput against offered load: a panel for each server, a colour for each backlog."""
    servers = list(dict.fromkeys(c.point.server_name for c in compared))
    backlogs = sorted({c.point.server.backlog for c in compared})
    figure = Figure(figsize=(4.2 * len(servers) + 0.4, 4.0), layout="constrained")
    panels = figure.subplots(1, len(servers), sharey=True, squeeze=False)[0]
    for axes, server in zip(panels, servers, strict=True):
        for i, backlog in enumerate(backlogs):
            row = [
                c
                for c in compared
                if (c.point.server_name, c.point.server.backlog) == (server, backlog)
            ]
            row.sort(key=lambda c: c.load)
            look, loads = nth_look(i), [c.load for c in row]
            simulated = [c.simulated.goodput for c in row]
            axes.plot(loads, simulated, color=look.colour, linestyle=look.dashes, linewidth=1.3)
            measured = [c.measured.goodput for c in row]
            axes.plot(loads, measured, look.marker, color=look.colour, markeredgecolor="white")
        axes.axline((0, 0), slope=1, color="0.6", linewidth=0.8)
        axes.set(title=server, xlabel="offered load (share of the capacity)", ylim=(0, 1.25))
        axes.set_xlim(0.4, 1.1 * max(c.load for c in compared))
    panels[0].set_ylabel("goodput (share of the capacity)")
    legend(figure, {f"backlog {b}": nth_look(i) for i, b in enumerate(backlogs)})
    return figure


def shares(compared: Sequence[Compared]) -> Figure:
    """Return the shares of connections by SYN, measured and simulated side by side."""
    past = [c for c in compared if c.load > 1]
    past = past or list(compared)
    figure = Figure(figsize=(max(6.0, 0.85 * len(past) + 1.5), 4.6), layout="constrained")
    axes = figure.subplots()
    at = np.arange(len(past))
    for side, name in ((-0.2, "measured"), (0.2, "simulated")):
        bottom = np.zeros(len(past))
        for i, (label, field) in enumerate(_SHARES):
            heights = np.nan_to_num([getattr(getattr(c, name), field) for c in past])
            if not any(getattr(c.measured, field) + getattr(c.simulated, field) for c in past):
                continue
            axes.bar(
                at + side, heights, 0.36, bottom=bottom, color=OKABE_ITO[i], edgecolor="white",
                hatch="" if name == "measured" else "///",
                label=label if name == "measured" else None,
            )  # fmt: skip
            bottom += heights
    names = [
        f"{c.point.server_name}\nbacklog {c.point.server.backlog}\nload {c.load:.2f}" for c in past
    ]
    axes.set_xticks(at, names, rotation=40, ha="right")
    axes.set_ylabel("share of connections")
    axes.grid(visible=False, axis="x")
    figure.legend(loc="outside upper center", ncols=len(_SHARES))
    return figure


def over_time(compared: Sequence[Compared]) -> Figure:
    """Return goodput over time of storms: a panel for each point."""
    figure = Figure(figsize=(7.6, 1.9 * len(compared) + 0.6), layout="constrained")
    panels = figure.subplots(len(compared), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, entry in zip(panels, compared, strict=True):
        axes.axvspan(SURGE_BEGIN_NS / SECOND_NS, SURGE_END_NS / SECOND_NS, color="0.9")
        for values, dashes, colour in (
            (entry.measured_goodput, "-", OKABE_ITO[0]),
            (entry.simulated_goodput, "--", OKABE_ITO[1]),
        ):
            seconds = (np.arange(len(values)) + 0.5) * BIN_NS / SECOND_NS
            axes.plot(seconds, values, linestyle=dashes, color=colour, linewidth=1.3)
        axes.set_title(entry.point.label, loc="left")
        axes.set_ylabel("goodput")
    panels[-1].set_xlabel("seconds")
    return figure
