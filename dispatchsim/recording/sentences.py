"""One sentence of what happens in a span, for the step-through."""

from __future__ import annotations

from collections.abc import Callable

from ..sim.figures.recording import Span
from ..sim.state.kinds import NONE, Activity, Occurrence

_ARRIVES = {
    Occurrence.SYN: "{who} opens a connection: its SYN arrives",
    Occurrence.SYN_ACK: "the answer to the SYN of {who} is handled",
    Occurrence.ACK: "the handshake of {who} is complete: the connection can be accepted",
    Occurrence.REQUEST: "the request of {who} arrives: its descriptor becomes ready",
    Occurrence.GONE: "{who} has gone: its reset or close arrives",
    Occurrence.FIN: "{who} will send no more: its FIN arrives",
    Occurrence.ACKED: "{who} acknowledges what it got: there is room in the send buffer",
    Occurrence.LAST_ACK: "{who} acknowledges the end of its connection",
    Occurrence.DATAGRAM: "datagrams of the flood arrive, which nobody reads",
    Occurrence.TIMER: "a timer of the server expires",
    Occurrence.DELIVERY: "the device delivers packets that have come together",
}
_WHOLE_SET_UP = 3
"""Packets of a client without distance, handled in one go: SYN, ACK, request."""
_DOES: dict[int, str] = {
    Activity.ACCEPT: "accept() takes {who} off the queue: {what}",
    Activity.READ: "read() takes the request of {who} from {what}",
    Activity.USER: "the server works out its reply to {who}",
    Activity.WRITE: "write() sends the reply to {who} by {what}",
    Activity.CLOSE: "close() ends the connection of {who}: {what} is free again",
    Activity.WATCH: "{what} of {who} is put into the interest set",
    Activity.REWATCH: "the interest in {what} of {who} is changed",
    Activity.UNWATCH: "{what} is taken out of the interest set",
    Activity.SLEEP: "nothing is ready: the server goes to sleep",
    Activity.WAKE: "the scheduler brings the server back onto the CPU",
    Activity.IDLE: "the CPU is idle: nothing to do until a packet comes",
    Activity.SPAWN: "a thread begins, or ends",
    Activity.CONNECT: "connect() opens a connection: {who}",
    Activity.KSOFTIRQD: "a thread of the kernel handles packets",
    Activity.OTHER: "another process has the CPU, or nobody: the server waits",
}


def sentence_of(span: Span, who: Callable[[int], str]) -> str:
    """Return what happens in *span*, which is no wait; *who* names the client of a connection."""
    activity = Activity(span.activity)
    if activity in (Activity.INTERRUPT, Activity.INTERRUPT_IDLE, Activity.INTERRUPT_OTHER):
        return _interrupt(span, who)
    if activity == Activity.ACCEPT and span.found == 0:
        return "accept() finds nobody in the queue (EAGAIN)"
    what = "a descriptor" if span.fd == NONE else f"descriptor {span.fd}"
    if activity == Activity.READ and span.found == 0:
        return f"read() of {what} finds nothing (EAGAIN)"
    return _DOES[activity].format(who=who(span.connection), what=what)


def look_at(wait_call: str, fd: int, *, is_ready: bool) -> str:
    """Return what one look of a scan finds.

    >>> look_at("poll", 17, is_ready=False)
    'poll() looks at descriptor 17: nothing'
    """
    return f"{wait_call}() looks at descriptor {fd}: {'ready' if is_ready else 'nothing'}"


def look_at_idle(wait_call: str, n: int) -> str:
    """Return what a scan finds among *n* idle descriptors."""
    return f"{wait_call}() looks at {n:,} idle descriptors, one after the other: nothing"


def wait_sentence(span: Span, wait_call: str, *, has_found: bool) -> str:
    """Return what a step of a wait does; *has_found*: the one before it found what is ready."""
    if has_found:
        return f"{wait_call}() hands over what it has found"
    if span.found == 0:
        return f"{wait_call}() finds nothing ready"
    plural = "" if span.found == 1 else "s"
    return f"{wait_call}() finds {span.found} ready descriptor{plural}"


def _interrupt(span: Span, who: Callable[[int], str]) -> str:
    if span.kind == Occurrence.SYN and span.found == _WHOLE_SET_UP:
        return f"interrupt: {who(span.connection)} connects and sends its request: 3 packets"
    kind = _ARRIVES.get(Occurrence(span.kind)) if span.kind != NONE else None
    text = (kind or "the kernel handles a packet").format(who=who(span.connection))
    return f"interrupt: {text}"
