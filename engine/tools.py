"""Tools: a function, its schema, and its kind, which is all that the loop goes by.

    @tool
    async def read_file(path: str) -> str:
        "Read a text file."

    @tool(kind="completion")
    def submit(report: str) -> str:
        "Hand in the report. Call this once, when it is finished."
        return report

The JSON schema comes from the type hints, descriptions of arguments from the docstring (Google, NumPy, reST or
Epydoc style). Sync functions run in a thread. A tool without a kind is ordinary and is taken to change things;
`reads=True` says that it does not, and then it may run beside others and while the response still streams.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast, overload

import anyio.to_thread
import docstring_parser
from msgspec.structs import replace

from ..decision import ToolKind, ToolSpec, WrongUse

if TYPE_CHECKING:
    from pydantic import BaseModel

Function = Callable[..., Any]
COMPLETION_MARK = "[COMPLETION SIGNAL]"
"""Stands in the description of every completion tool."""
TOOL_TIMEOUT = 120.0
"""Seconds that a tool may run by default."""


class InvalidArguments(ValueError):
    """The model's arguments do not fit the tool; the message tells the model what to mend."""


class Tool:
    """A function that a model may call.

    `polls=True` says that it is made to be called again and again with the same result: no repetition to speak of.
    `timeout` is in seconds, None for none; a call that takes longer is answered with an error. `final` says of valid
    arguments whether a completion by them can be the last one (`completion_percentage` below 100 cannot).
    """

    def __init__(
        self,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        kind: ToolKind = "ordinary",
        reads: bool = False,
        polls: bool = False,
        timeout: float | None = TOOL_TIMEOUT,
        final: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> None:
        self.function = function
        self.timeout = timeout
        self._final = final or _full_percentage
        self._is_async = inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  an object with an async __call__ is a function too
        )
        described = docstring_parser.parse(inspect.getdoc(function) or "")
        about = description or _about(described)
        tool_name = name or str(getattr(function, "__name__", type(function).__name__))
        if not about:
            raise WrongUse(f"tool {tool_name!r} has no description: give it a docstring or description=...")
        if kind == "completion" and COMPLETION_MARK not in about:
            about = f"{COMPLETION_MARK} {about}"
        self._arguments = _model_of(function, tool_name, described)
        self.spec = ToolSpec(
            name=tool_name,
            description=about,
            parameters=_schema_of(self._arguments),
            kind=kind,
            reads=reads or kind in ("think", "question"),
            polls=polls,
        )

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, kind={self.kind!r})"

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.spec.name

    @property
    def kind(self) -> ToolKind:
        """What a call of it means to the loop."""
        return self.spec.kind

    def renamed(self, name: str) -> Tool:
        """The same tool under another name: nothing else changes."""
        other = Tool.__new__(Tool)
        other.__dict__.update(self.__dict__)
        other.spec = replace(self.spec, name=name)
        return other

    def parse(self, arguments: str) -> dict[str, Any]:
        """The arguments as the function takes them. Raises InvalidArguments, in words for the model."""
        from pydantic import ValidationError

        try:
            parsed = self._arguments.model_validate_json(arguments.strip() or "{}")
        except ValidationError as error:
            raise InvalidArguments(_complaint(self.name, error)) from None
        return {name: getattr(parsed, name) for name in type(parsed).model_fields}

    def is_final(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a completion by these arguments can be the last one."""
        return self._final(arguments)

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function; a sync one in a thread, whose late result is dropped if the call is cancelled."""
        if self._is_async:
            return await cast("Awaitable[Any]", self.function(**arguments))
        work = functools.partial(self.function, **arguments)
        value = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        return await value if inspect.isawaitable(value) else value


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    kind: ToolKind = "ordinary",
    reads: bool = False,
    polls: bool = False,
    timeout: float | None = TOOL_TIMEOUT,
    final: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Callable[[Function], Tool]: ...
def tool(function: Function | None = None, /, **options: Any) -> Tool | Callable[[Function], Tool]:
    """Make a tool of a function. Options as for `Tool`."""
    if function is None:
        return lambda made: Tool(made, **options)
    return Tool(function, **options)


def _full_percentage(arguments: Mapping[str, Any]) -> bool:
    percentage = arguments.get("completion_percentage", 100)
    return not isinstance(percentage, int | float) or percentage >= 100


def _about(described: docstring_parser.Docstring) -> str:
    return "\n\n".join(part for part in (described.short_description, described.long_description) if part)


def _model_of(function: Function, name: str, described: docstring_parser.Docstring) -> type[BaseModel]:
    """A pydantic model of the function's arguments."""
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    notes = {param.arg_name: param.description for param in described.params if param.description}
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise WrongUse(f"tool {name!r}: a model cannot fill {parameter}: name each argument")
        hint = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hint, Field(default, description=notes.get(parameter.name)))
    try:
        return cast(
            "type[BaseModel]",
            create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields),
        )
    except (PydanticUserError, NameError, TypeError) as error:
        raise WrongUse(f"tool {name!r}: no schema can be made of its type hints: {error}") from None


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    _drop_titles(schema)
    schema.setdefault("properties", {})
    return schema


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
