"""Profiles that know all costs exactly, but for some."""

from __future__ import annotations

from collections.abc import Mapping

import dispatchsim as ds


def known_exactly(profile: ds.Profile, *, but: Mapping[str, float]) -> ds.Profile:
    """Return *profile* without intervals, but for the costs *but*: so wide to either side."""
    tables = {
        table: {
            name: cost.model_copy(
                update={
                    "low": tuple(v * (1 - but.get(f"{table}.{name}", 0.0)) for v in cost.value),
                    "high": tuple(v / (1 - but.get(f"{table}.{name}", 0.0)) for v in cost.value),
                }
            )
            for name, cost in costs.items()
        }
        for table, costs in profile.cost.items()
    }
    return profile.model_copy(update={"cost": tables})
