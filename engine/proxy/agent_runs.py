"""Tells the runs of agents apart by their requests, and follows each run with its own follower.

A run is identified by the header `x-endstop-session`, or else by its conversation: a request belongs to the run whose
response is the latest known one in the history that the agent sends (`history_signs.py`). Two agents that begin with
the same message are two runs: a run that has its response is not matched to a request without one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..decision import AssistantMessage, Decision, Stop, ToolCall, ToolResult, UserMessage
from ..decision.errors import error_text
from ..follow import Follower
from ..follow.agent_check import AgentCheck
from ..formats.imported_session import ImportedMessage
from ..providers._logging import log_warning
from .history_signs import (
    Beginning,
    KnownResponse,
    ResponseIndex,
    beginning_of,
    long_lines,
    marks_of,
    response_sign,
    signs_of,
    summary_sign,
    summary_signs,
)
from .offered_completion import OFFERED
from .own_answers import ClosingWords, OwnAnswers
from .unstored_response import UnstoredResponse
from .wire import WireRequest, is_from_model, read_messages
from .withheld_completion import WithheldCompletion

MOST_RUNS = 2_000
"""Maximum number of runs kept in memory, about 80 KB each; the one that was idle longest is dropped first."""
MOST_RESPONSES = 8
"""Number of latest responses by which a run is found again."""
RECENT_SECONDS = 600.0
"""Seconds since its last use for which a run is found again by its prompt, or by a summary of it."""


SUMMARY_REQUESTS = (
    "Your task is to create a detailed summary of",
    "You are performing a CONTEXT CHECKPOINT COMPACTION.",
)
"""Words with which an agent asks for a summary of its conversation and still offers its tools: Claude Code 2.1.197 and
Codex 0.169.0."""


class Continuation(Struct):
    """Where the conversation of a request goes on in its run."""

    after: KnownResponse[AgentRun]
    """The response of the run that is the latest known one in the request, or the beginning."""
    items: Sequence[Any]
    """The items from that response on; all if it is not among them."""
    kind: Literal["begins", "goes on", "compacted", "beside"]
    """`begins`: the run is new. `compacted`: what came before the items was replaced. `beside`: the run is new, and
    another one has the conversation before the items."""
    put_first: Sequence[Any] = ()
    """For `compacted`: the items that stand in the place of earlier ones."""
    kept: Sequence[Any] = ()
    """For `compacted`: the items behind them."""


class OpenResponse(Protocol):
    """Response that is being passed on to its agent."""

    complete: asyncio.Event
    """Set once nothing of the response is missing, or it has failed."""

    @property
    def at_end(self) -> bool:
        """Whether the finish reason has arrived, and perhaps not all that follows it."""

    def settle(self) -> None:
        """Take the response for whole if it is at its end."""


class AgentRun:
    """One conversation of an agent.

    follower: follows it, with its own session and record.
    """

    def __init__(self, key: bytes, follower: Follower) -> None:
        self.key = key
        """What its conversation begins with, as of the latest request."""
        self.follower = follower
        self.response: OpenResponse | None = None
        """The response that is being passed on; None if there is none, or once it is whole."""
        self.answered = False
        """Whether its latest request got a response."""
        self.broken = False
        """Whether following it failed, so that its requests are passed through without comment."""
        self.stop: Stop | None = None
        """Decision because of which its latest request was not passed on, until another request continues from
        there."""
        self.closing: ClosingWords | None = None
        """Text that its agent gets instead of an error after a limit has ended the run."""
        self.own = OwnAnswers()
        """What the proxy has answered by itself since its latest request was passed on."""
        self._words: set[bytes] = set()
        """Digests of what was said in the user's role."""
        self.response_id = ""
        """Id of its latest response."""
        self.last_used = 0.0
        """Time of its last use, in seconds on the monotonic clock."""
        self.offers_completion = False
        """Whether its requests offer a completion tool unknown to its agent."""
        self.check: AgentCheck | None = None
        """The check of its work; None without one."""
        self.unstored: UnstoredResponse | None = None
        """Its latest response, if that is not stored at the provider and a request may go on from it."""
        self.withheld: list[WithheldCompletion] = []
        """The completion calls that its agent did not get with the calls beside them."""
        self.known = 0
        """Number of items of its latest request."""
        self.made = 0
        """Number of responses of its conversation."""
        self.beginning = KnownResponse(self)
        self.responses: deque[KnownResponse[AgentRun]] = deque()
        """Its latest responses."""
        self.beside: AgentRun | None = None
        """The run in whose conversation an agent makes this one for a task of its own, such as a summary."""
        self.has_tools = False
        """Whether its first request offers tools."""
        self.system = ""
        """System prompt of its first request."""
        self._went_on_after: KnownResponse[AgentRun] | None = None
        """The response, or the beginning, from which its latest request went on."""
        self._heard: AssistantMessage | None = None
        """What its agent has got since `note_response`."""

    @property
    def busy(self) -> bool:
        """Whether a response of it is being passed on."""
        return self.response is not None

    @property
    def latest(self) -> KnownResponse[AgentRun]:
        """Its latest response, or its beginning."""
        return self.responses[-1] if self.responses else self.beginning

    def hear(self, message: AssistantMessage) -> None:
        """Note what its agent gets in response to its request. Further parts are added to what it has got."""
        self.answered = True
        before = self._heard or AssistantMessage()
        self._heard = AssistantMessage(before.text + message.text, (*before.calls, *message.calls))

    def take_heard(self) -> AssistantMessage | None:
        """Return what its agent has got since the last time; None if there is nothing."""
        heard, self._heard = self._heard, None
        return heard

    def take(self, request: WireRequest, place: Continuation) -> Stop | None:
        """Report the new items of a request to the follower. Return the decision if it is not to be passed on."""
        first, self.known = not self.known, len(request.items)
        self.follower.model = request.model or self.follower.model
        if first or not self.follower.running:
            self.follower.system = request.system
            self.follower.offer([*request.tools, *([OFFERED] if self.offers_completion else [])])
        messages = read_messages(place.items, self.follower.facts.open_calls)
        if first:
            self.has_tools, self.system = bool(request.tools), request.system
            if place.kind == "begins" and not (request.tools or request.after):
                messages = _without_excerpt(messages)
            decision = self._begin(messages, place)
        else:
            new = place.after.take_new(_of_others(messages))
            again = place.after is self.latest or self.was_stopped_at(place.after)
            if not new and again and place.kind != "compacted":
                return self.stop  # the same request again: a client retries
            decision = self._go_on(messages, new, place)
        self._went_on_after = place.after
        self.stop = decision if isinstance(decision, Stop) else self._stop_that_holds()
        return self.stop

    def was_stopped_at(self, response: KnownResponse[AgentRun]) -> bool:
        """Return whether the latest request went on from this response, and led to a stop."""
        return self.stop is not None and response is self._went_on_after

    def end(self) -> None:
        """End the run here, as was decided."""
        self.follower.end()

    def _stop_that_holds(self) -> Stop | None:
        """Return the decision that has ended the run, if its agent goes on without a new prompt.

        After a completion of the model, whether its agent ends is its own rule, unless the completion was offered: then
        its end was a text of the proxy.
        """
        completed = self.stop is not None and self.stop.reason == "completed" and not self.offers_completion
        if self.stop is None or self.follower.running or completed:
            self.closing = None
            return None
        return self.stop

    def _begin(self, messages: list[ImportedMessage], place: Continuation) -> Decision | None:
        """Report the history of a first request; of one beside another run, only what is not of that one."""
        self.beginning.take_new(_of_others(messages))
        if place.kind == "beside":
            place.after.run.take_results_beside(messages, place.after)
            for one in messages:
                if isinstance(one.message, UserMessage):
                    _tell_user_message(self.follower, one.message, one.origin)
            return None
        self.made = sum(isinstance(one.message, AssistantMessage) for one in messages)
        self._tell_history(messages)
        return self.follower.decide() if self.follower.facts.calls else None

    def _go_on(
        self, messages: list[ImportedMessage], new: list[ImportedMessage], place: Continuation
    ) -> Decision | None:
        """Report what follows the latest response, which the follower has received itself."""
        follower = self.follower
        if place.after is self.latest:
            self.take_results(messages, new)
        decision = follower.decide() if follower.running and self.answered else None
        if place.kind == "compacted" and follower.running:
            put_first = _of_others(read_messages(place.put_first))
            place.after.take_new(put_first)
            follower.compacted([one.message for one in put_first], len(read_messages(place.kept)))
        for one in new:
            if isinstance(one.message, UserMessage) and self._counts(one.message, one.origin):
                _tell_user_message(follower, one.message, one.origin)
                decision = None
        return decision

    def _counts(self, message: UserMessage, origin: str) -> bool:
        """Return whether to report this: any message while the run goes on, and after that a new prompt of a person.

        After an answer of the proxy, words that were said before are a machine's: it repeats itself, a person does not.
        """
        is_new = self._is_new(message)
        return self.follower.running or (origin == "user" and (is_new or self.stop is None))

    def _is_new(self, message: UserMessage) -> bool:
        """Return whether this was not said before, and note that it was."""
        before = len(self._words)
        self._words.add(blake2b(" ".join(message.text.split()).encode(), digest_size=16).digest())
        return len(self._words) > before

    def _tell_history(self, messages: list[ImportedMessage]) -> None:
        for one in messages:
            match one.message:
                case UserMessage() as message:
                    self._is_new(message)
                    _tell_user_message(self.follower, message, one.origin)
                case AssistantMessage() | ToolResult() as message:
                    self.follower.messages([message])
                case _:
                    pass

    def take_results_beside(self, messages: list[ImportedMessage], after: KnownResponse[AgentRun]) -> None:
        """Report the results that come with a request beside this run, which goes on from the same response."""
        if after is self.latest and not (self.busy or self.broken):
            results = [one for one in messages if isinstance(one.message, ToolResult)]
            self.take_results(messages, after.take_new(results))

    def take_results(self, messages: Iterable[ImportedMessage], new: Iterable[ImportedMessage]) -> None:
        """Report the results among the new messages that are of calls of the latest response.

        messages: with the response as the agent keeps it, perhaps with other ids.
        """
        said = [call for one in messages if isinstance(one.message, AssistantMessage) for call in one.message.calls]
        ids = _own_ids(said, self.follower.facts.open_calls)
        for one in new:
            if isinstance(one.message, ToolResult) and one.message.call_id in ids:
                self.follower.result(replace(one.message, call_id=ids[one.message.call_id]))


