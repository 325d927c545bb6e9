"""Measured runs against forecasts: from folders of machines to one report.

folder of a real machine       ─► HardwareSection  ─┐
folder of the emulated machine ─► NoiseFreeSection ─┼─► report.html, scores.json, figures/
effects.toml (with a shipped machine) ──────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from ...calibration.profiles.cost_profile import shipped_profiles
from ...sim.files.whole_files import write_whole
from ..forecast.kept_runs import KEPT_RUNS, KeptRuns
from ..forecast.provenance import MachineRuns, read_machine_runs
from ..noise_free.run_forecast import kept_forecasts
from .effects import Effect, effects_table, read_effects, short_effects_table
from .hardware_section import HardwareSection, hardware_section, show_hardware
from .noise_free_section import NoiseFreeSection, noise_free_section, show_noise_free
from .overload_section import OverloadSection, kept_overload, overload_section, show_overload
from .page import Shown, page, print_sections, write_figures
from .scores_json import hardware_scores, noise_free_scores, scores_json

EMULATED = "emulated"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Report:
    """The results of a validation and their files; sections in the order of the folders."""

    hardware: list[HardwareSection]
    noise_free: list[NoiseFreeSection]
    effects: tuple[Effect, ...]
    html_path: Path
    scores_path: Path
    figure_paths: list[Path]
    overload: list[OverloadSection] = field(default_factory=list)

    def shown(self) -> dict[str, list[Shown]]:
        """Return the shown parts of each section, by kind."""
        return {
            "hardware": [show_hardware(section) for section in self.hardware],
            "overload": [show_overload(section) for section in self.overload],
            "noise_free": [show_noise_free(section) for section in self.noise_free],
        }

    def page(self) -> str:
        """Return the page of all sections."""
        return self._page(self.shown())

    def _page(self, shown: Mapping[str, Sequence[Shown]]) -> str:
        effects = effects_table(self.effects) if self.effects else None
        return page([each for alike in shown.values() for each in alike], effects)

    def scores(self) -> str:
        """Return the values of all tables and pictures as JSON, for programs."""
        return scores_json(
            {
                "hardware": [hardware_scores(section) for section in self.hardware],
                "noise_free": [noise_free_scores(section) for section in self.noise_free],
                "effects": [effect.model_dump() for effect in self.effects],
            }
        )

    def print(self, console: Console, *, full: bool = False) -> None:
        """Print what is wrong on each machine, then the paths of the report.

        With *full* all tables and points are printed.
        """
        sections = [each for alike in self.shown().values() for each in alike]
        effects = short_effects_table(self.effects) if self.effects else None
        print_sections(console, sections, (self.html_path, self.scores_path), effects, full=full)

    def write(self) -> Report:
        """Write pictures, scores and, last, the page; return this report with paths of pictures."""
        shown = self.shown()
        figures = write_figures(shown, self.html_path.parent / "figures")
        write_whole(self.scores_path, self.scores())
        write_whole(self.html_path, self._page(shown))
        return replace(self, figure_paths=figures)


def validate(
    machines: Sequence[MachineRuns],
    output_dir: Path,
    *,
    draws: int = 20,
    workers: int = 1,
    progress: Progress | None = None,
) -> Report:
    """Forecast every run measured on *machines*, compare, and write the report.

    Simulated runs are stored beside the report and reused by the next one.

    Parameters
    ----------
    machines:
        Folders of runs, each with its profile. The processor-sharing baseline needs the runs of
        the fit point.
    output_dir:
        Made if missing.
    draws:
        Number of cost samples, for the interval of each forecast of noisy runs.
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
    any_shipped = not shipped_profiles().keys().isdisjoint(machine.name for machine in machines)
    effects = read_effects() if any_shipped else ()
    output_dir.mkdir(parents=True, exist_ok=True)
    kept = KeptRuns(output_dir / KEPT_RUNS)
    report = Report([], [], effects, output_dir / "report.html", output_dir / "scores.json", [])
    for machine, without_noise in zip(machines, emulated, strict=True):
        if without_noise:
            report.noise_free.append(
                noise_free_section(
                    machine, workers=workers, progress=progress, kept=kept_forecasts(output_dir)
                )
            )
        else:
            if read_machine_runs(machine.folder).held_out:
                report.hardware.append(
                    hardware_section(
                        machine,
                        draws=draws,
                        workers=workers,
                        progress=progress,
                        kept=kept,
                    )
                )
            overload = overload_section(machine, workers=workers, kept=kept_overload(output_dir))
            report.overload.extend([overload] if overload else [])
    return report.write()


def is_emulated(machine: MachineRuns) -> bool:
    """Return whether the runs of *machine* are of the emulated target.

    Raises
    ------
    ValueError
        If some are and some are not, or there are none.
    """
    kinds = {record.steering == EMULATED for record in read_machine_runs(machine.folder).all}
    if len(kinds) > 1:
        raise ValueError(
            f"{machine.folder}: must hold runs of one kind, got emulated and real runs"
        )
    return kinds.pop()
