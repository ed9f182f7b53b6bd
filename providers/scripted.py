"""Scripted: a provider that plays a script instead of calling a model. For tests, examples and demos.

    provider = Scripted(
        [call("read_file", path="a.txt")],          # one response with one call
        [say("Done reading."), call("finish_task", summary="...")],
        "a plain answer",                           # the same as [say("a plain answer")]
        RateLimited("slow down", retry_after=3),    # raised instead of a response
    )

A response is a list of chunks, lists of chunks, exceptions and objects with an async `wait()` (an `anyio.Event` makes
the stream stall until the test sets it). Each request takes the next response. If many runs share a script, pass a
function from the request to a response instead. Anything else is refused: a dict or an object of another library would
otherwise be read as some response.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, get_args

import msgspec

from ..decision import (
    AnyChunk,
    AssistantMessage,
    FinishReport,
    TextDelta,
    ToolCallDelta,
    ToolResult,
    Usage,
    UsageReport,
    UserMessage,
    WrongUse,
)
from ..decision.errors import function_name
from ..decision.wrong_calls import checked, explained
from .errors import Exhausted
from .provider import Request

Response = Any
"""A string, an exception, or a list, tuple or iterator of strings, chunks, exceptions, objects with `wait()`, and lists
of these."""
_CHUNKS = get_args(AnyChunk)
LONGEST_REFUSAL = 300
"""Characters of the latest refusal in the message that a script is exhausted."""
_WRITE = "write a text, say(...), call(...), an exception, or a list of these"

_ids = count(1)


@explained
def say(text: str, pieces: int = 1) -> list[AnyChunk]:
    """Return the chunks of a text as a model streams it.

    text: what the model says. pieces: number of pieces, 1 or more.
    """
    size = max(1, -(-len(text) // pieces))
    return [TextDelta(text[i : i + size]) for i in range(0, len(text), size)]


@explained
def call(
    name: str, arguments: Mapping[str, Any] | None = None, /, *, id: str | None = None, pieces: int = 1, **more: Any
) -> list[AnyChunk]:
    """Return the chunks of a tool call as a model streams it: the name, then the arguments in this many pieces.

    name: of the tool.
    arguments: by name. Use it for an argument that is called `id` or `pieces`: `call("delete", {"id": "42"})`.
    id: of the call, unique in its session; by default a number in this process, as in `call_1`.
    pieces: number of pieces, 1 or more.
    more: the other arguments, as keywords: `call("read_file", path="a.txt")`.
    """
    if not isinstance(name, str):
        raise WrongUse(f"call: {_described(name)} is not a name: write call({function_name(name)!r}, ...)")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise WrongUse(f"call({name!r}, {arguments!r}): arguments are a mapping by name, as in call({name!r}, {{...}})")
    twice = more.keys() & (arguments or {}).keys()
    if twice:
        raise WrongUse(f"call({name!r}): {', '.join(sorted(twice))} is given twice, in the mapping and as a keyword")
    try:
        text = msgspec.json.encode({**(arguments or {}), **more}).decode()
    except TypeError as error:
        raise WrongUse(f"call({name!r}): a model writes its arguments as JSON: {error}") from None
    size = max(1, -(-len(text) // pieces))
    number = next(_ids)
    head = ToolCallDelta(number, f"call_{number}" if id is None else id, name)
    return [head, *(ToolCallDelta(number, arguments=text[i : i + size]) for i in range(0, len(text), size))]


@checked
class Scripted:
    """Provider that plays a script. Raises Exhausted when there are no more responses.

    responses: one for each request, or one function from the request to a response.
    model: its name. usage: what each response reports; by default 10 tokens in and 5 out.
    Raises WrongUse for what is no response: at once, and for the response of a function at its request.

    `requests` holds the requests so far, `sent` the number of chunks read from each response.
    """

    def __init__(self, *responses: Response, model: str = "scripted", usage: Usage | None = None) -> None:
        self.model = model
        self.requests: list[Request] = []
        self.sent: list[int] = []
        """Number of chunks read from each response; fewer than the script has if the response was cut."""
        self._usage = usage or Usage(input_tokens=10, output_tokens=5)
        self._function: Callable[[Request], Response] | None = None
        self._responses: Iterator[Response] = iter(responses)
        if len(responses) == 1 and callable(responses[0]) and not inspect.isclass(responses[0]):
            self._function = _checked_function(responses[0])
            return
        for number, response in enumerate(responses, 1):
            _check_response(response, f"response {number} of the script")
        if len(responses) == 1 and _is_several(responses[0]):
            what = "response 1 of the script is a list of responses"
            raise WrongUse(f"{what}: pass them one by one, as in Scripted(*responses)")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Play the next response. Raises ProviderError."""
        number = len(self.requests)
        self.requests.append(replace(request, messages=tuple(request.messages)))  # the list keeps growing
        self.sent.append(0)
        chunks = self._play(self._response(request), number)
        try:
            yield chunks
        finally:
            await chunks.aclose()

    def _response(self, request: Request) -> Response:
        if self._function is not None:
            response = self._function(request)
            _check_response(response, f"the response of {_described(self._function)}")
            return response
        try:
            return next(self._responses)
        except StopIteration:
            used = len(self.requests) - 1
            count = f"{used} response{'s' * (used != 1)}"
            raise Exhausted(f"the script has {count}, and one more was requested{_last_refusal(request)}") from None

    async def _play(self, response: Response, number: int) -> Any:
        finished = reported = False
        called = False
        for item in _flat([response]):
            if isinstance(item, Exception):
                raise item
            if hasattr(item, "wait"):
                await item.wait()
                continue
            finished = finished or isinstance(item, FinishReport)
            reported = reported or isinstance(item, UsageReport)
            called = called or isinstance(item, ToolCallDelta)
            self.sent[number] += 1
            yield item
        if not finished:
            word = "tool_calls" if called else "stop"
            yield FinishReport("tool_calls" if called else "stop", word)
        if not reported:
            yield UsageReport(self._usage)


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, str):
            yield from say(item)
        elif isinstance(item, list | tuple | Iterator):
            yield from _flat(item)
        else:
            _check_response(item, "a part of a response")  # of an iterator: the others are checked
            yield item


