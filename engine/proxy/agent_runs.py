"""Tells the runs of agents apart by what they send, and follows each with a follower of its own.

A run is known by the header `x-endstop-session`, or else by its conversation: a request belongs to the run whose
conversation it continues. An agent resends its whole history, so a digest of what was there last is enough. Two
agents that begin with the same message are two runs: their histories differ from the first response on, and until then
a run that has its response is not taken for a new request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from ..decision import AssistantMessage, Decision, Stop, ToolResult, UserMessage
from ..decision.errors import error_text
from ..decision.limits import STOP_REASONS
from ..follow import Follower
from ..providers._logging import log_warning
from .closing_words import ClosingWords
from .offered_completion import OFFERED
from .wire import WireRequest, is_from_model, read_messages

MOST_RUNS = 2_000
"""Runs that are kept in memory, some 70 KB each; the one that was idle longest goes first."""


class AgentRun:
    """One conversation of an agent.

    follower: follows it. It has a session of its own, and a record.
    """

    def __init__(self, key: bytes, follower: Follower) -> None:
        self.key = key
        self.follower = follower
        self.busy = False
        """Whether a response to it is being passed on."""
        self.answered = False
        """Whether its latest request got a response."""
        self.broken = False
        """Whether following it failed: its requests are passed through, and nothing is said of them."""
        self.stop: Stop | None = None
        """The decision by which its latest request was not passed on, until another request goes on from there."""
        self.closing: ClosingWords | None = None
        """What its agent gets since a limit has ended it, instead of an error."""
        self.response_id = ""
        """Of its latest response."""
        self.names: set[str] = set()
        """What requests call that which is before them at the provider."""
        self.last_used = 0.0
        """Seconds on the monotonic clock."""
        self.offers_completion = False
        """Whether its requests offer a completion tool that its agent does not know."""
        self.known = 0
        """Items of the conversation that the follower was told."""
        self.digest = b""

    def continues(self, digests: Sequence[bytes]) -> bool:
        """Whether a conversation with these digests goes on from what is known."""
        return len(digests) >= self.known and (not self.known or digests[self.known - 1] == self.digest)

    def take(self, request: WireRequest, digests: Sequence[bytes]) -> Stop | None:
        """Tell the follower what a request has in addition. Returns the decision by which it is not passed on."""
        first = not self.known
        tail = list(request.items if request.after else request.items[self.known :])
        self.known, self.digest = len(request.items), digests[-1]
        self.follower.model = request.model or self.follower.model
        if first or not self.follower.running:
            self.follower.system = request.system
            self.follower.offer([*request.tools, *([OFFERED] if self.offers_completion else [])])
        if not tail:
            return self.stop  # the same request once more: a client tries again
        if first:
            _tell_history(self.follower, tail)
            decision = self.follower.decide() if self.follower.facts.calls else None
        else:
            decision = self._take_tail(tail)
        self.stop = decision if isinstance(decision, Stop) else self._limit_that_holds()
        return self.stop

    def end(self) -> None:
        """It ends here, as was decided."""
        self.follower.end()

    def _limit_that_holds(self) -> Stop | None:
        """The limit that has ended the run, where its agent goes on without a new prompt."""
        if self.stop is None or self.follower.running or self.stop.reason not in STOP_REASONS.values():
            self.closing = None
            return None
        return self.stop

    def _take_tail(self, tail: list[Any]) -> Decision | None:
        """Tell what follows the latest response, which the follower has heard itself."""
        follower, messages = self.follower, read_messages(tail)
        for one in messages:
            if isinstance(one.message, ToolResult):
                follower.result(one.message)
        decision = follower.decide() if follower.running and self.answered else None
        for one in messages:
            if isinstance(one.message, UserMessage) and (follower.running or one.origin == "user"):
                _tell_user_message(follower, one.message, one.origin)
                decision = None
        return decision


def _tell_history(follower: Follower, items: list[Any]) -> None:
    for one in read_messages(items):
        match one.message:
            case UserMessage() as message:
                _tell_user_message(follower, message, one.origin)
            case AssistantMessage() | ToolResult() as message:
                follower.messages([message])
            case _:
                pass


def _tell_user_message(follower: Follower, message: UserMessage, origin: str) -> None:
    if origin == "user" or not follower.running:
        follower.prompt(message.text, message.images)
    else:
        follower.said(message.text)


class AgentRuns:
    """The runs that are known.

    open_follower: makes the follower of a new run, from the name of its agent. now: seconds on a monotonic clock.
    forgotten: called with each run that is known no longer, once it has ended.
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
        """By the id of the latest response, or of the conversation that the provider keeps."""

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, request: WireRequest, digests: Sequence[bytes], session: str, agent: str) -> AgentRun:
        """The run that a request belongs to; a new one if it continues none. session: what its header names."""
        key = session.encode() if session else _beginning(request, digests)
        run = self._by_response.get(request.after) if request.after else self._search(key, digests, session)
        if run is not None and (run.busy or run.broken):
            run = None
        if run is None:
            run = AgentRun(key, self._open_follower(agent))
            self._by_key.setdefault(key, []).append(run)
        self._note_use(run)
        while len(self._runs) > MOST_RUNS and not next(iter(self._runs.values())).busy:  # all before it are busy
            self.forget(next(iter(self._runs.values())))
        return run

    def _note_use(self, run: AgentRun) -> None:
        run.last_used = self._now()
        self._runs[id(run)] = run
        self._runs.move_to_end(id(run))

    def note_response(self, run: AgentRun, request: WireRequest) -> None:
        """A run has a response, which later requests may name; or they name the conversation, as this one does."""
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
        """End a run, close its record, and know it no longer. An error in that is logged."""
        self._runs.pop(id(run), None)
        self._forget_names(run)
        same = self._by_key.get(run.key, [])
        if run in same:
            same.remove(run)
        if not same:
            self._by_key.pop(run.key, None)
        try:
            run.follower.close()
        except Exception as error:
            log_warning("a run could not be ended", session_id=run.follower.session_id, error=error_text(error))
        self._forgotten(run)

    def forget_idle(self, seconds: float) -> None:
        """Forget the runs that were idle for so long."""
        while self._runs:
            oldest = next(iter(self._runs.values()))
            if oldest.busy or oldest.last_used > self._now() - seconds:
                return
            self.forget(oldest)

    def close(self) -> None:
        """End all runs."""
        for run in list(self._runs.values()):
            self.forget(run)


def digests_of(items: Sequence[Any]) -> list[bytes]:
    """For each item of a conversation a digest of it and all before it. Marks for a prompt's cache do not count."""
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


def _beginning(request: WireRequest, digests: Sequence[bytes]) -> bytes:
    """What stays the same in all requests of a conversation: what was said before the first response."""
    first = next((place for place, item in enumerate(request.items) if is_from_model(item)), len(digests))
    return b"\0" + (digests[first - 1] if first else b"")
