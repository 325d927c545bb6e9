"""A server of somebody else, as data: how it is started, what it is asked, what it can be told.

RealServer ─┬─ fitted, others: Variant ─► command, environment, configuration, habits
            └─ asking, port, keys
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...calibration.observed.habits import Habits
from ...calibration.observed.observing import Asking
from ...calibration.testbed.testbed import Testbed

ADDRESS, FOLDER = "{address}", "{folder}"
"""What stands in a command or a configuration for the server's address, and for its own folder."""


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to run a server.

    Attributes
    ----------
    name:
        For tables.
    habits:
        What its configuration says that it does; a traced run is held against it.
    command:
        With ADDRESS and FOLDER where these come.
    environment:
        Besides that of this process.
    files:
        Configuration to be written into its folder, by name.
    """

    name: str
    habits: Habits
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The command as a shell takes it, with its environment: what names a variant in records.

        >>> Variant("poll", Habits("poll"), ("memcached",), {"EVENT_NOEPOLL": "1"}).shown
        'env EVENT_NOEPOLL=1 memcached'
        """
        values = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*(["env", *values] if values else []), *map(_quoted, self.command)])

    def prepared(self, folder: Path, testbed: Testbed) -> list[str]:
        """Write the configuration into *folder* and return the command for *testbed*.

        Only the starter may change the folder: a server that root starts loads what its
        configuration names. A server that gives up root's rights makes sub-folders of its own
        there before it does.
        """

        def filled(text: str) -> str:
            return text.replace(ADDRESS, testbed.address).replace(FOLDER, str(folder))

        for name, text in self.files.items():
            (folder / name).write_text(filled(text))
            (folder / name).chmod(0o644)
        # Passed through, not written to, by a server that has given up the rights of its starter.
        folder.chmod(0o711)
        return [filled(word) for word in self.command]


def _quoted(word: str) -> str:
    return word if ADDRESS in word or FOLDER in word else shlex.quote(word)


@dataclass(frozen=True, eq=False)
class RealServer:
    """A server, and what is asked of it.

    Attributes
    ----------
    name:
        On the command line and in the report.
    package:
        Of Debian, where it is from.
    port:
        Where it listens.
    asking:
        What clients say.
    fitted:
        The variant that a fit may see.
    others:
        Those that are forecast.
    value_bytes:
        Of the value under each key, which are stored before a run; 0 for a server without keys.
    """

    name: str
    package: str
    port: int
    asking: Asking
    fitted: Variant
    others: tuple[Variant, ...] = ()
    value_bytes: int = 0

    @property
    def program(self) -> str:
        """The program that is started."""
        return self.fitted.command[0]

    def variant(self, name: str) -> Variant:
        """Return the variant *name*."""
        return next(variant for variant in (self.fitted, *self.others) if variant.name == name)