def _of_others(messages: Iterable[ImportedMessage]) -> list[ImportedMessage]:
    """Return the messages that are not the model's."""
    return [one for one in messages if not isinstance(one.message, AssistantMessage)]


def _without_excerpt(messages: list[ImportedMessage]) -> list[ImportedMessage]:
    """Return what an agent asks about an excerpt of another conversation, which has calls, without the excerpt.

    Gemini CLI asks so whether a run goes in circles. Without tools, the calls cannot be those of this conversation.
    """
    called = [place for place, one in enumerate(messages) if isinstance(one.message, AssistantMessage)]
    asks = bool(messages) and isinstance(messages[-1].message, UserMessage)
    if not (asks and any(getattr(messages[place].message, "calls", ()) for place in called)):
        return messages
    return [one for one in messages[called[-1] + 1 :] if isinstance(one.message, UserMessage)]


def _own_ids(said: Sequence[ToolCall], calls: Sequence[ToolCall]) -> dict[str, str]:
    """Return the follower's ids of calls by those in the agent's history, which ends with these calls.

    An agent may have given them ids of its own, and have put earlier calls before them.
    """
    own = {call.id: call.id for call in said if any(call.id == one.id for one in calls)}
    rest = [call for call in calls if call.id not in own]
    others = [call for call in said if call.id not in own]
    return own | {given.id: call.id for given, call in zip(reversed(others), reversed(rest), strict=False)}


