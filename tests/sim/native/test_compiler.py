"""The compiler: which one, asked in which way, and one sentence for all that goes wrong with it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import children
from tests.sim.native.compilers import ANSWER

from dispatchsim.sim.native import compiler
from dispatchsim.sim.native.compiler import CompilerFailedError, NoCompilerError, find_compiler
from dispatchsim.sim.native.library import load

Does = Callable[[str], None]

WRAPS = '__attribute__((visibility("default"))) int grows(int n) { return n + 1 > n; }\n'


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on the search path, which is empty."""

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    return empty


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or is but an entry that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_both_compilers_make_a_library_whose_integers_wrap(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("CC", name)
    assert load("answer", ANSWER).answer() == 42
    assert load("wraps", WRAPS).grows(2**31 - 1) == 0
    (answer,) = folder.glob("answer-*.so")
    assert find_compiler().command == (shutil.which(name),)
    assert len(answer.stem) == len("answer-") + 20


def test_the_compiler_of_python_makes_one_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip('ziglang is not installed: pip install "dispatchsim[compiler]"')
    monkeypatch.setenv("CC", shlex.join([sys.executable, "-m", "ziglang", "cc"]))
    assert load("wraps", WRAPS).grows(2**31 - 1) == 0
    # However it was chosen: otherwise it compiles for this very processor.
    assert "-mcpu=baseline" in find_compiler().own_flags


def test_without_a_compiler_one_sentence_says_what_to_install(
    folder: Path, nothing_installed: Path
) -> None:
    with pytest.raises(NoCompilerError) as caught:
        load("answer", ANSWER)
    assert str(caught.value) == (
        "there is no C compiler (cc, gcc, clang or $CC): apt-get install gcc libc6-dev, or "
        'pip install "dispatchsim[compiler]"'
    )


def test_the_compiler_of_python_is_the_last_choice(
    folder: Path, nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", {"ziglang": "0.15.1"}.__getitem__)
    assert find_compiler().command[1:] == ("-m", "ziglang", "cc")
    assert "ziglang 0.15.1" in find_compiler().identity
    # Otherwise it compiles for this very processor.
    assert "-mcpu=baseline" in find_compiler().own_flags
    for name in ("clang", "gcc", "cc"):
        found = nothing_installed / name
        found.write_text("#!/bin/sh\n")
        found.chmod(0o755)
        compiler._find.cache_clear()
        assert find_compiler().command == (str(found),)
    compiler._find.cache_clear()


def test_a_compiler_that_was_asked_for_must_be_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc-99 -m64")
    with pytest.raises(NoCompilerError, match=r"^CC: .* there is no program gcc-99: unset it, or "):
        load("answer", ANSWER)
    monkeypatch.setenv("CC", "")
    assert load("answer", ANSWER).answer() == 42


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("kill -SEGV $$", "was ended by SIGSEGV"),
        ("sh -c 'kill -KILL $$'; exit $?", "was ended by SIGKILL"),
        (
            "echo 'poll.c:7: error: that way' >&2; exit 1",
            "exit status 1: poll.c:7: error: that way",
        ),
        ("exit 3", "fails with exit status 3: .* printed nothing"),
        ("exit 0", "reports success but has made no library: is it a C compiler?"),
        ("echo nonsense > library.so", "fake-cc made cannot be loaded: .*file too short"),
        (
            """echo "cc1: error: unrecognized command line option '-std=gnu11'" >&2; exit 1""",
            "is too old, gcc 5 or clang 11 is needed: cc1: error: unrecognized",
        ),
        (
            "echo 'poll.c:1:10: fatal error: stdint.h: No such file or directory' >&2; exit 1",
            "lacks the headers of the C library, apt-get install libc6-dev: poll.c:1:10: fatal",
        ),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_the_next_run_works(
    script: str,
    sentence: str,
    folder: Path,
    compiler_does: Does,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler_does(script)
    with pytest.raises(CompilerFailedError, match=sentence.replace("?", r"\?")) as caught:
        load("answer", ANSWER)
    assert "\n" not in str(caught.value)
    assert list(folder.glob("*.building")) == []
    monkeypatch.delenv("CC")
    assert load("answer", ANSWER).answer() == 42


def test_an_error_names_the_file_and_the_line_of_the_c_text(folder: Path) -> None:
    with pytest.raises(CompilerFailedError, match=r"broken-\w{20}\.c:2:\d+: error: "):
        load("broken", "int fine;\nint broken = = 1;\n")
    with pytest.raises(CompilerFailedError, match=r"poll\.py:17:\d+: error: "):
        load("broken", '#line 17 "models/poll.py"\nint broken = = 1;\n')


def test_a_compiler_that_hangs_is_stopped_with_all_that_it_has_started(
    folder: Path, tmp_path: Path, compiler_does: Does, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "COMPILE_SECONDS_MAX", 0.5)
    compiler_does(f'sleep 600 & echo $! > "{tmp_path}/started"\nwait')
    with pytest.raises(CompilerFailedError, match="has not ended after 0 s and was stopped"):
        load("answer", ANSWER)
    wait_until(lambda: has_ended(int((tmp_path / "started").read_text())))


def test_a_compiler_that_does_not_say_what_it_is_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dumb"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(CompilerFailedError, match="dumb fails with exit status 1"):
        load("answer", ANSWER)
    path.write_bytes(b"\x7fnot a program")
    with pytest.raises(CompilerFailedError, match=r"dumb cannot be run: Exec format error"):
        load("answer", ANSWER)


def test_ctrl_c_ends_a_compilation_at_once(
    folder: Path, tmp_path: Path, compiler_does: Does
) -> None:
    started = tmp_path / "started"
    compiler_does(
        f'sleep 600 & echo $! > "{tmp_path}/part"; mv "{tmp_path}/part" "{started}"\nwait'
    )
    script = f"from dispatchsim.sim.native.library import load\nload('answer', {ANSWER!r})"
    with children.start(script) as child:
        wait_until(started.exists)
        child.send_signal(signal.SIGINT)
        _, messages = child.communicate(timeout=60)
    assert messages.rstrip().endswith("KeyboardInterrupt")
    wait_until(lambda: has_ended(int(started.read_text())))
    assert [path.name for path in folder.iterdir()] == []


def test_what_a_shell_exports_for_other_programs_changes_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stdint.h").write_text("#error taken from CPATH\n")
    for name in ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("CFLAGS", "--no-such-flag")
    assert load("answer", f"#include <stdint.h>\n{ANSWER}").answer() == 42


def test_another_version_of_the_compiler_has_another_key(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in (1, 2):
        path = tmp_path / "cc"
        path.write_text(
            f'#!/bin/sh\nif [ "$1" = -v ]; then echo "version {version}" >&2; exit 0; fi\n'
            'exec gcc "$@"\n'
        )
        path.chmod(0o755)
        monkeypatch.setenv("CC", str(path))
        compiler._find.cache_clear()
        load(f"answer{version}", ANSWER)
    digests = {path.stem.partition("-")[2] for path in folder.glob("*.so")}
    assert len(digests) == 2
    assert os.listdir(folder) != []