def _is_several(response: Any) -> bool:
    """Return whether this looks like several responses in one list: each part a text, or a list of texts and calls."""
    parts = response if isinstance(response, list | tuple) else ()
    lists = [isinstance(part, list) and any(isinstance(one, list | str) for one in part) for part in parts]
    return (
        len(lists) > 1
        and any(lists)
        and all(is_list or isinstance(part, str) for is_list, part in zip(lists, parts, strict=True))
    )


def _check_response(response: Any, where: str) -> None:
    """Raise WrongUse for what is no response. The parts of an iterator are checked when they are played."""
    if isinstance(response, list | tuple):
        for part in response:
            _check_response(part, where if isinstance(part, list | tuple) else f"a part of {where}")
    elif inspect.isclass(response) or not (
        isinstance(response, (str, Exception, Iterator, *_CHUNKS)) or hasattr(response, "wait")
    ):
        is_function = callable(response) and not inspect.isclass(response)
        also = "; a function of the request is the only response of a script" if is_function else ""
        raise WrongUse(f"{where} is {_described(response)}: {_WRITE}{also}")


def _checked_function(function: Callable[..., Response]) -> Callable[[Request], Response]:
    """Return the function. Raises WrongUse if it cannot be called with a request."""
    if function in (say, call):
        name = function.__name__
        raise WrongUse(f"response 1 of the script is the function {name} itself: call it, as in {name}('...')")
    if inspect.iscoroutinefunction(function):
        raise WrongUse(f"response 1 of the script is {_described(function)}, which is async: write a plain function")
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise WrongUse(
            f"response 1 of the script is {_described(function)}, which is called with the request alone: {error}"
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    return function


def _described(value: Any) -> str:
    """Return what a value is, for people: `a dict`, `the class City`, `the function book`, `None`."""
    if value is None:
        return "None"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if callable(value):
        return f"the function {function_name(value)}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _last_refusal(request: Request) -> str:
    """Return how the latest message of a request begins if it refused a call or an answer of the script."""
    match request.messages:
        case [*_, ToolResult(status=status, name=name, content=content)] if status != "ok":
            return f"; the latest call, of {name}, was answered ({status}): {_first_line(content)}"
        case [*_, AssistantMessage(), UserMessage(text=text)]:
            return f"; the latest answer was followed by: {_first_line(text)}"
        case _:
            return ""


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:LONGEST_REFUSAL]
