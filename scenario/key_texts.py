"""The keys of a scenario file in words: values, default and description of each.

    sections, their types and docstrings ─► SectionText, KeyText ─┬─► `dispatchsim fields`
                                                                  └─► the page of fields in docs

All texts come from the models that check files and from their JSON Schema.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .declared import section_of, written
from .errors import UserError, nearest_names
from .key_types import Bounded
from .scenario import Scenario, scenario_schema

_TYPES = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "array": "list",
    "boolean": "true or false",
}
_BOUNDS = {
    "minimum": "from {}",
    "exclusiveMinimum": "above {}",
    "maximum": "to {}",
    "exclusiveMaximum": "below {}",
    "minItems": "of {} entries",
    "minLength": "of {} character",
    "maxItems": "to {}",
    "maxLength": "to {}",
}


class KeyText(NamedTuple):
    """A key of a scenario file.

    Attributes
    ----------
    field:
        Section and key: "load.rate".
    kind:
        What it takes: "rate", "whole number", "true or false".
    bounds:
        Of its values; empty: none, or choices.
    units:
        Of a quantity, the smallest first.
    choices:
        All values that it may have, as a file has them; empty: they are not counted.
    example:
        Of a quantity, as a file has it.
    default:
        As a file has it; empty: the key is absent, or must be given.
    must_be_given:
        Whether there is no default.
    about:
        What it is.
    """

    field: str
    kind: str
    bounds: str
    units: tuple[str, ...]
    choices: tuple[str, ...]
    example: str
    default: str
    must_be_given: bool
    about: str

    def takes(self, quote: str = "") -> str:
        """Return what values it has: choices, or kind, bounds, an example and units.

        Values of a file stand between two of *quote*.
        """
        if self.choices:
            *others, last = (f"{quote}{choice}{quote}" for choice in self.choices)
            return " or ".join(filter(None, (", ".join(others), last)))
        parts = [f"{self.kind} {self.bounds}".strip()]
        if self.example:
            example = f"{quote}{self.example}{quote}"
            parts.append(f"such as {example} (units {', '.join(self.units)})")
        return ", ".join(parts)

    @property
    def begins_as(self) -> str:
        """Its default in words."""
        return "must be given" if self.must_be_given else self.default or "absent"

    @property
    def line(self) -> str:
        """The first sentence of what it is."""
        first = re.split(r"(?<!\.)\. ", self.about, maxsplit=1)[0]  # "..." ends no sentence
        return first.split("; absent:", 1)[0].removesuffix(".")


class SectionText(NamedTuple):
    """A section of a scenario file: its heading, what it is, and its keys."""

    name: str
    heading: str
    about: str
    must_be_given: bool
    is_list: bool
    keys: tuple[KeyText, ...]


def section_texts() -> dict[str, SectionText]:
    """Return all sections by name, in the order of their model."""
    definitions = scenario_schema()["$defs"]
    found = {}
    for name, field in Scenario.model_fields.items():
        section = section_of(field)
        is_list = bool(get_args(field.annotation))
        found[name] = SectionText(
            name=name,
            heading=f"[[{name}]]" if is_list else f"[{name}]",
            about=inspect.getdoc(section) or "",
            must_be_given=field.is_required(),
            is_list=is_list,
            keys=key_texts(name, section, definitions[section.__name__]),
        )
    return found


def key_texts(name: str, section: type[BaseModel], schema: dict[str, Any]) -> tuple[KeyText, ...]:
    """Return the keys of *section*, called *name*, whose JSON Schema is *schema*."""
    required = schema.get("required", [])
    return tuple(
        _key_text(f"{name}.{key}", field, schema["properties"][key], needed=key in required)
        for key, field in section.model_fields.items()
    )


def _key_text(name: str, field: FieldInfo, schema: dict[str, Any], *, needed: bool) -> KeyText:
    if field.description is None:
        raise ValueError(f"{name}: must have a description, got none")
    default = "" if needed or schema.get("default") is None else written(schema["default"])
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    quantity = _quantity(field)
    if quantity is not None:
        unit = quantity.unit
        kind, units, example = unit.name, tuple(unit.units), f'"{unit.example}"'
        bounds = f"from {quantity.least} to {quantity.most}"
    else:
        # Of a number that a text may stand for ("20k", "50%"), the number comes first.
        kinds = schema.get("type", "string")
        kind, units, example = _TYPES[kinds if isinstance(kinds, str) else kinds[0]], (), ""
        bounds = " ".join(_bounds(schema))
    return KeyText(
        name,
        kind,
        bounds,
        units,
        tuple(map(written, choices)),
        example,
        default,
        needed,
        field.description,
    )


def _bounds(schema: dict[str, Any]) -> Iterator[str]:
    for key, words in _BOUNDS.items():
        if key in schema:
            yield words.format(f"{schema[key]:,}")


def _quantity(field: FieldInfo) -> Bounded | None:
    """Return the kind of quantity that the field takes, if it takes one."""
    metadata = [*field.metadata]
    for option in get_args(field.annotation):
        metadata += get_args(option)
    return next((entry for entry in metadata if isinstance(entry, Bounded)), None)


def find_text(name: str) -> SectionText | KeyText:
    """Return the section or the key *name*: "load", "load.rate", or "rate" if one section has it.

    Raises
    ------
    UserError
        If there is none, or several, with the nearest names.
    """
    sections = section_texts()
    plain = name.strip("[] ")
    if plain in sections:
        return sections[plain]
    keys = {key.field: key for section in sections.values() for key in section.keys}
    if plain in keys:
        return keys[plain]
    same = [field for field in keys if field.partition(".")[2] == plain]
    if len(same) == 1:
        return keys[same[0]]
    section, dot, key = plain.partition(".")
    if dot and section in sections:
        of_section = [each.field.partition(".")[2] for each in sections[section].keys]
        near = [f"{section}.{each}" for each in nearest_names(key, of_section)]
    else:
        near = same or nearest_names(plain, [*sections, *keys])
    hint = f"the nearest are {', '.join(near)}" if near else f"sections are {', '.join(sections)}"
    raise UserError(f"{name}: must be a section or a key of a scenario ({hint})")
