"""Adapter for Google's Agent Development Kit: a plugin for a runner, and a model that wraps an agent's model.

    from endstop.adapters.google_adk import Endstop
    endstop = Endstop(policy="agent", completion=("finish_task",), record="run.jsonl")
    agent = Agent(name="mine", model=endstop.model("gemini-3.5-flash"), tools=[...])
    runner = InMemoryRunner(app=App(name="mine", root_agent=agent, plugins=[endstop]))

A run is one invocation, or a branch of one that runs in parallel with others, whichever agents it goes through. The
plugin reports results from the runner's events, acts on the decision before a request, and answers the request itself
once the decision is a stop. The model reports its responses, cuts them, and asks again after an announcement in text.
The session belongs to the framework and holds no nudges: they are inserted into each request.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from itertools import count
from typing import Any, Unpack
from uuid import uuid4

import msgspec

from ..decision import Decision, GoOn, Policy, ReasoningDelta, Stop, ToolCallDelta, ToolResult, ToolSpec
from ..follow import Follower
from ..formats.parsing import as_dict, as_json, as_text
from ..providers.gemini_stream import GeminiStream
from .followed_run import STATUSES_OF_ITS_OWN, AdapterOptions, FollowedRun, FollowedRuns, offered
from .missing_framework import MissingFramework

try:
    from google.adk.models import BaseLlm, LLMRegistry
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins import BasePlugin
    from google.genai import types
except ModuleNotFoundError as error:
    BasePlugin = MissingFramework("google-adk", error)

OWN = "endstop"
"""Marks a response that was written here, in its metadata."""
OUTPUT_TOOL = "set_model_response"
"""The framework's tool for structured output: it ends the agent."""
MOST_NUDGES = 20
"""Nudges within one request of the framework; the policy gives up long before."""


class EndstopAdkPlugin(BasePlugin):
    """Plugin that follows each invocation of a runner, cuts its responses, nudges it, and ends it.

    options: see `AdapterOptions`. Only models of `model` are cut, and asked again after an announcement in text.
    """

    def __init__(self, policy: Policy | str = "agent", **options: Unpack[AdapterOptions]) -> None:
        super().__init__("endstop")
        self.runs = FollowedRuns("google-adk", policy, options)
        self._branches: dict[tuple[str, str | None], _Branch] = {}

    def model(self, model: Any) -> Any:
        """Return a model for an agent, a copy of the given or named one, that follows and cuts its responses.

        It is of the same class, as the framework checks the class of a model in places.
        """
        followed = copy.copy(model if isinstance(model, BaseLlm) else LLMRegistry.new_llm(model))
        object.__setattr__(followed, "__class__", _followed_class(type(followed), self))
        return followed

    # ---- hooks

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        """Decide after the results of a step: nudge, or answer in place of the model, which ends the agent."""
        branch = self._branch(callback_context.invocation_id, callback_context.branch)
        run = branch.run
        made = await run.decide() if run.begun and run.responses else None
        decision = run.guarded(lambda follower: branch.prepare(follower, callback_context, llm_request, made))
        if decision is None and not run.responses:
            decision = await run.start()
            run.begun = decision is None
        if decision is None:
            return None
        if decision.final_status != "completed" and callback_context.branch is None:
            callback_context.actions.escalate = True  # or a LoopAgent would ask the same agent again
        return _own_response(branch.run, decision, llm_request)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> Any:
        """Tell the response of a model that is not one of `model`."""
        branch = self._branches.get((callback_context.invocation_id, callback_context.branch))
        if branch is None or branch.request is None or branch.heard or llm_response.partial:
            return None
        heard = _HeardResponse(branch.run)
        heard.end([llm_response])
        if not heard.calls:
            await branch.run.settle()
            branch.end_run()  # nothing can be asked again here
        return None

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
        """Tell that a request failed."""
        branch = self._branches.get((callback_context.invocation_id, callback_context.branch))
        if branch is not None:
            branch.run.failed(error)

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        """Tell the results of calls."""
        branch = self._branches.get((event.invocation_id, event.branch))
        responses = event.get_function_responses()
        if branch is not None and responses:
            branch.run.guarded(lambda follower: _tell_results(follower, responses))

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """End the run, and close its record."""
        for key, branch in self._branches.items():
            if key[0] == invocation_context.invocation_id:
                await branch.run.settle()
        self._end(invocation_context.invocation_id)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """End the run after an error."""
        self._end(invocation_context.invocation_id)

    async def close(self) -> None:
        """End the runs that no runner has ended, such as those that were cancelled. `Runner.close` calls it."""
        self.runs.close()
        self._branches.clear()

    # ---- runs

    def asking(self, request: Any) -> _Branch | None:
        """Return the branch that makes this request; None if it does not have this plugin."""
        return next((branch for branch in self._branches.values() if branch.request is request), None)

    def _branch(self, invocation: str, branch: str | None) -> _Branch:
        key = (invocation, branch)
        if self.runs.get(key) is None:
            opened = self.runs.open(key, checked=branch is None)
            self._branches = {one: known for one, known in self._branches.items() if self.runs.get(one) is not None}
            self._branches[key] = _Branch(opened)
        return self._branches[key]

    def _end(self, invocation: str) -> None:
        for key in [key for key in self._branches if key[0] == invocation]:
            del self._branches[key]
            self.runs.end(key)


