"""Adapter for Pydantic AI: a capability for an `Agent`.

    from endstop.adapters.pydantic_ai import Endstop
    agent = Agent(model, capabilities=[Endstop(policy="agent", completion=("finish_task",))])

Each run gets its own copy of the capability. `before_model_request` reports results and acts on the decision, a model
around the agent's model cuts its streams, `after_model_request` decides after a response without calls.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Unpack
from uuid import uuid4

from ..decision import (
    AnyChunk,
    FinishReason,
    GoOn,
    Policy,
    ReasoningDelta,
    Stop,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    Usage,
)
from ..decision.reported_usage import reported_usage
from ..follow import Follower
from ..formats.parsing import as_json
from .followed_run import STATUSES_OF_ITS_OWN, AdapterOptions, FollowedRun, FollowedRuns, offered
from .missing_framework import MissingFramework

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import AgentRunError, SkipModelRequest
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.wrapper import WrapperModel
except ModuleNotFoundError as error:
    AbstractCapability = WrapperModel = MissingFramework("pydantic-ai", error)

FINISH: dict[str, FinishReason] = {"tool_call": "tool_calls", "stop": "stop", "length": "length", "error": "error",
                                   "content_filter": "content_filter"}  # fmt: skip
"""The meaning of the framework's finish reasons."""
OWN = "endstop"
"""The name of messages that were added here."""
CALL, RESULT, RETRY = "tool-call", "tool-return", "retry-prompt"
"""Kinds of parts."""


class EndstopCapability(AbstractCapability):
    """Capability that follows each run of an agent, cuts its responses, nudges it, and ends it.

    options: see `AdapterOptions`.
    """

    def __init__(self, policy: Policy | str = "agent", **options: Unpack[AdapterOptions]) -> None:
        self.runs = FollowedRuns("pydantic-ai", policy, options)
        self._key = ""

    @property
    def run(self) -> FollowedRun | None:
        """The run that this copy is for; None before it has begun."""
        return self.runs.get(self._key)

    # ---- hooks

    async def for_run(self, ctx: Any) -> Any:
        """Return a copy for one run."""
        mine = copy.copy(self)
        mine._key = uuid4().hex
        return mine

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """Open a run, and close its record whatever happens."""
        run = self.runs.open(self._key)
        try:
            result = await handler()
            await run.settle()
            return result
        finally:
            self.runs.end(self._key)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Decide after the results of a step: nudge, or answer in place of the model, which ends the agent."""
        run = self.run
        if run is None or run.broken:
            return request_context
        run.guarded(lambda follower: _tell_request(follower, run, request_context))
        decision = await run.decide() if run.responses else await run.start()
        if isinstance(decision, Stop):
            raise SkipModelRequest(_own_response(run, decision, request_context))
        if isinstance(decision, GoOn) and decision.say:
            _nudge(run, ctx, decision.say)
        return request_context

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Add a reminder to this request alone."""
        remind = "" if self.run is None else self.run.take_reminder()
        if not remind:
            return request_context
        reminder = ModelRequest(parts=[UserPromptPart(remind)])
        return replace(request_context, messages=[*request_context.messages, reminder])

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """Decide after a response without calls, with which the agent would end."""
        run = self.run
        if run is None or run.broken or any(part.part_kind == CALL for part in response.parts):
            return response
        decision = await run.decide()
        if isinstance(decision, GoOn) and decision.say:
            _nudge(run, ctx, decision.say)
        if isinstance(decision, Stop) and decision.final_status not in STATUSES_OF_ITS_OWN:
            own = _own_response(run, decision, request_context)
            return replace(response, parts=[*response.parts, *own.parts], metadata=own.metadata)
        return response

    def close(self) -> None:
        """End the runs that go on."""
        self.runs.close()

    def get_wrapper_model(self, model: Any) -> Any:
        """Wrap this model so that its responses are followed and cut."""
        return None if self.run is None else FollowedPydanticModel(model, self.run)


class FollowedPydanticModel(WrapperModel):
    """A model whose responses are followed, and left where they are cut."""

    def __init__(self, wrapped: Any, run: FollowedRun) -> None:
        super().__init__(wrapped)
        self._run = run

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> Any:
        """Return a whole response, requested as a stream so that it can be cut."""
        run = self._run
        if run.streams and not run.broken:
            try:
                async with self.request_stream(messages, model_settings, model_request_parameters) as stream:
                    async for _ in stream:
                        pass
                return stream.get()
            except NotImplementedError:
                run.streams = False  # this model has no streams
        run.cut = None
        try:
            response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        except Exception as error:
            run.failed(error)
            raise
        self._tell(response)
        return response

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncIterator[Any]:
        """Yield a stream that ends where it is cut."""
        run = self._run
        run.cut = None
        try:
            async with self.wrapped.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                events = stream._get_event_iterator
                stream._get_event_iterator = lambda: _cut_events(run, stream, events())
                yield stream
                self._tell(stream.get())
        except NotImplementedError:
            raise
        except Exception as error:
            run.failed(error)
            raise

    def _tell(self, response: Any) -> None:
        run = self._run
        run.responses += 1
        run.guarded(
            lambda follower: follower.response(
                response.text or "",
                [ToolCall(part.tool_call_id, part.tool_name, as_json(part.args)) for part in response.tool_calls],
                usage=None if run.cut is not None else _usage(response.usage),
                finish=FINISH.get(response.finish_reason or ""),
                raw_finish=response.finish_reason or "",
                model=response.model_name or "",
            )
        )


