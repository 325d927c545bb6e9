"""The section [server] of a scenario file: keys, units, bounds, and rules between its keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from ..models.catalogue import CATALOGUE, MECHANISMS
from ..models.program_settings import broken_rule, ignored_settings
from ..sim.assembly.checks import THREADS_MAX, WORKERS_MAX
from ..sim.state.mechanism import Trait
from ..sim.state.settings import ServerSettings
from .near_names import nearest
from .programs import with_program
from .quantities import DURATION, SIZE, Bounded
from .sections import Length, Pause, Section
from .server_keys import KEYS, written
from .server_settings import program_settings

BufferSize = Annotated[int, Bounded(SIZE, "1 KiB", "1 GiB")]
StackSize = Annotated[int, Bounded(SIZE, "16 KiB", "1 GiB")]
AddressSpace = Annotated[int, Bounded(SIZE, "1 MiB", "1048576 GiB")]


class BrokenRule(NamedTuple):
    """A key whose value does not go with a mechanism, and what such mechanisms are."""

    key: str
    value: str
    must: str
    others: str


class Server(Section):
    """The server program: how it waits, how it accepts, what it may hold."""

    program: StrictStr | None = Field(
        default=None,
        description="A server of the literature, which sets mechanism and other keys: phhttpd, ...",
    )
    mechanism: StrictStr = Field(
        description="How it learns of readiness: select, poll, ... May be left to program."
    )
    accept_limit: StrictInt = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Accepts for one notification; 0: until none is left.",
    )
    accept_each_signal: StrictBool = Field(
        default=False,
        description="Accept one connection for each signal of the listener that a call returned, "
        "instead of accept_limit.",
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
    syn_cookies: StrictBool = Field(
        default=True,
        description="Answer SYNs even when the backlog of half-open connections is full (Linux).",
    )
    closes_first: StrictBool = Field(
        default=True,
        description="Whether it closes a connection when it has sent its last reply; otherwise it "
        "waits until its client has.",
    )
    drops_half_closed: StrictBool = Field(
        default=False,
        description="Whether it takes a client that has sent all its requests and a FIN "
        '(load.close = "half-close") for gone, and closes without a reply.',
    )
    writes: Literal["at once", "when told"] = Field(
        default="at once",
        description="Whether it writes a reply when it has it, or changes its interest first and "
        "waits until it is told that it can.",
    )
    max_events: StrictInt = Field(
        default=1024, ge=1, le=1_000_000, description="Events that one wait may return."
    )
    busy: StrictBool = Field(
        default=False, description="Ask again and again instead of blocking until something comes."
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
    workers: StrictInt = Field(
        default=1,
        ge=1,
        le=THREADS_MAX,
        description="Event loops, each a thread that stays on one of the machine's CPUs. With "
        "blocking: threads in the pool, or how many there may be at once, the first included.",
    )
    threads: Literal["pool", "on demand", "processes"] = Field(
        default="pool",
        description="With blocking: whether all threads are there from the beginning, or one "
        "accepts and starts a thread, or a process, for each connection.",
    )
    stack: StackSize = Field(
        default=ServerSettings().stack_bytes, description="What each thread reserves for its stack."
    )
    address_space: AddressSpace | None = Field(
        default=None, description="Room for all stacks together; absent: without limit."
    )
    concurrent_threads: StrictInt = Field(
        default=0,
        ge=0,
        le=THREADS_MAX,
        description="Threads of a completion port that run at once; 0: as many as there are CPUs.",
    )
    sends: Literal["overlapped", "blocking"] = Field(
        default="overlapped",
        description="With a completion port: whether a send that does not fit completes later, or "
        "its thread sleeps until it does, and another one may run.",
    )
    array: Literal["kept", "rebuilt"] = Field(
        default="kept",
        description="Whether the set that select or poll is given is built anew for each call.",
    )
    removes_first: StrictBool = Field(
        default=True,
        description="Whether a server on /dev/poll of Solaris, which adds to an interest, removes "
        "a descriptor before it wants less of it; if not, it is told of more than it wants.",
    )
    remembers: StrictBool = Field(
        default=True,
        description="Whether a server that is told of changes goes on until a call would block; "
        "one that does not serves each notice once, and may strand its clients.",
    )
    signal_queue: StrictInt = Field(
        default=1024,
        ge=1,
        le=10_000_000,
        description="Signals that may be queued (ulimit -i), where events are told by signals.",
    )
    signals_elsewhere: StrictInt = Field(
        default=0, ge=0, le=10_000_000, description="Of these, how many another process holds."
    )
    signal_numbers: StrictInt = Field(
        default=1,
        ge=1,
        le=32,
        description="Signal numbers in use, by descriptor in turn: the lowest is delivered first.",
    )
    recovery: Literal["nothing", "poll", "poll until calm", "poll for ever"] = Field(
        default="poll",
        description="What follows when signals were lost: nothing (who was meant is stranded), a "
        "flush and one poll of all, or polls until there is little to do, or for ever.",
    )
    recovery_array: Literal["rebuilt", "kept"] = Field(
        default="rebuilt", description="Whether the array for poll is kept at every change."
    )
    recovery_thread: Literal["same", "sibling"] = Field(
        default="same", description="sibling: each descriptor is handed over to another thread."
    )
    overflow_told: Literal["first", "last"] = Field(
        default="first",
        description="Whether SIGIO, which tells that signals were lost, comes before those queued, "
        "as in every kernel, or behind them, to see what follows from that.",
    )
    poll_above: StrictInt = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="Queued signals from which on a hybrid server polls; 0: it never does.",
    )
    calm_below: StrictInt = Field(
        default=1,
        ge=1,
        le=10_000_000,
        description="A poll that finds fewer ready leads back to signals.",
    )
    limiter_gain: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description="Overload control by a running mean of the events told of in a call, of this "
        "gain, to a thousandth; 0: none.",
    )
    limiter_threshold: StrictInt = Field(
        default=18, ge=0, le=1_000_000, description="Above this mean who comes in is reset."
    )
    queue_deadline: Pause = Field(
        default=0,
        description="How long a connection may have waited to be accepted while others always did "
        "(it is reset then); 0 s: for ever.",
    )
    queue_interval: Pause = Field(
        default=100_000_000,
        description="The same where the queue was empty in between; and what counts as always.",
    )
    concurrency_tolerance: Annotated[float, Field(ge=0, le=1000)] = Field(
        default=0.0,
        description="Overload control by a limit on open connections that shrinks when the latency "
        "of a first reply is more than so many times the least seen; 0: none, else at least 1.",
    )
    request_timeout: Pause = Field(
        default=0,
        description="Who has not sent a whole request so long after its accept, or after the reply "
        "before, is closed; 0 s: nobody.",
    )
    timeout_check: Length = Field(
        default=ServerSettings().timeout_check_ns,
        description="How often an event loop looks for such, in a walk of all its connections.",
    )
    drop_above: StrictInt = Field(
        default=0,
        ge=0,
        le=20_000_000,
        description="Open connections above which SYNs are lost; 0: no bound.",
    )
    share: Literal["nothing", "accept queue", "ready list", "handed over"] = Field(
        default="accept queue",
        description="What workers have in common. nothing: each has its own accept queue "
        "(SO_REUSEPORT); accept queue: one, which all watch; ready list: one epoll set for all; "
        "handed over: the first worker accepts for the others, in turn (memcached).",
    )
    wake: Literal["all", "one"] | None = Field(
        default=None,
        description="Which of the workers that wait a new connection wakes (one: EPOLLEXCLUSIVE). "
        "Absent: one of those that sleep in accept, all of those that wait in other ways.",
    )

    pass_listener: StrictBool = Field(
        default=False,
        description="Whether a worker hands the listener to the next one after each accept, so "
        "that new connections are told to one (F_SETOWN): where events are told by signals.",
    )

    epoll_watches: StrictInt = Field(
        default=0,
        ge=0,
        le=2_000_000_000,
        description="Descriptors that all epoll sets may hold (fs.epoll.max_user_watches), above "
        "which connections are closed; 0: no bound.",
    )
    epoll_instances: StrictInt = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Epoll sets that there may be (fs.epoll.max_user_instances); 0: no bound.",
    )

    @model_validator(mode="before")
    @classmethod
    def _is_its_program(cls, content: Any) -> Any:
        return with_program(content) if isinstance(content, dict) else content

    @field_validator("mechanism")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in MECHANISMS:
            raise ValueError(
                f'must be one of {", ".join(MECHANISMS)}{nearest(name, MECHANISMS)}, got "{name}"'
            )
        return name

    @property
    def wakes_one(self) -> bool:
        """Whether a new connection wakes one worker: as told, or as Linux does."""
        return (
            Trait.IN_CALLS in MECHANISMS[self.mechanism].traits
            if self.wake is None
            else self.wake == "one"
        )

    @property
    def threads_max(self) -> int:
        """How many threads, or processes, there can be at once: processes have a space each."""
        if self.address_space is None or self.threads == "processes":
            return self.workers
        return min(self.workers, self.address_space // self.stack)

    @property
    def program_settings(self) -> ServerSettings:
        """What the program is told; the machine's CPUs are not in it."""
        return program_settings(self)

    def broken_rule(self, mechanism: str) -> BrokenRule | None:
        """Return which of these settings does not go with *mechanism*, if any."""
        rule = broken_rule(CATALOGUE[mechanism], self.program_settings)
        if rule is None:
            return None
        key = KEYS.get(rule.setting, rule.setting)
        default = "all" if key == "wake" else type(self).model_fields[key].default
        value = written(getattr(self, key))
        must = f"be {written(default)}" if rule.refused is None else f"not be {value}"
        return BrokenRule(f"server.{key}", value, must, rule.others)

    @property
    def ignored(self) -> list[tuple[str, str]]:
        """Keys that are set, with their values, and that the mechanism does not look at."""
        settings = ignored_settings(CATALOGUE[self.mechanism], self.program_settings)
        keys = [KEYS.get(setting, setting) for setting in settings]
        return [(key, written(getattr(self, key))) for key in keys]

    @model_validator(mode="after")
    def _goes_with_its_mechanism(self) -> Self:
        broken = self.broken_rule(self.mechanism)
        if broken is not None:
            raise ValueError(
                f"{broken.key}: must {broken.must} where server.mechanism is "
                f'"{self.mechanism}", {broken.others}, got {broken.value}'
            )
        return self

    @model_validator(mode="after")
    def _has_cpus_enough(self) -> Self:
        if self.workers > WORKERS_MAX and not MECHANISMS[self.mechanism].one_at_a_time:
            raise ValueError(f"server.workers: must be at most {WORKERS_MAX}, got {self.workers}")
        return self

    @model_validator(mode="after")
    def _tolerates_the_least(self) -> Self:
        if 0 < self.concurrency_tolerance < 1:
            raise ValueError(
                "server.concurrency_tolerance: must be 0 or at least 1, as no latency is below the "
                f"least, got {self.concurrency_tolerance}"
            )
        return self

    @model_validator(mode="after")
    def _fits_epoll(self) -> Self:
        n_sets = 1 if self.share == "ready list" else self.workers
        if (
            Trait.IN_EPOLL in MECHANISMS[self.mechanism].traits
            and 0 < self.epoll_instances < n_sets
        ):
            raise ValueError(
                f"server.epoll_instances: must be at least {n_sets}, a set for each worker, or 0, "
                f"got {self.epoll_instances}"
            )
        return self

    @model_validator(mode="after")
    def _can_share(self) -> Self:
        shares_list = self.share == "ready list" and self.workers > 1
        if self.request_timeout > 0 and shares_list:
            raise ValueError(
                'server.request_timeout: must be 0 s where workers share a "ready list" (another '
                f"may be serving who is late), got {DURATION.format(self.request_timeout)}"
            )
        if self.request_timeout == 0 and "timeout_check" in self.model_fields_set:
            raise ValueError("server.timeout_check: must be absent where server.request_timeout is")
        if self.pass_listener and self.share != "accept queue":
            raise ValueError(
                'server.share: must be "accept queue" where server.pass_listener is true, '
                f'got "{self.share}"'
            )
        if self.share == "handed over" and self.workers < 2:
            raise ValueError(
                'server.workers: must be at least 2 where server.share is "handed over" (the first '
                f"accepts for the others), got {self.workers}"
            )
        if self.share == "handed over" and self.read_after_accept:
            raise ValueError(
                'server.read_after_accept: must be false where server.share is "handed over" (who '
                "accepts does not read), got true"
            )
        if self.share == "ready list" and self.workers > 1 and self.read_after_accept:
            raise ValueError(
                'server.read_after_accept: must be false where server.share is "ready list" '
                "(another worker may already read from the connection), got true"
            )
        return self
