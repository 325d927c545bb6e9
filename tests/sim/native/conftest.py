"""A cache of its own for each test, and compilers that behave as it wants."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sim.native.compilers import Compilations

from dispatchsim.sim.native import library
from dispatchsim.sim.native.cache import CACHE_VARIABLE


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of kept libraries, which is not there yet."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(library, "_loaded", {})
    return tmp_path / "cache" / "native"


@pytest.fixture
def compiler_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a shell script in the place of the compiler."""

    def replace(script: str) -> None:
        path = tmp_path / "fake-cc"
        version = 'if [ "$1" = -v ]; then echo "fake version 1" >&2; exit 0; fi'
        path.write_text(f"#!/bin/sh\n{version}\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))

    return replace


@pytest.fixture
def compilations(
    folder: Path, tmp_path: Path, compiler_does: Callable[[str], None]
) -> Compilations:
    """Return the number of compilations from now on, all by one that works."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    log = tmp_path / "compilations"
    compiler_does(f'echo compiled >> "{log}"\nexec gcc "$@"')
    return Compilations(log)
