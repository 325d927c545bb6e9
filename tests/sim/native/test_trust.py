"""Who may have put a file there: every folder on the way counts, and every link."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from dispatchsim.sim.native.trust import UntrustedError, check_folder, opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file three folders deep, which only this user can have written."""
    path = tmp_path / "a" / "b" / "c" / "file"
    path.parent.mkdir(parents=True)
    for folder in path.relative_to(tmp_path).parents:
        (tmp_path / folder).chmod(0o755)
    path.write_text("content")
    path.chmod(0o644)
    return path


def content(path: Path) -> str:
    with opened(path) as descriptor:
        return os.read(descriptor, 100).decode()


def test_a_file_that_only_this_user_can_have_written_is_opened(file: Path) -> None:
    assert content(file) == "content"
    with pytest.raises(FileNotFoundError):
        content(file.with_name("absent"))


@pytest.mark.parametrize("n_above", [0, 1, 2])
def test_any_folder_above_that_others_may_write_to_is_named(file: Path, n_above: int) -> None:
    wide = file.parents[n_above]
    wide.chmod(0o757)
    with pytest.raises(UntrustedError) as caught:
        content(file)
    assert str(caught.value) == (
        f"{wide}: must not be writable by others, as code is run from there, but its mode is 0757: "
        f"chmod go-w {wide}"
    )
    # In a sticky folder others cannot exchange what is ours: but the last may get new files.
    wide.chmod(0o1777)
    if n_above == 0:
        with pytest.raises(UntrustedError, match="but its mode is 1777"):
            content(file)
    else:
        assert content(file) == "content"


def test_a_folder_of_somebody_else_is_not_trusted_even_where_it_is_sticky(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(file.parents[1], 65534, 65534)
    with pytest.raises(
        UntrustedError, match=r"/a/b: must be owned by this user or root, .* 65534$"
    ):
        content(file)
    file.parents[2].chmod(0o1777)
    with pytest.raises(UntrustedError, match="mode is 1777"):
        content(file)


def test_links_of_this_user_are_followed_to_folders_and_never_to_a_file(file: Path) -> None:
    root = file.parents[3]
    (root / "absolute").symlink_to(file.parents[1])
    (root / "relative").symlink_to("a/../a/b")
    assert content(root / "absolute" / "c" / "file") == "content"
    assert content(root / "relative" / "c" / "file") == "content"
    file.with_name("link").symlink_to("file")
    with pytest.raises(UntrustedError, match="link: must not be a symbolic link: remove it"):
        content(file.with_name("link"))
    (root / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        content(root / "circle" / "file")


def test_a_link_does_not_hide_a_folder_that_others_may_write_to(file: Path) -> None:
    root = file.parents[3]
    (root / "link").symlink_to(file.parent)
    file.parents[1].chmod(0o777)
    with pytest.raises(UntrustedError, match="/a/b: must not be writable by others"):
        check_folder(root / "link")


def test_a_link_of_somebody_else_is_not_followed(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a link away")
    root = file.parents[3]
    (root / "link").symlink_to(file.parent)
    os.chown(root / "link", 65534, 65534, follow_symlinks=False)
    with pytest.raises(UntrustedError, match=r"/link: must be owned by this user or root"):
        check_folder(root / "link")


def test_the_group_of_this_user_alone_may_write_above(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, group = os.geteuid(), file.parents[1].stat().st_gid
    members: list[str] = []
    monkeypatch.setattr(
        pwd, "getpwuid", lambda _: pwd.struct_passwd(("me", "x", user, group, "", "/", "/bin/sh"))
    )
    monkeypatch.setattr(grp, "getgrgid", lambda _: grp.struct_group(("me", "x", group, members)))
    file.parents[1].chmod(0o775)
    if user == 0:
        # Of root there is no such group.
        with pytest.raises(UntrustedError, match="0775"):
            content(file)
        return
    assert content(file) == "content"
    members.append("somebody")
    with pytest.raises(UntrustedError, match="0775"):
        content(file)
