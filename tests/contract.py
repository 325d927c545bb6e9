"""What every run of every test is held to: work is conserved, time is, and the accounts agree.

`tests/conftest.py` has each run checked as it ends, on whichever engine. A run of which something
is amiss raises `BrokenContractError` with all that is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dispatchsim.sim.clients.kept import n_before
from dispatchsim.sim.figures.fates import Fate
from dispatchsim.sim.figures.histogram import exact_sum
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import Summary
from dispatchsim.sim.figures.tally import FAILURES, Tally
from dispatchsim.sim.kernel.backend_connections import IN_LINE
from dispatchsim.sim.state.kinds import LEVELS, NONE, READABLE, Count, Stage
from dispatchsim.sim.state.world import World

Integers = NDArray[np.int64]
Clauses = Iterator[tuple[str, bool]]
"""What a run must hold, as a sentence, and whether it does."""
_SYNS_OF_DROPPED = 7
"""The first one, and as many again as Linux's net.ipv4.tcp_syn_retries."""


class BrokenContractError(AssertionError):
    """A run that does not hold what every run must."""


def check_run(outcome: Outcome, world: World) -> None:
    """Check the record of a run, and what it has left behind in *world*.

    Raises
    ------
    BrokenContractError
        With every clause that does not hold.
    """
    requests = requests_of_connections(outcome, world)
    _raise(broken_clauses(outcome, requests, is_kept=world.is_kept))
    _raise([clause for clause, holds in _world(outcome, world) if not holds])


def requests_of_connections(outcome: Outcome, world: World) -> Integers:
    """Return how many requests each connection makes, in the order of the record.

    Behind them are those that are no entry of it, as kept ones that open only after the end.
    """
    attempts = slice(world.n_idle, world.end_row, world.rows_each)
    requests = np.asarray(world.requests[attempts], np.int64)
    intended_ns = np.asarray(world.intended_ns[attempts], np.int64)
    came = (intended_ns != NONE) & (intended_ns <= outcome.duration_ns)
    return np.append(requests[came], requests[~came])


def check_stream(summary: Summary, tally: Tally) -> None:
    """Check the figures of a run whose records went into *tally*; otherwise as `check_run`."""
    _raise([clause for clause, holds in _figures(summary, tally) if not holds])


def _raise(clauses: list[str]) -> None:
    if clauses:
        raise BrokenContractError("; ".join(clauses))


def broken_clauses(outcome: Outcome, requests: Integers, *, is_kept: bool = False) -> list[str]:
    """Return what *outcome* does not hold; its trace makes so many *requests* a connection.

    Where connections are kept, requests are due whatever these are at.
    """
    shapes = [clause for clause, holds in _shapes(outcome, requests) if not holds]
    if shapes:
        return shapes
    # A kept connection that was refused is opened again later than one that was lost after it.
    in_turn = (_kept_requests,) if is_kept else (_requests_in_turn, _arrivals)
    parts = (_connections, _requests, *in_turn, _littles_law, _time, _counters)
    return [clause for part in parts for clause, holds in part(outcome, requests) if not holds]


def _shapes(outcome: Outcome, requests: Integers) -> Clauses:
    """Records are as long as the trace, or what of it was begun."""
    names = ("intended_ns", "started_ns", "connected_ns", "done_ns", "attempts")
    shapes = {getattr(outcome, name).shape for name in names}
    yield "there is one entry a connection", shapes == {outcome.status.shape}
    yield "no more came than the trace has", outcome.status.size <= requests.size
    shapes = {outcome.due_ns.shape, outcome.reply_ns.shape}
    yield "there is one entry a request", shapes == {outcome.asked_on.shape}
    asked_on = outcome.asked_on
    is_known = bool(((asked_on >= NONE) & (asked_on < outcome.status.size)).all())
    yield "a request is of a connection that came", is_known


