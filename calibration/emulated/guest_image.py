"""The files that a guest starts from: static programs, and the archive that holds them.

    sources of one program ──gcc -static──► ~/.cache/dispatchsim/guest-HASH/NAME
    /init /program /job /settings /arguments /trace /modules/0-wire.ko ...  /padding

A hash of all C sources, the options and the compiler names the folder, so a program never runs
under the name of another version. The programs hold no path and no date: the same
sources give the same bytes everywhere, and with them the same layout in memory.

Two runs may differ only in their jobs. So names, modes and times in the archive are constant, texts
are padded to a fixed size, and `/padding` fills the archive up to whole mebibytes: the kernel then
allocates the same pages in the same order in every run.

Source: Linux, Documentation/driver-api/early-userspace/buffer-format.rst ("newc").
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...sim.native.compiler import first_error
from ..testbed.c_build import SOURCE_FOLDER, cache_folder
from .kernel_source import TargetError, TargetMissingError

GUEST_FOLDER = Path(__file__).resolve().parent / "guest"
_HASHED_FOLDERS = ("c/servers", "c/load", "c/micro", "emulated")
_OPTIONS = (
    "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
    "-Wconversion", "-Wstrict-prototypes", "-Werror", "-static", "-fno-pie", "-no-pie", "-pthread",
    "-Wl,--build-id=none",
)  # fmt: skip
_BUILD_SECONDS_MAX = 300


def init_program() -> Path:
    """Return the first program of a guest, built if necessary."""
    shared = [SOURCE_FOLDER / "c/load/trace.c", SOURCE_FOLDER / "c/servers/program.c"]
    return build_program("init", [*sorted(GUEST_FOLDER.glob("*.c")), *shared])


def server_program() -> Path:
    """Return the micro web server as a static program, from its usual sources."""
    return build_program("server", sorted((SOURCE_FOLDER / "c/servers").glob("*.c")))


def guest_code() -> str:
    """Return the name of this version of all C sources, e.g. `guest-0123456789ab`."""
    digest = hashlib.sha256(" ".join(_OPTIONS).encode() + _compiler_version())
    for folder in _HASHED_FOLDERS:
        for path in sorted((SOURCE_FOLDER / folder).rglob("*.[ch]")):
            digest.update(path.relative_to(SOURCE_FOLDER).as_posix().encode() + b"\0")
            digest.update(path.read_bytes() + b"\0")
    return f"guest-{digest.hexdigest()[:12]}"


def build_program(name: str, sources: Sequence[Path]) -> Path:
    """Return the static program *name* made from *sources*, built if necessary.

    Raises
    ------
    TargetMissingError
        If gcc is not installed.
    TargetError
        If a source does not compile.
    """
    if not sources:
        raise TargetError(f"the program {name} has no sources: is the package complete?")
    return compiled(
        cache_folder() / guest_code() / name,
        [*_OPTIONS, f"-ffile-prefix-map={SOURCE_FOLDER}=.", *map(str, sources), "-lm"],
        name=f"the guest's program {name}",
        seconds_max=_BUILD_SECONDS_MAX,
    )


def counter_names(server: Path) -> tuple[str, ...]:
    """Return the names of the server's counters, in the order of their file."""
    finished = subprocess.run(
        [server, "--counters-layout"], capture_output=True, text=True, timeout=60, check=True
    )
    return tuple(finished.stdout.split())


def _compiler_version() -> bytes:
    if shutil.which("gcc") is None:
        raise TargetMissingError(
            "gcc is not installed, but the programs of the emulated target need it: "
            "apt-get install gcc libc6-dev"
        )
    return subprocess.run(["gcc", "--version"], capture_output=True, timeout=20, check=True).stdout


def compiled(target: Path, arguments: Sequence[str], *, name: str, seconds_max: float) -> Path:
    """Return *target*, made by gcc with *arguments* if it did not exist.

    *name* is for messages.

    Raises
    ------
    TargetError
        If a source does not compile.
    """
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        built = Path(scratch, target.name)
        finished = subprocess.run(
            ["gcc", *arguments, "-o", str(built)],
            capture_output=True, text=True, timeout=seconds_max, check=False,
        )  # fmt: skip
        if finished.returncode != 0:
            raise TargetError(f"{name} does not build: {first_error(finished.stderr, 'gcc')}")
        os.replace(built, target)
    return target


PAGE_BYTES = 4096
TEXT_BYTES = 4096
PADDED_BYTES = 1 << 20
_ALIGNMENT = 4
_TRAILER = "TRAILER!!!"


def padded_text(text: str, n_bytes: int = TEXT_BYTES) -> bytes:
    r"""Return *text* followed by empty lines up to *n_bytes*.

    >>> padded_text("exec", 8)
    b'exec\n\n\n\n'
    """
    content = text.encode()
    if len(content) >= n_bytes:
        raise ValueError(
            f"a text for a guest must be shorter than {n_bytes} bytes, got {len(content)}"
        )
    return content.ljust(n_bytes, b"\n")


def padded_to_pages(text: bytes) -> bytes:
    """Return *text* followed by empty lines up to whole pages."""
    return text + b"\n" * (-len(text) % PAGE_BYTES)


def padding_for(n_bytes: int) -> int:
    """Return the bytes missing to whole mebibytes after *n_bytes*; for whole pages, at least one.

    >>> padding_for(4096), padding_for((1 << 20) - 4096), padding_for(1 << 20)
    (1044480, 4096, 1048576)
    """
    return PADDED_BYTES - n_bytes % PADDED_BYTES


def initramfs(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return a cpio archive of *files*: path from the root -> (content, permissions).

    Folders are made from the paths; the order is that of the mapping.
    """
    entries: list[bytes] = []
    folders: set[str] = set()
    for path, (content, permissions) in files.items():
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folder not in folders:
                folders.add(folder)
                entries.append(_entry(len(entries) + 1, folder, stat.S_IFDIR | 0o755, b""))
        mode = stat.S_IFREG | permissions
        entries.append(_entry(len(entries) + 1, "/".join(parts), mode, content))
    entries.append(_entry(0, _TRAILER, 0, b""))
    return b"".join(entries)


def _entry(inode: int, name: str, mode: int, content: bytes) -> bytes:
    """Return one member: thirteen numbers of eight hexadecimal digits, the name, the content."""
    n_links = 2 if stat.S_ISDIR(mode) else 1
    fields = (inode, mode, 0, 0, n_links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _aligned(header + name.encode() + b"\0") + _aligned(content)


def _aligned(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)
