"""Many runs at once, through the one interface of `concurrent.futures.Executor`.

Runs are handed out as they are, so a result does not depend on how many workers there are, and a
cluster's executor (Dask's `client.get_executor()`) serves as well as local workers.

    compiled engines:   tasks ─► queue ─┬─ thread
                                        └─ thread

    reference engine:   tasks ─► queue ─┬─ thread ◄── pipe ──► process
                                        └─ thread ◄── pipe ──► process

Compiled code runs without the interpreter's lock, so threads compute side by side: nothing is
started, imported again or sent. SimPy is Python, which only processes run side by side.
sim/engine/workers.py chooses.

A thread cannot be killed. Its run looks up: an engine reports its progress several times a second,
and a report in a thread that is to stop raises (`stoppable`).

Each process has a pipe of its own. The pool of the standard library lets its processes share
two pipes and their locks: one that is killed while it holds a lock, or half-way through a message,
leaves the others, and the thread that reads for them, waiting for ever. Here a process that is
killed ends its own pipe and nothing else, so Ctrl-C may kill any process.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Literal, NamedTuple, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOOK_UP_S = 0.2
_PATIENCE_S = 5.0
"""For a process that was killed to be gone."""
_STOP_S = 0.5
"""For threads to notice that they are to stop; what is left of them ends with this process."""

Worker = Literal["thread", "process"]


class WorkerDiedError(BrokenExecutor):
    """A worker process ended before its run did; the message has the way it ended."""


class StoppedError(Exception):
    """A run was given up, as its executor was stopped."""


class _Here(threading.local):
    """What this thread is, if it is a worker."""

    stop: threading.Event | None = None


_here = _Here()


def check_stopped() -> None:
    """End what this thread does if it is to stop.

    Raises
    ------
    StoppedError
        In a worker of a `ThreadExecutor` that was stopped; never in any other thread.
    """
    if _here.stop is not None and _here.stop.is_set():
        raise StoppedError("the executor has been stopped")


def stoppable(progress: Callable[[int], None] | None) -> Callable[[int], None] | None:
    """Return a callback that does what *progress* does, and ends a run that is to stop.

    Outside of a worker thread nothing has to be ended, and *progress* is returned as it is.

    Raises
    ------
    StoppedError
        If it is to stop already.
    """
    if _here.stop is None:
        return progress
    check_stopped()

    def look_up(now_ns: int) -> None:
        check_stopped()
        if progress is not None:
            progress(now_ns)

    return look_up


class _Call(NamedTuple):
    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _LocalExecutor(Executor):
    """A queue of calls, and threads that take them from it.

    It is not the pool of the standard library, whose threads are waited for at exit: Ctrl-C may
    strike while this process holds the lock of a future, and then its thread never ends.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed: str | None = None  # why no more calls are taken
        self._threads: list[threading.Thread] = []

    @property
    def workers(self) -> int:
        """How many calls are made at once."""
        return len(self._threads)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Take a call, to be made by the next worker that is free.

        Raises
        ------
        WorkerDiedError
            After `shutdown` or `kill`, or if a process has died.
        """
        future: Future[Result] = Future()
        with self._lock:
            if self._closed is not None:
                raise WorkerDiedError(self._closed)
            self._calls.put(_Call(future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; end the workers when all have been made."""
        self._close("the executor has been shut down", cancel=cancel_futures)
        if wait:
            for thread in self._threads:
                thread.join()

    def kill(self) -> None:
        """End the workers now, even if busy; their calls fail.

        No lock is waited for: Ctrl-C may have struck while this thread held that of a future.
        """
        self._close("the executor has been stopped", cancel=True)

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _close(self, why: str, *, cancel: bool) -> None:
        with self._lock:
            if cancel:
                for call in self._waiting():
                    if call.future.cancel():
                        call.future.set_running_or_notify_cancel()
            if self._closed is None:
                self._closed = why
            for _ in self._threads:
                self._calls.put(None)

    def _waiting(self) -> Iterator[_Call]:
        """Take what no thread has taken yet."""
        with contextlib.suppress(queue.Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    yield call


class ThreadExecutor(_LocalExecutor):
    """Threads of this process, for compiled code, which runs without the interpreter's lock.

    Parameters
    ----------
    workers:
        How many.
    """

    def __init__(self, workers: int) -> None:
        super().__init__()
        self._stop = threading.Event()
        for _ in range(workers):
            self._start(self._work)

    def kill(self) -> None:
        """Have all runs stop at their next report of progress; their calls fail."""
        self._stop.set()
        super().kill()
        until_s = time.monotonic() + _STOP_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))

    def _work(self) -> None:
        """Make calls, one at a time, until there are no more."""
        _here.stop = self._stop
        while call := self._calls.get():
            if call.future.set_running_or_notify_cancel():
                _make(call)
            del call  # with its future it holds a result, which may be large


