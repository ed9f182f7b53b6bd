"""One response of a followed loop, while it streams: where to cut it, by the same rules as in the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ..completion_cut import CompletionCut
from ..decision import (
    AnyChunk,
    Assembler,
    AssistantMessage,
    Event,
    Policy,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
)
from ..decision.chunks import FinishReport, UsageReport
from ..decision.degeneration import RepeatedText, RepetitionDetector
from ..decision.events import AttemptFailed, ResponseFinished, ToolCallEnd
from ..decision.messages import FinishReason
from ..decision.transcript import estimate_tokens, message_size
from ..decision.wrong_calls import CheckedStruct
from ..providers.errors import BILLED_KINDS, Degenerate
from ..providers.surrogate_pairs import ends_in_half, whole_characters

_Delta = TextDelta | ReasoningDelta | ToolCallDelta


class Cut(CheckedStruct, frozen=True):
    """Instruction to leave the stream here: nothing that follows in this response is wanted."""

    reason: Literal["completion", "repetition", "check"]
    """`check`: the work is right. The loop finds that out itself (`Follower.response`)."""
    call_id: str = ""
    """Id that the provider gave to the completion call at which it is cut."""
    detail: str = ""
    """Reason for the cut, for people."""


class DeltaCharacters:
    """Deltas of one response, in which each text can be encoded in UTF-8 (see `providers.surrogate_pairs`).

    A framework may pass a surrogate pair in two deltas. Its halves are joined, and one that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self.waits: dict[int | type, tuple[_Delta, str]] = {}
        """The first halves that wait for the second, with the deltas that ended in them; by the index of the call that
        they belong to, or by the kind of text."""

    def feed(self, chunk: AnyChunk) -> AnyChunk:
        """Return the delta with whole characters. A first half at its end waits for the next delta of its text."""
        match chunk:
            case TextDelta(text) | ReasoningDelta(text):
                place: int | type = type(chunk)
            case ToolCallDelta(place, _, name, text):
                if not name.isascii():
                    chunk = replace(chunk, name=whole_characters(name))
            case _:
                return chunk
        whole = self.waits.pop(place, (chunk, ""))[1] + text
        if ends_in_half(whole):
            self.waits[place], whole = (chunk, whole[-1]), whole[:-1]
        return _with_text(chunk, whole_characters(whole))

    def end(self) -> Iterator[AnyChunk]:
        """Yield the halves that stayed alone, as deltas of their texts."""
        for chunk, half in self.waits.values():
            bare = replace(chunk, id="", name="") if isinstance(chunk, ToolCallDelta) else chunk
            yield _with_text(bare, whole_characters(half))
        self.waits.clear()


def _with_text(chunk: _Delta, text: str) -> _Delta:
    if isinstance(chunk, ToolCallDelta):
        return chunk if text == chunk.arguments else replace(chunk, arguments=text, pieces=())
    return chunk if text == chunk.text else replace(chunk, text=text, pieces=())


