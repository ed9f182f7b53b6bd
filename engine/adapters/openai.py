"""Adapter for your own loop around the OpenAI SDK: a client whose chat completions are followed.

    from endstop.adapters.openai import Endstop
    client = Endstop(policy="agent", completion=("finish_task",), record="run.jsonl").client(OpenAI())
    reply = client.chat.completions.create(model=..., messages=messages, tools=tools)

The loop is not changed. Its rule is "no calls: the end", so a request is answered here, with a text, once the decision
is a stop. The messages belong to the loop and hold no nudges: they are inserted into each request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack
from uuid import uuid4

from ..decision import GoOn, Policy, Stop, ToolResult
from ..follow import Follower
from ..formats.openai import parse_tools
from ..formats.parsing import as_dict, as_list, as_text
from ..providers.chat_stream import ChatStream
from ..providers.errors import ProviderError
from .followed_run import AdapterOptions, FollowedRun, FollowedRuns
from .missing_framework import MissingFramework

try:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
except ModuleNotFoundError as error:
    Base: Any = MissingFramework("openai", error)
else:
    Base = object

WHOLE_ONLY = ("n", "logprobs", "modalities", "audio", "response_format", "prediction")
"""Parts that a request may ask for and that a response assembled from a stream would lack or hold incompletely."""


class EndstopClients(Base):
    """Factory of OpenAI SDK clients whose chat completions are followed, cut, nudged and ended.

    options: see `AdapterOptions`.
    """

    def __init__(self, policy: Policy | str = "agent", **options: Unpack[AdapterOptions]) -> None:
        self.runs = FollowedRuns("openai", policy, options)

    def client(self, client: Any) -> FollowedClient:
        """Return a client for one conversation around an `OpenAI` or `AsyncOpenAI`. Use one for each running loop."""
        key = uuid4().hex
        run = self.runs.open(key)
        return FollowedClient(client, run, lambda: self.runs.end(key))

    def close(self) -> None:
        """End all runs, and close their records."""
        self.runs.close()


class FollowedClient:
    """A client whose `chat.completions.create` is followed; everything else is that of the wrapped client.

    Leaving its `with` block, or `end`, ends the run. The client itself stays open.
    """

    def __init__(self, client: Any, run: FollowedRun, end: Callable[[], None]) -> None:
        self.followed_run = run
        self.chat = _Chat(client.chat, run, asynchronous=isinstance(client, AsyncOpenAI))
        self.end = end
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def __enter__(self) -> FollowedClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class _Chat:
    def __init__(self, chat: Any, run: FollowedRun, *, asynchronous: bool) -> None:
        self._chat = chat
        kind = AsyncFollowedCompletions if asynchronous else FollowedCompletions
        self.completions = kind(chat.completions, run)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chat, name)


class _Exchange:
    """One request of the loop and its response. It does not wait and sends nothing, so both kinds of clients use it."""

    def __init__(self, run: FollowedRun, request: dict[str, Any]) -> None:
        run.cut = None
        self.run = run
        self.streams = bool(request.get("stream"))
        items = [_as_dict(message) for message in request["messages"]]
        run.guarded(lambda follower: _tell_request(follower, run, request, items))
        self.stop = self._decide(items)
        self.asked = {**request, "messages": _with_nudges(run, request["messages"])}
        whole = any(request.get(name) for name in WHOLE_ONLY)
        if run.streams and not run.broken and not whole and not self.streams:
            self.asked |= {"stream": True, "stream_options": {"include_usage": True}}
        self._parser = ChatStream()
        self._whole = _WholeReply()

    def _decide(self, items: list[dict[str, Any]]) -> Stop | None:
        decision = self.run.next_decision() if self.run.responses else None
        if isinstance(decision, GoOn) and decision.say:
            self.run.nudges.append((len(items), decision.say))
        return decision if isinstance(decision, Stop) else None

    @property
    def answer(self) -> Any:
        """The response in place of the model's, as one or as the chunks of a stream."""
        assert self.stop is not None
        fields = _reply(self.run.end_text(self.stop), "stop", self.run.mark(self.stop))
        if not self.streams:
            return ChatCompletion.model_validate(fields)
        choice = {"index": 0, "delta": fields["choices"][0]["message"], "finish_reason": "stop"}
        return ChatCompletionChunk.model_validate({**fields, "object": "chat.completion.chunk", "choices": [choice]})

    def take(self, chunk: Any) -> bool:
        """Hear a chunk. Returns whether the stream is to be left after it."""
        self._whole.add(chunk)
        self.run.guarded(lambda follower: self._hear(follower, chunk))
        return self.run.cut is not None

    def _hear(self, follower: Follower, chunk: Any) -> None:
        try:
            heard = self._parser.feed(b"data: " + chunk.model_dump_json(warnings=False).encode() + b"\n\n")
        except ProviderError:
            return  # the SDK has read the same chunk
        for one in heard:
            self.run.cut = follower.chunk(one) or self.run.cut

    def end(self) -> None:
        """Report that the stream has ended, or is left."""
        self.run.responses += 1
        self.run.guarded(_end_response)

    def take_whole(self, completion: Any) -> Any:
        """Hear a response that did not stream."""
        body = completion.model_dump_json(warnings=False).encode()
        self.run.guarded(lambda follower: _hear_whole(follower, body))
        self.run.responses += 1
        return completion

    def failed(self, error: Exception) -> None:
        """Report that the request failed or its stream broke off."""
        self.run.failed(error)

    def reply(self) -> Any:
        """Return the response that the chunks make up, for a loop that asked for a whole one."""
        return self._whole.reply(cut=self.run.cut is not None)

    @property
    def last_chunk(self) -> Any:
        """The chunk that ends a stream after the cut."""
        choice = {"index": 0, "delta": {}, "finish_reason": self._whole.finish(cut=True)}
        fields = {"id": self._whole.id, "created": 0, "model": self._whole.model, "object": "chat.completion.chunk"}
        return ChatCompletionChunk.model_validate({**fields, "choices": [choice]})


