"""JSON schemas of a tool's arguments, and validation of arguments that a model wrote.

The schema comes from the type hints and the docstring (pydantic), or the user gives one (jsonschema). Both libraries
are imported on first use, because they would take most of the engine's import time. Arguments that the function does
not take are dropped, because models invent some. Schemas are never fetched: a `$ref` must point into the same schema.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

from ..decision import WrongUse
from ..decision.errors import did_you_mean, error_text
from ..decision.wrong_attributes import explained_attributes
from .run_context import check_context, model_parameters

if TYPE_CHECKING:
    from pydantic import BaseModel


CORRECT_THEM = "Correct them and call again."
"""Ends the message for the model about invalid arguments."""


@explained_attributes
class InvalidArguments(ValueError):
    """The arguments do not fit the tool, or the work its check. The message tells the model what to correct.

    A tool's function raises it for its result, a gate to hand the completion back, a check of `until` to say that it is
    not met. It is no bug there, so nothing is logged.
    """


class Bounds:
    """Smallest and largest value of an argument, both included, as in `Annotated[int, Bounds(0, 100)]`.

    For our own tools: pydantic reads it when it creates the schema, but need not be imported to write it.
    """

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(source), "ge": self._least, "le": self._most}


class SignatureArguments:
    """Arguments of a function as its signature declares them. notes: descriptions of arguments, by name."""

    def __init__(self, function: Callable[..., Any], tool: str, notes: Mapping[str, str]) -> None:
        self._function = function
        self._tool = tool
        self._notes = notes
        for parameter in model_parameters(function).values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise WrongUse(f"tool {tool!r}: a model cannot fill {parameter}: name each argument")
        check_context(function, tool)

    def parse(self, text: str) -> dict[str, Any]:
        """Parse and validate the JSON that a model wrote. Raises InvalidArguments with a text for the model."""
        from pydantic import ValidationError

        try:
            parsed = self._model.model_validate_json(text.strip() or "{}")
        except ValidationError as error:
            raise InvalidArguments(describe_errors(self._tool, error)) from None
        except Exception as error:  # a bug in a validator of a type, which the loop logs
            raise InvalidArguments(
                f"The arguments of {self._tool} could not be checked: {error_text(error)}"
            ) from error
        return {name: getattr(parsed, field) for name, field in self._fields.items()}

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema, of type object. Raises WrongUse if a type hint has no schema."""
        from pydantic.errors import PydanticInvalidForJsonSchema

        try:
            with _without_warnings():
                schema: dict[str, Any] = self._model.model_json_schema()
        except PydanticInvalidForJsonSchema as error:
            raise self._no_schema(error) from None
        schema = without_keywords(schema, ("title",))  # pydantic's titles cost tokens and tell a model nothing
        schema.setdefault("properties", {})
        return schema

    @cached_property
    def _model(self) -> type[BaseModel]:
        """A model with a field for each parameter. Its alias is the name, so that one may be called `copy` or `_x`."""
        from pydantic import create_model
        from pydantic.errors import PydanticUserError

        try:
            parameters = model_parameters(self._function, evaluated=True).values()
            fields = {self._fields[parameter.name]: self._field(parameter) for parameter in parameters}
            with _without_warnings():
                return cast("type[BaseModel]", create_model(self._tool, **cast("dict[str, Any]", fields)))
        except (PydanticUserError, NameError, TypeError, ValueError) as error:
            raise self._no_schema(error) from None

    @cached_property
    def _fields(self) -> dict[str, str]:
        """The name of the model's field for each parameter."""
        return {name: f"field_{number}" for number, name in enumerate(model_parameters(self._function))}

    def _field(self, parameter: inspect.Parameter) -> tuple[Any, Any]:
        """Return the type and the default of a parameter. What its own `Field` says counts, before any other."""
        from pydantic import Field

        hint = Any if parameter.annotation is parameter.empty else parameter.annotation
        own: tuple[Any, ...] = ()
        if get_origin(hint) is Annotated:
            hint, *rest = get_args(hint)
            own = tuple(rest)
        note = next(filter(None, map(_note_in, own)), None) or self._notes.get(parameter.name)
        return (
            Annotated[(hint, Field(alias=parameter.name, description=note), *own)],
            ... if parameter.default is parameter.empty else parameter.default,
        )

    def _no_schema(self, error: Exception) -> WrongUse:
        text = str(error).partition("\n\nFor further information")[0]
        return WrongUse(f"tool {self._tool!r}: no schema can be made of its type hints: {text}")


