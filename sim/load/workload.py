"""The load on a server: a trace, made before the run, for simulator and testbed alike.

Load ─┬─ trace(seed, seconds, rows) ──► Trace          all rows, to be replayed or simulated
└─ blocks(seed, seconds) ───────► TraceBlocks    the same rows, drawn as they are needed
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..state.client_classes import ClientClass
from ..state.laws import Counts, Law, ReplyMix
from ..state.units import SECOND_NS
from .arrivals import Pattern, PatternedArrivals
from .client_classes import class_of_users, connection_drawer, first_pauses, users_of_requests
from .laws import counts_at, quantiles_ns
from .reply_sizes import size_drawer
from .streams import generator
from .trace_file import (
    COLUMNS,
    CONNECTIONS_MAX,
    REPLY_BYTES_MIN,
    REQUESTS_MAX,
    Loop,
    Trace,
    TraceError,
)

__all__ = ["REPLY_BYTES_MIN", "Trace", "TraceError"]  # handed on

Integers = NDArray[np.int64]
Columns = tuple[Integers, ...]
"""In the order of `trace_file.COLUMNS`."""

_SECONDS_MAX = 2**63 / SECOND_NS


class TraceBlocks(ABC):
    """The rows of a trace, made block by block: a run of any length needs memory for one block.

    Blocks of any sizes, one after the other, are the rows of the trace made at once.

    Attributes
    ----------
    loop, users, user_class:
        As of every block; see `Trace`.
    has_several:
        Whether some connections may make several requests.
    """

    def __init__(self, loop: Loop, users: int, *, has_several: bool = False) -> None:
        self.loop = loop
        self.users = users
        self.has_several = has_several
        self.user_class = np.zeros(0, np.int64)

    def take(self, n: int) -> Trace | None:
        """Return the next *n* rows, fewer only where they are the last, None after the last.

        Raises
        ------
        TraceError
            If *n* is not within 1 and what a trace may hold.
        """
        if not 1 <= n <= CONNECTIONS_MAX:
            raise TraceError(f"a block needs 1 to {CONNECTIONS_MAX} connections, got {n}")
        columns = dict(zip((*COLUMNS, "client_class"), self._draw(n), strict=False))
        if not columns["at_ns"].size:
            return None
        return Trace(self.loop, self.users, user_class=self.user_class, **columns)

    def _all(self, n: int) -> Trace:
        """Return all rows that are left, taken *n* at a time."""
        parts: list[Trace] = []
        while (block := self.take(n)) is not None:
            parts.append(block)
        if len(parts) == 1:
            return parts[0]
        none = np.zeros(0, np.int64)
        names = (*COLUMNS, "client_class")
        columns = {n: np.concatenate([none, *(getattr(p, n) for p in parts)]) for n in names}
        return Trace(self.loop, self.users, user_class=self.user_class, **columns)

    @abstractmethod
    def _draw(self, n: int) -> Columns:
        """Return the columns of the next rows, none after the last; that of classes is the last."""


_EXPONENTIAL = Law("exponential")


class Load(NamedTuple):
    """Connections that arrive at *rate_per_s*, or *users* who open one after the other.

    If *users* keep their connections open, requests arrive at *rate_per_s*, each at a random user;
    with a constant process users take turns.

    `rate_per_s`, `process` and the `pattern` of the rate belong to an open loop and to kept
    connections, `users` to kept connections and a closed loop. The rest describes the requests of a
    connection: replies of one size or of a mixture, and pauses of mean `think_ns`, in a closed loop
    with the law `think`. Pauses between requests of a connection have the law in
    `RunSettings.laws`, if there is one. With `pauses_first` users of a closed loop pause before
    their first connection, too; otherwise all begin at once.
    `counts` is the law of the number of requests on a connection; None: all have `requests`.
    Classes in `classes` replace the fields of the same names here.
    In an open loop the rows of a longer run begin with those of a shorter one.
    """

    loop: Loop
    users: int = 0
    rate_per_s: float = 0
    process: Literal["poisson", "constant"] = "poisson"
    pattern: Pattern | None = None
    requests: int = 1
    request_bytes: int = 64
    reply_bytes: int = 128
    reply_mix: ReplyMix | None = None
    think_ns: int = 0
    think: Law = _EXPONENTIAL
    pauses_first: bool = False
    counts: Counts | None = None
    classes: tuple[ClientClass, ...] = ()

    @property
    def has_several(self) -> bool:
        """Whether some connections may make several requests."""
        if self.classes:
            return any(each.requests.several for each in self.classes)
        return self.requests > 1 if self.counts is None else self.counts.several

    def trace(self, seed: int, seconds: float, rows: int) -> Trace:
        """Return the arrivals of *seconds* in an open loop, *rows* connections in a closed one.

        Raises
        ------
        TraceError
            If there would be none or absurdly many of them.
        """
        if self.loop == "kept":
            return self._kept_trace(seed, seconds, rows)
        if self.loop == "closed":
            if rows > CONNECTIONS_MAX:
                raise TraceError(f"a trace needs 1 to {CONNECTIONS_MAX} connections, got {rows}")
            return ClosedLoopBlocks(self, seed=seed, connections=rows)._all(rows)
        mean = self.rate_per_s * seconds
        if mean > CONNECTIONS_MAX:
            raise TraceError(
                f"{self.rate_per_s}/s for {seconds} s is over {CONNECTIONS_MAX} connections"
            )
        blocks = OpenLoopBlocks(self, seconds=seconds, seed=seed)
        # One block that is long enough in all but absurd cases.
        return blocks._all(min(int(mean + 10 * mean**0.5 + 10), CONNECTIONS_MAX))

    def _kept_trace(self, seed: int, seconds: float, rows: int) -> Trace:
        """Return the users' connections, *rows* in all, and the requests of *seconds*."""
        arrivals = Load(
            "open", rate_per_s=self.rate_per_s, process=self.process, pattern=self.pattern
        ).trace(seed, seconds, 0)
        n, n_rows = len(arrivals), max(rows, self.users)
        user_class, in_turn = np.zeros(0, np.int64), self.process == "constant"
        if self.classes:
            user_class = class_of_users(self.classes, self.users, seed)
            user = users_of_requests(self.classes, user_class, n, seed, in_turn=in_turn)
        elif in_turn:
            user = np.arange(n) % self.users
        else:
            user = generator(seed, "users of requests").integers(0, self.users, n)
        size, number = size_drawer(self.reply_mix, seed), _number_drawer(self.counts, seed)
        row = (min(self.requests, REQUESTS_MAX), self.request_bytes, self.reply_bytes, 0)
        requests, request_bytes, reply_bytes, think_ns = _filled(row, n_rows)
        return Trace(
            "kept", self.users, np.zeros(n_rows, np.int64), number(requests), request_bytes,
            size(reply_bytes), think_ns, arrivals.at_ns, user.astype(np.int64),
            user_class=user_class,
        )  # fmt: skip

    def blocks(self, seed: int, seconds: float) -> TraceBlocks:
        """Return the rows of `trace` block by block; in a closed loop they do not end."""
        if self.loop == "closed":
            return ClosedLoopBlocks(self, seed=seed)
        return OpenLoopBlocks(self, seconds=seconds, seed=seed)


