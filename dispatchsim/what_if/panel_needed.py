"""What the page is made with, which not everybody has installed."""

from __future__ import annotations

import importlib.util

from ..scenario.errors import UserError


def check_panel() -> None:
    """Refuse to go on without Panel.

    Raises
    ------
    UserError
        With what to install.
    """
    if importlib.util.find_spec("panel") is None:
        raise UserError("explore: needs Panel: pip install 'dispatchsim[explore]', then try again")