def _connections(outcome: Outcome, requests: Integers) -> Clauses:
    """Each connection is in one class, has ended or not, and its times are in order."""
    intended_ns, started_ns = outcome.intended_ns, outcome.started_ns
    connected_ns, done_ns = outcome.connected_ns, outcome.done_ns
    found = outcome.fates()
    yield "each met one fate", bool(np.isin(found, list(Fate)).all())
    yield "the fates add up to what was offered", _by_fate(found).sum() == found.size
    came = bool(((intended_ns >= 0) & (intended_ns <= outcome.duration_ns)).all())
    yield "each came within the run", came
    ended = ~np.isin(found, (Fate.OPEN, Fate.STRANDED))
    yield "who has ended has an end, and nobody else", bool(((done_ns != NONE) == ended).all())
    yield "who ended did so within the run", bool((done_ns <= outcome.duration_ns).all())
    yield "nobody ended before it came", bool((done_ns >= intended_ns)[ended].all())
    yield "nobody started before it came", bool((started_ns >= intended_ns).all())
    connected = connected_ns != NONE
    yield "nobody connected before it started", bool((connected_ns >= started_ns)[connected].all())
    answered = found == Fate.REPLIED
    yield (
        "who was answered was connected before",
        bool((connected & (connected_ns <= done_ns))[answered].all()),
    )
    refused = np.isin(found, (Fate.REFUSED, Fate.DESCRIPTORS, Fate.PORTS, Fate.DROPPED))
    yield "who was turned away never connected", not bool((connected & refused).any())


def _arrivals(outcome: Outcome, requests: Integers) -> Clauses:
    """Connections stand in the order in which they came."""
    # A client's threads say when they meant to call once they are about to: not in order.
    in_order = bool((np.diff(outcome.intended_ns) >= 0).all())
    yield "they came in order", in_order or outcome.counts[Count.CONNECTS] > 0


def _requests(outcome: Outcome, requests: Integers) -> Clauses:
    """Each request is in one class, and ends once, as its connection does or with a reply."""
    due_ns, reply_ns, asked_on = outcome.due_ns, outcome.reply_ns, outcome.asked_on
    ended_ns, found = outcome.request_ends()
    n, of_connections = outcome.status.size, outcome.fates()
    yield "the fates of requests add up, too", _by_fate(found).sum() == found.size
    replied = reply_ns != NONE
    yield "a reply is the end of its request", bool((ended_ns == reply_ns)[replied].all())
    yield "who has a reply is replied", bool(((found == Fate.REPLIED) == replied).all())
    yield "a request ends after it was due", bool((ended_ns >= due_ns)[ended_ns != NONE].all())
    yield "requests end within the run", bool((ended_ns <= outcome.duration_ns).all())
    was_due = bool(((due_ns >= 0) & (due_ns <= outcome.duration_ns)).all())
    yield "requests were due within the run", was_due
    yield "requests stand in order of their connections", bool((np.diff(asked_on) >= 0).all())
    n_asked = np.bincount(asked_on[asked_on != NONE], minlength=n)
    yield "nobody asked for more than the trace has", bool((n_asked <= requests[:n]).all())
    answered = of_connections == Fate.REPLIED
    all_had = np.bincount(asked_on[replied], minlength=n) == requests[:n]
    yield "who was answered has all its replies, and nobody else", bool((all_had == answered).all())
    last_ns = np.full(n, NONE)
    np.maximum.at(last_ns, asked_on[replied], reply_ns[replied])
    yield "the last reply is the end", bool((last_ns == outcome.done_ns)[answered].all())


def _requests_in_turn(outcome: Outcome, requests: Integers) -> Clauses:
    """Each connection begins with a request; the next follows the reply before it."""
    due_ns, reply_ns, asked_on = outcome.due_ns, outcome.reply_ns, outcome.asked_on
    n = outcome.status.size
    first = np.searchsorted(asked_on, np.arange(n))
    n_asked = np.bincount(asked_on, minlength=n)
    yield "everybody who came had a request", bool((n_asked > 0).all())
    begins = bool((due_ns[first[n_asked > 0]] == outcome.intended_ns[n_asked > 0]).all())
    yield "the first request of each was due as it came", begins
    # The next one of a connection is due from its last reply on, and not without one.
    is_next = np.ones(due_ns.size, bool)
    is_next[first[n_asked > 0]] = False
    next_ones = np.flatnonzero(is_next)
    before_ns = reply_ns[next_ones - 1]
    in_order = (before_ns != NONE) & (due_ns[next_ones] >= before_ns)
    yield "a request follows the reply before it", bool(in_order.all())


def _kept_requests(outcome: Outcome, requests: Integers) -> Clauses:
    """A client takes its requests in the order in which they are due, one at a time."""
    due_ns, ended_ns, asked_on = outcome.due_ns, outcome.ended_ns, outcome.asked_on
    same = (asked_on[1:] == asked_on[:-1]) & (asked_on[1:] != NONE)
    yield "a client takes them in order", bool((due_ns[1:] >= due_ns[:-1])[same].all())
    before_ns, next_ns = ended_ns[:-1][same], ended_ns[1:][same]
    yield "one ends before the next is sent", bool((before_ns != NONE).all())
    in_order = (next_ns == NONE) | (next_ns >= before_ns)
    yield "replies come in the order of requests", bool(in_order.all())


