"""Turn the wheel of pure Python into the wheel of one machine: add engines, change tags.

Sources: PEP 427, the wheel format; PEP 425 and PEP 600, its tags.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_SHIPPED = Path("dispatchsim/sim/native/shipped")
_FIRST_OF_1980 = "315532800"
"""The first second that a zip archive can hold: the time of all files in a wheel."""
_READABLE, _FOLDER = 0o644, 0o755


def build(project: Path, folder: Path) -> tuple[Path, Path]:
    """Build the sdist of *project* and from it the wheel of pure Python; return both."""
    _run("build", "--no-isolation", "--outdir", str(folder), str(project))
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*-any.whl")
    return sdist, wheel


def with_engines(
    pure: Path, engines: Iterable[Path], machine: str, platform: str, folder: Path
) -> Path:
    """Return the wheel *pure* with *engines*, in *folder*, for *machine* with *platform*."""
    work = folder / f"{machine}.unpacked"
    _run("wheel", "unpack", "--dest", str(work), str(pure))
    (content,) = work.iterdir()
    shipped = content / _SHIPPED / machine
    shipped.mkdir(parents=True)
    for engine in engines:
        shutil.copyfile(engine, shipped / engine.name)
    (metadata,) = content.glob("*.dist-info/WHEEL")
    metadata.write_text(retagged(metadata.read_text(), f"py3-none-{platform}_{machine}"))
    # Fixed modes: the wheel does not depend on the umask.
    for path in content.rglob("*"):
        path.chmod(_FOLDER if path.is_dir() else _READABLE)
    _run("wheel", "pack", "--dest-dir", str(folder), str(content))
    shutil.rmtree(work)
    (wheel,) = folder.glob(f"*-{platform}_{machine}.whl")
    return wheel


def retagged(metadata: str, tag: str) -> str:
    r"""Return the text of WHEEL for libraries of one machine.

    >>> retagged("Root-Is-Purelib: true\nTag: py3-none-any\n", "py3-none-linux_x86_64")
    'Root-Is-Purelib: false\nTag: py3-none-linux_x86_64\n'
    """
    impure = re.sub("^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", metadata, flags=re.M)
    return re.sub("^Tag: .*$", f"Tag: {tag}", impure, flags=re.M)


def _run(module: str, *arguments: str) -> None:
    environment = {"SOURCE_DATE_EPOCH": _FIRST_OF_1980, **os.environ}
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