class _Completions:
    """Base of the followed completions, which wrap the SDK's."""

    def __init__(self, completions: Any, run: FollowedRun) -> None:
        self._completions = completions
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._completions, name)


class FollowedCompletions(_Completions):
    """`client.chat.completions` of an `OpenAI`."""

    def create(self, **request: Any) -> Any:
        """Do the same as the SDK's `create`."""
        if self._run.broken:
            return self._completions.create(**request)
        exchange = _Exchange(self._run, request)
        if exchange.stop is not None:
            return iter([exchange.answer]) if exchange.streams else exchange.answer
        try:
            response = self._completions.create(**exchange.asked)
        except Exception as error:
            exchange.failed(error)
            raise
        if not exchange.asked.get("stream"):
            return exchange.take_whole(response)
        chunks = _followed_chunks(exchange, response)
        if exchange.streams:
            return chunks
        for _ in chunks:
            pass
        return exchange.reply()


class AsyncFollowedCompletions(_Completions):
    """`client.chat.completions` of an `AsyncOpenAI`."""

    async def create(self, **request: Any) -> Any:
        """Do the same as the SDK's `create`."""
        if self._run.broken:
            return await self._completions.create(**request)
        exchange = _Exchange(self._run, request)
        if exchange.stop is not None:
            return _as_stream(exchange.answer) if exchange.streams else exchange.answer
        try:
            response = await self._completions.create(**exchange.asked)
        except Exception as error:
            exchange.failed(error)
            raise
        if not exchange.asked.get("stream"):
            return exchange.take_whole(response)
        chunks = _async_followed_chunks(exchange, response)
        if exchange.streams:
            return chunks
        async for _ in chunks:
            pass
        return exchange.reply()


async def _as_stream(chunk: Any) -> AsyncIterator[Any]:
    yield chunk


def _followed_chunks(exchange: _Exchange, response: Any) -> Iterator[Any]:
    """Yield the chunks of a stream up to where it is cut. Leaving it early closes the stream."""
    try:
        with response:
            for chunk in response:
                yield chunk
                if exchange.take(chunk):
                    yield exchange.last_chunk
                    break
    except Exception as error:
        exchange.failed(error)
        raise
    exchange.end()


