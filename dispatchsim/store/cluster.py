"""Work on a cluster: Dask's scheduler and workers behind the one interface of `Executor`.

    this process ── cluster("tcp://host:8786") ──► scheduler ─┬─► worker (dask worker --nthreads 1)
                                                              └─► worker

Every worker must have the same dispatchsim. One that is lost costs nothing but time: the scheduler
hands its work to another, and a result is taken once, whoever sends it. A run keeps a worker's
Python to itself, so a worker process has one thread, and a machine a worker process for each CPU.
A trace is read where its run is simulated: its file must be at the same place on every machine.

Source: Dask.distributed, https://distributed.dask.org: "Resilience", "Client".
"""

from __future__ import annotations

import contextlib
import logging
import platform
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

from ..scenario.errors import UserError
from ..sim.files.parallel import WorkerDiedError

if TYPE_CHECKING:
    from distributed import Client

Result = TypeVar("Result")

PATIENCE_S = 5.0
"""For the scheduler to answer, and then for a first worker of it."""
_RETRIES = 2
"""Of a call that has failed: its worker may have been at fault."""


class ClusterExecutor(Executor):
    """The workers of a scheduler.

    Parameters
    ----------
    client:
        Connected to the scheduler.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._executor: Executor = client.get_executor(  # type: ignore[no-untyped-call]
            pure=False, retries=_RETRIES
        )

    @property
    def workers(self) -> int:
        """How many calls are made at once."""
        threads: dict[str, int] = self._client.nthreads()  # type: ignore[no-untyped-call]
        return max(1, sum(threads.values()))

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Take a call, to be made by some worker."""
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait until all have been made, or give them up."""
        self._executor.shutdown(wait=wait and not cancel_futures)


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Yield an executor of the workers whose scheduler is at *address*, "tcp://host:8786".

    Raises
    ------
    UserError
        If Dask is not installed, the scheduler does not answer, has no workers, or these have
        another version of dispatchsim or Python.
    WorkerDiedError
        If the scheduler is lost, or some work kills every worker that it is given.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise UserError(
            f'--cluster: needs Dask to reach {address}: pip install "dispatchsim[cluster]"'
        ) from None
    try:
        client = Client(  # type: ignore[no-untyped-call]
            address, timeout=PATIENCE_S, set_as_default=False
        )
    except (OSError, ValueError) as error:  # a time that is out is an OSError, too
        raise UserError(
            f"--cluster: must be the address of a Dask scheduler, {address} does not answer "
            f"({_first_line(error)})"
        ) from None
    with _quietly(), client:
        _check_workers(client, address)
        executor = ClusterExecutor(client)
        try:
            yield executor
        except KilledWorker as error:
            raise WorkerDiedError(
                f"every worker of {address} that was given some work has died ({error.task}); "
                "more memory for each may help"
            ) from None
        except CancelledError:
            raise WorkerDiedError(f"the scheduler at {address} was lost") from None
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Leave it to this module to say that a connection was lost: Dask logs it with tracebacks."""
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _check_workers(client: Client, address: str) -> None:
    """Refuse workers on which a run would not be the same; those that join later check it, too."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
    except OSError:
        raise UserError(
            f"--cluster: must have workers, {address} has none (`dask worker {address} "
            "--nthreads 1` starts one)"
        ) from None
    ours = _facts()
    for worker, theirs in client.run(_facts, on_error="return").items():
        if isinstance(theirs, BaseException):
            raise UserError(
                f"--cluster: every worker must have dispatchsim, {worker} says: "
                f"{_first_line(theirs)}"
            )
        for name, value in ours.items():
            if theirs.get(name) != value:
                raise UserError(
                    f"--cluster: every worker must have the {name} of this process, {value}: "
                    f"{worker} has {theirs.get(name)}"
                )


def _facts() -> dict[str, str]:
    """Return what must be the same on all machines."""
    from .records import CODE_DIGITS, code_version

    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "code of dispatchsim": code_version()[:CODE_DIGITS],
    }


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
