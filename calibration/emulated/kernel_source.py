"""Debian's package of Linux's sources: find it, unpack the necessary part, insert our lines.

Drivers, architectures and documents that the configuration leaves out stay packed, except for their
Makefiles and Kconfig files, which the build reads: half a gigabyte instead of one and a half.

    NAME.insert ──read──► Insertion(path, text, where) ──insert──► the tree, with our lines in it

A file of insertions holds only our lines, and for each group of them the file and the place:

    === kernel/signal.c                     the file, from the top of the tree
    --- before "TEXT" in "BEGINNING"        before the one line that holds TEXT, in the function
    --- after "TEXT"                        or structure whose first line begins with BEGINNING
    --- end                                 at the end of the file

Places are found by text and not by line number. A security update of the kernel moves lines, and
line numbers would then put ours in a wrong place. A text that does not occur exactly once is an
error (TargetError, as all errors of a kernel's build). Lines before the first `===` that begin with
`#` are comments.
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
    """A package or program that the target needs is not installed; the message names it."""


class GuestError(TargetError):
    """A guest's job failed; the message holds how the guest ended and its last output."""


_PLACE = re.compile(r'--- (?:(before|after) "([^"]+)"(?: in "([^"]+)")?|(end))')


class Insertion(NamedTuple):
    """Our lines and their place; no *text* means the end of the file."""

    path: str
    side: str
    text: str
    beginning: str
    lines: tuple[str, ...]


def read_insertions(patch: Path) -> list[Insertion]:
    """Return the insertions of *patch*, in its order; TargetError if a line is invalid."""
    insertions: list[Insertion] = []
    path = ""
    for number, line in enumerate(patch.read_text().splitlines(), start=1):
        if line.startswith("=== "):
            path = line.removeprefix("=== ")
        elif line.startswith("--- "):
            place = _PLACE.fullmatch(line)
            if place is None or not path:
                raise TargetError(f'{patch.name}, line {number}: is not a place: "{line}"')
            side, text, beginning, end = place.groups()
            insertions.append(Insertion(path, side or end, text or "", beginning or "", ()))
        elif insertions and insertions[-1].path == path:
            last = insertions[-1]
            insertions[-1] = last._replace(lines=(*last.lines, line))
        elif line and not line.startswith("#"):
            raise TargetError(f'{patch.name}, line {number}: has no place before it: "{line}"')
    return insertions


def place_of(insertion: Insertion, lines: list[str]) -> int:
    """Return the index in *lines* to insert before; TargetError unless there is exactly one."""
    first, end = 0, len(lines)
    if insertion.side == "end":
        return end
    if insertion.beginning:
        # A declaration ends with a semicolon; the definition does not.
        starts = [
            i
            for i, line in enumerate(lines)
            if line.startswith(insertion.beginning) and not line.endswith(";")
        ]
        if len(starts) != 1:
            raise TargetError(
                f'{insertion.path} must have one line that begins with "{insertion.beginning}", '
                f"got {len(starts)}"
            )
        first = starts[0]
        end = next(i for i in range(first, len(lines)) if lines[i].startswith("}"))
    found = [i for i in range(first, end) if insertion.text in lines[i]]
    if len(found) != 1:
        where = f' in "{insertion.beginning}"' if insertion.beginning else ""
        raise TargetError(
            f'{insertion.path} must have one line with "{insertion.text}"{where}, got {len(found)}'
        )
    return found[0] + (insertion.side == "after")


def insert(patch: Path, tree: Path) -> list[str]:
    """Insert the lines of *patch* into the files of *tree*; return the paths of changed files.

    Files are replaced, not overwritten, so a tree of hard links keeps its original.
    Inserting twice is an error.
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
            raise TargetError(f"{insertion.path} already has the lines of {patch.name}")
        at = place_of(insertion, lines)
        lines[at:at] = ours
    for path, lines in changed.items():
        replacement = tree / f"{path}.inserted"
        replacement.write_text("\n".join(lines) + "\n")
        replacement.replace(tree / path)
    return list(changed)


PACKAGE = "linux-source-6.1"
ARCHIVE = Path("/usr/src") / f"{PACKAGE}.tar.xz"

# Progress of a step that takes minutes: current activity, steps done, number of steps.
ProgressCallback = Callable[[str, int, int], None]

_ARCHIVE_FILES = 79_000  # approximate; only for the progress bar
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
    """An archive of sources, and its identity."""

    archive: Path
    version: str  # of the package, or a hash of the archive where no package manager has it


def find_source(archive: Path = ARCHIVE) -> KernelSource:
    """Return the installed sources.

    Raises
    ------
    TargetMissingError
        If they are not installed.
    """
    if not archive.is_file():
        raise TargetMissingError(
            f"the sources of Linux are not installed ({archive} is missing), but the emulated "
            f"target needs a kernel built from them: apt-get install {PACKAGE}"
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
    """Return whether a file of the sources is needed; *path* starts at their root.

    >>> is_unpacked("net/core/dev.c"), is_unpacked("drivers/gpu/drm/drm_file.c")
    (True, False)
    >>> is_unpacked("drivers/gpu/drm/Kconfig"), is_unpacked("arch/arm/mm/init.c")
    (True, False)
    """
    return not _LEFT_PACKED.match(path) or bool(_ALWAYS_READ.fullmatch(path))


def unpack(source: KernelSource, folder: Path, progress: ProgressCallback) -> None:
    """Unpack the sources into *folder*, without the archive's own top folder."""
    try:
        # As a stream: xz cannot seek, and the archive is read only once.
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
