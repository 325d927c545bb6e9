"""The list of kernel effects that the model lacked, and the errors before and after adding each.

    effects.toml ──► Effect ──► a table of the report

An effect stands in the list whether it helped or not. The errors before and after come from two
reports that differ in this effect only.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...scenario.sentences import sentences
from ...sim.files.tables import DASH, Column, Table

SHIPPED = Path(__file__).parents[1] / "effects.toml"

_Text = Annotated[str, Field(min_length=1, pattern=r"^[^\n]*$")]
_Error = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EffectsError(ValueError):
    """A list of effects breaks its format; the message names file, effect, key and rule."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Change(_Frozen):
    """The absolute error of a metric without and with the effect in the model; 0.02 is 2%."""

    figure: _Text
    statistic: Literal["median", "worst"]
    before: _Error
    after: _Error

    @property
    def verdict(self) -> Literal["better", "unchanged", "worse"]:
        """Whether the error fell or rose; below 0.1 percentage points it is unchanged."""
        change = self.after - self.before
        if abs(change) < 0.001:
            return "unchanged"
        return "better" if change < 0 else "worse"


class Effect(_Frozen):
    """A kernel behaviour that the model lacked, and the errors before and after adding it."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    what: _Text
    where: _Text
    found_by: _Text
    noise_free: Change
    hardware: Change | None = None
    untried: _Text | None = None


class _List(_Frozen):
    format: Literal["dispatchsim-effects/1"]
    effect: tuple[Effect, ...] = ()

    @model_validator(mode="after")
    def _has_each_once(self) -> _List:
        for name, n in Counter(effect.id for effect in self.effect).items():
            if n > 1:
                raise ValueError(f'effect "{name}": must be listed once, got {n}')
        return self


def read_effects(path: Path = SHIPPED) -> tuple[Effect, ...]:
    """Return the effects listed in *path*, in its order.

    Raises
    ------
    EffectsError
        With file, effect, key, rule and value, when the file breaks the format.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        return _List.model_validate(content).effect
    except OSError as error:
        raise EffectsError(f"{path}: must be readable, got {error.strerror}") from error
    except ValidationError as error:
        raise EffectsError(f"{path}: {sentences(error, _List)[0]}") from error
    except ValueError as error:
        raise EffectsError(f"{path}: must be TOML, got {error}") from error


def effects_table(effects: Sequence[Effect]) -> Table:
    """Return the table of effects: place in the model, and change of error on both targets."""
    columns: list[Column[Effect]] = [
        _ID,
        Column("what the kernel does", lambda e: e.what, words=True),
        Column("in the model", lambda e: e.where, words=True),
        Column("found by", lambda e: e.found_by, words=True),
        Column("without noise", lambda e: _change(e.noise_free), words=True),
        _VERDICT,
        Column(
            "on hardware",
            lambda e: _change(e.hardware) if e.hardware else e.untried or DASH,
            words=True,
        ),
        _HARDWARE_VERDICT,
    ]
    note = (
        "Absolute errors of the forecasts without and with the effect in the model; nothing else "
        "differs."
    )
    return Table.of(_TITLE, effects, columns, note)


def short_effects_table(effects: Sequence[Effect]) -> Table:
    """Return the change of error by each effect, without sentences: a terminal is narrow."""
    columns: list[Column[Effect]] = [
        _ID,
        Column("without noise", lambda e: _short(e.noise_free), words=True),
        _VERDICT,
        Column("on hardware", lambda e: _short(e.hardware), words=True),
        _HARDWARE_VERDICT,
    ]
    note = "Absolute errors without and with the effect in the model; report.html names the metric."
    return Table.of(_TITLE, effects, columns, note)


_TITLE = "Effects found on the shipped targets"
_ID = Column[Effect]("effect", lambda e: e.id, words=True)
_VERDICT = Column[Effect]("", lambda e: e.noise_free.verdict, words=True)
_HARDWARE_VERDICT = Column[Effect](
    "", lambda e: e.hardware.verdict if e.hardware else DASH, words=True
)


def _short(change: Change | None) -> str:
    return DASH if change is None else f"{change.before:.1%} → {change.after:.1%}"


def _change(change: Change) -> str:
    return f"{change.statistic} {change.figure} {_short(change)}"
