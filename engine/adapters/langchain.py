"""Adapter for LangChain and LangGraph: a middleware for `create_agent`.

    from endstop.adapters.langchain import Endstop
    agent = create_agent(model, tools, middleware=[Endstop(policy="agent", completion=("finish_task",))])

A run is one invocation of the agent. Its follower is found by a key in the agent's state, so one middleware follows
many runs at once, and a run that was interrupted and resumed. The hooks: `before_model` reports results and acts on the
decision, `wrap_model_call` reports the response and cuts it, `after_model` decides after a response without calls.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Annotated, Any, NotRequired, Unpack
from uuid import uuid4

from ..decision import (
    AnyChunk,
    AssistantMessage,
    Decision,
    GoOn,
    Policy,
    ReasoningDelta,
    Stop,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    Usage,
)
from ..decision.chunks import FinishReport, UsageReport
from ..decision.finish_words import parse_finish_reason
from ..decision.reported_usage import reported_usage
from ..follow import Follower
from ..formats.parsing import as_dict, as_json, as_list, as_text
from .followed_run import STATUSES_OF_ITS_OWN, AdapterOptions, FollowedRun, FollowedRuns, offered
from .missing_framework import MissingFramework

try:
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain.agents.middleware.types import AgentState, ModelRequest, ModelResponse, PrivateStateAttr
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
    from langchain_core.outputs import ChatGenerationChunk
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ModuleNotFoundError as error:
    AgentMiddleware = AgentState = hook_config = MissingFramework("langchain", error)

KEY = "endstop_run"
"""The field of the agent's state that holds the run's key."""
OWN = "endstop"
"""Marks a message that was written here, in its metadata."""


class EndstopState(AgentState):
    """The agent's state, with the key of the run. The agent's input and output do not have it."""

    endstop_run: NotRequired[Annotated[str, PrivateStateAttr]]  # type: ignore[valid-type]  # a TypedDict's


class EndstopMiddleware(AgentMiddleware):
    """Middleware that follows each run of an agent, cuts its responses, nudges it, and ends it.

    options: see `AdapterOptions`. With `stream`, usage is estimated for a provider that does not report it for streams.
    """

    state_schema = EndstopState

    def __init__(self, policy: Policy | str = "agent", **options: Unpack[AdapterOptions]) -> None:
        super().__init__()
        self.runs = FollowedRuns("langchain", policy, options)

    # ---- hooks

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Open a run."""
        key = uuid4().hex
        self.runs.open(key)
        return {KEY: key}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Do the same as `before_agent`."""
        return self.before_agent(state, runtime)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Decide after the results of a step: nudge, or end the agent."""
        run = self._after_results(state)
        return None if run is None else _before_request(run, run.wait_for_decision())

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Do the same as `before_model`."""
        run = self._after_results(state)
        return None if run is None else _before_request(run, await run.decide())

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> Any:
        """Tell the response, and cut it."""
        with self._followed(request) as (run, followed):
            stop = None if run.responses else run.wait_for_start()
            return _answered(run, stop) or _tell_response(run, handler(followed))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> Any:
        """Do the same as `wrap_model_call`."""
        with self._followed(request) as (run, followed):
            stop = None if run.responses else await run.start()
            return _answered(run, stop) or _tell_response(run, await handler(followed))

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Decide after a response without calls, with which the agent would end."""
        run = self._after_text(state)
        return None if run is None else _after_response(run, run.wait_for_decision())

    @hook_config(can_jump_to=["model"])
    async def aafter_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Do the same as `after_model`."""
        run = self._after_text(state)
        return None if run is None else _after_response(run, await run.decide())

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """End the run, and close its record."""
        run = self._after_results(state)
        if run is not None:
            run.wait_until_settled()
        self.runs.end(state.get(KEY))
        return None

    async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Do the same as `after_agent`."""
        run = self._after_results(state)
        if run is not None:
            await run.settle()
        self.runs.end(state.get(KEY))
        return None

    def close(self) -> None:
        """End the runs that no agent has ended, such as those that raised an error."""
        self.runs.close()

    def _after_results(self, state: Any) -> FollowedRun | None:
        """Tell what came since the latest response, and return the run; None if it has not begun."""
        run = self.runs.get(state.get(KEY))
        if run is None or not run.begun:
            return None
        run.guarded(lambda follower: _tell(follower, run, state["messages"]))
        return run

    def _after_text(self, state: Any) -> FollowedRun | None:
        """Return the run if its latest response has no calls, so that the agent would end with it."""
        run, last = self.runs.get(state.get(KEY)), state["messages"][-1]
        if not isinstance(last, AIMessage) or last.tool_calls or last.invalid_tool_calls:
            return None
        return None if OWN in last.response_metadata and "stop" in last.response_metadata[OWN] else run

    @contextmanager
    def _followed(self, request: ModelRequest) -> Iterator[tuple[FollowedRun, ModelRequest]]:
        """Yield the run of a request and the request as it is made. A request that fails is reported."""
        key = request.state.get(KEY)
        run = self.runs.get(key) or self.runs.open(key)
        if not run.begun:
            run.begun = True
            run.guarded(lambda follower: _begin(follower, run, request))
        run.cut = None
        remind = run.take_reminder()
        if remind:
            request = request.override(messages=[*request.messages, HumanMessage(remind)])
        if not run.broken and isinstance(request.model, BaseChatModel):
            request = request.override(model=_cutting(request.model))
        token = _CURRENT.set(run)
        try:
            yield run, request
        except Exception as error:
            run.failed(error)
            raise
        finally:
            _CURRENT.reset(token)


