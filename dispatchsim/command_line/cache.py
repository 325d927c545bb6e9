"""The command `cache`: the compiled engines and C programs that are kept, and their removal."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..sim.files.tables import Column, Table, rich_table
from ..sim.files.whole_files import to_json
from ..sim.native import cache, trust
from .door import notes, people
from .options import AsJson

_PATTERNS = {
    "engines": re.compile(r"\w+-[0-9a-f]{20}\.so"),
    "translated C": re.compile(r"[\w-]+-[0-9a-f]{12}-[0-9a-f]{20}\.engine"),
    "C programs": re.compile(r"c-[0-9a-f]{12}"),
    # zig compiles it for itself before anything else.
    "library of zig": re.compile(r"zig"),
}


class _Kept(NamedTuple):
    """What is kept of one kind."""

    folder: Path
    entries: list[Path]

    @property
    def n_bytes(self) -> int:
        """What the entries take on disk, with the C text of engines."""
        texts = (path.with_suffix(".c") for path in self.entries if path.suffix == ".so")
        return sum(map(_size, (*self.entries, *texts)))


def show_cache(
    *,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove all entries that no process is using.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print or clear the cache of compiled simulators.

    dispatchsim cache --clear

    A compiled simulator is called an engine. Entries unused for 30 days are removed automatically.
    DISPATCHSIM_CACHE_DIR names another folder for engines. With DISPATCHSIM_KEEP_C=1, the C source
    of each engine is written beside it, for you to read.
    """
    kept = _all_kept()
    if clear:
        for kind, (folder, entries) in kept.items():
            left = _clear(folder, entries)
            removed = f"{len(entries) - left} removed" + (f", {left} in use" if left else "")
            notes().print(f"{kind}: {removed}", markup=False)
        kept = _all_kept()
    if as_json:
        content = {
            kind: {
                "folder": str(of.folder),
                "entries": len(of.entries),
                "bytes": of.n_bytes,
                **({"not_used": why} if (why := _why_not_used(of.folder)) else {}),
            }
            for kind, of in kept.items()
        }
        typer.echo(to_json(content))
        return
    columns: list[Column[str]] = [
        Column("kept", str, words=True),
        Column("entries", lambda kind: len(kept[kind].entries)),
        Column("size", lambda kind: _megabytes(kept[kind].n_bytes)),
        Column("folder", lambda kind: kept[kind].folder, words=True),
    ]
    people().print(rich_table(Table.of("", kept, columns)))
    for folder in dict.fromkeys(of.folder for of in kept.values()):
        if why := _why_not_used(folder):
            people().print(f"{folder} is not used: {why}", markup=False, soft_wrap=True)
    for text in sorted(kept["engines"].folder.glob("*.c")):
        people().print(f"C source: {text}", markup=False, soft_wrap=True)


def _all_kept() -> dict[str, _Kept]:
    """Return what is kept, by kind; rare kinds only if there are entries."""
    engines, programs = cache.engine_folder(), cache.user_folder()
    kept = {
        "engines": _Kept(engines, list(_named(engines, "engines"))),
        "translated C": _Kept(engines, list(_named(engines, "translated C"))),
        "C programs": _Kept(programs, list(_named(programs, "C programs"))),
        "library of zig": _Kept(engines, list(_named(engines, "library of zig"))),
    }
    always = ("engines", "C programs")
    return {kind: of for kind, of in kept.items() if kind in always or of.entries}


def _why_not_used(folder: Path) -> str:
    """Return why nothing can be kept in *folder*, which need not be there yet; "" if it can."""
    place = folder
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        return f"{place}: must be a folder"
    mode = place.stat().st_mode
    # Files in a sticky folder, as /tmp, are safe from other users.
    if place == folder or (mode & stat.S_IWOTH and not mode & stat.S_ISVTX):
        try:
            trust.check_folder(place)
        except OSError as error:
            return cache.sentence(error)
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place}: must be a folder that this user can write to"
    return ""


def _named(folder: Path, kind: str) -> Iterator[Path]:
    if folder.is_dir():
        paths = sorted(folder.iterdir())
        yield from (path for path in paths if _PATTERNS[kind].fullmatch(path.name))


def _clear(folder: Path, entries: list[Path]) -> int:
    """Remove the *entries* and what killed builds left beside them; return how many are in use.

    Raises
    ------
    UntrustedError
        If others could have put a link to another folder there.
    """
    if not folder.is_dir():
        return 0
    trust.check_folder(folder)
    cache.tidy(folder)
    return sum(not cache.remove(path) for path in entries)


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(map(_size, path.iterdir()))
    return path.lstat().st_size if path.is_file() else 0


def _megabytes(n_bytes: int) -> str:
    """Format a size for a table.

    >>> _megabytes(15_072), _megabytes(47_000_000)
    ('0.0 MB', '47.0 MB')
    """
    return f"{n_bytes / 1e6:.1f} MB"
