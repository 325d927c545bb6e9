"""The folded variant of an engine: settings that most runs leave alone, as constants in its code.

A run takes it if all that its code relies on is as assumed; otherwise the general engine.
"""

from __future__ import annotations

import functools
from typing import Any

from ...state.client_settings import ClientSettings, NetworkSettings
from ...state.family_settings import SignalSettings, ThreadSettings
from ...state.kernel_settings import KernelSettings, LimitSettings, MachineSettings
from ...state.program_settings import OverloadSettings, ProgramSettings
from ...state.settings import FloodSettings
from ...state.world import World

_LEFT_ALONE: dict[Any, str] = {
    ProgramSettings: """
        accept_limit listener_last read_after_accept remembers
        request_timeout_ns busy sharing wake_one closes_first
        drops_half_closed writes_when_told
    """,
    OverloadSettings: """
        limiter_gain_permille queue_deadline_ns concurrency_tolerance_permille drop_above
    """,
    SignalSettings: "accept_each_signal passes_listener",
    ThreadSettings: "threads",
    LimitSettings: "refuse syn_cookies epoll_watches epoll_instances",
    NetworkSettings: """
        up_bits_per_s down_bits_per_s service_ns window_segments receive_window_bytes set_up
    """,
    ClientSettings: """
        idle_life_ns ports request_pieces piece_pause_ns retries
    """,
    KernelSettings: """
        packets softirq_budget coalesce_ns wake_preemption files_max files_elsewhere memory_bytes
    """,
    MachineSettings: "interrupt_cpu busy_processes",
    FloodSettings: "gap_ns",
}
"""Settings that are as their defaults in a folded variant."""

_OF_WORLD = {
    "World.delivers_own": 0,
    "World.some_stop_reading": 0,
    "World.rows_each": 1,
    "World.n_paths": 0,
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
    for settings, names in _LEFT_ALONE.items():
        for name in names.split():
            found[f"{settings.__name__}.{name}"] = int(settings._field_defaults[name])
    return found


def fits(world: World) -> list[str]:
    """Return what speaks against the folded variant in *world*: nothing, where it may be taken."""
    tables = (
        *(world, world.program, world.overload, world.limits, world.network, world.client),
        *(world.signals, world.blocking, world.kernel, world.machine, world.flood),
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
