"""One session of an agent that runs elsewhere, as its spans tell it: read, followed, and written for store and readers.

Its runs are followed under a policy without effect, so that the record says what the agent did; the policy of the
alarms only watches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime

import anyio

from ..decision import AssistantMessage, Event, Policy, Stop, ToolCall, ToolResult, ToolSpec, UserMessage
from ..decision.decisions import FOLLOWED
from ..decision.finish_words import parse_finish_reason
from ..follow import Follower
from ..formats.imported_session import ImportedMessage, ImportOptions
from ..formats.otlp_spans import ConversationReader, RequestSpan
from ..formats.otlp_values import Span
from ..formats.parsing import format_time, moment_of
from ..formats.reconstruction import IMPORTED_POLICY
from .errors import RECEIVED

MAX_SEEN = 4096
"""Spans of a session that are remembered, so that one that is sent again counts once."""
MAX_TOOLS = 500
"""Tools of a session whose kinds are known by their names."""
PRECISION = 0.0005
"""Seconds by which the store's times are rounded."""
MAX_WAITING = 64
"""Requests of a session that may wait for earlier ones."""


class SpanClock:
    """The time of the latest span. It never goes back."""

    def __init__(self) -> None:
        self._t = 0.0

    def advance(self, t: float | None) -> None:
        """Set the time, in seconds since 1970, unless it is later already."""
        self._t = max(self._t, t or 0.0)

    def now(self) -> float:
        """Return seconds since 1970."""
        return self._t

    def wall(self) -> datetime:
        """Return the same time as a date."""
        return moment_of(self._t)

    def text(self) -> str:
        """Return the same time as records write it."""
        return format_time(self._t)

    async def sleep(self, seconds: float) -> None:
        """Return immediately: nothing waits for spans by this clock."""

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """Return a scope without a deadline, as `sleep` does not wait."""
        return anyio.CancelScope()


