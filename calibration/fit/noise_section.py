"""The section [noise] of a profile: recordings of the host's gaps, in a file beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...sim.files.whole_files import write_whole
from ..profiles.cost_profile import Noise, Profile
from ..records.gap_records import GAPS_FILE, GapsRecord
from ..records.measured_runs import DataError, read_rows
from ..records.neighbour_records import NEIGHBOUR_FILE, NeighbourRecord


def with_noise(profile: Profile, folder: Path, target: Path) -> Profile:
    """Return *profile* with the last recordings of each kind in *folder*, kept beside *target*.

    Without recordings it is as it was.

    Raises
    ------
    DataError
        If a recording is of another machine than the profile.
    """
    rows = {row.name: row for row in read_rows(folder / GAPS_FILE, GapsRecord).rows}
    if not rows:
        return profile
    for row in rows.values():
        if profile.machine_id and row.machine != profile.machine_id:
            raise DataError(
                f'{GAPS_FILE}: field machine must be that of machine.json, "{profile.machine_id}", '
                f'got "{row.machine}": take the recording out of {folder}'
            )
    file = target.with_suffix(".gaps.jsonl")
    text = "".join(row.model_dump_json() + "\n" for row in rows.values())
    write_whole(file, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    watched = read_rows(folder / NEIGHBOUR_FILE, NeighbourRecord).rows
    seen = [row for row in watched if (row.cpu, row.beside) == ("server", "spinning")]
    noise = Noise(
        recordings=file.name,
        sha256=digest,
        core_busy_share=round(seen[-1].busy_share, 3) if seen else None,
        core_busy_ratio=round(seen[-1].busy_ratio, 2) if seen else None,
    )
    return profile.model_copy(update={"noise": noise})
