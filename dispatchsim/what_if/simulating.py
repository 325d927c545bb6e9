"""Simulations for all viewers: two workers, fair turns, a memory of replies.

    viewer ─ ask ─► what it wants now ─┐            ┌─ worker ─┐
    viewer ─ ask ─► what it wants now ─┼─ in turn ─►│          ├─► notify, memory
    viewer ─ ask ─► what it wants now ─┘            └─ worker ─┘

Workers are threads of this process if engines are compiled, otherwise processes
(sim/files/parallel.py).

New questions of a viewer replace its old ones, so no run is made for a view that has gone. Urgent
questions of one viewer come before others of another; among equals viewers take turns. Until the
engine of a mechanism is compiled, the reference engine gives the same results, more slowly and for
coarse questions only.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor
from functools import partial

from ..calibration.running.compiling import uncompiled
from ..sim.engine.workers import new_executor
from ..sim.files.parallel import StoppedError, ThreadExecutor
from .answers import Asked, Question, Reply, prepare, reply_politely
from .choices import profiles

REMEMBERED_MAX = 6_000
"""Most replies kept, of some five kilobytes each."""
REFERENCE_LEVEL_MAX = 1
"""Highest level of questions for the reference engine, which takes twenty times as long."""
_JOIN_S = 5.0
Found = tuple[Question, Reply | None]


class Viewer:
    """One viewer: its open questions, and the replies found for it.

    Parameters
    ----------
    simulations:
        Takes its questions.
    told:
        Called, from any thread, when there is something to `take`.
    """

    def __init__(self, simulations: Simulations, told: Callable[[], None]) -> None:
        self._simulations = simulations
        self.told = told
        self.wanted: deque[Asked] = deque()
        self.found: list[Found] = []
        self.turn = 0

    def ask(self, asked: Iterable[Asked]) -> None:
        """Replace all questions by *asked*; replies in memory can be taken at once."""
        with self._simulations.changed:
            self.wanted.clear()
            self.found.clear()
            for each in asked:
                if (reply := self._simulations.remembered(each.question)) is not None:
                    self.found.append((each.question, reply))
                else:
                    self.wanted.append(each)
            known = bool(self.found)
            self._simulations.changed.notify_all()
        if known:
            self.told()

    def take(self) -> list[Found]:
        """Return the results since the last call; a reply of None means that the run failed."""
        with self._simulations.changed:
            found, self.found = self.found, []
            return found

    def leave(self) -> None:
        """Withdraw all questions."""
        with self._simulations.changed:
            self.wanted.clear()
            if self in self._simulations.viewers:
                self._simulations.viewers.remove(self)


class Simulations:
    """The simulations of all viewers; close it at the end.

    Parameters
    ----------
    workers:
        Number of runs at once.
    compiles:
        Whether missing engines are compiled; if not, the reference engine makes all runs.

    Attributes
    ----------
    changed, viewers:
        The viewers; their questions and results change only with *changed* held.
    """

    def __init__(self, workers: int = 2, *, compiles: bool = True) -> None:
        self.changed = threading.Condition()
        self.viewers: list[Viewer] = []
        self._memory: OrderedDict[Question, Reply] = OrderedDict()
        self._running: set[Question] = set()
        self._compiled: set[str] = set()
        self._to_compile: deque[tuple[str, str]] = deque()  # profile, mechanism
        self._uncompilable: set[str] = set()
        self._compiles = compiles
        self._closed = False
        self._turn = 0
        self.n_simulated = 0
        self._new_executor = partial(new_executor, "auto" if compiles else "reference", workers)
        self._executor = self._new_executor()
        self._compiler = ThreadExecutor(1)
        targets = [self._work] * workers + [self._compile] * compiles
        self._threads = [threading.Thread(target=each, daemon=True) for each in targets]
        for thread in self._threads:
            thread.start()

    def join(self, told: Callable[[], None]) -> Viewer:
        """Return a new viewer, which is notified through *told* of results."""
        viewer = Viewer(self, told)
        with self.changed:
            self.viewers.append(viewer)
        return viewer

    def prepare(self, profile: str, mechanisms: Iterable[str]) -> None:
        """Load the compiled engines of *mechanisms* before the first question.

        Only threads use compiled engines, and they share what one of them loads.
        """
        with self.changed:
            ready = [name for name in mechanisms if self._is_compiled(profile, name)]
        if ready:
            self._executor.submit(prepare, profile, ready)

    def is_compiling(self, mechanisms: Iterable[str]) -> list[str]:
        """Return those of *mechanisms* whose engine waits to be compiled."""
        with self.changed:
            waiting = {name for _, name in self._to_compile}
            return [name for name in mechanisms if name in waiting]

    @property
    def n_viewers(self) -> int:
        """The number of viewers."""
        with self.changed:
            return len(self.viewers)

    @property
    def is_idle(self) -> bool:
        """Whether no run is under way or waiting."""
        with self.changed:
            return not self._running and not any(each.wanted for each in self.viewers)

    def close(self) -> None:
        """End all workers."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()
        self._executor.kill()
        self._compiler.kill()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def remembered(self, question: Question) -> Reply | None:
        """Return the reply to *question* if it is known, while `changed` is held."""
        reply = self._memory.get(question)
        if reply is not None:
            self._memory.move_to_end(question)
        return reply

    def _is_compiled(self, profile: str, mechanism: str) -> bool:
        """Return whether *mechanism* has compiled code; if not, queue it for compiling."""
        if mechanism in self._compiled:
            return True
        if not self._compiles or mechanism in self._uncompilable:
            return False
        if (profile, mechanism) in self._to_compile:
            return False
        if not uncompiled([mechanism], profiles()[profile]):
            self._compiled.add(mechanism)
            return True
        self._to_compile.append((profile, mechanism))
        self.changed.notify_all()
        return False

    def _work(self) -> None:
        """Simulate the most urgent question, again and again, until closed."""
        while (next_one := self._next()) is not None:
            question, engine = next_one
            self._tell(question, self._reply(question, engine))

    def _next(self) -> tuple[Question, str] | None:
        """Wait for the next question and return it with an engine; None when closed."""
        with self.changed:
            while not self._closed:
                # The most urgent question; among equals, the viewer whose turn was longest ago.
                for viewer in sorted(self.viewers, key=_urgency):
                    found = self._first_of(viewer)
                    if found is not None:
                        self._turn += 1
                        viewer.turn = self._turn
                        self._running.add(found[0])
                        return found
                self.changed.wait()
        return None

    def _first_of(self, viewer: Viewer) -> tuple[Question, str] | None:
        for asked in viewer.wanted:
            question = asked.question
            if question in self._running:
                continue
            if self._is_compiled(question.view.profile, question.mechanism):
                return question, "auto"
            is_final = not self._compiles or question.mechanism in self._uncompilable
            if asked.level <= REFERENCE_LEVEL_MAX or is_final:
                return question, "reference"
        return None

    def _reply(self, question: Question, engine: str) -> Reply | None:
        executor = self._executor
        try:
            return executor.submit(reply_politely, question, engine).result()
        except BrokenExecutor:
            with self.changed:
                if not self._closed and self._executor is executor:
                    self._executor = self._new_executor()
        except StoppedError:
            pass  # closed
        except Exception:
            traceback.print_exc(file=sys.stderr)
        return None

    def _tell(self, question: Question, reply: Reply | None) -> None:
        """Keep *reply* and give it to all viewers that asked for it."""
        with self.changed:
            self.n_simulated += 1
            self._running.discard(question)
            if reply is not None:
                self._memory[question] = reply
                while len(self._memory) > REMEMBERED_MAX:
                    self._memory.popitem(last=False)
            told = []
            for viewer in self.viewers:
                wants = [asked for asked in viewer.wanted if asked.question == question]
                if wants:
                    viewer.wanted.remove(wants[0])
                    viewer.found.append((question, reply))
                    told.append(viewer)
            self.changed.notify_all()
        for viewer in told:
            viewer.told()

    def _compile(self) -> None:
        """Compile missing engines, one after the other."""
        while True:
            with self.changed:
                while not self._to_compile and not self._closed:
                    self.changed.wait()
                if self._closed:
                    return
                profile, mechanism = self._to_compile[0]
            try:
                self._compiler.submit(prepare, profile, [mechanism]).result()
            except Exception:
                if not self._closed:
                    traceback.print_exc(file=sys.stderr)
            with self.changed:
                self._to_compile.popleft()
                done = not uncompiled([mechanism], profiles()[profile])
                (self._compiled if done else self._uncompilable).add(mechanism)
                viewers = list(self.viewers)
                self.changed.notify_all()
            for viewer in viewers:
                viewer.told()


def _urgency(viewer: Viewer) -> tuple[int, int]:
    level = viewer.wanted[0].level if viewer.wanted else sys.maxsize
    return level, viewer.turn