class ReceivedSession:
    """One conversation, or one trace, of an agent.

    agent: its name. watch: the policy of the alarms. on_event: gets each event of its runs, in order; must not wait.
    continues: whether the store has an earlier part of it. known_until: that part has what ended by then, in seconds
    since 1970. now: when it begins, on the receiver's monotonic clock.
    """

    def __init__(
        self,
        id: str,
        owner: str,
        agent: str,
        watch: Policy,
        kinds: ImportOptions,
        on_event: Callable[[ReceivedSession, Event], None],
        *,
        continues: bool,
        known_until: float | None,
        now: float,
    ) -> None:
        self.id, self.owner = id, owner
        self.clock = SpanClock()
        self.latest = now
        """When its latest span came, on the receiver's clock."""
        self.ended_at = 0.0
        """When the span of the agent, or the root of the trace, ended, in seconds since 1970; 0 while it has not come.
        The run is over once no more spans come."""
        self.waiting: list[tuple[float, RequestSpan]] = []
        """Requests before which others are missing, and when each came."""
        self.reader = ConversationReader(id, continues=continues)
        self._known_until = known_until
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._names: set[str] = set()
        self._undecided = False
        """Whether the latest response has calls, after which nothing was decided yet."""
        self.follower = Follower(
            IMPORTED_POLICY,
            completion=kinds.completion,
            question=kinds.question,
            speaks=False,
            session_id=id,
            agent=f"{RECEIVED}{agent}",
            clock=self.clock,
            on_event=lambda event: on_event(self, event),
            watch=watch,
        )

    @property
    def goes_on(self) -> bool:
        """Whether it has a run that is not over."""
        return self.follower.running or bool(self.waiting) or self.reader.pending

    @property
    def waiting_size(self) -> int:
        """About how many characters the requests hold that wait."""
        return sum(request.span.size for _, request in self.waiting)

    def is_new(self, span: Span) -> bool:
        """Return whether this span arrives for the first time, and remember it."""
        key = span.trace, span.id
        stored = self._known_until is not None and 0 < span.end <= self._known_until + PRECISION
        if stored or key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return True

    def add_request(self, request: RequestSpan, now: float) -> None:
        """Add a request; if others are missing before it, it waits for them."""
        if request.span.start >= self.ended_at:
            self.ended_at = 0.0  # it was the span of an agent within the run
        if self.reader.missing(request) and len(self.waiting) < MAX_WAITING:
            self.waiting.append((now, request))
            return
        self._add(request)
        while (fits := next((one for one in self._sorted() if not self.reader.missing(one[1])), None)) is not None:
            self.waiting.remove(fits)
            self._add(fits[1])

    def add_other(self, span: Span) -> None:
        """Add the span of a call or of an agent."""
        self.reader.add_other(span)

    def stop_waiting(self) -> None:
        """Add the requests that wait: what is missing before them is taken from what they repeat."""
        waiting, self.waiting = self._sorted(), []
        for _, request in waiting:
            self._add(request)

    def end(self) -> None:
        """End the run: no more of its spans will come."""
        self.stop_waiting()
        self.reader.finish()
        self._follow()
        self._decide()
        ending, self.reader.session.ending = self.reader.session.ending, None
        if ending is None or ending.reason == "awaiting_input":
            self.follower.end()
        else:
            detail, status = ending.detail, ending.status
            self.follower.end(Stop(rule=FOLLOWED, reason=ending.reason, detail=detail, status=status))
        self.ended_at = 0.0

    def _sorted(self) -> list[tuple[float, RequestSpan]]:
        return sorted(self.waiting, key=lambda one: one[1].span.start)

    def _add(self, request: RequestSpan) -> None:
        self.reader.add_request(request)
        self._follow()

    def _follow(self) -> None:
        """Hand what was read on to the follower."""
        session = self.reader.session
        self.follower.model = session.model or self.follower.model
        self.follower.system = session.system or self.follower.system
        messages, session.messages[:] = list(session.messages), []
        for one in messages:
            self._tell(one)

    def _tell(self, one: ImportedMessage) -> None:
        follower, message = self.follower, one.message
        if not isinstance(message, ToolResult):
            self._decide()
        self.clock.advance(one.t)
        match message:
            case ToolResult():
                follower.result(message)
            case UserMessage(text, images) if one.origin == "user" or not follower.running:
                follower.prompt(text.replace("\0", "\ufffd"), images)  # PostgreSQL keeps no NUL
            case UserMessage(text):
                follower.said(text)
            case AssistantMessage() if one.failure is not None:
                follower.failed(one.failure.message, kind=one.failure.kind, status=one.failure.status)
            case AssistantMessage(text, calls, reasoning):
                if one.starts_run:
                    follower.end()
                self._offer(calls)
                finish = parse_finish_reason(one.raw_finish) if one.raw_finish else None
                usage, model = one.usage, one.model
                follower.response(
                    text, calls, reasoning=reasoning, usage=usage, finish=finish, raw_finish=one.raw_finish, model=model
                )
                self._undecided = bool(calls)
            case _:
                pass  # a system prompt, which the session has

    def _decide(self) -> None:
        """Let the follower end the step before this one, if it had calls."""
        if self._undecided:
            self._undecided = False
            self.follower.decide()

    def _offer(self, calls: Sequence[ToolCall]) -> None:
        """Tell the follower of tools that are called without having been offered: their names say their kinds."""
        tools = {spec.name: spec for spec in self.reader.session.tools}
        if len(self._names) < MAX_TOOLS:
            self._names.update(call.name for call in calls)
        for name in self._names:
            tools.setdefault(name, ToolSpec(name=name, description="", parameters={"type": "object"}))
        self.follower.offer(tools.values())


def first_prompt(request: RequestSpan) -> str:
    """Return what the user said in a request; empty if the span has no contents."""
    texts = (message.get("content") for message in request.input if message.get("role") == "user")
    found = next(texts, "")
    if isinstance(found, list):
        found = next((part.get("text") for part in found if isinstance(part, dict) and part.get("text")), "")
    return found if isinstance(found, str) else ""
