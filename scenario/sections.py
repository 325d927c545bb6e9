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
Length = Annotated[int, Bounded(DURATION, "1 ms", "1 h")]
Life = Annotated[int, Bounded(DURATION, "1 ms", "24 h")]
Bandwidth = Annotated[int, Bounded(BANDWIDTH, "1 kbit/s", "1000 Gbit/s")]

LINEAR_SYN_TIMEOUTS = 4
"""What Linux 6.5 and later do (net.ipv4.tcp_syn_linear_timeouts)."""


def _is_release(text: str) -> str:
    if re.fullmatch(RELEASE, text) is None:
        raise ValueError(f'must be a release of Linux such as "6.1", got "{text}"')
    return text


Release = Annotated[StrictStr, AfterValidator(_is_release)]

NAME_MAX = 40
_NO_LINE_OF_TEXT = ("Cc", "Zl", "Zp")
"""Categories of Unicode: control characters, ends of lines and paragraphs."""


def _is_name(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not 1 <= len(value) <= NAME_MAX:
        raise ValueError(f"must have 1 to {NAME_MAX} characters, got {shown(value)}")
    if any(unicodedata.category(each) in _NO_LINE_OF_TEXT for each in value):
        raise ValueError(f"must have no control characters, got {json.dumps(value)}")
    return value


Name = Annotated[StrictStr, Field(min_length=1, max_length=NAME_MAX), BeforeValidator(_is_name)]
"""What the figures of a path or a class of clients are called."""


class Idle(Section):
    """Connections that are open and silent during the whole run."""

    connections: Annotated[int, Whole(0, 10_000_000)] = Field(default=0, description="How many.")
    life: Life | None = Field(
        default=None,
        description="Mean time until a client closes one and opens another; absent: for ever.",
    )


class Network(SettingsSection, settings=(NetworkSettings,)):
    """The link between clients and server."""

    delay: Delay | None = Field(
        default=None,
        description="One way; absent: that of the testbed in which costs were measured.",
    )
    syn_timeouts: Literal["doubling", "linear first", "from 3 s"] = Field(
        default="doubling",
        description="When a client repeats a SYN that is not answered: after 1, 3, 7 ... 63 s, and "
        "fails at 127 s; linear first: after 1, 2, 3, 4, 5, 7, 11 ... 67 s, and fails at 131 s "
        "(Linux since 6.5); from 3 s: after 3, 9, 21 ... 189 s, and the server repeats its SYN-ACK "
        "after as long (before RFC 6298: Linux until 3.0).",
    )
    set_up: Literal[0, 1, 2] = Field(
        default=1,
        description="Round trips before the first request leaves: 1: of the handshake; 0: it comes "
        "along with the SYN (TCP Fast Open); 2: another one follows (TLS 1.3, of whose CPU time "
        "nothing is known).",
    )

    @property
    def linear_syn_timeouts(self) -> int:
        """How many time-outs of a SYN are as long as the first, before they double."""
        return LINEAR_SYN_TIMEOUTS if self.syn_timeouts == "linear first" else 0


class Run(Section):
    """How long a run is, and how often it is repeated with other arrivals."""

    duration: Length = Field(default=2_500_000_000, description="The whole run, warm-up included.")
    warm_up: Pause = Field(
        default=500_000_000, description="What is not measured at the beginning."
    )
    seed: StrictInt = Field(default=1, ge=0, le=2**31, description="Of the first replication.")
    replications: Annotated[int, Whole(1, 1000)] = Field(
        default=5,
        description="Runs that differ in nothing but their random arrivals.",
    )
    engine: Engine = Field(
        default="auto",
        description="What simulates, with the same outcome: fast (compiled), reference (SimPy), "
        "or auto: fast where it can be.",
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
    """What things cost, and the CPUs of the server."""

    profile: StrictStr | None = Field(
        default=None,
        description="A shipped profile, or a .toml file beside the scenario file. Absent: the one "
        "that DISPATCHSIM_PROFILE names, or else that of this machine's CPU.",
    )
    kernel: Release | None = Field(
        default=None,
        description='Release of Linux whose rules hold for the server, such as "6.1". Absent: '
        "the profile's.",
    )
    clients: Literal["free", "generator"] = Field(
        default="free",
        description="free: clients on machines of their own; generator: the testbed's.",
    )
    noise: StrictStr = Field(
        default="none",
        description="Gaps in which the host runs none of the machine's CPUs. none: a quiet "
        "machine; as measured: those that were recorded on the profile's machine, on every CPU of "
        "the server, and on the clients' where machine.clients is generator; the name of one "
        "of the profile's recordings; a .jsonl file of `lab gaps` beside the scenario file; or "
        'gaps of one length, such as "3 ms every 1 s".',
    )
    without: StrictStr = Field(
        default="none",
        description="Effects of the kernel that are left out of the model, with commas between "
        f"them: {', '.join(EFFECTS)}. Compare a run with and without an effect for its worth.",
    )
    role: Literal["server", "client"] = Field(
        default="server",
        description="Which side of the connections the machine is. client: one process that asks "
        "for all users of a closed loop and waits as in [server]; the server has no limits.",
    )
    interrupts: Literal["one cpu", "every cpu"] = Field(
        default="one cpu",
        description="Where packets are handled: on the first CPU, or on the one that a hash of "
        "the connection picks (RSS, RPS).",
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
    """A class of clients by their way to the link: a LAN, a WAN, a modem."""

    name: Name | None = Field(
        default=None, description="What its figures are called; absent: its number."
    )
    share: ShareOfSome | None = Field(
        default=None,
        description="Of all connections, to a thousandth; those of all paths add up to 1. It must "
        "be given, unless each [[clients]] names its path.",
    )
    loss: Annotated[float, Share(least=0, below=1)] = Field(
        default=0.0, description="Share of segments that are lost, each way, to a millionth."
    )


def check_paths(sections: tuple[PathSection, ...], *, of_classes: bool) -> None:
    """Check that the paths of a scenario are those of all its clients.

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
    """Return what the figures of each path are called."""
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
