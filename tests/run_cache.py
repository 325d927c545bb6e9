"""One cache folder for a run of the suite: no user's campaign and no other run shares it.

    user's cache/dispatchsim/kernel-HASH/ ◄── link ── cache of the run/dispatchsim/kernel-HASH
                                                      cache of the run/dispatchsim/c-HASH/

The workers of pytest-xdist are one run: they inherit `XDG_CACHE_HOME` from the process that starts
them. A kernel of the emulated target is built by `make kernel` alone, which takes minutes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_CACHE = "XDG_CACHE_HOME"
_USERS_CACHE = "DISPATCHSIM_TESTS_USERS_CACHE"


def begin_run(config: pytest.Config) -> None:
    """Name a fresh cache folder to this process and its children; remove it after the run."""
    users = os.environ.get(_CACHE) or str(Path.home() / ".cache")
    folder = tempfile.TemporaryDirectory(prefix="dispatchsim-tests-", ignore_cleanup_errors=True)
    patch = pytest.MonkeyPatch()
    patch.setenv(_USERS_CACHE, users)
    patch.setenv(_CACHE, folder.name)
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(patch.undo)
    _link_kernels()


@contextlib.contextmanager
def in_turn(name: str) -> Iterator[None]:
    """Let one worker of the run at a time enter blocks of this *name*."""
    with (Path(os.environ[_CACHE]) / f"{name}.turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def _link_kernels() -> None:
    links = Path(os.environ[_CACHE]) / "dispatchsim"
    links.mkdir(exist_ok=True)
    for kernel in Path(os.environ[_USERS_CACHE], "dispatchsim").glob("kernel-*/target.json"):
        with contextlib.suppress(FileExistsError):  # linked before, or by another worker
            (links / kernel.parent.name).symlink_to(kernel.parent)
