"""Bounds, key in a file and help of a setting, declared beside its default.

    class LimitSettings(NamedTuple):
        backlog: Annotated[int, Setting(least=1, most=65_535)] = 4096
        \"\"\"Connections that may wait to be accepted.\"\"\"

Whoever checks a run (sim/assembly/checks.py) or reads a file (scenario/declared.py) asks the
record.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple, get_type_hints

UNITS = {"_ns": "duration", "_bytes": "size", "_bits_per_s": "bandwidth", "_permille": "share"}
"""What the end of a setting's name says of its unit; a file leaves the end away."""


class Kind(Enum):
    """What a mechanism, with its program, may be; the value says what all others are.

    models/suitable_settings.py knows which mechanism is what.
    """

    LOOPS = "whose program is no event loop"
    HAS_TIMERS = "whose programs have no timers here"
    BLOCKS = "whose workers are there from the beginning"
    ASKS = "whose threads sleep in their calls"
    TELLS_STATES = "whose servers are not told that they still can"
    TAKES_OVER = "whose workers are not told of connections that another one has accepted"
    SHARES_READY_LIST = "whose workers have no ready list in common"
    WAKES_ONE = "which leaves no choice"
    BY_SIGNALS = "whose events are not told by signals"
    WATCHES_ONE_BY_ONE = "whose calls watch many at once"
    IN_EPOLL = "whose sets are not epoll's"
    BY_PORT = "whose threads take nothing from a port"
    IO_URING = "which is not io_uring"
    SELECT = "which is not select"
    SCANS = "whose sets are not handed over at each call"
    ONLY_ADDS = "whose interests can be reduced"
    ASKS_BACKENDS = "whose programs ask no backend here"


class Setting(NamedTuple):
    """The bounds and words of a setting; the text below the setting says what it is.

    Attributes
    ----------
    least:
        The least that a run takes, and a file unless it has `file_least`; None: any.
    most, file_least:
        Bounds in a scenario file: numbers are in the unit of the setting, texts have a unit of
        their own ("1 h"). Without *most* a file takes what a run does.
    run_most:
        The most that a run takes; None: any.
    key:
        Its name in a scenario file; "": its own, without the unit at its end; None: files do not
        know it, or the section has a key of its own for it.
    words:
        Names of its values 0, 1, 2 ... in a scenario file, or an enumeration of all values.
    absent_is_0:
        Whether a scenario file says 0 by leaving the key away.
    needs:
        What a mechanism must be to go with another value than the default; others refuse it.
    value_needs:
        The same of one value.
    of_several:
        Whether it is nothing to a single worker, so that what it needs counts from two on.
    looked_at_by:
        What a mechanism is that looks at it; others ignore it.
    of_client:
        Whether a client looks at it, too.
    left_alone:
        Whether most runs leave it at its default: the folded engine has that as a constant.
    """

    least: int | None = None
    most: int | str | None = None
    file_least: int | str | None = None
    run_most: int | None = None
    key: str | None = ""
    words: tuple[str, ...] | type[IntEnum] = ()
    absent_is_0: bool = False
    needs: Kind | None = None
    value_needs: Mapping[int, Kind] = MappingProxyType({})
    of_several: bool = False
    looked_at_by: Kind | None = None
    of_client: bool = False
    left_alone: bool = False


class DeclaredSetting(NamedTuple):
    """A setting in its record: name, type, default, unit ("": none), key in a file, help.

    The default of one that must be given is `...`.
    """

    name: str
    kind: type
    default: Any
    unit: str
    key: str
    help: str
    setting: Setting

    @property
    def words(self) -> tuple[str, ...]:
        """Names of its values from 0 on in a scenario file; empty: it has none."""
        words = self.setting.words
        if isinstance(words, tuple):
            return words
        return tuple(value.name.lower().replace("_", " ") for value in words)


def declared(record: Any) -> tuple[DeclaredSetting, ...]:
    """Return the settings of *record*, a class, that say something of themselves, in its order."""
    return _declared(record)


def declared_by_name(record: Any) -> Mapping[str, DeclaredSetting]:
    """Return the settings of *record*, a class, by their names."""
    return _declared_by_name(record)


@functools.cache
def _declared_by_name(record: Any) -> Mapping[str, DeclaredSetting]:
    return {each.name: each for each in _declared(record)}


@functools.cache
def _declared(record: Any) -> tuple[DeclaredSetting, ...]:
    found = []
    texts = _texts_below(record)
    for name, hint in get_type_hints(record, include_extras=True).items():
        for setting in getattr(hint, "__metadata__", ()):
            end = next((end for end in UNITS if name.endswith(end)), "")
            key = setting.key or name.removesuffix(end)
            kind, default = hint.__origin__, record._field_defaults.get(name, ...)
            text = texts.get(name, "")
            found.append(
                DeclaredSetting(name, kind, default, UNITS.get(end, ""), key, text, setting)
            )
    return tuple(found)


def _texts_below(record: Any) -> dict[str, str]:
    """Return the text that stands below each setting of a class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        setting.target.id: " ".join(text.value.value.split())
        for setting, text in itertools.pairwise(definition.body)
        if isinstance(setting, ast.AnnAssign)
        and isinstance(setting.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def check_bounds(settings: Any, of: str = "") -> None:
    """Check each setting of a record by itself; *of* comes before its name in the error.

    Raises
    ------
    ValueError
        With the name, the rule and the value of the first that is out of its range.
    """
    for each in declared(type(settings)):
        name, setting, value = each.name, each.setting, getattr(settings, each.name)
        if setting.least is not None and value < setting.least:
            raise ValueError(f"{of}{name} must be at least {setting.least}, got {value}")
        if setting.run_most is not None and value > setting.run_most:
            raise ValueError(f"{of}{name} must be at most {setting.run_most}, got {value}")
        if not isinstance(setting.words, tuple) and value not in tuple(setting.words):
            raise ValueError(f"{of}{name} must be one of {list(setting.words)}, got {value}")
