"""Results of tests of a kernel: one file for each release, in a folder for each kind of test.

    answers, costs ──► write_kept ──► linux-<release>.json ──► read_kept ──► answers, costs

Files of a checkout are shipped with the library. An installed library does not write into itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...sim.files.whole_files import write_whole


def is_checkout(folder: Path) -> bool:
    """Return whether *folder*, a folder of calibration/, belongs to a checkout and is writable."""
    return (folder.parents[1] / "pyproject.toml").is_file() and os.access(folder, os.W_OK)


def write_kept(folder: Path, release: str, content: Mapping[str, Any]) -> Path:
    """Write *content* to the file of a kernel's *release* in *folder*; return the file.

    The last value of *content* is a mapping. Each of its entries has a line, so that a diff shows
    the differences between kernels.
    """
    *head, (name, entries) = content.items()
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items())
    path = folder / f"linux-{release}.json"
    top = json.dumps(dict(head), indent=1).removesuffix("\n}")
    write_whole(path, f"{top},\n {json.dumps(name)}: {{\n{lines}\n }}\n}}\n")
    return path


def read_kept(path: Path, its_format: str) -> dict[str, Any]:
    """Return the content of *path*, a file of the format *its_format*.

    Raises
    ------
    ValueError
        If *path* has another format.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") != its_format:
        raise ValueError(f"{path}: format must be {its_format}")
    return content


def release_of(path: Path) -> str:
    """Return the kernel's release of a file.

    >>> release_of(Path("linux-6.1.192-2.json"))
    '6.1.192-2'
    """
    return path.stem.removeprefix("linux-")
