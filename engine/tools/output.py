"""Typed output of a run: the completion tool that takes it as its argument, and the type that reads it back.

    @dataclass
    class Config:
        "The settings of a server."
        host: str
        port: int

    Engine(provider, output=Config)

The model sees the type as the schema of a completion tool, `final_result`. Its arguments are validated; if they are
invalid, the model is told why and tries again, as with any call (`policy.patience.invalid_calls`). A type whose schema
is not an object, such as a list or a union, becomes that tool's only argument, `result`.

The answer of the run is the output as JSON, so an equal output can be read from it, also from the answer in a record.
pydantic creates the schemas of its models, of dataclasses and of typed dicts, msgspec those of its structs.
"""

from __future__ import annotations

import inspect
import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Protocol, get_args

import msgspec

from ..decision import WrongUse
from ..decision.argument_types import fits, is_type
from ..decision.errors import error_text
from ..decision.outcome import OUTPUT_ARGUMENT, OUTPUT_TOOL
from .results import Completion
from .schema import InvalidArguments, SignatureArguments, describe_errors, without_keywords
from .tool import Tool

NAME = OUTPUT_TOOL
WRAPPER = OUTPUT_ARGUMENT
ACCEPTED = "The result is accepted."
_WHEN = (
    "Call this exactly once, as soon as everything the task asks for is done and verified by the results of your "
    "calls; then stop, and call nothing after it. If something is missing or you are not sure, go on working instead."
)


_MODULES = re.compile(r"(?<![\w.])(?:\w++\.|<locals>\.)++(?=\w)")


class OutputType:
    """A type of output: its schema and description for the model, and functions that read and write it.

    Raises WrongUse if no schema can be created for it.
    """

    def __init__(self, kind: Any) -> None:
        self.label = _label_of(kind)
        """Name of the type, for messages and for the model."""
        self._codec = _codec_of(kind, self.label)
        self._may_be_none = fits(None, kind)
        about = _docstring_of(kind)
        self.about = about or f"The result of the task, as {self.label}."
        """Description of the type for the model."""
        self.schema = _cleaned(self._codec.schema, keep_description=not about)
        """JSON schema of the output itself."""
        self.wrapped = self.schema.get("type") != "object"
        """Whether the tool takes the output as its argument `WRAPPER`, because it is not a JSON object."""

    def read(self, answer: str) -> Any:
        """Read the output from an answer. Raises WrongUse if the answer does not contain such an output."""
        try:
            return self._read(answer)
        except Exception as error:
            raise WrongUse(f"the answer is not of type {self.label}: {self._codec.complaint(NAME, error)}") from None

    def read_argument(self, text: str) -> Any:
        """Read the output that a model wrote as JSON. Raises InvalidArguments with a text for the model."""
        try:
            return self._read(text)
        except Exception as error:  # includes what a validator of the type raises
            is_bug = not isinstance(error, ValueError | AssertionError | msgspec.MsgspecError | RecursionError)
            raise InvalidArguments(self._codec.complaint(NAME, error)) from (error if is_bug else None)

    def _read(self, text: str) -> Any:
        """Read the output from JSON. Raises what the codec and the validators of the type raise."""
        value = self._codec.read(text)
        if value is None and not self._may_be_none:
            raise TypeError(f"a validator of {self.label} returned None: return the value, in a model_validator `self`")
        return value

    def write(self, output: Any, written: str) -> str:
        """Return the output as JSON from which an equal output can be read.

        This is the JSON that the model wrote (`written`), if writing the output itself would lose something.
        """
        try:
            text = self._codec.write(output)
            return text if self._codec.read(text) == output else written
        except Exception:  # the type cannot write what it has read, or read it again
            return written


def _label_of(kind: Any) -> str:
    return kind.__name__ if inspect.isclass(kind) and not get_args(kind) else _MODULES.sub("", str(kind))


class OutputTool(Tool):
    """Completion tool whose argument is the output."""

    def __init__(self, output: OutputType) -> None:
        async def accept(output_value: Any, written: str) -> Completion:
            return Completion(answer=output.write(output_value, written), content=ACCEPTED)

        super().__init__(
            accept,
            name=NAME,
            description=f"{output.about}\n\n{_WHEN}",
            kind="completion",
            reads=True,
            final=lambda arguments: True,
        )
        self._arguments = OutputArguments(output)

    def parse(self, arguments: str) -> dict[str, Any]:
        """Parse arguments; see `Tool.parse`. Only the output's type decides what is valid: its texts may be empty."""
        return self._arguments.parse(arguments)


