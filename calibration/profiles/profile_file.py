"""A profile as the text of its file: TOML, with comments on where the costs come from."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from .cost_tables import TABLES

if TYPE_CHECKING:
    from .cost_profile import Profile

_HEADING = ("cpu_model", "kernel", "date", "command")  # facts said in the first lines of a file


def toml_of(profile: Profile) -> str:
    """Return *profile* as TOML, with comments on where it comes from."""
    facts = profile.machine
    lines = [
        "# What calls, interrupts and scans cost on one machine, in ns of its server's CPU.",
        *(f"# {key}: {_literal(facts[key])}" for key in _HEADING if key in facts),
        "",
        f"format = {_literal(profile.format)}",
        f"name = {_literal(profile.name)}",
        "",
        "[machine]",
        *(f"{_key(key)} = {_literal(fact)}" for key, fact in facts.items()),
        "",
        "[range]",
        f"open_connections_max = {profile.range.open_connections_max}",
    ]
    for table in TABLES:
        for name, cost in profile.cost.get(table, {}).items():
            lines += ["", f"[cost.{table}.{name}]"]
            lines += [f"{key} = {_literal(entry)}" for key, entry in cost]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """Return a key of a table as TOML writes it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _literal(value: object) -> str:
    """Return *value* as TOML writes it."""
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(entry) for entry in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, str):
        # JSON's strings are TOML's, but for the character DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)