# ---- reports to the follower


def _begin(follower: Follower, run: FollowedRun, request: ModelRequest) -> None:
    """Tell what the agent offers, and what has happened since the user's last words."""
    messages = request.messages
    follower.model = as_text(getattr(request.model, "model_name", "") or getattr(request.model, "model", ""))
    follower.system = str(request.system_message.text) if request.system_message else ""
    follower.offer(_tools(request))
    last = max((place for place, one in enumerate(messages) if _is_prompt(one)), default=0)
    first = last
    while first and _is_prompt(messages[first - 1]):
        first -= 1
    run.seen.update(one.id for one in messages)
    for one in messages[first : last + 1]:
        follower.prompt(str(one.text))
    for one in messages[last + 1 :]:
        follower.messages(_as_messages(one))


def _is_prompt(message: AnyMessage) -> bool:
    return isinstance(message, HumanMessage) and OWN not in message.response_metadata


def _as_messages(message: AnyMessage) -> list[Any]:
    if isinstance(message, AIMessage):
        return [AssistantMessage(str(message.text), _calls(message))]
    return [_result(message)] if isinstance(message, ToolMessage) else []


def _tools(request: ModelRequest) -> list[ToolSpec]:
    """Return the tools that the agent offers. The tools for structured output end it."""
    found = [as_dict(convert_to_openai_tool(tool).get("function")) for tool in request.tools]
    specs = [offered(one["name"], one.get("description", ""), one.get("parameters")) for one in found if one]
    outputs = getattr(request.response_format, "schema_specs", ())
    return [*specs, *(offered(one.name, one.description or "", one.json_schema, completes_run=True) for one in outputs)]


def _tell(follower: Follower, run: FollowedRun, messages: Sequence[AnyMessage]) -> None:
    """Tell what came since the latest response: results, and what others said in between."""
    for message in messages:
        if message.id in run.seen:
            continue
        run.seen.add(message.id)
        if isinstance(message, ToolMessage):
            follower.result(_result(message))
        elif _is_prompt(message):
            follower.said(str(message.text))


def _result(message: ToolMessage) -> ToolResult:
    failed = message.status == "error"
    return ToolResult(message.tool_call_id, message.name or "", str(message.text), "error" if failed else "ok")


