"""A recording as a trace that Perfetto and chrome://tracing read: Trace Event Format, JSON.

    process            tracks                               events
    1 CPUs             activities of CPU k                  slices (X)
    2 server           one track per thread of the program  slices
    3 kernel           ksoftirqd, stalls, other processes   slices
    4 interrupts       one track per CPU, by cause          slices
    5 clients          each request, from due to its end     async (b, e), occurrences (i)
    6 queues           the length of each                   counters (C)

Times are in microseconds from the start of the run, with nanoseconds as decimals. The number of
entries of the recording limits the number of events, and `BYTES_MAX` the size of the file.
Source: "Trace Event Format" of the Chromium project; Perfetto's documentation of its imports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..scenario.errors import UserError
from ..sim.figures.recording import Span
from ..sim.files.whole_files import write_whole
from ..sim.state.kinds import NONE, Activity, Occurrence
from .recorded import IN_INTERRUPT, Recorded

BYTES_MAX = 64_000_000
"""Largest trace file that the viewers open without trouble."""
CPUS, SERVER, KERNEL, INTERRUPTS, CLIENTS, QUEUES = range(1, 7)
_PROCESSES = {
    CPUS: "CPUs",
    SERVER: "server",
    KERNEL: "kernel and other processes",
    INTERRUPTS: "interrupts",
    CLIENTS: "clients",
    QUEUES: "queues",
}
Fields = dict[str, Any]


def write_trace(recording: Recorded, path: Path) -> None:
    """Write *recording* to *path*, whole or not at all.

    Raises
    ------
    UserError
        If the file would be larger than `BYTES_MAX`.
    """
    text = to_json(recording)
    if len(text) > BYTES_MAX:
        raise UserError(
            f"trace: must be at most {BYTES_MAX:_} bytes, got {len(text):_}: "
            "record a shorter length"
        )
    write_whole(path, text)


def to_json(recording: Recorded) -> str:
    """Return *recording* as the JSON object of a trace, one event per line."""
    events = ",\n".join(json.dumps(event, allow_nan=False) for event in trace_events(recording))
    head = json.dumps(
        {
            "mechanism": recording.scenario.server.mechanism,
            "profile": recording.profile,
            "seed": recording.seed,
            "begin_ns": recording.begin_ns,
            "end_ns": recording.end_ns,
            "asked_end_ns": recording.asked_end_ns,
        }
    )
    return f'{{"displayTimeUnit": "ns",\n"otherData": {head},\n"traceEvents": [\n{events}\n]}}\n'


def trace_events(recording: Recorded) -> list[Fields]:
    """Return the events of the trace: names of tracks first, then in order of time."""
    timed = [
        *_cpu_slices(recording),
        *_thread_slices(recording),
        *_interrupt_slices(recording),
        *_requests(recording),
        *_occurrences(recording),
        *_counters(recording),
    ]
    timed.sort(key=lambda event: float(event["ts"]))
    return [*_names(recording, timed), *timed]


def _names(recording: Recorded, events: list[Fields]) -> Iterator[Fields]:
    """Yield the names of all processes and threads that have an event."""
    tracks = sorted({(int(event["pid"]), int(event["tid"])) for event in events})
    for pid in sorted({pid for pid, _ in tracks}):
        named = {"ph": "M", "pid": pid, "tid": 0, "ts": 0}
        yield {**named, "name": "process_name", "args": {"name": _PROCESSES[pid]}}
        yield {**named, "name": "process_sort_index", "args": {"sort_index": pid}}
    for pid, tid in tracks:
        named = {"ph": "M", "pid": pid, "tid": tid, "ts": 0}
        yield {**named, "name": "thread_name", "args": {"name": _track_name(recording, pid, tid)}}


def _track_name(recording: Recorded, pid: int, tid: int) -> str:
    if pid in (CPUS, INTERRUPTS):
        return f"CPU {tid - 1}"
    if pid in (SERVER, KERNEL):
        return recording.thread_name(tid - 1)
    return _PROCESSES[pid]


def _us(at_ns: int) -> float:
    return at_ns / 1_000


def _slice(span: Span, pid: int, tid: int, name: str, category: str) -> Fields:
    args = {
        key: value
        for key, value in (("connection", span.connection), ("fd", span.fd))
        if value != NONE
    }
    if span.found:
        args["found"] = span.found
    return {
        "ph": "X", "pid": pid, "tid": tid, "ts": _us(span.begin_ns),
        "dur": _us(span.end_ns - span.begin_ns), "name": name, "cat": category, "args": args,
    }  # fmt: skip


def _cpu_slices(recording: Recorded) -> Iterator[Fields]:
    for span in recording.spans:
        if span.activity != Activity.IDLE:
            name = recording.name_of(span.activity)
            yield _slice(span, CPUS, span.cpu + 1, name, "cpu")


def _interrupt_slices(recording: Recorded) -> Iterator[Fields]:
    for span in recording.spans:
        if span.activity in IN_INTERRUPT:
            name = "interrupt" if span.kind == NONE else Occurrence(span.kind).name
            yield _slice(span, INTERRUPTS, span.cpu + 1, name, "interrupt")


def _thread_slices(recording: Recorded) -> Iterator[Fields]:
    """Yield each step of a thread once, interrupts in it included."""
    for span in recording.steps_of_threads():
        pid = SERVER if span.thread < recording.n_workers else KERNEL
        name = recording.name_of(span.activity)
        yield _slice(span, pid, span.thread + 1, name, "step")


def _requests(recording: Recorded) -> Iterator[Fields]:
    """Yield the beginning and the end of each request; the window ends those that it cuts."""
    for request in recording.requests:
        event = {
            "pid": CLIENTS, "tid": 1, "cat": "request",
            "id": f"{request.connection}.{request.number}", "name": "request",
        }  # fmt: skip
        about = {"connection": request.connection, "number": request.number}
        yield {**event, "ph": "b", "ts": _us(max(0, request.due_ns)), "args": about}
        end_ns = recording.end_ns if request.end_ns == NONE else request.end_ns
        args = {"replied": request.replied, "status": request.status.name.lower()}
        yield {**event, "ph": "e", "ts": _us(end_ns), "args": args}


def _occurrences(recording: Recorded) -> Iterator[Fields]:
    for event in recording.events:
        args = {} if event.connection == NONE else {"connection": event.connection}
        yield {
            "ph": "i", "s": "t", "pid": CLIENTS, "tid": 1, "ts": _us(event.at_ns),
            "name": Occurrence(event.kind).name, "cat": "occurrence", "args": args,
        }  # fmt: skip


def _counters(recording: Recorded) -> Iterator[Fields]:
    last: tuple[int, ...] = (NONE,) * len(recording.queue_names)
    for row in recording.lengths:
        for name, before, now in zip(recording.queue_names, last, row.lengths, strict=True):
            if now != before:
                yield {
                    "ph": "C", "pid": QUEUES, "tid": 1, "ts": _us(row.at_ns),
                    "name": name.replace("_", " "), "cat": "queue", "args": {"n": now},
                }  # fmt: skip
        last = row.lengths
