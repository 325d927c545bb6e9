"""The C programs, built once a session, and servers that end with their test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The helpers of these tests are imported by their path from the root of the repository.
sys.path.append(str(Path(__file__).parents[2]))

from tests.calibration.c.c_programs import Serve, Server, UnavailableError
from tests.calibration.c.sanitized import sanitized

from dispatchsim.calibration.testbed.testbed import Testbed, TestbedError, open_testbed

FORBIDDEN = ("Operation not permitted", "Permission denied", "Function not implemented")
"""What a system says that does not let programs use a mechanism."""


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return the folder of the programs, built with sanitizers."""
    return sanitized(
        "server", "load", "far_end", "read_segments", "idle", "flood", "progress", "keeper"
    )


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    """Yield namespaces for a far end, or skip."""
    try:
        with open_testbed("far_end") as opened:
            yield opened
    except TestbedError as error:
        pytest.skip(str(error))


@pytest.fixture
def serve(programs: Path, tmp_path: Path) -> Iterator[Serve]:
    """Return a function that starts a server; whatever runs at the end of the test is ended."""
    started: list[Server] = []

    def start(mechanism: str, *options: str) -> Server:
        try:
            started.append(Server(programs, tmp_path, mechanism, *options))
        except UnavailableError as error:
            if not str(error).endswith(FORBIDDEN):
                raise
            pytest.skip(str(error))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()
