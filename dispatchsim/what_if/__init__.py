"""The what-if page: `dispatchsim explore` serves it, `ds.explore()` shows it in a notebook.

choices ─► view ─► answers ─► series ─► charts, downloads
                     │  ▲
                  simulating              one pool of processes for all viewers

session   one viewer, without Panel        page, serving, notebook   with it
"""

from __future__ import annotations

import importlib.util

from ..scenario.errors import UserError


def check_panel() -> None:
    """Check that Panel is installed.

    Raises
    ------
    UserError
        If it is not; the message names the package.
    """
    if importlib.util.find_spec("panel") is None:
        raise UserError("explore: needs Panel: run pip install 'dispatchsim[explore]' first")
