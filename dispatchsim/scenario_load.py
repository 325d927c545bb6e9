"""The section [load] of a scenario file: who comes, what they ask for, what they do if it fails."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StrictInt, StrictStr, model_validator

from .quantities import DURATION, RATE, SIZE, Bounded
from .scenario_sections import Pause, Section
from .sim.retries import RETRIES_MAX

Patience = Annotated[int, Bounded(DURATION, "1 ms", "1 h")]
Rate = Annotated[float, Bounded(RATE, "1/min", "10000000/s", whole=False)]
RequestSize = Annotated[int, Bounded(SIZE, "1 B", "64 KiB")]
ReplySize = Annotated[int, Bounded(SIZE, "64 B", "1 GiB")]
_OF_RETRIES = ("retry_pause", "retry_pause_max", "retry_jitter", "retry_budget")


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
    retries: StrictInt = Field(
        default=0,
        ge=0,
        le=RETRIES_MAX,
        description="How often a client whose connection failed opens another one, at most; each "
        "has the whole time-out.",
    )
    retry_pause: Pause = Field(default=0, description="Before the first of them.")
    retry_pause_max: Pause | None = Field(
        default=None,
        description="The pause doubles each time, up to this; absent: it stays the same.",
    )
    retry_jitter: float = Field(
        default=0,
        ge=0,
        le=1,
        description="The largest share of a pause, drawn for each, that is not waited.",
    )
    retry_budget: float | None = Field(
        default=None,
        ge=0.001,
        le=10,
        description="Repetitions of all clients together per connection that they begin, besides "
        "ten that may be saved up; absent: without bound.",
    )
    service_time: Pause = Field(
        default=0,
        description='Where machine.role is "client": how long the far end takes for a reply.',
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self.model_fields_set
        self._check_retries()
        if self.trace is not None:
            beside = {"loop", "trace", "timeout", "service_time", "retries", *_OF_RETRIES}
            drawn = sorted(given - beside)
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

    def _check_retries(self) -> None:
        """Refuse what says how to try again where nobody does.

        Raises
        ------
        ValueError
            With key, rule and value.
        """
        given = sorted(self.model_fields_set & set(_OF_RETRIES))
        if self.retries == 0 and given:
            raise ValueError(f"load.{given[0]}: must be absent where load.retries is 0")
        longest_ns = self.retry_pause_max
        if longest_ns is not None and not 0 < self.retry_pause <= longest_ns:
            raise ValueError(
                f"load.retry_pause_max: must be at least load.retry_pause, which must not be 0 "
                f"({DURATION.format(self.retry_pause)}), got {DURATION.format(longest_ns)}"
            )
