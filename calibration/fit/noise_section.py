"""The section [noise] of a profile: recordings of the host's gaps, in a file beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...sim.files.whole_files import write_whole
from ..profiles.cost_profile import Noise, Profile
from ..records.gap_records import GAPS_FILE, GapsRecord, latest_of
from ..records.neighbour_records import NEIGHBOUR_FILE, NeighbourRecord


def with_noise(profile: Profile, folder: Path, target: Path) -> Profile:
    """Return *profile* with the last recordings of each kind in *folder*, copied beside *target*.

    Without recordings *profile* is unchanged.

    Raises
    ------
    DataError
        If a recording is of another machine than the profile.
    """
    gaps = latest_of(folder / GAPS_FILE, GapsRecord, profile.machine_id)
    watched = latest_of(folder / NEIGHBOUR_FILE, NeighbourRecord, profile.machine_id)
    if not gaps:
        return profile
    file = target.with_suffix(".gaps.jsonl")
    text = "".join(row.model_dump_json() + "\n" for row in gaps)
    write_whole(file, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    seen = [row for row in watched if (row.cpu, row.beside) == ("server", "spinning")]
    noise = Noise(
        recordings=file.name,
        sha256=digest,
        core_busy_share=round(seen[-1].busy_share, 3) if seen else None,
        core_busy_ratio=round(seen[-1].busy_ratio, 2) if seen else None,
    )
    return profile.model_copy(update={"noise": noise})
