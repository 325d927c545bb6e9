"""A trace is what the Trace Event Format says, and what was recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

import dispatchsim as ds
from dispatchsim.recording import chrome_trace
from dispatchsim.sim.state.kinds import Activity

Event = dict[str, Any]
Name = Annotated[str, Field(min_length=1)]


class _Timed(BaseModel):
    """What all events have, by "Trace Event Format"; nothing else may be there."""

    model_config = ConfigDict(extra="forbid", strict=True)
    pid: int = Field(ge=1)
    tid: int = Field(ge=0)
    ts: float = Field(ge=0, allow_inf_nan=False)


class _Metadata(_Timed):
    ph: Literal["M"]
    name: Literal["process_name", "process_sort_index", "thread_name"]
    args: dict[Literal["name", "sort_index"], str | int]


class _Slice(_Timed):
    ph: Literal["X"]
    dur: float = Field(gt=0, allow_inf_nan=False)
    name: Name
    cat: Name
    args: dict[str, int]


class _Counter(_Timed):
    ph: Literal["C"]
    name: Name
    cat: Name
    args: dict[str, Annotated[int, Field(ge=0)]]


class _Instant(_Timed):
    ph: Literal["i"]
    s: Literal["g", "p", "t"]
    name: Name
    cat: Name
    args: dict[str, int]


class _Async(_Timed):
    ph: Literal["b", "e"]
    id: Name
    name: Name
    cat: Name
    args: dict[str, bool | int | str]


_EVENTS: TypeAdapter[Any] = TypeAdapter(
    list[Annotated[_Metadata | _Slice | _Counter | _Instant | _Async, Field(discriminator="ph")]]
)


@pytest.fixture(scope="module", params=["epoll_level", "poll", "blocking", "rt_signals"])
def recording(request: pytest.FixtureRequest) -> ds.Recording:
    """Return a window of a run with a flood and two CPUs, where the mechanism can have them."""
    scenario = ds.Scenario.of(
        server={"mechanism": request.param, "workers": 2},
        machine={"cpus": 2, "profile": "epyc-family25-2cpu-linux-6.18"},
        load={"loop": "open", "rate": "8000/s"},
        flood={"rate": "5000/s"},
        idle={"connections": 0 if request.param == "blocking" else 50},
    )
    return ds.record(scenario, begin="20 ms", length="3 ms")


@pytest.fixture(scope="module")
def events(recording: ds.Recording) -> list[Event]:
    """Return the events of the trace of *recording*, as read back."""
    trace = json.loads(chrome_trace.to_json(recording))
    assert trace["displayTimeUnit"] == "ns"
    found: list[Event] = trace["traceEvents"]
    return found


def test_every_event_has_what_its_phase_needs_and_nothing_else(events: list[Event]) -> None:
    _EVENTS.validate_json(json.dumps(events))
    assert {event["ph"] for event in events} == {"M", "X", "C", "i", "b", "e"}


def test_times_are_whole_nanoseconds_within_the_run(
    recording: ds.Recording, events: list[Event]
) -> None:
    for event in events:
        at_ns = event["ts"] * 1_000
        assert at_ns == pytest.approx(round(at_ns), abs=1e-3)
        assert at_ns + event.get("dur", 0) * 1_000 <= recording.end_ns + 1e-3


def test_each_track_has_a_name_and_one_only(events: list[Event]) -> None:
    named = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    processes = [e["pid"] for e in events if e["name"] == "process_name"]
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"}
    assert len(set(named)) == len(named)
    assert set(named) == used
    assert sorted(processes) == sorted({pid for pid, _ in used})


def test_slices_of_a_track_follow_each_other(events: list[Event]) -> None:
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin_ns = round(event["ts"] * 1_000)
            tracks[event["pid"], event["tid"]].append(
                (begin_ns, begin_ns + round(event["dur"] * 1_000))
            )
    for track, slices in tracks.items():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(slices))), track


def test_counters_change_and_times_of_each_ascend(events: list[Event]) -> None:
    counters = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            counters[event["name"]].append((event["ts"], event["args"]["n"]))
    assert {"accept queue", "connections open", "runnable"} <= set(counters)
    for rows in counters.values():
        assert all(a[0] < b[0] and a[1] != b[1] for a, b in pairwise(rows))


def test_each_request_begins_and_ends_once(recording: ds.Recording, events: list[Event]) -> None:
    of_id = defaultdict(list)
    for event in events:
        if event["ph"] in "be":
            of_id[event["id"]].append((event["ph"], event["ts"]))
    assert len(of_id) == len(recording.requests)
    for both in of_id.values():
        assert [phase for phase, _ in both] == ["b", "e"]
        assert both[0][1] <= both[1][1]
    replied = sum(1 for e in events if e["ph"] == "e" and e["args"]["replied"])
    assert replied == sum(1 for request in recording.requests if request.replied)


def test_slices_of_the_cpus_add_up_to_their_spans(
    recording: ds.Recording, events: list[Event]
) -> None:
    traced_ns = sum(
        round(e["dur"] * 1_000) for e in events if e["ph"] == "X" and e["pid"] == chrome_trace.CPUS
    )
    idle = int(Activity.IDLE)
    assert traced_ns == sum(s.end_ns - s.begin_ns for s in recording.spans if s.activity != idle)


def test_a_trace_that_is_too_large_is_refused_and_nothing_written(
    recording: ds.Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chrome_trace, "BYTES_MAX", 1_000)
    with pytest.raises(ds.UserError, match="trace: must be at most 1_000 bytes, got"):
        recording.write_trace(tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []
