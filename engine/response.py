"""Build the response of one step from the chunks of all its attempts.

A provider may wrap several others (retries, fallbacks, races). Its stream then says which model answers, and when an
attempt is void. Each attempt has an id, `{step}.{number}`, which its deltas carry, so that a reader can remove the text
of a void attempt. Reading calls that a void attempt started are cancelled; writing calls had not started yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from .completion_cut import CompletionCut
from .context import Context
from .decision import (
    AnyChunk,
    Assembler,
    AssistantMessage,
    AttemptEnded,
    Event,
    FinishReason,
    FinishReport,
    ModelSelected,
    Usage,
    UsageReport,
)
from .decision.degeneration import RepeatedText
from .decision.delta_merger import MERGEABLE, split_delta
from .decision.events import AttemptFailed, AttemptRetracted, AttemptStarted, ResponseFinished, ToolCallEnd
from .decision.messages import is_blank
from .effects import Response
from .hard_limits import RESPONSE_TOKENS
from .providers import ProviderError
from .providers.errors import BILLED_KINDS, Degenerate, attempt_ended
from .tool_calls import ToolCalls

MAX_REPEATED_TEXT = 200
"""Most characters recorded of a response that consists only of repeated text."""


class ResponseBuilder:
    """Builder of one response from its chunks. calls: receives complete tool calls; None if no call is executed."""

    def __init__(self, context: Context, step: int, calls: ToolCalls | None) -> None:
        self.cut_at: str | None = None
        """Id of the completion call at which the stream is to be cut; None if there is none."""
        self.repeated: RepeatedText | None = None
        """The repetition for which the response is cut, because it might not end by itself."""
        self.cut_for = ""
        """Reason why the response is cut, other than a completion call (`ResponseFinished.cut_for`)."""
        self._context = context
        self._log = context.log
        self._step = step
        self._calls = calls
        self._meter = context.limits.meter(step, context.tokens_now(), context.priced, context.share)
        self._attempts_made = 0
        self._retries = 0
        """Number of attempts that replaced a degenerate one."""
        self._usage_complete = False
        self._model = ""
        self._complete: list[str] = []
        """Ids of the complete calls, in the order in which they became complete."""
        self._begin_attempt(context.provider.model)

    @property
    def finished(self) -> bool:
        """Whether the provider ended the response."""
        return self._assembler.finish is not None

    @property
    def cut(self) -> bool:
        """Whether the engine cuts the response before its end."""
        return self.cut_at is not None or bool(self.cut_for) or self.repeated is not None

    @property
    def live_attempt(self) -> str:
        """Id of the current attempt; empty after a void attempt until the next one begins."""
        return "" if self._ended else self.attempt

    def feed(self, chunk: AnyChunk) -> bool:
        """Process one chunk and return whether the response is `cut`; then no chunk may follow."""
        if self.cut_for:
            return True  # it was cut between two chunks
        if type(chunk) is ModelSelected:
            self._switch_model(chunk.model)
        elif type(chunk) is AttemptEnded:
            self._log_parallel_attempt(chunk) if chunk.beside else self._retract(chunk)
        elif isinstance(chunk, MERGEABLE) and chunk.pieces and not self._meter.has_room_for(chunk):
            for piece in split_delta(chunk):  # a limit may be exceeded within it
                self._feed(piece)
                if self.cut:
                    break
        else:
            if (
                type(chunk) is FinishReport
                and (reason := self._context.model_options.finish_words.get(chunk.raw)) is not None
            ):
                chunk = FinishReport(reason, chunk.raw)
            self._feed(chunk)
        return self.cut

    def _feed(self, chunk: AnyChunk) -> None:
        t = self._log_events(self._assembler.feed(chunk))
        self.cut_at = self._completions.call_id() if self._completions.waiting else None
        if self.cut_at is not None:
            self.repeated = None
        if self._assembler.finish is None:
            self._meter.count(chunk)
            self.cut_for = self._meter.limit_to_cut_for(t) if self.cut_at is None else ""

    def cut_off(self, reason: str) -> None:
        """Cut the response here, for this reason."""
        self.cut_for = reason

    def set_usage(self, report: UsageReport) -> None:
        """Record the usage of the whole response, reported after it was cut."""
        self._usage_complete = True
        for event in self._assembler.feed(report):
            self._log.append(event)

    def retry_degenerate(self) -> bool:
        """Retract a response that repeats itself and begin a new attempt, if the policy and the limits allow it.

        Return whether a new attempt began.
        """
        if self._retries >= self._context.policy.degeneration.attempts:
            return False
        self._retries += 1
        self._retract(attempt_ended(self.degenerate_error(), self._model))
        self.repeated = None
        if not self.cut_for:
            self._begin_attempt(self._context.provider.model)
        return not self.cut_for

    def degenerate_error(self) -> Degenerate:
        """Return the error for a response that repeats itself, with the text before the repetition."""
        assert self.repeated is not None
        text = self._assembler.message.text
        before = self.repeated.before(text) if self.repeated.part == "text" else text
        return Degenerate(str(self.repeated), text=text[:MAX_REPEATED_TEXT] if is_blank(before) else before)

    def record_failure(self, error: ProviderError) -> None:
        """Record that the last attempt failed."""
        self._log_failure(attempt_ended(error, self._model))

    def build(self) -> Response:
        """Return the whole response, or the part before the cut."""
        assembler = self._assembler
        if self.cut_for:
            self._log_events(assembler.close_truncated())
        self._log_events(assembler.close())
        message = assembler.message
        finished = ResponseFinished(
            step=self._step,
            attempt=self.attempt,
            model=self._model,
            message=message,
            finish=assembler.finish or self._finish_reason(),
            raw_finish=assembler.raw_finish,
            usage=self._usage(message),
            cut_at=self.cut_at,
            truncated=assembler.truncated,
            without_arguments=assembler.without_arguments,
            cut_for=self.cut_for,
            cut_at_end=self.cut_at is not None and assembler.finish is not None,
            after_cut=self._context.cut_off.get(self._step) if self.cut_at is not None else None,
        )
        return Response(finished, self._complete)

    def _finish_reason(self) -> FinishReason:
        if self.cut_at is not None:
            return "tool_calls"
        return "length" if self.cut_for == RESPONSE_TOKENS else "other"

    # ---- attempts

    def _begin_attempt(self, model: str) -> None:
        self.attempt = self._next_id()
        """Id of the latest attempt."""
        self._ended = False
        self._complete = []
        self._assembler = Assembler(self._step, self.attempt, self._context.taken_ids)
        self._completions = CompletionCut(self._assembler)
        self._detector = self._context.limits.repetition_detector()
        self.repeated = None
        self._log.append(AttemptStarted(attempt=self.attempt, model=model))
        self._meter.begin(self.attempt, model)

    def _next_id(self) -> str:
        self._attempts_made += 1
        return f"{self._step}.{self._attempts_made}"

    def _switch_model(self, model: str) -> None:
        self._model = model
        if self._ended:
            self._begin_attempt(model)
        else:
            self._meter.begin(self.attempt, model)

    def _retract(self, ended: AttemptEnded) -> None:
        if self._log_failure(ended):
            self._log.append(AttemptRetracted(attempt=self.attempt, by=f"{self._step}.{self._attempts_made + 1}"))
        if self._calls is not None:
            self._calls.discard()
        self._ended = True
        self.cut_for = self._context.limits.used_up(self._step)  # before waiting for another attempt

    def _log_failure(self, ended: AttemptEnded) -> bool:
        """Log that the current attempt failed, and return whether it had already produced output."""
        message = self._assembler.message
        shown = bool(message.text or message.calls or message.reasoning)
        billed = shown or ended.kind in BILLED_KINDS
        usage = self._usage(message) if billed and ended.usage is None else self._cost_of(ended)
        text = ended.text if ended.kind == Degenerate.kind else message.text
        self._log.append(_failure(ended, self.attempt, usage, shown, text))
        return shown

    def _log_parallel_attempt(self, ended: AttemptEnded) -> None:
        attempt = self._next_id()
        self._log.append(AttemptStarted(attempt=attempt, model=ended.model))
        self._log.append(_failure(ended, attempt, self._cost_of(ended), shown=False))

    def _cost_of(self, ended: AttemptEnded) -> Usage | None:
        return None if ended.usage is None else self._context.priced(ended.usage, ended.model)

    # ---- events and calls

    def _log_events(self, events: Iterable[Event]) -> int:
        """Log events of the response. Return the time of the latest, in milliseconds since the run began."""
        detector, t = self._detector, 0
        for event in events:
            if detector is not None and (repeated := detector.feed(event)) is not None:
                self.repeated = repeated
            if type(event) is ToolCallEnd:
                self.repeated = None  # a call that arrived whole is not endless
                self._complete_call(event)
            else:
                t = self._log.append(event).t
        return t

    def _complete_call(self, event: ToolCallEnd) -> None:
        """Log the end of a complete call, and start the call if it may run before the response ends."""
        self._complete.append(event.call_id)
        if self._calls is None:
            return
        call = self._assembler.call(event.call_id)
        may_end = self._calls.is_final_completion(call)
        self._log.append(replace(event, may_end=may_end))
        self._calls.start_early(call)
        policy = self._context.policy
        if may_end and not self._calls.has_question and policy.inner_cancel and policy.mixed != "all":
            self._completions.add(call)

    # ---- usage

    def _usage(self, message: AssistantMessage) -> Usage:
        return self._context.priced(self._tokens(message), self._model or self._context.provider.model)

    def _tokens(self, message: AssistantMessage) -> Usage:
        """Return the usage that the provider reported; what it had not reported before a cut is estimated."""
        reported = self._assembler.usage
        whole = self._assembler.finish is not None or self._usage_complete
        if reported is not None and whole and not reported.estimated:
            return reported
        return self._meter.estimate(reported or Usage(), message, self.attempt)


def _failure(ended: AttemptEnded, attempt: str, usage: Usage | None, shown: bool, text: str = "") -> AttemptFailed:
    return AttemptFailed(
        attempt=attempt,
        model=ended.model,
        kind=ended.kind,
        message=ended.message,
        status=ended.status,
        retry_after=ended.retry_after,
        after_output=shown,
        usage=usage,
        beside=ended.beside,
        text=text,
    )
