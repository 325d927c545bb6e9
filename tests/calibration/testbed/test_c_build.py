"""C programs: built once a version, and run only from where nobody else can have put them."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import children

from dispatchsim.calibration.testbed.c_build import BuildError, Programs, build
from dispatchsim.sim.native import cache
from dispatchsim.sim.native.cache import CacheWarning

NAMES = (
    "server",
    "load",
    "far_end",
    "idle",
    "micro",
    "flood",
    "progress",
    "keeper",
    "rules",
    "memory",
)
# `make` that only copies a program, and notes that it was asked to.
MAKEFILE = """\
all:
\techo built >> "{log}"
\t{before}
\tmkdir -p $(BUILD)
\tfor name in {names}; do cp /bin/true $(BUILD)/$$name; done
"""
BUILDING = """
from pathlib import Path
from dispatchsim.calibration.testbed.c_build import build

print(build(Path({folder!r})).code)
"""


class Sources:
    """Sources that are soon built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.with_name("log")
        self.cache = folder.with_name("cache") / "dispatchsim"
        self.make("true")

    def make(self, before: str) -> None:
        """Have `make` do something before it makes the programs: another version of the sources."""
        (self.folder / "c").mkdir(parents=True, exist_ok=True)
        (self.folder / "c/Makefile").write_text(
            MAKEFILE.format(log=self.log, before=before, names=" ".join(NAMES))
        )

    def build(self) -> Programs:
        return build(self.folder)

    @property
    def n_builds(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    @property
    def script(self) -> str:
        return BUILDING.format(folder=str(self.folder))


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    if shutil.which("make") is None or shutil.which("gcc") is None:
        pytest.skip("gcc and make are not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Sources(tmp_path / "sources")


def test_programs_are_built_once_a_version(sources: Sources) -> None:
    programs = sources.build()
    assert sources.build() == programs
    assert sources.n_builds == 1
    assert all(os.access(programs.path(name), os.X_OK) for name in NAMES)
    assert [path.name for path in sources.cache.iterdir()] == [programs.code]
    sources.make(": another version")
    assert sources.build().code != programs.code
    assert sources.n_builds == 2


def test_programs_are_for_this_user_alone_whatever_the_umask_is(sources: Sources) -> None:
    before = os.umask(0)
    try:
        sources.build()
        sources.build()
    finally:
        os.umask(before)
    assert sources.n_builds == 1


def as_link(program: Path) -> None:
    program.unlink()
    program.symlink_to("/bin/true")


def of_somebody_else(program: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(program, 65534, 65534)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda program: program.chmod(0o720), r"/server: must not be writable by others"),
        (lambda program: program.parent.chmod(0o777), r"/build: must not be writable by others"),
        (as_link, r"/server: must not be a symbolic link"),
        (of_somebody_else, r"/server: must be owned by this user or root"),
    ],
)
def test_a_program_that_others_could_have_written_is_built_again(
    change: Callable[[Path], None], sentence: str, sources: Sources
) -> None:
    program = Path(sources.build().path("server"))
    change(program)
    with pytest.warns(CacheWarning, match=f"built again: .*{sentence}"):
        sources.build()
    assert sources.n_builds == 2
    assert program.is_file()
    assert not program.is_symlink()
    sources.build()
    assert sources.n_builds == 2


def test_nothing_is_run_from_a_cache_that_others_may_write_to(sources: Sources) -> None:
    sources.build()
    sources.cache.chmod(0o777)
    with pytest.raises(BuildError) as caught:
        sources.build()
    assert str(caught.value) == (
        f"the C programs cannot be kept: {sources.cache}: must not be writable by others, as code "
        f"is run from there, but its mode is 0777: chmod go-w {sources.cache}"
    )
    sources.cache.chmod(0o700)
    sources.build()
    assert sources.n_builds == 1


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_cache_that_cannot_be_written_is_refused_with_the_cure(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(cache, "make_folder", refuse)
    with pytest.raises(BuildError) as caught:
        sources.build()
    assert str(caught.value) == (
        f"the C programs cannot be kept: {sources.cache}: {os.strerror(number).lower()}: "
        "set XDG_CACHE_HOME to a folder that this user can write to"
    )


def test_an_error_of_make_is_one_sentence(sources: Sources) -> None:
    sources.make("echo 'server.c:3: error: that way' >&2; exit 1")
    with pytest.raises(BuildError, match=r"^the C programs do not build: server\.c:3: error: that"):
        sources.build()
    assert list(sources.cache.iterdir()) == []


def test_processes_that_want_the_same_programs_build_them_once(sources: Sources) -> None:
    sources.make("sleep 1")
    running = [children.start(sources.script) for _ in range(3)]
    codes = {children.finished(child)[0] for child in running}
    assert len(codes) == 1
    assert sources.n_builds == 1


def test_a_build_that_was_killed_leaves_nothing_in_the_way(
    sources: Sources, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.touch()
    sources.make(f'while [ -e "{blocked}" ]; do sleep 0.05; done')
    with children.start(sources.script) as child:
        while sources.n_builds == 0:
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
    assert any(path.suffix == ".building" for path in sources.cache.iterdir())
    blocked.unlink()
    programs = sources.build()
    assert [path.name for path in sources.cache.iterdir()] == [programs.code]
