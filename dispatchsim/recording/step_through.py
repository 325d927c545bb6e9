"""The step-through: a page that shows, step by step, the work of the server and its kernel.

    Recording ─► frames: time, what, a sentence ───┐
              ─► states: queues, interest set     ─┴─► JSON ─► templates/step_through.html

The page is one file without any other need: no network, no server. A scan is split into its checks
of single descriptors; idle ones are one block with a count, and one check.
"""

from __future__ import annotations

import html
import json
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any

from ..scenario.quantities import DURATION
from ..sim.figures.recording import Span
from ..sim.files.whole_files import write_whole
from ..sim.state.kinds import NONE, Activity, Occurrence
from ..validation.drawing.looks import colour_of, is_dark
from .recorded import IN_INTERRUPT, Recorded, State

_ARRIVES = {
    Occurrence.SYN: "{who} opens a connection: its SYN arrives",
    Occurrence.SYN_ACK: "the SYN-ACK for {who} is handled",
    Occurrence.ACK: "the handshake of {who} is complete: the connection can be accepted",
    Occurrence.REQUEST: "the request of {who} arrives: its descriptor becomes ready",
    Occurrence.GONE: "{who} has left: its reset or close arrives",
    Occurrence.FIN: "{who} will send no more data: its FIN arrives",
    Occurrence.ACKED: "{who} acknowledges data: the send buffer has room again",
    Occurrence.LAST_ACK: "{who} acknowledges the end of its connection",
    Occurrence.DATAGRAM: "datagrams of the flood arrive; no process reads them",
    Occurrence.TIMER: "a timer of the server expires",
    Occurrence.BACKEND_REPLY: "a reply of the backend arrives: its connection becomes ready",
    Occurrence.DELIVERY: "the device delivers packets that arrived together",
}
_PARTS = (
    "The SYN opens a connection.",
    "The ACK completes the handshake: the connection can be accepted.",
    "The request can be read.",
)
_TOGETHER: dict[tuple[int, int], tuple[str, ...]] = {
    (Occurrence.SYN, 3): _PARTS,
    (Occurrence.SYN, 2): _PARTS[:2],
    (Occurrence.ACK, 2): _PARTS[1:],
}
"""First packet and number of packets handled together, and a sentence for each packet."""
_TO_BACKEND: dict[int, str] = {
    Activity.READ: "read() takes a reply of the backend",
    Activity.WRITE: "write() sends a request on to the backend",
}
_DOES: dict[int, str] = {
    Activity.ACCEPT: "accept() takes {who} off the queue: {what}",
    Activity.READ: "read() takes the request of {who} from {what}",
    Activity.USER: "the server computes its reply to {who}",
    Activity.WRITE: "write() sends the reply to {who} by {what}",
    Activity.CLOSE: "close() ends the connection of {who}: {what} is free again",
    Activity.WATCH: "{what} of {who} is added to the interest set",
    Activity.REWATCH: "the interest in {what} of {who} is changed",
    Activity.UNWATCH: "{what} is removed from the interest set",
    Activity.SLEEP: "nothing is ready: the server goes to sleep",
    Activity.WAKE: "the scheduler brings the server back onto the CPU",
    Activity.IDLE: "the CPU is idle until a packet arrives",
    Activity.SPAWN: "a thread begins, or ends",
    Activity.CONNECT: "connect() opens a connection: {who}",
    Activity.KSOFTIRQD: "a thread of the kernel handles packets",
    Activity.OTHER: "another process has the CPU, or it is stalled: the server waits",
}


def sentence_of(span: Span, who: Callable[[int], str]) -> str:
    """Return the sentence of *span*, which is no wait; *who* names the client of a connection."""
    activity = Activity(span.activity)
    if activity in IN_INTERRUPT:
        return _interrupt(span, who)
    if activity == Activity.ACCEPT and span.found == 0:
        return "accept() finds no connection in the queue (EAGAIN)"
    if span.kind == Occurrence.BACKEND_REPLY and activity in _TO_BACKEND:
        return _TO_BACKEND[activity]
    what = "a descriptor" if span.fd == NONE else f"descriptor {span.fd}"
    if activity == Activity.READ and span.found == 0:
        return f"read() of {what} finds nothing (EAGAIN)"
    return _DOES[activity].format(who=who(span.connection), what=what)


def look_at(wait_call: str, fd: int, *, is_ready: bool) -> str:
    """Return the sentence of one check of a scan.

    >>> look_at("poll", 17, is_ready=False)
    'poll() checks descriptor 17: not ready'
    """
    return f"{wait_call}() checks descriptor {fd}: {'ready' if is_ready else 'not ready'}"


def look_at_idle(wait_call: str, n: int) -> str:
    """Return the sentence of a scan of *n* idle descriptors."""
    return f"{wait_call}() checks {n:,} idle descriptors, one after the other: none ready"


