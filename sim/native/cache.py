"""The user's cache of compiled code: its folder, one builder for each entry, its clean-up.

    <cache>/native/  NAME-KEY.so              a library, with its checksum
                     NAME-KEY.c               its source, with DISPATCHSIM_KEEP_C=1
                     NAME-KEY.engine          the C of a built-in engine, with its checksum
                     NAME-KEY.lock            while a process builds it
                     NAME-KEY.XYZ.building/   a leftover as soon as no process holds that lock
                     NAME-KEY.SUFFIX.XYZ.part likewise

The kernel holds the locks, so they end with their process, however that ends. A process that uses
an entry holds a shared lock on it. An entry is removed if no process uses it and none has for 30
days.

Sources: XDG Base Directory Specification; flock(2).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ..files.whole_files import PART, write_whole
from . import trust

CACHE_VARIABLE = "DISPATCHSIM_CACHE_DIR"
"""Names the folder for compiled engines; unset: the user's cache folder."""
BUILDING = ".building"
_OF_BUILDERS = (BUILDING, PART, ".lock")
OLD_S = 30 * 24 * 3600.0
_MARKED_S = 24 * 3600.0
_POLL_S = 0.02
_CHECKSUM_BYTES = hashlib.sha256().digest_size
_held: dict[tuple[int, int], int] = {}
"""Descriptors of what this process uses, by file: it holds their locks until it ends."""


class DamagedError(Exception):
    """A cache entry is damaged, or not for this machine."""


class CacheWarning(UserWarning):
    """Compiled code cannot be stored, or was not trusted; the message is one sentence."""


def user_folder() -> Path:
    """Return the user's cache folder of this program, existing or not.

    Raises
    ------
    OSError
        If the user has no home folder.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        # The specification: a relative path is invalid, and ignored.
        return (base if base.is_absolute() else Path.home() / ".cache") / "dispatchsim"
    except RuntimeError:
        why = "There is no home folder to keep compiled code in: set XDG_CACHE_HOME"
        raise FileNotFoundError(errno.ENOENT, why, "~") from None


def engine_folder() -> Path:
    """Return where compiled engines are kept, existing or not; errors as for `user_folder`."""
    named = os.environ.get(CACHE_VARIABLE)
    return (Path(named) if named else user_folder()) / "native"


def make_folder(path: Path) -> None:
    """Make *path* and missing folders above it, for this user alone, despite the umask."""
    for folder in (*reversed(path.parents), path):
        with contextlib.suppress(FileExistsError):
            if not folder.is_dir():
                folder.mkdir(mode=0o700)


@contextlib.contextmanager
def locked(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock of the file *path*, which is removed at the end.

    Raises
    ------
    TimeoutError
        If another process has it for all of *wait_s*.
    """
    deadline = time.monotonic() + wait_s
    descriptor = _locked_file(path, deadline)
    try:
        yield
    finally:
        # While it is held: a process that waits for this file then finds another file of this
        # name, or none, and tries that one.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked_file(path: Path, deadline: float) -> int:
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            while not _took_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"{path}: another process keeps this lock")
                time.sleep(_POLL_S)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _took_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write(path: Path, content: bytes) -> None:
    """Keep *content* as the entry *path*; the caller holds its lock."""
    # For this user alone, despite the umask: another mode would not be trusted. With its
    # checksum, since a library that was cut short may crash the process that loads it.
    write_whole(path, content + hashlib.sha256(content).digest(), mode=0o600)


def read(path: Path) -> bytes:
    """Return the content of the entry *path*, which stays as long as this process runs.

    Raises
    ------
    DamagedError
        If it is damaged, or is being removed.
    UntrustedError
        If another user could have written it.
    OSError
        If it is not there.
    """
    with trust.opened(path) as descriptor:
        with open(descriptor, "rb", closefd=False) as file:
            whole = file.read()
        content, checksum = whole[:-_CHECKSUM_BYTES], whole[-_CHECKSUM_BYTES:]
        if hashlib.sha256(content).digest() != checksum:
            raise DamagedError("its checksum is wrong")
        if not hold(descriptor):
            raise DamagedError("it is being removed")
    return content


def hold(descriptor: int) -> bool:
    """Keep what *descriptor* has open from being removed as long as this process runs.

    Return whether that is possible: an entry that is being removed is lost. The time of its last
    use is noted.
    """
    status = os.fstat(descriptor)
    # A file system may have no such locks, or be read only.
    with contextlib.suppress(OSError):
        if not _took_lock(descriptor, fcntl.LOCK_SH):
            return False
        if (status.st_dev, status.st_ino) not in _held:
            _held[status.st_dev, status.st_ino] = os.dup(descriptor)
        if time.time() - status.st_mtime > _MARKED_S:
            os.utime(descriptor)
    return True


def remove(path: Path, *, unused_s: float = 0.0) -> bool:
    """Remove the entry *path*, a file or a folder, with its source; return whether it is gone.

    Entries that a process builds or uses stay, and entries used within *unused_s*.
    """
    try:
        with locked(lock_of(path), wait_s=0):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                age_s = time.time() - os.fstat(descriptor).st_mtime
                if age_s < unused_s or not _took_lock(descriptor, fcntl.LOCK_EX):
                    return False
                _delete(path)
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        return
    path.with_suffix(".c").unlink(missing_ok=True)
    path.unlink()


def lock_of(path: Path) -> Path:
    """Return the lock file of builders of the entry *path*.

    >>> lock_of(Path("poll-1f.so")).name, lock_of(Path("poll-1f.x7.building")).name
    ('poll-1f.lock', 'poll-1f.lock')
    """
    return path.with_name(path.name.partition(".")[0] + ".lock")


def tidy(folder: Path, *patterns: str) -> None:
    """Remove leftovers of killed builds in *folder*, and unused entries that match *patterns*."""
    for left in (*folder.glob(f"*{BUILDING}"), *folder.glob(f"*{PART}")):
        with contextlib.suppress(OSError), locked(lock_of(left), wait_s=0):
            if left.suffix == PART:
                left.unlink(missing_ok=True)
            else:
                shutil.rmtree(left, ignore_errors=True)
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        if path.suffix in _OF_BUILDERS:
            continue
        # Before its lock is taken, which would keep others waiting: nearly all are in use.
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > OLD_S:
                remove(path, unused_s=OLD_S)


def sentence(error: OSError) -> str:
    """Return the message to the user for *error*.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "/x"))
    '/x: no such file or directory'
    """
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error)
