"""While modules are imported: Ctrl-C ends the process at once, and no garbage is collected.

An interrupted import may turn the exception into one of its own (NumPy's ImportError), or leave a
module half initialised. No work has begun by then, so none is lost.

Modules are kept until the process ends. The garbage collector would walk through them again and
again: it took 70 of the 600 ms of CPU time of a warm `dispatchsim run`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """Protect a body that imports modules and does nothing else."""
    with _leaving_at_once(), _no_collection():
        yield


@contextlib.contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Have Ctrl-C end this process at once, unless its parent set Ctrl-C to be ignored."""
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


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Stop the garbage collector; afterwards it skips all that was imported."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