async def _async_followed_chunks(exchange: _Exchange, response: Any) -> AsyncIterator[Any]:
    """Yield the chunks of a stream up to where it is cut. Leaving it early closes the stream."""
    try:
        async with response:
            async for chunk in response:
                yield chunk
                if exchange.take(chunk):
                    yield exchange.last_chunk
                    break
    except Exception as error:
        exchange.failed(error)
        raise
    exchange.end()


class _WholeReply:
    """The whole response assembled from the chunks of a stream."""

    def __init__(self) -> None:
        self.id, self.model = "", ""
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish = ""
        self._usage: Any = None

    def add(self, chunk: Any) -> None:
        """Add a chunk."""
        self.id, self.model = chunk.id or self.id, chunk.model or self.model
        self._usage = chunk.usage or self._usage
        for choice in chunk.choices[:1]:
            self._finish = choice.finish_reason or self._finish
            self._text.append(choice.delta.content or "")
            for piece in choice.delta.tool_calls or ():
                empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                call = self._calls.setdefault(piece.index, empty)
                call["id"] = piece.id or call["id"]
                call["function"]["name"] += (piece.function and piece.function.name) or ""
                call["function"]["arguments"] += (piece.function and piece.function.arguments) or ""

    def finish(self, *, cut: bool) -> str:
        """Return why the response ended."""
        return "tool_calls" if cut and self._calls else self._finish or "stop"

    def reply(self, *, cut: bool) -> Any:
        """Return the response."""
        fields = _reply("".join(self._text) or None, self.finish(cut=cut), None)
        if self._calls:
            fields["choices"][0]["message"]["tool_calls"] = list(self._calls.values())
        usage = None if self._usage is None else self._usage.model_dump()
        return ChatCompletion.model_validate({**fields, "id": self.id, "model": self.model, "usage": usage})


# ---- reports to the follower


def _tell_request(
    follower: Follower, run: FollowedRun, request: Mapping[str, Any], items: list[dict[str, Any]]
) -> None:
    """Tell what came since the latest response: results, and what was said in the user's role."""
    last = max((place for place, item in enumerate(items) if item.get("role") == "assistant"), default=-1)
    follower.model = as_text(request.get("model"))
    if not run.begun or not follower.running:
        follower.system = next((_text(item) for item in items if item.get("role") in ("system", "developer")), "")
        follower.offer(parse_tools(request.get("tools")))
    tail = items[last + 1 :]
    results = [item for item in tail if item.get("role") == "tool"]
    for item in results:
        follower.result(ToolResult(as_text(item.get("tool_call_id")), "", _text(item)))
    said = [_text(item) for item in tail if item.get("role") == "user"]
    for text in said:
        if run.begun and results and follower.running:
            follower.said(text)
        else:
            follower.prompt(text)
    run.begun = True


def _end_response(follower: Follower) -> None:
    """End a response. One without calls ends the loop, so the decision is made immediately."""
    response = follower.response()
    if response is None or not response.message.calls:
        follower.decide()


def _hear_whole(follower: Follower, body: bytes) -> None:
    for chunk in ChatStream().read_whole(body):
        follower.chunk(chunk, cuts=False)
    _end_response(follower)


def _as_dict(message: Any) -> dict[str, Any]:
    """Return a message of the loop, which may be a dictionary or the SDK's object, as a dictionary."""
    return as_dict(message if isinstance(message, dict) else message.model_dump(exclude_none=True))


def _text(item: Mapping[str, Any]) -> str:
    content = item.get("content")
    return content if isinstance(content, str) else "\n".join(as_text(as_dict(p).get("text")) for p in as_list(content))


# ---- messages to the loop


def _with_nudges(run: FollowedRun, messages: Sequence[Any]) -> list[Any]:
    """Return a request's messages with each nudge in its place and the reminder at the end."""
    said = list(messages)
    for place, text in reversed(run.nudges):
        said.insert(place, {"role": "user", "content": text})
    remind = run.take_reminder()
    return [*said, {"role": "user", "content": remind}] if remind else said


def _reply(text: str | None, finish: str, mark: dict[str, Any] | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    head = {"id": f"endstop-{uuid4().hex}", "created": 0, "model": "endstop", "object": "chat.completion"}
    return {**head, "choices": [choice], **({"endstop": mark} if mark else {})}


Endstop = EndstopClients
"""The adapter under the name that all adapters have."""
