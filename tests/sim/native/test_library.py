"""Libraries: compiled once, found again, never taken from where others could have put them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import children
from tests.sim.native.compilers import ANSWER, Compilations

from dispatchsim.sim.native import library
from dispatchsim.sim.native.cache import CacheWarning
from dispatchsim.sim.native.library import is_ready, load, load_shipped

LOADING = f"""
import warnings
from dispatchsim.sim.native.library import load

warnings.simplefilter("always")
print(load("answer", {ANSWER!r}).answer())
"""


def answered() -> int:
    """Return what the library answers in a run that has loaded nothing before."""
    library._loaded.clear()
    return int(load("answer", ANSWER).answer())


@contextlib.contextmanager
def warned(sentence: str) -> Iterator[None]:
    """Expect one warning, which is a single sentence."""
    with pytest.warns(CacheWarning, match=sentence) as record:
        yield
    assert len(record) == 1
    assert "\n" not in str(record[0].message)


def kept(folder: Path) -> Path:
    (path,) = folder.glob("answer-*.so")
    return path


def compile_only(folder: Path) -> Path:
    """Return a library that another process has made: this one has not loaded it."""
    assert children.run(LOADING) == ("42\n", "")
    return kept(folder)


def test_a_text_is_compiled_once_and_loaded_once(folder: Path, compilations: Compilations) -> None:
    assert not is_ready("answer", ANSWER)
    first = load("answer", ANSWER)
    assert first.answer() == 42
    assert is_ready("answer", ANSWER)
    assert load("answer", ANSWER) is first
    assert answered() == 42
    assert children.run(LOADING) == ("42\n", "")
    assert compilations.count == 1
    assert [path.suffix for path in folder.iterdir()] == [".so"]


def test_another_text_or_other_flags_are_another_library(
    folder: Path, compilations: Compilations
) -> None:
    text = ANSWER.replace("42", "CHOSEN")
    for number in (1, 2):
        flags = (f"-DCHOSEN={number}",)
        assert not is_ready("answer", text, flags=flags)
        assert load("answer", text, flags=flags).answer() == number
    assert answered() == 42
    assert compilations.count == 3


def test_a_version_that_compiles_with_other_fixed_flags_finds_no_old_library(
    folder: Path, compilations: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answered() == 42
    monkeypatch.setattr("dispatchsim.sim.native.library.FLAGS", ("-O1",))
    assert answered() == 42
    assert compilations.count == 2


def test_kept_libraries_are_for_this_user_alone_whatever_the_umask_is(
    folder: Path, compilations: Compilations
) -> None:
    before = os.umask(0)
    try:
        assert answered() == 42
    finally:
        os.umask(before)
    for path in (folder.parent, folder, kept(folder)):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_shipped_library_needs_no_compiler(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "SHIPPED_FOLDER", tmp_path / "shipped")
    shipped = tmp_path / "shipped" / platform.machine() / "answer.so"
    shipped.parent.mkdir(parents=True)
    (tmp_path / "answer.c").write_text(ANSWER)
    subprocess.run(["gcc", "-shared", "-o", shipped, tmp_path / "answer.c"], check=True)
    monkeypatch.setenv("CC", "no-such-compiler")
    found = load_shipped("answer")
    assert found is not None
    assert found.answer() == 42
    assert load_shipped("another") is None
    assert not folder.exists()


def test_a_shipped_library_that_does_not_load_here_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "SHIPPED_FOLDER", tmp_path / "shipped")
    shipped = tmp_path / "shipped" / platform.machine() / "answer.so"
    shipped.parent.mkdir(parents=True)
    shipped.write_text("for another C library")
    with warned("cannot be loaded here"):
        assert load_shipped("answer") is None
    assert load_shipped("answer") is None


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def of_another_processor(content: bytes) -> bytes:
    """Return the library as RISC-V's: e_machine in the header (elf(5)), the checksum right."""
    other = content[:18] + (243).to_bytes(2, "little") + content[20:-32]
    return other + hashlib.sha256(other).digest()


@pytest.mark.parametrize("damage", [cut, flipped, of_another_processor, lambda _: b""])
def test_a_damaged_library_is_compiled_again_once(
    damage: Callable[[bytes], bytes], folder: Path, compilations: Compilations
) -> None:
    path = compile_only(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert answered() == 42
    assert compilations.count == 2
    assert children.run(LOADING) == ("42\n", "")
    assert compilations.count == 2


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def of_somebody_else(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 65534, 65534)


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (as_link, r"answer-\w+\.so: must not be a symbolic link: remove it$"),
        (lambda path: path.chmod(0o620), r"must not be writable by others, .* 0620: chmod go-w /"),
        (lambda path: path.chmod(0o602), r"must not be writable by others, .* 0602: chmod go-w /"),
        (of_somebody_else, r"must be owned by this user or root, .* its owner is user 65534$"),
        (as_pipe, r"must be a regular file: remove it$"),
    ],
)
def test_a_file_that_others_could_have_written_is_refused_and_made_anew(
    change: Callable[[Path], object], sentence: str, folder: Path, compilations: Compilations
) -> None:
    change(compile_only(folder))
    with warned(sentence):
        assert answered() == 42
    assert compilations.count == 2
    assert children.run(LOADING) == ("42\n", "")
    assert compilations.count == 2


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("others", [0o020, 0o002])
def test_a_folder_that_others_can_exchange_is_not_used(
    above: int, others: int, folder: Path, compilations: Compilations
) -> None:
    assert answered() == 42
    wide = [folder, folder.parent][above]
    wide.chmod(0o700 | others)
    mode = f"{0o700 | others:04o}"
    with warned(f"{wide}: must not be writable by others, .* {mode}: chmod go-w {wide} \\("):
        assert answered() == 42
    assert compilations.count == 2
    wide.chmod(0o700)
    assert answered() == 42
    assert compilations.count == 2


