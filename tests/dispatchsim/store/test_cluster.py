"""A real scheduler and two real workers over TCP on loopback, one of which is killed."""

from __future__ import annotations

import builtins
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.dispatchsim.store.made_up import exported, runs, sweep

import dispatchsim.store.cluster
from dispatchsim.scenario.errors import UserError
from dispatchsim.sim.files.parallel import WorkerDiedError
from dispatchsim.store import Progress, Store, simulate_all, work
from dispatchsim.store import chunks as simulating
from dispatchsim.store import records as code_version
from dispatchsim.store.cluster import cluster

PATIENCE_S = 60.0

# Sockets of the client's event loop are closed by its thread when it comes to it.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@contextmanager
def program(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Yield a process of Dask's command line, and the file of its messages; end it afterwards."""
    log = folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
            cwd=folder,
            stdout=file,
            stderr=file,
        )
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    """Return what *process* says in the group of *pattern*, as soon as it does."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dask")


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yield a scheduler without workers, and its address."""
    arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show"]
    with program(folder, "scheduler", *arguments) as (process, log):
        yield process, said(process, log, r"Scheduler at: +(tcp://127\.0\.0\.1:\d+)")


@contextmanager
def worker(folder: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a worker, as soon as its scheduler knows it."""
    arguments = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    with program(folder, "worker", address, *arguments) as (process, log):
        said(process, log, "(Registered to)")
        yield process


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with scheduler(folder) as (_, address):
        yield address


Start = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture
def start_worker(folder: Path, address: str) -> Iterator[Start]:
    """Yield a function that starts a worker, and returns its process."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(worker(folder, address))


def test_a_worker_that_is_killed_loses_nothing_and_nothing_counts_twice(
    tmp_path: Path, address: str, start_worker: Start
) -> None:
    first, second = start_worker(), start_worker()
    told: list[Progress] = []

    def kill(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 3:
            os.kill(first.pid, signal.SIGKILL)

    wanted = sweep()
    store = Store(tmp_path / "cluster")
    with cluster(address) as executor:
        assert work.workers_of(executor) == 2
        records = simulate_all(wanted, store=store, executor=executor, progress=kill)
    assert first.wait() == -signal.SIGKILL
    assert second.poll() is None
    assert [progress.done for progress in told] == sorted({progress.done for progress in told})
    assert told[2].done < told[-1].done == told[-1].total == len(wanted)
    here = simulate_all(wanted)
    assert records == here
    assert exported(store.records(), tmp_path) == exported(here, tmp_path)
    # No row was written twice, either.
    written = [len(table) for table in Store(store.folder)._read()]
    assert sum(written) == len(wanted)


def test_ctrl_c_keeps_what_the_cluster_has_finished(
    tmp_path: Path, address: str, start_worker: Start
) -> None:
    start_worker()

    def stop(progress: Progress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), cluster(address) as executor:
        simulate_all(sweep(), store=Store(tmp_path), executor=executor, progress=stop)
    assert 0 < len(Store(tmp_path).frame()) < len(sweep())


def test_a_scheduler_that_is_lost_leaves_what_is_finished(
    tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    with scheduler(folder) as (process, address), worker(folder, address):

        def kill(progress: Progress) -> None:
            if progress.done:
                process.kill()

        with (
            pytest.raises(WorkerDiedError, match=f"the scheduler at {address} was lost"),
            cluster(address) as executor,
        ):
            simulate_all(sweep(), store=store, executor=executor, progress=kill)
    assert 0 < len(store.frame()) < len(sweep())
    assert capfd.readouterr().err == ""


def test_a_worker_of_another_version_is_refused(
    address: str, start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_worker()
    monkeypatch.setattr(platform, "python_version_tuple", lambda: ("4", "0", "0"))
    with (
        pytest.raises(UserError, match=r"must have the Python of this process, 4\.0: tcp://.* 3"),
        cluster(address),
    ):
        pass
    # One that joins later is found out by the first chunk it is given.
    chunk = simulating.Chunk(tuple(runs(1)), "another")
    with pytest.raises(UserError, match="a worker has another version of dispatchsim"):
        simulating.simulate_chunk(chunk)
    assert code_version.code_version() != "another"


def _facts_of_nobody_else() -> dict[str, str]:
    return {}


def test_a_worker_without_the_code_is_refused(
    address: str, start_worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_worker()
    monkeypatch.setattr(dispatchsim.store.cluster, "_facts", _facts_of_nobody_else)
    with (
        pytest.raises(UserError, match=r"must have dispatchsim, tcp://.* reports: ModuleNotFound"),
        cluster(address),
    ):
        pass


def test_a_scheduler_without_workers_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatchsim.store.cluster, "PATIENCE_S", 0.5)
    with (
        pytest.raises(UserError, match=rf"must have workers, {address} has none \(`dask worker"),
        cluster(address),
    ):
        pass


def test_a_scheduler_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatchsim.store.cluster, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
    for place in ("no scheme://x", "scheduler"):
        with pytest.raises(UserError, match="--cluster: must be tcp://HOST:PORT"), cluster(place):
            pass
    for place in (f"tcp://127.0.0.1:{port}", "no.such.host.invalid:1"):
        with (
            pytest.raises(UserError, match=rf"--cluster: .*{re.escape(place)} does not answer"),
            cluster(place),
        ):
            pass


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "distributed":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with (
        pytest.raises(UserError, match=r'pip install "dispatchsim\[cluster\]"'),
        cluster("tcp://127.0.0.1:1"),
    ):
        pass
