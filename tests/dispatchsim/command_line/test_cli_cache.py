"""`dispatchsim cache`: what is kept, where, and removing it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from dispatchsim.sim.native import cache

Call = Callable[..., Result]
ENGINE = "poll-0123456789abcdef0123"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the folders of two engines and of the programs of two versions."""
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", str(tmp_path / "engines"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    engines, programs = tmp_path / "engines" / "native", tmp_path / "user" / "dispatchsim"
    engines.mkdir(parents=True)
    (engines / f"{ENGINE}.so").write_bytes(bytes(2_000_000))
    (engines / f"{ENGINE}.c").write_bytes(bytes(500_000))
    (engines / f"{ENGINE.replace('0', '9')}.so").write_bytes(bytes(1_000_000))
    for code in ("c-0123456789ab", "c-ba9876543210"):
        (programs / code / "build").mkdir(parents=True)
        (programs / code / "build" / "server").write_bytes(bytes(300_000))
    (programs / "measuring.lock").touch()
    return engines, programs


def test_it_prints_entries_sizes_and_folders(call: Call, folders: tuple[Path, Path]) -> None:
    result = call("cache")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[2] == ["engines", "2", "3.5", "MB", str(folders[0])]
    assert rows[3] == ["C", "programs", "2", "0.6", "MB", str(folders[1])]
    assert rows[4] == ["C", "source:", str(folders[0] / f"{ENGINE}.c")]
    assert json.loads(call("cache", "--json").stdout) == {
        "engines": {"folder": str(folders[0]), "entries": 2, "bytes": 3_500_000},
        "C programs": {"folder": str(folders[1]), "entries": 2, "bytes": 600_000},
    }


def test_an_empty_cache_is_no_error(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", str(tmp_path / "absent"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "absent"))
    assert json.loads(call("cache", "--clear", "--json").stdout)["engines"]["entries"] == 0


def test_clearing_leaves_what_is_used_and_what_is_not_its_own(
    call: Call, folders: tuple[Path, Path]
) -> None:
    engines, programs = folders
    (engines / "mine.so").touch()
    with cache.locked(engines / f"{ENGINE}.lock", wait_s=0):  # another run compiles it
        result = call("cache", "--clear")
    assert "engines: 1 removed, 1 in use" in result.stderr
    assert "C programs: 2 removed" in result.stderr
    assert sorted(path.name for path in engines.iterdir()) == [
        "mine.so",
        f"{ENGINE}.c",
        f"{ENGINE}.so",
    ]
    assert [path.name for path in programs.iterdir()] == ["measuring.lock"]


def test_nothing_is_removed_where_others_could_have_put_a_link(
    call: Call, folders: tuple[Path, Path]
) -> None:
    folders[0].chmod(0o777)
    result = call("cache", "--clear")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {folders[0]}: must not be writable by others")
    assert (folders[0] / f"{ENGINE}.so").exists()


def test_without_a_home_folder_it_says_what_to_set(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    result = call("cache")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: ~: there is no home folder to keep compiled code in: set XDG_CACHE_HOME\n"
    )


def test_why_a_folder_is_not_used(
    call: Call, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not used" not in call("cache").stdout
    folders[0].chmod(0o777)
    assert (
        f"{folders[0]} is not used: {folders[0]}: must not be writable by" in call("cache").stdout
    )
    open_to_all = folders[0].parent / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", str(open_to_all))
    assert f"{open_to_all}: must not be writable by others" in call("cache").stdout
    file = folders[0].parent / "file"
    file.touch()
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", str(file))
    assert f"{file / 'native'} is not used: {file}: must be a folder" in call("cache").stdout
    content = json.loads(call("cache", "--json").stdout)
    assert content["engines"]["not_used"] == f"{file}: must be a folder"
    assert "not_used" not in content["C programs"]


def test_a_folder_that_cannot_be_written_is_not_used(
    call: Call, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # By root all can be written but where a file system is read only.
    monkeypatch.setattr(os, "access", lambda path, mode: path != folders[0])
    assert f"{folders[0]}: must be a folder that this user can write to" in call("cache").stdout
