"""Scripted: a provider that plays a script instead of calling a model. For tests, examples and demos.

    provider = Scripted(
        [call("read_file", path="a.txt")],          # one response with one call
        [say("Done reading."), call("finish_task", summary="...")],
        "a plain answer",                           # the same as [say("a plain answer")]
        RateLimited("slow down", retry_after=3),    # raised instead of a response
    )

A response is a list of chunks, lists of chunks, exceptions and objects with an async `wait()` (an `anyio.Event` makes
the stream stall until the test sets it). Each request takes the next response. If many runs share a script, pass a
function from the request to a response instead.
"""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec

from ..decision import AnyChunk, FinishReport, TextDelta, ToolCallDelta, Usage, UsageReport, WrongUse
from ..decision.wrong_calls import checked, explained
from .errors import Exhausted
from .provider import Request

Response = Any
"""A string, an exception, or an iterable of chunks, nested iterables, exceptions and objects with `wait()`."""

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
    if arguments is not None and not isinstance(arguments, Mapping):
        raise WrongUse(f"call({name!r}, {arguments!r}): arguments are a mapping by name, as in call({name!r}, {{...}})")
    twice = more.keys() & (arguments or {}).keys()
    if twice:
        raise WrongUse(f"call({name!r}): {', '.join(sorted(twice))} is given twice, in the mapping and as a keyword")
    text = msgspec.json.encode({**(arguments or {}), **more}).decode()
    size = max(1, -(-len(text) // pieces))
    number = next(_ids)
    head = ToolCallDelta(number, f"call_{number}" if id is None else id, name)
    return [head, *(ToolCallDelta(number, arguments=text[i : i + size]) for i in range(0, len(text), size))]


@checked
class Scripted:
    """Provider that plays a script. Raises Exhausted when there are no more responses.

    responses: one for each request, or one function from the request to a response.
    model: its name. usage: what each response reports; by default 10 tokens in and 5 out.

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
        if len(responses) == 1 and callable(responses[0]):
            if responses[0] in (say, call) or isinstance(responses[0], type):
                name = responses[0].__name__
                raise WrongUse(f"Scripted: {name} itself is no response: write say('...') or call('name')")
            self._function = responses[0]
            return
        for number, response in enumerate(responses, 1):
            _check(response, f"Scripted: response {number}")
        if len(responses) == 1 and _is_several(responses[0]):
            raise WrongUse("Scripted: its one response is a list of responses: write Scripted(*responses)")

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
            _check(response, f"Scripted: what {getattr(self._function, '__name__', 'the function')} returned")
            return response
        try:
            return next(self._responses)
        except StopIteration:
            used = len(self.requests) - 1
            raise Exhausted(f"the script has {used} responses, and one more was requested") from None

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


def _check(response: Any, what: str) -> None:
    """Raise WrongUse unless this can be a response, as far as that is known before it is played."""
    hint = "write a text, say(...), call(...), an error, or a list of these"
    if inspect.iscoroutine(response):
        response.close()
        raise WrongUse(f"{what} is a coroutine: write a plain function")
    if isinstance(response, Mapping) or not (_is_part(response) or isinstance(response, Iterable)):
        raise WrongUse(f"{what} is {reprlib.repr(response)}, of type {type(response).__name__}: {hint}")
    if isinstance(response, list | tuple):
        for part in response:
            _check(part, f"{what}: a part of {reprlib.repr(response)}")


def _is_part(item: Any) -> bool:
    return isinstance(item, str | Exception | AnyChunk) or hasattr(item, "wait")


def _is_several(response: Any) -> bool:
    """Return whether this looks like several responses in one list, because one of them is a list of texts or calls."""
    if not isinstance(response, list) or len(response) < 2:
        return False
    return any(isinstance(part, list) and any(isinstance(inner, list) for inner in part) for part in response)


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, str):
            yield from say(item)
        elif isinstance(item, Iterable) and not isinstance(item, msgspec.Struct):
            yield from _flat(item)
        else:
            yield item
