"""Classes of clients in a run: the laws of operational analysis hold for each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.scenes import Scene, on_fast, on_reference
from tests.toy import toy_costs

from dispatchsim.models.simulate import simulate_stream
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.load.workload import Load
from dispatchsim.sim.state.client_classes import ClientClass
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings, PathSettings
from dispatchsim.sim.state.kinds import NONE
from dispatchsim.sim.state.laws import Counts, Law
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS

BUSY = ClientClass(
    100, Counts("geometric", 20), reply_bytes=2_000, pause=Law("exponential", 4 * MILLISECOND_NS)
)
QUIET = ClientClass(900, Counts("constant", 2), pause=Law("exponential", 90 * MILLISECOND_NS))


ROWS_PER_S = 100_000


def scene_of(load: Load, seconds: float, seed: int = 1, **settings: object) -> Scene:
    trace = load.trace(seed, seconds, rows=round(ROWS_PER_S * seconds))
    run = RunSettings(
        classes=load.classes,
        duration_ns=round(seconds * SECOND_NS),
        warm_up_ns=SECOND_NS // 5 if seconds > 0.2 else 0,
        seed=seed,
        **settings,  # type: ignore[arg-type]
    )
    return Scene("epoll_level", trace, run)


def in_window(outcome: Outcome, number: int) -> np.ndarray:
    """Return which requests of that class were answered in the measured window."""
    answered = (outcome.reply_ns >= outcome.mark_ns) & (outcome.reply_ns <= outcome.duration_ns)
    return np.asarray(answered & (outcome.class_of_requests == number))


@pytest.mark.parametrize(("users", "seconds"), [(50, 100.2), (2_000, 10.2)])
def test_the_interactive_law_holds_for_each_class(users: int, seconds: float) -> None:
    # N = X (R + Z): users of a class are its share, whatever the server makes of them.
    load = Load("closed", users=users, classes=(BUSY, QUIET), pauses_first=True)
    outcome = on_fast(scene_of(load, seconds))
    window_s = (outcome.duration_ns - outcome.mark_ns) / SECOND_NS
    for number, (share, pause_s) in enumerate(((0.1, 0.004), (0.9, 0.09))):
        mine = in_window(outcome, number)
        per_s = mine.sum() / window_s
        response_s = (outcome.reply_ns - outcome.due_ns)[mine].mean() / SECOND_NS
        assert per_s * (response_s + pause_s) == pytest.approx(share * users, rel=0.01)
    by_class = summarise(outcome).classes
    assert [each.replied for each in by_class] == [in_window(outcome, k).sum() for k in (0, 1)]


@pytest.mark.parametrize("loop", ["open", "closed", "kept"])
def test_figures_of_classes_add_up_to_those_of_all(loop: str) -> None:
    classes = (
        BUSY._replace(requests_permille=500, requests=Counts("constant", 3)),
        QUIET._replace(requests_permille=500),
    )
    load = {
        "open": Load("open", rate_per_s=3_000, classes=classes),
        "closed": Load("closed", users=60, classes=classes),
        "kept": Load("kept", users=60, rate_per_s=9_000, classes=classes),
    }[loop]
    scene = scene_of(load, 0.5, client=ClientSettings(timeout_ns=SECOND_NS // 10))
    outcome = on_fast(scene)
    assert outcome.same_as(on_reference(scene)[0])
    whole = summarise(outcome)
    assert sum(each.offered for each in whole.classes) == whole.offered
    assert sum(each.replied for each in whole.classes) == whole.replied
    for kind, n in whole.errors.items():
        assert sum(each.errors[kind] for each in whole.classes) == n
    # Half of all requests, of a tenth of the connections or users.
    busy = whole.classes[0].offered / whole.offered
    assert {"open": 0.1 < busy < 0.2, "closed": busy > 0.6, "kept": 0.47 < busy < 0.53}[loop]


def test_a_request_that_failed_was_never_answered_for_its_class() -> None:
    # A reply of the second class takes 8 ms on its path, and its clients wait for 5.
    paths = (PathSettings(500), PathSettings(500, 4 * MILLISECOND_NS))
    classes = (ClientClass(500, path=0), ClientClass(500, path=1))
    scene = scene_of(
        Load("open", rate_per_s=500, classes=classes),
        1.0,
        network=NetworkSettings(paths=paths),
        client=ClientSettings(timeout_ns=5 * MILLISECOND_NS),
    )
    near, far = summarise(on_fast(scene)).classes
    assert near.errors["timeout"] == 0
    assert near.latency_due_ns.p99 < MILLISECOND_NS
    assert far.errors["timeout"] > 100
    assert far.latency_due_ns.p50 == float("inf")


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_connections_of_a_class_take_its_path(loop: str) -> None:
    paths = (PathSettings(100, 1_000_000), PathSettings(900, 3_000_000))
    classes = (ClientClass(900, path=0), ClientClass(100, path=1))
    load = Load("open", rate_per_s=800, classes=classes)
    if loop == "closed":
        load = Load("closed", users=10, classes=classes, pauses_first=True)
    scene = scene_of(load, 0.5, network=NetworkSettings(paths=paths))
    outcome = on_fast(scene)
    assert np.array_equal(outcome.path[outcome.asked_on], outcome.class_of_requests)
    # A request takes two round trips, of 2 and of 6 ms, where its connection is new.
    for number, least_ns in ((0, 4_000_000), (1, 12_000_000)):
        mine = in_window(outcome, number)
        taken_ns = (outcome.reply_ns - outcome.due_ns)[mine]
        assert mine.sum() > 5
        assert least_ns < taken_ns.min() <= taken_ns.max() < least_ns + 1_000_000


@pytest.mark.parametrize("loop", ["open", "closed"])
def test_a_streamed_run_has_the_same_figures(loop: str) -> None:
    # Most connections make one request: that some make several is not seen in the first rows.
    classes = (
        QUIET._replace(share_permille=999, requests=Counts()),
        BUSY._replace(share_permille=1),
    )
    load = Load("open", rate_per_s=3_000, classes=classes)
    if loop == "closed":
        load = Load("closed", users=1_000, classes=classes)
    scene = scene_of(
        load, 1.0, client=ClientSettings(timeout_ns=20 * MILLISECOND_NS, fd_limit=2**40)
    )
    expected = summarise(on_fast(scene))
    blocks = load.blocks(1, 1.0)
    costs = toy_costs(scene.mechanism)
    found = simulate_stream(scene.mechanism, blocks, costs, scene.run, exact=True, window_rows=200)
    assert found.classes == expected.classes
    assert replace(found, connections=expected.connections) == expected


def test_a_client_that_tries_again_is_of_its_class() -> None:
    # All begin together, again and again, and most wait for longer than they have.
    classes = (
        ClientClass(500, Counts("constant", 2), reply_bytes=500),
        ClientClass(500, Counts("constant", 3), reply_bytes=900),
    )
    client = ClientSettings(
        timeout_ns=100_000, retries=3, retry_pause_ns=50_000, retry_jitter_permille=500
    )
    scene = scene_of(Load("closed", users=100, classes=classes), 0.02, client=client)
    outcome = on_fast(scene)
    assert outcome.same_as(on_reference(scene)[0])
    assert outcome.attempts.max() > 1
    assert (np.bincount(outcome.class_of_requests) > 100).all()


def test_a_kept_connection_that_is_opened_again_is_of_its_user() -> None:
    classes = (
        ClientClass(500, Counts("constant", 1), requests_permille=500),
        ClientClass(500, Counts("constant", 10), requests_permille=500),
    )
    outcome = on_fast(scene_of(Load("kept", users=10, rate_per_s=2_000, classes=classes), 1.0))
    used = np.bincount(outcome.asked_on[outcome.asked_on >= 0])
    of_connection = np.zeros(used.size, np.int64)
    sent = outcome.asked_on >= 0
    of_connection[outcome.asked_on[sent]] = outcome.class_of_requests[sent]
    # The last one of each user may have had fewer.
    assert used[(of_connection == 0) & (used > 0)].max() == 1
    assert np.sort(used[of_connection == 1])[5:].tolist() == [10] * ((of_connection == 1).sum() - 5)


def test_one_class_is_refused_and_so_are_those_of_another_trace() -> None:
    load = Load("open", rate_per_s=500, classes=(BUSY, QUIET))
    scene = scene_of(load, 0.3)
    for classes, rule in (
        ((), "classes of the trace must be of the 0 of the settings"),
        ((BUSY._replace(share_permille=1_000),), "classes must be 2 to 16, or none, got 1"),
        ((BUSY, BUSY), "the shares of all classes must add up to 1000, got 200"),
        ((BUSY._replace(path=0), QUIET), "the path of a class must be one of the paths, got 0"),
    ):
        with pytest.raises(ValueError, match=rule):
            on_fast(scene._replace(run=scene.run._replace(classes=classes)))
    assert BUSY.path == NONE
