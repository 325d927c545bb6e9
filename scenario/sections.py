"""The sections of a scenario file but [server], [load], [flood] and [[fault]].

Each has keys, units, bounds, and rules between its keys.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from ..models.releases import RELEASE
from ..models.simulate import Engine
from ..sim.state.client_settings import NetworkSettings, PathSettings
from ..sim.state.effects import EFFECTS, effect_names
from ..sim.state.kernel_settings import KernelSettings, MachineSettings
from ..sim.state.memory_settings import MemorySettings
from ..sim.state.units import MILLIONTHS, PERMILLE
from .declared import Section, SettingsSection, ShareOfSome, settings_from
from .key_types import Bounded, Share, Whole
from .quantities import BANDWIDTH, DURATION, SIZE, shown

Pause = Annotated[int, Bounded(DURATION, "0 s", "1 h")]
Delay = Annotated[int, Bounded(DURATION, "0 s", "10 s")]
LENGTH_MAX = "1 h"
Length = Annotated[int, Bounded(DURATION, "1 ms", LENGTH_MAX)]
Life = Annotated[int, Bounded(DURATION, "1 ms", "24 h")]
Bandwidth = Annotated[int, Bounded(BANDWIDTH, "1 kbit/s", "1000 Gbit/s")]

LINEAR_SYN_TIMEOUTS = 4
"""Linux 6.5 and later (net.ipv4.tcp_syn_linear_timeouts)."""


def _is_release(text: str) -> str:
    if re.fullmatch(RELEASE, text) is None:
        raise ValueError(f'must be a release of Linux such as "6.1", got "{text}"')
    return text


Release = Annotated[StrictStr, AfterValidator(_is_release)]

NAME_MAX = 40
_NO_LINE_OF_TEXT = ("Cc", "Zl", "Zp")
"""Unicode categories of control characters, line ends and paragraph ends."""


def _is_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not 1 <= len(value) <= NAME_MAX:
        raise ValueError(f"must have 1 to {NAME_MAX} characters, got {shown(value)}")
    if any(unicodedata.category(each) in _NO_LINE_OF_TEXT for each in value):
        raise ValueError(f"must have no control characters, got {json.dumps(value)}")
    return value


Name = Annotated[StrictStr, Field(min_length=1, max_length=NAME_MAX), BeforeValidator(_is_name)]
"""The name of a path or a class of clients in results."""


class Idle(Section):
    """Connections that stay open and silent during the whole run."""

    connections: Annotated[int, Whole(0, 10_000_000)] = Field(
        default=0, description="Number of them."
    )
    life: Life | None = Field(
        default=None,
        description="Mean lifetime; then the client closes it and opens another. Absent: infinite.",
    )


class Network(SettingsSection, settings=(NetworkSettings,)):
    """The link between clients and server."""

    delay: Delay | None = Field(
        default=None,
        description="One-way delay. Absent: the delay of the testbed that measured the costs.",
    )
    syn_timeouts: Literal["doubling", "linear first", "from 3 s"] = Field(
        default="doubling",
        description="When a client repeats a SYN without a reply. doubling: after 1, 3, 7 ... "
        "63 s; it fails at 127 s; linear first: after 1, 2, 3, 4, 5, 7, 11 ... 67 s; it fails at "
        "131 s (Linux since 6.5); from 3 s: after 3, 9, 21 ... 189 s, as the server repeats its "
        "SYN-ACK (before RFC 6298: Linux until 3.0).",
    )
    set_up: Literal[0, 1, 2] = Field(
        default=1,
        description="Round trips before the first request leaves. 1: the handshake; 0: the SYN "
        "carries the request (TCP Fast Open); 2: one more round trip (TLS 1.3, without its CPU "
        "time: see server.connection_cpu).",
    )

    @property
    def linear_syn_timeouts(self) -> int:
        """Number of SYN time-outs as long as the first, before they double."""
        return LINEAR_SYN_TIMEOUTS if self.syn_timeouts == "linear first" else 0


class Run(Section):
    """The length of a run, and its repetitions with other arrivals."""

    duration: Length = Field(
        default=2_500_000_000, description="Length of a run, warm-up included."
    )
    warm_up: Pause = Field(
        default=500_000_000, description="Time at the beginning that is not measured."
    )
    seed: StrictInt = Field(default=1, ge=0, le=2**31, description="Seed of the first replication.")
    replications: Annotated[int, Whole(1, 1000)] = Field(
        default=5,
        description="Number of runs, which differ only in their random arrivals.",
    )
    engine: Engine = Field(
        default="auto",
        description="The engine; all give the same result. fast: compiled; reference: SimPy; "
        "auto: fast where possible.",
    )

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.warm_up >= self.duration:
            raise ValueError(
                f"run.warm_up: must be shorter than run.duration "
                f"({DURATION.format(self.duration)}), got {DURATION.format(self.warm_up)}"
            )
        return self


class Machine(SettingsSection, settings=(MachineSettings, KernelSettings, MemorySettings)):
    """The server's machine: its costs, CPUs, kernel and memory."""

    profile: StrictStr | None = Field(
        default=None,
        description="A shipped profile, or a .toml file beside the scenario file. Absent: the "
        "profile that DISPATCHSIM_PROFILE names, or else the profile of this machine's CPU.",
    )
    kernel: Release | None = Field(
        default=None,
        description='Linux release whose rules the server follows, such as "6.1". Absent: '
        "the profile's release.",
    )
    clients: Literal["free", "generator"] = Field(
        default="free",
        description="CPU time that the clients spend themselves. free: none, as on machines of "
        "their own; generator: that of the testbed's load generator, on one CPU.",
    )
    noise: StrictStr = Field(
        default="none",
        description="Gaps in which the host does not run the machine's CPUs. none: no gaps; "
        "as measured: the gaps recorded on the profile's machine, on every CPU of the server, and "
        "on the clients' CPU where machine.clients is generator. Also: the name of one of the "
        "profile's recordings; a .jsonl file of `lab gaps` beside the scenario file; or gaps of "
        'one length, such as "3 ms every 1 s".',
    )
    without: StrictStr = Field(
        default="none",
        description="Effects of the kernel that the model leaves out, separated by commas. Compare "
        "runs with and without an effect to measure its influence. The effects:\n\n"
        + "\n".join(f"- {name}: {effect.what}" for name, effect in EFFECTS.items()),
    )
    role: Literal["server", "client"] = Field(
        default="server",
        description="Simulated side of the connections. client: one process sends the requests of "
        "all users of a closed loop and waits as in [server]; the server has no limits.",
    )
    interrupts: Literal["one cpu", "every cpu"] = Field(
        default="one cpu",
        description="CPU that handles a packet: the first CPU, or the CPU that a hash of the "
        "connection selects (RSS, RPS).",
    )

    @field_validator("without")
    @classmethod
    def _names_effects(cls, text: str) -> str:
        effect_names(text)
        return text

    @model_validator(mode="after")
    def _is_one_kernel(self) -> Self:
        for key, goes_with in (
            ("softirq_budget", "softirq"),
            ("coalesce", "softirq"),
            ("polling_share", "polling"),
        ):
            if key in self.model_fields_set and self.packets != goes_with:
                value = getattr(self, key)
                raise ValueError(
                    f'machine.{key}: must be absent where machine.packets is "{self.packets}", '
                    f"got {DURATION.format(value) if key == 'coalesce' else value}"
                )
        for key, needs in (
            ("busy_nice", "busy_processes"),
            ("files_elsewhere", "files"),
            ("connection_memory", "memory"),
        ):
            if key in self.model_fields_set and not getattr(self, needs):
                raise ValueError(f"machine.{key}: must be absent unless machine.{needs} is given")
        if self.memory is not None and self.memory < self.connection_memory:
            raise ValueError(
                f"machine.memory: must hold a connection of machine.connection_memory "
                f"({SIZE.format(self.connection_memory)}), got {SIZE.format(self.memory)}"
            )
        waits = self.packets != "softirq" or self.softirq_budget > 0 or self.coalesce > 0
        if "receive_queue" in self.model_fields_set and not waits:
            raise ValueError(
                'machine.receive_queue: must be absent where machine.packets is "softirq", '
                "machine.softirq_budget is 0 and machine.coalesce is 0 s, "
                f"got {self.receive_queue}"
            )
        return self