def _tell_user_message(follower: Follower, message: UserMessage, origin: str) -> None:
    if origin == "user" or (origin != "nudge" and not follower.running):
        follower.prompt(message.text, message.images)
    else:
        follower.said(message.text)


class AgentRuns:
    """The known runs.

    open_follower: creates the follower of a new run, from the name of its agent. now: seconds on a monotonic clock.
    forgotten: called with each run that is dropped, after it has ended.
    """

    def __init__(
        self,
        open_follower: Callable[[str], Follower],
        now: Callable[[], float],
        forgotten: Callable[[AgentRun], None] = lambda run: None,
    ) -> None:
        self._open_follower = open_follower
        self._now = now
        self._forgotten = forgotten
        self._runs: OrderedDict[int, AgentRun] = OrderedDict()
        self._index = ResponseIndex[AgentRun]()

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, request: WireRequest, session: str, agent: str) -> tuple[AgentRun, Continuation]:
        """Return the run that a request belongs to, and where it goes on; a new one if it continues none.

        session: the id in its header.
        """
        beginning = beginning_of(request, session)
        place = self._search(request, beginning, session)
        if place is None or place.kind == "beside":
            run = AgentRun(beginning.key, self._open_follower(agent))
            self._index.add(run.beginning, beginning.signs[:1])
            if place is None:
                place = Continuation(run.beginning, request.items, "begins")
            else:
                run.beside = place.after.run
        else:
            run = place.after.run
            run.key = beginning.key
            if place.kind == "compacted":
                self._index.add(run.latest, beginning.signs[:1])  # the same request may come again
        self._note_use(run)
        while len(self._runs) > MOST_RUNS and not next(iter(self._runs.values())).busy:  # all earlier ones are busy
            self.forget(next(iter(self._runs.values())))
        return run, place

    def at_end(self, request: WireRequest, session: str) -> OpenResponse | None:
        """Return the response that is at its end, if this request goes on from it; None otherwise."""
        for sign in beginning_of(request, session).signs:
            for one in reversed(self._index.all(sign)):
                response, goes_on = one.run.response, bool(session) or len(request.items) > one.run.known
                if response is not None and response.at_end and goes_on:
                    return response
        return None

    def _note_use(self, run: AgentRun) -> None:
        run.last_used = self._now()
        self._runs[id(run)] = run
        self._runs.move_to_end(id(run))

    def note_response(self, run: AgentRun, request: WireRequest) -> None:
        """Note that a run has a response, which later requests may name; or that they name its conversation."""
        if id(run) not in self._runs:
            return
        self._note_use(run)
        heard = run.take_heard()
        if heard is not None:
            self._add_response(run, heard)
        run.latest.id = run.response_id
        self._index.add(run.latest, [response_sign(id) for id in (run.response_id, request.after) if id])

    def _add_response(self, run: AgentRun, heard: AssistantMessage) -> None:
        run.made += 1
        ids = frozenset(call.id for call in heard.calls)
        response = KnownResponse(run, call_ids=ids, marks=marks_of(heard, run.key))
        self._index.add(response, signs_of(heard, run.key))
        if not heard.calls:
            self._index.add(response, summary_signs(heard.text))
        run.responses.append(response)
        if len(run.responses) > MOST_RESPONSES:
            self._index.remove(run.responses.popleft())

    # ---- search

    def _search(self, request: WireRequest, beginning: Beginning, session: str) -> Continuation | None:
        """Return where a request goes on; None if it continues no run, or one that cannot be followed."""
        if request.after:
            return self._search_stored(request)
        for place in reversed(range(len(request.items))):
            if is_from_model(request.items[place]):
                known = self._known(request.items[place], beginning.key, session)
                if known is not None:
                    return self._place_after(known, request, place, beginning.key)
        return self._search_beginning(request, beginning, session) or self._search_summary(request)

    def _search_stored(self, request: WireRequest) -> Continuation | None:
        named = [one for one in self._index.all(response_sign(request.after)) if _is_free(one.run)]
        if not named:
            return None
        after = next((one for one in named if one.id == request.after), named[-1])
        return Continuation(after, request.items, "goes on")

    def _known(self, item: Any, key: bytes, session: str) -> KnownResponse[AgentRun] | None:
        """Return the known response in an item of a history: of a run that can have the request, if there is one."""
        found = [
            (_is_free(response.run), share, response is response.run.latest, response)
            for one in read_messages([item])
            if isinstance(one.message, AssistantMessage)
            for share, response in self._index.like(one.message, key)
            if not session or response.run.key == key
        ]
        return max(found, key=lambda one: one[:3])[3] if found else None

    def _place_after(
        self, known: KnownResponse[AgentRun], request: WireRequest, place: int, key: bytes
    ) -> Continuation | None:
        """Return where a request goes on whose latest known response is in the item at this place."""
        run = known.run
        if run.broken:
            return None
        items = request.items[self._first_item_of(known, request.items, place) :]
        if run.busy or _is_beside(run, request, items):
            return Continuation(known, items, "beside")
        after = known
        if run.beside is not None and request.tools and _is_free(run.beside):
            after = run.beside.latest
        if known is not run.latest or len(request.items) >= after.run.known:
            return Continuation(after, items, "goes on")
        first = next(number for number in range(place + 1) if self._is_of(after.run, request.items[number], key))
        return Continuation(after, items, "compacted", request.items[:first], request.items[first:])

    def _is_of(self, run: AgentRun, item: Any, key: bytes) -> bool:
        """Return whether an item of a history is a known response of a run, or of one beside it."""
        known = self._known(item, key, "") if is_from_model(item) else None
        return known is not None and run in (known.run, known.run.beside)

    def _first_item_of(self, known: KnownResponse[AgentRun], items: Sequence[Any], place: int) -> int:
        """Return the place of the first item of a response, of which this one is the last.

        Some agents write each of its calls as an item, with the result behind it.
        """
        first, left = place, known.call_ids - _call_ids(items[place])
        for earlier in reversed(range(place)):
            if not is_from_model(items[earlier]):
                if not left:
                    break
                continue
            ids = _call_ids(items[earlier])
            if ids - left or (not ids and first != earlier + 1):
                break
            first, left = earlier, left - ids
        return first

    def _search_beginning(self, request: WireRequest, beginning: Beginning, session: str) -> Continuation | None:
        """Return where a request goes on that begins like those of a run and has none of its known responses.

        That is a run without a response, one that the header names, or one whose history the agent has rewritten: it
        has as many texts of the model as the run has responses.
        """
        made = [place for place, item in enumerate(request.items) if is_from_model(item)]
        texts = bool(made) and not _call_ids(request.items[made[-1]])
        for number, sign in enumerate(beginning.signs):
            for one in reversed(self._index.all(sign)):
                run, same = one.run, number == 0
                if not _is_free(run):
                    continue
                if one is run.latest or (same and (session or run.was_stopped_at(one))):
                    return Continuation(run.latest if made else one, request.items, "goes on")
                rewritten = texts and len(made) == run.made and run.system == request.system
                if same and rewritten and self._is_recent(run):
                    return Continuation(run.latest, request.items[made[-1] :], "goes on")
        return None

    def _search_summary(self, request: WireRequest) -> Continuation | None:
        """Return where a request goes on whose history begins anew with what a run's agent got as its summary."""
        for one in read_messages(request.items):
            for line in long_lines(getattr(one.message, "text", "")):
                for response in reversed(self._index.all(summary_sign(line))):
                    run = response.run.beside or response.run
                    same = _is_free(run) and run.has_tools == bool(request.tools) and run.system == request.system
                    if same and self._is_recent(run) and run.known > len(request.items):
                        return Continuation(run.latest, (), "compacted", request.items)
        return None

    def _is_recent(self, run: AgentRun) -> bool:
        return run.last_used >= self._now() - RECENT_SECONDS

    # ---- the end of runs

    def forget(self, run: AgentRun) -> None:
        """End a run, close its record, and drop it. An error in this is logged."""
        self._runs.pop(id(run), None)
        for response in (run.beginning, *run.responses):
            self._index.remove(response)
        if run.check is not None:
            run.check.cancel()
        try:
            run.follower.close()
        except Exception as error:
            log_warning("a run could not be ended", session_id=run.follower.session_id, error=error_text(error))
        self._forgotten(run)

    def forget_idle(self, seconds: float) -> None:
        """Drop the runs that were idle for this many seconds."""
        while self._runs:
            oldest = next(iter(self._runs.values()))
            if oldest.busy or oldest.last_used > self._now() - seconds:
                return
            self.forget(oldest)

    @property
    def waiting_for_results(self) -> bool:
        """Whether an agent is running calls whose results are to come."""
        return any(run.follower.running and run.follower.facts.calls and not run.busy for run in self._runs.values())

    async def end_checks(self) -> None:
        """End the checks of all runs, with their processes."""
        for run in self._runs.values():
            if run.check is not None:
                await run.check.close()

    def close(self) -> None:
        """End all runs."""
        for run in list(self._runs.values()):
            self.forget(run)


def _is_free(run: AgentRun) -> bool:
    return not (run.busy or run.broken)


def _is_beside(run: AgentRun, request: WireRequest, items: Sequence[Any]) -> bool:
    """Return whether an agent asks for something besides its work.

    It says what it asks for, and offers no tools or asks for a summary of the conversation in words of its own. Notes
    of its loop may follow.
    """
    said = []
    for one in reversed(read_messages(items)):
        if not isinstance(one.message, UserMessage):
            break
        said.append(one.message.text)
    asks_for_summary = any(words in text for text in said for words in SUMMARY_REQUESTS)
    return bool(said) and ((run.has_tools and not request.tools) or asks_for_summary)


def _call_ids(item: Any) -> set[str]:
    """Return the ids of the calls in an item of a history."""
    messages = (one.message for one in read_messages([item]))
    return {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls}