class OpenLoopBlocks(TraceBlocks):
    """The rows of `open_loop` for the same load, block by block and as many as there are.

    Raises
    ------
    TraceError
        If rate or duration are not positive, or a row would break a rule of `Trace`.
    ValueError
        If *seed* is negative.
    """

    def __init__(self, load: Load, *, seconds: float, seed: int) -> None:
        super().__init__("open", 0, has_several=load.has_several)
        rate_per_s = load.rate_per_s
        if not 0 < rate_per_s < math.inf or not seconds > 0:
            raise TraceError(
                f"rate and duration must be positive, got {rate_per_s}/s for {seconds} s"
            )
        if seconds >= _SECONDS_MAX:
            raise TraceError(f"the duration must be below {_SECONDS_MAX:.0f} s, got {seconds} s")
        self._row = _checked_row(self, load)
        self._draw_sizes = size_drawer(load.reply_mix, seed)
        self._draw_numbers = _number_drawer(load.counts, seed)
        self._draw_classes = connection_drawer(load.classes, seed) if load.classes else None
        self._draw_starts = self._evenly if load.process == "constant" else self._poisson
        if load.pattern is not None:
            if load.process != "poisson":
                raise TraceError(f"a pattern is of a poisson process, got {load.process}")
            arrivals = PatternedArrivals(
                load.pattern, rate_per_s=rate_per_s, seconds=seconds, seed=seed
            )
            self._draw_starts = arrivals.take
        self._gap_ns = SECOND_NS / rate_per_s
        self._n_in_all = int(rate_per_s * seconds)  # of constant arrivals
        self._n_drawn = 0
        self._horizon_ns = seconds * SECOND_NS  # of Poisson arrivals
        self._last_ns = 0.0
        self._rng = generator(seed, "arrivals")

    def _draw(self, n: int) -> Columns:
        at_ns = self._draw_starts(n).astype(np.int64)
        if self._draw_classes is not None:
            client_class, *columns = self._draw_classes(at_ns.size)
            return at_ns, *columns, client_class
        requests, request_bytes, reply_bytes, think_ns = _filled(self._row, at_ns.size)
        reply_bytes = self._draw_sizes(reply_bytes)
        return at_ns, self._draw_numbers(requests), request_bytes, reply_bytes, think_ns

    def _evenly(self, n: int) -> NDArray[np.float64]:
        first = self._n_drawn
        self._n_drawn = min(first + n, self._n_in_all)
        at_ns: NDArray[np.float64] = np.rint(np.arange(first, self._n_drawn) * self._gap_ns)
        return at_ns

    def _poisson(self, n: int) -> NDArray[np.float64]:
        if self._last_ns >= self._horizon_ns:
            return np.zeros(0)
        at_ns = self._rng.standard_exponential(n)
        at_ns *= self._gap_ns
        # The sum is carried on unrounded: the same additions as in one long cumulative sum.
        at_ns[0] += self._last_ns
        np.cumsum(at_ns, out=at_ns)
        self._last_ns = float(at_ns[-1])
        np.rint(at_ns, out=at_ns)
        return at_ns[: int(np.searchsorted(at_ns, self._horizon_ns))]


