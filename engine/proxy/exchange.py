"""One request of an agent's run and its response, as followed by the proxy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import ParamSpec

import msgspec
from msgspec.structs import replace

from ..budget import FIRST
from ..decision import AnyChunk, AssistantMessage, Stop, ToolCall, ToolCallDelta, Usage
from ..decision.errors import error_text
from ..decision.events import ResponseFinished
from ..decision.messages import is_blank
from ..decision.until_facts import CUT_FOR_CHECK
from ..follow import Cut
from ..follow.end_text import COMPLETED, end_text
from ..follow.followed_response import ends_response
from ..formats.parsing import as_dict, as_text
from ..providers._logging import log_warning
from ..providers.errors import Interrupted, ProtocolError, ProviderError, hide_secrets
from ..providers.loose_json import decode_loosely
from ..providers.surrogate_pairs import encodable
from ..records.format import Redact
from .agent_runs import AgentRun, Continuation
from .offered_completion import OFFERED, other_calls, reported_text, with_offer
from .own_answers import ClosingWords, closing_request
from .statistics_page import Handling, request_tokens
from .unstored_response import PREVIOUS, unstored_response
from .upstream_connections import Body
from .wire import ProxyWire, ReplyEnd, WireRequest
from .withheld_completion import WithheldCompletion, with_withheld

P = ParamSpec("P")
MARK = "x-endstop"
"""Header of every response written by the proxy: `answered`, `closing`, `stopped`, or what a dry run would do."""
SESSION = "x-endstop-session"
"""Header of a request that names its run, and of a response: the session in the record."""
BUDGET = "x-endstop-budget"
"""Header of a response whose request was let through because the store of the budgets fails: `open`."""
FOLLOWING = "x-endstop-following"
"""Header of a response whose run can no longer be followed, if that is known before it begins: `failed`."""
LARGEST_FOLLOWED = 32 * 1024 * 1024
"""Maximum size of a request or response that is followed, in bytes. A larger one is passed through, and never held as a
whole."""
TOO_LARGE = f"the response has more than {LARGEST_FOLLOWED:,} bytes"
_EVENT_END = re.compile(rb"\r\n\r\n|\n\r?\n|\r\r")
_BRACKET, _IN_STRING = re.compile(rb'["{}\[\]]'), re.compile(rb'["\\]')
"""What changes the depth in JSON, outside of strings, and what may end a string."""


class EventSplitter:
    """Splitter that finds the events of a stream in blocks that are cut anywhere."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._found = 0
        """Number of bytes in `_held` of the events that the last block completed."""
        self._size = 0

    def feed(self, block: bytes) -> list[tuple[bytes, int]]:
        """Return the events that this block completes, each with its blank line and the position after it in the block.

        Raises ValueError if the stream is too large to be followed.
        """
        held = self._held
        del held[: self._found]
        before, self._found = len(held), 0
        held += block
        self._size += len(block)
        if self._size > LARGEST_FOLLOWED:
            raise ValueError(TOO_LARGE)
        events, begin = [], 0
        for end in self._ends(held, before):
            events.append((bytes(held[begin:end]), end - before))
            begin = end
        self._found = begin
        return events

    def _ends(self, held: bytearray, before: int) -> Iterator[int]:
        """Yield where events end in the data. before: length of what is known to contain no end."""
        return (found.end() for found in _EVENT_END.finditer(held, max(0, before - 3)))

    def end(self) -> bytes:
        """Return what came after the last event."""
        return bytes(self._held[self._found :])

    @property
    def latest(self) -> bytes:
        """The last block, preceded by the data since the last event."""
        return bytes(self._held)


