"""Tells the runs of agents apart by their requests, and follows each run with its own follower.

A run is identified by the header `x-endstop-session`, or else by its conversation: a request belongs to the run whose
conversation it continues. An agent resends its whole history, so a digest of the last known state is enough. Two
agents that begin with the same message are two runs: their histories differ from the first response on, and until then
a run that has its response is not matched to a new request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from ..decision import AssistantMessage, Decision, Stop, ToolResult, UserMessage
from ..decision.errors import error_text
from ..follow import Follower
from ..follow.agent_check import AgentCheck
from ..providers._logging import log_warning
from .offered_completion import OFFERED
from .own_answers import ClosingWords, OwnAnswers
from .unstored_response import UnstoredResponse
from .wire import WireRequest, is_from_model, read_messages
from .withheld_completion import WithheldCompletion

MOST_RUNS = 2_000
"""Maximum number of runs kept in memory, about 70 KB each; the one that was idle longest is dropped first."""


class OpenResponse(Protocol):
    """Response that is being passed on to its agent."""

    settled: asyncio.Event
    """Set once the response is whole or has failed."""

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
        self.names: set[str] = set()
        """Ids by which requests name the earlier conversation stored at the provider."""
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
        """Number of items of the conversation reported to the follower."""
        self.digest = b""

    @property
    def busy(self) -> bool:
        """Whether a response of it is being passed on."""
        return self.response is not None

    def continues(self, digests: Sequence[bytes]) -> bool:
        """Return whether a conversation with these digests continues the known one."""
        return len(digests) >= self.known and (not self.known or digests[self.known - 1] == self.digest)

    def take(self, request: WireRequest, digests: Sequence[bytes]) -> Stop | None:
        """Report the new items of a request to the follower. Return the decision if it is not to be passed on."""
        first = not self.known
        tail = list(request.items if request.after else request.items[self.known :])
        self.known, self.digest = len(request.items), digests[-1]
        self.follower.model = request.model or self.follower.model
        if first or not self.follower.running:
            self.follower.system = request.system
            self.follower.offer([*request.tools, *([OFFERED] if self.offers_completion else [])])
        if not tail:
            return self.stop  # the same request again: a client retries
        if first:
            self._tell_history(tail)
            decision = self.follower.decide() if self.follower.facts.calls else None
        else:
            decision = self._take_tail(tail)
        self.stop = decision if isinstance(decision, Stop) else self._stop_that_holds()
        return self.stop

    def end(self) -> None:
        """End the run here, as was decided."""
        self.follower.end()

    def _stop_that_holds(self) -> Stop | None:
        """Return the decision that has ended the run, if its agent goes on without a new prompt.

        After a completion of the model, whether its agent ends is its own rule.
        """
        if self.stop is None or self.follower.running or self.stop.reason == "completed":
            self.closing = None
            return None
        return self.stop

    def _take_tail(self, tail: list[Any]) -> Decision | None:
        """Report what follows the latest response, which the follower has received itself."""
        follower = self.follower
        messages = read_messages(tail, follower.facts.open_calls)
        for one in messages:
            if isinstance(one.message, ToolResult):
                follower.result(one.message)
        decision = follower.decide() if follower.running and self.answered else None
        for one in messages:
            if isinstance(one.message, UserMessage) and (follower.running or self._is_prompt(one.message, one.origin)):
                _tell_user_message(follower, one.message, one.origin)
                decision = None
        return decision

    def _is_prompt(self, message: UserMessage, origin: str) -> bool:
        """Return whether a person seems to have said this after the run has ended.

        After an answer of the proxy, words that were said before are a machine's: it repeats itself, a person does not.
        """
        return origin == "user" and (self._is_new(message) or self.stop is None)

    def _is_new(self, message: UserMessage) -> bool:
        """Return whether this was not said before, and note that it was."""
        before = len(self._words)
        self._words.add(blake2b(" ".join(message.text.split()).encode(), digest_size=16).digest())
        return len(self._words) > before

    def _tell_history(self, items: list[Any]) -> None:
        for one in read_messages(items):
            match one.message:
                case UserMessage() as message:
                    self._is_new(message)
                    _tell_user_message(self.follower, message, one.origin)
                case AssistantMessage() | ToolResult() as message:
                    self.follower.messages([message])
                case _:
                    pass


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
        self._by_key: dict[bytes, list[AgentRun]] = {}
        self._by_response: dict[str, AgentRun] = {}
        """Runs by the id of the latest response, or of the conversation stored at the provider."""

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, request: WireRequest, digests: Sequence[bytes], session: str, agent: str) -> AgentRun:
        """Return the run that a request belongs to; a new one if it continues none. session: the id in its header."""
        key = _key(request, digests, session)
        run = self._by_response.get(request.after) if request.after else self._search(key, digests, session)
        if run is not None and (run.busy or run.broken):
            run = None
        if run is None:
            run = AgentRun(key, self._open_follower(agent))
            self._by_key.setdefault(key, []).append(run)
        self._note_use(run)
        while len(self._runs) > MOST_RUNS and not next(iter(self._runs.values())).busy:  # all earlier ones are busy
            self.forget(next(iter(self._runs.values())))
        return run

    def at_end(self, request: WireRequest, digests: Sequence[bytes], session: str) -> OpenResponse | None:
        """Return the response that is at its end, if this request goes on from it; None otherwise."""
        for run in reversed(self._by_key.get(_key(request, digests, session), [])):
            goes_on = bool(session) or (len(digests) > run.known and run.continues(digests))
            if run.response is not None and run.response.at_end and goes_on:
                return run.response
        return None

    def _note_use(self, run: AgentRun) -> None:
        run.last_used = self._now()
        self._runs[id(run)] = run
        self._runs.move_to_end(id(run))

    def note_response(self, run: AgentRun, request: WireRequest) -> None:
        """Note that a run has a response, which later requests may name; or that they name its conversation."""
        if id(run) in self._runs:
            self._note_use(run)
        self._forget_names(run)
        run.names = {id for id in (run.response_id, request.after) if id}
        self._by_response |= dict.fromkeys(run.names, run)

    def _forget_names(self, run: AgentRun) -> None:
        for id in run.names:
            if self._by_response.get(id) is run:
                del self._by_response[id]

    def _search(self, key: bytes, digests: Sequence[bytes], session: str) -> AgentRun | None:
        return next((one for one in reversed(self._by_key.get(key, [])) if self._matches(one, digests, session)), None)

    def _matches(self, run: AgentRun, digests: Sequence[bytes], session: str) -> bool:
        if run.busy or run.broken or not run.continues(digests):
            return False
        return bool(session) or len(digests) > run.known or not run.answered or run.stop is not None

    def forget(self, run: AgentRun) -> None:
        """End a run, close its record, and drop it. An error in this is logged."""
        self._runs.pop(id(run), None)
        self._forget_names(run)
        same = self._by_key.get(run.key, [])
        if run in same:
            same.remove(run)
        if not same:
            self._by_key.pop(run.key, None)
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


def digests_of(items: Sequence[Any]) -> list[bytes]:
    """Return a digest for each item of a conversation and everything before it. Prompt cache marks do not count."""
    found, digest = [], b""
    for item in items:
        encoded = msgspec.json.encode(_without_marks(item), order="sorted")
        digest = blake2b(encoded, key=digest, digest_size=16).digest()
        found.append(digest)
    return found


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(inside) for name, inside in value.items() if name != "cache_control"}
    return [_without_marks(inside) for inside in value] if isinstance(value, list) else value


def _key(request: WireRequest, digests: Sequence[bytes], session: str) -> bytes:
    """Return what is the same in all requests of a run. session: the id in the request's header."""
    return session.encode() if session else _beginning(request, digests)


def _beginning(request: WireRequest, digests: Sequence[bytes]) -> bytes:
    """Return what is the same in all requests of a conversation: everything before the first response."""
    first = next((place for place, item in enumerate(request.items) if is_from_model(item)), len(digests))
    return b"\0" + (digests[first - 1] if first else b"")
