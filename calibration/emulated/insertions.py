"""Insert our lines into a kernel tree, at places named by what stands there.

    NAME.insert ──read──► Insertion(path, text, where) ──insert──► the tree, with our lines in it

A file of insertions holds lines of ours only, and for each group of them the file and the place:

    === kernel/signal.c                     the file, from the top of the tree
    --- before "TEXT" in "BEGINNING"        before the one line that holds TEXT, in the function
    --- after "TEXT"                        or structure whose first line begins with BEGINNING
    --- end                                 at the end of the file

Places are found by text and not by line number, so that a security update of the kernel, which
moves lines, does not move ours to a wrong place: a place that is not there exactly once is an
error (TargetError, as all that keeps a kernel from being built).
Lines before the first `===` that begin with `#` are comments.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .errors import TargetError

INSERTIONS_SUFFIX = ".insert"
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
