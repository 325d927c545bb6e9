"""Build modules for a kernel of the emulated target, once a version of their sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from .errors import TargetError
from .kernel_build import Kernel, run_make, silent

WIRE_FOLDER = Path(__file__).resolve().parent / "wire"
_SOURCES = ("Kbuild", "Makefile", "*.c", "*.h", "*.S")
_LOG_LINES = 10


def build_module(folder: Path, kernel: Kernel) -> Path:
    """Return the module that the Kbuild file of *folder* describes, built if it was not yet.

    The module is looked for in the cache beside the kernel, by a hash of the sources.

    Raises
    ------
    TargetError
        If a source does not compile, or if not exactly one module results.
    """
    sources = sorted({path for pattern in _SOURCES for path in folder.glob(pattern)})
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    kept = kernel.tree.parent / "modules" / digest.hexdigest()[:12]
    if not kept.is_dir():
        kept.parent.mkdir(exist_ok=True)
        _build_into(kept, folder.name, sources, kernel)
    (module,) = kept.glob("*.ko")
    return module


def _build_into(kept: Path, name: str, sources: list[Path], kernel: Kernel) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="building-") as scratch_name:
        scratch = Path(scratch_name, name)
        scratch.mkdir()
        for path in sources:
            shutil.copyfile(path, scratch / path.name)
        arguments = ["-C", str(kernel.tree), f"M={scratch}", "modules"]
        # The scratch folder's name must not get into the module.
        arguments.append(f"KCFLAGS=-ffile-prefix-map={scratch}=.")
        run_make(arguments, f"building the module {name}", silent, _LOG_LINES)
        modules = list(scratch.glob("*.ko"))
        if len(modules) != 1:
            raise TargetError(f"{name} must describe one module, got {len(modules)}")
        finished = Path(scratch_name, "finished")
        finished.mkdir()
        shutil.copyfile(modules[0], finished / modules[0].name)
        try:
            os.rename(finished, kept)
        except OSError:
            if not kept.is_dir():  # by another process meanwhile, which is as good
                raise
