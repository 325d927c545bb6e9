"""The JSON Schema of scenario files, as a file would hold them: units in texts, no null."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel

from .quantities import Bounded
from .scenario import Scenario

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files."""
    schema = Scenario.model_json_schema()
    server = schema["$defs"]["Server"]
    server["required"].remove("mechanism")
    server["anyOf"] = [{"required": [key]} for key in ("mechanism", "program")]
    for field in Scenario.model_fields.values():
        section = get_args(field.annotation)[0] if get_args(field.annotation) else field.annotation
        assert isinstance(section, type)
        assert issubclass(section, BaseModel)
        properties = schema["$defs"][section.__name__]["properties"]
        for key, inner in section.model_fields.items():
            properties[key] = _without_null(properties[key])
            units = [m.unit for m in inner.metadata if isinstance(m, Bounded)]
            if units and "default" in properties[key]:
                properties[key]["default"] = units[0].format(inner.default)
    return {"$schema": DIALECT, **schema}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a key that is either absent or a value: TOML has no null."""
    if "anyOf" not in schema:
        return schema
    (option,) = (option for option in schema["anyOf"] if option != {"type": "null"})
    bounds = option.get("description")
    kept = {key: schema[key] for key in schema if key not in ("anyOf", "default")}
    if bounds:
        kept["description"] = f"{kept['description']} A {bounds}."
    return {**option, **kept}
