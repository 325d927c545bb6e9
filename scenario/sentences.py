"""From what pydantic found wrong to one sentence: key, rule, value, and what was perhaps meant."""

from __future__ import annotations

import re
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from .errors import unknown_key
from .quantities import shown


def sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """Return what is wrong first, as "section.key: rule, got value".

    Parameters
    ----------
    error:
        What pydantic raised.
    model:
        What it was to become: the source of known keys.
    """
    # An unknown key is named before a missing one: it is often the same one, misspelt.
    details = sorted(error.errors(), key=lambda detail: detail["type"] == "missing")
    detail = details[0]
    location = _location(detail["loc"])
    if not location or (detail["type"] == "value_error" and _names_its_key(detail["msg"])):
        # A rule between keys names the key itself, of a list of sections not which.
        return _numbered(_own_words(detail["msg"]), location)
    if detail["type"] == "missing" and len(location) == 1:
        return f"the section [{location[0]}] is missing"
    return f"{key_of(location)}: {_rule(detail, location, model)}"


def _location(parts: tuple[Any, ...]) -> list[str]:
    """Return names of sections and keys; of a list of sections, which: "fault 2" is the second."""
    location: list[str] = []
    for part in parts:
        if isinstance(part, int) and location:
            location[-1] += f" {part + 1}"
        else:
            location.append(str(part))
    return location


def key_of(location: list[str]) -> str:
    """Return the key at *location* as one would write it in a file.

    >>> key_of(["server", "backlog"]), key_of(["fault 2", "at"]), key_of(["a b"])
    ('server.backlog', 'fault 2.at', '"a b"')
    """
    return ".".join(
        part if re.fullmatch(r"[\w-]+( \d+)*", part) else shown(part) for part in location
    )


def _rule(detail: Any, location: list[str], model: type[BaseModel]) -> str:
    kind, context, value = detail["type"], detail.get("ctx", {}), detail["input"]
    if kind == "extra_forbidden":
        return unknown_key(location[-1], _keys(model, location[:-1]))
    if kind == "missing":
        return "is missing"
    rules = {
        "greater_than_equal": f"must be at least {context.get('ge')}",
        "less_than_equal": f"must be at most {context.get('le')}",
        "int_type": "must be a whole number",
        "bool_type": "must be true or false",
        "string_type": "must be a text in quotes",
        "literal_error": f"must be {context.get('expected', '')}".replace("'", '"'),
        "model_type": f"must be a section, [{location[0]}] and its keys",
        "tuple_type": f"must be a list of sections, [[{location[0]}]] and their keys"
        if len(location) == 1
        else "must be a list",
        "greater_than": f"must be above {context.get('gt')}",
        "less_than": f"must be below {context.get('lt')}",
        "float_type": "must be a number",
        "float_parsing": "must be a number without unit, such as 0.5",
    }
    if kind in rules:
        return f"{rules[kind]}, got {shown(value)}"
    return _own_words(detail["msg"])


def _own_words(message: str) -> str:
    return message.removeprefix("Value error, ")


def _numbered(message: str, location: list[str]) -> str:
    """Return *message*, which begins with a key of the section at *location*, with its number."""
    if not location or " " not in location[-1]:
        return message
    section, number = location[-1].rsplit(" ", 1)
    if not (number.isdigit() and message.startswith(f"{section}.")):
        return message
    return f"{location[-1]}{message.removeprefix(section)}"


def _names_its_key(message: str) -> bool:
    return re.match(r"\w+( \d+)?\.\w+:", _own_words(message)) is not None


def _keys(model: type[BaseModel], location: list[str]) -> list[str]:
    """Return the keys of the section at *location*."""
    for name in location:
        annotation: Any = model.model_fields[name.split(" ")[0]].annotation
        annotation = get_args(annotation)[0] if get_args(annotation) else annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)