def _calls(message: AIMessage) -> tuple[ToolCall, ...]:
    valid = [ToolCall(one["id"] or "", one["name"], as_json(one["args"])) for one in message.tool_calls]
    invalid = [ToolCall(one["id"] or "", one["name"] or "", one["args"] or "") for one in message.invalid_tool_calls]
    return (*valid, *invalid)


def _tell_response(run: FollowedRun, response: Any) -> Any:
    """Tell a response that has ended or was cut."""
    result = response.result if isinstance(response, ModelResponse) else [response]
    message = next((one for one in result if isinstance(one, AIMessage)), None)
    if message is not None:
        run.responses += 1
        run.guarded(lambda follower: _respond(follower, run, message))
    return response


def _respond(follower: Follower, run: FollowedRun, message: AIMessage) -> None:
    word = _finish_word(message.response_metadata)
    follower.response(
        str(message.text),
        _calls(message),
        usage=None if run.cut is not None else _usage(message),
        finish=parse_finish_reason(word) if word else None,
        raw_finish=word,
        model=as_text(message.response_metadata.get("model_name")),
    )


def _finish_word(metadata: dict[str, Any]) -> str:
    return next((as_text(metadata[name]) for name in ("finish_reason", "stop_reason") if metadata.get(name)), "")


def _usage(message: AIMessage) -> Usage | None:
    reported = message.usage_metadata
    if not reported:
        return None
    return reported_usage(
        reported.get("input_tokens"),
        reported.get("output_tokens"),
        cached=reported.get("input_token_details", {}).get("cache_read"),
        reasoning=reported.get("output_token_details", {}).get("reasoning"),
    )


# ---- messages to the agent


def _before_request(run: FollowedRun, decision: Decision | None) -> dict[str, Any] | None:
    """Return what a decision after the results of a step changes."""
    if isinstance(decision, Stop):
        return {"jump_to": "end", "messages": [_own_message(run, decision)]}
    return {"messages": [_nudge(run, decision.say)]} if isinstance(decision, GoOn) and decision.say else None


def _after_response(run: FollowedRun, decision: Decision | None) -> dict[str, Any] | None:
    """Return what a decision after a response without calls changes."""
    if isinstance(decision, GoOn) and decision.say:
        return {"jump_to": "model", "messages": [_nudge(run, decision.say)]}
    if isinstance(decision, Stop) and decision.final_status not in STATUSES_OF_ITS_OWN:
        return {"messages": [_own_message(run, decision)]}
    return None


def _answered(run: FollowedRun, stop: Stop | None) -> ModelResponse | None:
    """Return the response in place of the model's if there is nothing to do."""
    return None if stop is None else ModelResponse(result=[_own_message(run, stop)])


def _nudge(run: FollowedRun, text: str) -> HumanMessage:
    return HumanMessage(text, id=f"endstop-{uuid4().hex}", response_metadata={OWN: {"nudge": True}})


def _own_message(run: FollowedRun, stop: Stop) -> AIMessage:
    metadata = {OWN: run.mark(stop), "finish_reason": "stop"}
    return AIMessage(run.end_text(stop), id=f"endstop-{uuid4().hex}", response_metadata=metadata)


# ---- streams

_CURRENT: ContextVar[FollowedRun | None] = ContextVar("endstop_langchain_run", default=None)
"""The run whose request is being made."""


def _cutting(model: BaseChatModel) -> BaseChatModel:
    """Return the same model, whose streams end where they are cut."""
    kind: Any = type(model)
    cutting = copy.copy(model)
    cutting.__class__ = _cutting_class(kind)
    return cutting