def _littles_law(outcome: Outcome, requests: Integers) -> Clauses:
    """Requests in the system, over time, are those that came, times how long each stayed.

    The first is what is between the moments at which they came and left; the second is what
    figures of response times are made of.
    """
    ended_ns, found = outcome.request_ends()
    is_open = np.isin(found, (Fate.OPEN, Fate.STRANDED))
    if (~is_open & (ended_ns < outcome.due_ns)).any():
        return  # another clause says so
    left_ns = np.where(is_open, outcome.duration_ns, ended_ns)
    area_ns = exact_sum(left_ns) - exact_sum(outcome.due_ns)
    tally = Tally(0, max(1, outcome.duration_ns), exact=False)
    tally.add(outcome.due_ns, ended_ns, found)
    failed = np.isin(found, FAILURES)
    stayed_ns: float = exact_sum((ended_ns - outcome.due_ns)[failed])
    for times in (tally.latency, tally.waiting):
        stayed_ns += times.mean() * times.n if times.n else 0
    # Means are floats, of sums that are exact.
    yield "Little's law holds by request", math.isclose(area_ns, stayed_ns)


def _time(outcome: Outcome, requests: Integers) -> Clauses:
    """Each nanosecond of each CPU was spent on one thing: the utilisation law is an identity."""
    whole_ns, mark_ns = outcome.cpu_ledger_ns, outcome.cpu_ledger_mark_ns
    yield "each CPU's ledger adds up", bool((whole_ns.sum(axis=1) == outcome.duration_ns).all())
    yield "so it does at the mark", bool((mark_ns.sum(axis=1) == outcome.mark_ns).all())
    yield "no activity takes time back", bool(((whole_ns >= mark_ns) & (mark_ns >= 0)).all())


def _counters(outcome: Outcome, requests: Integers) -> Clauses:
    """Counters agree with the fates of connections and requests."""
    counts, mark = outcome.counts, outcome.counts_mark
    n = _by_fate(outcome.fates())
    n_replies = int((outcome.reply_ns != NONE).sum())
    grows = np.array([count not in LEVELS for count in Count])
    more_attempts = int((outcome.attempts - 1).sum())
    again = bool(counts[Count.RETRIES] <= more_attempts)
    yield "who has tried again has several attempts", again
    yield "counters only grow", bool(((counts >= mark) & (mark >= 0))[grows].all())
    yield "nobody has replies that were not sent", n_replies <= counts[Count.REPLIES]
    yield "replies follow reads", bool(counts[Count.REPLIES] <= counts[Count.READS])
    accepted = counts[Count.ACCEPTS] + counts[Count.CONNECTS]
    yield "who was answered was accepted", bool(n[Fate.REPLIED] <= accepted + _n_before(outcome))
    yield (
        "workers accepted what was accepted",
        bool(outcome.worker_accepts.sum() == counts[Count.ACCEPTS]),
    )
    dropped = counts[Count.SYN_DROPS] + counts[Count.PACKET_DROPS]
    n_lost = n[Fate.REFUSED] + _SYNS_OF_DROPPED * n[Fate.DROPPED]
    yield "who was refused or dropped had its SYNs dropped", bool(n_lost <= dropped)
    causes = counts[
        [
            Count.SYN_DROPS_ACCEPT_QUEUE,
            Count.SYN_DROPS_ABOVE,
            Count.NO_MEMORY,
            Count.SYN_DROPS_HALF_OPEN,
        ]
    ]
    yield "each SYN was dropped for one cause", bool(causes.sum() == counts[Count.SYN_DROPS])
    yield (
        "no queue of signals was shorter at its longest",
        bool(counts[Count.SIGNALS_QUEUED] <= counts[Count.SIGNAL_QUEUE_MAX]),
    )
    n_forgotten = counts[Count.CLOSES] + counts[Count.HALF_OPEN_EXPIRED]
    yield "only a close resets, or who was forgotten", bool(n[Fate.RESET] <= n_forgotten)
    yield "who was late was closed", bool(counts[Count.LATE] <= counts[Count.CLOSES])
    yield (
        "who is in TIME_WAIT was closed",
        bool(counts[Count.TIME_WAITS] <= counts[Count.CLOSES]),
    )
    yield (
        "overload control resets no more than are closed",
        bool(counts[Count.SHED] <= counts[Count.CLOSES]),
    )


