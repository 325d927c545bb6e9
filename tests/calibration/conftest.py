"""The C programs, built once a session, and servers that end with their test."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The helpers of these tests are imported by their path from the root of the repository.
sys.path.append(str(Path(__file__).parents[2]))

from tests.calibration.c.c_programs import CALIBRATION, Serve, Server, UnavailableError

FORBIDDEN = ("Operation not permitted", "Permission denied", "Function not implemented")
"""What a system says that does not let programs use a mechanism."""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs, built with sanitizers."""
    for tool in ("gcc", "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed, so the C programs cannot be built")
    folder = tmp_path_factory.mktemp("c") / "build"
    names = ("server", "load", "idle", "flood", "progress", "keeper")
    command = ["make", "-s", "-j2", "-C", str(CALIBRATION), "SANITIZE=1", f"BUILD={folder}"]
    finished = subprocess.run(
        [*command, *(str(folder / name) for name in names)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    missing = [name for name in names if not (folder / name).is_file()]
    assert not missing, f"make reported success but built no {missing}: is gcc a working compiler?"
    return folder


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
