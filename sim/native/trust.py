"""Files that are run as code: opened only if just this user and root could have written them.

    /  home  me  .cache  dispatchsim  native  epoll-1f.so
    └── every folder: owned by this user or root, written to by nobody else ──┘
        (in a sticky one, as /tmp, others cannot rename or remove what is ours)

Each name is looked up in the open folder before it, so that what was checked is what is opened.
Afterwards nobody else can make the path mean another file: `dlopen` or `execve` may be given it.

Sources: path_resolution(7); open(2), O_NOFOLLOW and O_PATH; inode(7), the sticky bit; acl(5), the
mask is shown as the permissions of the group.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

_ROOT_USER = 0
_WRITABLE_BY_GROUP, _WRITABLE_BY_OTHERS = stat.S_IWGRP, stat.S_IWOTH
_LINKS_MAX = 40
"""Symbolic links on one path, as in the kernel (path_resolution(7))."""
_ACL = "system.posix_acl_access"


class UntrustedError(OSError):
    """Another user could have put a file there; the message is one sentence with the cure."""


def check_folder(path: Path) -> None:
    """Raise unless only this user and root can put a file into *path*, or another folder there.

    Raises
    ------
    UntrustedError
        If another user can.
    OSError
        If it is not there.
    """
    os.close(_open_folder(path))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """Yield a descriptor that reads the file *path*, which only this user or root can have written.

    Raises
    ------
    UntrustedError
        If another user can have written it, or if it is a symbolic link.
    OSError
        If it is not there.
    """
    descriptor = open_file(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(path: Path) -> int:
    """Return a descriptor as `opened` yields it, for the caller to close."""
    folder = _open_folder(path.parent)
    try:
        # Without waiting: a pipe of that name would never open.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UntrustedError(f"{path}: must not be a symbolic link: remove it") from None
        raise
    finally:
        os.close(folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedError(f"{path}: must be a regular file: remove it")
        _check_owner(path, status)
        _check_writers(path, status, status.st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_folder(path: Path) -> int:
    """Return a descriptor of the folder *path*, every part of which was checked on the way."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    absolute = path.absolute()
    names = list(reversed(absolute.parts[1:]))
    reached = Path("/")
    folder = os.open(reached, flags)
    n_links = 0
    try:
        while names:
            name = names.pop()
            inner = reached / name
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            _check_parent(reached, folder, status)
            _check_owner(inner, status)
            if stat.S_ISLNK(status.st_mode):
                n_links += 1
                if n_links > _LINKS_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                target = Path(os.readlink(name, dir_fd=folder))
                names += reversed(target.parts[target.is_absolute() :])
                if not target.is_absolute():
                    continue
                reached, following = Path("/"), os.open("/", flags)
            else:
                reached = inner
                following = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = following
        status = os.fstat(folder)
        _check_owner(absolute, status)
        _check_writers(absolute, status, status.st_mode)
    except BaseException:
        os.close(folder)
        raise
    return folder


def _check_parent(path: Path, folder: int, inner: os.stat_result) -> None:
    """Raise if another user could exchange *inner*, which is in the open *folder* at *path*."""
    status = os.fstat(folder)
    mode = status.st_mode
    if mode & stat.S_ISVTX and inner.st_uid in (os.geteuid(), _ROOT_USER):
        return
    if mode & _WRITABLE_BY_GROUP and _is_of_this_user_alone(status.st_gid, folder):
        mode &= ~_WRITABLE_BY_GROUP
    _check_writers(path, status, mode)


def _is_of_this_user_alone(group: int, folder: int) -> bool:
    """Return whether *group* is private, as where each user has one and the umask is 002."""
    if os.geteuid() == _ROOT_USER:
        return False  # other accounts may be in the group of root's name
    with contextlib.suppress(OSError):
        # With an access control list the mode shows the rights of more than the group.
        os.getxattr(f"/proc/self/fd/{folder}", _ACL)
        return False
    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    is_named_alike = user.pw_gid == group and user.pw_name == members.gr_name
    return is_named_alike and set(members.gr_mem) <= {user.pw_name}


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), _ROOT_USER):
        raise UntrustedError(
            f"{path}: must be owned by this user or root, as code is run from there, but its owner "
            f"is user {status.st_uid}"
        )


def _check_writers(path: Path, status: os.stat_result, mode: int) -> None:
    if mode & (_WRITABLE_BY_GROUP | _WRITABLE_BY_OTHERS):
        raise UntrustedError(
            f"{path}: must not be writable by others, as code is run from there, but its mode is "
            f"{stat.S_IMODE(status.st_mode):04o}: chmod go-w {path}"
        )
