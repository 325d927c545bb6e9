"""The sections of a scenario file but [server]: keys, units, bounds, rules between their keys."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from ..models.simulate import Engine
from ..sim.assembly.checks import WORKERS_MAX
from .quantities import BANDWIDTH, DURATION, SIZE, Bounded

Pause = Annotated[int, Bounded(DURATION, "0 s", "1 h")]
Memory = Annotated[int, Bounded(SIZE, "1 KiB", "1048576 GiB")]
Delay = Annotated[int, Bounded(DURATION, "0 s", "10 s")]
Tick = Annotated[int, Bounded(DURATION, "0 s", "100 ms")]
Coalescing = Annotated[int, Bounded(DURATION, "0 s", "100 ms")]
Length = Annotated[int, Bounded(DURATION, "1 ms", "1 h")]
Life = Annotated[int, Bounded(DURATION, "1 ms", "24 h")]
Bandwidth = Annotated[int, Bounded(BANDWIDTH, "1 kbit/s", "1000 Gbit/s")]


def _in_thousandths(value: float) -> float:
    if abs(1_000 * value - round(1_000 * value)) > 1e-6:
        raise ValueError(f"must be a multiple of 0.001, got {value}")
    return value


Thousandths = Annotated[float, AfterValidator(_in_thousandths)]
"""A share that a run knows in whole thousandths: what is finer would not be what it says."""


class Section(BaseModel):
    """What all have in common: no unknown keys, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)


class Idle(Section):
    """Connections that are open and silent during the whole run."""

    connections: StrictInt = Field(default=0, ge=0, le=10_000_000, description="How many.")
    life: Life | None = Field(
        default=None,
        description="Mean time until a client closes one and opens another; absent: for ever.",
    )


class Network(Section):
    """The link between clients and server."""

    delay: Delay | None = Field(
        default=None,
        description="One way; absent: that of the testbed in which costs were measured.",
    )
    up: Bandwidth | None = Field(
        default=None, description="From the clients; absent: without limit."
    )
    down: Bandwidth | None = Field(
        default=None, description="To the clients; absent: without limit."
    )
    syn_timeouts: Literal["doubling", "linear first", "from 3 s"] = Field(
        default="doubling",
        description="When a client repeats a SYN that is not answered: after 1, 3, 7 ... 63 s, and "
        "fails at 127 s; linear first: after 1, 2, 3, 4, 5, 7, 11 ... 67 s, and fails at 131 s "
        "(Linux since 6.5); from 3 s: after 3, 9, 21 ... 189 s, and the server repeats its SYN-ACK "
        "after as long (before RFC 6298: Linux until 3.0).",
    )
    window: StrictInt = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Segments of a reply that may be under way at first, more after each round "
        "trip (Linux: 10); 0: all of a reply is sent at once.",
    )
    receive_window: Memory | None = Field(
        default=None, description="What a client takes before it acknowledges; absent: no bound."
    )
    set_up: Literal[0, 1, 2] = Field(
        default=1,
        description="Round trips before the first request leaves: 1: of the handshake; 0: it comes "
        "along with the SYN (TCP Fast Open); 2: another one follows (TLS 1.3, of whose CPU time "
        "nothing is known).",
    )
    timer_tick: Tick = Field(
        default=0,
        description="Of kernels whose timers send again what was lost: at a tick, and in steps of "
        '8 after 63 (Linux with CONFIG_HZ=250 has "4 ms", so a second goes off in steps of 32 ms); '
        "0: at its very time.",
    )


class Run(Section):
    """How long a run is, and how often it is repeated with other arrivals."""

    duration: Length = Field(default=2_500_000_000, description="The whole run, warm-up included.")
    warm_up: Pause = Field(
        default=500_000_000, description="What is not measured at the beginning."
    )
    seed: StrictInt = Field(default=1, ge=0, le=2**31, description="Of the first replication.")
    replications: StrictInt = Field(
        default=5,
        ge=1,
        le=1000,
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


class Machine(Section):
    """What things cost, and the CPUs of the server."""

    profile: StrictStr | None = Field(
        default=None,
        description="A shipped profile, or a .toml file beside the scenario file.",
    )
    clients: Literal["free", "generator"] = Field(
        default="free",
        description="free: clients on machines of their own; generator: the testbed's.",
    )
    role: Literal["server", "client"] = Field(
        default="server",
        description="Which side of the connections the machine is. client: one process that asks "
        "for all users of a closed loop, and waits as [server] says; the far end has no limits.",
    )
    cpus: StrictInt = Field(
        default=1,
        ge=1,
        le=WORKERS_MAX,
        description="CPUs of the server; workers are put on them in turn.",
    )
    interrupts: Literal["one cpu", "every cpu"] = Field(
        default="one cpu",
        description="Where packets are handled: on the first CPU, or on the one that a hash of "
        "the connection picks (RSS, RPS).",
    )
    packets: Literal["softirq", "interrupts", "polling"] = Field(
        default="softirq",
        description="Who handles packets. softirq: the interrupt, then a thread of the kernel "
        "(Linux); interrupts: each interrupts for itself and comes before all processes (4.2BSD); "
        "polling: they are polled for, in a share of the time.",
    )
    softirq_budget: StrictInt = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Packets that one softirq handles before its thread takes over, which shares "
        "the CPU with the server; 0: all there are.",
    )
    coalesce: Coalescing = Field(
        default=0,
        description="How long a device waits after a packet for others that come along, before it "
        "interrupts (ethtool -C rx-usecs).",
    )
    receive_queue: StrictInt = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Packets that may wait to be handled where an interrupt does not handle all.",
    )
    polling_share: Annotated[Thousandths, Field(ge=0.001, le=1)] = Field(
        default=0.75,
        description="Share of each 10 ms in which packets may be polled for, to a thousandth.",
    )
    wake_preemption: StrictBool = Field(
        default=False,
        description="Whether a thread that wakes up takes the CPU from one that has had more.",
    )
    busy_processes: StrictInt = Field(
        default=0,
        ge=0,
        le=1000,
        description="Other processes that do nothing but compute, on the CPUs in turn.",
    )

    busy_nice: StrictInt = Field(
        default=0, ge=-20, le=19, description="How nice these are: 19 takes least of a CPU."
    )
    files: StrictInt = Field(
        default=0,
        ge=0,
        le=1_000_000_000,
        description="Open files of all processes together (fs.file-max: ENFILE); 0: no bound.",
    )
    files_elsewhere: StrictInt = Field(
        default=0, ge=0, le=1_000_000_000, description="Of these, how many other processes have."
    )
    memory: Memory | None = Field(
        default=None,
        description="For all connections; a SYN for which there is none left is lost. Absent: "
        "without limit.",
    )
    connection_memory: Memory = Field(
        default=16_384, description="What one connection takes, in the kernel and in the server."
    )

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
                "machine.receive_queue: must be absent unless machine.softirq_budget is above 0, "
                'machine.coalesce is, or machine.packets is not "softirq", '
                f"got {self.receive_queue}"
            )
        return self