def _note_in(metadata: object) -> str | None:
    """Return the description in an item of `Annotated`: a text, or `Doc(...)` of PEP 727."""
    return metadata if isinstance(metadata, str) else getattr(metadata, "documentation", None)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore warnings about the model inside the block: it is ours, so that a parameter may be called `copy`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def without_keywords(schema: Any, keywords: Collection[str]) -> Any:
    """Return a copy of a JSON schema without these keywords, on any level. Properties keep such names."""
    if isinstance(schema, list):
        return [without_keywords(item, keywords) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_keywords(inner, keywords) for name, inner in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else without_keywords(value, keywords)
        for key, value in schema.items()
        if key not in keywords
    }


def describe_errors(name: str, error: Any) -> str:
    """Return the message for the model about pydantic's errors in the arguments of a tool."""
    lines = []
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"]) or "arguments"
        lines.append(f"{where}: {problem['msg']}")
    return f"The arguments of {name} are invalid. " + "; ".join(lines) + f". {CORRECT_THEM}"


class SchemaArguments(SignatureArguments):
    """Arguments of a function as a JSON schema given by the user describes them.

    Raises WrongUse if the schema is invalid, or the function cannot be called with the arguments it allows.
    """

    def __init__(self, function: Callable[..., Any], tool: str, schema: Mapping[str, Any]) -> None:
        self._function = function
        self._tool = tool
        self._given = _checked_schema(tool, schema)
        _check_signature(function, tool, self._given)

    def parse(self, text: str) -> dict[str, Any]:
        """Parse arguments like `SignatureArguments.parse`, and add the schema's defaults."""
        try:
            given = json.loads(text.strip() or "{}")
        except (ValueError, RecursionError) as error:
            raise InvalidArguments(self._complaint(f"they are not JSON: {error}")) from None
        if not isinstance(given, dict):
            raise InvalidArguments(self._complaint("they are not a JSON object"))
        properties = self.schema["properties"]
        if not self.schema.get("additionalProperties", False) and "patternProperties" not in self.schema:
            given = {name: value for name, value in given.items() if name in properties}  # models add their own
        problems = [f"{_path_of(error)}: {error.message}" for error in self._validator.iter_errors(given)]
        if problems:
            raise InvalidArguments(self._complaint("; ".join(problems[:5])))
        defaults = {n: deepcopy(p["default"]) for n, p in properties.items() if isinstance(p, dict) and "default" in p}
        return {**defaults, **given}

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema, of type object."""
        return {"type": "object", "properties": {}, **self._given}

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import Draft202012Validator

        return Draft202012Validator(self.schema)

    def _complaint(self, what: str) -> str:
        return f"The arguments of {self._tool} are invalid. {what[:2000]}. {CORRECT_THEM}"


def _path_of(error: Any) -> str:
    return ".".join(str(part) for part in error.absolute_path) or "arguments"


def _checked_schema(tool: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the schema as plain JSON. Raises WrongUse if it is not a valid schema."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        plain: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongUse(f"tool {tool!r}: parameters are not JSON: {error}") from None
    try:
        Draft202012Validator.check_schema(plain)
    except SchemaError as error:
        raise WrongUse(f"tool {tool!r}: parameters are not a JSON schema: {_path_of(error)}: {error.message}") from None
    if plain.get("type", "object") != "object":
        raise WrongUse(f"tool {tool!r}: parameters must be of type object, not {plain['type']!r}")
    for reference in _references(plain):
        if not _resolves(plain, reference):
            raise WrongUse(f"tool {tool!r}: $ref {reference!r} points to nothing in its schema")
    return plain


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            else:
                yield from _references(value)


def _resolves(schema: Any, reference: str) -> bool:
    if reference != "#" and not reference.startswith("#/"):
        return False
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(schema, dict) or name not in schema:
            return False
        schema = schema[name]
    return isinstance(schema, dict | bool)


def _check_signature(function: Callable[..., Any], tool: str, schema: Mapping[str, Any]) -> None:
    """Raise WrongUse unless the function can be called with all arguments that the schema allows."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    takes = model_parameters(function)
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in takes.values()):
        raise WrongUse(f"tool {tool!r}: its function must take its arguments by name")
    named = [n for n, p in takes.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
        for name in properties:
            if name not in named:
                raise WrongUse(f"tool {tool!r}: its function has no argument {name!r}{did_you_mean(name, named)}")
    sure = {*schema.get("required", ()), *(n for n, p in properties.items() if isinstance(p, dict) and "default" in p)}
    for name in named:
        if takes[name].default is inspect.Parameter.empty and name not in sure:
            hint = "require it, or give it a default" if name in properties else "add it to parameters"
            raise WrongUse(f"tool {tool!r}: its function needs {name!r}, which may be missing: {hint}")
