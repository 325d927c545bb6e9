"""The page in a notebook: the same controls, charts and answers, in a cell.

explore() ─► Exploration ─► shown by the cell; .frame, .scenario, .view
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..scenario.errors import UserError
from . import check_panel
from .downloads import frame_of
from .simulating import Simulations
from .view import View

if TYPE_CHECKING:
    import pandas as pd

    from ..scenario.scenario import Scenario
    from .page import Page


@functools.cache
def _simulations() -> Simulations:
    """Return what simulates for all cells of this process, and ends with it."""
    return Simulations()


class Exploration:
    """A page in a cell: show it by being the cell's last value.

    Parameters
    ----------
    page:
        With controls that have no address of their own.
    """

    def __init__(self, page: Page) -> None:
        self._page = page

    @property
    def view(self) -> View:
        """What is chosen now."""
        return self._page.session.view

    @property
    def scenario(self) -> Scenario:
        """The scenario of the first mechanism that is not left out, with runs as shown of it."""
        return self._page.session.answer.scenario()

    @property
    def frame(self) -> pd.DataFrame:
        """What is known now: a row a mechanism and load, as in the downloaded data."""
        self._page.session.collect()
        return frame_of(self._page.session.answer)

    def close(self) -> None:
        """Simulate nothing more for this cell."""
        self._page.leave()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return _laid_out(self._page)._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        """Return in one line what it is: a page is no text."""
        return f"<Exploration of {', '.join(self.view.mechanisms)}: .view, .frame, .scenario>"


def explore(**settings: int | str | Sequence[str]) -> Exploration:
    """Return the what-if page for a notebook.

    Parameters
    ----------
    settings:
        What to begin with, by the keys of the page's address: profile, mechanisms, rate (1/s),
        idle, reply (bytes), accept, backlog, style, patience, overload.

    Raises
    ------
    UserError
        If a setting is unknown or out of its bounds, Panel is missing, or this is no notebook.
    """
    check_panel()
    texts = {
        key: [",".join(value) if isinstance(value, list | tuple) else str(value)]
        for key, value in settings.items()
    }
    view, notices = View.read(texts)
    if notices:
        raise UserError(f"explore: {notices[0].rpartition('; ')[0]}")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UserError(
            "explore: must be called in a notebook; elsewhere `dispatchsim explore` serves the page"
        ) from None
    import panel as pn

    from .page import Page

    pn.extension()
    return Exploration(Page(_simulations(), view, [], lambda change: change(), live=False))


def _laid_out(page: Page) -> Any:
    """Return the parts of *page* as a notebook has room for them."""
    import panel as pn

    return pn.Column(
        page.answer,
        pn.Row(pn.Column(page.controls, width=320), page.charts),
        sizing_mode="stretch_width",
    )
