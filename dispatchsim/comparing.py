"""Which mechanisms can serve a scenario and have a price: what a comparison is made of."""

from __future__ import annotations

from collections.abc import Sequence

from .calibration.cost_source import CostSource
from .calibration.near_names import nearest
from .errors import ScenarioError, UserError
from .models.catalogue import CATALOGUE
from .scenario import Scenario


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
    server, entry = scenario.server, CATALOGUE[name]
    blocks = entry.mechanism.in_calls
    for hinders, why in (
        (
            server.workers > 1 and server.wake == "one" and not entry.wakes_one,
            'server.wake is "one", and their wait wakes all',
        ),
        (
            server.pass_listener and not entry.passes_listener,
            "server.pass_listener is true, and they are not told by signals",
        ),
        (
            server.share == "ready list" and not entry.shares_ready_list,
            'server.share is "ready list", and they have none',
        ),
        (
            server.epoll_watches > 0 and name == "epoll_ctlv",
            "server.epoll_watches is set, and it does not hear what cannot be watched",
        ),
        (
            server.threads != "pool" and not blocks,
            f'server.threads is "{server.threads}", and they are event loops',
        ),
        (
            blocks and (server.busy or server.share != "accept queue" or server.limiter_gain > 0),
            "server.busy, server.share or server.limiter_gain is for event loops",
        ),
    ):
        if hinders:
            return why
    try:
        scenario.with_values(server={"mechanism": name})
    except ScenarioError as error:
        return rule_of(error)
    if profile.not_measured(name):
        return f"profile {profile.name} has only lent prices of them; --mechanisms takes them"
    return None
