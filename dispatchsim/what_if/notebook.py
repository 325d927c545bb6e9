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
    """Return the simulations shared by all cells of this process."""
    return Simulations()


class Exploration:
    """The page as a cell's value; the cell shows it.

    Parameters
    ----------
    page:
        A page without an address of its own.
    """

    def __init__(self, page: Page) -> None:
        self._page = page

    @property
    def view(self) -> View:
        """The current choice."""
        return self._page.session.view

    @property
    def scenario(self) -> Scenario:
        """The scenario of the first mechanism that can be simulated, with the runs shown."""
        return self._page.session.answer.scenario()

    @property
    def frame(self) -> pd.DataFrame:
        """The results so far: a row per mechanism and load, as in the downloaded data."""
        self._page.session.collect()
        return frame_of(self._page.session.answer)

    def close(self) -> None:
        """Stop simulating for this cell."""
        self._page.leave()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return _laid_out(self._page)._repr_mimebundle_(include, exclude)

    def __repr__(self) -> str:
        """Return one line, as a page is no text."""
        return f"<Exploration of {', '.join(self.view.mechanisms)}: .view, .frame, .scenario>"


def explore(**settings: int | str | Sequence[str]) -> Exploration:
    """Return the what-if page for a notebook.

    Parameters
    ----------
    settings:
        The first choice, by the keys of the page's address: profile, mechanisms, rate (1/s),
        idle, reply (bytes), accept, backlog, style, `patience`, overload.

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
            "explore: must be called in a notebook; elsewhere use `dispatchsim explore`"
        ) from None
    import panel as pn

    from .page import Page

    pn.extension()
    return Exploration(Page(_simulations(), view, [], lambda change: change(), live=False))


def _laid_out(page: Page) -> Any:
    """Return the parts of *page*, laid out for a notebook."""
    import panel as pn

    return pn.Column(
        page.answer,
        pn.Row(pn.Column(page.controls, width=320), page.charts),
        sizing_mode="stretch_width",
    )