class ArraySplitter(EventSplitter):
    """Splitter that finds the elements of an array that grows, each with what stands before it, and its end."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._outer = 0
        """Depth of what stands between the elements: 0 if there is one response in place of the array."""
        self._in_string = False
        self._escaped = False
        """Whether the last byte was a backslash in a string."""

    def _ends(self, held: bytearray, before: int) -> Iterator[int]:
        at = before + self._escaped
        self._escaped = False
        while found := (_IN_STRING if self._in_string else _BRACKET).search(held, at):
            mark, at = found[0], found.end()
            if mark == b"\\":
                self._escaped = at == len(held)
                at += 1
            elif mark == b'"':
                self._in_string = not self._in_string
            elif mark in b"[{":
                self._outer = self._outer if self._depth else int(mark == b"[")
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= self._outer:
                    yield at


def splitter_of(request: WireRequest) -> EventSplitter:
    """Return the splitter for the stream that a request is for."""
    return ArraySplitter() if request.in_array else EventSplitter()


class FollowedExchange:
    """One request of a run and its response.

    cuts: whether the response may be cut. key: the agent's key, which is never recorded. hide: hides known secrets.
    size: size of the request in bytes.
    """

    def __init__(
        self,
        wire: ProxyWire,
        request: WireRequest,
        run: AgentRun,
        *,
        cuts: bool,
        key: str = "",
        hide: Redact = str,
        size: int = 0,
    ) -> None:
        self._key = key.rpartition(" ")[2]
        self.hide = hide
        self.wire = wire
        self.request = request
        self.run = run
        self.stop: Stop | None = None
        """Decision because of which the request is answered here."""
        self.cut: Cut | None = None
        """Reason for cutting the response."""
        self.changed_body = b""
        """The request as sent to the provider, if it differs from the agent's."""
        self.withholds = False
        """Whether the response calls the offered tool, so that the agent must not see what follows."""
        self.said: dict[str, str] = {}
        """Headers of the response about what the proxy could not do, rather than about the run."""
        self.assembles = False
        """Whether the provider streams the response but the agent gets it whole."""
        self.holds_end = False
        """Whether the end of the response waits until the work is checked, if it is a final text."""
        self.held: list[bytes] = []
        """The events of the end that wait."""
        self.holds_calls = False
        """Whether calls wait, because the check that is running may make them superfluous."""
        self.held_calls: list[bytes] = []
        """The events from the first call on, before those of the end, that wait for that."""
        self._before_call: ReplyEnd | None = None
        """What ends the stream before its first call, if calls wait."""
        self.claims_end = False
        """Whether the response has ended as a final text or with a completion alone, and nothing is decided yet."""
        self.claim: ToolCall | None = None
        """The completion call of such a response; None for a text."""
        self.sent_request = request
        """The request as the provider gets it, apart from a tool that is offered."""
        self._before_claim: ReplyEnd | None = None
        """What ends the stream before its first completion call."""
        self._completion: Cut | None = None
        """The completion behind which the response is cut if more follows."""
        self._withheld: tuple[ToolCall, ...] = ()
        """The completion calls that the agent does not get, because they stand beside other calls."""
        self.body = b""
        """The request as sent, if it goes on after a final text that was handed back."""
        self.action: Handling = "followed"
        """How the request is handled."""
        self.response: ResponseFinished | None = None
        """The response as recorded, once it is complete or cut."""
        self.failure: ProviderError | None = None
        """Why there is no response."""
        self.complete = asyncio.Event()
        """Set once nothing of the response is missing, or it was cut or has failed."""
        self.on_whole: Callable[[], None] = lambda: None
        """Called once the response is whole or cut, so that the agent may go on from it."""
        self.sent = 0
        """Number of times that the provider got the request and did not refuse it: once, or again without a stream."""
        self._failed_usage: Usage | None = None
        """Recorded event of a response that failed, or was cut because it repeats itself."""
        self._size = size
        self._end_of_cut = b""
        """Ending of the response after the cut."""
        self._changes = cuts
        self._cuts = cuts and not request.after  # the provider would not know a response that was cut
        self._ended = False
        self._parser = wire.open_parser(request)
        self._events = splitter_of(request)
        self._end = wire.open_end(request)

    def note_sent(self, got: bool) -> None:
        """Note that the request was sent. got: whether the provider got it and did not refuse it."""
        self.sent += got

    @property
    def usage(self) -> Usage | None:
        """Usage of the request: as reported, otherwise at least its input. None if the provider did nothing with it.

        If a response could not be followed, its output is unknown, so the expected output counts. No request has an
        input of 0 tokens: some servers report that if they have not counted.
        """
        if self.response is not None:
            used = self.response.usage
            if used.input_tokens:
                return used
            counted = replace(used, input_tokens=request_tokens(self._size), estimated=True, cost_usd=None)
            return self.run.follower.with_price(counted, self.request.model)
        if not self.sent:
            return None
        if self._failed_usage is not None:
            return self._failed_usage
        input, output = request_tokens(self._size), FIRST.output_tokens if self.run.broken else 0
        sent = Usage(input_tokens=self.sent * input, output_tokens=self.sent * output, estimated=True)
        return self.run.follower.with_price(sent, self.request.model)

    @property
    def reason(self) -> str:
        """Why the request was not passed on, or its response was cut; empty if neither applies."""
        if self.action == "stopped" and self.stop is None:
            return "budget"
        return self.stop.reason if self.stop is not None else self.cut.reason if self.cut is not None else ""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response about the run."""
        said = {SESSION: self.run.follower.session_id, **self.said}
        if self.stop is not None:
            said |= {MARK: f"would stop: {self.stop.reason}"}
        return said

    @property
    def can_be_cut(self) -> bool:
        """Whether a stream of the response would be cut at a completion."""
        policy = self.run.follower.policy
        return self._cuts and not self.run.broken and policy.inner_cancel and policy.mixed != "all"

    @property
    def may_be_answered(self) -> bool:
        """Whether the agent can go on from a response that was written or cut here because its work is right."""
        named = self.run.check is not None and bool(self.request.body.get(PREVIOUS))
        return self._changes and (named or not self.request.after)

    @property
    def may_be_met(self) -> bool:
        """Whether a check is running that would cut a stream of the response."""
        check = self.run.check
        return self.may_be_answered and not self.run.broken and check is not None and check.runs

    @property
    def at_end(self) -> bool:
        """Whether the finish reason has arrived, and perhaps not all that follows it."""
        return self._parser.finished and not self._ended and not self.run.broken

    @property
    def can_end_here(self) -> bool:
        """Whether the response can be cut now: it has neither failed nor ended, and no thought is open."""
        return not (self.run.broken or self._ended or self._end.in_thought)

    def assemble(self) -> None:
        """Note that the provider is asked for a stream, and the agent gets the whole response."""
        self.assembles = True
        body = {**self.request.body, **self.wire.stream_fields(self.request.body)}
        self._end = self.wire.open_end(replace(self.request, body=body))

    def path(self, own: str) -> str:
        """Return the path of the request at the provider, with its query. own: the agent's."""
        return self.wire.stream_path(own) if self.assembles else own

    @property
    def end_of_stream(self) -> ReplyEnd:
        """What ends the stream of the response, or lets it go on; without a completion that is handed back."""
        return self._end if self._before_claim is None else self._before_claim

    def again(self, text: str) -> FollowedExchange:
        """Return the request with which the model goes on after its final text or completion is handed back."""
        assert self.response is not None
        wire, request = self.wire, self.sent_request
        body = dict(request.body)
        message = self.response.message
        names_previous = bool(body.get(PREVIOUS))
        stored = bool(request.after) and not (names_previous and body.get("store") is False)
        if self.claim is not None:
            own = wire.claim_items(request.model, message, self.claim, text)
            items = own[-1:] if stored else [*request.items, *own]
        elif stored:
            items = wire.add_user_text([], text)
        else:
            items = wire.add_user_text([*request.items, wire.said(request.model, message)], text)
        if stored and "conversation" not in body:
            body[PREVIOUS] = self.run.response_id
        body[wire.items] = items
        further = FollowedExchange(
            wire,
            replace(request, items=items, body=body),
            self.run,
            cuts=self._changes,
            key=self._key,
            hide=self.hide,
        )
        further.holds_end = True
        if self.assembles:
            further.assemble()
            body |= wire.stream_fields(body)
        if self.run.offers_completion:
            further.body = with_offer(wire, replace(request, items=items, body=body))
        else:
            further.body = msgspec.json.encode(body)
        further._size = len(further.body)
        self.run.follower.requested(request_tokens(further._size))
        return further

    def guard(self, work: Callable[P, None], *args: P.args, **keywords: P.kwargs) -> None:
        """Follow the run with this work, called with these arguments.

        Whatever fails, the agent goes on without being followed.
        """
        if self.run.broken:
            return
        try:
            work(*args, **keywords)
        except Exception as error:
            self.leave()
            log_warning(
                "a run can no longer be followed: its requests are passed through",
                session_id=self.run.follower.session_id,
                error=self.hide(error_text(error)),
            )

    def leave(self) -> None:
        """Stop following the run: its requests are passed through, and its record stays without an end."""
        self.run.broken = True
        self.said[FOLLOWING] = "failed"
        self.stop = self.cut = None
        self.run.follower.abandon()

    def decide(self) -> None:
        """Decide on a final text without its check."""
        self.run.follower.decide()

    def refuse_large(self) -> None:
        """Raise ValueError, for `guard`, because the response is too large to be followed."""
        raise ValueError(TOO_LARGE)

    def begin(self, place: Continuation) -> None:
        """Report to the run what is new in the request. place: where it goes on."""
        self.stop = self.run.take(self.request, place)
        self.run.follower.requested(request_tokens(self._size))

    def closing_request(self) -> bytes:
        """Return the request for the closing words of a run that a limit has ended."""
        prompt = self.run.follower.policy.prompts.closing
        body = closing_request(self.wire, self._as_sent(), prompt, offers_completion=self.run.offers_completion)
        self._size = len(body)
        self.run.follower.requested(request_tokens(self._size))
        return body

    def take_closing_words(self, body: Body, *, streams: bool) -> None:
        """Report the response with the closing words to the follower. Raises ValueError if it is too large."""
        if not isinstance(body, bytes):
            raise ValueError(TOO_LARGE)
        if streams:
            self.take_block(body)
            self.end()
        else:
            self.take_whole(body)
        message = None if self.response is None else self.response.message
        if message is not None and not is_blank(message.text):
            stored = self.run.response_id if self.request.after else ""
            self.run.closing = ClosingWords(message.text, stored)

    def add_own(self) -> None:
        """Add what the agent does not know of to the request: the completion tool, and calls that were withheld.

        If it goes on from a response that the provider does not have, add what came since the one that it has.
        """
        request = self.sent_request = self._as_sent()
        if self.run.offers_completion:
            self.changed_body = with_offer(self.wire, request)
        elif request is not self.request:
            self.changed_body = msgspec.json.encode(request.body)

    def _as_sent(self) -> WireRequest:
        request, run, body = self.request, self.run, self.request.body
        continues = run.unstored is not None and run.unstored.id == request.after
        if not (run.withheld or continues):
            return request
        items = with_withheld(self.wire, request, run.withheld, run.response_id)
        if run.unstored is not None and continues:
            body, items = run.unstored.continued(body, items)
        return replace(request, items=items, body={**body, self.wire.items: items})

    def keep_unstored(self, id: str, text: str) -> None:
        """Note that the agent gets a response with this id and text, which the provider does not have."""
        if not self.wire.stores:
            return
        kept = unstored_response(self.request, self._as_sent(), id, text)
        if kept is not None:
            self.run.unstored, self.run.response_id = kept, id

    def take_block(self, block: bytes) -> bytes:
        """Follow a block of a stream. Return what is passed on: all of it, or the part before a cut and the ending.

        If a call is to be withheld, only whole events are passed on.
        """
        passed: list[bytes] = []
        whole_events = self._whole_events
        if self.run.broken:
            rest = self._events.end() + block
        else:
            self.guard(lambda: passed.extend(self._follow(block, whole_events=whole_events)))
            if not self.run.broken:
                return b"".join(passed)
            rest = self._events.latest
        self._events = splitter_of(self.request)
        return self.release() + rest if whole_events else block

    def let_calls_pass(self) -> bytes:
        """Return the calls that waited for the check, which is not met."""
        calls, self.held_calls = b"".join(self.held_calls), []
        self.holds_calls, self._before_call = False, None
        return calls

    def cut_as_met(self) -> None:
        """Cut the response here, because the check is met. `end_as_met` returns what ends it."""
        self.cut = Cut("check", detail="the work is right")
        self.guard(self._finish)

    def end_as_met(self, stop: Stop | None) -> bytes:
        """Return what ends the response that the check has cut, without its calls. stop: the decision on the run."""
        self.run.stop, self.run.own.text = stop, True
        end = self._end if self._before_call is None else self._before_call
        said = "" if self.response is None else self.response.message.text
        usage = Usage() if self.response is None else self.response.usage
        text = COMPLETED if stop is None else end_text(stop, self.run.follower)
        shown = f"\n\n{text}" if said else text
        self.guard(lambda: self.keep_unstored(end.response_id, said + shown))
        return end.comment(_why(Cut("check", detail=text))) + end.finish(shown, usage)

    @property
    def at_completion(self) -> bool:
        """Whether a completion has arrived behind which the response is cut, unless it ends there by itself."""
        return self._completion is not None and self.cut is None and not (self._ended or self.run.broken)

    @property
    def _whole_events(self) -> bool:
        """Whether only whole events are passed on, because some may be withheld."""
        withholds = self.run.offers_completion or self.holds_end or self._completion is not None
        return withholds or self.wire.whole_events

    def release(self) -> bytes:
        """Return the events that waited: calls, and the end."""
        held, self.held = self.let_calls_pass() + b"".join(self.held), []
        return held

    def _follow(self, block: bytes, *, whole_events: bool) -> list[bytes]:
        passed: list[bytes] = []
        end = 0
        for event, place in self._events.feed(block):
            if self._follow_event(event, passed):
                end = place
            if self.cut is not None:
                return [*(passed if whole_events else [block[:end]]), self._end_cut()]
        if self._parser.whole:
            self.complete.set()
        if self._parser.done and not (self.holds_end or self.withholds):
            self._end_response()  # the agent may go on from here before the provider ends the stream
        if self.at_completion and not whole_events:
            return [block[:end]]  # from here on, only whole events are passed on
        return passed if whole_events else [block]

    def _end_cut(self) -> bytes:
        """Take the response as cut here. Return what is passed on behind the cut."""
        self._finish()
        self.held.append(self._end_of_cut)
        return b"" if self.claims_end else self.release()

    def cut_at_completion(self) -> bytes:
        """Cut the response behind its completion, because nothing arrives any more. Return what is passed on."""
        ended: list[bytes] = []
        self.cut = self._completion
        self.guard(lambda: ended.append(self._end_cut()))
        return b"".join(ended)

    def _follow_event(self, event: bytes, passed: list[bytes]) -> bool:
        """Follow an event, and put it, or those of its pieces that the agent gets, where they go.

        Return False if the agent gets none of it, because the model goes on in it behind a completion.
        """
        pieces, placed = self._end.pieces(event), list[tuple[list[bytes], bytes]]()
        for piece in pieces:
            at_completion = self.at_completion
            self._take(self._end.as_event(piece))
            if at_completion and self.cut is not None:
                break
            if not (self._ended or self.withholds):
                self._end.see(piece)
            if not self.withholds:
                placed.append((self._place(piece, passed), piece))
            if self.cut is not None:
                break
        if len(placed) == len(pieces) and all(where is placed[0][0] for where, _ in placed):
            placed = [(placed[0][0], event)]  # as it came
        for where, piece in placed:
            where.append(piece)
        return bool(placed) or self.withholds

    def _place(self, event: bytes, passed: list[bytes]) -> list[bytes]:
        """Return where an event goes: to those that are passed on, or to those that wait."""
        if not self.holds_end:
            return passed
        if self.held or self._before_claim is not None or self._end.ends(event):
            return self.held
        return passed if self._before_call is None else self.held_calls

    def _take(self, event: bytes) -> None:
        """Follow an event, or what came after the last one."""
        if not self._ended:
            self._hear(lambda: self._parser.feed(event), cuts=self._cuts)

    def _hear(self, read: Callable[[], list[AnyChunk]], *, cuts: bool) -> None:
        """Report to the follower what the parser reads, or an error of the provider in place of a response."""
        try:
            chunks = read()
        except ProviderError as error:
            if self.at_completion:
                self.cut = self._completion
            else:
                self.failed(error)
            return
        at_completion = self.at_completion
        for chunk in chunks:
            if at_completion and not ends_response(chunk):
                self.cut = self._completion  # the model goes on
                return
            if type(chunk) is ToolCallDelta and chunk.name:
                self._note_call(chunk.name)
            cut = self.run.follower.chunk(chunk, cuts=cuts)
            if cut is not None and cut.reason == "completion":
                self._completion = cut
            else:
                self.cut = cut or self.cut

    def _note_call(self, name: str) -> None:
        if self.holds_calls and self._before_call is None:
            self._before_call = deepcopy(self._end)
        if self.run.offers_completion and name == OFFERED.name:
            self.withholds = True
        elif self.holds_end and self._before_claim is None and name in self.run.follower.facts.completion_tools:
            self._before_claim = deepcopy(self._end)

    def take_whole(self, body: bytes) -> bytes:
        """Follow a response that was not streamed. Return what is passed on of it."""
        self._hear(lambda: self._parser.read_whole(body), cuts=False)
        if self._ended:
            return body
        value = decode_loosely(encodable(body))
        self._end.response_id = as_text(as_dict(value).get("id"))
        self._finish()
        if self.response is None or not (self.withholds or self._withheld):
            return body
        if self._withheld:
            for name in {call.name for call in self._withheld}:
                self.wire.without_call(value, name, "")
            return msgspec.json.encode(value)
        message = self.response.message
        text = "" if other_calls(message) else reported_text(message) or ""
        self.wire.without_call(value, OFFERED.name, text)
        return msgspec.json.encode(value)

    def end(self) -> bytes:
        """Handle the end of a stream, by itself or by a cut. Return what is passed on at its end."""
        if self.at_completion and not self._parser.finished:
            return self.cut_at_completion()
        rest = self._events.end()
        ended: list[bytes] = []
        self.guard(lambda: ended.extend(self._end_stream(rest)))
        if not self._whole_events or self.cut is not None:
            return b""  # already passed on with its block
        if self.run.broken:
            return self.release() + rest
        if not self.claims_end:
            return self.release() + b"".join(ended)
        self.held += ended
        return b""

    def _end_stream(self, rest: bytes) -> list[bytes]:
        if rest and not (self._ended or self.withholds):
            self._end.see(rest)
        self._take_rest()
        self._end_response()
        return [self._end_of_cut if self.withholds or self._withheld else rest]

    def _take_rest(self) -> None:
        """Follow what came after the last whole event: the end of an array is none."""
        if not self.request.in_array:
            self._take(self._events.end())

    def _end_response(self) -> None:
        """Report the end of the response, unless it has been cut or has failed."""
        if not self._ended:
            self._hear(self._parser.end, cuts=False)
        self._finish()

    def _finish(self) -> None:
        if self._ended:
            return
        self._ended = self.run.answered = True
        self.complete.set()
        self.run.response_id = self._end.response_id
        follower = self.run.follower
        met = self.cut is not None and self.cut.reason == "check"
        cut_for = CUT_FOR_CHECK if met else ""
        response = self.response = follower.response(model=self.request.model, cut_for=cut_for)
        if response is not None:
            self.run.hear(response.message)
        self._note_failed_usage()
        if met:
            return  # it is decided and ended once the check's answer is recorded
        if self.holds_end and response is not None:
            self._withheld = self._completions_beside(response.message)
        if self._withheld and response is not None:
            self.run.withheld.append(WithheldCompletion(self._withheld, self.run.known, self.run.response_id))
            self.held.clear()
            self._end_of_cut = self._end_without_completions(response)
        elif self.withholds and response is not None:
            self._end_of_cut = self._end_without_call(response)
        elif self.cut is not None and self.cut.reason == "completion" and response is not None:
            self._end_of_cut = self._end.comment(_why(self.cut)) + self._end.cut(response.usage)
        elif self.cut is not None:
            detail = f"endstop cut this response: {self.cut.detail}"
            self._end_of_cut = self._end.comment(_why(self.cut)) + self._end.fail(self.cut.reason, detail)
        own = self.withholds and response is not None and not other_calls(response.message)
        if self.holds_end and response is not None and self._claims(response.message):
            self.claims_end, self.claim = True, next(iter(response.message.calls), None)
            return
        self.on_whole()
        if response is None or not response.message.calls or own:  # if not, it is decided with the results of the calls
            decision = follower.decide()
            if own and isinstance(decision, Stop):
                self.run.stop, self.run.own.text = decision, True  # the agent gets the report as a text
            if follower.closing is not None:
                follower.end()  # the model has just had its last words, and the agent ends with them or goes on

    def _claims(self, message: AssistantMessage) -> bool:
        """Return whether a response is a final text, or calls a completion tool and nothing else."""
        names = self.run.follower.facts.completion_tools
        return len(message.calls) <= 1 and all(call.name in names for call in message.calls)

    def _completions_beside(self, message: AssistantMessage) -> tuple[ToolCall, ...]:
        """Return the completion calls of a response that also makes other calls."""
        names = self.run.follower.facts.completion_tools
        completions = tuple(call for call in message.calls if call.name in names)
        return completions if len(completions) < len(message.calls) else ()

    def _end_without_completions(self, response: ResponseFinished) -> bytes:
        """Return what ends a stream whose completions were withheld: the calls after the first one, and the end."""
        calls, end = response.message.calls, self.end_of_stream
        first = calls.index(self._withheld[0])
        after = [call for call in calls[first:] if call not in self._withheld]
        return (end.add_calls(after, first) if after else b"") + end.cut(response.usage)

    def _end_without_call(self, response: ResponseFinished) -> bytes:
        """Return what ends a response whose call of the offered tool was withheld."""
        if other_calls(response.message):
            return self._end.cut(response.usage)
        text = reported_text(response.message) or ""
        said = "\n\n" if response.message.text else ""
        return self._end.finish(said + text, response.usage)

    def settle(self) -> None:
        """Take the response for whole if it is at its end."""
        if self.at_end:
            self.guard(self._end_response)

    def broke_off(self, error: ProviderError) -> None:
        """Handle a response that the agent or the provider left. error: what it is, unless its end was read before."""
        if self._ended:
            return
        self._take_rest()
        if self.at_completion and not self._parser.finished:
            self.cut_at_completion()
            return
        try:
            last = self._parser.end()
        except (Interrupted, ProtocolError):
            self.failed(error)
        except ProviderError as reported:
            self.failed(reported)
        else:
            self._hear(lambda: last, cuts=False)
            self._finish()

    def failed(self, error: ProviderError) -> None:
        """Note that the request failed or its response broke off."""
        if not self._ended:
            self._ended, self.failure = True, error
            self.complete.set()
            said = hide_secrets(self.hide(str(error)), [self._key])  # providers quote it in their error messages
            self.run.follower.failed(said, kind=error.kind, status=error.status)
            self._note_failed_usage()

    def _note_failed_usage(self) -> None:
        failure = self.run.follower.failure
        self._failed_usage = None if failure is None or self.response is not None else failure.usage


def _why(cut: Cut) -> str:
    """Return one line that says that the response was cut, and why."""
    return f"endstop cut this response: {' '.join(cut.detail.split())}"
