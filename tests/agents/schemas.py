"""Arguments and answers that fit a JSON schema, for tools and questions of agents that nobody here wrote."""

from __future__ import annotations

from typing import Any

COMMANDS = ("command", "cmd", "script", "commands")
"""What tools call the parameter that holds a command of the shell."""


def lower_types(schema: Any) -> Any:
    """Return the schema with its types in lower case: Google writes `STRING`."""
    if isinstance(schema, dict):
        return {
            name: value.lower() if name == "type" and isinstance(value, str) else lower_types(value)
            for name, value in schema.items()
        }
    return [lower_types(one) for one in schema] if isinstance(schema, list) else schema


def arguments(schema: dict[str, Any], command: str, note: str) -> dict[str, Any]:
    """Return arguments of a shell tool: the command where it belongs, and all else that is required."""
    required = schema.get("required") or []
    filled = {}
    for name, value in (schema.get("properties") or {}).items():
        if name.lower() in COMMANDS:
            filled[name] = _command(name, value, command, note)
        elif name in required:
            filled[name] = fitting(value, note)
    return filled


def _command(name: str, schema: dict[str, Any], command: str, note: str) -> Any:
    one = next((one for one in [schema, *schema.get("anyOf", ())] if _type(one) == "array"), None)
    if one is None:
        return command
    if name.lower() != "commands":
        return ["bash", "-lc", command]
    item = one.get("items") or {}
    return [arguments(item, command, note) if _type(item) == "object" else command]


def fitting(schema: dict[str, Any], note: str = "") -> Any:
    """Return a value that fits: the first of an enumeration, no, 0, nothing, or the note."""
    if schema.get("enum"):
        return schema["enum"][0]
    match _type(schema):
        case "object":
            return {name: fitting(value, note) for name, value in (schema.get("properties") or {}).items()}
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return max(0, schema.get("minimum", 0))
        case _:
            return note


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "")
    return next((one for one in kind if one != "null"), "") if isinstance(kind, list) else kind
