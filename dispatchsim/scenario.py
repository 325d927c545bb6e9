"""A scenario: one TOML file that says which server, which clients, which machine, how long.

    [server] mechanism, limits      [load] who comes       [idle] who stays     [network] the link
    [machine] what things cost      [run] how long, how often

Quantities carry their unit; unknown keys and absurd values are refused. Every error is one
sentence with file, key, rule and value. `dispatchsim schema` prints the JSON Schema.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from .errors import ScenarioError
from .models.catalogue import MECHANISMS
from .quantities import BANDWIDTH, DURATION, RATE, SIZE, Bounded
from .scenario_errors import nearest, sentence
from .sim.settings import ServerSettings

CONNECTIONS_MIN = 10
CONNECTIONS_MAX = 5_000_000
"""Connections of one run: about two minutes and three gigabytes of the reference engine."""
OWN_DESCRIPTORS = 8
"""Descriptors that a server needs besides its clients': standard streams, listener, epoll."""

Patience = Annotated[int, Bounded(DURATION, "1 ms", "1 h")]
Pause = Annotated[int, Bounded(DURATION, "0 s", "1 h")]
Delay = Annotated[int, Bounded(DURATION, "0 s", "10 s")]
Length = Annotated[int, Bounded(DURATION, "1 ms", "1 h")]
Life = Annotated[int, Bounded(DURATION, "1 ms", "24 h")]
Bandwidth = Annotated[int, Bounded(BANDWIDTH, "1 kbit/s", "1000 Gbit/s")]
Rate = Annotated[float, Bounded(RATE, "1/min", "10000000/s", whole=False)]
RequestSize = Annotated[int, Bounded(SIZE, "1 B", "64 KiB")]
ReplySize = Annotated[int, Bounded(SIZE, "64 B", "1 GiB")]
BufferSize = Annotated[int, Bounded(SIZE, "1 KiB", "1 GiB")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)


class Server(_Section):
    """The server program: how it waits, how it accepts, what it may hold."""

    mechanism: StrictStr = Field(description="How it learns of readiness: select, poll, ...")
    accept_limit: StrictInt = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Accepts for one notification; 0: until none is left.",
    )
    listener: Literal["first", "last"] = Field(
        default="first",
        description="Whether a batch's new connections are accepted before or after.",
    )
    read_after_accept: StrictBool = Field(
        default=False, description="Try to read at once, instead of waiting for the first event."
    )
    backlog: StrictInt = Field(
        default=4096, ge=1, le=65_535, description="Connections that may wait to be accepted."
    )
    backlog_full: Literal["drop", "refuse"] = Field(
        default="drop",
        description="What a full backlog does: drop (the client tries again) or refuse.",
    )
    max_events: StrictInt = Field(
        default=1024, ge=1, le=1_000_000, description="Events that one wait may return."
    )
    descriptors: StrictInt = Field(
        default=1_048_576, ge=16, le=20_000_000, description="Open descriptors allowed (ulimit -n)."
    )
    fd_setsize: StrictInt = Field(
        default=0, ge=0, le=20_000_000, description="Bits in select's bitmap; 0: as many as needed."
    )
    send_buffer: BufferSize = Field(
        default=ServerSettings().send_buffer_bytes, description="Send buffer of a connection."
    )

    @field_validator("mechanism")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in MECHANISMS:
            raise ValueError(
                f'must be one of {", ".join(MECHANISMS)}{nearest(name, MECHANISMS)}, got "{name}"'
            )
        return name


class Load(_Section):
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

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self.model_fields_set
        if self.trace is not None:
            drawn = sorted(given - {"loop", "trace", "timeout"})
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


class Idle(_Section):
    """Connections that are open and silent during the whole run."""

    connections: StrictInt = Field(default=0, ge=0, le=10_000_000, description="How many.")
    life: Life | None = Field(
        default=None,
        description="Mean time until a client closes one and opens another; absent: for ever.",
    )


class Network(_Section):
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


class Run(_Section):
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

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.warm_up >= self.duration:
            raise ValueError(
                f"run.warm_up: must be shorter than run.duration "
                f"({DURATION.format(self.duration)}), got {DURATION.format(self.warm_up)}"
            )
        return self


class Machine(_Section):
    """What things cost."""

    profile: StrictStr | None = Field(
        default=None,
        description="A shipped profile, or a .toml file beside the scenario file.",
    )
    clients: Literal["free", "generator"] = Field(
        default="free",
        description="free: clients on machines of their own; generator: the testbed's.",
    )


