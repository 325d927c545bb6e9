"""The activity of every CPU in a time window of a run on the reference engine, without gaps.

    cpu 0  │ WAIT │ ACCEPT ┤INTERRUPT├ ACCEPT │ SLEEP │   IDLE   ┤INTERRUPT├ IDLE │ WAKE │
           └ a step, cut in two by a packet   ┘                              a tiling: no gaps

    queues     at_ns, lengths      written down when one changes
    happenings at_ns, kind, c      events of connections

The spans of a CPU follow each other without a gap or an overlap. The spans of an activity add up to
the run's ledger, to the nanosecond. The recorder only reads: a recorded run has the same outcome.
The number of entries is limited; at the limit the recording ends, and `whole_until_ns` has that
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ..cpu.gaps import host_takes_from
from ..cpu.processor import due_ns, first_due, is_other, thread_of
from ..state.event_calendar import first_due_ns
from ..state.kinds import NONE, activity, count, occurrence, packet_connection, packet_kind
from ..state.world import Cpu, World
from .queue_lengths import QUEUES, Measure

_UNSEEN = frozenset({occurrence.SAMPLE, occurrence.MARK})
"""Occurrences in the simulator's accounting, not in the machine."""
_TAKEN = {
    activity.WAIT: count.EVENTS,
    activity.WAKE: count.EVENTS,
    activity.ACCEPT: count.ACCEPTS,
    activity.READ: count.READS,
}
_TAKEN_ONE = frozenset({activity.ACCEPT})
_ABOUT_ONE = frozenset(
    {activity.READ, activity.WRITE, activity.USER, activity.CLOSE, activity.CONNECT}
)
_ABOUT_WATCHING = frozenset({activity.WATCH, activity.REWATCH, activity.UNWATCH})


class Span(NamedTuple):
    """What one CPU did for a while.

    Attributes
    ----------
    begin_ns, end_ns:
        The time, in ns from the start of the run.
    cpu, thread:
        The CPU, and the thread that had it; NONE while it was idle. For an interrupt: the thread
        that it interrupted.
    activity:
        As in `Activity`.
    step:
        Number of the thread's step, which interrupts may cut into several spans; NONE where no
        thread was at work.
    kind:
        For an interrupt: the occurrence that caused it. For a call on a connection to the backend:
        BACKEND_REPLY. Else NONE.
    connection, fd:
        The connection of the packet, or the connection and descriptor of the system call; NONE:
        none, or several.
    found:
        For an interrupt: the number of packets handled; for a wait, or waking up in it: the number
        of descriptors that it will return;
        for accept and read: 1, or 0 on EAGAIN.
    """

    begin_ns: int
    end_ns: int
    cpu: int
    thread: int
    activity: int
    step: int = NONE
    kind: int = NONE
    connection: int = NONE
    fd: int = NONE
    found: int = 0


class Event(NamedTuple):
    """An occurrence of a connection, or of none (NONE), at *at_ns*; kind as in `Occurrence`."""

    at_ns: int
    kind: int
    connection: int


class Lengths(NamedTuple):
    """Queue lengths from *at_ns* on, in the order of `Recorder.queue_names`."""

    at_ns: int
    lengths: tuple[int, ...]


Look = Callable[[World], Any]
"""Reads a value from the world, to be kept."""