class _Branch:
    """One invocation, or a branch of one: the run that is followed, and the request that is being made."""

    def __init__(self, run: FollowedRun) -> None:
        self.run = run
        self.request: Any = None
        """The latest request."""
        self.heard = False
        """Whether the model itself reports its response."""
        self.agent = ""
        """The agent that makes it."""
        self._own: list[Any] = []
        """What that agent's history contained."""
        self._nudges: dict[str, list[tuple[int, str]]] = {}
        """By agent: the messages to its model, and the item of its history that each precedes."""
        self._tools: dict[str, ToolSpec] = {}

    def prepare(self, follower: Follower, context: Any, request: Any, decision: Decision | None) -> Stop | None:
        """Tell what came since the latest response, and put nudges into the request. Returns a decision to stop.

        decision: the one that was made after the latest step, if it is new.
        """
        run, before, self.agent = self.run, self.agent, context.agent_name
        self.request, self.heard = request, False
        self._own = list(request.contents)
        if isinstance(decision, Stop):
            run.begun = False
            if decision.final_status != "completed" or before == self.agent:
                return decision
        if not run.begun or before != self.agent:
            self._tell_agent(follower, context, request)
        if isinstance(decision, GoOn) and decision.say:
            self._note(decision.say)
        request.contents[:] = self._with_nudges()
        remind = run.take_reminder()
        if remind:
            request.contents.append(_from_user(remind))
        return None

    def ask_again(self, whole: Iterable[Any], say: str, request: Any) -> Any:
        """Return the request that follows a response without calls in the same turn."""
        self._own += [response.content for response in whole if response.content]
        self._note(say)
        return request.model_copy(update={"contents": self._with_nudges()})

    def end_run(self) -> None:
        """End the agent's run. A later request in the same invocation starts another run."""
        self.run.guarded(lambda follower: follower.end())
        self.run.begun = False

    def _tell_agent(self, follower: Follower, context: Any, request: Any) -> None:
        """Tell what an agent offers, and the prompt if a run begins with it."""
        run = self.run
        self._tools.update((tool.name, tool) for tool in _tools(request))
        follower.offer(self._tools.values())
        follower.model = request.model or ""
        if run.begun:
            return
        run.begun, run.responses = True, 0
        follower.system = _text(_parts(request.config.system_instruction))
        prompt = _text(_parts(context.user_content))
        if prompt:
            follower.prompt(prompt)

    def _note(self, say: str) -> None:
        self._nudges.setdefault(self.agent, []).append((len(self._own), say))

    def _with_nudges(self) -> list[Any]:
        """Return the agent's history with each nudge in its place: never between a call and its result."""
        said = list(self._own)
        for place, text in reversed(self._nudges.get(self.agent, [])):
            while place < len(said) and any(part.function_response for part in said[place].parts or ()):
                place += 1
            if place <= len(said):  # else the framework has shortened its history
                said.insert(place, _from_user(text))
        return said


# ---- the model


def _followed_class(kind: Any, endstop: EndstopAdkPlugin) -> Any:
    """Return a subclass whose requests are followed if they have the plugin."""

    async def generate_content_async(self: Any, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
        branch = endstop.asking(llm_request)
        if branch is None or branch.run.broken:
            responses = kind.generate_content_async(self, llm_request, stream)
        else:
            responses = _Exchange(self, kind, branch).responses(llm_request, stream)
        async with aclosing(responses) as answered:
            async for response in answered:
                yield response

    own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind)(kind.__name__, (kind,), {**own, "generate_content_async": generate_content_async})


