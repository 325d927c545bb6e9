"""How the kernel is built, without building one."""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
from pathlib import Path

import pytest

from dispatchsim.calibration.emulated import kernel_build
from dispatchsim.calibration.emulated.kernel_build import (
    CONFIG_FRAGMENT,
    UnfinishedBuild,
    kernel,
    overruled,
    prune_tree,
    run_make,
    silent,
)
from dispatchsim.calibration.emulated.kernel_source import (
    KernelSource,
    TargetError,
    TargetMissingError,
    find_source,
    unpack,
)


def test_a_line_of_the_fragment_that_is_overruled_is_found() -> None:
    fragment = (
        '# why\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_NAME="x"\n# CONFIG_GONE is not set\n'
    )
    assert overruled(fragment, 'CONFIG_A=y\nCONFIG_NAME="x"\n') == []
    assert overruled(fragment, '# CONFIG_A is not set\nCONFIG_B=m\nCONFIG_NAME="y"\n') == [
        "CONFIG_A=y",
        "# CONFIG_B is not set",
        'CONFIG_NAME="x"',
    ]


def test_the_fragment_says_nothing_twice() -> None:
    lines = [line for line in CONFIG_FRAGMENT.read_text().splitlines() if "CONFIG_" in line]
    names = [line.removeprefix("# ").partition("=")[0].partition(" ")[0] for line in lines]
    assert sorted(set(names)) == sorted(names)


def test_missing_sources_are_named_with_their_package(tmp_path: Path) -> None:
    with pytest.raises(TargetMissingError, match=r"apt-get install linux-source-6\.1$"):
        find_source(tmp_path / "none.tar.xz")


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_build, "find_source", lambda: KernelSource(Path("x"), "1"))
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name in {"bc", "flex"} else f"/bin/{name}"
    )
    with pytest.raises(TargetMissingError, match=r"without flex, bc: apt-get install flex bc$"):
        kernel()


def archive_of(folder: Path, files: dict[str, str]) -> KernelSource:
    path = folder / "linux-source.tar.xz"
    with lzma.open(path, "wb") as compressed, tarfile.open(fileobj=compressed, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"linux-source/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return KernelSource(path, "1")


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_drivers_that_are_not_built_stay_packed(tmp_path: Path) -> None:
    names = ("Makefile", "net/core/dev.c", "drivers/gpu/drm/drm.c", "drivers/gpu/drm/Kconfig")
    source = archive_of(tmp_path, dict.fromkeys(names, ""))
    unpack(source, tmp_path / "tree", silent)
    assert files_in(tmp_path / "tree") == set(names) - {"drivers/gpu/drm/drm.c"}


def test_a_damaged_archive_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    source = archive_of(tmp_path, {"Makefile": "x" * 100_000})
    source.archive.write_bytes(source.archive.read_bytes()[:-40])
    with pytest.raises(TargetError, match="cannot unpack"):
        unpack(source, tmp_path / "tree", silent)


def test_a_tree_keeps_what_modules_need(tmp_path: Path) -> None:
    kept = {"Makefile", "include/net/sock.h", "scripts/mod/modpost", "arch/x86/Makefile", ".config"}
    swept = {"vmlinux", "net/core/dev.c", "net/core/dev.o", "scripts/mod/modpost.o", "fs/Makefile"}
    for name in kept | swept:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    prune_tree(tmp_path)
    assert files_in(tmp_path) == kept
    assert not (tmp_path / "fs").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_a_failed_make_says_its_first_error(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n\t@echo a.c:1: error: no; exit 1\n")
    with pytest.raises(TargetError, match=r"^building a failed: a\.c:1: error: no$"):
        run_make(["-C", str(tmp_path)], "building a", silent)


@pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "ld"))), reason="gcc or binutils are not installed"
)
def test_patches_are_part_of_the_name(tmp_path: Path) -> None:
    patch = tmp_path / "a.insert"
    patch.write_text("=== a\n")
    source = KernelSource(Path("x"), "1")
    names = [kernel_build.identity_of(source, patches)["id"] for patches in ([], [patch])]
    patch.write_text("=== b\n")
    names.append(kernel_build.identity_of(source, [patch])["id"])
    assert len(set(names)) == 3
    assert names[0] == kernel_build.identity_of(source, [])["id"]


def test_a_build_that_is_stopped_is_left_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[BaseException] = [KeyboardInterrupt(), TargetError("cannot unpack")]

    def unpack(_source: KernelSource, tree: Path, _progress: object) -> None:
        (tree / "Makefile").write_text("")
        raise ends.pop(0)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernel_build, "find_source", lambda: KernelSource(Path("x"), "1"))
    monkeypatch.setattr(kernel_build, "check_tools", lambda: None)
    monkeypatch.setattr(kernel_build, "identity_of", lambda *_: {"id": "kernel-0"})
    monkeypatch.setattr(kernel_build, "unpack", unpack)
    with pytest.raises(UnfinishedBuild, match="not finished: the next run removes"):
        kernel()
    (left,) = tmp_path.glob("*/building-kernel-0-*")
    assert files_in(left) == {"kernel/tree/Makefile"}
    said = []
    with pytest.raises(TargetError, match="cannot unpack"):
        kernel(progress=lambda doing, _done, _total: said.append(doing))
    assert said == ["removing an unfinished build", "removing the unfinished build"]
    assert not list(tmp_path.glob("*/building-*"))