class ProcessExecutor(_LocalExecutor):
    """Local processes that may be killed at any moment.

    Parameters
    ----------
    workers:
        How many. They never see Ctrl-C, which is for this process to act on.
    begin:
        Called in each of them before all else.
    """

    def __init__(self, workers: int, begin: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._processes: list[SpawnProcess] = []
        # Spawned, not forked: a fork copies the state of all threads at that moment (a progress
        # bar's). Python starts a helper with the first one and then lets signals through, so it
        # is started before they are held back.
        context = multiprocessing.get_context("spawn")
        resource_tracker.ensure_running()
        try:
            with _interrupts_put_off():
                for _ in range(workers):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_work, args=(theirs, begin), daemon=True)
                    process.start()
                    theirs.close()  # so that the pipe ends with the process
                    self._processes.append(process)
                    self._start(self._feed, process, ours)
        except BaseException:
            self.kill()
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; end the processes when all have been made."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            for process in self._processes:
                process.join()

    def kill(self) -> None:
        """End the processes now, even if busy; their calls fail."""
        super().kill()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join(_PATIENCE_S)

    def _feed(self, process: SpawnProcess, pipe: Connection) -> None:
        """Hand calls to *process*, one at a time, until there are no more."""
        with pipe:
            while call := self._calls.get():
                if not call.future.set_running_or_notify_cancel():
                    continue
                try:
                    message = pickle.dumps((call.function, call.args, call.kwargs))
                except Exception as error:
                    call.future.set_exception(error)
                    continue
                try:
                    pipe.send_bytes(message)
                    succeeded, value = pipe.recv()
                except (EOFError, OSError):
                    self._mourn(process, call)
                    return
                if succeeded:
                    call.future.set_result(value)
                else:
                    call.future.set_exception(value)

    def _mourn(self, process: SpawnProcess, call: _Call) -> None:
        """Give up: the cause of one process's death (such as no memory) may kill the next."""
        process.join(_PATIENCE_S)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else "ended"
        why = f"a worker process {how} before its run did; fewer workers need less memory"
        with self._lock:
            if self._closed is None:
                self._closed = why
            lost = [call, *self._waiting()]
            for _ in self._threads:
                self._calls.put(None)
        for each in lost:
            if each is call or each.future.set_running_or_notify_cancel():
                each.future.set_exception(WorkerDiedError(self._closed))


def _make(call: _Call) -> None:
    """Make *call* in this thread."""
    try:
        call.future.set_result(call.function(*call.args, **call.kwargs))
    except BaseException as error:
        call.future.set_exception(error)


def cpu_count() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def threads(workers: int) -> AbstractContextManager[Executor]:
    """Return a context with an executor of *workers* threads."""
    return ending(ThreadExecutor(workers))


def processes(workers: int) -> AbstractContextManager[Executor]:
    """Return a context with an executor of *workers* processes."""
    return ending(ProcessExecutor(workers))


@contextlib.contextmanager
def ending(executor: ThreadExecutor | ProcessExecutor) -> Iterator[Executor]:
    """Yield *executor*; make all its calls, or give them up if an error ends the context."""
    try:
        yield executor
        executor.shutdown(wait=True, cancel_futures=True)
    finally:
        executor.kill()


def run_all(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    executor: Executor | None = None,
) -> Iterator[tuple[int, Result]]:
    """Yield (index, result) of each of *tasks* as it ends; without an executor, in order, here."""
    if executor is None:
        for index, task in enumerate(tasks):
            yield index, function(task)
        return
    # Not `as_completed`: Ctrl-C may leave its locks held, and then the next user waits
    # forever. This queue has none that Python code could leave.
    done: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()
    futures: dict[Future[Result], int] = {}
    try:
        for index, task in enumerate(tasks):
            future = executor.submit(function, task)
            futures[future] = index
            future.add_done_callback(done.put)
        for _ in tasks:
            future = next_done(done)
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def next_done(done: queue.SimpleQueue[Future[Result]]) -> Future[Result]:
    """Return what is done next; look up now and then.

    A Ctrl-C that another thread takes, or that comes just before the wait, does not end the wait.
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return done.get(timeout=_LOOK_UP_S)


@contextlib.contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """Let Ctrl-C wait, and what is started meanwhile never see it.

    A process inherits the set of blocked signals, so it cannot be interrupted before it ignores
    them itself. This process may have threads that do not hold the signal back: then it
    arrives, and is only remembered.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = signal.getsignal(signal.SIGINT)
    came: list[int] = []
    if in_main_thread and ours is not None:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        if in_main_thread and ours is not None:
            signal.signal(signal.SIGINT, ours)
    if came:
        signal.raise_signal(signal.SIGINT)


def _work(pipe: Connection, begin: Callable[[], object] | None) -> None:
    """Make the calls that come through *pipe* until it ends, as it does with the other side."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if begin is not None:
        begin()
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = pipe.recv_bytes()
            pipe.send_bytes(_answer(message))


def _answer(message: bytes) -> bytes:
    """Return, as a message, (True, result) of the call in *message*, or (False, exception)."""
    try:
        function, args, kwargs = pickle.loads(message)
        return pickle.dumps((True, function(*args, **kwargs)))
    except Exception as error:
        error.add_note(f"in a worker process: {traceback.format_exc()}")
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)  # some exceptions can be written, but not read
        except Exception:
            return pickle.dumps((False, RuntimeError(traceback.format_exc())))
        return answer
