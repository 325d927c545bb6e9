"""Settings of a run by their names alone, whichever record they belong to.

RunSettings(**on_server(workers=2, cpus=2, backlog=1), duration_ns=1_000)
"""

from __future__ import annotations

from typing import Any

from dispatchsim.sim.state.settings import FOR_SERVER, RunSettings, having

_DEFAULTS = RunSettings()


class Served(dict[str, Any]):
    """Fields of `RunSettings`, by name: the records of settings of the server and its machine.

    The kernel's is among them once one of its settings was given.
    """

    def __getattr__(self, name: str) -> Any:
        """Return the setting *name*, whichever record it belongs to."""
        given = [record for record in self.values() if hasattr(record, name)]
        found = given or [record for record in _DEFAULTS if hasattr(record, name)]
        if len(found) != 1:
            raise AttributeError(f"{name} must be in one record, is in {found}")
        return getattr(found[0], name)

    def but(self, **settings: Any) -> Served:
        """Return the records with other *settings*."""
        return served(having(_DEFAULTS._replace(**self), **settings))


def on_server(**settings: Any) -> Served:
    """Return the records that hold *settings*, all others as by default."""
    return served(having(_DEFAULTS, **settings))


def served(run: RunSettings) -> Served:
    """Return the records of *run* that are of its server and machine."""
    found = {field: getattr(run, field) for field in (*FOR_SERVER, "machine")}
    if run.kernel != _DEFAULTS.kernel:
        found["kernel"] = run.kernel
    return Served(found)