class FollowedResponse:
    """Assembler of one attempt at a response from its chunks.

    sink: called with each event. taken: ids of the session's calls, from which new ids must differ. tools: by name.
    cuts: whether it is still streaming, so that it can be cut.
    """

    def __init__(
        self,
        step: int,
        attempt: str,
        policy: Policy,
        tools: Mapping[str, ToolSpec],
        taken: set[str],
        sink: Callable[[Event], Any],
        *,
        cuts: bool,
    ) -> None:
        self.attempt = attempt
        self.cut: Cut | None = None
        """Reason for the cut; None if the response is not cut."""
        self._step = step
        self._tools = tools
        self._sink = sink
        self._assembler = Assembler(step, attempt, taken)
        self._characters = DeltaCharacters()
        self._completions = CompletionCut(self._assembler)
        self._may_complete = False
        """Whether a completion has arrived at which the response may be cut."""
        watches = cuts and policy.degeneration.watches
        self._repetition = RepetitionDetector(policy.degeneration) if watches else None
        self._cuts_at_completion = cuts and policy.inner_cancel and policy.mixed != "all"
        self._repeated: RepeatedText | None = None
        self._asks = False
        self._cut_at: str | None = None
        self._goes_on = False
        """Whether the model wrote more behind the completion at which the response is to be cut."""
        self._raw_ids: dict[int, list[str]] = {}

    @property
    def usage(self) -> Usage | None:
        """Usage that the provider has reported so far."""
        return self._assembler.usage

    def feed(self, chunk: AnyChunk) -> Cut | None:
        """Add a chunk. Return the reason to cut the response here, or None to go on reading.

        Once a reason was returned, further chunks are ignored. The exception is a finish reason or usage directly after
        the completion call: the response has then ended by itself.
        """
        if self.cut is not None:
            self._goes_on = self._goes_on or not ends_response(chunk)
            if self._cut_at is not None and not self._goes_on:
                for event in self._assembler.feed(chunk):
                    self._take(event)
            return self.cut
        if type(chunk) is TextDelta:  # fast path: nearly all chunks are text
            is_ascii = chunk.text.isascii()
        elif type(chunk) is ToolCallDelta:
            self._note_id(chunk)
            is_ascii = chunk.arguments.isascii() and chunk.name.isascii()
        else:
            is_ascii = False
        if not is_ascii or self._characters.waits:
            chunk = self._characters.feed(chunk)
        for event in self._assembler.feed(chunk):
            self._take(event)
        self._cut_at = self._completions.call_id() if self._may_complete else None
        if self._cut_at is not None:
            called = self._assembler.call(self._cut_at).name
            raw = self.raw_ids.get(self._cut_at, self._cut_at)
            self.cut = Cut("completion", raw, f"the call {called} completes the task")
        elif self._repeated is not None:
            self.cut = Cut("repetition", detail=str(self._repeated))
        return self.cut

    @property
    def raw_ids(self) -> dict[str, str]:
        """The provider's id of each call, by its id in the record."""
        raw = [id for ids in self._raw_ids.values() for id in ids]
        calls = self._assembler.message.calls
        return {call.id: id for call, id in zip(calls, raw, strict=False) if id}

    def finish(
        self,
        finish: FinishReason | None,
        raw_finish: str,
        usage: Usage | None,
        context_tokens: int,
        model: str,
        cut_for: str = "",
    ) -> ResponseFinished:
        """Return the response as an event, once it has ended or is cut.

        finish, raw_finish and usage: what is known of them in addition to the chunks. context_tokens: an estimate of
        its input, for a response whose usage is not known. cut_for: why the loop itself cut it.
        """
        assembler = self._assembler
        for chunk in self._characters.end() if self._characters.waits else ():
            for event in assembler.feed(chunk):
                self._take(event)
        if assembler.finish is None and finish is not None and self.cut is None:
            for event in assembler.feed(FinishReport(finish, raw_finish)):
                self._take(event)
        if usage is not None and usage != assembler.usage:
            for event in assembler.feed(UsageReport(usage)):
                self._sink(event)
        for event in (*(assembler.close_truncated() if cut_for else ()), *assembler.close()):
            self._take(event)
        message = assembler.message
        is_cut = assembler.finish is None and (self.cut is not None or cut_for != "")
        return ResponseFinished(
            step=self._step,
            attempt=self.attempt,
            model=model,
            message=message,
            finish=assembler.finish or ("other" if cut_for else "tool_calls" if message.calls else "stop"),
            raw_finish=assembler.raw_finish,
            usage=self._usage(message, context_tokens, whole=usage is not None or not is_cut),
            cut_at=self._cut_at,
            truncated=assembler.truncated,
            without_arguments=assembler.without_arguments,
            cut_for=cut_for,
            cut_at_end=self._cut_at is not None and assembler.finish is not None,
        )

    def failure(self, kind: str, text: str, status: int | None, context_tokens: int, model: str) -> AttemptFailed:
        """Return the attempt as an event, if its request failed or its response repeats itself.

        kind: one of `providers.errors.KINDS`. text: the error's message. status: the HTTP status.
        """
        message = self._assembler.message
        shown = bool(message.text or message.calls or message.reasoning)
        before = message.text
        if self._repeated is not None and kind == Degenerate.kind:
            before = self._repeated.before(message.text) if self._repeated.part == "text" else message.text
        billed = shown or kind in BILLED_KINDS
        usage = self._usage(message, context_tokens, whole=False) if billed else None
        return AttemptFailed(
            attempt=self.attempt,
            model=model,
            kind=kind,
            message=text,
            status=status,
            after_output=shown,
            usage=usage,
            text=before,
        )

    def _note_id(self, delta: ToolCallDelta) -> None:
        ids = self._raw_ids.setdefault(delta.index, [delta.id])
        if delta.id and delta.id != ids[-1]:
            if ids[-1]:
                ids.append(delta.id)
            else:
                ids[-1] = delta.id

    def _take(self, event: Event) -> None:
        if self._repetition is not None:
            self._repeated = self._repetition.feed(event) or self._repeated
        if type(event) is ToolCallEnd:
            self._repeated = None  # a complete call is not endless
            self._end_call(event)
        else:
            self._sink(event)

    def _end_call(self, event: ToolCallEnd) -> None:
        call = self._assembler.call(event.call_id)
        tool = self._tools.get(call.name)
        self._asks = self._asks or (tool is not None and tool.kind == "question")
        may_end = None if tool is None or tool.kind != "completion" else has_required_arguments(call, tool)
        self._sink(replace(event, may_end=may_end))
        if may_end and not self._asks and self._cuts_at_completion:
            self._completions.add(call)
            self._may_complete = True

    def _usage(self, message: AssistantMessage, context_tokens: int, *, whole: bool) -> Usage:
        """Return the reported usage if it covers the whole response, otherwise with an estimate of the rest."""
        reported = self._assembler.usage
        if reported is not None and whole and not reported.estimated:
            return reported
        written = estimate_tokens(message_size(message))
        return (reported or Usage()).for_cut_response(input_tokens=context_tokens, output_tokens=written)


def ends_response(chunk: AnyChunk) -> bool:
    """Return whether a chunk tells only how a response ended, and what it used."""
    return type(chunk) is FinishReport or type(chunk) is UsageReport


def has_required_arguments(call: ToolCall, tool: ToolSpec) -> bool:
    """Return whether a call's arguments are a JSON object with all members that its tool's schema requires."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return False
    required = tool.parameters.get("required", ())
    return isinstance(arguments, dict) and all(name in arguments for name in required)