@cache
def _cutting_class(kind: Any) -> Any:
    """Return a subclass that wraps only the methods that a model has.

    One that it lacks would be taken for support of streams.
    """
    own: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    if kind._stream is not BaseChatModel._stream:
        own["_stream"] = _wrap_stream(kind._stream)
    if kind._astream is not BaseChatModel._astream:
        own["_astream"] = _wrap_astream(kind._astream)
    own["_should_stream"] = _wrap_should_stream(kind._should_stream)
    return type(kind)(kind.__name__, (kind,), own)


def _wrap_should_stream(should_stream: Callable[..., bool]) -> Callable[..., bool]:
    def _should_stream(self: Any, *, async_api: bool, run_manager: Any = None, **kwargs: Any) -> bool:
        run = _CURRENT.get()
        if run is not None and run.streams and not run.broken:
            kwargs = {"stream": True, **kwargs}
        return should_stream(self, async_api=async_api, run_manager=run_manager, **kwargs)

    return _should_stream


def _wrap_stream(stream: Callable[..., Iterator[ChatGenerationChunk]]) -> Callable[..., Iterator[ChatGenerationChunk]]:
    def _stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        heard = _HeardStream(_CURRENT.get())
        with closing(stream(self, *args, **kwargs)) as chunks:  # type: ignore[type-var]
            for chunk in chunks:
                yield chunk
                if heard.cuts_at(chunk):
                    yield heard.last_chunk()
                    return

    return _stream


def _wrap_astream(
    astream: Callable[..., AsyncIterator[ChatGenerationChunk]],
) -> Callable[..., AsyncIterator[ChatGenerationChunk]]:
    async def _astream(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        heard = _HeardStream(_CURRENT.get())
        async with aclosing(astream(self, *args, **kwargs)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk
                if heard.cuts_at(chunk):
                    yield heard.last_chunk()
                    return

    return _astream


class _HeardStream:
    """One stream of a model, as it is reported to the follower. run: None if it belongs to no run."""

    def __init__(self, run: FollowedRun | None) -> None:
        self._run = run
        self._calls: dict[Any, int] = {}
        self._usage = Usage()

    def cuts_at(self, chunk: ChatGenerationChunk) -> bool:
        """Return whether to leave the stream after this chunk."""
        run = self._run
        if run is None or run.broken or not isinstance(chunk.message, AIMessageChunk):
            return False
        run.guarded(lambda follower: self._hear(follower, run, chunk))
        return run.cut is not None

    def last_chunk(self) -> ChatGenerationChunk:
        """Return the chunk that ends the response after the cut."""
        cut = None if self._run is None else self._run.cut
        reason = cut.reason if cut is not None else ""
        message = AIMessageChunk("", chunk_position="last", response_metadata={OWN: {"cut": reason}})
        finish = "tool_calls" if reason == "completion" else "stop"
        return ChatGenerationChunk(message=message, generation_info={"finish_reason": finish})

    def _hear(self, follower: Follower, run: FollowedRun, chunk: ChatGenerationChunk) -> None:
        for heard in self._chunks(chunk.message, _finish_word(chunk.generation_info or {})):
            run.cut = follower.chunk(heard) or run.cut

    def _chunks(self, message: AIMessageChunk, word: str) -> Iterator[AnyChunk]:
        thought = "".join(as_text(as_dict(one).get("reasoning")) for one in as_list(message.content))
        thought = thought or as_text(message.additional_kwargs.get("reasoning_content"))
        if thought:
            yield ReasoningDelta(thought)
        if message.text:
            yield TextDelta(str(message.text))
        for piece in message.tool_call_chunks:
            whole = None if piece.get("index") is not None else True
            index = self._calls.setdefault(object() if whole else piece.get("index"), len(self._calls))
            yield ToolCallDelta(index, piece["id"] or "", piece["name"] or "", piece["args"] or "", whole=whole)
        usage = _usage(message)
        if usage is not None:
            self._usage += usage
            yield UsageReport(self._usage)
        if word:
            yield FinishReport(parse_finish_reason(word), word)


Endstop = EndstopMiddleware
"""The adapter under the name that all adapters have."""
