"""Bounds, key in a file and help of a setting, declared beside its default.

    class LimitSettings(NamedTuple):
        backlog: Annotated[int, Setting(least=1, most=65_535)] = 4096
        \"\"\"Connections that may wait to be accepted.\"\"\"

The checks of a run (sim/assembly/checks.py) and of a file (scenario/declared.py) read the record.
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
"""End of a setting's name -> its unit; keys in a file omit the end."""


class Kind(Enum):
    """A property of a mechanism with its program; the value describes all other mechanisms.

    models/suitable_settings.py decides which mechanism has which property.
    """

    LOOPS = "whose program has no event loop"
    HAS_TIMERS = "whose program has no timers in this model"
    BLOCKS = "whose workers all start before the run"
    ASKS = "whose threads block in their calls"
    TELLS_STATES = "which does not report descriptors that stay writable"
    TAKES_OVER = "whose workers cannot take over connections that another worker accepted"
    SHARES_READY_LIST = "whose workers share no ready list"
    WAKES_ONE = "which has no exclusive wake-ups"
    BY_SIGNALS = "whose events are not signals"
    WATCHES_ONE_BY_ONE = "whose calls watch many descriptors at once"
    IN_EPOLL = "which has no epoll set"
    BY_PORT = "which has no completion port"
    IO_URING = "which is not io_uring"
    SELECT = "which is not select"
    SCANS = "whose calls do not pass the whole set"
    ONLY_ADDS = "whose interests can be reduced"
    ASKS_BACKENDS = "whose program cannot query a backend in this model"


class Setting(NamedTuple):
    """The bounds and words of a setting; the text below the setting describes it.

    Attributes
    ----------
    least:
        The minimum in a run, and in a file unless it has `file_least`; None: none.
    most, file_least:
        Bounds in a scenario file: numbers are in the unit of the setting, texts have a unit of
        their own ("1 h"). Without *most* the maximum is that of a run.
    run_most:
        The maximum in a run; None: none.
    key:
        Its name in a scenario file; "": its own name without the unit at its end; None: it has no
        key, or the section declares the key.
    words:
        Names of its values 0, 1, 2 ... in a scenario file, or an enumeration of all values.
    absent_is_0:
        Whether an absent key means 0.
    needs:
        The property that a mechanism needs for values other than the default; others refuse them.
    value_needs:
        The property that a mechanism needs for a certain value.
    of_several:
        Whether it matters only with several workers, so that its needs count from two on.
    looked_at_by:
        The property of the mechanisms that use it; others ignore it.
    of_client:
        Whether a client uses it, too.
    left_alone:
        Whether most runs keep its default, which the folded engine compiles as a constant.
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

    The default of a required setting is `...`.
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
        """Names of its values from 0 on in a scenario file; empty: none."""
        words = self.setting.words
        if isinstance(words, tuple):
            return words
        return tuple(value.name.lower().replace("_", " ") for value in words)


def declared(record: Any) -> tuple[DeclaredSetting, ...]:
    """Return the declared settings of *record*, a class, in its order."""
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
    """Return the text below each setting of a class."""
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
        With the name, the rule and the value of the first setting out of its range.
    """
    for each in declared(type(settings)):
        name, setting, value = each.name, each.setting, getattr(settings, each.name)
        if setting.least is not None and value < setting.least:
            raise ValueError(f"{of}{name} must be at least {setting.least}, got {value}")
        if setting.run_most is not None and value > setting.run_most:
            raise ValueError(f"{of}{name} must be at most {setting.run_most}, got {value}")
        if not isinstance(setting.words, tuple) and value not in tuple(setting.words):
            raise ValueError(f"{of}{name} must be one of {list(setting.words)}, got {value}")
