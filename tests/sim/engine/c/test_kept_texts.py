"""The C of built-in engines, kept by the sources that it was made from."""

from __future__ import annotations

import linecache
import os
import re
import time
from pathlib import Path

import pytest

from dispatchsim.models.built_in import BuiltIn, built_in_programs
from dispatchsim.sim.engine.c import library, source
from dispatchsim.sim.engine.c.layout import record_type
from dispatchsim.sim.engine.c.source import FaultError, source_of
from dispatchsim.sim.engine.c.translate import SELDOM
from dispatchsim.sim.native import cache

POLL: BuiltIn = next(each for each in built_in_programs() if each.kept_as == "poll")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of kept texts, for a process that has translated nothing yet."""
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(library, "_texts", {})
    return tmp_path / "cache" / "native"


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for all sources, as it was when they were imported."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "poll.py").write_text("COST_NS = 1\n")
    monkeypatch.setattr(library, "SOURCE_FOLDERS", (folder,))
    monkeypatch.setattr(library, "SOURCES_HASH", library._hash_of_sources())
    return folder


def text() -> str:
    """Return the C of poll's engine in a process that has translated nothing yet."""
    library._texts.clear()
    return library.engine_text(POLL.program, record_type(POLL.world), kept_as="poll")


def test_the_next_process_finds_the_text(
    folder: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = text()
    (kept,) = folder.iterdir()
    assert kept.name.endswith(f"-{library.SOURCES_HASH}.engine")
    monkeypatch.setattr(library, "_translated", None)
    assert text() == made


def test_every_function_that_is_called_seldom_is_in_an_engine(folder: Path, sources: Path) -> None:
    marked = re.findall(r"\(noinline, cold\)\) .*?\bf_(\w+)\(", text())
    assert sorted(marked) == sorted(SELDOM)


def test_a_text_that_is_read_every_day_is_kept(folder: Path, sources: Path) -> None:
    text()
    (kept,) = folder.iterdir()
    long_ago_s = time.time() - 40 * 24 * 3600
    os.utime(kept, times=(long_ago_s, long_ago_s))
    text()
    assert kept.stat().st_mtime > time.time() - 3600
    os.utime(kept, times=(long_ago_s, long_ago_s))
    cache.tidy(folder, "*.engine")  # this process uses it
    assert kept.exists()


def test_nothing_is_kept_once_a_source_was_edited(folder: Path, sources: Path) -> None:
    (sources / "poll.py").write_text("COST_NS = 2\n")
    text()
    assert not folder.exists()


def test_a_built_in_function_whose_file_was_edited_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "built_in.py"
    monkeypatch.setattr(source, "SOURCE_FOLDERS", (tmp_path,))
    file.write_text("def cost_ns():\n    return 1\n")
    names: dict[str, object] = {}
    exec(compile(file.read_text(), file, "exec"), names)
    cost_ns = names["cost_ns"]
    assert callable(cost_ns)
    assert source_of(cost_ns).arguments == []
    file.write_text("def cost_ns():\n    return 2\n")
    os.utime(file, times=(time.time() + 10,) * 2)
    linecache.checkcache(str(file))
    with pytest.raises(FaultError, match=r"built_in\.py has changed since cost_ns was defined"):
        source_of(cost_ns)
