"""Calls of the laboratory's commands, as a shell would make them."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from dispatchsim.command_line.app import app


def lab(*arguments: object) -> Result:
    """Call `dispatchsim lab` with *arguments*."""
    return CliRunner().invoke(app, ["lab", *map(str, arguments)])
