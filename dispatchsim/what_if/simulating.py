"""Simulations for all viewers: two workers, fair turns, a memory of what was answered.

    viewer ─ ask ─► what it wants now ─┐            ┌─ worker ─┐
    viewer ─ ask ─► what it wants now ─┼─ in turn ─►│          ├─► told, memory
    viewer ─ ask ─► what it wants now ─┘            └─ worker ─┘

Workers are threads of this process where engines are compiled, and else processes
(sim/files/parallel.py).

A viewer who asks anew drops what it had asked before, so nobody waits for what nobody wants. What
is urgent for one comes before what is not for another; among equals viewers take turns. Until the
engine of a mechanism is compiled, the reference engine answers: the same figures, later, and coarse
ones only.
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
"""Replies that are kept, of some five kilobytes each."""
REFERENCE_LEVEL_MAX = 1
"""Up to which level the reference engine answers, which takes twenty times as long."""
_JOIN_S = 5.0
Found = tuple[Question, Reply | None]


class Viewer:
    """One who looks: what it wants now, and what has been found for it.

    Parameters
    ----------
    simulations:
        Where it asks.
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
        """Ask this and nothing else any more; what is known already is there to take at once."""
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
        """Return what was found since the last time; no reply: it could not be simulated."""
        with self._simulations.changed:
            found, self.found = self.found, []
            return found

    def leave(self) -> None:
        """Want nothing any more."""
        with self._simulations.changed:
            self.wanted.clear()
            if self in self._simulations.viewers:
                self._simulations.viewers.remove(self)


class Simulations:
    """What simulates for all viewers; to be closed in the end.

    Parameters
    ----------
    workers:
        How many runs are simulated at once.
    compiles:
        Whether engines that are missing are compiled; if not, the reference engine does it all.

    Attributes
    ----------
    changed, viewers:
        Those who look; a change of what they want or have is made with *changed* held.
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
        """Return a new viewer, who is `told` when something was found."""
        viewer = Viewer(self, told)
        with self.changed:
            self.viewers.append(viewer)
        return viewer

    def prepare(self, profile: str, mechanisms: Iterable[str]) -> None:
        """Have those engines of *mechanisms* that are compiled loaded before somebody asks.

        Only threads can have any, and they share what one of them loads.
        """
        with self.changed:
            ready = [name for name in mechanisms if self._is_compiled(profile, name)]
        if ready:
            self._executor.submit(prepare, profile, ready)

    def is_compiling(self, mechanisms: Iterable[str]) -> list[str]:
        """Return those of *mechanisms* whose engine is not compiled yet, but will be."""
        with self.changed:
            waiting = {name for _, name in self._to_compile}
            return [name for name in mechanisms if name in waiting]

    @property
    def n_viewers(self) -> int:
        """How many look."""
        with self.changed:
            return len(self.viewers)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being simulated, nor waits for it."""
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
        """Return whether *mechanism* has compiled code; if not, have it compiled."""
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
        """Simulate what is wanted most, again and again, until all is closed."""
        while (next_one := self._next()) is not None:
            question, engine = next_one
            self._tell(question, self._reply(question, engine))

    def _next(self) -> tuple[Question, str] | None:
        """Wait for the next question and return it with an engine; None when all is closed."""
        with self.changed:
            while not self._closed:
                # The most urgent; of these, of the viewer whose turn was longest ago.
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
            pass  # all is closed
        except Exception:
            traceback.print_exc(file=sys.stderr)
        return None

    def _tell(self, question: Question, reply: Reply | None) -> None:
        """Remember *reply* and give it to all who want it."""
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
        """Compile what is missing, one engine after the other."""
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
