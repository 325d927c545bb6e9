"""Build the profiler, a plugin of QEMU, once a source version, into the user's cache.

The folder there is named by a hash of plugin/*.c and guest/marker.h, as that of the C programs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...testbed.c_build import cache_folder
from ..errors import TargetMissingError
from ..guest_programs import compiled

PLUGIN_FOLDER = Path(__file__).resolve().parent / "plugin"
_MARKER = PLUGIN_FOLDER.parent.parent / "guest" / "marker.h"
_MACHINE = ("call_tree.c", "shadow_stack.c", "context.c")
_OPTIONS = (
    "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion",
    "-Wstrict-prototypes", "-Werror",
)  # fmt: skip
_SHARED = ("-fPIC", "-fvisibility=hidden", "-shared")
_BUILD_SECONDS_MAX = 120


def plugin() -> Path:
    """Return the plugin's shared object, built if need be.

    Raises
    ------
    TargetMissingError
        If gcc is not installed.
    TargetError
        If a source does not compile.
    """
    return _built("libprofiler.so", (*_MACHINE, "symbol_table.c", "profiler.c"), _SHARED)


def stream_program() -> Path:
    """Return the program that feeds the profiler's machine from a text, for its tests."""
    return _built("stream", (*_MACHINE, "stream.c"), ())


def _built(name: str, sources: Sequence[str], options: Sequence[str]) -> Path:
    if shutil.which("gcc") is None:
        raise TargetMissingError(
            "gcc is not installed, and the profiler is built with it: apt-get install gcc"
        )
    return compiled(
        cache_folder() / f"profiler-{_source_hash()}" / name,
        [*_OPTIONS, *options, *(str(PLUGIN_FOLDER / source) for source in sources)],
        name="the profiler",
        seconds_max=_BUILD_SECONDS_MAX,
    )


def _source_hash() -> str:
    digest = hashlib.sha256(" ".join((*_OPTIONS, *_SHARED)).encode())
    for path in [*sorted(PLUGIN_FOLDER.glob("*.[ch]")), _MARKER]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