async def _cut_events(run: FollowedRun, stream: Any, events: Any) -> AsyncIterator[Any]:
    """Yield the events of a stream up to where it is cut, and report them to the follower."""
    async for event in events:
        yield event
        run.guarded(partial(_hear, run=run, event=event))
        if run.cut is not None:
            stream.finish_reason = "tool_call" if run.cut.reason == "completion" else "stop"
            await events.aclose()
            return


def _hear(follower: Follower, run: FollowedRun, event: Any) -> None:
    for chunk in _chunks(event):
        run.cut = follower.chunk(chunk) or run.cut


def _chunks(event: Any) -> Iterator[AnyChunk]:
    piece: Any = getattr(event, "part", None) if event.event_kind == "part_start" else getattr(event, "delta", None)
    match getattr(piece, "part_kind", None) or getattr(piece, "part_delta_kind", None):
        case "text":
            yield TextDelta(_words(piece))
        case "thinking":
            yield ReasoningDelta(_words(piece))
        case "tool-call":
            yield ToolCallDelta(event.index, piece.tool_call_id or "", piece.tool_name or "", as_json(piece.args))
        case "tool_call":
            name = piece.tool_name_delta or ""
            yield ToolCallDelta(event.index, piece.tool_call_id or "", name, as_json(piece.args_delta))
        case _:
            pass


def _words(piece: Any) -> str:
    return getattr(piece, "content_delta", None) or getattr(piece, "content", None) or ""


def _usage(used: Any) -> Usage | None:
    if not (used.input_tokens or used.output_tokens):
        return None
    return reported_usage(
        used.input_tokens,
        used.output_tokens,
        cached=used.cache_read_tokens,
        reasoning=used.details.get("reasoning_tokens"),
    )


# ---- reports to the follower


def _tell_request(follower: Follower, run: FollowedRun, request: Any) -> None:
    """Tell what came since the latest response: results, and what was said in the user's role."""
    messages = request.messages
    if not run.begun:
        run.begun = True
        follower.model = request.model.model_name
        parameters = request.model_request_parameters
        follower.offer(
            offered(one.name, one.description or "", one.parameters_json_schema, completes_run=ends)
            for tools, ends in ((parameters.function_tools, False), (parameters.output_tools, True))
            for one in tools
        )
        last = max((place for place, one in enumerate(messages) if one.kind == "response"), default=-1)
        run.seen.update(_name(part) for message in messages[: last + 1] for part in message.parts)
    for message in messages:
        for part in message.parts if message.kind == "request" else ():
            if _name(part) not in run.seen:
                run.seen.add(_name(part))
                _tell_part(follower, run, part)


def _name(part: Any) -> Any:
    if part.part_kind in (CALL, RESULT, RETRY) and part.tool_call_id:
        return part.tool_call_id, part.part_kind == CALL
    return part.part_kind, getattr(part, "timestamp", None), str(getattr(part, "content", ""))


def _tell_part(follower: Follower, run: FollowedRun, part: Any) -> None:
    match part.part_kind:
        case "tool-return":
            status = "ok" if part.outcome == "success" else "denied" if part.outcome == "denied" else "error"
            follower.result(ToolResult(part.tool_call_id, part.tool_name, part.model_response_str(), status))  # type: ignore[arg-type]
        case "retry-prompt" if part.tool_name:
            follower.result(ToolResult(part.tool_call_id, part.tool_name, part.model_response(), "error"))
        case "retry-prompt":
            follower.said(part.model_response())
        case "user-prompt" if run.responses:
            if (OWN, _text(part.content)) not in run.seen:
                follower.said(_text(part.content))
        case "user-prompt":
            follower.prompt(_text(part.content))
        case "system-prompt":
            follower.system = follower.system or part.content
        case _:
            pass


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part for part in content if isinstance(part, str))


# ---- messages to the agent


def _nudge(run: FollowedRun, ctx: Any, text: str) -> None:
    """Add to the agent's messages what the decision says; the follower has it already."""
    run.seen.add((OWN, text))
    ctx.enqueue(text)


def _own_response(run: FollowedRun, stop: Stop, request: Any) -> Any:
    """Return the response that ends the agent. Raises AgentRunError if its output is not a text."""
    text = run.end_text(stop)
    if not request.model_request_parameters.allow_text_output:
        raise AgentRunError(text)
    return ModelResponse(parts=[TextPart(text)], model_name="endstop", metadata={"endstop": run.mark(stop)})


Endstop = EndstopCapability
"""The adapter under the name that all adapters have."""
