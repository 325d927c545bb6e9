"""The start of the command line: handle Ctrl-C before any slow import."""

from __future__ import annotations

from .command_line.module_imports import imports


def main() -> None:
    """Run the command line."""
    with imports():
        from .command_line.app import app
    try:
        app()
    finally:
        # CPython notes a KeyboardInterrupt that leaves exec() of text (dataclasses call it), even
        # if it is caught later. `python -m` would then end by SIGINT, without our exit status.
        # The next exec() of text clears the note (run_eval_code_obj() in Python/pythonrun.c).
        exec("")


if __name__ == "__main__":
    main()
