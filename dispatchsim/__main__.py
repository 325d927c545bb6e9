"""Where the command line begins: before anything that takes time, be ready for Ctrl-C."""

from __future__ import annotations

import os
import signal
from typing import Any


def main() -> None:
    """Run the command line."""
    ours = signal.getsignal(signal.SIGINT)
    if ours is signal.default_int_handler:  # unless whoever started it wants Ctrl-C ignored
        signal.signal(signal.SIGINT, _leave)
    from .cli import app

    signal.signal(signal.SIGINT, ours)
    app()


def _leave(number: int, frame: Any) -> None:
    """Leave at once: nothing has begun, and half-imported modules have nothing to say."""
    os.write(2, b"stopped\n")
    os._exit(130)


if __name__ == "__main__":
    main()
