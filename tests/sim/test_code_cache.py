"""Compiled code on disk: found again, never the wrong one, and nobody else's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from numba import njit, types
from tests import children
from tests.models.corpus import CORPUS
from tests.scenes import on_fast

from dispatchsim.sim.compiled import code_cache
from dispatchsim.sim.compiled.code_cache import CACHE_VARIABLE, CodeCache, cache_root


class Watched(CodeCache):
    """A cache that remembers whether it had what was asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.found = False

    def load_overload(self, signature: Any, target: Any) -> Any:
        kept = super().load_overload(signature, target)
        self.found = kept is not None
        return kept


def is_found(name: str = "double", factor: int = 2) -> bool:
    """Make *factor* times as much of something; return whether that needed no compiler."""

    @njit()  # type: ignore[untyped-decorator, unused-ignore]
    def multiple(number):  # type: ignore[no-untyped-def]
        return factor * number

    dispatcher: Any = multiple
    dispatcher._cache = cache = Watched(name)
    with cache.in_turn():
        dispatcher.compile(types.int64(types.int64))
    assert multiple(21) == 21 * factor
    return cache.found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of compiled code, which is not there yet."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "code"))
    return tmp_path / "code"


def kept_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("code-*/*") if path.name[:5] != "turn-")


def test_what_was_compiled_is_found_again_by_its_name(folder: Path) -> None:
    assert not is_found()
    assert is_found()
    assert not is_found("treble", 3)
    assert is_found("treble", 3)
    assert is_found()
    assert len(kept_files(folder)) == 2
    assert (folder.stat().st_mode | kept_files(folder)[0].parent.stat().st_mode) & 0o022 == 0


def test_changed_sources_have_a_folder_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_found()
    with monkeypatch.context() as changed:
        changed.setattr(code_cache, "source_hash", lambda: "another")
        assert not is_found()
        assert is_found()
    assert is_found()
    assert len({path.parent for path in kept_files(folder)}) == 2


def test_the_hash_is_of_every_source_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(code_cache.__file__).parents[2]
    for source in [*package.glob("sim/**/*.py"), *package.glob("models/*.py")]:
        copy = tmp_path / source.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    monkeypatch.setattr(code_cache, "__file__", str(tmp_path / "sim/compiled/code_cache.py"))
    hashes = [code_cache.source_hash.__wrapped__()]
    assert hashes == [code_cache.source_hash.__wrapped__()]
    for name in ("sim/processor.py", "sim/compiled/records.py", "models/epoll_level.py"):
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        hashes.append(code_cache.source_hash.__wrapped__())
    (tmp_path / "sim/processor.py").rename(tmp_path / "sim/renamed.py")
    hashes.append(code_cache.source_hash.__wrapped__())
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("kept", [0, 1, 500, -1])
def test_a_file_that_is_cut_short_or_nonsense_is_compiled_anew(folder: Path, kept: int) -> None:
    assert not is_found()
    (path,) = kept_files(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept] if kept >= 0 else b"\x80nonsense" * 99)
    assert not is_found()
    assert is_found()


def test_no_place_for_code_is_no_obstacle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file where the folder should be")
    assert not is_found()
    assert not is_found()
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert cache_root() == Path(os.devnull)
    assert not is_found()


def test_a_folder_that_may_not_be_written_is_no_obstacle(folder: Path) -> None:
    folder.mkdir(mode=0o500)
    try:
        assert not is_found()
        # Who may do anything, may write there, too.
        assert is_found() == (os.geteuid() == 0)
    finally:
        folder.chmod(0o700)


@pytest.mark.parametrize("others", [0o020, 0o002])
def test_code_is_not_taken_from_where_others_can_put_it(folder: Path, others: int) -> None:
    assert not is_found()
    (path,) = kept_files(folder)
    path.parent.chmod(0o700 | others)
    assert not is_found()
    path.parent.chmod(0o700)
    assert is_found()


def test_code_is_not_taken_from_a_folder_of_somebody_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_found()
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(folder).st_uid + 1)
    assert not is_found()


SIDE_BY_SIDE = """
from tests.sim.test_code_cache import is_found

print([is_found(f"times {n}", n) for n in range(30)].count(True))
"""


def test_of_processes_side_by_side_one_compiles_and_the_other_waits(tmp_path: Path) -> None:
    variables = {CACHE_VARIABLE: str(tmp_path)}
    both = [children.start(SIDE_BY_SIDE, **variables) for _ in range(2)]
    assert sum(int(children.finished(child)[0]) for child in both) == 30
    # A third one has nothing left to compile, and nothing half written lies about.
    assert children.run(SIDE_BY_SIDE, **variables)[0] == "30\n"
    assert [path.suffix for path in kept_files(tmp_path)] == [".bin"] * 30


ENGINE = """
from tests.models.corpus import CORPUS
from tests.scenes import on_fast, on_reference

scene, _ = CORPUS["packets everywhere, workers on two CPUs"]
print(on_reference(scene)[0].same_as(on_fast(scene)))
"""


def test_another_process_runs_an_engine_without_the_compiler() -> None:
    scene, _ = CORPUS["packets everywhere, workers on two CPUs"]
    on_fast(scene)  # by now it is compiled, in this run of the tests or before
    assert children.run(ENGINE) == ("True\n", "")
