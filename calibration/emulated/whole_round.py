"""Whether a campaign went through a whole round of microbenchmarks, which a fit is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..measure import microbenchmarks
from ..points.points import FURTHER_MECHANISMS
from ..records.measured_runs import MicroResult
from . import microbenchmarks as emulated


def missing_commands(micro: Sequence[MicroResult]) -> list[str]:
    """Return the command lines of a whole round of which there is no result.

    On hardware: of those that every profile needs, and of the mechanisms that were begun with.

    >>> len(missing_commands([])) == len(microbenchmarks.bench_commands(mechanisms=()))
    True
    """
    counted = any((row.model_extra or {}).get("steering") == "emulated" for row in micro)
    found = {row.command for row in micro}
    if counted:
        commands = emulated.bench_commands()
    else:
        begun = [name for name in FURTHER_MECHANISMS if _is_begun(name, found)]
        commands = microbenchmarks.bench_commands(mechanisms=begun)
    return [command for command in commands if command not in found]


def _is_begun(mechanism: str, found: Collection[str]) -> bool:
    others = (name for name in FURTHER_MECHANISMS if name != mechanism)
    shared = {command for name in others for command in microbenchmarks.further_commands(name)}
    own = set(microbenchmarks.further_commands(mechanism)) - shared
    return not own.isdisjoint(found)
