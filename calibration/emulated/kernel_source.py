"""Debian's package of Linux's sources: found, unpacked as far as it is built, with lines of ours.

Drivers, architectures and documents that the configuration leaves out stay packed, but for their
Makefiles and Kconfig files, which are read all the same: half a gigabyte instead of one and a half.

    NAME.insert ──read──► Insertion(path, text, where) ──insert──► the tree, with our lines in it

A file of insertions holds lines of ours only, and for each group of them the file and the place:

    === kernel/signal.c                     the file, from the top of the tree
    --- before "TEXT" in "BEGINNING"        before the one line that holds TEXT, in the function
    --- after "TEXT"                        or structure whose first line begins with BEGINNING
    --- end                                 at the end of the file

Places are found by text and not by line number, so that a security update of the kernel, which
moves lines, does not move ours to a wrong place: a place that is not there exactly once is an
error (TargetError, as all that keeps a kernel from being built). Lines before the first `===` that
begin with `#` are comments.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class TargetError(RuntimeError):
    """The emulated target could not be built or run; the message is one sentence."""


class TargetMissingError(TargetError):
    """Something that the target is made from is not installed; the message names the package."""


class GuestError(TargetError):
    """A guest did not do its job; the message says how it ended and what it said last."""


_PLACE = re.compile(r'--- (?:(before|after) "([^"]+)"(?: in "([^"]+)")?|(end))')


class Insertion(NamedTuple):
    """Lines of ours and their place; no *text* means the end of the file."""

    path: str
    side: str
    text: str
    beginning: str
    lines: tuple[str, ...]


def read_insertions(patch: Path) -> list[Insertion]:
    """Return what *patch* inserts, in its order; TargetError if a line is not understood."""
    insertions: list[Insertion] = []
    path = ""
    for number, line in enumerate(patch.read_text().splitlines(), start=1):
        if line.startswith("=== "):
            path = line.removeprefix("=== ")
        elif line.startswith("--- "):
            place = _PLACE.fullmatch(line)
            if place is None or not path:
                raise TargetError(f'{patch.name}, line {number}: not a place: "{line}"')
            side, text, beginning, end = place.groups()
            insertions.append(Insertion(path, side or end, text or "", beginning or "", ()))
        elif insertions and insertions[-1].path == path:
            last = insertions[-1]
            insertions[-1] = last._replace(lines=(*last.lines, line))
        elif line and not line.startswith("#"):
            raise TargetError(f'{patch.name}, line {number}: a line without a place: "{line}"')
    return insertions


def place_of(insertion: Insertion, lines: list[str]) -> int:
    """Return the index in *lines* before which to insert; TargetError unless there is one place."""
    first, end = 0, len(lines)
    if insertion.side == "end":
        return end
    if insertion.beginning:
        # A declaration ends with a semicolon, the definition meant here does not.
        starts = [
            i
            for i, line in enumerate(lines)
            if line.startswith(insertion.beginning) and not line.endswith(";")
        ]
        if len(starts) != 1:
            raise TargetError(
                f'{insertion.path} must have one line that begins with "{insertion.beginning}", '
                f"it has {len(starts)}"
            )
        first = starts[0]
        end = next(i for i in range(first, len(lines)) if lines[i].startswith("}"))
    found = [i for i in range(first, end) if insertion.text in lines[i]]
    if len(found) != 1:
        where = f' in "{insertion.beginning}"' if insertion.beginning else ""
        raise TargetError(
            f'{insertion.path} must have one line with "{insertion.text}"{where}, '
            f"it has {len(found)}"
        )
    return found[0] + (insertion.side == "after")


def insert(patch: Path, tree: Path) -> list[str]:
    """Insert the lines of *patch* into the files of *tree*; return the paths of those changed.

    Files are replaced and not written to, so a tree of hard links keeps its original.
    Inserting twice is an error: what the lines stand beside is still there, but so are they.
    """
    changed: dict[str, list[str]] = {}
    for insertion in read_insertions(patch):
        if insertion.path not in changed:
            changed[insertion.path] = (tree / insertion.path).read_text().splitlines()
        lines = changed[insertion.path]
        ours = list(insertion.lines)
        while ours and not ours[-1]:
            ours.pop()
        if "\n".join(ours) in "\n".join(lines):
            raise TargetError(f"{insertion.path} has the lines of {patch.name} already")
        at = place_of(insertion, lines)
        lines[at:at] = ours
    for path, lines in changed.items():
        replacement = tree / f"{path}.inserted"
        replacement.write_text("\n".join(lines) + "\n")
        replacement.replace(tree / path)
    return list(changed)


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
