"""Turn pydantic's errors into sentences: key, rule, value, and the nearest name."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from .errors import closest, unknown_key
from .quantities import shown


def sentences(
    error: ValidationError, model: type[BaseModel], content: Mapping[str, Any] | None = None
) -> list[str]:
    """Return all mistakes, each as "section.key: rule, got value".

    Parameters
    ----------
    error:
        The error that pydantic raised.
    model:
        The model of the content: the source of known keys.
    content:
        The checked content: mistakes are in its order. Missing keys come last in their section,
        or last of all without *content*.
    """
    details = [each for each in error.errors() if not _is_covered(each, error, model)]
    details.sort(key=lambda detail: (_place(detail["loc"], content), detail["type"] == "missing"))
    found = (" ".join(_sentence(detail, model).split()) for detail in details)
    return list(dict.fromkeys(found))


def _is_covered(detail: Any, error: ValidationError, model: type[BaseModel]) -> bool:
    """Return whether another error has the same cause.

    A list is too short because one of its entries is wrong. A key is missing because it, or its
    section, is misspelt.
    """
    if detail["type"] == "too_short":
        n = len(detail["loc"])
        return any(other["loc"][:n] == detail["loc"] != other["loc"] for other in error.errors())
    if detail["type"] != "missing":
        return False
    for other in error.errors():
        *above, name = other["loc"]
        is_above = detail["loc"][: len(above)] == tuple(above)
        if other["type"] == "extra_forbidden" and is_above:
            meant = closest(str(name), _keys(model, _location(tuple(above))))
            if meant == detail["loc"][len(above)]:
                return True
    return False


def _place(parts: tuple[Any, ...], content: Any) -> tuple[float, ...]:
    """Return where in *content* a key is, as the position in each table above it."""
    place = []
    for part in parts:
        names: Iterable[Any] = content if isinstance(content, dict) else ()
        position = part if isinstance(part, int) else math.inf
        place.append(next((n for n, name in enumerate(names) if name == part), position))
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            content = None
    return tuple(place)


def _sentence(detail: Any, model: type[BaseModel]) -> str:
    location = _location(detail["loc"])
    if not location or (detail["type"] == "value_error" and _names_its_key(detail["msg"])):
        # A rule between keys names its key, but not the number of its section in a list.
        return _numbered(_own_words(detail["msg"]), location)
    if detail["type"] == "missing" and len(location) == 1:
        return f"the section [{location[0]}] is missing"
    return f"{key_of(location)}: {_rule(detail, location, model)}"


def _location(parts: tuple[Any, ...]) -> list[str]:
    """Return names of sections and keys; "fault 2" is the second section of a list."""
    location: list[str] = []
    for part in parts:
        if isinstance(part, int) and location:
            location[-1] += f" {part + 1}"
        else:
            location.append(str(part))
    return location


def key_of(location: list[str]) -> str:
    """Return the key at *location* as a file has it.

    >>> key_of(["server", "backlog"]), key_of(["fault 2", "at"]), key_of(["a b"])
    ('server.backlog', 'fault 2.at', '"a b"')
    """
    return ".".join(
        part if re.fullmatch(r"[\w-]+( \d+)*", part) else shown(part) for part in location
    )


def _rule(detail: Any, location: list[str], model: type[BaseModel]) -> str:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "extra_forbidden":
        return _unknown(location, model)
    if kind == "missing":
        return f"is missing{_choices(model, location)}"
    if kind == "tuple_type" and len(location) == 1 and isinstance(value, dict):
        return f"must be sections [[{location[0]}]], got one section"
    if kind == "model_type" and isinstance(value, list):
        return f"must be one section [{location[0]}], got a list"
    rules = {
        "greater_than_equal": f"must be at least {_bound(context, 'ge')}",
        "less_than_equal": f"must be at most {_bound(context, 'le')}",
        "int_type": "must be a whole number",
        "bool_type": "must be true or false",
        "string_type": "must be a text in quotes",
        "literal_error": f"must be {context.get('expected', '')}".replace("'", '"'),
        "model_type": f"must be a section, [{location[0]}] and its keys",
        "tuple_type": f"must be a list of sections, [[{location[0]}]] and their keys"
        if len(location) == 1
        else "must be a list",
        "greater_than": f"must be above {_bound(context, 'gt')}",
        "less_than": f"must be below {_bound(context, 'lt')}",
        "float_type": "must be a number",
        "float_parsing": "must be a number without unit, such as 0.5",
    }
    if kind in rules:
        return f"{rules[kind]}, got {shown(value)}"
    return _own_words(detail["msg"])


def _bound(context: Mapping[str, Any], name: str) -> object:
    """Return a bound as a file has it: 1, not 1.0."""
    bound = context.get(name)
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _own_words(message: str) -> str:
    return message.removeprefix("Value error, ")


def _numbered(message: str, location: list[str]) -> str:
    """Return *message* with the number of the section at *location* in each of its keys."""
    if not location or " " not in location[-1]:
        return message
    section, number = location[-1].rsplit(" ", 1)
    if not (number.isdigit() and message.startswith(f"{section}.")):
        return message
    return re.sub(rf"(?<!\w){section}\.", f"{location[-1]}.", message)


def _names_its_key(message: str) -> bool:
    return re.match(r"\w+( \d+)?\.\w+:", _own_words(message)) is not None


def _unknown(location: list[str], model: type[BaseModel]) -> str:
    known = _keys(model, location[:-1])
    others = keys_of_other_sections(location[-1], known, model)
    if not others:
        return unknown_key(location[-1], known)
    named = " or ".join(f'"{key}" in [{section}]' for section, key in others)
    return f"unknown key (did you mean {named}?)"


def keys_of_other_sections(
    name: str, own: Collection[str], model: type[BaseModel]
) -> list[tuple[str, str]]:
    """Return the keys that *name* may mean, each with its section, if its section lacks it.

    The name spells out section and key, such as idle_connections. Or it is a key of other sections
    and near to none of its *own* section.
    """
    section, _, key = name.partition("_")
    if section in model.model_fields and key in _keys(model, [section]):
        return [(section, key)]
    if closest(name, own) is not None:
        return []
    return [(each, name) for each in model.model_fields if name in _keys(model, [each])]


def _choices(model: type[BaseModel], location: list[str]) -> str:
    """Return " (one of ...)" if the key at *location* is one of a few texts."""
    section = _section(model, location[:-1])
    field = section.model_fields.get(location[-1]) if section else None
    texts = get_args(field.annotation) if field is not None else ()
    is_few = texts and all(isinstance(text, str) for text in texts)
    return f" (one of {', '.join(map(shown, texts))})" if is_few else ""


def _keys(model: type[BaseModel], location: list[str]) -> list[str]:
    """Return the keys of the section at *location*; none if it is no section."""
    section = _section(model, location)
    return list(section.model_fields) if section else []


def _section(model: type[BaseModel], location: list[str]) -> type[BaseModel] | None:
    """Return the model of the section at *location*; None if it is no section."""
    for name in location:
        annotation: Any = model.model_fields[name.split(" ")[0]].annotation
        annotation = get_args(annotation)[0] if get_args(annotation) else annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return None
        model = annotation
    return model
