"""The list of effects: what was found missing in the model, and what putting it there was worth.

    effects.toml ──► Effect ──► a table of the report

An effect belongs into the list whether it helped or not; the errors before and after are those of
two reports, with nothing else changed between them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...sim.files.tables import DASH, Column, Table

FORMAT = "dispatchsim-effects/1"
SHIPPED = Path(__file__).parents[1] / "effects.toml"

_Text = Annotated[str, Field(min_length=1, pattern=r"^[^\n]*$")]
_Error = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class EffectsError(ValueError):
    """A list of effects breaks its format; the message names file, effect, key and rule."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Change(_Frozen):
    """The absolute error of a figure without and with the effect in the model, 0.02 for 2%."""

    figure: _Text
    statistic: Literal["median", "worst"]
    before: _Error
    after: _Error

    @property
    def verdict(self) -> Literal["better", "unchanged", "worse"]:
        """What the effect did to the error; less than a tenth of a percentage point is nothing."""
        change = self.after - self.before
        if abs(change) < 0.001:
            return "unchanged"
        return "better" if change < 0 else "worse"


class Effect(_Frozen):
    """Something the kernel does that the model did not, and what modelling it was worth."""

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


def read_effects(path: Path = SHIPPED) -> tuple[Effect, ...]:
    """Return the effects listed in *path*, in its order.

    Raises
    ------
    EffectsError
        With file, effect, key, rule and value, when the file breaks the format.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise EffectsError(f"{path}: must be readable, got {error.strerror}") from error
    except ValueError as error:
        raise EffectsError(f"{path}: must be TOML, got {error}") from error
    if content.get("format") != FORMAT:
        found = content.get("format")
        raise EffectsError(f'{path}: format: must be "{FORMAT}", got {found!r}')
    try:
        effects = _List.model_validate(content).effect
    except ValidationError as error:
        raise EffectsError(f"{path}: {_sentence(error, content)}") from error
    ids = [effect.id for effect in effects]
    for name in ids:
        if ids.count(name) > 1:
            raise EffectsError(
                f'{path}: effect "{name}": must be listed once, got {ids.count(name)}'
            )
    return effects


def _sentence(error: ValidationError, content: dict[str, object]) -> str:
    """Return the first thing wrong, the effect by its id where it has one."""
    first = error.errors()[0]
    place = list(first["loc"])
    where = ".".join(str(part) for part in place)
    if place[0] == "effect" and len(place) > 2:
        rows = content["effect"]
        row = rows[int(place[1])] if isinstance(rows, list) else {}
        name = row.get("id") if isinstance(row, dict) else None
        number = f'effect "{name}"' if isinstance(name, str) else f"effect {int(place[1]) + 1}"
        where = f"{number}: {'.'.join(str(part) for part in place[2:])}"
    if first["type"] == "missing":
        return f"{where}: is missing"
    if first["type"] == "extra_forbidden":
        return f"{where}: is no key of an effect"
    rule = first["msg"][0].lower() + first["msg"][1:]
    return f"{where}: {rule}, got {first['input']!r}"


def effects_table(effects: Sequence[Effect]) -> Table:
    """Return the effects, where each is in the model, and what it was worth on both targets."""
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
        "Absolute errors of the forecasts without and with the effect in the model, nothing else "
        "changed."
    )
    return Table.of(_TITLE, effects, columns, note)


def short_effects_table(effects: Sequence[Effect]) -> Table:
    """Return what each effect was worth, without the sentences that a terminal has no room for."""
    columns: list[Column[Effect]] = [
        _ID,
        Column("without noise", lambda e: _short(e.noise_free), words=True),
        _VERDICT,
        Column("on hardware", lambda e: _short(e.hardware), words=True),
        _HARDWARE_VERDICT,
    ]
    note = "Absolute errors without and with the effect in the model; the page says which."
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
