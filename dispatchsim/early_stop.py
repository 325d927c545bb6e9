"""Ctrl-C while modules are imported: nothing has begun, and half-imported modules say nothing.

An import that is interrupted may turn the exception into one of its own (NumPy's ImportError), or
leave a module half there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """Have Ctrl-C end this process at once, unless whoever started it wants Ctrl-C ignored."""
    ours = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or not callable(ours):
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ours)


def _leave(number: int, frame: Any) -> None:
    os.write(2, b"stopped\n")
    os._exit(130)
