"""The sections [flood] and [[fault]] of a scenario file: disturbances besides the load."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StrictInt, model_validator

from ..models.catalogue import MECHANISMS
from ..sim.state.kernel_settings import CPUS_MAX
from ..sim.state.mechanism import Trait
from ..sim.state.settings import Fault, FaultKind, FloodSettings
from ..sim.state.units import PERMILLE, SECOND_NS
from .declared import SettingsSection, ShareOfSome, settings_from
from .key_types import Whole
from .load import Rate
from .quantities import BANDWIDTH, DURATION
from .sections import Bandwidth, Machine, Pause, Run

_KEYS = {"stall": "cpu", "link": "bandwidth", "signals": "signals", "stops reading": "share"}
BURSTS_MAX = 20_000_000
"""Bursts in one run: each is an event to simulate, about 10 million a second."""


class Flood(SettingsSection, settings=(FloodSettings,)):
    """Datagrams to a socket that no process reads: they cost only interrupts."""

    rate: Rate | None = Field(default=None, description="Datagrams a second; absent: no flood.")
    arrivals: Literal["poisson", "constant"] = Field(
        default="poisson", description="Spacing of bursts."
    )
    length: Pause = Field(default=0, description="Length of the flood; 0 s: to the end of the run.")

    @model_validator(mode="after")
    def _has_a_rate(self) -> Self:
        others = sorted(self.model_fields_set - {"rate"})
        if self.rate is None and others:
            raise ValueError(f"flood.rate: is missing, and flood.{others[0]} needs it")
        return self


class FaultSection(SettingsSection, settings=(Fault,)):
    """A fault of limited length."""

    kind: Literal["stall", "link", "signals", "stops reading"] = Field(
        description="stall: a CPU only handles interrupts (garbage collection, swapping); "
        "link: another bandwidth; signals: another process holds queued signals; "
        "stops reading: some clients do not read, and their replies fill the send buffers."
    )
    cpu: StrictInt = Field(default=0, ge=0, lt=CPUS_MAX, description="stall: the CPU, from 0.")
    bandwidth: Bandwidth | None = Field(
        default=None, description="link: bandwidth during the fault, each way."
    )
    signals: Annotated[int, Whole(1, 10_000_000)] | None = Field(
        default=None, description="signals: number held during the fault."
    )
    share: ShareOfSome | None = Field(
        default=None,
        description="stops reading: share of all clients, to a thousandth.",
    )

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        for kind, key in _KEYS.items():
            if key in self.model_fields_set and kind != self.kind:
                raise ValueError(
                    f'fault.{key}: must be absent where fault.kind is "{self.kind}", '
                    f"got {self._shown(key)}"
                )
        needed = _KEYS[self.kind]
        if getattr(self, needed) is None:
            raise ValueError(f'fault.{needed}: is missing, and fault.kind = "{self.kind}" needs it')
        return self

    def _shown(self, key: str) -> str:
        value = getattr(self, key)
        return BANDWIDTH.format(value) if key == "bandwidth" else str(value)


def flood_of(flood: Flood) -> FloodSettings:
    """Return the settings of *flood*."""
    if flood.rate is None:
        return FloodSettings()
    return settings_from(
        flood,
        FloodSettings,
        gap_ns=max(1, round(flood.burst * SECOND_NS / flood.rate)),
        is_poisson=flood.arrivals == "poisson",
        until_ns=flood.at + flood.length if flood.length else 0,
    )


def faults_of(sections: tuple[FaultSection, ...]) -> tuple[Fault, ...]:
    """Return the settings of the faults in *sections*."""
    return tuple(
        settings_from(each, Fault, kind=int(kind), value=value)
        for each in sections
        for kind, value in [_kind_and_value(each)]
    )


def _kind_and_value(fault: FaultSection) -> tuple[FaultKind, int]:
    if fault.kind == "stall":
        return FaultKind.STALL, fault.cpu
    if fault.kind == "link":
        return FaultKind.LINK, fault.bandwidth or 0
    if fault.kind == "signals":
        return FaultKind.SIGNALS, fault.signals or 0
    return FaultKind.READING, round((fault.share or 0) * PERMILLE)


def check_faults(
    faults: tuple[FaultSection, ...], flood: Flood, mechanism: str, machine: Machine, run: Run
) -> None:
    """Check that faults and flood are possible on that machine and in that run.

    Raises
    ------
    ValueError
        With key, rule and value.
    """
    end = f"before the end of the run (run.duration, {DURATION.format(run.duration)})"
    for number, fault in enumerate(faults, start=1):
        if fault.cpu >= machine.cpus:
            raise ValueError(
                f"fault {number}.cpu: must be one of the {machine.cpus} of machine.cpus "
                f"(from 0), got {fault.cpu}"
            )
        if fault.at >= run.duration:
            raise ValueError(f"fault {number}.at: must be {end}, got {DURATION.format(fault.at)}")
        if fault.kind == "stops reading" and machine.role == "client":
            raise ValueError(
                f'fault {number}.kind: must not be "stops reading" where machine.role is "client"'
            )
        if fault.kind == "signals" and Trait.BY_SIGNALS not in MECHANISMS[mechanism].traits:
            raise ValueError(
                'fault.kind: must not be "signals" with a mechanism that queues no signals, '
                f'got server.mechanism = "{mechanism}"'
            )
    if flood.rate is None:
        return
    if flood.at >= run.duration:
        raise ValueError(f"flood.at: must be {end}, got {DURATION.format(flood.at)}")
    n_bursts = flood.rate / flood.burst * run.duration / SECOND_NS
    if n_bursts > BURSTS_MAX:
        raise ValueError(
            f"flood.rate: must give at most {BURSTS_MAX} bursts in a run of "
            f"{DURATION.format(run.duration)}, got {n_bursts:.0f}"
        )
