"""Adapter for the OpenAI Agents SDK: a model that wraps the agent's model, and hooks that tell the runs apart.

    from endstop.adapters.openai_agents import Endstop
    endstop = Endstop(policy="agent", completion=("finish_task",), record="run.jsonl")
    agent = Agent(name="mine", model=endstop.model("gpt-5.5"), tools=[...])
    result = await Runner.run(agent, "Set the port to 8080", hooks=endstop)

No hook of the SDK can end a run, but its rule is "no calls: the end". So the model answers a request itself once the
decision is a stop. The SDK's history belongs to the caller and holds no nudges: they are inserted into each request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Unpack
from uuid import uuid4

from ..decision import GoOn, Policy, Stop, ToolResult
from ..follow import Follower
from ..formats.parsing import as_dict, as_list, as_text
from ..formats.response_items import RESULT_ITEMS
from ..providers.errors import ProviderError
from ..providers.responses_stream import ResponsesStream
from .followed_run import STATUSES_OF_ITS_OWN, AdapterOptions, FollowedRun, FollowedRuns, offered
from .missing_framework import MissingFramework

try:
    from agents import Model, MultiProvider, RunHooks
    from agents.exceptions import AgentsException
    from agents.items import ModelResponse
    from agents.usage import Usage as AgentsUsage
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseOutputMessage,
        ResponseOutputText,
        ResponseUsage,
    )
except ModuleNotFoundError as error:
    Model = RunHooks = MissingFramework("openai-agents", error)

FAILED = "An error occurred while running the tool."
"""The start of the SDK's text for a tool that raised an error; the SDK reports the error nowhere else."""
ARGUMENTS = ("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing")
"""The positional arguments of a model's methods."""


class EndstopHooks(RunHooks):
    """Hooks that follow each run of `Runner.run(..., hooks=endstop)`, cut its responses, nudge it, and end it.

    options: see `AdapterOptions`.
    """

    def __init__(self, policy: Policy | str = "agent", **options: Unpack[AdapterOptions]) -> None:
        self.runs = FollowedRuns("openai-agents", policy, options)
        self._asking: dict[int, tuple[Any, Any]] = {}
        """The input of each request that is about to be made, and the usage of its run, which is one object a run."""

    def model(self, model: Any = None) -> Any:
        """Wrap a model, or the named one as the SDK finds it, for an agent."""
        return FollowedModel(model if isinstance(model, Model) else MultiProvider().get_model(model), self)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: Any) -> None:
        """Note the request that is about to be made with this list object as its input."""
        self._asking[id(input_items)] = (input_items, context.usage)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """End the run, and close its record."""
        run = self.runs.get(id(context.usage))
        if run is not None:
            await run.settle()
        self.runs.end(id(context.usage))

    def take_run(self, items: Any) -> FollowedRun | None:
        """Return the run that makes a request with this input; None if it does not have these hooks."""
        _, usage = self._asking.pop(id(items), (None, None))
        if usage is None:
            return None
        run = self.runs.get(id(usage))
        if run is None:
            run = self.runs.open(id(usage))
            run.seen.add(_Kept(usage))
        return run

    def close(self) -> None:
        """End the runs that no agent has ended, such as those that raised an error."""
        self.runs.close()


class _Kept:
    """Keeps an object alive during a run, so that no other object gets its id."""

    def __init__(self, value: Any) -> None:
        self.value = value