def test_where_nothing_can_be_kept_each_process_compiles_for_itself(
    folder: Path, compilations: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.write_text("a file where the folder should be")
    with warned("compiled code cannot be stored, so every process compiles it again: "):
        assert answered() == 42
    # Not even root can make a folder there.
    monkeypatch.setenv("DISPATCHSIM_CACHE_DIR", "/proc/dispatchsim")
    with warned("/proc/dispatchsim: no such file or directory"):
        assert answered() == 42
    monkeypatch.delenv("DISPATCHSIM_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with warned("there is no home folder to keep compiled code in: set XDG_CACHE_HOME"):
        assert answered() == 42
    assert compilations.count == 3


def on_a_mount(mount: str, script: str, folder: Path) -> tuple[str, str]:
    """Return what *script* prints where the shell has done *mount* to `$0`, which holds *folder*.

    That is the folder for temporary files, too.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    unshared = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', str(folder.parent)]
    tried = subprocess.run([*unshared, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no mounts of our own here: {tried.stderr.strip()}")
    finished = subprocess.run(
        [*unshared, sys.executable, "-P", "-c", script],
        env={**os.environ, "TMPDIR": str(folder.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, finished.stderr


TWICE = f"""{LOADING}
import subprocess
import sys

if len(sys.argv) == 1:
    sys.stdout.flush()
    subprocess.run([sys.executable, *sys.orig_argv[1:], "again"])
"""


def test_a_read_only_folder_gives_what_it_has_and_keeps_nothing(
    folder: Path, compilations: Compilations
) -> None:
    compile_only(folder)
    read_only = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
    assert on_a_mount(read_only, LOADING, folder) == ("42\n", "")
    assert compilations.count == 1
    other = LOADING.replace('"answer"', '"other"')
    printed, messages = on_a_mount(read_only, other, folder)
    assert printed == "42\n"
    assert "so every process compiles it again: " in messages
    assert "read-only file system" in messages


def test_a_folder_mounted_noexec_keeps_libraries_that_are_loaded_from_memory(
    folder: Path, compilations: Compilations
) -> None:
    assert on_a_mount('mount -t tmpfs -o noexec,mode=0700 tmpfs "$0"', TWICE, folder) == (
        "42\n42\n",
        "",
    )
    assert compilations.count == 1


def test_on_a_full_disk_the_library_is_compiled_in_memory(
    folder: Path, compilations: Compilations
) -> None:
    printed, messages = on_a_mount('mount -t tmpfs -o size=12k,mode=0700 tmpfs "$0"', TWICE, folder)
    assert printed == "42\n42\n"
    assert "compiled code cannot be stored" in messages
    assert "o space left on device" in messages


def test_a_compilation_that_was_killed_leaves_nothing_in_the_way(
    folder: Path, tmp_path: Path, compiler_does: Callable[[str], None]
) -> None:
    started = tmp_path / "started"
    compiler_does(f'echo half > library.so; echo $$ > "{started}"; exec sleep 600')
    with children.start(LOADING) as child:
        while not (started.exists() and started.read_text().endswith("\n")):
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
    (left,) = folder.glob("*.building")
    assert (left / "library.so").exists()
    try:
        compiler_does('exec gcc "$@"')
        assert answered() == 42
        # The compiler that outlived the first run holds up nobody.
        assert Path(f"/proc/{int(started.read_text())}").exists()
    finally:
        os.kill(int(started.read_text()), signal.SIGKILL)
    assert [path.name for path in folder.iterdir()] == [kept(folder).name]


def test_processes_that_want_the_same_library_compile_it_once(
    folder: Path, compilations: Compilations, compiler_does: Callable[[str], None]
) -> None:
    # Slow enough for the others to come before it is ready.
    compiler_does(f'echo compiled >> "{compilations.log}"; sleep 1; exec gcc "$@"')
    running = [children.start(LOADING) for _ in range(3)]
    assert [children.finished(child) for child in running] == [("42\n", "")] * 3
    assert compilations.count == 1


def test_threads_load_different_libraries_at_once(folder: Path, compilations: Compilations) -> None:
    answers: dict[int, int] = {}

    def ask(number: int) -> None:
        answers[number] = load("answer", ANSWER.replace("42", str(number))).answer()

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2, 3, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {1: 1, 2: 2, 3: 3}
    assert compilations.count == 3


def test_the_c_text_is_kept_beside_its_library_on_request(
    folder: Path, compilations: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answered() == 42
    monkeypatch.setenv("DISPATCHSIM_KEEP_C", "1")
    assert answered() == 42
    assert kept(folder).with_suffix(".c").read_text() == ANSWER
    assert compilations.count == 1


def test_another_value_than_1_keeps_no_c_text_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPATCHSIM_KEEP_C", "yes")
    rule = "^DISPATCHSIM_KEEP_C: must be 1 to keep the C beside its library, got yes$"
    with pytest.warns(CacheWarning, match=rule):
        assert answered() == 42
    assert not kept(folder).with_suffix(".c").exists()


def test_names_cannot_leave_the_folder(folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"name: must be of letters, digits and _, got '\.\./poll'"
    ):
        load("../poll", ANSWER)
