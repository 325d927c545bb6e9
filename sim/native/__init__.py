"""Compiled C libraries: where they come from, and who may put one where it is loaded from."""

from __future__ import annotations

from .cache import CacheWarning
from .compiler import CompilerFailedError, NoCompilerError
from .library import is_ready, load

__all__ = ["CacheWarning", "CompilerFailedError", "NoCompilerError", "is_ready", "load"]
