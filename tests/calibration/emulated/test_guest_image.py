"""The file system of a guest: a valid archive whose layout does not depend on its parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchsim.calibration.emulated.guest_image import initramfs, padded_text
from dispatchsim.calibration.emulated.guest_run import Job, image_of


def members(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of each member of a "newc" archive, as the kernel reads it."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        assert at % 4 == 0
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, n_bytes, name_bytes = fields[1], fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_bytes - 1].decode()
        begin = -(-(at + 110 + name_bytes) // 4) * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (mode, archive[begin : begin + n_bytes])
        at = -(-(begin + n_bytes) // 4) * 4


def test_an_archive_holds_files_and_the_folders_they_are_in() -> None:
    archive = initramfs({"init": (b"abc", 0o755), "modules/0-wire.ko": (b"", 0o644)})
    assert members(archive) == {
        "init": (0o100755, b"abc"),
        "modules": (0o040755, b""),
        "modules/0-wire.ko": (0o100644, b""),
    }


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF")
    return path


def test_two_jobs_have_the_same_layout_whatever_their_parameters(program: Path) -> None:
    short = Job("macro", program, ("--a",), {"idle": 0}, b"1\n")
    long = Job("macro", program, ("--a", "b" * 1000), {"idle": 6000, "more": 1}, b"1\n" * 100_000)
    images = [image_of(job, program) for job in (short, long)]
    assert len(images[0]) == len(images[1])
    sizes = [
        {
            name: -(-len(content) // 4096)
            for name, (_, content) in members(image).items()
            if name not in {"trace", "padding"}
        }
        for image in images
    ]
    assert sizes[0] == sizes[1]


def test_modules_keep_their_order(program: Path, tmp_path: Path) -> None:
    modules = []
    for name in ("wire.ko", "a.ko"):
        (tmp_path / name).write_bytes(name.encode())
        modules.append(tmp_path / name)
    image = members(image_of(Job("exec", program, modules=tuple(modules)), program))
    assert [name for name in image if name.startswith("modules/")] == [
        "modules/0-wire.ko",
        "modules/1-a.ko",
    ]


@pytest.mark.parametrize("argument", ["", "two\nlines"])
def test_an_argument_that_is_not_a_line_is_refused(program: Path, argument: str) -> None:
    with pytest.raises(ValueError, match="an argument must be one line"):
        image_of(Job("exec", program, (argument,)), program)


def test_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter than 8 bytes, got 9"):
        padded_text("123456789", 8)