class OutputArguments(SignatureArguments):
    """Arguments of an `OutputTool`: the output, and the JSON that the model wrote for it."""

    def __init__(self, output: OutputType) -> None:
        self._output = output

    def parse(self, text: str) -> dict[str, Any]:
        """Parse arguments; see `SignatureArguments.parse`."""
        written = self._unwrapped(text) if self._output.wrapped else text.strip() or "{}"
        return {"output_value": self._output.read_argument(written), "written": written}

    def _unwrapped(self, text: str) -> str:
        try:
            given = msgspec.json.decode(text.strip() or "{}", type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidArguments(complaint(NAME, f"they are not a JSON object: {error}")) from None
        if WRAPPER not in given:
            raise InvalidArguments(complaint(NAME, f"{WRAPPER}: it is missing"))
        return bytes(given[WRAPPER]).decode()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema, of type object."""
        if not self._output.wrapped:
            return {"properties": {}, **self._output.schema}
        inner = dict(self._output.schema)
        defs = {"$defs": inner.pop("$defs")} if "$defs" in inner else {}
        return {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER], **defs}


def output_type_of(output: Any) -> OutputType | None:
    """Return the output type of an engine; None for plain text (`output=None` or `str`). Raises WrongUse."""
    if output is None or output is str:
        return None
    if not is_type(output):
        raise WrongUse(f"output is {_what_is_no_type(output)}")
    return OutputType(output)


def _what_is_no_type(output: Any) -> str:
    """Return what somebody wrote in the place of a type, and what to write."""
    shown = reprlib.repr(output)
    if isinstance(output, list | tuple | set | frozenset) and output and all(map(is_type, output)):
        one = " | ".join(map(_label_of, output))
        ways = f"output={one} for one of them, output=list[{one}] for many"
        return f"a {type(output).__name__} with {'a type' if len(output) == 1 else 'types'}: write {ways}"
    if isinstance(output, str):
        return f"{shown}, a text: write the type itself, without quotation marks"
    if isinstance(output, Mapping):
        return f"{shown}, a mapping: write a type, such as a pydantic model or a dataclass with these fields"
    if inspect.isroutine(output) or isinstance(output, Tool):
        name = getattr(output, "__name__", "")
        return f"the function {name}: write the type of what a run returns, and check it with Hooks(gates=[{name}])"
    kind = type(output).__name__
    return f"{shown}, of type {kind}: write a type, such as output={kind}"


def complaint(name: str, what: str) -> str:
    """Return the message for the model about invalid arguments."""
    return f"The arguments of {name} are invalid. {what}. Correct them and call again."


class _Codec(Protocol):
    """Schema, reader and writer that a library provides for a type."""

    schema: dict[str, Any]

    def read(self, text: str, /) -> Any: ...

    def write(self, value: Any, /) -> str: ...

    def complaint(self, name: str, error: Exception, /) -> str: ...


class _PydanticCodec:
    def __init__(self, kind: Any) -> None:
        from pydantic import TypeAdapter

        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self.schema = self._adapter.json_schema()

    def read(self, text: str) -> Any:
        return self._adapter.validate_json(text)

    def write(self, value: Any) -> str:
        return self._adapter.dump_json(value, by_alias=True, round_trip=True, warnings=False).decode()

    def complaint(self, name: str, error: Exception) -> str:
        from pydantic import ValidationError

        return (
            describe_errors(name, error) if isinstance(error, ValidationError) else complaint(name, error_text(error))
        )


class _MsgspecCodec:
    def __init__(self, kind: Any) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self.schema = msgspec.json.schema(kind)

    def read(self, text: str) -> Any:
        return self._decoder.decode(text)

    def write(self, value: Any) -> str:
        return msgspec.json.encode(value).decode()

    def complaint(self, name: str, error: Exception) -> str:
        return complaint(name, str(error) if isinstance(error, msgspec.DecodeError) else error_text(error))


def _codec_of(kind: Any, label: str) -> _Codec:
    """Return the codec of a type. Raises WrongUse if neither library can create a schema for it."""
    reasons = []
    for make in (_PydanticCodec, _MsgspecCodec):
        try:
            codec: _Codec = make(kind)
        except Exception as error:  # each library has its own error for an unknown type
            reasons.append(error_text(error).splitlines()[0].split(". ")[0])
        else:
            if codec.schema:
                return codec
            reasons.append("its schema allows anything")
    if getattr(kind, "__bases__", ()) == (object,) and "__annotations__" in vars(kind) and not is_dataclass(kind):
        raise WrongUse(f"output is {label[:80]}, of which no JSON schema can be made: put @dataclass on the class")
    raise WrongUse(
        f"output is {label[:80]}, of which no JSON schema can be made: give a pydantic model, a dataclass, a "
        f"TypedDict, a msgspec Struct, or a list or a union of such ({reasons[0]})"
    )


def _cleaned(schema: Mapping[str, Any], *, keep_description: bool) -> dict[str, Any]:
    """Return the schema without titles. If its root is a reference, the root is inlined."""
    plain: dict[str, Any] = without_keywords(json.loads(json.dumps(schema)), ("title",))
    root = str(plain.get("$ref", ""))
    if root.startswith("#/$defs/"):
        defs: dict[str, Any] = plain["$defs"]
        name = root.removeprefix("#/$defs/")
        plain = {**defs[name], "$defs": defs}
        if json.dumps(plain).count(f'"{root}"') == 0:
            del defs[name]
        if not defs:
            del plain["$defs"]
    if not keep_description:
        plain.pop("description", None)
    return plain


def _docstring_of(kind: Any) -> str:
    """Return the type's own docstring; empty if it is inherited or generated by `dataclass`."""
    written = vars(kind).get("__doc__") if isinstance(kind, type) else None
    if not written or written.startswith(f"{kind.__name__}("):
        return ""
    return "\n".join(line.strip() for line in written.strip().splitlines())
