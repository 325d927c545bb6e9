"""References of signatures to names without an entry on the page of Python.

    a reference that leads nowhere ─┬─ the name can be imported: it is plain text
                                    └─ it cannot: Sphinx reports a broken reference

So a new class in a signature needs no entry, and a removed name is still reported.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.application import Sphinx


def exists(name: str) -> bool:
    """Return whether *name* is a module of dispatchsim, or something in one.

    >>> exists("dispatchsim.sim.state.world.World"), exists("dispatchsim.sim.state.world.Wrold")
    (True, False)
    """
    if name.partition(".")[0] != "dispatchsim":
        return False
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            thing: Any = import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


def _without_link(
    _app: Sphinx, _env: Any, node: Any, content: nodes.TextElement
) -> nodes.TextElement | None:
    of_python = node.get("refdomain") == "py"
    return content if of_python and exists(node["reftarget"]) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Show names without an entry as plain text."""
    app.connect("missing-reference", _without_link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
