"""Work on a cluster: Dask's scheduler and workers behind the interface of `Executor`.

    this process ── cluster("tcp://host:8786") ──► scheduler ─┬─► worker (dask worker --nthreads 1)
                                                              └─► worker

Every worker must have the same dispatchsim. A lost worker costs only time: the scheduler gives its
work to another, and each result is taken once. A run occupies a worker's Python, so a worker
process has one thread, and a machine has one worker process per CPU. A trace is read where its run
is simulated, so its file must have the same path on every machine.

Source: Dask.distributed, https://distributed.dask.org: "Resilience", "Client".
"""

from __future__ import annotations

import contextlib
import logging
import platform
import re
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from typing import TYPE_CHECKING, Any, TypeVar

from ..scenario.errors import UserError
from ..sim.files.parallel import WorkerDiedError

if TYPE_CHECKING:
    from distributed import Client

Result = TypeVar("Result")

_ADDRESS = re.compile(r"(\w+://)?.+:[0-9]+|inproc://.+")  # Dask's own, within one process
PATIENCE_S = 5.0
"""Timeout for the scheduler's answer, and then for its first worker."""
_RETRIES = 2
"""Retries of a failed call: the cause may have been its worker."""


class ClusterExecutor(Executor):
    """The workers of a scheduler.

    Parameters
    ----------
    client:
        A client connected to the scheduler.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._executor: Executor = client.get_executor(  # type: ignore[no-untyped-call]
            pure=False, retries=_RETRIES
        )

    @property
    def workers(self) -> int:
        """Number of calls at once."""
        threads: dict[str, int] = self._client.nthreads()  # type: ignore[no-untyped-call]
        return max(1, sum(threads.values()))

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Take a call for any worker."""
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait for all of them, or cancel them."""
        self._executor.shutdown(wait=wait and not cancel_futures)


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Yield an executor of the workers whose scheduler is at *address*, "tcp://host:8786".

    Raises
    ------
    UserError
        If Dask is not installed, the scheduler does not answer or has no workers, or these have
        another version of dispatchsim or Python.
    WorkerDiedError
        If the scheduler is lost, or some work kills every worker that gets it.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise UserError(
            f'--cluster: needs Dask to reach {address}: pip install "dispatchsim[cluster]"'
        ) from None
    if _ADDRESS.fullmatch(address) is None:
        raise UserError(f'--cluster: must be tcp://HOST:PORT of a Dask scheduler, got "{address}"')
    try:
        client = Client(  # type: ignore[no-untyped-call]
            address, timeout=PATIENCE_S, set_as_default=False
        )
    except (OSError, ValueError) as error:  # a timeout is an OSError, too
        raise UserError(
            f"--cluster: must be tcp://HOST:PORT of a Dask scheduler, {address} does not answer "
            f"({_first_line(error)})"
        ) from None
    with _quietly(), client:
        _check_workers(client, address)
        executor = ClusterExecutor(client)
        try:
            yield executor
        except KilledWorker as error:
            raise WorkerDiedError(
                f"every worker of {address} that got one piece of work has died ({error.task}); "
                "more memory for each may help"
            ) from None
        except CancelledError:
            raise WorkerDiedError(f"the scheduler at {address} was lost") from None
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence Dask's log of lost connections with tracebacks: this module reports them."""
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _check_workers(client: Client, address: str) -> None:
    """Refuse workers with another version; workers that join later check it themselves."""
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
                f"--cluster: every worker must have dispatchsim, {worker} reports: "
                f"{_first_line(theirs)}"
            )
        for name, value in ours.items():
            if theirs.get(name) != value:
                raise UserError(
                    f"--cluster: every worker must have the {name} of this process, {value}: "
                    f"{worker} has {theirs.get(name)}"
                )


def _facts() -> dict[str, str]:
    """Return the versions that must be the same on all machines."""
    from .records import CODE_DIGITS, code_version

    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "code of dispatchsim": code_version()[:CODE_DIGITS],
    }


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