class NotedColumn(list[int]):
    """A column that notes which of its entries is asked for first, and which were set.

    Attributes
    ----------
    first, value:
        The entry that was asked for or set first since both were NONE, and its value then.
    assigned:
        Entries that hold something (not NONE) and were set since the run began.
    """

    def __init__(self, values: list[int]) -> None:
        super().__init__(values)
        self.first = NONE
        self.value = NONE
        self.assigned: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        """Return the entry, and note which."""
        value = list.__getitem__(self, index)
        if self.first == NONE:
            self.first, self.value = index, value
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set the entry, and note which."""
        if self.first == NONE:
            self.first, self.value = index, value
        if value == NONE:
            self.assigned.discard(index)
        else:
            self.assigned.add(index)
        list.__setitem__(self, index, value)


class _Stolen(NamedTuple):
    """An interrupt, or a gap of the host, that a CPU has not been past yet."""

    begin_ns: int
    end_ns: int
    activity: int
    thread: int
    kind: int = NONE
    connection: int = NONE
    found: int = 0


class _Track:
    """The recorded time of one CPU, and the interrupts to leave out of its next span."""

    def __init__(self) -> None:
        self.until_ns = 0
        self.irq_begin_ns = NONE
        self.irq_free_ns = NONE
        self.n_gaps = 0
        self.stolen: list[_Stolen] = []


class Recorder:
    """Records a run from *begin_ns* until *end_ns*: pass it as `observe`.

    Parameters
    ----------
    begin_ns, end_ns:
        The window, in ns from the start of the run.
    limit:
        The recording ends at this number of spans, events and lengths together; the current
        activity of the CPUs is still recorded.
    queues:
        Other queues to measure besides `QUEUES`, by name.
    look, states_max:
        A function that reads a state from the world after each possible change, and the largest
        number of states.

    Attributes
    ----------
    spans, events, lengths:
        What was recorded, in order of time; of spans, those of each CPU are.
    states:
        What `look` returned, and from when on it did, shape (at most *states_max*,).
    queue_names:
        The columns of `lengths`.
    whole_until_ns:
        End of the complete recording: the end of the window, unless the limit was met before.

    Raises
    ------
    ValueError
        If the window is empty or begins before the run, or nothing may be recorded.
    """

    def __init__(
        self,
        begin_ns: int,
        end_ns: int,
        *,
        limit: int = 100_000,
        queues: Mapping[str, Measure] | None = None,
        look: Look | None = None,
        states_max: int = 0,
    ) -> None:
        if not 0 <= begin_ns < end_ns:
            raise ValueError(f"a window needs 0 <= begin < end, got {begin_ns} to {end_ns} ns")
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        self.begin_ns, self.end_ns = begin_ns, end_ns
        self.limit = limit
        self.spans: list[Span] = []
        self.events: list[Event] = []
        self.lengths: list[Lengths] = []
        self.whole_until_ns = end_ns
        self.states: list[tuple[int, Any]] = []
        self._look_at, self._states_max = look, states_max
        self._measures = {**QUEUES, **(queues or {})}
        self._tracks: list[_Track] = []
        self._n_packets = 0
        self._n_steps = 0
        self._is_over = False
        self._first_span = 0
        self._ended = NONE
        self._before: list[int] = []
        self._n_to_backend = 0
        self._thread = NONE
        self._about: dict[int, tuple[int, int]] = {}
        self._column = self._watched = NotedColumn([])

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The names of the queues that are measured."""
        return tuple(self._measures)

    def step_ends(self, world: World, cpu: Cpu) -> None:
        """Record the activity of *cpu* since its last span."""
        if self._is_over:
            return
        self._first_span = len(self.spans)
        self._fill(world, cpu, world.now_ns)
        self._thread = cpu.running
        self._ended = NONE if cpu.idle else thread_of(world, cpu.running).activity
        self._before = [world.counts[i] for i in _TAKEN.values()]
        self._n_to_backend = _calls_to_backend(world)
        column = self._column
        column.first = column.value = self._watched.first = NONE

    def went_on(self, world: World) -> None:
        """Take the lengths of the queues; a step may have set off an interrupt, too."""
        if self._is_over:
            return
        if not self._tracks:
            self._begin(world)
        elif self._first_span < len(self.spans):
            self._note_effect(world)
        self._look(world, NONE, NONE)

    def happened(self, world: World, kind: int, subject: int) -> None:
        """Record an occurrence, and its interrupt."""
        if self._is_over:
            return
        if kind == occurrence.HANDLED:
            seen_as, connection = packet_kind(subject), packet_connection(subject)
            if seen_as == occurrence.BACKEND_REPLY:
                connection = NONE
        else:
            seen_as, connection = kind, max(subject, NONE)
        self._look(world, seen_as, connection)
        if self.begin_ns <= world.now_ns < self.end_ns and kind not in _UNSEEN:
            self.events.append(Event(world.now_ns, kind, connection))

    def finish(self, world: World) -> None:
        """Record the activity of the CPUs at the end of the run; to be called after it."""
        if not self._is_over:
            self._end(world, min(world.now_ns, self.end_ns))

    def _begin(self, world: World) -> None:
        self._tracks = [_Track() for _ in world.cpus]
        self._column = world.connection_of = NotedColumn(world.connection_of)
        self._watched = world.watched_by = NotedColumn(world.watched_by)

    def _note_effect(self, world: World) -> None:
        """Complete the span of the last step: its connection, descriptor and result."""
        found = 0
        if self._ended in _TAKEN:
            counted = [world.counts[i] for i in _TAKEN.values()]
            place = list(_TAKEN).index(self._ended)
            found = counted[place] - self._before[place]
        fd = connection = kind = NONE
        if _calls_to_backend(world) > self._n_to_backend:
            kind = occurrence.BACKEND_REPLY
        elif self._ended in _ABOUT_ONE or (self._ended in _TAKEN_ONE and found > 0):
            fd, connection = self._column.first, self._column.value
        elif self._ended in _ABOUT_WATCHING:
            fd = self._watched.first
            connection = NONE if fd == NONE else list.__getitem__(self._column, fd)
            if fd == NONE:
                # The kernel gets interests later, in one call for many: use earlier events.
                fd, connection = self._about.get(self._thread, (NONE, NONE))
        if fd != NONE:
            self._about[self._thread] = (fd, connection)
        for i in range(self._first_span, len(self.spans)):
            if self.spans[i].step != NONE:
                self.spans[i] = self.spans[i]._replace(
                    kind=kind, fd=fd, connection=connection, found=found
                )

    def _look(self, world: World, kind: int, connection: int) -> None:
        """Note interrupts and lengths as of now; end the recording behind the window."""
        n_packets = world.counts[count.PACKETS] - self._n_packets
        self._n_packets = world.counts[count.PACKETS]
        for cpu, track in zip(world.cpus, self._tracks, strict=True):
            stolen = _gaps_since(world, cpu, track)
            if cpu.irq_free_ns != track.irq_free_ns:
                interrupt = _interrupt_since(world, cpu, track)._replace(
                    kind=kind, connection=connection, found=n_packets
                )
                stolen += _between_gaps(world, cpu, interrupt)
            track.stolen += sorted(stolen)
        if world.now_ns >= self.end_ns:
            self._end(world, self.end_ns)
        elif len(self.spans) + len(self.events) + len(self.lengths) >= self.limit:
            self.whole_until_ns = world.now_ns
            self._end(world, world.now_ns)
        elif self._may_be_last_before(world):
            self._measure(world)

    def _may_be_last_before(self, world: World) -> bool:
        """Return whether the next call may be within the window: before that, nothing is read."""
        if world.now_ns >= self.begin_ns:
            return True
        return min(first_due_ns(world), due_ns(first_due(world))) >= self.begin_ns

    def _measure(self, world: World) -> None:
        lengths = tuple(measure(world) for measure in self._measures.values())
        at_ns = max(world.now_ns, self.begin_ns)
        self._keep_state(world, at_ns)
        last = self.lengths[-1] if self.lengths else None
        if last is not None and last.lengths == lengths:
            return
        # What changes several times at one nanosecond, or before the window, is as it is then.
        if last is not None and last.at_ns == at_ns:
            self.lengths[-1] = Lengths(at_ns, lengths)
        else:
            self.lengths.append(Lengths(at_ns, lengths))

    def _keep_state(self, world: World, at_ns: int) -> None:
        if self._look_at is None or len(self.states) >= self._states_max:
            return
        state = self._look_at(world)
        if self.states and self.states[-1][0] == at_ns:
            self.states[-1] = (at_ns, state)
        elif not self.states or self.states[-1][1] != state:
            self.states.append((at_ns, state))

    def _fill(self, world: World, cpu: Cpu, until_ns: int) -> None:
        """Write down what *cpu* did until *until_ns*, interrupts in their places."""
        track = self._tracks[cpu.number]
        thread, step, doing = NONE, NONE, activity.IDLE
        if not cpu.idle:
            thread, step = cpu.running, self._n_steps
            doing = thread_of(world, cpu.running).activity
            self._n_steps += 1
        at_ns = track.until_ns
        for stolen in track.stolen:
            before_ns = min(stolen.begin_ns, until_ns)
            self._keep(Span(at_ns, before_ns, cpu.number, thread, doing, step))
            begin_ns, end_ns = max(at_ns, stolen.begin_ns), min(stolen.end_ns, until_ns)
            self._keep(
                Span(
                    begin_ns, end_ns, cpu.number, stolen.thread, stolen.activity,
                    NONE, stolen.kind, stolen.connection, NONE, stolen.found,
                )
            )  # fmt: skip
            at_ns = max(at_ns, stolen.end_ns)
        self._keep(Span(at_ns, until_ns, cpu.number, thread, doing, step))
        track.until_ns = until_ns
        track.stolen.clear()

    def _keep(self, span: Span) -> None:
        begin_ns, end_ns = max(span.begin_ns, self.begin_ns), min(span.end_ns, self.end_ns)
        if begin_ns < end_ns:
            self.spans.append(span._replace(begin_ns=begin_ns, end_ns=end_ns))

    def _end(self, world: World, until_ns: int) -> None:
        for cpu in world.cpus if self._tracks else ():
            self._fill(world, cpu, until_ns)
        self._is_over = True


