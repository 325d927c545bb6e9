"""Sections of a scenario file, whose keys are made from the declared settings of a run.

sim/state/settings.py: a setting, its bounds, the text below it ─► key, validation, schema, help
section of a file ─► record of settings
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool
from pydantic.fields import FieldInfo

from ..sim.state.rules import Broken
from ..sim.state.setting import DeclaredSetting, declared
from ..sim.state.settings import Given
from ..sim.state.units import PERMILLE
from .key_types import Bounded, Share, Whole
from .quantities import BANDWIDTH, DURATION, SIZE, Unit

_UNITS = {"duration": DURATION, "size": SIZE, "bandwidth": BANDWIDTH}
Record = TypeVar("Record")


def _in_thousandths(value: float) -> float:
    if abs(PERMILLE * value - round(PERMILLE * value)) > 1e-6:
        raise ValueError(f"must be a multiple of 0.001, got {value}")
    return value


ShareOfSome = Annotated[float, Share(above=0, most=1), AfterValidator(_in_thousandths)]
"""A share above 0 in whole thousandths, as a run stores it; finer shares are refused."""


class Section(BaseModel):
    """A section without unknown keys and without later changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=False, use_attribute_docstrings=True
    )


class SettingsSection(Section):
    """A section with keys made from records of settings; its own keys come first.

    A setting with a text below it becomes a key, unless the section has a key of that name.
    """

    made_from: ClassVar[frozenset[str]] = frozenset()
    """Names of the settings that became keys."""
    keys: ClassVar[dict[str, str]] = {}
    """Name of a setting in its record -> its key in a scenario file."""

    def __init_subclass__(cls, settings: Iterable[Any], **config: Any) -> None:
        """Make the keys before pydantic builds the class."""
        super().__init_subclass__(**config)
        own = cls.__annotations__
        declarations = [each for record in settings for each in declared(record)]
        known = [each for each in declarations if each.key not in own]
        missing = [each.name for each in known if each.setting.key is not None and not each.help]
        assert not missing, f"a sentence must stand below {', '.join(missing)}"
        made = [each for each in known if _is_key(each)]
        cls.keys = {each.name: each.key for each in declarations}
        cls.made_from = frozenset(each.name for each in made)
        for each in made:
            own[each.key] = _type_in_file(each)
            default = ... if each.default is ... else _in_file(each, each.default)
            setattr(cls, each.key, Field(default=default, description=each.help))

    if TYPE_CHECKING:

        def __getattr__(self, key: str) -> Any:
            """Return the value of a key made from a setting."""


def _is_key(setting: DeclaredSetting) -> bool:
    return setting.setting.key is not None and bool(setting.help)


def _type_in_file(each: DeclaredSetting) -> Any:
    """Return the type of a key, with its bounds, for pydantic."""
    setting = each.setting
    most = setting.run_most if setting.most is None else setting.most
    least = setting.least if setting.file_least is None else setting.file_least
    kind: Any
    if each.words:
        kind = Literal[each.words]
    elif each.kind is bool:
        kind = StrictBool
    elif each.unit in _UNITS:
        unit = _UNITS[each.unit]
        kind = Annotated[int, Bounded(unit, str(setting.file_least or _zero(unit)), str(most))]
    elif each.unit == "share":
        share = Share(least=_share(least), most=_share(most))
        kind = Annotated[float, share, AfterValidator(_in_thousandths)]
    else:
        assert not isinstance(least, str), f"{each.name} has no unit"
        assert not isinstance(most, str), f"{each.name} has no unit"
        kind = Annotated[int, Whole(least, most)]
    return kind | None if each.setting.absent_is_0 else kind


def _zero(unit: Unit) -> str:
    return "0 s" if unit is DURATION else f"0 {unit.base}"


def _share(thousandths: int | str | None) -> float:
    """Return a bound as a file has it: 1 is 0.001, 1000 is 1."""
    assert isinstance(thousandths, int)
    whole, rest = divmod(thousandths, PERMILLE)
    return thousandths / PERMILLE if rest else whole


def _in_file(each: DeclaredSetting, value: Any) -> Any:
    """Return a value of a run as it stands in the model of a section."""
    if each.setting.absent_is_0 and value == 0:
        return None
    if each.words:
        return each.words[int(value)]
    return value / PERMILLE if each.unit == "share" else value


def settings_from(section: SettingsSection, record: Callable[..., Record], **others: Any) -> Record:
    """Return *record* with the settings of *section*, and *others* by name."""
    values = {
        each.name: _in_run(each, getattr(section, each.key))
        for each in declared(record)
        if each.name in section.made_from
    }
    return record(**(values | others))


def _in_run(each: DeclaredSetting, value: Any) -> Any:
    if value is None:
        return 0
    if each.words:
        return each.kind(each.words.index(value))
    return round(value * PERMILLE) if each.unit == "share" else value


def refuse(broken: Broken | None) -> None:
    """Refuse a file that breaks a rule between settings.

    Raises
    ------
    ValueError
        With the file's keys and values, the rule and the reason.
    """
    if broken is None:
        return
    given, where, why = broken.given, "", f" ({broken.why})" if broken.why else ""
    if broken.cause is not None:
        several = " and server.workers is above 1" if broken.of_several else ""
        where = f" where {_key(broken.cause)} is {_written(broken.cause)}{several}"
    bound = _written(given._replace(value=broken.bound))
    raise ValueError(
        f"{_key(given)}: must {broken.must} {bound}{where}{why}, got {_written(given)}"
    )


def _key(given: Given) -> str:
    section = {"client": "load", "network": "network", "backend": "backend"}.get(
        given.field, "server"
    )
    return f"{section}.{given.declared.key}"


def _written(given: Given) -> str:
    unit = _UNITS.get(given.declared.unit)
    if unit:
        return unit.format(given.value) if given.value else _zero(unit)
    return written(_in_file(given.declared, given.value))


def section_of(field: FieldInfo) -> type[BaseModel]:
    """Return the section class of a field of a scenario, which may hold a list of sections."""
    section = get_args(field.annotation)[0] if get_args(field.annotation) else field.annotation
    assert isinstance(section, type)
    assert issubclass(section, BaseModel)
    return section


def properties_in_file(section: type[BaseModel], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of each key of *section*, from its *schema*, as a file holds it.

    Units are part of texts, and there is no null, as TOML has none.
    """
    properties = {}
    for key, field in section.model_fields.items():
        properties[key] = _without_null(schema["properties"][key])
        units = [m.unit for m in field.metadata if isinstance(m, Bounded)]
        if units and "default" in properties[key]:
            default, unit = field.default, units[0]
            properties[key]["default"] = unit.format(default) if default else _zero(unit)
    return properties


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a key that may be absent, without null."""
    if "anyOf" not in schema:
        return schema
    (option,) = (option for option in schema["anyOf"] if option != {"type": "null"})
    bounds = option.get("description")
    kept = {key: schema[key] for key in schema if key not in ("anyOf", "default")}
    if bounds:
        kept["description"] = f"{kept['description']} A {bounds}."
    return {**option, **kept}


def written(value: object) -> str:
    """Return *value* as a scenario file has it: "first", true, 0."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)
