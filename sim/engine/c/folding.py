"""The folded variant of an engine: settings that most runs leave alone, as constants in its code.

A run takes it if all that its code relies on is as assumed; otherwise the general engine.
"""

from __future__ import annotations

import functools

from ...state.backend_settings import BackendSettings
from ...state.client_settings import ClientSettings, NetworkSettings
from ...state.family_settings import SignalSettings, ThreadSettings
from ...state.kernel_settings import KernelSettings, LimitSettings, MachineSettings
from ...state.program_settings import OverloadSettings, ProgramSettings
from ...state.setting import declared
from ...state.settings import FloodSettings
from ...state.world import World

_RECORDS = (
    *(ProgramSettings, OverloadSettings, SignalSettings, ThreadSettings, LimitSettings),
    *(NetworkSettings, ClientSettings, KernelSettings, MachineSettings, FloodSettings),
    BackendSettings,
)
"""Records whose settings are as their defaults in a folded variant, where most runs leave them."""

_OF_WORLD = {
    "World.delivers_own": 0,
    "World.some_stop_reading": 0,
    "World.rows_each": 1,
    "World.n_paths": 0,
    "World.n_server_gaps": 0,
    "World.n_client_gaps": 0,
    "World.n_classes": 1,
    "Cpu.number": 0,
    "len World.cpus": 1,
    "len World.workers": 1,
    "len World.sets": 1,
    "len World.listeners": 1,
}


def assumptions() -> dict[str, int]:
    """Return "Record.member", or "len Record.member", -> its value in a folded variant."""
    return dict(_assumed())


@functools.cache
def _assumed() -> dict[str, int]:
    found = dict(_OF_WORLD)
    for record in _RECORDS:
        for each in declared(record):
            if each.setting.left_alone:
                found[f"{record.__name__}.{each.name}"] = int(each.default)
    return found


def fits(world: World) -> list[str]:
    """Return the settings of *world* that rule out the folded variant; empty if it may be used."""
    tables = (
        *(world, world.program, world.overload, world.limits, world.network, world.client),
        *(world.signals, world.blocking, world.kernel, world.machine, world.flood),
        world.backend,
    )
    by_label = {type(table).__name__: table for table in tables}
    wrong = []
    for assumed, value in _assumed().items():
        label, _, name = assumed.removeprefix("len ").partition(".")
        if label == "Cpu":
            continue  # the number of the only one: as many as there are is assumed, too
        found = getattr(by_label[label], name)
        if (len(found) if assumed.startswith("len ") else int(found)) != value:
            wrong.append(assumed)
    return wrong