class Scenario(_Section):
    """Everything about a run but the seed of each replication.

    >>> scenario = Scenario.of(server={"mechanism": "poll"}, load={"loop": "closed", "users": 8})
    >>> scenario.run.replications
    5
    """

    server: Server
    load: Load
    idle: Idle = Idle()
    network: Network = Network()
    run: Run = Run()
    machine: Machine = Machine()
    _source: str = PrivateAttr("scenario")  # where it came from, for messages

    @model_validator(mode="after")
    def _fits(self) -> Self:
        server, n_idle = self.server, self.idle.connections
        limits = {"server.descriptors": server.descriptors}
        if server.mechanism == "select" and server.fd_setsize:
            limits["server.fd_setsize"] = server.fd_setsize
        for key, limit in limits.items():
            least = n_idle + OWN_DESCRIPTORS
            if limit < least:
                raise ValueError(
                    f"{key}: must be at least {least} "
                    f"({n_idle} idle connections and the server's own), got {limit}"
                )
        if self.load.rate is not None:
            n = round(self.load.rate * self.run.duration / 1e9)
            if n < CONNECTIONS_MIN:
                raise ValueError(
                    f"load.rate: must give at least {CONNECTIONS_MIN} connections in a run of "
                    f"{DURATION.format(self.run.duration)}, got {n}"
                )
            if n > CONNECTIONS_MAX:
                raise ValueError(
                    f"load.rate: must give at most {CONNECTIONS_MAX} connections in a run of "
                    f"{DURATION.format(self.run.duration)}, got {n}"
                )
        return self

    @classmethod
    def of(cls, **sections: Any) -> Scenario:
        """Return the scenario of these sections, each a dictionary as in a TOML file.

        Raises
        ------
        ScenarioError
            With key, rule and value.
        """
        return cls.check(sections, "scenario")

    @classmethod
    def check(cls, content: dict[str, Any], source: str) -> Scenario:
        """Return the scenario in *content*; *source* begins the message of any error.

        Raises
        ------
        ScenarioError
            With source, key, rule and value, in one sentence.
        """
        try:
            scenario = cls.model_validate(content)
        except ValidationError as error:
            raise ScenarioError(f"{source}: {sentence(error, cls)}") from None
        scenario._source = source
        return scenario

    @classmethod
    def read(cls, path: Path | str) -> Scenario:
        """Read a scenario file.

        Raises
        ------
        ScenarioError
            If it cannot be read, is not TOML or breaks a rule.
        """
        path = Path(path)
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ScenarioError(f"{path}: cannot be read ({reason})") from None
        except UnicodeDecodeError:
            raise ScenarioError(f"{path}: must be a text file in UTF-8") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ScenarioError(f"{path}: is not TOML ({error})") from None
        load, machine = content.get("load"), content.get("machine")
        if isinstance(load, dict) and isinstance(load.get("trace"), str):
            load["trace"] = str(path.parent / load["trace"])
        if isinstance(machine, dict) and isinstance(machine.get("profile"), str):
            beside = path.parent / machine["profile"]
            if beside.suffix == ".toml":  # otherwise it is the name of a shipped one
                machine["profile"] = str(beside)
        return cls.check(content, str(path))

    def with_values(self, **sections: dict[str, Any]) -> Scenario:
        """Return this scenario with some keys of some sections replaced, checked again.

        Raises
        ------
        ScenarioError
            If the result breaks a rule.
        """
        content = self.to_dict()
        for name, values in sections.items():
            content[name] = {**content.get(name, {}), **values}
        return type(self).check(content, self._source)

    def to_dict(self) -> dict[str, Any]:
        """Return the sections as a file would hold them: only what was set, with units."""
        return self.model_dump(exclude_unset=True, exclude_none=True)

    @property
    def is_random(self) -> bool:
        """Whether the seed decides anything; otherwise one replication tells all."""
        load = self.load
        drawn = load.trace is None and (
            (load.loop == "open" and load.arrivals == "poisson")
            or (load.loop == "closed" and load.think_time > 0)
        )
        return drawn or (self.idle.life is not None and self.idle.connections > 0)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the replications: one only where nothing is random."""
        n = self.run.replications if self.is_random else 1
        return tuple(range(self.run.seed, self.run.seed + n))
