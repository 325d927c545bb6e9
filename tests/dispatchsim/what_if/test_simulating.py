"""Who is served when: the urgent first, viewers in turn, and nothing that nobody wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from tests.dispatchsim.what_if.made_up import reply

from dispatchsim.what_if import simulating
from dispatchsim.what_if.answers import Asked, Question, Reply
from dispatchsim.what_if.simulating import Simulations, Viewer
from dispatchsim.what_if.view import View

PATIENCE_S = 30.0
VIEW = View(profile="epyc-family26-2cpu-linux-6.18")


class Stepped:
    """In place of workers: each run ends when the test says so."""

    def __init__(self, *_: Any) -> None:
        self.begun: list[Question] = []
        self.engines: list[str] = []
        self._steps = threading.Semaphore(0)
        self._changed = threading.Condition()
        self._closed = False

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        question, engine = arguments
        with self._changed:
            self.begun.append(question)
            self.engines.append(engine)
            self._changed.notify_all()
        self._steps.acquire()
        if question.view.rate == 666:
            future.set_exception(ValueError("made to fail"))
        else:
            future.set_result(reply(question))
        return future

    def step(self) -> None:
        self._steps.release()

    def kill(self) -> None:
        self._steps.release(1_000)

    def wait_for(self, n_begun: int) -> list[Question]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= n_begun, PATIENCE_S)
            return list(self.begun)


@pytest.fixture
def simulations(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulations]:
    monkeypatch.setattr(simulating, "new_executor", Stepped)
    found = Simulations(1, compiles=False)
    yield found
    found.close()


def stepped(simulations: Simulations) -> Stepped:
    executor = simulations._executor
    assert isinstance(executor, Stepped)
    return executor


def asked(*rates: int, level: int = 0) -> list[Asked]:
    return [Asked(level, Question(VIEW.alone("poll", rate), 200, 1)) for rate in rates]


def found_by(viewer: Viewer, told: threading.Event, n: int) -> list[tuple[int, Reply | None]]:
    found: list[tuple[int, Reply | None]] = []
    while len(found) < n:
        assert told.wait(PATIENCE_S)
        told.clear()
        found += [(question.view.rate, reply) for question, reply in viewer.take()]
    return found


def test_what_was_asked_before_is_dropped_when_one_asks_anew(simulations: Simulations) -> None:
    told = threading.Event()
    viewer = simulations.join(told.set)
    viewer.ask(asked(1000, 2000, 3000))
    executor = stepped(simulations)
    executor.wait_for(1)
    viewer.ask(asked(4000))
    executor.step()
    assert [q.view.rate for q in executor.wait_for(2)] == [1000, 4000]
    executor.step()
    assert [rate for rate, _ in found_by(viewer, told, 1)] == [4000]
    assert simulations.n_simulated == 2


def test_viewers_take_turns_and_the_urgent_comes_first(simulations: Simulations) -> None:
    first, second = (simulations.join(lambda: None) for _ in range(2))
    first.ask([*asked(1000, 1100), *asked(1200, 1300, level=2)])
    executor = stepped(simulations)
    executor.wait_for(1)
    second.ask([*asked(2000, 2100), *asked(2200, level=2)])
    for n in range(2, 8):
        executor.step()
        executor.wait_for(n)
    assert [q.view.rate for q in executor.begun] == [1000, 2000, 1100, 2100, 1200, 2200, 1300]


def test_what_was_answered_is_remembered(simulations: Simulations) -> None:
    told = threading.Event()
    viewer = simulations.join(told.set)
    viewer.ask(asked(1000))
    stepped(simulations).step()
    found_by(viewer, told, 1)
    other_told = threading.Event()
    other = simulations.join(other_told.set)
    other.ask(asked(1000))
    assert [rate for rate, _ in found_by(other, other_told, 1)] == [1000]
    assert simulations.n_simulated == 1


def test_one_run_serves_all_who_ask_for_it(simulations: Simulations) -> None:
    events = [threading.Event(), threading.Event()]
    viewers = [simulations.join(event.set) for event in events]
    for viewer in viewers:
        viewer.ask(asked(1000))
    stepped(simulations).step()
    for viewer, event in zip(viewers, events, strict=True):
        assert len(found_by(viewer, event, 1)) == 1
    assert simulations.n_simulated == 1


def test_who_leaves_costs_nothing_more(simulations: Simulations) -> None:
    viewer = simulations.join(lambda: None)
    viewer.ask(asked(1000, 2000, 3000))
    executor = stepped(simulations)
    executor.wait_for(1)
    viewer.leave()
    told = threading.Event()
    other = simulations.join(told.set)
    other.ask(asked(4000))
    executor.step()
    executor.step()
    found_by(other, told, 1)
    assert [q.view.rate for q in executor.begun] == [1000, 4000]
    assert simulations.n_viewers == 1
    assert simulations.is_idle


def test_a_run_that_fails_is_told_as_such(
    simulations: Simulations, capsys: pytest.CaptureFixture[str]
) -> None:
    told = threading.Event()
    viewer = simulations.join(told.set)
    viewer.ask(asked(666, 1000))
    executor = stepped(simulations)
    executor.step()
    executor.step()
    assert [found is None for _, found in found_by(viewer, told, 2)] == [True, False]
    assert "made to fail" in capsys.readouterr().err


def test_no_more_is_remembered_than_may_be(
    simulations: Simulations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulating, "REMEMBERED_MAX", 2)
    told = threading.Event()
    viewer = simulations.join(told.set)
    executor = stepped(simulations)
    viewer.ask(asked(1000, 1100, 1200))
    for _ in range(3):
        executor.step()
    found_by(viewer, told, 3)
    viewer.ask(asked(1200, 1000))
    assert [rate for rate, _ in found_by(viewer, told, 1)] == [1200]


def test_until_an_engine_is_compiled_the_reference_gives_coarse_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = {"poll"}
    monkeypatch.setattr(simulating, "new_executor", Stepped)
    monkeypatch.setattr(
        simulating, "uncompiled", lambda names, _: [n for n in names if n in missing]
    )
    compiled, begun = threading.Event(), threading.Event()

    def compile_when_told(run: Any, function: Any, *arguments: Any) -> Future[None]:
        future: Future[None] = Future()
        begun.set()
        assert compiled.wait(PATIENCE_S)
        missing.clear()
        future.set_result(None)
        return future

    class Compiler(Stepped):
        submit = compile_when_told

    monkeypatch.setattr(simulating, "ThreadExecutor", Compiler)
    simulations = Simulations(1)
    try:
        executor = stepped(simulations)
        told = threading.Event()
        viewer = simulations.join(told.set)
        viewer.ask([*asked(1000), *asked(1100, level=2)])
        assert begun.wait(PATIENCE_S)
        executor.step()
        found_by(viewer, told, 1)
        assert simulations.is_compiling(["poll", "select"]) == ["poll"]
        compiled.set()
        executor.wait_for(2)
        executor.step()
        found_by(viewer, told, 1)
        assert executor.engines == ["reference", "auto"]
        assert simulations.is_compiling(["poll"]) == []
    finally:
        compiled.set()
        simulations.close()


def test_what_cannot_be_compiled_is_simulated_by_the_reference_and_the_next_is_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"poll", "select"}
    monkeypatch.setattr(simulating, "new_executor", Stepped)
    monkeypatch.setattr(
        simulating, "uncompiled", lambda names, _: [n for n in names if n in missing]
    )

    class Refusing(Stepped):
        def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            future: Future[Any] = Future()
            _, (mechanism,) = arguments
            if mechanism == "poll":
                future.set_exception(RuntimeError("made to fail"))
            else:
                missing.discard(mechanism)
                future.set_result(None)
            return future

    monkeypatch.setattr(simulating, "ThreadExecutor", Refusing)
    simulations = Simulations(1)
    try:
        executor = stepped(simulations)
        told = threading.Event()
        viewer = simulations.join(told.set)
        executor.step()
        executor.step()
        for name, engine in (("poll", "reference"), ("select", "auto")):
            # The second choice is made when the first has been compiled, or could not be.
            viewer.ask([Asked(2, Question(VIEW.alone(name, 1000), 200, 1))])
            while not viewer.take():
                assert told.wait(PATIENCE_S)
                told.clear()
            assert executor.engines[-1] == engine
    finally:
        simulations.close()
    assert "made to fail" in capsys.readouterr().err
