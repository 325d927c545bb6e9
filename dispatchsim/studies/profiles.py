"""The profiles of a study's points: the one that is given, or what each point names."""

from __future__ import annotations

from collections.abc import Sequence

from ..calibration.profiles.cost_profile import Profile
from ..running.preparation import find_profile, warnings_of
from .factors import Point


def profiles_of(points: Sequence[Point], given: Profile | None) -> list[Profile]:
    """Return the profile of each point; each file is read once.

    Raises
    ------
    UserError, ProfileError
        If there is none of a name, or its file breaks a rule.
    """
    names = dict.fromkeys(point.scenario.machine.profile for point in points)
    known = {name: given or find_profile(name) for name in names}
    return [known[point.scenario.machine.profile] for point in points]


def names_of(profiles: Sequence[Profile]) -> str:
    """Return the names of *profiles*, each once."""
    return ", ".join(dict.fromkeys(profile.name for profile in profiles))


def points_warnings(points: Sequence[Point], profiles: Sequence[Profile]) -> list[str]:
    """Return what to know of the costs of *points* before one believes any, each once."""
    return list(
        dict.fromkeys(
            warning
            for point, profile in zip(points, profiles, strict=True)
            for warning in warnings_of(point.scenario, profile)
        )
    )
