"""How fast this machine is when nobody disturbs it, from all runs that were ever made on it.

    shipped runs of the machine ─┐
    runs of this campaign ───────┴─► Series ─► a run's noise is judged against its quiet ones

A campaign of half an hour beside a busy neighbour would take that for quiet: of scans over
thousands of connections such a neighbour doubles the time.
"""

from __future__ import annotations

from pathlib import Path

from ... import calibration
from ...calibration.observed.observed_run import read_observed
from ...calibration.records.measured_runs import RunRecord, read_rows
from ...calibration.records.noise import Series


def series_of(machine: str, folder: Path) -> Series:
    """Return the calibrations of *machine* that are shipped, and those of the runs in *folder*."""
    shipped = Path(calibration.__file__).parent / "measured" / machine
    names = ("fit.jsonl", "heldout.jsonl")
    series = Series.of(run for name in names for run in read_rows(shipped / name, RunRecord).rows)
    for path in sorted(folder.glob("*/*.jsonl")):
        for run in read_observed(path).rows:
            if run.noise is not None:
                series.include(run.noise.spin_ns, run.noise.memory_ns)
    return series
