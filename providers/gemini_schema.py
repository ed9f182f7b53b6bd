"""JSON Schema of a tool's arguments, reduced to the subset that Gemini accepts in `parametersJsonSchema`.

Sources: Gemini API reference, `responseJsonSchema`, which lists keywords, and recorded requests that were answered.
The rest of a schema is put into words, so that the model still reads it. The arguments are checked against the whole
schema before a tool runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

KEPT = frozenset(
    {"$id", "$anchor", "$ref", "type", "description", "enum", "default", "required", "pattern"}
    | {"minimum", "maximum", "minItems", "maxItems", "uniqueItems", "minLength", "maxLength"}
)
"""Keywords that are sent unchanged."""
SCHEMAS = frozenset({"items", "additionalProperties"})
"""Keywords whose value is a schema, or true or false."""
LISTS = frozenset({"prefixItems", "anyOf", "oneOf"})
"""Keywords whose value is a list of schemas."""
NAMED = frozenset({"properties", "$defs"})
"""Keywords whose value maps names to schemas."""
NOTES = frozenset({"title", "$schema", "$comment", "examples", "discriminator", "deprecated", "readOnly", "writeOnly"})
"""Keywords that say nothing about the values."""
_DEFINITIONS = "#/definitions/"


def adapt_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema in Gemini's subset. What the subset cannot express is put into words in the description."""
    adapted: dict[str, Any] = {}
    unsaid: dict[str, Any] = {}
    for name, value in _joined(schema).items():
        if name in KEPT:
            adapted[name] = value
        elif name == "const":
            adapted["enum"] = [value]
        elif name == "definitions" or name in NAMED:
            adapted["$defs" if name == "definitions" else name] = {key: _adapted(each) for key, each in value.items()}
        elif name in SCHEMAS:
            adapted[name] = _adapted(value)
        elif name in LISTS:
            adapted["anyOf" if name == "oneOf" else name] = [_adapted(each) for each in value]
        elif name not in NOTES:
            unsaid[name] = value
    if str(adapted.get("$ref", "")).startswith(_DEFINITIONS):
        adapted["$ref"] = "#/$defs/" + adapted["$ref"].removeprefix(_DEFINITIONS)
    if unsaid:
        words = ", ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in unsaid.items())
        adapted["description"] = f"{adapted.get('description', '')} ({words})".strip()
    return adapted


def _adapted(value: Any) -> Any:
    return adapt_schema(value) if isinstance(value, Mapping) else value


def _joined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with the members of its `allOf` merged into it."""
    members = schema.get("allOf")
    if not isinstance(members, list):
        return dict(schema)
    joined: dict[str, Any] = {}
    for member in (*members, {name: value for name, value in schema.items() if name != "allOf"}):
        for name, value in _joined(member).items() if isinstance(member, Mapping) else ():
            if name in NAMED:
                value = {**joined.get(name, {}), **value}
            elif name == "required":
                value = list(dict.fromkeys([*joined.get(name, ()), *value]))
            joined[name] = value
    return joined
