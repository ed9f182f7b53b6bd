"""One step of a followed loop: its attempts at a response, its calls and their results, as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from ..decision import (
    AnyChunk,
    AssistantMessage,
    FinishReason,
    Policy,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    Usage,
)
from ..decision import events as ev
from ..decision.transcript import estimate_tokens, message_size
from ..event_log import Log
from ..formats.run_events import CallResolver, completes
from ..tools.results import NOT_RUN_WHILE_CLOSING, SKIPPED
from .followed_response import FollowedResponse

NO_RESULT = "The loop reported no result of this call."


class ContextSize:
    """Number of tokens in a loop's context: the provider's last count, plus an estimate of what was added since.

    counted, characters: those of a loop that was followed before (`parts`).
    """

    def __init__(self, counted: int = 0, characters: int = 0) -> None:
        self._counted = counted
        self._characters = characters
        self.at_least = 0
        """Minimum for the next request, if the loop reports one."""

    @property
    def tokens(self) -> int:
        """The estimate for the next request."""
        return max(self._counted + estimate_tokens(self._characters), self.at_least)

    @property
    def parts(self) -> tuple[int, int]:
        """The provider's last count, and the number of characters added since."""
        return self._counted, self._characters

    def add(self, characters: int) -> None:
        """Note that characters were added to the context."""
        self._characters += characters

    def restart(self, characters: int) -> None:
        """Note that the context is now of about this many characters, because it was compacted."""
        self._counted, self._characters, self.at_least = 0, characters, 0

    def count(self, usage: Usage, message: AssistantMessage) -> None:
        """Note that a response with this usage has arrived."""
        if usage.estimated:
            self.add(message_size(message))
        else:
            self._counted, self._characters = usage.input_tokens + usage.output_tokens, 0


