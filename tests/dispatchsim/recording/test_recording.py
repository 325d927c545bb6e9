"""What `record` returns: tables, and one sentence for what cannot be recorded."""

from __future__ import annotations

import pytest

import dispatchsim as ds
from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.recording import chrome_trace
from dispatchsim.recording.recorded import STATES
from dispatchsim.sim.state.kinds import NONE, Activity, Status


@pytest.fixture(scope="module")
def scenario() -> ds.Scenario:
    """Return a server with little to do and some idle connections."""
    return ds.Scenario.of(
        server={"mechanism": "poll"},
        load={"loop": "open", "rate": "5000/s"},
        idle={"connections": 20},
        run={"duration": "100 ms", "warm_up": "20 ms"},
    )


@pytest.fixture(scope="module")
def recording(scenario: ds.Scenario) -> ds.Recording:
    """Return 3 ms of it."""
    return ds.record(scenario, length="3 ms")


def test_a_window_begins_behind_the_warm_up(recording: ds.Recording) -> None:
    assert (recording.begin_ns, recording.end_ns) == (20_000_000, 23_000_000)
    frame = recording.frame
    assert frame.begin_ns.min() == 20_000_000
    assert (frame.end_ns - frame.begin_ns).sum() == 3_000_000
    assert {"WAIT", "ACCEPT", "READ", "WRITE", "INTERRUPT"} <= set(frame.what)


def test_the_figures_of_a_window_are_those_of_a_longer_one(
    scenario: ds.Scenario, recording: ds.Recording
) -> None:
    longer = ds.record(scenario, begin="15 ms", length="20 ms")
    seen = [
        span for span in longer.spans if span.begin_ns > 20_000_000 and span.end_ns < 23_000_000
    ]
    # A step that is under way at an end of the window does not say what it was about.
    inside = [s for s in recording.spans if s.begin_ns > 20_000_000 and s.end_ns < 23_000_000]
    without_number = [span._replace(step=0) for span in seen]
    assert [span._replace(step=0) for span in inside] == without_number


def test_calls_say_which_descriptor_they_are_about(recording: ds.Recording) -> None:
    frame = recording.frame
    about = frame[frame.what.isin(["READ", "WRITE"])]
    assert (about.fd > 0).all()
    assert (about.connection >= 20).all()
    accepted = frame[(frame.what == "ACCEPT") & (frame.found == 1)].drop_duplicates("step")
    assert accepted.connection.is_unique
    assert len(accepted) > 5


def test_each_reply_is_written_once(recording: ds.Recording) -> None:
    replied = [r for r in recording.requests if r.replied]
    assert len({(r.connection, r.number) for r in replied}) == len(replied)
    written = recording.frame.query("what == 'WRITE'").connection
    assert set(written) >= {r.connection for r in replied}


def test_queues_begin_with_the_window_and_are_never_negative(recording: ds.Recording) -> None:
    queues = recording.queues
    assert queues.at_ns.iloc[0] == recording.begin_ns
    assert queues.at_ns.is_monotonic_increasing
    assert (queues >= 0).all().all()
    assert queues.watched.min() >= 20


def test_states_agree_with_the_lengths_of_queues(recording: ds.Recording) -> None:
    assert 0 < len(recording.states) <= STATES
    column = recording.queue_names.index("accept_queue")
    for at_ns, state in recording.states:
        row = max(row for row in recording.lengths if row.at_ns <= at_ns)
        assert len(state.accept_queue) == row.lengths[column]
        assert state.n_idle == 20


def test_a_full_recording_ends_earlier_and_says_so(scenario: ds.Scenario) -> None:
    cut = ds.record(scenario, length="3 ms", limit=40)
    assert cut.begin_ns < cut.end_ns < cut.asked_end_ns == 23_000_000
    assert sum(s.end_ns - s.begin_ns for s in cut.spans) == cut.end_ns - cut.begin_ns
    assert len(cut.spans) + len(cut.events) + len(cut.lengths) <= 60


def test_another_seed_is_another_run(scenario: ds.Scenario, recording: ds.Recording) -> None:
    assert ds.record(scenario, length="3 ms").spans == recording.spans
    assert ds.record(scenario, seed=7, length="3 ms").spans != recording.spans


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"begin": "100 ms"}, "begin: must be within the run, which lasts 100 ms, got 100 ms"),
        ({"begin": -1}, "begin: must be within the run, which lasts 100 ms, got -1 ns"),
        ({"begin": "5"}, 'begin: must be a duration such as "50 ms"'),
        ({"length": "0 ms"}, "length: must be above 0, got"),
        ({"length": "1 s"}, "length: must be at most 80 ms, the rest of the run"),
        ({"limit": 0}, "limit: must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    scenario: ds.Scenario, asked: dict[str, str | int], sentence: str
) -> None:
    with pytest.raises(ds.UserError) as error:
        ds.record(scenario, **asked)  # type: ignore[arg-type]
    assert str(error.value).startswith(sentence)


def test_every_mechanism_waits_in_a_call_of_some_name(scenario: ds.Scenario) -> None:
    found = {name: entry.wait_call for name, entry in CATALOGUE.items()}
    assert [name for name, call in found.items() if not call.strip()] == []
    assert found["select"] == "select"
    assert found["epoll_edge"] == "epoll_wait"
    recording = ds.record(scenario, length="100 us")
    assert recording.name_of(Activity.WAIT) == found[scenario.server.mechanism]


def test_a_request_that_its_client_gave_up_ends_then() -> None:
    gives_up = ds.Scenario.of(
        server={"mechanism": "poll"},
        load={"loop": "open", "rate": "30000/s", "timeout": "5 ms"},
        idle={"connections": 2000},
        run={"duration": "60 ms", "warm_up": "10 ms"},
    )
    recording = ds.record(gives_up, begin="30 ms", length="10 ms")
    timed_out = [one for one in recording.requests if one.status is Status.TIMEOUT]
    assert timed_out
    for one in timed_out:
        assert one.end_ns == one.due_ns + 5_000_000
        assert recording.begin_ns <= one.end_ns < recording.end_ns
    assert all((one.end_ns == NONE) == (one.status is Status.OPEN) for one in recording.requests)
    ends = [e for e in chrome_trace.trace_events(recording) if e["ph"] == "e"]
    assert [e["ts"] * 1_000 for e in ends if e["args"]["status"] == "timeout"] == pytest.approx(
        [one.end_ns for one in timed_out]
    )
