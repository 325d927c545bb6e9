"""Find Debian's package of Linux's sources and unpack the part of it that is built here.

Drivers, architectures and documents that the configuration leaves out stay packed, but for their
Makefiles and Kconfig files, which are read all the same: half a gigabyte instead of one and a half.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import TargetError, TargetMissingError

PACKAGE = "linux-source-6.1"
ARCHIVE = Path("/usr/src") / f"{PACKAGE}.tar.xz"

# How far something is that takes minutes: what is being done, steps done, steps in all.
ProgressCallback = Callable[[str, int, int], None]

_ARCHIVE_FILES = 79_000  # about; only for the bar
_LEFT_PACKED = re.compile(
    r"(Documentation|sound|samples"
    r"|tools/(perf|testing|power|bpf)"
    r"|arch/(?!x86/)[^/]+"
    r"|drivers/(gpu|media|net/(ethernet|wireless|usb|can|dsa)|scsi|staging|usb|infiniband|iio"
    r"|crypto|clk|pinctrl|mtd|isdn|soc|video)"
    r")/"
)
_ALWAYS_READ = re.compile(r"(.*/)?(Makefile|Kbuild|Kconfig)[^/]*")


@dataclass(frozen=True)
class KernelSource:
    """An archive of sources and what identifies it."""

    archive: Path
    version: str  # of the package, or a hash of the archive where no package manager knows it


def find_source(archive: Path = ARCHIVE) -> KernelSource:
    """Return the sources that are installed.

    Raises
    ------
    TargetMissingError
        If they are not.
    """
    if not archive.is_file():
        raise TargetMissingError(
            f"the sources of Linux are not installed ({archive} is not there), and the emulated "
            f"target runs a kernel built from them: apt-get install {PACKAGE}"
        )
    return KernelSource(archive, _package_version(archive) or _archive_hash(archive))


def _package_version(archive: Path) -> str:
    try:
        owner = subprocess.run(
            ["dpkg-query", "--search", str(archive)],
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout.partition(":")[0]  # fmt: skip
        return subprocess.run(
            ["dpkg-query", "--show", "--showformat", "${Version}", owner],
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return ""


def _archive_hash(archive: Path) -> str:
    with archive.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def is_unpacked(path: str) -> bool:
    """Tell whether a file of the sources is needed, by its path from their root.

    >>> is_unpacked("net/core/dev.c"), is_unpacked("drivers/gpu/drm/drm_file.c")
    (True, False)
    >>> is_unpacked("drivers/gpu/drm/Kconfig"), is_unpacked("arch/arm/mm/init.c")
    (True, False)
    """
    return not _LEFT_PACKED.match(path) or bool(_ALWAYS_READ.fullmatch(path))


def unpack(source: KernelSource, folder: Path, progress: ProgressCallback) -> None:
    """Unpack the sources into *folder*, without the archive's own top folder."""
    try:
        # As a stream: xz cannot seek, and the archive is never read twice.
        with tarfile.open(source.archive, "r|xz") as archive:
            for number, member in enumerate(archive):
                if number % 500 == 0:
                    progress("unpacking Linux", number, max(number, _ARCHIVE_FILES))
                member.name = member.name.partition("/")[2]
                if member.islnk():
                    member.linkname = member.linkname.partition("/")[2]
                if member.name and (member.isdir() or is_unpacked(member.name)):
                    archive.extract(member, folder, filter="tar")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise TargetError(f"cannot unpack {source.archive}: {error}") from error
