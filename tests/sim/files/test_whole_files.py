"""Files that are written whole: by many threads at once, and never with another mode."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dispatchsim.sim.files.whole_files import write_whole


def test_threads_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    contents = [str(n) * 10_000 for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: write_whole(path, content), contents * 10))
    assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("umask", "mode", "expected"),
    [(0o022, 0o666, 0o644), (0o027, 0o666, 0o640), (0o022, 0o600, 0o600), (0, 0o600, 0o600)],
)
def test_a_file_has_its_mode_before_its_name(
    umask: int, mode: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    replace = Path.replace

    def noted(part: Path, target: Path) -> Path:
        modes.append(stat.S_IMODE(part.stat().st_mode))
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", noted)
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "outcome.json", "{}", mode=mode)
    finally:
        os.umask(before)
    assert modes == [expected]