class FollowedStep:
    """A step that is being made. It begins with its first event.

    model: model of its requests, unless they name another. priced: adds the cost to a model's usage. taken: ids of the
    session's calls. closing: whether it is the step in which the model only sums up and none of its calls was run.
    """

    def __init__(
        self,
        log: Log,
        policy: Policy,
        tools: Mapping[str, ToolSpec],
        taken: set[str],
        size: ContextSize,
        model: str,
        priced: Callable[[Usage, str], Usage],
        *,
        closing: bool = False,
    ) -> None:
        self.message: AssistantMessage | None = None
        """The response; None until it is complete or cut."""
        self.repeats = False
        """Whether the response was cut because it repeats itself."""
        self._log = log
        self._policy = policy
        self._tools = tools
        self._taken = taken
        self.failure: ev.AttemptFailed | None = None
        """The latest failed attempt."""
        self._size = size
        self._model = model
        self._priced = priced
        self._number = log.facts.steps + 1
        self._attempts = 0
        self._stream: FollowedResponse | None = None
        self._results: dict[str, ToolResult] = {}
        self._rejected: dict[str, tuple[str, str]] = {}
        """Why a completion is not accepted and who says so, by the ids of calls."""
        self._closing = closing
        self._cut = False
        """Whether the loop itself cut the response, so that it runs none of its calls."""
        log.append(ev.StepStarted(step=self._number, round=log.facts.rounds, closing=closing))

    @property
    def settled(self) -> bool:
        """Whether the step has its response, so that what follows belongs to another step."""
        return self.message is not None or self.repeats

    def takes(self, result: ToolResult) -> bool:
        """Return whether this may be the result of a call of this step."""
        if self.message is None or self._stream is None:
            return True
        raw_ids = self._stream.raw_ids
        return any(result.call_id in (call.id, raw_ids.get(call.id)) for call in self.message.calls)

    @property
    def claim(self) -> ToolCall | None:
        """The call that completes the task as far as its tool says; None without one."""
        calls = () if self.message is None or self._closing else self.message.calls
        for call in calls:
            if call.name in self._tools and self._tools[call.name].kind == "completion":
                result = self._result_of(call)
                if call.id not in self._rejected and (result is None or completes(result)):
                    return call
        return None

    def reject(self, call: ToolCall, reason: str, by: str, told: str) -> None:
        """Note that a completion is not accepted. told: what the model is told in addition to the call's result."""
        self._rejected[call.id] = (reason, by)
        result = self._result_of(call) or ToolResult(call.id, call.name, "")
        content = f"{result.content}\n{told}".lstrip("\n")
        self._results[call.id] = replace(result, call_id=call.id, name=call.name, content=content)
        self._size.add(len(told))

    def add_result(self, result: ToolResult) -> None:
        """Add the result of a call. Only the first result of a call counts."""
        if result.call_id not in self._results:
            self._results[result.call_id] = result
            self._size.add(message_size(result))

    def stream(self, *, cuts: bool = True) -> FollowedResponse:
        """Return the streaming response, or a new attempt if there is none. cuts: whether it can be cut."""
        if self._stream is None:
            self._stream = self._attempt(cuts=cuts and not self._closing)
        return self._stream

    def respond(
        self,
        message: AssistantMessage,
        usage: Usage | None,
        finish: FinishReason | None,
        raw_finish: str,
        model: str,
        cut_for: str = "",
    ) -> ev.ResponseFinished | None:
        """Note that the response has ended, or why the loop cut it. `message` is used if nothing of it was streamed.

        Returns it as it is recorded; None if it was cut because it repeats itself, which is a failed attempt.
        """
        if self._stream is None:
            self._stream = self._attempt(cuts=False)
            for chunk in chunks_of(message):
                self._stream.feed(chunk)
        stream, model = self._stream, model or self._model
        if stream.cut is not None and stream.cut.reason == "repetition":
            self.fail("degenerate", stream.cut.detail, None, model)
            self.repeats = True
            return None
        finished = stream.finish(finish, raw_finish, usage, self._size.tokens, model, cut_for)
        finished = replace(finished, usage=self._priced(finished.usage, model))
        self.message, self._cut = finished.message, bool(cut_for)
        self._size.count(finished.usage, finished.message)
        return self._log.append(finished)

    def fail(self, kind: str, text: str, status: int | None, model: str) -> None:
        """Note that the request failed. Another attempt may follow."""
        stream, self._stream = self.stream(), None
        failure = stream.failure(kind, text, status, self._size.tokens, model or self._model)
        if failure.usage is not None:
            failure = replace(failure, usage=self._priced(failure.usage, failure.model))
        self.failure = self._log.append(failure)

    def end(self) -> list[ToolResult]:
        """Write the calls with their results, and end the step. Return the user's answers to its questions."""
        if self._stream is not None and not self.settled:
            self.respond(AssistantMessage(), None, None, "", "")
        answers = self._write_calls() if self.message is not None else []
        self._log.append(ev.StepFinished(step=self._number))
        return answers

    def _write_calls(self) -> list[ToolResult]:
        assert self.message is not None
        assert self._stream is not None
        kinds = {name: spec.kind for name, spec in self._tools.items()}
        resolver = CallResolver(self._log, kinds, self.message.calls, goes_on=False)
        for call in self.message.calls:
            if self._closing:
                resolver.resolve(call, ToolResult(call.id, call.name, NOT_RUN_WHILE_CLOSING, "skipped"))
                continue
            if self._cut:
                resolver.resolve(call, ToolResult(call.id, call.name, SKIPPED, "skipped"))
                continue
            result = self._result_of(call)
            if result is not None and call.id in self._rejected:
                resolver.reject(call, result, *self._rejected[call.id])
                continue
            if result is None and kinds.get(call.name, "ordinary") in ("ordinary", "think"):
                skipped = self._log.facts.accepted is not None
                result = None if skipped else ToolResult(call.id, call.name, NO_RESULT, "unknown")
            if result is None:
                resolver.resolve_missing(call)
            else:
                resolver.resolve(call, replace(result, call_id=call.id, name=call.name))
        return resolver.answers

    def _result_of(self, call: ToolCall) -> ToolResult | None:
        raw_ids = {} if self._stream is None else self._stream.raw_ids
        return self._results.get(call.id) or self._results.get(raw_ids.get(call.id, call.id))

    def _attempt(self, *, cuts: bool) -> FollowedResponse:
        self._attempts += 1
        attempt = f"{self._number}.{self._attempts}"
        self._log.append(ev.AttemptStarted(attempt=attempt, model=self._model))
        return FollowedResponse(
            self._number, attempt, self._policy, self._tools, self._taken, self._log.append, cuts=cuts
        )


def chunks_of(message: AssistantMessage) -> Iterator[AnyChunk]:
    """Yield the chunks of a response that arrived as a whole."""
    for thought in message.reasoning:
        yield ReasoningDelta(thought.text, thought.signature, thought.redacted, thought.vendor)
    if message.text:
        yield TextDelta(message.text)
    for index, call in enumerate(message.calls):
        yield ToolCallDelta(index, call.id, call.name, call.arguments, whole=True)
