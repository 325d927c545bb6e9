"""Gaps of the host in a simulated run: the recordings selected by `machine.noise`.

"none"            a quiet machine
"as measured"     the gaps of the profile's machine: of server and client, each beside the other
a name            this recording of the profile, on all CPUs ("client beside packets")
FILE.jsonl        as "as measured", from recordings of `dispatchsim lab gaps`
"""

from __future__ import annotations

from typing import NamedTuple

from ...scenario.errors import UserError
from ...scenario.quantities import DURATION, QuantityError, whole
from ...sim.state.host_gaps import NO_GAPS, HostGaps, gaps_problem
from ..profiles.cost import CostSource
from ..profiles.gap_recordings import Recording, recordings

QUIET, AS_MEASURED = "none", "as measured"
_EVERY = " every "


class BothSides(NamedTuple):
    """The gaps of the CPUs of server and clients."""

    server: HostGaps = NO_GAPS
    client: HostGaps = NO_GAPS


def gaps_of(noise: str, profile: CostSource) -> BothSides:
    """Return the gaps of a run whose `machine.noise` is *noise*.

    Raises
    ------
    UserError
        If *noise* names no recording.
    ProfileError
        If the file of recordings cannot be read.
    """
    if noise == QUIET:
        return BothSides()
    if _EVERY in noise:
        regular = _regular(noise)
        return BothSides(regular, regular)
    from_file = noise.endswith(".jsonl")
    source = noise if from_file else profile.noise_file
    if not source:
        raise UserError(
            f'machine.noise: must be "{QUIET}" or a file of `dispatchsim lab gaps`, because the '
            f'profile {profile.name} has no recordings, got "{noise}"'
        )
    known = recordings(source)
    if from_file or noise == AS_MEASURED:
        return BothSides(_first(known, "server", source), _first(known, "client", source))
    if noise not in known:
        names = ", ".join(f'"{name}"' for name in (QUIET, AS_MEASURED, *known))
        raise UserError(f'machine.noise: must be one of {names}, or a .jsonl file, got "{noise}"')
    return BothSides(known[noise].gaps, known[noise].gaps)


def _regular(noise: str) -> HostGaps:
    """Return equal gaps at equal distances; *noise* is "LENGTH every DISTANCE"."""
    length, _, distance = noise.partition(_EVERY)
    try:
        length_ns, period_ns = whole(DURATION, length), whole(DURATION, distance)
    except QuantityError as error:
        raise UserError(f"machine.noise: {error}") from None
    gaps = HostGaps((0,), (length_ns,), period_ns)
    if problem := gaps_problem(gaps):
        raise UserError(f'machine.noise: {problem} ("{noise}")')
    return gaps


def noise_warning(noise: str, profile: CostSource) -> str:
    """Return a warning if a recording is of another machine than the profile, else nothing."""
    if not noise.endswith(".jsonl") or not profile.machine_id:
        return ""
    others = {each.machine for each in recordings(noise).values()} - {profile.machine_id}
    if not others:
        return ""
    return (
        f"machine.noise: {noise} was recorded on {', '.join(sorted(others))}, but the costs are "
        f"those of {profile.machine_id}"
    )


def _first(known: dict[str, Recording], side: str, source: str) -> HostGaps:
    """Return the gaps of *side* while the other CPU works, or else while it is idle."""
    for name in (f"{side} beside spinning", side):
        if name in known:
            return known[name].gaps
    raise UserError(f"{source}: must hold a recording of the {side}'s CPU, got none")
