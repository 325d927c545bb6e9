"""Measured runs against forecasts: from folders of machines to one report.

folder of a real machine       ─► HardwareSection  ─┐
folder of the emulated machine ─► NoiseFreeSection ─┼─► report.html, scores.json, figures/
effects.toml ───────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...sim.files.whole_files import write_whole
from ..drawing.figures import save_figures
from ..forecast.provenance import MachineRuns, read_machine_runs
from .effects import Effect, read_effects
from .hardware_section import HardwareSection, hardware_section
from .noise_free_section import NoiseFreeSection, noise_free_section
from .overload_section import OverloadSection, overload_section
from .page import render_html
from .pictures import drawn_figures
from .scores_json import scores_json

EMULATED = "emulated"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Report:
    """What a validation found, and the files that hold it; sections in the order of folders."""

    hardware: list[HardwareSection]
    noise_free: list[NoiseFreeSection]
    effects: tuple[Effect, ...]
    html_path: Path
    scores_path: Path
    figure_paths: list[Path]
    overload: list[OverloadSection] = field(default_factory=list)


def validate(
    machines: Sequence[MachineRuns],
    output_dir: Path,
    *,
    draws: int = 20,
    workers: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Forecast all that was measured on *machines*, compare, and write the report.

    Parameters
    ----------
    machines:
        With the profile of each. Without the runs of its fit point, the processor sharing
        baseline has nothing to say of a machine.
    output_dir:
        Made if missing. An interrupted validation goes on from the forecasts it finds there.
    draws:
        Of a profile's costs, for the interval of each forecast of noisy runs.
    workers:
        Processes to simulate in; 1: this one.
    progress:
        Called with (runs simulated, runs to simulate), machine by machine.

    Raises
    ------
    ValueError
        If a machine has no runs, or some of them are emulated and some are not.
    """
    emulated = [is_emulated(machine) for machine in machines]
    effects = read_effects()
    output_dir.mkdir(parents=True, exist_ok=True)
    report = Report([], [], effects, output_dir / "report.html", output_dir / "scores.json", [])
    for machine, without_noise in zip(machines, emulated, strict=True):
        if without_noise:
            report.noise_free.append(
                noise_free_section(machine, workers=workers, progress=progress)
            )
        else:
            cache_path = output_dir / "forecasts.jsonl"
            if read_machine_runs(machine.folder).held_out:
                report.hardware.append(
                    hardware_section(
                        machine, cache_path, draws=draws, workers=workers, progress=progress
                    )
                )
            overload = overload_section(machine)
            report.overload.extend([overload] if overload else [])
    return _write(report, output_dir)


def is_emulated(machine: MachineRuns) -> bool:
    """Return whether the runs of *machine* are of the emulated target.

    Raises
    ------
    ValueError
        If some are and some are not, or there are none.
    """
    kinds = {record.steering == EMULATED for record in read_machine_runs(machine.folder).all}
    if len(kinds) > 1:
        raise ValueError(f"{machine.folder}: runs must be emulated or not, got both in one folder")
    return kinds.pop()


def _write(report: Report, output_dir: Path) -> Report:
    """Write figures, scores and, last, the page."""
    drawn = {name: figure.figure for name, figure in drawn_figures(report).items()}
    report = replace(report, figure_paths=save_figures(drawn, output_dir / "figures"))
    write_whole(report.scores_path, scores_json(report))
    write_whole(report.html_path, render_html(report))
    return report
