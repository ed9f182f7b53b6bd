"""Adapter for Strands Agents: a plugin for an `Agent`.

    from endstop.adapters.strands import Endstop
    agent = Agent(model, tools=[...], plugins=[Endstop(policy="agent", completion=("finish_task",))])

A run is one invocation of an agent. `AfterToolsEvent` reports results and acts on the decision; the stage around a
model call reports the response, cuts it, and decides after one without calls; `AfterInvocationEvent` continues after a
nudge, or ends the run. An agent that is a tool of another one has its own runs.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, Unpack
from uuid import uuid4
from weakref import WeakKeyDictionary

from ..decision import (
    AnyChunk,
    GoOn,
    Policy,
    ReasoningDelta,
    Stop,
    TextDelta,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    Usage,
)
from ..decision.chunks import FinishReport, UsageReport
from ..decision.finish_words import parse_finish_reason
from ..decision.reported_usage import reported_usage, sum_of_counts, token_count
from ..follow import Follower
from ..formats.parsing import as_json
from ..providers.chat_stream import ChatStream
from ..providers.errors import ProviderError
from .followed_run import STATUSES_OF_ITS_OWN, AdapterOptions, FollowedRun, FollowedRuns, offered
from .missing_framework import MissingFramework

try:
    from strands.hooks import AfterInvocationEvent, AfterToolsEvent, BeforeInvocationEvent
    from strands.middleware import InvokeModelStage, ModelStopReason
    from strands.plugins import Plugin
    from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
except ModuleNotFoundError as error:
    Plugin = MissingFramework("strands", error)

OWN = "endstop"
"""The plugin's name, and the key of a result's `state` that says why the run was stopped."""
ENDS_WITH_TEXT = ("end_turn", "stop_sequence")
"""Stop reasons of responses after which an agent ends, and can be asked to go on."""


class EndstopPlugin(Plugin):
    """Plugin that follows each invocation of its agents, cuts their responses, nudges and ends them.

    options: see `AdapterOptions`.
    """

    def __init__(self, policy: Policy | str = "agent", **options: Unpack[AdapterOptions]) -> None:
        super().__init__()
        self.runs = FollowedRuns("strands", policy, options)
        self._keys: dict[tuple[int, int], str] = {}
        """The open runs, by their agent and the state of the invocation, which is one object for each call."""
        self._interrupted: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        """The runs that wait for an answer of the user, by agent."""
        self._nudges: dict[str, str] = {}
        """The next message to an agent whose response had no calls, by run."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        return OWN

    def init_agent(self, agent: Any) -> None:
        """Follow this agent."""
        agent.add_hook(self.before_invocation, BeforeInvocationEvent)
        agent.add_hook(self.after_tools, AfterToolsEvent)
        agent.add_hook(self.after_invocation, AfterInvocationEvent)
        agent.add_middleware(InvokeModelStage, self.call_model)

    # ---- hooks

    def before_invocation(self, event: Any) -> None:
        """Open a run, unless one goes on: after a nudge, or with the user's answer to an interrupt."""
        if event.messages is None:
            return  # `Agent.structured_output`, whose request no hook sees
        place = _place(event)
        if self._nudges.pop(self._keys.get(place, ""), ""):
            return
        _state(event).pop(OWN, None)
        key = self._interrupted.pop(event.agent, None)
        if key is None:
            key = uuid4().hex
            self.runs.open(key)
        self._keys[place] = key

    async def call_model(self, context: Any, next_fn: Any) -> AsyncIterator[Any]:
        """Tell the response, cut it, and decide after one without calls, with which the agent would end."""
        key = self._keys.get(_place(context), "")
        run = self.runs.get(key)
        if run is None or run.broken:
            async for event in next_fn(context):
                yield event
            return
        run.guarded(lambda follower: _tell_request(follower, run, context))
        stop = None if run.responses else await run.start()
        if stop is not None:
            _state(context)[OWN] = run.mark(stop)
            async for event in next_fn(context.replace(model=AnsweredStrandsModel(context.model, run.end_text(stop)))):
                yield event
            return
        followed = _with_reminder(context, run.take_reminder())
        async for event in next_fn(followed.replace(model=FollowedStrandsModel(context.model, run))):
            if isinstance(event, ModelStopReason):
                await self._decide_without_calls(key, run, context, *event["stop"][:2])
            yield event

    async def _decide_without_calls(self, key: str, run: FollowedRun, context: Any, reason: str, message: Any) -> None:
        """Decide after a response that ends the agent: keep the nudge for later, or add why it was stopped."""
        forces_output = _output_tool(context.agent) and context.structured_output_model is None
        if reason not in ENDS_WITH_TEXT or forces_output or any("toolUse" in block for block in message["content"]):
            return
        decision = await run.decide()
        if isinstance(decision, GoOn) and decision.say:
            self._nudges[key] = decision.say
        if isinstance(decision, Stop) and decision.final_status not in STATUSES_OF_ITS_OWN:
            message["content"].append({"text": run.end_text(decision)})
            _state(context)[OWN] = run.mark(decision)

    async def after_tools(self, event: Any) -> None:
        """Decide after the results of a step: nudge, or end the agent. An interrupted step has not all its results."""
        run = self.runs.get(self._keys.get(_place(event), ""))
        if run is None or run.broken:
            return
        results = [block["toolResult"] for block in event.message["content"] if "toolResult" in block]
        run.guarded(lambda follower: _tell_results(follower, run, results))
        calls = [block["toolUse"] for block in event.agent.messages[-1]["content"] if "toolUse" in block]
        if not {call["toolUseId"] for call in calls} <= {result["toolUseId"] for result in results}:
            return
        ends = _output_tool(event.agent) in [call["name"] for call in calls]
        if ends:
            await run.settle()  # the framework does not ask the model again
        decision = run.next_decision() if ends else await run.decide()
        if isinstance(decision, GoOn) and decision.say:
            run.seen.add((OWN, decision.say))
            event.message["content"].append({"text": decision.say})
        if isinstance(decision, Stop) and not event.end_turn:
            _state(event)[OWN] = run.mark(decision)
            if decision.final_status != "completed" or not ends:
                event.end_turn = run.end_text(decision)

    async def after_invocation(self, event: Any) -> None:
        """Go on after a nudge, keep a run that was interrupted, or end it and close its record."""
        place = _place(event)
        key = self._keys.get(place, "")
        reason = "" if event.result is None else event.result.stop_reason
        if key in self._nudges and reason in ENDS_WITH_TEXT and event.resume is None:
            event.resume = self._nudges[key]
            return
        self._nudges.pop(key, None)
        self._keys.pop(place, None)
        if reason == "interrupt":
            self._interrupted[event.agent] = key
            return
        run = self.runs.get(key)
        if run is not None and event.result is not None:
            await run.settle()
        self.runs.end(key)

    def close(self) -> None:
        """End the runs that go on, and those that wait for an answer."""
        self.runs.close()