class FollowedModel(Model):
    """A model whose requests are followed and cut, and answered here once the decision is a stop."""

    def __init__(self, wrapped: Any, endstop: EndstopHooks) -> None:
        self.wrapped = wrapped
        self._endstop = endstop

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)

    def get_retry_advice(self, request: Any) -> Any:
        """Return the advice of the wrapped model."""
        return self.wrapped.get_retry_advice(request)

    async def close(self) -> None:
        """Close the wrapped model."""
        await self.wrapped.close()

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        """Return a response, requested as a stream if it may be cut."""
        request = {**dict(zip(ARGUMENTS, args, strict=False)), **kwargs}
        run = self._endstop.take_run(request["input"])
        if run is None or run.broken:
            return await self.wrapped.get_response(**request)
        async with _closing(self._exchange(run, request, streams=run.streams)) as events:
            async for event in events:
                if event.type == "response.completed":
                    return _model_response(event.response)
        raise AgentsException("the model's response ended without its last event")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield a response as a stream."""
        request = {**dict(zip(ARGUMENTS, args, strict=False)), **kwargs}
        run = self._endstop.take_run(request["input"])
        followed = run is not None and not run.broken
        events = self._exchange(run, request, streams=True) if run and followed else self._request(request)
        async with _closing(events):
            async for event in events:
                yield event

    async def _exchange(self, run: FollowedRun, request: dict[str, Any], *, streams: bool) -> AsyncIterator[Any]:
        """Answer a request: with the decision's end, or with the model's response, and another one after a nudge."""
        given = request["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        run.guarded(lambda follower: _tell_request(follower, run, request, items))
        decision = await run.decide() if run.begun and run.responses else await run.start()
        if isinstance(decision, Stop):
            yield _completed(_text_for(run, decision, request))
            return
        if isinstance(decision, GoOn) and decision.say:
            run.nudges.append((len(items), decision.say))
        output: list[Any] = []
        for number in range(MOST_NUDGES):
            asked = {**request, "input": _with_nudges(run, items)}
            response: Any = None
            async with _closing(self._followed(run, asked, streams=streams)) as events:
                async for event in events:
                    if event.type == "response.completed":
                        response = event.response
                    else:
                        yield event
            if response is None:
                return
            output += response.output
            decision = None if _has_calls(response.output) else await run.decide()
            if not (isinstance(decision, GoOn) and decision.say) or number == MOST_NUDGES - 1:
                break
            items += [item.model_dump(exclude_unset=True) for item in response.output]
            run.nudges.append((len(items), decision.say))
        if isinstance(decision, Stop) and decision.final_status not in STATUSES_OF_ITS_OWN:
            output.append(_text_for(run, decision, request))
        yield ResponseCompletedEvent(
            type="response.completed", sequence_number=0, response=response.model_copy(update={"output": output})
        )

    async def _followed(self, run: FollowedRun, request: dict[str, Any], *, streams: bool) -> AsyncIterator[Any]:
        """Yield the events of one request up to where they are cut. The last one completes the response."""
        if not streams:
            yield await self._followed_whole(run, request)
            return
        managed = request.get("previous_response_id") is not None or request.get("conversation_id") is not None
        heard = _HeardEvents(run, cuts=not managed)
        with run.streamed_response():
            async with _closing(self._request(request)) as events:
                async for event in events:
                    heard.take(event)
                    if event.type == "response.completed":
                        break
                    yield event
                    if run.cut is not None:
                        break
        last = heard.last_event()
        if last is not None:
            yield last

    async def _followed_whole(self, run: FollowedRun, request: dict[str, Any]) -> Any:
        """Return the event that completes a response that does not stream."""
        run.cut = None
        try:
            answer = await self.wrapped.get_response(**request)
        except Exception as error:
            run.failed(error)
            raise
        run.guarded(lambda follower: _tell_whole(follower, answer))
        run.responses += 1
        return _completed_with(answer)

    def _request(self, request: dict[str, Any]) -> Any:
        positional = [request[name] for name in ARGUMENTS]
        named = {name: value for name, value in request.items() if name not in ARGUMENTS}
        return self.wrapped.stream_response(*positional, **named)


MOST_NUDGES = 20
"""Nudges within one request of the SDK; the policy gives up long before."""


@asynccontextmanager
async def _closing(events: Any) -> AsyncIterator[Any]:
    """Close a stream that is left; not every model's stream can be closed."""
    try:
        yield events
    finally:
        if hasattr(events, "aclose"):
            await events.aclose()


# ---- reports to the follower


def _tell_request(follower: Follower, run: FollowedRun, request: dict[str, Any], items: list[Any]) -> None:
    """Tell what came since the latest response: results, and what the user said."""
    last = max((place for place, item in enumerate(items) if not _is_from_user(item)), default=-1)
    if not run.begun:
        run.begun = True
        follower.system = request.get("system_instructions") or ""
        follower.offer(
            offered(tool.name, getattr(tool, "description", ""), getattr(tool, "params_json_schema", None))
            for tool in request["tools"]
        )
        run.seen.update(_call_id(item) for item in items if _is_result(item))
        for item in items[last + 1 :]:
            follower.prompt(_text(item))
        run.user_items = sum(map(_is_from_user, items))
        return
    for item in items:
        if _is_result(item) and _call_id(item) not in run.seen:
            run.seen.add(_call_id(item))
            follower.result(_result(item))
    said = [item for item in items if _is_from_user(item)]
    for item in said[run.user_items :]:
        follower.said(_text(item))
    run.user_items = len(said)


def _is_result(item: Any) -> bool:
    return as_text(as_dict(item).get("type")) in RESULT_ITEMS


def _is_from_user(item: Any) -> bool:
    return as_dict(item).get("role") == "user"


def _call_id(item: Any) -> str:
    return as_text(as_dict(item).get("call_id"))


def _result(item: Any) -> ToolResult:
    text = _text({"content": as_dict(item).get("output")})
    return ToolResult(_call_id(item), "", text, "error" if text.startswith(FAILED) else "ok")


def _text(item: Any) -> str:
    content = as_dict(item).get("content")
    return content if isinstance(content, str) else "\n".join(as_text(as_dict(p).get("text")) for p in as_list(content))


def _tell_whole(follower: Follower, answer: Any) -> None:
    """Tell a response that did not stream."""
    for chunk in ResponsesStream().read_whole(
        _completed_with(answer).response.model_dump_json(warnings=False).encode()
    ):
        follower.chunk(chunk, cuts=False)
    follower.response()


