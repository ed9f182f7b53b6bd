"""Adapter for your own loop around the OpenAI SDK: a client whose chat completions are followed.

    from endstop.adapters.openai import Endstop
    client = Endstop(policy="agent", completion=("finish_task",), record="run.jsonl").client(OpenAI())
    reply = client.chat.completions.create(model=..., messages=messages, tools=tools)

The loop is not changed. Its rule is "no calls: the end", so a request is answered here, with a text, once the decision
is a stop. The messages belong to the loop and hold no nudges: they are inserted into each request. Where the check of
the work hands a text back (`until`), the model goes on in the same response, so that the loop sees no end before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack
from uuid import uuid4

from ..decision import Decision, GoOn, Policy, Stop, ToolResult
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
    """One request of the loop and its response, which may be made of several of the model.

    It does not wait and sends nothing, so both kinds of clients use it.
    """

    def __init__(self, run: FollowedRun, request: dict[str, Any]) -> None:
        self.run = run
        self.streams = bool(request.get("stream"))
        self.stop: Stop | None = None
        """The decision for which the request is answered here."""
        self.asked = request
        """The request as it is made."""
        self.held: list[Any] = []
        """The last chunks of a stream, until it is decided whether the response ends with them."""
        self._handed_back = ""
        """The texts that were handed back, each with what the model was told."""
        self._formatted = bool(request.get("response_format"))
        """Whether nothing may precede the last text, which has a format."""
        self._begin_response()
        items = [_as_dict(message) for message in request["messages"]]
        run.guarded(lambda follower: _tell_request(follower, run, request, items))

    def _begin_response(self) -> None:
        self.run.cut = None
        self._parser = ChatStream()
        self._whole = _WholeReply()

    def begin(self, decision: Decision | None) -> None:
        """Prepare the request, with what this decision says, or the answer in its place."""
        run, request = self.run, self.asked
        if isinstance(decision, Stop):
            self.stop = decision
        if isinstance(decision, GoOn) and decision.say:
            run.nudges.append((len(request["messages"]), decision.say))
        self.asked = {**request, "messages": _with_nudges(run, request["messages"])}
        whole = any(request.get(name) for name in WHOLE_ONLY)
        if run.streams and not run.broken and not whole and not self.streams:
            self.asked |= {"stream": True, "stream_options": {"include_usage": True}}

    @property
    def claims(self) -> bool:
        """Whether the loop would end with the response, and its work is checked."""
        return self.run.check is not None and not self.run.broken and not self._whole.has_calls

    def hand_back(self, decision: Decision | None) -> list[Any] | None:
        """Prepare another request if this decision lets the model go on after its text.

        Return the chunks that a stream goes on with; None if the response ends.
        """
        if not isinstance(decision, GoOn) or not decision.say:
            return None
        text, said = self._whole.text, decision.say
        more = [{"role": "assistant", "content": text}, {"role": "user", "content": said}]
        self.asked = {**self.asked, "messages": [*self.asked["messages"], *more]}
        told = [] if self._formatted else [self._whole.chunk({"content": f"\n\n{said}\n\n"}, None)]
        self._handed_back += "" if self._formatted else f"{text}\n\n{said}\n\n"
        self.held.clear()
        self._begin_response()
        return told

    @property
    def answer(self) -> Any:
        """The response in place of the model's, as one or as the chunks of a stream."""
        assert self.stop is not None
        fields = _reply(self.run.end_text(self.stop), "stop", self.run.mark(self.stop))
        if not self.streams:
            return ChatCompletion.model_validate(fields)
        choice = {"index": 0, "delta": fields["choices"][0]["message"], "finish_reason": "stop"}
        return ChatCompletionChunk.model_validate({**fields, "object": "chat.completion.chunk", "choices": [choice]})

    def holds(self, chunk: Any) -> bool:
        """Keep a chunk back if it may end a text whose work is checked. Returns whether it is kept."""
        ends = bool(self.held) or self._formatted or any(choice.finish_reason for choice in chunk.choices)
        if self.run.check is None or not ends:
            return False
        self.held.append(chunk)
        return True

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
        self.run.guarded(self._end_response)

    def take_whole(self, completion: Any) -> Any:
        """Hear a response that did not stream."""
        self._whole.take(completion)
        self.run.guarded(lambda follower: self._hear_whole(follower, completion))
        self.run.responses += 1
        return completion

    def _hear_whole(self, follower: Follower, completion: Any) -> None:
        for chunk in ChatStream().read_whole(completion.model_dump_json(warnings=False).encode()):
            follower.chunk(chunk, cuts=False)
        self._end_response(follower)

    def _end_response(self, follower: Follower) -> None:
        """End a response. One without calls ends the loop, so the decision is made immediately, or by the check."""
        response = follower.response()
        if self.run.check is None and (response is None or not response.message.calls):
            follower.decide()

    def joined(self, completion: Any) -> Any:
        """Return a whole response with the texts that were handed back before it."""
        if self._handed_back:
            message = completion.choices[0].message
            message.content = self._handed_back + (message.content or "")
        return completion

    def failed(self, error: Exception) -> None:
        """Report that the request failed or its stream broke off."""
        self.run.failed(error)

    def reply(self) -> Any:
        """Return the response that the chunks make up, for a loop that asked for a whole one."""
        return self.joined(self._whole.reply(cut=self.run.cut is not None))

    @property
    def last_chunk(self) -> Any:
        """The chunk that ends a stream after the cut."""
        return self._whole.chunk({}, self._whole.finish(cut=True))


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
        run, exchange = self._run, _Exchange(self._run, request)
        exchange.begin(run.wait_for_decision() if run.responses else run.wait_for_start())
        if exchange.stop is not None:
            return iter([exchange.answer]) if exchange.streams else exchange.answer
        response = self._request(exchange)
        if not exchange.asked.get("stream"):
            return self._whole(exchange, response)
        chunks = self._chunks(exchange, response)
        if exchange.streams:
            return chunks
        for _ in chunks:
            pass
        return exchange.reply()

    def _request(self, exchange: _Exchange) -> Any:
        try:
            return self._completions.create(**exchange.asked)
        except Exception as error:
            exchange.failed(error)
            raise

    def _whole(self, exchange: _Exchange, response: Any) -> Any:
        """Return the response with which the loop goes on or ends."""
        exchange.take_whole(response)
        while exchange.claims and exchange.hand_back(self._run.wait_for_decision()) is not None:
            response = exchange.take_whole(self._request(exchange))
        return exchange.joined(response)

    def _chunks(self, exchange: _Exchange, response: Any) -> Iterator[Any]:
        """Yield the chunks of a response, and of those that follow after texts that were handed back."""
        yield from _followed_chunks(exchange, response)
        while exchange.claims and (told := exchange.hand_back(self._run.wait_for_decision())) is not None:
            yield from told
            yield from _followed_chunks(exchange, self._request(exchange))
        yield from exchange.held