def _place(event: Any) -> tuple[int, int]:
    return id(event.agent), id(event.invocation_state)


def _state(event: Any) -> dict[str, Any]:
    """Return the `state` of the invocation's result."""
    state: dict[str, Any] = event.invocation_state.setdefault("request_state", {})
    return state


def _output_tool(agent: Any) -> str:
    """Return the name of the tool for the agent's structured output, which ends the agent; empty without one."""
    tools = agent.tool_registry.dynamic_tools.values()
    return next((tool.tool_name for tool in tools if isinstance(tool, StructuredOutputTool)), "")


# ---- reports to the follower


def _tell_request(follower: Follower, run: FollowedRun, context: Any) -> None:
    """Tell what was said in the user's role since the latest response. Results were told when they came."""
    messages = context.messages
    if not run.begun:
        run.begun = True
        config = context.model.get_config()
        follower.model = str(config.get("model_id") or "") if isinstance(config, dict) else ""
        follower.system = _text(context.system_prompt)
        follower.offer(_tools(context))
        last = max((place for place, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
        run.seen.update(one["tracking_id"] for one in messages)
        for message in messages[last + 1 :]:
            follower.prompt(_text(message["content"]))
        return
    for message in messages:
        if message["tracking_id"] not in run.seen and message["role"] == "user":
            for block in message["content"]:
                if "text" in block and (OWN, block["text"]) not in run.seen:
                    follower.said(block["text"])
        run.seen.add(message["tracking_id"])


def _tools(context: Any) -> list[ToolSpec]:
    ends = _output_tool(context.agent)
    return [
        offered(one["name"], one["description"], one["inputSchema"].get("json"), completes_run=one["name"] == ends)
        for one in context.tool_specs
    ]


def _tell_results(follower: Follower, run: FollowedRun, results: list[Any]) -> None:
    for result in results:
        if result["toolUseId"] not in run.seen:
            run.seen.add(result["toolUseId"])
            status = "ok" if result["status"] == "success" else "error"
            follower.result(ToolResult(result["toolUseId"], "", _text(result["content"]), status))  # type: ignore[arg-type]


def _text(content: Any) -> str:
    """Return the text of blocks, with their values as JSON; a text is returned unchanged."""
    if content is None or isinstance(content, str):
        return content or ""
    told = (one["text"] if "text" in one else as_json(one["json"]) if "json" in one else "" for one in content)
    return "\n".join(text for text in told if text)


def _with_reminder(context: Any, remind: str) -> Any:
    """Return a request with a reminder at its end. Its messages are copies of the agent's."""
    if not remind:
        return context
    messages, block = context.messages, {"text": remind}
    if messages and messages[-1]["role"] == "user":
        last = {**messages[-1], "content": [*messages[-1]["content"], block]}
        trailing = context.dynamic_trailing_blocks + 1  # after the part that the provider caches
        return context.replace(messages=[*messages[:-1], last], dynamic_trailing_blocks=trailing)
    return context.replace(messages=[*messages, {"role": "user", "content": [block]}])


# ---- streams


class FollowedStrandsModel:
    """The model of one request, whose stream ends where it is cut."""

    def __init__(self, wrapped: Any, run: FollowedRun) -> None:
        self.wrapped = wrapped
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the events of a response up to where it is cut."""
        heard = _HeardStream(self._run)
        with self._run.streamed_response():
            async with aclosing(_with_heard_client(self.wrapped, heard).stream(*args, **kwargs)) as events:
                async for event in events:
                    if not heard.cuts_at(event):
                        yield event
                        continue
                    for last in heard.last_events(event):
                        yield last
                    break


class AnsweredStrandsModel:
    """The model of a request that is answered here, with this text."""

    def __init__(self, wrapped: Any, text: str) -> None:
        self.wrapped = wrapped
        self._text = text

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the events of a response with the text."""
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockDelta": {"delta": {"text": self._text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class _HeardStream:
    """One stream of a model, as it is reported to the follower: the framework's events, or the chunks behind them."""

    def __init__(self, run: FollowedRun) -> None:
        self.run = run
        self.raw = False
        """Whether the follower gets the provider's chunks instead of the framework's events."""
        self.cuts = True
        """Whether it streams, so that it can be cut."""
        self._call, self._in_call = -1, False

    def cuts_at(self, event: Any) -> bool:
        """Return whether to leave the stream at this event."""
        if not self.raw:
            self.hear(self._chunks(event))
        return self.run.cut is not None and not self.raw

    def hear(self, chunks: Iterator[AnyChunk]) -> None:
        """Tell the follower what came, until it cuts."""
        for chunk in chunks:
            if self.run.cut is None:
                self.run.guarded(partial(self._hear, chunk=chunk))

    def _hear(self, follower: Follower, chunk: AnyChunk) -> None:
        self.run.cut = follower.chunk(chunk, cuts=self.cuts)

    def last_events(self, event: Any) -> Iterator[Any]:
        """Yield the event at which the stream is cut, as far as it is kept, and the events that end the response."""
        if "contentBlockStart" not in event:
            yield event
        if "contentBlockDelta" in event:
            yield {"contentBlockStop": {}}
        if "messageStop" not in event and self.run.cut is not None:
            yield {"messageStop": {"stopReason": "tool_use" if self.run.cut.reason == "completion" else "end_turn"}}

    def _chunks(self, event: Any) -> Iterator[AnyChunk]:
        if "contentBlockStart" in event:
            self._in_call = False
            tool = event["contentBlockStart"].get("start", {}).get("toolUse")
            if tool is not None:
                yield self._call_delta(tool, "")
        elif "contentBlockDelta" in event:
            delta = event["contentBlockDelta"]["delta"]
            if "toolUse" in delta:
                yield self._call_delta(delta["toolUse"], delta["toolUse"].get("input") or "")
            elif "text" in delta:
                yield TextDelta(delta["text"])
            elif "reasoningContent" in delta:
                yield ReasoningDelta(delta["reasoningContent"].get("text") or "")
        elif "contentBlockStop" in event and self._in_call:
            self._in_call = False
            yield ToolCallDelta(self._call, whole=True)
        elif "metadata" in event and event["metadata"].get("usage"):
            if (usage := _usage(event["metadata"]["usage"])) is not None:
                yield UsageReport(usage)
        elif "messageStop" in event:
            word = event["messageStop"]["stopReason"]
            yield FinishReport(parse_finish_reason(word), word)

    def _call_delta(self, tool: Any, arguments: str) -> ToolCallDelta:
        """Return a piece of a call.

        Some models name it in its first piece instead of starting a block with its name.
        """
        if not self._in_call:
            self._in_call = True
            self._call += 1
        return ToolCallDelta(self._call, tool.get("toolUseId") or "", tool.get("name") or "", arguments)


def _usage(used: Any) -> Usage | None:
    """Return usage as a provider of the framework reports it.

    Some count cached input separately, as the total shows.
    """
    given, written, total = (token_count(used.get(name)) for name in ("inputTokens", "outputTokens", "totalTokens"))
    cached, put = used.get("cacheReadInputTokens"), used.get("cacheWriteInputTokens")
    if given is not None and given + (written or 0) != (total or 0):
        given = sum_of_counts(given, cached, put)
    return reported_usage(given, written, cached=cached)


# ---- OpenAI's chat completions


def _with_heard_client(model: Any, heard: _HeardStream) -> Any:
    """Return a model of OpenAI's chat completions with a client that is followed, and any other model unchanged.

    The framework holds calls back until such a response has ended, so it can only be cut at the client. Models derived
    from this one that stream by other means hold them back, too, and are not cut at a completion.
    """
    made_here = type(model).stream.__module__ == "strands.models.openai" and hasattr(model, "_get_client")
    if not made_here or heard.run.broken:
        return model
    heard_model = copy.copy(model)
    heard_model._get_client = lambda: _heard_client(model._get_client, heard)
    if heard.run.streams:
        heard_model.config = {**model.config, "stream": True}
    return heard_model


@asynccontextmanager
async def _heard_client(get_client: Any, heard: _HeardStream) -> AsyncIterator[Any]:
    async with get_client() as client:

        async def create(**request: Any) -> Any:
            response = await client.chat.completions.create(**request)
            heard.raw = heard.cuts = bool(request.get("stream"))
            return _heard_chunks(response, heard) if heard.raw else response

        yield SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))