class ClosedLoopBlocks(TraceBlocks):
    """The rows of `closed_loop` for the same load; endless where *connections* is None.

    Raises
    ------
    TraceError
        If there are no connections, or a row would break a rule of `Trace`.
    ValueError
        If *seed* is negative.
    """

    def __init__(self, load: Load, *, seed: int = 0, connections: int | None = None) -> None:
        super().__init__("closed", load.users, has_several=load.has_several)
        if connections is not None and connections < 1:
            raise TraceError(f"connections must be at least 1, got {connections}")
        self._row = _checked_row(self, load)
        self._draw_sizes = size_drawer(load.reply_mix, seed)
        self._draw_numbers = _number_drawer(load.counts, seed)
        self._n_left = connections
        self._rng = generator(seed, "think")
        self._think = load.think
        self._n_drawn = 0
        drawn = load.pauses_first and self._row[-1] > 0 and load.think.kind != "constant"
        self._firsts_ns: NDArray[np.int64] = np.zeros(0, np.int64)
        if drawn:
            pauses_ns = self._draw_pauses(generator(seed, "first pauses"), load.users)
            self._firsts_ns = np.sort(np.rint(pauses_ns)).astype(np.int64)
        if load.classes:
            self._firsts_ns, self.user_class = first_pauses(
                load.classes,
                class_of_users(load.classes, load.users, seed),
                seed,
                drawn=load.pauses_first,
            )

    def _draw(self, n: int) -> Columns:
        if self._n_left is not None:
            n = min(n, self._n_left)
            self._n_left -= n
        requests, request_bytes, reply_bytes, think_ns = _filled(self._row, n)
        reply_bytes = self._draw_sizes(reply_bytes)
        at_ns = np.zeros(n, np.int64)
        number = np.minimum(np.arange(self._n_drawn, self._n_drawn + n), self.users - 1)
        if self._firsts_ns.size:
            at_ns = self._firsts_ns[number]
        if self.user_class.size:
            pass  # rows ask for what their users do
        elif self._think.kind == "constant":
            # Otherwise all would ask at once, and again, for ever.
            at_ns = number * self._row[-1] // self.users
        elif self._row[-1]:
            think_ns = np.rint(self._draw_pauses(self._rng, n)).astype(np.int64)
        self._n_drawn += n
        return at_ns, self._draw_numbers(requests), request_bytes, reply_bytes, think_ns

    def _draw_pauses(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        if self._think.kind == "exponential":
            return rng.exponential(self._row[-1], n)
        return quantiles_ns(self._think, rng.random(n))


def open_loop(
    *,
    rate_per_s: float,
    seconds: float,
    seed: int,
    process: Literal["poisson", "constant"] = "poisson",
    pattern: Pattern | None = None,
    requests: int = 1,
    request_bytes: int = 64,
    reply_bytes: int = 128,
    reply_mix: ReplyMix | None = None,
    think_ns: int = 0,
) -> Trace:
    """Return connections that arrive at *rate_per_s* for *seconds*, independent of the server.

    Raises
    ------
    TraceError
        If rate or duration are not positive, or the trace would be empty or absurdly long.
    """
    load = Load(
        "open",
        rate_per_s=rate_per_s,
        process=process,
        pattern=pattern,
        requests=requests,
        request_bytes=request_bytes,
        reply_bytes=reply_bytes,
        reply_mix=reply_mix,
        think_ns=think_ns,
    )
    return load.trace(seed, seconds, rows=0)


def closed_loop(
    *,
    users: int,
    connections: int,
    seed: int = 0,
    requests: int = 1,
    request_bytes: int = 64,
    reply_bytes: int = 128,
    reply_mix: ReplyMix | None = None,
    think_ns: int = 0,
    think: Literal["exponential", "constant"] = "exponential",
) -> Trace:
    """Return *connections* opened by *users*; each user starts the next when the last ended.

    Think times are exponential with mean *think_ns* (0: none), one random number a connection. With
    constant think times users begin one after the other during the first.

    Raises
    ------
    TraceError
        If there are no users or connections, or too many connections for a trace.
    """
    load = Load(
        "closed",
        users=users,
        requests=requests,
        request_bytes=request_bytes,
        reply_bytes=reply_bytes,
        reply_mix=reply_mix,
        think_ns=think_ns,
        think=Law(think, think_ns),
    )
    return load.trace(seed, 0, connections)


def _number_drawer(counts: Counts | None, seed: int) -> Callable[[Integers], Integers]:
    """Return the function that replaces a column of requests by random *counts*, if given.

    It has its own stream: the arrivals do not depend on the numbers of requests.
    """
    if counts is None:
        return lambda column: column
    rng = generator(seed, "requests of connections")
    return lambda column: counts_at(counts, rng.random(column.size))


def _checked_row(blocks: TraceBlocks, load: Load) -> tuple[int, ...]:
    """Return all columns of *load* but the first, once a trace of them has passed every rule."""
    row = (load.requests, load.request_bytes, load.reply_bytes, load.think_ns)
    Trace(blocks.loop, blocks.users, np.zeros(1, np.int64), *_filled(row, 1))
    return row


def _filled(row: tuple[int, ...], n: int) -> Columns:
    """Return a column of *n* equal entries for each entry of *row*."""
    return tuple(np.full(n, value, np.int64) for value in row)