class AsyncFollowedCompletions(_Completions):
    """`client.chat.completions` of an `AsyncOpenAI`."""

    async def create(self, **request: Any) -> Any:
        """Do the same as the SDK's `create`."""
        if self._run.broken:
            return await self._completions.create(**request)
        run, exchange = self._run, _Exchange(self._run, request)
        exchange.begin(await run.decide() if run.responses else await run.start())
        if exchange.stop is not None:
            return _as_stream(exchange.answer) if exchange.streams else exchange.answer
        response = await self._request(exchange)
        if not exchange.asked.get("stream"):
            return await self._whole(exchange, response)
        chunks = self._chunks(exchange, response)
        if exchange.streams:
            return chunks
        async for _ in chunks:
            pass
        return exchange.reply()

    async def _request(self, exchange: _Exchange) -> Any:
        try:
            return await self._completions.create(**exchange.asked)
        except Exception as error:
            exchange.failed(error)
            raise

    async def _whole(self, exchange: _Exchange, response: Any) -> Any:
        """Return the response with which the loop goes on or ends."""
        exchange.take_whole(response)
        while exchange.claims and exchange.hand_back(await self._run.decide()) is not None:
            response = exchange.take_whole(await self._request(exchange))
        return exchange.joined(response)

    async def _chunks(self, exchange: _Exchange, response: Any) -> AsyncIterator[Any]:
        """Yield the chunks of a response, and of those that follow after texts that were handed back."""
        async for chunk in _async_followed_chunks(exchange, response):
            yield chunk
        while exchange.claims and (told := exchange.hand_back(await self._run.decide())) is not None:
            for chunk in told:
                yield chunk
            async for chunk in _async_followed_chunks(exchange, await self._request(exchange)):
                yield chunk
        for chunk in exchange.held:
            yield chunk


async def _as_stream(chunk: Any) -> AsyncIterator[Any]:
    yield chunk


def _followed_chunks(exchange: _Exchange, response: Any) -> Iterator[Any]:
    """Yield the chunks of a stream up to where it is cut. Leaving it early closes the stream."""
    try:
        with response:
            for chunk in response:
                if not exchange.holds(chunk):
                    yield chunk
                if exchange.take(chunk):
                    if not exchange.holds(last := exchange.last_chunk):
                        yield last
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
                if not exchange.holds(chunk):
                    yield chunk
                if exchange.take(chunk):
                    if not exchange.holds(last := exchange.last_chunk):
                        yield last
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
        self._calls: dict[int, Any] = {}
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

    def take(self, completion: Any) -> None:
        """Take a response that did not stream."""
        message = completion.choices[0].message
        self.id, self.model, self._text = completion.id, completion.model, [message.content or ""]
        self._calls = dict(enumerate(message.tool_calls or ()))

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def has_calls(self) -> bool:
        """Whether it has calls."""
        return bool(self._calls)

    def chunk(self, delta: dict[str, Any], finish: str | None) -> Any:
        """Return a chunk of our own for the stream of this response."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        fields = {"id": self.id, "created": 0, "model": self.model, "object": "chat.completion.chunk"}
        return ChatCompletionChunk.model_validate({**fields, "choices": [choice]})

    def finish(self, *, cut: bool) -> str:
        """Return why the response ended."""
        return "tool_calls" if cut and self._calls else self._finish or "stop"

    def reply(self, *, cut: bool) -> Any:
        """Return the response."""
        fields = _reply(self.text or None, self.finish(cut=cut), None)
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
