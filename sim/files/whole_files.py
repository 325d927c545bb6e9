"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

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
