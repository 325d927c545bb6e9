"""The section [backend] of a scenario file: a service that the server's requests wait for."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StrictStr, model_validator

from ..models.catalogue import CATALOGUE, MECHANISMS
from ..models.suitable_settings import broken_rule
from ..sim.assembly.checks import has_siblings
from ..sim.state.backend_settings import BackendSettings
from ..sim.state.laws import Law
from ..sim.state.rules import too_few_to_backend
from ..sim.state.settings import RunSettings
from .declared import SettingsSection, refuse, settings_from
from .key_types import Bounded
from .laws import Spread, law_of
from .load import Load
from .quantities import DURATION
from .server import Server

_WHERE = "where [backend] is given"
_LACKS_CONNECTIONS = f"backend.connections: must be given {_WHERE}, got nothing"


class Backend(SettingsSection, settings=(BackendSettings,)):
    """Another service that requests wait for: a database, or the server behind a proxy.

    Without this section there is no backend.
    """

    delay: Annotated[int, Bounded(DURATION, "0 s", "1 h")] | None = Field(
        default=None,
        description="Mean time from the start of work on a request until its reply reaches the "
        "server, both network trips included. Required, unless backend.delay_file is given.",
    )
    delay_spread: Spread = Field(
        default="constant",
        description="Distribution of the delay of requests. samples: the delays in "
        "backend.delay_file.",
    )
    delay_p99: Annotated[int, Bounded(DURATION, "0 s", "1 h")] | None = Field(
        default=None, description="99th percentile of a lognormal spread, above backend.delay."
    )
    delay_file: StrictStr | None = Field(
        default=None,
        description="A file of delays, one a line, such as 8.5 ms; relative to the scenario file.",
    )

    @property
    def law(self) -> Law:
        """The law of the backend's delay for a request.

        Raises
        ------
        ValueError
            With key, rule and value, where the keys do not make a law.
        """
        spread, p99 = self.delay_spread, self.delay_p99
        return law_of("backend.delay", self.delay or 0, spread, p99, self.delay_file)

    @property
    def settings(self) -> BackendSettings:
        """The settings of a run."""
        law = self.law
        constant_ns = round(law.mean_ns) if law.kind == "constant" else 0
        return settings_from(self, BackendSettings, delay_ns=constant_ns)

    @property
    def drawn_law(self) -> Law | None:
        """The law of random delays; None: all are equal."""
        law = self.law
        return None if law.kind == "constant" or law.mean == 0 else law

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.connections is None:
            if self.model_fields_set:
                raise ValueError(_LACKS_CONNECTIONS)
            return self
        if self.delay is None and self.delay_file is None:
            raise ValueError(
                "backend.delay: must be given unless backend.delay_file is, got nothing"
            )
        law = self.law
        if law.kind == "exponential" and law.mean_ns == 0:
            raise ValueError(
                'backend.delay: must be above 0 s where backend.delay_spread is "exponential", '
                "got 0 s"
            )
        return self


def unused_limit(backend: Backend) -> str:
    """Return the warning that *backend* has fewer connections than its limit, or ""."""
    n, limit = backend.connections, backend.limit
    if n is None or limit is None or limit <= n:
        return ""
    return f"backend.limit: has no effect above backend.connections ({n}), got {limit}"


def check_backend(
    backend: Backend, server: Server, load: Load, role: str, *, is_given: bool
) -> None:
    """Check that *server* can query *backend*, if there is one or its section *is_given*.

    Raises
    ------
    ValueError
        With key, rule and value.
    """
    n = backend.connections
    if n is None and is_given:
        raise ValueError(_LACKS_CONNECTIONS)
    if n is None:
        return
    if role == "client":
        raise ValueError(
            f'backend.connections: must be absent where machine.role is "client", got {n}'
        )
    settings = server.run_settings._replace(backend=backend.settings)
    broken = broken_rule(CATALOGUE[server.mechanism], RunSettings(backend=backend.settings))
    if broken is not None:
        raise ValueError(
            f"backend.connections: must be absent where server.mechanism is "
            f'"{server.mechanism}", {broken.others}, got {n}'
        )
    mechanism = MECHANISMS[server.mechanism]
    if has_siblings(settings.signals, mechanism):
        raise ValueError(
            f'server.recovery_thread: must not be "sibling" {_WHERE}, as a sibling has no '
            'connection to the backend, got "sibling"'
        )
    if load.close == "half-close":
        raise ValueError(
            f'load.close: must not be "half-close" {_WHERE}, as the server takes a half-closed '
            'client for gone while its request is at the backend, got "half-close"'
        )
    refuse(too_few_to_backend(settings, one_at_a_time=mechanism.one_at_a_time))