class _Exchange:
    """A request of the framework: the model's response, and another one after a nudge."""

    def __init__(self, model: Any, kind: Any, branch: _Branch) -> None:
        self._model = model
        self._kind = kind
        self._branch = branch
        self._run = branch.run
        self._cuts = not getattr(model, "use_interactions_api", False)  # the history is then on the server

    async def responses(self, request: Any, stream: bool) -> AsyncGenerator[Any, None]:
        """Yield the pieces, if `stream`, and then the response. stream: whether the framework asks for a stream."""
        branch = self._branch
        branch.heard = True
        for number in range(MOST_NUDGES):
            again = request.model_copy()  # a model may change its request
            whole: list[Any] = []
            async with aclosing(self._followed(request, stream)) as responses:
                async for response in responses:
                    if response.partial:
                        yield response
                    else:
                        whole.append(response)
            say = await self._decide(whole)
            for response in whole:
                yield response
            if not say or number == MOST_NUDGES - 1:
                return
            request = branch.ask_again(whole, say, again)

    async def _decide(self, whole: list[Any]) -> str:
        """Decide after a response without calls, with which the agent would end. Returns what is said to the model."""
        if not whole or any(response.get_function_calls() for response in whole):
            return ""
        decision = await self._run.decide()
        if isinstance(decision, GoOn) and decision.say:
            return decision.say
        self._branch.end_run()
        if isinstance(decision, Stop) and decision.final_status not in STATUSES_OF_ITS_OWN:
            whole[-1] = _with_own_text(whole[-1], self._run, decision)
        return ""

    async def _followed(self, request: Any, stream: bool) -> AsyncGenerator[Any, None]:
        """Yield the responses of one request up to where they are cut: first the pieces, if wanted, then the whole."""
        run = self._run
        run.cut = None
        streams = stream or (run.streams and self._cuts and not request.config.response_logprobs)
        heard = _HeardResponse(run, cuts=self._cuts)
        whole: list[Any] = []
        async with aclosing(self._kind.generate_content_async(self._model, request, streams)) as responses:
            async for response in responses:
                if not response.partial:
                    whole.append(response)
                    continue
                heard.take(response)
                if stream:
                    yield response
                if run.cut is not None:
                    whole = [heard.cut_response()]
                    break
        heard.end(whole)
        for response in whole:
            yield response


class _HeardResponse:
    """One response of a model, as it is reported to the follower. cuts: whether it may be cut."""

    def __init__(self, run: FollowedRun, *, cuts: bool = False) -> None:
        self.calls = 0
        """Calls that were received."""
        self._run = run
        self._cuts = cuts
        self._parser = GeminiStream()
        self._parts: list[Any] = []
        """The response so far, its texts joined."""
        self._arguments: dict[int, str] = {}
        self._open: Any = None
        """The call whose arguments are still arriving."""
        self._version: str | None = None

    def take(self, response: Any) -> None:
        """Hear a piece of a response that streams."""
        self._run.guarded(lambda follower: self._take(response))

    def _take(self, response: Any) -> None:
        self._version = response.model_version or self._version
        for part in _parts(response.content):
            if self._run.cut is None:
                self._take_part(part)

    def end(self, whole: Iterable[Any]) -> None:
        """Report the end of the response, complete or cut, with the parts that were not streamed."""
        self._run.guarded(lambda follower: self._end(follower, whole))
        self._run.responses += 1

    def _end(self, follower: Follower, whole: Iterable[Any]) -> None:
        self._close_call()
        streamed, calls = bool(self._parts), self.calls
        self._cuts = self._cuts and streamed
        for response in whole if self._run.cut is None else ():
            for part in _parts(response.content):
                if part.function_call is None and not streamed:
                    self._take_content(part)
                elif part.function_call is not None and calls:
                    calls -= 1  # it has streamed
                elif part.function_call is not None:
                    self._take_call(part)
            word = response.finish_reason or response.error_code
            finish = {"finishReason": as_text(getattr(word, "value", word))} if word else {}
            usage = response.usage_metadata
            self._hear(finish=finish, usage=None if usage is None else _dumped(usage))
        follower.response()

    def cut_response(self) -> Any:
        """Return the response as far as it was received."""
        calls = count()
        parts = [self._with_arguments(part, next(calls)) if part.function_call else part for part in self._parts]
        cut = {"cut": self._run.cut.reason} if self._run.cut is not None else {}
        return LlmResponse(
            content=types.Content(role="model", parts=parts),
            partial=False,
            finish_reason=types.FinishReason.STOP,
            model_version=self._version,
            custom_metadata={OWN: cut},
        )

    def _take_part(self, part: Any) -> None:
        call = part.function_call
        if self._open is not None and (call is None or call.id not in (None, self._open.id)):
            self._close_call()  # some models send no last piece
            if self._run.cut is not None:
                return
        if call is None:
            self._take_content(part)
        elif self._open is not None:
            piece = _dumped(part)["functionCall"]
            self._hear(content=[{"functionCall": {name: piece[name] for name in piece if name not in ("id", "name")}}])
            self._open = call if call.will_continue else None
        else:
            self._take_call(part)
            self._open = call if call.will_continue else None

    def _take_call(self, part: Any) -> None:
        part.function_call.id = part.function_call.id or f"adk-{uuid4()}"  # as the framework would name it
        self._parts.append(part)
        self.calls += 1
        self._hear(content=[_dumped(part)])

    def _close_call(self) -> None:
        if self._open is not None:
            self._open = None
            self._hear(content=[{"functionCall": {}}])

    def _hear(self, *, content: Any = (), finish: Any = None, usage: Any = None) -> None:
        candidate = {"content": {"role": "model", "parts": list(content)}, **(finish or {})}
        event = msgspec.json.encode({"candidates": [candidate], "usageMetadata": usage})
        self._run.guarded(lambda follower: self._hear_event(follower, event))

    def _hear_event(self, follower: Follower, event: bytes) -> None:
        for chunk in self._parser.feed(b"data: " + event + b"\n\n"):
            if isinstance(chunk, ReasoningDelta) and not chunk.text:
                continue  # data that the vendor needs back, which the framework keeps
            if isinstance(chunk, ToolCallDelta):
                self._arguments[chunk.index] = self._arguments.get(chunk.index, "") + chunk.arguments
            self._run.cut = follower.chunk(chunk, cuts=self._cuts) or self._run.cut

    def _take_content(self, part: Any) -> None:
        self._hear(content=[_dumped(part)])
        last = self._parts[-1] if self._parts else None
        if last is None or not (part.text and last.text and bool(part.thought) == bool(last.thought)):
            self._parts.append(part)
            return
        signature = last.thought_signature or part.thought_signature
        self._parts[-1] = last.model_copy(update={"text": last.text + part.text, "thought_signature": signature})

    def _with_arguments(self, part: Any, number: int) -> Any:
        """Return the whole part for a call whose arguments came in pieces."""
        call = part.function_call
        if call.args is None:
            arguments = as_dict(msgspec.json.decode(self._arguments.get(number) or "{}"))
            call = types.FunctionCall(id=call.id, name=call.name, args=arguments)
        return part.model_copy(update={"function_call": call})