class _HeardEvents:
    """The events of one response, as they are reported to the follower, and the items made of them.

    cuts: whether it may be cut.
    """

    def __init__(self, run: FollowedRun, *, cuts: bool) -> None:
        self._run = run
        self._cuts = cuts
        self._parser = ResponsesStream()
        self._response: Any = None
        self._whole = False
        self._items: dict[int, Any] = {}
        self._texts: dict[int, str] = {}

    def take(self, event: Any) -> None:
        """Hear an event."""
        self._assemble(event)
        self._run.guarded(lambda follower: self._hear(follower, event))

    def _hear(self, follower: Follower, event: Any) -> None:
        data = b"data: " + event.model_dump_json(warnings=False).encode() + b"\n\n"
        try:
            chunks = self._parser.feed(data)
        except ProviderError:
            return  # the SDK reads the same event, and raises its own error
        for chunk in chunks:
            self._run.cut = follower.chunk(chunk, cuts=self._cuts) or self._run.cut

    def _assemble(self, event: Any) -> None:
        place = getattr(event, "output_index", -1)
        match event.type:
            case "response.created":
                self._response = event.response
            case "response.completed":
                self._response, self._whole = event.response, True
            case "response.output_item.added" | "response.output_item.done":
                self._items[place] = event.item
                self._texts.setdefault(place, "")
            case "response.output_text.delta" | "response.function_call_arguments.delta":
                self._texts[place] = self._texts.get(place, "") + event.delta
            case _:
                pass

    def last_event(self) -> Any:
        """Return the event that completes the response; None if the stream ended without it."""
        if self._response is None:
            return None
        if self._run.cut is None:
            return _event(self._response) if self._whole else None
        kept = [self._kept(place, item) for place, item in sorted(self._items.items())]
        cut_at = next((n for n, item in enumerate(kept) if _call_id_of(item) == self._run.cut.call_id), len(kept))
        kept = [item for n, item in enumerate(kept) if item is not None and (n <= cut_at or not _call_id_of(item))]
        return _event(self._response.model_copy(update={"output": kept, "status": "completed"}))

    def _kept(self, place: int, item: Any) -> Any:
        """Return an item as far as it was received; None for incomplete reasoning."""
        if item.type == "function_call":
            return item.model_copy(update={"arguments": item.arguments or self._texts[place], "status": "completed"})
        if item.type == "message":
            return item if item.content else _message(item.id, self._texts[place]) if self._texts[place] else None
        return item if getattr(item, "status", "completed") in (None, "completed") else None


# ---- messages to the agent


def _with_nudges(run: FollowedRun, items: list[Any]) -> list[Any]:
    """Return a request's items with each nudge in its place and the reminder at the end."""
    said = list(items)
    for place, text in reversed(run.nudges):
        said.insert(place, {"role": "user", "content": text})
    remind = run.take_reminder()
    return [*said, {"role": "user", "content": remind}] if remind else said


def _text_for(run: FollowedRun, stop: Stop, request: dict[str, Any]) -> Any:
    """Return the message that ends the agent. Raises AgentsException if its output is not a text."""
    schema = request.get("output_schema")
    if schema is not None and not schema.is_plain_text():
        raise AgentsException(run.end_text(stop))
    return _message(f"endstop_{uuid4().hex}", run.end_text(stop))


def _message(id: str, text: str) -> Any:
    content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(id=id, content=content, role="assistant", status="completed", type="message")


def _event(response: Any) -> Any:
    return ResponseCompletedEvent(type="response.completed", sequence_number=0, response=response)


def _completed(message: Any) -> Any:
    """Return a whole response that was written here."""
    return _event(_response(message.id, [message]))


def _response(id: str, output: list[Any]) -> Any:
    return Response.model_construct(
        id=id, created_at=0.0, model="endstop", object="response", output=output, status="completed",
        parallel_tool_calls=True, tool_choice="auto", tools=[], usage=None, error=None, incomplete_details=None,
        instructions=None, metadata=None, temperature=None, top_p=None,
    )  # fmt: skip


def _completed_with(answer: Any) -> Any:
    """Return the event for a response that did not stream."""
    used = answer.usage
    usage = ResponseUsage(
        input_tokens=used.input_tokens,
        input_tokens_details=used.input_tokens_details,
        output_tokens=used.output_tokens,
        output_tokens_details=used.output_tokens_details,
        total_tokens=used.total_tokens,
    )
    response = _response(answer.response_id or "", answer.output)
    return _event(response.model_copy(update={"usage": usage}))


def _model_response(response: Any) -> Any:
    """Return a model's answer to a request for a whole response."""
    used, usage = response.usage, AgentsUsage(requests=1)
    if used is not None:
        usage = AgentsUsage(
            requests=1,
            input_tokens=used.input_tokens,
            input_tokens_details=used.input_tokens_details,
            output_tokens=used.output_tokens,
            output_tokens_details=used.output_tokens_details,
            total_tokens=used.total_tokens,
        )
    return ModelResponse(output=response.output, usage=usage, response_id=response.id)


def _has_calls(output: list[Any]) -> bool:
    """Return whether the SDK continues after this output."""
    return any(item.type.endswith("_call") for item in output)


def _call_id_of(item: Any) -> str:
    return as_text(getattr(item, "call_id", "")) if item is not None else ""


Endstop = EndstopHooks
"""The adapter under the name that all adapters have."""