def wait_sentence(span: Span, wait_call: str, *, has_found: bool) -> str:
    """Return the sentence of a step of a wait; *has_found*: the step before found events."""
    if has_found:
        return f"{wait_call}() returns its events"
    if span.found == 0:
        return f"{wait_call}() finds nothing ready"
    plural = "" if span.found == 1 else "s"
    return f"{wait_call}() finds {span.found} ready descriptor{plural}"


def _interrupt(span: Span, who: Callable[[int], str]) -> str:
    parts = _TOGETHER.get((span.kind, span.found))
    if parts:
        return " ".join([f"interrupt: {span.found} packets of {who(span.connection)}.", *parts])
    kind = _ARRIVES.get(Occurrence(span.kind)) if span.kind != NONE else None
    text = (kind or "the kernel handles a packet").format(who=who(span.connection))
    return f"interrupt: {text}"


FRAMES = 1_000
"""Most frames of a page: a quarter of an hour at normal speed."""
_SCANS = ("select", "poll")
_HEIGHT_PX = 760
_PACKETS_MAX = 8
"""Most packets drawn of an interrupt."""
Frame = dict[str, Any]
Who = Callable[[int], str]


@dataclass(frozen=True, repr=False)
class StepThrough:
    """The page of a recording; `save` it, or let a notebook show it."""

    title: str
    content: dict[str, Any]

    @property
    def html(self) -> str:
        """The page, whole."""
        template = files(__package__).joinpath("templates/step_through.html").read_text("utf-8")
        page = template.replace("@TITLE@", html.escape(self.title))
        return page.replace("@CONTENT@", _in_script(self.content))

    def save(self, path: Path | str) -> None:
        """Write the page to *path*, whole or not at all."""
        write_whole(Path(path), self.html)

    def _repr_html_(self) -> str:
        inner = html.escape(self.html, quote=True)
        return (
            f'<iframe srcdoc="{inner}" title="{html.escape(self.title)}" '
            f'style="width:100%;height:{_HEIGHT_PX}px;border:1px solid #ccc"></iframe>'
        )

    @property
    def says(self) -> str:
        """The extent of the page, in a sentence or two."""
        n = len(self.content["frames"])
        return f"{n:,} steps. {self.content['cut']}" if self.content["cut"] else f"{n:,} steps"

    def __repr__(self) -> str:
        """Return what it is in short: its page would fill a screen."""
        return f"<StepThrough of {len(self.content['frames'])} steps: .save(path)>"


def step_through(recording: Recorded) -> StepThrough:
    """Return the page of *recording*: its steps with a known state, `FRAMES` at most."""
    numbers: dict[int, int] = {}

    def who(connection: int) -> str:
        if connection == NONE:
            return "a client"
        return f"client {numbers.setdefault(connection, len(numbers) + 1)}"

    found = list(_frames(recording, who))
    frames = found[:FRAMES]
    states = [_shown(state, who) for _, state in recording.states]
    mechanism = recording.scenario.server.mechanism
    content = {
        "mechanism": mechanism,
        "cpus": recording.n_cpus,
        "begin_ns": recording.begin_ns,
        "cut": _cut(recording, found),
        "told": "told" in recording.queue_names,
        "scans": mechanism in _SCANS,
        "frames": frames,
        "states": states,
    }
    return StepThrough(f"Server with {mechanism}, step by step", content)


def _cut(recording: Recorded, found: list[Frame]) -> str:
    """Return a note on the part of the window that the page lacks; empty if it lacks none."""
    if len(found) <= FRAMES and recording.states_end_ns >= recording.asked_end_ns:
        return ""
    n = min(len(found), FRAMES)
    until_ns = (
        found[FRAMES]["at"] if n < len(found) else recording.states_end_ns - recording.begin_ns
    )
    asked = DURATION.format(recording.asked_end_ns - recording.begin_ns)
    return (
        f"These are the first {n:,} steps, {until_ns / 1e3:,.1f} µs of the {asked} recorded: the "
        "page has no room for more. For later steps, begin later."
    )


