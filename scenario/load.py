"""The section [load] of a scenario file: arrivals, requests, and what clients do on failures."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal, Self

from pydantic import Field, StrictStr, model_validator

from ..sim.load import workload
from ..sim.load.arrivals import Bursts, Crowd, Pattern, Ramp, Wave
from ..sim.load.reply_sizes import MIXES
from ..sim.load.trace_file import REQUESTS_MAX
from ..sim.state.client_settings import ClientSettings
from ..sim.state.laws import Counts, Law
from ..sim.state.units import SECOND_NS
from .declared import SettingsSection
from .key_types import Bounded, Share, Whole
from .laws import NUMBER_MAX, Numbers, Spread, counts_of, law_of
from .quantities import DURATION, RATE, SIZE
from .sections import Pause

Rate = Annotated[float, Bounded(RATE, "1/min", "10000000/s", whole=False)]
RequestSize = Annotated[int, Bounded(SIZE, "1 B", "64 KiB")]
ReplySize = Annotated[int, Bounded(SIZE, "64 B", "1 GiB")]
Requests = Annotated[int, Whole(1, NUMBER_MAX)]
Phase = Annotated[int, Bounded(DURATION, "1 ms", "24 h")]
Factor = Annotated[float, Field(ge=1, le=1_000)]
RampPoint = tuple[Pause, Annotated[float, Field(ge=0, le=1_000)]]
_OF_PATTERNS = {
    "bursts": ("burst_length", "burst_gap", "burst_factor"),
    "flash crowd": ("crowd_start", "crowd_length", "crowd_factor"),
    "waves": ("wave_period", "wave_swing"),
    "ramp": ("ramp",),
}
_OF_RETRIES = ("retry_pause", "retry_pause_max", "retry_jitter", "retry_budget")


class Load(SettingsSection, settings=(ClientSettings,)):
    """The active clients: an open loop (arrivals do not depend on the server) or a closed loop."""

    loop: Literal["open", "closed"] = Field(
        description="open: clients arrive at a rate; closed: a fixed number of users."
    )
    arrivals: Literal["poisson", "constant", "bursts", "flash crowd", "waves", "ramp"] = Field(
        default="poisson",
        description="Spacing of arrivals in an open loop. bursts, flash crowd, waves, ramp: "
        "Poisson arrivals at a rate that changes.",
    )
    burst_length: Phase | None = Field(default=None, description="Mean length of a burst.")
    burst_gap: Phase | None = Field(default=None, description="Mean time between two bursts.")
    burst_factor: Factor | None = Field(
        default=None,
        description="Rate in a burst, as a multiple of the rate between bursts. Absent: no "
        "arrivals between bursts.",
    )
    crowd_start: Pause | None = Field(default=None, description="Start of the flash crowd.")
    crowd_length: Phase | None = Field(default=None, description="Length of the flash crowd.")
    crowd_factor: Factor | None = Field(
        default=None, description="Rate in the flash crowd, as a multiple of load.rate."
    )
    wave_period: Phase | None = Field(
        default=None, description="Time from one peak of the rate to the next, such as a day."
    )
    wave_swing: Annotated[float, Share(least=0, most=1)] | None = Field(
        default=None, description="Amplitude of the waves, as a share of load.rate."
    )
    ramp: Annotated[tuple[RampPoint, ...], Field(min_length=2, max_length=10_000)] | None = Field(
        default=None,
        description="Points of a ramp: a time and the rate then, as a multiple of load.rate. Lines "
        'connect the points: [["0 s", 0.2], ["10 s", 1.0]]. The rate stays after the last point.',
    )
    rate: Rate | None = Field(
        default=None,
        description="Arrival rate of an open loop: connections, or requests where load.connections "
        "is given.",
    )
    connections: Annotated[int, Whole(1, 5_000_000)] | None = Field(
        default=None,
        description="Connections that clients keep open in an open loop. Requests arrive at "
        "load.rate, each on a random connection (in turn where load.arrivals is constant). A "
        "request waits at its client while the connection is busy. Absent: new connections.",
    )
    users: Annotated[int, Whole(1, 1_000_000)] | None = Field(
        default=None,
        description="Users of a closed loop, each with one connection.",
    )
    trace: StrictStr | None = Field(
        default=None,
        description="A trace file instead of arrivals, sizes and pauses from the keys of [load]; "
        "relative to the scenario file.",
    )
    requests: Requests = Field(
        default=1,
        description="Mean number of requests on a connection, which its client then closes. With "
        "load.connections and without this key, clients never close their connections.",
    )
    requests_spread: Numbers = Field(
        default="constant",
        description="Distribution of the number of requests on a connection. geometric: each "
        "request is the last with equal probability; samples: the numbers in load.requests_file.",
    )
    requests_file: StrictStr | None = Field(
        default=None,
        description="A file of numbers of requests, one a line, each as probable as any other.",
    )
    request_size: RequestSize = Field(default=64, description="Size of a request.")
    reply_size: ReplySize = Field(default=128, description="Size of a reply, its header included.")
    reply_mix: Literal["specweb99"] | None = Field(
        default=None,
        description="A mixture of sizes instead of load.reply_size. specweb99: files of four "
        "classes from 0.1 to 900 KB.",
    )
    think_time: Pause = Field(
        default=0,
        description="Mean pause between requests and, in a closed loop, between connections; each "
        "pause is random.",
    )
    think: Spread = Field(
        default="exponential",
        description="Distribution of pauses. constant: all equal; users of a closed loop begin one "
        "after the other during the first pause; samples: the pauses in load.think_file.",
    )
    think_p99: Pause | None = Field(
        default=None, description="99th percentile of lognormal pauses, above load.think_time."
    )
    think_file: StrictStr | None = Field(
        default=None, description="A file of pauses, one a line, such as 850 us."
    )
    descriptors: Annotated[int, Whole(1, 2**40)] | None = Field(
        default=None,
        description="Connections that all clients together can have open at once (a process of "
        "httperf has 1024 descriptors). Absent: unlimited.",
    )
    time_wait: Pause = Field(
        default=60_000_000_000,
        description="Time in TIME_WAIT, during which a closed connection keeps its client's port; "
        "0 s: clients that reset.",
    )
    close: Literal["reset", "fin", "half-close"] = Field(
        default="reset",
        description="How clients close a connection. reset: one packet, no state remains; fin: a "
        "FIN each way, and TIME_WAIT on the side that closes first; half-close: the client's FIN "
        "follows its last request.",
    )
    service_time: Pause = Field(
        default=0,
        description='Time that the server takes for a reply, where machine.role is "client".',
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self.model_fields_set
        self._check_retries()
        self._check_pattern()
        _ = self.think_law, self.request_counts  # refuse keys that make none
        if self.ports is None and "time_wait" in given:
            raise ValueError("load.time_wait: must be absent where load.ports is")
        for key in ("piece_pause", "piece_share"):
            if self.pieces == 1 and key in given:
                raise ValueError(f"load.{key}: must be absent where load.pieces is 1")
        if self.reply_mix is not None and "reply_size" in given:
            raise ValueError("load.reply_size: must be absent where load.reply_mix is given")
        if self.trace is not None:
            beside = {
                "loop",
                "trace",
                "timeout",
                "close",
                "descriptors",
                "ports",
                "time_wait",
                "pieces",
                "piece_pause",
                "piece_share",
                "service_time",
                "retries",
                *_OF_RETRIES,
            }
            drawn = sorted(given - beside)
            if drawn:
                raise ValueError(f"load.{drawn[0]}: must be absent where load.trace is given")
            return self
        rules = {
            "open": ("rate", ("users",)),
            "closed": ("users", ("rate", "arrivals", "connections")),
        }
        needed, foreign = rules[self.loop]
        for key in foreign:
            if key in given:
                raise ValueError(f'load.{key}: must be absent where load.loop is "{self.loop}"')
        if self.connections is not None:
            self._check_kept(given)
        if getattr(self, needed) is None:
            raise ValueError(f'load.{needed}: is missing, and load.loop = "{self.loop}" needs it')
        return self

    def _check_kept(self, given: set[str]) -> None:
        """Refuse keys that do not apply to clients that keep their connections.

        Raises
        ------
        ValueError
            With key, rule and value.
        """
        for key in ("think_time", "think", "think_p99", "think_file", "retries"):
            if key in given:
                raise ValueError(
                    f"load.{key}: must be absent where load.connections is given: requests arrive "
                    "at load.rate, and clients reopen lost connections"
                )
        for key, most in (("descriptors", self.descriptors), ("ports", self.ports)):
            if most is not None and most < (self.connections or 0):
                raise ValueError(
                    f"load.{key}: must be at least load.connections ({self.connections}), "
                    f"got {most}"
                )

    @property
    def pause_law(self) -> Law | None:
        """The law of pauses between the requests of a connection; None: there are none.

        Raises
        ------
        ValueError
            With key, rule and value, where the keys do not make a law.
        """
        law = self.think_law
        if law.kind == "constant" or law.mean == 0 or not self.request_counts.several:
            return None  # the trace has them
        return None if self.trace is not None else law

    @property
    def think_law(self) -> Law:
        """The law of pauses; raises as `pause_law`."""
        return law_of(
            "load.think",
            self.think_time,
            self.think,
            self.think_p99,
            self.think_file,
            mean_key="load.think_time",
            spread_key="load.think",
        )

    @property
    def keeps_for_ever(self) -> bool:
        """Whether clients keep their connections and never close one themselves."""
        return self.connections is not None and self.request_counts.of_each == REQUESTS_MAX

    @property
    def request_counts(self) -> Counts:
        """The law of the number of requests on a connection; raises as `pause_law`."""
        mean = self.requests if "requests" in self.model_fields_set else None
        if mean is None and self.connections is not None and self.requests_spread == "constant":
            mean = REQUESTS_MAX
        return counts_of("load.requests", mean, self.requests_spread, self.requests_file)

    def _check_pattern(self) -> None:
        """Refuse keys of one pattern of arrivals with another, and a pattern that lacks its own.

        Raises
        ------
        ValueError
            With key, rule and value.
        """
        for pattern, keys in _OF_PATTERNS.items():
            for key in keys:
                if self.arrivals != pattern and key in self.model_fields_set:
                    raise ValueError(
                        f'load.{key}: must be absent unless load.arrivals is "{pattern}"'
                    )
                needed = self.arrivals == pattern and key != "burst_factor"
                if needed and getattr(self, key) is None:
                    raise ValueError(
                        f'load.{key}: is missing, and load.arrivals = "{pattern}" needs it'
                    )

        times = [at for at, _ in self.ramp or ()]
        for before, at in itertools.pairwise(times):
            if at <= before:
                raise ValueError(
                    f"load.ramp: must be in order of time, got {DURATION.format(at)} after "
                    f"{DURATION.format(before)}"
                )
        if self.ramp and not any(factor for _, factor in self.ramp):
            raise ValueError("load.ramp: must be above 0 at one point at least, got 0 at all")

    @property
    def pattern(self) -> Pattern | None:
        """How the rate changes with time; None: constant."""
        if self.arrivals == "bursts":
            assert self.burst_length
            assert self.burst_gap
            factor = math.inf if self.burst_factor is None else self.burst_factor
            return Bursts(self.burst_length / SECOND_NS, self.burst_gap / SECOND_NS, factor)
        if self.arrivals == "flash crowd":
            assert self.crowd_start is not None
            assert self.crowd_length
            assert self.crowd_factor
            start_s, length_s = self.crowd_start / SECOND_NS, self.crowd_length / SECOND_NS
            return Crowd(start_s, length_s, self.crowd_factor)
        if self.arrivals == "waves":
            assert self.wave_period
            assert self.wave_swing is not None
            return Wave(self.wave_period / SECOND_NS, self.wave_swing)
        if self.arrivals == "ramp":
            assert self.ramp
            return Ramp(tuple((at / SECOND_NS, factor) for at, factor in self.ramp))
        return None

    @property
    def workload(self) -> workload.Load:
        """The arrivals that a trace is made from, unless it is a file."""
        return workload.Load(
            loop="kept" if self.connections else self.loop,
            users=self.connections or self.users or 0,
            rate_per_s=self.rate or 0,
            process="constant" if self.arrivals == "constant" else "poisson",
            pattern=self.pattern,
            requests=self.request_counts.of_each,
            counts=None if self.requests_spread == "constant" else self.request_counts,
            request_bytes=self.request_size,
            reply_bytes=self.reply_size,
            reply_mix=None if self.reply_mix is None else MIXES[self.reply_mix],
            think_ns=round(self.think_law.mean),
            think=self.think_law,
        )

    def _check_retries(self) -> None:
        """Refuse retry settings without retries, and a pause above its maximum.

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
