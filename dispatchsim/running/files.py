"""What the commands write: strict JSON, files that appear whole or not at all, new folders only."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..scenario.errors import UserError
from ..sim.files.whole_files import write_whole


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


def check_new_folder(path: Path) -> None:
    """Refuse a folder that holds something: results of two runs must not mix.

    Raises
    ------
    UserError
        If *path* is a file or a folder that is not empty.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"--output: must be a folder, got the file {path}")
    if path.is_dir() and any(path.iterdir()):
        raise UserError(f"--output: must be a new or an empty folder, {path} holds files")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def check_measured(folder: Path, *names: str) -> None:
    """Refuse a *folder* that lacks one of the files *names* which measuring makes.

    Raises
    ------
    UserError
        With what is missing.
    """
    if not folder.is_dir():
        raise UserError(f"FOLDER: must be a folder with measured runs, got {folder}")
    for name in names:
        path = folder / name
        if not path.is_file() or path.stat().st_size == 0:
            raise UserError(f"{path}: is missing or empty: `dispatchsim measure` makes it")