def _calls_to_backend(world: World) -> int:
    """Return the number of queries written to the backend and replies read from it."""
    return world.counts[count.BACKEND_QUERIES] + world.counts[count.BACKEND_REPLIES]


def _taken(world: World, cpu: Cpu, n: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the last *n* gaps of *cpu* that were taken, the last one first."""
    for k in range(1, n + 1):
        cycles, i = divmod(cpu.next_gap - k, world.n_server_gaps)
        shift_ns = cpu.gap_shift_ns + cycles * world.server_gap_period_ns
        begin_ns = int(world.server_gap_at_ns[i]) + shift_ns
        yield begin_ns, begin_ns + int(world.server_gap_length_ns[i])


def _gaps_since(world: World, cpu: Cpu, track: _Track) -> list[_Stolen]:
    """Return the gaps of *cpu* that were taken since it was looked at."""
    n, track.n_gaps = cpu.n_gaps - track.n_gaps, cpu.n_gaps
    thread = NONE if cpu.idle else cpu.running
    doing = host_takes_from(world, cpu)
    return [_Stolen(begin, end, doing, thread) for begin, end in _taken(world, cpu, n)]


def _between_gaps(world: World, cpu: Cpu, interrupt: _Stolen) -> list[_Stolen]:
    """Return the parts of *interrupt* between gaps, the last one first.

    The first part has its number of packets.
    """
    parts, end_ns = [], interrupt.end_ns
    for gap_begin_ns, gap_end_ns in _taken(world, cpu, cpu.n_gaps):
        if gap_end_ns <= interrupt.begin_ns:
            break
        parts.append(interrupt._replace(begin_ns=gap_end_ns, end_ns=end_ns, found=0))
        end_ns = min(end_ns, gap_begin_ns)
    parts.append(interrupt._replace(end_ns=max(interrupt.begin_ns, end_ns)))
    return [part for part in parts if part.begin_ns < part.end_ns]


def _interrupt_since(world: World, cpu: Cpu, track: _Track) -> _Stolen:
    """Return the interrupt of *cpu*, or what it has become longer by since it was looked at."""
    begins_anew = cpu.irq_begin_ns != track.irq_begin_ns
    begin_ns = cpu.irq_begin_ns if begins_anew else track.irq_free_ns
    track.irq_begin_ns, track.irq_free_ns = cpu.irq_begin_ns, cpu.irq_free_ns
    if cpu.idle:
        return _Stolen(begin_ns, cpu.irq_free_ns, activity.INTERRUPT_IDLE, NONE)
    doing = activity.INTERRUPT_OTHER if is_other(world, cpu.running) else activity.INTERRUPT
    return _Stolen(begin_ns, cpu.irq_free_ns, doing, cpu.running)
