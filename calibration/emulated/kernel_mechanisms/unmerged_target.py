"""The emulated target with a kernel that has the mechanisms that were never merged.

    kernel + insertions, modules ─► target ─► machine_campaigns ─► measured/ID/

Every guest has all of them, so all measurements compare mechanisms in the same kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...points.point import STORED, Point, seed_of_fields, stored
from ...points.points import EMULATED, FIT_POINTS_OF, RATE_POINTS
from ..kernel_build import silent
from ..kernel_source import ProgressCallback
from ..microbenchmarks import MERGED, UNMERGED
from ..target import EmulatedTarget, target_of
from . import INSERTIONS, MODULES

ID = "counted-linux-6.1-unmerged"


class UnmergedTarget(EmulatedTarget):
    """Guests of the kernel with all mechanisms; they are measured once, at points of their own."""

    rounds = 1
    fit_points = (*RATE_POINTS, *FIT_POINTS_OF["emulated"])
    mechanisms = (*MERGED, *UNMERGED)

    def held_out(
        self, index: int, capacity_per_s: float, *, kept_per_s: float | None = None, quick: bool
    ) -> Sequence[Point]:
        """Return the points; each further round has other arrivals."""
        points = EMULATED.points("unmerged", capacity_per_s=capacity_per_s, kept_per_s=kept_per_s)
        return points[::10] if quick else points

    def seed_of(self, point: Point, repeat: int) -> int:
        """Return a seed that all mechanisms share, so that they get the same arrivals."""
        server = ("idle", "fd_limit", "signal_queue", "threads", "workers")
        usual = {name: STORED[name].usual for name in server}
        return seed_of_fields(stored(point) | usual | {"mechanism": ""}, repeat)


def unmerged_target(progress: ProgressCallback = silent) -> UnmergedTarget:
    """Return the target; *progress* and errors are those of `target_of`."""
    return target_of(UnmergedTarget, ID, patches=INSERTIONS, modules=MODULES, progress=progress)
