"""The what-if page: `dispatchsim explore` serves it, `ds.explore()` shows it in a notebook.

choices ─► view ─► questions ─► answers ─► series, sentences ─► charts, downloads
                      │  ▲
                   simulating              one pool of processes for all viewers

session   one viewer, without Panel        page, serving, notebook   with it
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .notebook import Exploration


class _Explore(ModuleType):
    """The package itself, which can be called: it and what it does have the same name."""

    def __call__(self, **settings: Any) -> Exploration:
        """Return the page for a notebook: see `notebook.explore`."""
        from .notebook import explore

        return explore(**settings)


sys.modules[__name__].__class__ = _Explore
explore = cast("_Explore", sys.modules[__name__])