def _in_script(content: dict[str, Any]) -> str:
    """Return JSON that cannot end its script element, for any texts in it."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _frames(recording: Recorded, who: Who) -> Iterator[Frame]:
    """Yield the frames in order of time, as long as the state is known."""
    if not recording.states:
        return
    spans = sorted(recording.spans, key=lambda span: (span.begin_ns, span.cpu))
    seen = _Waits(recording, spans)
    call = recording.name_of(Activity.WAIT)
    ends = {span.step: span.end_ns for span in spans}
    looked: dict[int, int] = {}
    for span in spans:
        if recording.states_end_ns <= span.begin_ns:
            return
        if span.step in seen.scans:
            yield from _looks(recording, span, seen.scans[span.step], looked)
            continue
        frame = _frame(recording, span)
        if span.activity == Activity.WRITE and ends[span.step] == span.end_ns:
            frame["replies"] = 1
        if span.activity == Activity.WAIT:
            text = wait_sentence(span, call, has_found=span.step in seen.behind)
        else:
            text = sentence_of(span, who)
        yield frame | {"text": text}


def _frame(recording: Recorded, span: Span) -> Frame:
    colour = colour_of(Activity(span.activity).name)
    is_interrupt = span.activity in IN_INTERRUPT
    thread = "" if span.thread == NONE else recording.thread_name(span.thread)
    return {
        "at": span.begin_ns - recording.begin_ns,
        "ns": span.end_ns - span.begin_ns,
        "cpu": span.cpu,
        "what": "interrupt" if is_interrupt else recording.name_of(span.activity),
        "thread": f"stolen from {thread}" if is_interrupt and thread else thread,
        "packets": min(span.found, _PACKETS_MAX) if is_interrupt else 0,
        "replies": 0,
        "fd": span.fd,
        "colour": colour,
        "ink": "#fff" if is_dark(colour) else "#000",
        "state": _state_at(recording, span.begin_ns),
    }


def _state_at(recording: Recorded, at_ns: int) -> int:
    """Return the number of the server's state at *at_ns*."""
    return max(0, bisect_right(recording.states, at_ns, key=itemgetter(0)) - 1)


class _Waits:
    """The steps that are waits, by kind.

    Attributes
    ----------
    scans:
        Duration of each step that is a scan, without interrupts, in ns.
    behind:
        Steps of a wait after it has found the ready descriptors.
    """

    def __init__(self, recording: Recorded, spans: list[Span]) -> None:
        self.scans: dict[int, int] = {}
        self.behind: set[int] = set()
        server = recording.scenario.server
        are_scans = server.mechanism in _SCANS and server.array != "rebuilt"
        last: dict[int, Span] = {}
        for span in spans:
            if span.step == NONE:
                continue
            before = last.get(span.thread)
            if span.activity == Activity.WAIT:
                if before is not None and _has_found(before, span, self.behind):
                    self.behind.add(span.step)
                elif are_scans:
                    ns = span.end_ns - span.begin_ns
                    self.scans[span.step] = self.scans.get(span.step, 0) + ns
            last[span.thread] = span


def _has_found(before: Span, span: Span, behind: set[int]) -> bool:
    if before.step == span.step:
        return span.step in behind
    return before.activity in (Activity.WAIT, Activity.WAKE) and before.found > 0


def _looks(
    recording: Recorded, span: Span, whole_ns: int, looked: dict[int, int]
) -> Iterator[Frame]:
    """Yield the checks of descriptors by a scan within *span*, a part of its step."""
    call = recording.name_of(Activity.WAIT)
    done_ns = looked.get(span.step, 0)
    end_ns = done_ns + span.end_ns - span.begin_ns
    looked[span.step] = end_ns
    state = recording.states[_state_at(recording, span.begin_ns)][1]
    n = max(1, len(state.watched) + state.n_idle)
    at = 0
    for fd, n_here in _order(state):
        begin_ns, until_ns = (whole_ns * place // n for place in (at, at + n_here))
        at += n_here
        is_rest = begin_ns < done_ns  # it was cut, mostly by an interrupt
        begin_ns, until_ns = max(begin_ns, done_ns), min(until_ns, end_ns)
        if begin_ns >= until_ns:
            continue
        at_ns = span.begin_ns + begin_ns - done_ns
        part = span._replace(begin_ns=at_ns, end_ns=at_ns + until_ns - begin_ns, fd=fd)
        found = recording.states[_state_at(recording, at_ns)][1]
        now = {w.fd: w.is_ready for w in found.watched}
        if fd == NONE:
            text = look_at_idle(call, n_here)
        else:
            text = look_at(call, fd, is_ready=now.get(fd, False))
        text = f"the rest of this check: {text}" if is_rest else text
        yield _frame(recording, part) | {"text": text, "scan": fd}


def _order(state: State) -> list[tuple[int, int]]:
    """Return the checks of a scan in order: (descriptor, 1), or (NONE, number of idle ones)."""
    shown = [(watched.fd, 1) for watched in state.watched]
    if state.n_idle:
        shown.insert(state.first_idle, (NONE, state.n_idle))
    return shown


def _shown(state: State, who: Who) -> dict[str, Any]:
    return {
        "accept": [who(c) for c in state.accept_queue],
        "watched": [
            [w.fd, "listener" if w.connection == NONE else who(w.connection), int(w.is_ready)]
            for w in state.watched
        ],
        "idle": state.n_idle,
        "first_idle": state.first_idle,
        "ready": list(state.ready),
        "told": list(state.queued),
        "batch": list(state.batch),
    }