# ---- reports to the follower


def _tools(request: Any) -> Iterator[ToolSpec]:
    """Yield the tools that a request offers. The tool for structured output ends the agent."""
    for tool in request.config.tools or ():
        for one in getattr(tool, "function_declarations", None) or ():
            schema = one.parameters_json_schema or (one.parameters and _dumped(one.parameters.json_schema))
            yield offered(one.name, one.description or "", schema, completes_run=one.name == OUTPUT_TOOL)


def _tell_results(follower: Follower, responses: Iterable[Any]) -> None:
    for response in responses:
        follower.result(_result(response))


def _result(given: Any) -> ToolResult:
    """Return the result of a call. Errors of the framework and of MCP are marked as errors."""
    response = as_dict(given.response)
    failed = bool(response.get("error")) or response.get("isError") is True
    content = next(iter(response.values())) if list(response) in (["result"], ["error"]) else response
    return ToolResult(given.id or "", given.name or "", as_json(content), "error" if failed else "ok")


def _parts(content: Any) -> list[Any]:
    """Return the parts of a value that may be a content, one or several parts, or text."""
    if isinstance(content, str):
        return [types.Part(text=content)]
    found = getattr(content, "parts", content)
    return [] if found is None else list(found) if isinstance(found, list) else [found]


def _text(parts: Iterable[Any]) -> str:
    return "\n".join(part if isinstance(part, str) else part.text for part in parts if getattr(part, "text", part))


def _dumped(value: Any) -> Any:
    """Return the value as it is sent."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


# ---- messages to the agent


def _from_user(text: str) -> Any:
    return types.Content(role="user", parts=[types.Part(text=text)])


def _own_response(run: FollowedRun, stop: Stop, request: Any) -> Any:
    """Return the response that ends the agent: a text, or an error if its output is not a text."""
    text, mark = run.end_text(stop), {OWN: run.mark(stop)}
    if request.config.response_schema is not None or OUTPUT_TOOL in request.tools_dict:
        return LlmResponse(error_code="ENDSTOP", error_message=text, custom_metadata=mark)
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return LlmResponse(content=content, finish_reason=types.FinishReason.STOP, partial=False, custom_metadata=mark)


def _with_own_text(response: Any, run: FollowedRun, stop: Stop) -> Any:
    """Return a response that ends the agent, with the reason appended."""
    parts = [*_parts(response.content), types.Part(text=run.end_text(stop))]
    update = {"content": types.Content(role="model", parts=parts), "custom_metadata": {OWN: run.mark(stop)}}
    return response.model_copy(update=update)


Endstop = EndstopAdkPlugin
"""The adapter under the name that all adapters have."""
