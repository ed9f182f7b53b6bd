"""The arguments of a tool: a JSON schema from type hints and docstring, and what a model wrote checked against it.

pydantic does both. It is imported when the first schema is needed, not before: it is most of what importing the
engine would cost. Arguments that the function does not know are left out, because models add their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ..decision import WrongUse

if TYPE_CHECKING:
    from pydantic import BaseModel


class InvalidArguments(ValueError):
    """The model's arguments do not fit the tool; the message tells the model what to mend."""


class Arguments:
    """What a function takes. `notes` are descriptions of arguments, by name."""

    def __init__(self, function: Callable[..., Any], tool: str, notes: Mapping[str, str]) -> None:
        self._function = function
        self._tool = tool
        self._notes = notes
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise WrongUse(f"tool {tool!r}: a model cannot fill {parameter}: name each argument")

    def parse(self, text: str) -> dict[str, Any]:
        """The arguments by name, as the function takes them. Raises InvalidArguments, in words for the model."""
        from pydantic import ValidationError

        try:
            parsed = self._model.model_validate_json(text.strip() or "{}")
        except ValidationError as error:
            raise InvalidArguments(_complaint(self._tool, error)) from None
        return dict(vars(parsed))

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema, an object. Raises WrongUse if a type hint has none."""
        from pydantic.errors import PydanticInvalidForJsonSchema

        try:
            schema = self._model.model_json_schema()
        except PydanticInvalidForJsonSchema as error:
            raise WrongUse(f"tool {self._tool!r}: no schema can be made of its type hints: {error}") from None
        _drop_titles(schema)
        schema.setdefault("properties", {})
        return schema

    @cached_property
    def _model(self) -> type[BaseModel]:
        from pydantic import Field, create_model
        from pydantic.errors import PydanticUserError

        try:
            fields: dict[str, Any] = {}
            for parameter in inspect.signature(self._function, eval_str=True).parameters.values():
                hint = Any if parameter.annotation is parameter.empty else parameter.annotation
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[parameter.name] = (hint, Field(default, description=self._notes.get(parameter.name)))
            return cast("type[BaseModel]", create_model(self._tool, **fields))
        except (PydanticUserError, NameError, TypeError) as error:
            raise WrongUse(f"tool {self._tool!r}: no schema can be made of its type hints: {error}") from None


def _drop_titles(schema: Any) -> None:
    """Take out the titles that pydantic adds: tokens that tell a model nothing."""
    if isinstance(schema, list):
        for item in schema:
            _drop_titles(item)
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("title"), str):
        del schema["title"]
    for key, value in schema.items():
        if key == "properties":
            for inner in value.values():
                _drop_titles(inner)
        else:
            _drop_titles(value)


def _complaint(name: str, error: Any) -> str:
    lines = []
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"]) or "arguments"
        lines.append(f"{where}: {problem['msg']}")
    return f"The arguments of {name} are invalid. " + "; ".join(lines) + ". Correct them and call again."
