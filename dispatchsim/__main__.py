"""Where the command line begins: before anything that takes time, be ready for Ctrl-C."""

from __future__ import annotations

from .early_stop import leaving_at_once


def main() -> None:
    """Run the command line."""
    with leaving_at_once():
        from .cli import app
    app()


if __name__ == "__main__":
    main()