async def _heard_chunks(response: Any, heard: _HeardStream) -> AsyncIterator[Any]:
    """Yield the chunks of a stream up to where it is cut."""
    parser, begun = ChatStream(), set[int]()
    async with response:
        async for chunk in response:
            with suppress(ProviderError):  # the SDK has read the same chunk
                heard.hear(iter(parser.feed(b"data: " + chunk.model_dump_json(warnings=False).encode() + b"\n\n")))
            if heard.run.cut is not None:
                yield _last_chunk(chunk, begun, heard.run)
                return
            yield chunk
            begun.update(call.index for choice in chunk.choices for call in choice.delta.tool_calls or ())


def _last_chunk(chunk: Any, begun: set[int], run: FollowedRun) -> Any:
    """Return the chunk at which a stream is cut.

    It has an end, and no calls that start in it after the completion.
    """
    assert run.cut is not None
    finish = "tool_calls" if run.cut.reason == "completion" else "stop"
    choices = []
    for choice in chunk.choices[:1]:
        kept = [one for one in choice.delta.tool_calls or () if one.index in begun or one.id == run.cut.call_id]
        delta = choice.delta.model_copy(update={"tool_calls": kept or None})
        choices.append(choice.model_copy(update={"delta": delta, "finish_reason": finish}))
    return chunk.model_copy(update={"choices": choices})


Endstop = EndstopPlugin
"""The adapter under the name that all adapters have."""
