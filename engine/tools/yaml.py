"""Reader of tool definitions in a YAML file.

    tools:
      - name: set_port
        description: Set the port of the server.
        parameters:                     # name: type, or a whole JSON schema
          port: integer
          host: optional string
        handler: server.py:set_port     # file.py:function, relative to this file, or module:function
        check: server.py:is_set         # tells whether a call took effect when the process died during it
        approval: true                  # the user has to approve each call; or server.py:needs, which says so

`kind`, `reads`, `polls` and `timeout` mean the same as in Python. `tools` may also be a mapping from name to the rest.
Omitted keys come from the handler: its docstring, its type hints, and if it is a `Tool`, its options.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from ..decision import ToolKind, WrongUse
from ..decision.errors import did_you_mean, error_text
from ..decision.wrong_calls import explained
from ..records.qualified_names import current_module
from .tool import TOOL_TIMEOUT, Tool

KEYS = ("name", "description", "parameters", "kind", "reads", "polls", "timeout", "handler", "check", "approval")
TYPES = ("string", "integer", "number", "boolean", "array", "object")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@explained
def tools_from_yaml(path: str | os.PathLike[str]) -> list[Tool]:
    """Return the tools defined in a file.

    path: a YAML file with a list `tools`, each with its name and function. Raises WrongUse that names the file, the
        tool and the key.
    """
    path = Path(path)
    loaded: dict[Path, Any] = {}
    made: dict[str, Tool] = {}
    for number, entry in enumerate(_entries(path), 1):
        name = entry.get("name")
        where = f"{path}, tool {name!r}" if isinstance(name, str) else f"{path}, tool {number}"
        tool = _tool(entry, where, path.parent, loaded)
        if tool.name in made:
            raise WrongUse(f"{where}: two tools have this name")
        made[tool.name] = tool
    if not made:
        raise WrongUse(f"{path}: it has no tools; list them under `tools:`")
    return list(made.values())


# ---- the file


def _entries(path: Path) -> list[Mapping[str, Any]]:
    """Return the definition of each tool in the file."""
    data = _read(path)
    if isinstance(data, dict):
        for key in data:
            if key != "tools":
                raise WrongUse(
                    f"{path}: unknown key {key!r}{did_you_mean(str(key), ['tools'])}; list tools under `tools:`"
                )
        data = data["tools"] if data else []
    if isinstance(data, dict):
        data = [{"name": name, **rest} if isinstance(rest, dict) else rest for name, rest in data.items()]
    if not isinstance(data, list | None):
        raise WrongUse(f"{path}: `tools` is {_describe(data)}: make it a list of tools")
    for number, entry in enumerate(data or (), 1):
        if not isinstance(entry, dict):
            raise WrongUse(f"{path}, tool {number}: it is {_describe(entry)}: write name, description and handler")
    return data or []


def _read(path: Path) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # it has no types
        """YAML loader that refuses a duplicate key, of which YAML would keep only the last value."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if not isinstance(key.value, str):
                    raise yaml.constructor.ConstructorError(None, None, "a key that is not text", key.start_mark)
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} twice", key.start_mark)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(path.read_text("utf-8-sig"), Loader)
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise WrongUse(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None


# ---- one tool


def _tool(entry: Mapping[str, Any], where: str, folder: Path, loaded: dict[Path, Any]) -> Tool:
    for key in entry:
        if key not in KEYS:
            raise WrongUse(f"{where}: unknown key {key!r}{did_you_mean(str(key), KEYS)}")
    name = _text(entry, "name", where)
    if not _NAME.fullmatch(name):
        raise WrongUse(f"{where}: name {name!r}: use 1 to 64 letters, digits, _ and -")
    kind = entry.get("kind")
    if "kind" in entry and kind not in get_args(ToolKind):
        raise WrongUse(f"{where}: unknown kind {kind!r}{did_you_mean(str(kind), get_args(ToolKind))}")
    options: dict[str, Any] = {
        "name": name,
        "description": _text(entry, "description", where) if "description" in entry else None,
        "kind": kind,
        "reads": _boolean(entry, "reads", where),
        "polls": _boolean(entry, "polls", where),
        "timeout": _timeout(entry, where),
        "parameters": _parameters(entry["parameters"], where) if "parameters" in entry else None,
    }
    function = _load_handler(entry, "handler", where, folder, loaded)
    if "check" in entry:
        options["check"] = _load_handler(entry, "check", where, folder, loaded)
    if "approval" in entry:
        asks = isinstance(entry["approval"], bool)
        options["approval"] = entry["approval"] if asks else _load_handler(entry, "approval", where, folder, loaded)
    try:
        if isinstance(function, Tool):
            base = function
            function, options = base.function, _with_defaults_of(options, base, entry)
        tool = Tool(function, **options)
        assert tool.spec
    except WrongUse as error:
        said = re.sub(r"kind='(\w+)'", r"kind: \1", str(error))
        about = f"tool {name!r}"
        said = said.removeprefix(about) if said.startswith(about) else f": {said}"
        raise WrongUse(f"{where}{said}") from None
    except ValueError as error:  # a callable without a signature
        raise WrongUse(f"{where}: handler {entry['handler']!r}: {error}") from None
    return tool


def _with_defaults_of(options: Mapping[str, Any], base: Tool, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the file. Omitted ones come from the tool that is its handler."""
    spec = base.spec
    kind = base.kind if base.kind_given or base.kind != "ordinary" else None
    said: dict[str, Any] = {"kind": kind, "reads": spec.reads, "polls": spec.polls, "timeout": base.timeout}
    said["description"] = spec.description
    said |= {"check": base.check, "approval": base.approval}
    return {**options, "final": base.is_final, **{key: value for key, value in said.items() if key not in entry}}


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    if key not in entry:
        near = [other for other in entry if other not in KEYS]
        raise WrongUse(f"{where}: key {key!r} is missing" + (f" (there is {near[0]!r})" if near else ""))
    value = entry[key]
    if not isinstance(value, str) or not value.strip():
        raise WrongUse(f"{where}: {key} is {_describe(value)}: write a text")
    return value.strip()


def _boolean(entry: Mapping[str, Any], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise WrongUse(f"{where}: {key} is {value!r}: write true or false")
    return value


def _timeout(entry: Mapping[str, Any], where: str) -> float | None:
    value = entry.get("timeout", TOOL_TIMEOUT)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
        raise WrongUse(f"{where}: timeout is {value!r}: write seconds above 0, or null for none")
    try:
        return None if value is None else float(value)
    except OverflowError:
        raise WrongUse(f"{where}: timeout has too many digits: write seconds above 0, or null for none") from None


def _parameters(given: Any, where: str) -> dict[str, Any]:
    """Return a JSON schema, from a schema or from the short form."""
    if given is None:
        return {"type": "object", "properties": {}}
    if not isinstance(given, dict):
        raise WrongUse(f"{where}: parameters is {_describe(given)}: write a JSON schema, or `name: type` for each")
    if given.get("type") == "object" or isinstance(given.get("properties"), dict):
        return given
    properties, required = {}, []
    for name, short in given.items():
        if not isinstance(name, str):
            raise WrongUse(f"{where}: parameter {name!r} is not text: put it in quotes")
        properties[name], needed = _property(short, f"{where}: parameter {name!r}")
        if needed:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _property(short: Any, where: str) -> tuple[dict[str, Any], bool]:
    """Return the schema of one parameter, and whether it is required."""
    if isinstance(short, dict):
        return short, "default" not in short
    kind = short.removeprefix("optional ").strip() if isinstance(short, str) else short
    if kind not in TYPES:
        raise WrongUse(f"{where}: unknown type {kind!r}{did_you_mean(str(kind), TYPES)}")
    return {"type": kind}, kind == short


def _describe(value: Any) -> str:
    words = {dict: "a mapping", list: "a list", str: "empty" if value == "" else "a text", type(None): "empty"}
    return words.get(type(value), repr(value))


# ---- handlers


def _load_handler(
    entry: Mapping[str, Any], key: str, where: str, folder: Path, loaded: dict[Path, Any]
) -> Tool | Callable[..., Any]:
    """Return the function or tool that the entry's `handler`, `check` or `approval` names."""
    handler = _text(entry, key, where)
    place, _, name = handler.rpartition(":")
    where = f"{where}: {key} {handler!r}"
    if not place or not name:
        raise WrongUse(f"{where}: write it as file.py:function or module:function")
    try:
        with _importing_from(folder):
            module = (
                _load_file(folder / place, loaded)
                if place.endswith(".py")
                else importlib.import_module(current_module(place))
            )
    except FileNotFoundError as error:
        raise WrongUse(f"{where}: no file {error.filename or place}") from None
    except ModuleNotFoundError as error:
        raise WrongUse(f"{where}: there is no module {error.name!r}") from None
    except (Exception, SystemExit) as error:
        raise WrongUse(f"{where} cannot be imported: {error_text(error)}") from None
    found = getattr(module, name, None)
    if found is None:
        there = [key for key, value in vars(module).items() if _is_handler(value) and not key.startswith("_")]
        raise WrongUse(f"{where}: there is no {name!r} in it{did_you_mean(name, there)}")
    if not callable(found) and not isinstance(found, Tool):
        raise WrongUse(f"{where}: {name!r} is not a function")
    return found  # type: ignore[no-any-return]


def _is_handler(value: Any) -> bool:
    return isinstance(value, Tool) or callable(value)


def _load_file(path: Path, loaded: dict[Path, Any]) -> Any:
    """Return the file as a module, loaded once for all tools of one YAML file."""
    path = path.resolve(strict=True)
    if path not in loaded:
        name = f"endstop_tools_{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        loaded[path] = module
    return loaded[path]


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Allow imports from the folder of the YAML file and from the current folder."""
    added = [str(folder.resolve()), os.getcwd()]
    sys.path[:0] = added
    try:
        yield
    finally:
        for place in added:
            sys.path.remove(place)