class PathSection(SettingsSection, settings=(PathSettings,)):
    """A network path that a share of the clients uses: a LAN, a WAN, a modem."""

    name: Name | None = Field(default=None, description="Name in results; absent: its number.")
    share: ShareOfSome | None = Field(
        default=None,
        description="Share of all connections, to a thousandth; the shares of all paths add up to "
        "1. Required, unless each [[clients]] names its path.",
    )
    loss: Annotated[float, Share(least=0, below=1)] = Field(
        default=0.0, description="Share of segments that are lost, each way, to a millionth."
    )


def check_paths(sections: tuple[PathSection, ...], *, of_classes: bool) -> None:
    """Check that the paths of a scenario cover all its clients.

    With *of_classes* each class of clients names its path, and paths have no shares.

    Raises
    ------
    ValueError
        With key, rule and value.
    """
    names = path_names(sections)
    for number, name in enumerate(names, start=1):
        if name in names[: number - 1]:
            raise ValueError(f'path {number}.name: must be of one path only, got "{name}"')
    for number, each in enumerate(sections, start=1):
        if of_classes and each.share is not None:
            raise ValueError(
                f"path {number}.share: must be absent where [[clients]] name their paths, "
                f"got {each.share:g}"
            )
        if not of_classes and each.share is None:
            raise ValueError(
                f"path {number}.share: must be given unless every [[clients]] names a path, "
                "got nothing"
            )
    if of_classes:
        return
    shares = sum(_permille(each) for each in sections)
    if sections and shares != PERMILLE:
        raise ValueError(f"path.share: must add up to 1 over all [[path]], got {shares / PERMILLE}")


def path_names(sections: tuple[PathSection, ...]) -> list[str]:
    """Return the name of each path in results."""
    return [each.name or str(number) for number, each in enumerate(sections, start=1)]


def paths_of(
    sections: tuple[PathSection, ...], shares: list[int] | None
) -> tuple[PathSettings, ...]:
    """Return the settings of the paths in *sections*, of given *shares* where they have none."""
    return tuple(
        settings_from(
            each,
            PathSettings,
            share_permille=share,
            loss_millionths=round(each.loss * MILLIONTHS),
        )
        for each, share in zip(sections, shares or map(_permille, sections), strict=True)
    )


def _permille(section: PathSection) -> int:
    return round((section.share or 0) * PERMILLE)
