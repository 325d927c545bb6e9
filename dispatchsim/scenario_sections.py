"""The sections of a scenario file but [server]: keys, units, bounds, rules between their keys."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    model_validator,
)

from .models.simulate import Engine
from .quantities import BANDWIDTH, DURATION, RATE, SIZE, Bounded
from .sim.build import WORKERS_MAX

Patience = Annotated[int, Bounded(DURATION, "1 ms", "1 h")]
Pause = Annotated[int, Bounded(DURATION, "0 s", "1 h")]
Delay = Annotated[int, Bounded(DURATION, "0 s", "10 s")]
Length = Annotated[int, Bounded(DURATION, "1 ms", "1 h")]
Life = Annotated[int, Bounded(DURATION, "1 ms", "24 h")]
Bandwidth = Annotated[int, Bounded(BANDWIDTH, "1 kbit/s", "1000 Gbit/s")]
Rate = Annotated[float, Bounded(RATE, "1/min", "10000000/s", whole=False)]
RequestSize = Annotated[int, Bounded(SIZE, "1 B", "64 KiB")]
ReplySize = Annotated[int, Bounded(SIZE, "64 B", "1 GiB")]


class Section(BaseModel):
    """What all have in common: no unknown keys, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)


class Load(Section):
    """The active clients: an open loop (arrivals, whatever the server does) or a closed one."""

    loop: Literal["open", "closed"] = Field(description="open: a rate; closed: so many users.")
    arrivals: Literal["poisson", "constant"] = Field(
        default="poisson", description="How the connections of an open loop are spaced."
    )
    rate: Rate | None = Field(default=None, description="Connections offered in an open loop.")
    users: StrictInt | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Users of a closed loop, each with one connection.",
    )
    trace: StrictStr | None = Field(
        default=None, description="A trace file instead of all that; relative to the scenario file."
    )
    requests: StrictInt = Field(
        default=1, ge=1, le=100_000, description="Requests on each connection."
    )
    request_size: RequestSize = Field(default=64, description="Size of a request.")
    reply_size: ReplySize = Field(default=128, description="Size of a reply, its header included.")
    think_time: Pause = Field(
        default=0,
        description="Pause between requests and, in a closed loop, between connections (mean).",
    )
    timeout: Patience | None = Field(
        default=None, description="When a client gives up; absent: never."
    )
    service_time: Pause = Field(
        default=0,
        description='Where machine.role is "client": how long the far end takes for a reply.',
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self.model_fields_set
        if self.trace is not None:
            drawn = sorted(given - {"loop", "trace", "timeout", "service_time"})
            if drawn:
                raise ValueError(f"load.{drawn[0]}: must be absent where load.trace is given")
            return self
        rules = {
            "open": ("rate", ("users",)),
            "closed": ("users", ("rate", "arrivals")),
        }
        needed, foreign = rules[self.loop]
        for key in foreign:
            if key in given:
                raise ValueError(f'load.{key}: must be absent where load.loop is "{self.loop}"')
        if getattr(self, needed) is None:
            raise ValueError(f'load.{needed}: is missing, and load.loop = "{self.loop}" needs it')
        return self


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
    syn_timeouts: Literal["doubling", "linear first"] = Field(
        default="doubling",
        description="When a client repeats a SYN that is not answered: after 1, 3, 7 ... 63 s, and "
        "fails at 127 s; linear first: after 1, 2, 3, 4, 5, 7, 11 ... 67 s, and fails at 131 s "
        "(Linux since 6.5).",
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
