"""What is kept: locks that end with their process, and entries that nobody uses."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests import children
from tests.sim.native.compilers import ANSWER, Compilations

from dispatchsim.sim.native import cache
from dispatchsim.sim.native.library import load

DAY_S = 24 * 3600
HOLDING = """
import sys
import time
from pathlib import Path
from dispatchsim.sim.native import cache

with cache.locked(Path({path!r}), wait_s=0):
    print("held", flush=True)
    time.sleep(600)
"""
USING = f"""
import time
from dispatchsim.sim.native.library import load

print(load("answer", {ANSWER!r}).answer(), flush=True)
time.sleep(600)
"""


def unused_for(path: Path, days: float) -> Path:
    """Have *path*, made if need be, last used so many days ago."""
    path.touch()
    os.utime(path, times=(time.time() - days * DAY_S,) * 2)
    return path


def test_the_folder_is_that_of_its_variable_or_of_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/users/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("DISPATCHSIM_CACHE_DIR", raising=False)
    assert cache.engine_folder() == Path("/users/me/.cache/dispatchsim/native")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert cache.engine_folder() == Path("/var/cache/me/dispatchsim/native")
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", "/scratch")
    assert cache.engine_folder() == Path("/scratch/native")
    assert cache.user_folder() == Path("/var/cache/me/dispatchsim")


def test_a_lock_is_of_one_process_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "poll-1f.lock"
    with children.start(HOLDING.format(path=str(path))) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with (
            pytest.raises(TimeoutError, match=r"poll-1f\.lock: another process keeps this lock"),
            cache.locked(path, wait_s=0.1),
        ):
            raise AssertionError("two processes hold one lock")
        child.send_signal(signal.SIGKILL)
    assert path.exists()
    with cache.locked(path, wait_s=0):
        pass
    assert not path.exists()


def test_what_nobody_uses_goes_and_what_somebody_uses_stays(
    folder: Path, compilations: Compilations
) -> None:
    with children.start(USING) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "42\n"
            (live,) = folder.glob("answer-*.so")
            unused_for(live, 40)
            old = unused_for(folder / "poll-1f.so", 31)
            text = unused_for(folder / "poll-1f.c", 31)
            recent = unused_for(folder / "select-2e.so", 29)
            # Whenever something is compiled.
            assert load("other", ANSWER).answer() == 42
            assert (old.exists(), text.exists()) == (False, False)
            assert (live.exists(), recent.exists()) == (True, True)
        finally:
            child.kill()
    assert cache.remove(live)
    assert not live.exists()


def test_an_entry_that_is_being_built_is_left_alone(tmp_path: Path) -> None:
    for name in ("poll-1f", "select-2e"):
        (tmp_path / f"{name}.abc.building").mkdir()
        (tmp_path / f"{name}.engine.abc.part").touch()
    unused_for(tmp_path / "poll-1f.so", 31)
    with cache.locked(tmp_path / "poll-1f.lock", wait_s=0):
        cache.tidy(tmp_path, "*.so")
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "poll-1f.abc.building",
            "poll-1f.engine.abc.part",
            "poll-1f.lock",
            "poll-1f.so",
        ]
    cache.tidy(tmp_path, "*.so")
    assert list(tmp_path.iterdir()) == []


def test_a_use_is_noted_once_a_day(folder: Path, compilations: Compilations) -> None:
    script = f"from dispatchsim.sim.native.library import load\nload('answer', {ANSWER!r})"
    children.run(script)
    (path,) = folder.glob("answer-*.so")
    for days, is_noted in ((0.5, False), (2.0, True)):
        before = unused_for(path, days).stat().st_mtime
        children.run(script)
        assert (path.stat().st_mtime > before) == is_noted


WRITING = """
import os
from pathlib import Path
from dispatchsim.sim.native import cache

Path.replace = lambda self, target: os._exit(0)  # killed before the file has its name
cache.write(Path({path!r}), b"content")
"""


def test_an_entry_is_what_was_written_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "poll-1f.engine"
    children.run(WRITING.format(path=str(path)))
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".part"
    cache.tidy(tmp_path)
    assert list(tmp_path.iterdir()) == []
    before = os.umask(0)
    try:
        cache.write(path, b"content")
    finally:
        os.umask(before)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert cache.read(path) == b"content"
    path.write_bytes(path.read_bytes()[1:])
    with pytest.raises(cache.DamagedError, match="its checksum is wrong"):
        cache.read(path)


def test_a_folder_is_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache.make_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [oct((tmp_path / name).stat().st_mode & 0o777) for name in ("a", "a/b")] == ["0o700"] * 2
