"""Which mechanisms can serve a scenario and have a price: what a comparison is made of."""

from __future__ import annotations

from collections.abc import Sequence

from ..calibration.profiles.cost_tables import CostSource
from ..models.catalogue import CATALOGUE
from ..scenario.errors import ScenarioError, UserError, nearest
from ..scenario.scenario import Scenario


def rule_of(error: ScenarioError) -> str:
    """Return what *error* says of keys and values, without the file: that is not at fault."""
    return str(error).split(": ", 1)[-1]


def check_mechanisms(names: Sequence[str], key: str = "mechanisms") -> None:
    """Refuse *names* that cannot be compared; *key* is what the user gave them as.

    Raises
    ------
    UserError
        If one is unknown or named twice, or there is none.
    """
    for name in names:
        if name not in CATALOGUE:
            raise UserError(
                f'{key}: must be of {", ".join(CATALOGUE)}{nearest(name, CATALOGUE)}, got "{name}"'
            )
    if not names or len(set(names)) != len(names):
        raise UserError(f"{key}: must be one or more, each once, got {', '.join(names)}")


def comparable(scenario: Scenario, profile: CostSource) -> tuple[list[str], dict[str, list[str]]]:
    """Return the mechanisms to compare, the scenario's own first, and those left out by reason."""
    own = scenario.server.mechanism
    left_out: dict[str, list[str]] = {}
    names = [own]
    for name in CATALOGUE:
        if name == own:
            continue
        why = _hindrance(scenario, profile, name)
        if why is None:
            names.append(name)
        else:
            left_out.setdefault(why, []).append(name)
    return names, left_out


def _hindrance(scenario: Scenario, profile: CostSource, name: str) -> str | None:
    """Return why *name* cannot serve *scenario* at the prices of *profile*, None if it can."""
    try:
        profile.costs(name, open_connections=scenario.idle.connections)
    except ValueError:
        return f"profile {profile.name} has no prices of them"
    broken = scenario.server.broken_rule(name)
    if broken is not None:
        return f"{broken.key} is {broken.value}: not for those {broken.others}"
    try:
        scenario.with_values(server={"mechanism": name})
    except ScenarioError as error:
        return rule_of(error)
    if profile.not_measured(name):
        return f"profile {profile.name} has only lent prices of them; --mechanisms takes them"
    return None
