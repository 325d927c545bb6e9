"""What a recorded run did, as data: spans of CPUs, occurrences, queues, states, requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..models.catalogue import CATALOGUE
from ..scenario.scenario import Scenario
from ..sim.figures.outcome import Outcome
from ..sim.figures.recording import Event, Lengths, Span
from ..sim.state.kinds import NONE, Activity, Occurrence
from .requests import Request
from .states import State

if TYPE_CHECKING:
    import pandas as pd

STATES = 600
"""Of the server that are kept, for the step-through."""


@dataclass(frozen=True, repr=False)
class Recorded:
    """What a run of *scenario* did from *begin_ns* until *end_ns*.

    Attributes
    ----------
    scenario, seed, profile:
        What was run: the profile by its name.
    begin_ns, end_ns:
        The window of which all was recorded, in ns from the start of the run.
    asked_end_ns:
        The end of the window that was asked for; later than *end_ns* if there was too much to keep.
    spans, events, lengths:
        As of `sim.recording.Recorder`.
    queue_names:
        The columns of *lengths*.
    states:
        What the server knew from when on, at the beginning of the window: the first `STATES`.
    requests:
        Of clients, that were due or under way in the window.
    n_cpus, n_workers:
        CPUs of the server, and threads of its program; the others are numbered behind these.
    outcome:
        The record of the run until *asked_end_ns*.
    """

    scenario: Scenario
    seed: int
    profile: str
    begin_ns: int
    end_ns: int
    asked_end_ns: int
    spans: tuple[Span, ...]
    events: tuple[Event, ...]
    lengths: tuple[Lengths, ...]
    queue_names: tuple[str, ...]
    states: tuple[tuple[int, State], ...]
    requests: tuple[Request, ...]
    n_cpus: int
    n_workers: int
    outcome: Outcome

    @property
    def frame(self) -> pd.DataFrame:
        """One row a span of a CPU, in order of its beginning; -1 where there is no such thing."""
        import pandas as pd

        frame = pd.DataFrame(self.spans, columns=list(Span._fields))
        frame.insert(4, "what", [Activity(a).name for a in frame.pop("activity")])
        frame["kind"] = ["" if k == NONE else Occurrence(k).name for k in frame["kind"]]
        return frame.sort_values(["begin_ns", "cpu"], kind="stable", ignore_index=True)

    @property
    def queues(self) -> pd.DataFrame:
        """One row a change: the length of each queue from *at_ns* on."""
        import pandas as pd

        rows = [(at_ns, *lengths) for at_ns, lengths in self.lengths]
        return pd.DataFrame(rows, columns=["at_ns", *self.queue_names])

    @property
    def occurrences(self) -> pd.DataFrame:
        """One row an occurrence: when, what, to which connection (-1: none)."""
        import pandas as pd

        frame = pd.DataFrame(self.events, columns=list(Event._fields))
        frame["kind"] = [Occurrence(kind).name for kind in frame["kind"]]
        return frame

    def name_of(self, activity: int) -> str:
        """Return what a CPU or a thread does in *activity*, in the words of the mechanism."""
        if activity == Activity.WAIT:
            return CATALOGUE[self.scenario.server.mechanism].wait_call
        return str(Activity(activity).name).lower().replace("_", " ")

    def thread_name(self, thread: int) -> str:
        """Return what the thread of that number is."""
        other = thread - self.n_workers
        if other < 0:
            return f"worker {thread}"
        if other < self.n_cpus:
            return f"ksoftirqd/{other}"
        if other < 2 * self.n_cpus:
            return f"stall of CPU {other - self.n_cpus}"
        return f"other process {other - 2 * self.n_cpus}"

    def steps_of_threads(self) -> list[Span]:
        """Return each step of a thread as one span, with the interrupts that cut it."""
        steps: dict[int, Span] = {}
        for span in self.spans:
            if span.step == NONE:
                continue
            first = steps.setdefault(span.step, span)
            steps[span.step] = first._replace(end_ns=span.end_ns)
        return list(steps.values())

    @property
    def states_end_ns(self) -> int:
        """Until when what the server knew is known."""
        return self.states[-1][0] if len(self.states) == STATES else self.end_ns
