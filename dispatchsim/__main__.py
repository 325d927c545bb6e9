"""The start of the command line: handle Ctrl-C before any slow import."""

from __future__ import annotations

from .command_line.module_imports import imports


def main() -> None:
    """Run the command line."""
    with imports():
        from .command_line.app import app
    app()


if __name__ == "__main__":
    main()
