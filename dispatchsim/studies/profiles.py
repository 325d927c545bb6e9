"""The profile of a study: what the scenario names, as a whole, since its content is an address."""

from __future__ import annotations

import functools

from ..calibration.cost_profile import Profile
from ..preparation import find_profile_path


@functools.lru_cache(maxsize=32)
def profile_for(name: str | None) -> Profile:
    """Return the shipped profile *name*, the one in a file of that name, or the default one.

    Raises
    ------
    UserError, ProfileError
        If there is none of that name, or its file breaks a rule.
    """
    return Profile.read(find_profile_path(name))