def _backend(counts: Integers, world: World) -> Clauses:
    """What was sent to the backend has come back, or is there."""
    n = world.backend.connections
    n_out = int(counts[Count.BACKEND_QUERIES] - counts[Count.BACKEND_REPLIES])
    discarded = counts[Count.BACKEND_DISCARDED]
    yield "what went to the backend is back or at most one is on each connection", 0 <= n_out <= n
    yield "only replies are discarded", bool(discarded <= counts[Count.BACKEND_REPLIES])
    fds = range(world.first_backend_fd, world.first_backend_fd + n)
    n_unread = sum(1 for fd in fds if world.state[fd] & READABLE)
    n_there = world.n_at_work + world.n_in_queue
    yield "what is out is at the backend, on its way back, or unread", n_there + n_unread <= n_out
    if n == 0:
        return
    asks = np.asarray(world.asks)
    askers = np.asarray(world.asker)
    has_asker = askers != NONE
    yield (
        "who asks has the connection that has its request",
        bool((asks[askers[has_asker]] == np.flatnonzero(has_asker)).all()),
    )
    yield "each connection has one request at most", bool((asks >= 0).sum() == has_asker.sum())
    yield "who is in line is counted", int((asks == IN_LINE).sum()) == world.n_in_line
    limit = world.backend.limit
    yield "it works on no more than it can", limit == 0 or world.n_at_work <= limit
    idles = limit > 0 and world.n_at_work < limit and world.n_in_queue > 0
    yield "it has nobody wait while it can work", not idles


def _world(outcome: Outcome, world: World) -> Clauses:
    """Whoever is between its SYN and its close is in one place of the server, and counted there."""
    counts = outcome.counts
    stage = np.asarray(world.stage[: world.end_row])
    in_stage = np.bincount(stage, minlength=len(Stage))
    opened = counts[Count.ACCEPTS] + counts[Count.CONNECTS]
    n_open = n_before(world) + opened - counts[Count.CLOSES]
    yield (
        "what was opened is closed or open",
        bool(counts[Count.CONNECTIONS_OPEN] == n_open),
    )
    held = in_stage[Stage.ACCEPTED] + in_stage[Stage.CALLING]
    yield "what is open is held", bool(counts[Count.CONNECTIONS_OPEN] == held)
    for what, count, number in (
        ("half open", [one.n_half for one in world.listeners], Stage.HALF_OPEN),
        ("queued", [one.n_queued for one in world.listeners], Stage.QUEUED),
    ):
        yield f"what is {what} is counted at its listener", bool(sum(count) == in_stage[number])
    yield from _backend(counts, world)
    answered = np.asarray(world.answered[: world.end_row])
    requests = np.asarray(world.requests[: world.end_row])
    kept = counts[Count.TIME_WAITS]
    yield "TIME_WAIT ends no more often than it begins", 0 <= world.n_time_wait <= int(kept)
    yield "no request is answered twice", bool((answered <= requests).all())
    yield "each reply is counted", bool(answered.sum() == counts[Count.REPLIES])


def _figures(summary: Summary, tally: Tally) -> Clauses:
    """The figures of a window add up, however the records were cut."""
    found = tally.fates()
    yield "the fates add up to what was offered", sum(found.values()) == tally.n_offered
    yield "none is negative", min(found.values()) >= 0
    yield "the summary has them", summary.fates == {f.name.lower(): n for f, n in found.items()}
    yield "errors are fates", all(summary.fates[kind] == n for kind, n in summary.errors.items())
    n_ended = tally.n_replied + sum(tally.n_failed.values())
    flow = tally.n_open_begin + tally.n_offered - tally.n_open_end
    yield "what came has ended or is open", flow >= n_ended
    progress = tally.progress
    waits = progress.waiting_through, progress.waiting_long, progress.waiting
    yield "who has waited longer waits, and longer is rarer", [0, *waits] == sorted([0, *waits])
    yield "replies of a half are of the whole", 0 <= progress.answered_late <= progress.answered
    in_intervals = int(tally.n_by_interval.sum())
    yield "intervals hold no more than was replied", 0 <= in_intervals <= tally.n_replied
    n_cpus, rest = divmod(summary.cpu.busy_ns + summary.cpu.idle_ns, summary.window_ns)
    yield "busy and idle are the window of each CPU", n_cpus >= 1 and rest == 0


def _n_before(outcome: Outcome) -> int:
    """Return how many connections were there before the run: connected as it began."""
    return int(((outcome.connected_ns == 0) & (outcome.started_ns == 0)).sum())


def _by_fate(found: Integers) -> Integers:
    return np.bincount(found, minlength=len(Fate))
