"""Files that are written whole or not at all, and strict JSON to write."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

PART = ".part"


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Put *content* at *path* in one step: a reader sees the old file or the new one.

    Parameters
    ----------
    mode:
        That of the file from its first moment on, without what the umask takes away.
    """
    # A name of its own for each call: threads may write the same file, and so may processes of
    # several machines.
    part = path.with_name(f"{path.name}.{os.urandom(8).hex()}{PART}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(part, flags, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write *content* as JSON to *path*, whole or not at all; its folder is made if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, to_json(content) + "\n")


def to_json(content: Any) -> str:
    """Return *content* as strict JSON: what is not a finite number becomes null.

    >>> print(to_json({"p99": float("nan")}))
    {
      "p99": null
    }
    """
    return json.dumps(_finite(content), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
