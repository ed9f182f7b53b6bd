"""Receiver of spans of agents that run elsewhere; their sessions are in the store, where readers follow them live.

Spans come late, in any order, in several requests, and more than once. A session is one conversation of one owner, or
one trace where the spans name no conversation. A request that repeats responses that have not arrived waits for them
briefly; a repeated span counts once. A run is over when the span of its agent or the root of its trace has arrived and
no more spans follow, or when none has arrived for long. Memory is bounded.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import anyio.lowlevel
from msgspec.structs import replace

from ..base.sanitize import one_line
from ..decision import Event, Policy
from ..decision import events as ev
from ..decision.errors import error_text
from ..decision.wrong_calls import CheckedStruct
from ..durability import RunLost
from ..formats.imported_session import ImportOptions
from ..formats.otlp_spans import RequestSpan, conversation_of, operation, read_request
from ..formats.otlp_values import Span
from ..formats.parsing import first_text, format_time, parse_time
from ..providers._logging import log_warning
from ..providers._outage import Outage
from ..providers.clock import Clock, SystemClock
from ..records.format import Redact
from ..store.base import NewSession, Store, StoreError
from .active import ActiveSessions
from .admission import check_not_negative, redacted, title_of
from .errors import RECEIVED, ServiceUnavailable
from .event_buffer import EventBuffer
from .received_session import ReceivedSession, first_prompt

SWEEP_SECONDS = 1.0
"""Seconds between two looks at which runs are over."""
FORGET_SECONDS = 3600.0
"""Seconds after its latest span for which an ended session is remembered; afterwards it continues from the store."""
MAX_TRACES = 20_000
"""The most traces whose session is remembered."""
MAX_HELD = 10_000
"""Spans of calls and agents that wait for the first request of their trace."""
MAX_SIZE = 64 << 20
"""Characters that the spans which wait may hold: requests for earlier ones, and others for the first request of their
trace, each in all sessions together."""
PAUSE_AFTER = 16
"""Spans after which others get a turn in the event loop."""


class Receiving(CheckedStruct, frozen=True, kw_only=True):
    """How spans are received. Raises WrongUse for a negative number."""

    policy: Policy = Policy()
    """Raises the alarms: where it would have stopped a run as stuck or over a limit, and the run goes on."""
    completion: tuple[str, ...] = ()
    """Names of the tools that complete a task, and of those that ask the user; empty: the usual ones."""
    question: tuple[str, ...] = ()
    settle_seconds: float = 5.0
    """How long a request waits for earlier ones, and how long after the span of its agent a run is over."""
    idle_seconds: float = 300.0
    """Seconds without a span after which a run is over."""
    most_open: int = 500
    """Sessions that are kept in memory; beyond it, the run of the one that was idle longest is over."""
    redact: Redact | None = None
    """Applied to each text before it is stored."""
    clock: Clock | None = None
    """The clock that measures time without spans; None: the system's."""

    def __post_init__(self) -> None:
        check_not_negative(settle_seconds=self.settle_seconds, idle_seconds=self.idle_seconds, most_open=self.most_open)


class ReceivedCounts:
    """What was received since the start."""

    def __init__(self) -> None:
        self.spans: Counter[str] = Counter()
        """The number of spans by their treatment: `request`, `tool`, `agent`, `other` (not of an agent), `repeated`,
        `dropped`."""
        self.sessions = 0
        self.alarms: Counter[str] = Counter()
        """By stop reason."""


def _key_of(owner: str) -> bytes:
    return blake2b(owner.encode(), digest_size=16).digest()


Key = tuple[str, str]
"""An owner, with a conversation or a trace."""


class SpanReceiver:
    """Receiver of spans. Made by `Service`, which opens and closes it."""

    def __init__(self, store: Store, active_sessions: ActiveSessions, receiving: Receiving) -> None:
        self.counts = ReceivedCounts()
        self._store = store
        self._active_sessions = active_sessions
        self._receiving = receiving
        self._clock = receiving.clock or SystemClock()
        self._kinds = ImportOptions(completion=receiving.completion, question=receiving.question)
        self._sessions: OrderedDict[Key, ReceivedSession] = OrderedDict()
        self._traces: OrderedDict[Key, Key] = OrderedDict()
        """The session of each trace, by their keys."""
        self._held: OrderedDict[Key, list[Span]] = OrderedDict()
        """Spans of calls and agents by their traces, of which no request has come yet."""
        self._held_count = self._held_size = 0
        self._waiting_size = 0
        self._unstored = False
        """Whether the store has failed since everything was stored."""
        self._buffers: dict[str, list[EventBuffer]] = {}
        """Of each session, the runs that are not stored to their end; the last one may still go on."""
        self._lock = asyncio.Lock()
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def open_sessions(self) -> int:
        """How many sessions are in memory."""
        return len(self._sessions)

    def open(self) -> None:
        """Begin to look, again and again, which runs are over."""
        self._sweeper = asyncio.create_task(self._sweep_forever(), name="endstop span receiver")

    async def close(self) -> None:
        """End all runs, and store them."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeper
            self._sweeper = None
        async with self._lock:
            for session in self._sessions.values():
                self._end(session)
            with suppress(StoreError):
                await self._flush(self._sessions.values())
            self._sessions.clear()

    async def receive(self, owner: str, spans: Sequence[Span]) -> None:
        """Take spans of an owner; returns once what they add is stored.

        Raises StoreError, after which the same spans may be sent again, and ServiceUnavailable once the service stops.
        """
        if self._active_sessions.stopping or self._sweeper is None:
            raise ServiceUnavailable("stopping", "the server is stopping: send the spans again in a moment")
        async with self._lock:
            if self._unstored:  # refuse what cannot be kept
                await self._flush(self._sessions.values())
            touched: dict[str, ReceivedSession] = {}
            for number, span in enumerate(sorted(spans, key=lambda one: one.start), 1):
                session = await self._take(owner, span)
                if session is not None:
                    touched[session.id] = session
                if not number % PAUSE_AFTER:
                    await anyio.lowlevel.checkpoint()
            await self._flush([*touched.values(), *self._make_room()])

    async def sweep(self) -> None:
        """End the runs that are over, and forget sessions that ended long ago."""
        now, settle = self._clock.now(), self._receiving.settle_seconds
        async with self._lock:
            touched = []
            for key, session in list(self._sessions.items()):
                if session.waiting and session.waiting[0][0] + settle <= now:
                    self._change(session, session.stop_waiting)
                    touched.append(session)
                patience = settle if session.ended_at else self._receiving.idle_seconds
                if session.latest + patience <= now and session.goes_on:
                    self._end(session)
                    touched.append(session)
                elif session.latest + FORGET_SECONDS <= now and not session.goes_on:
                    del self._sessions[key]
            unsaved = [session for session in self._sessions.values() if session.id in self._buffers]
            await self._flush([*touched, *unsaved])

    async def _sweep_forever(self) -> None:
        outage = Outage("received spans could not be stored yet", clock=self._clock.now)
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
                outage.over()
            except StoreError as error:
                outage.failed(error=str(error))
            except Exception as error:
                log_warning("received spans could not be read", error=error_text(error))

    # ---- which session a span belongs to

    async def _take(self, owner: str, span: Span) -> ReceivedSession | None:
        """Add a span to its session, which is returned; None if it has none yet, or adds nothing."""
        kind = operation(span)
        request = read_request(span) if kind == "request" else None
        if kind == "request" and request is None:
            kind = ""
        trace = (owner, span.trace)
        named = conversation_of(span)
        key = (owner, named or span.trace)
        session: ReceivedSession | None
        if request is not None:
            session = await self._session(key, request)
            self._remember_trace(trace, key)
        else:
            key = key if named and key in self._sessions else self._traces.get(trace, key)
            session = self._sessions.get(key)
        if session is None:
            self._hold(trace, span, kind)
            return None
        if not session.is_new(span):
            self.counts.spans["repeated"] += 1
            return session
        self.counts.spans[kind or "other"] += 1
        session.latest = self._clock.now()
        self._sessions.move_to_end(key)
        if request is not None:
            self._change(session, lambda: session.add_request(request, session.latest))
            for held in self._release(trace):
                self._add_other(session, held)
        elif kind or not span.parent:
            self._add_other(session, span)
        return session

    def _add_other(self, session: ReceivedSession, span: Span) -> None:
        if operation(span):
            session.add_other(span)
        if not span.parent or operation(span) == "agent":
            session.ended_at = max(session.ended_at, span.end or session.clock.now())

    def _hold(self, trace: Key, span: Span, kind: str) -> None:
        """Keep a span of a trace of which no request has come yet, unless it says nothing of an agent."""
        if not kind and span.parent:
            self.counts.spans["other"] += 1
            return
        held = self._held.setdefault(trace, [])
        if any(one.id == span.id for one in held):
            self.counts.spans["repeated"] += 1
            return
        kept = span if kind else replace(span, attributes={}, events=[], resource={})  # it only ends its trace
        held.append(kept)
        self.counts.spans[kind or "other"] += 1
        self._held_count += 1
        self._held_size += kept.size
        while self._held_count > MAX_HELD or self._held_size > MAX_SIZE:
            self.counts.spans["dropped"] += len(self._release(next(iter(self._held))))

    def _release(self, trace: Key) -> list[Span]:
        held = self._held.pop(trace, [])
        self._held_count -= len(held)
        self._held_size -= sum(span.size for span in held)
        return held

    def _remember_trace(self, trace: Key, key: Key) -> None:
        self._traces[trace] = key
        self._traces.move_to_end(trace)
        if len(self._traces) > MAX_TRACES:
            self._traces.popitem(last=False)

    # ---- sessions

    async def _session(self, key: Key, request: RequestSpan) -> ReceivedSession:
        """Return the session of a request: in memory, continued from the store, or new."""
        known = self._sessions.get(key)
        if known is not None and known.goes_on:
            return known
        owner, conversation = key
        id = f"otlp_{blake2b(conversation.encode(), key=_key_of(owner), digest_size=10).hexdigest()}"
        stored = await self._store.session(id)
        if known is not None and stored is not None:
            return known
        span = request.span
        agent = first_text(span.attributes, "gen_ai.agent.name") or first_text(span.resource, "service.name")
        agent = one_line(agent, 100) or "agent"
        session = ReceivedSession(
            id,
            owner,
            agent,
            self._receiving.policy,
            self._kinds,
            self._on_event,
            continues=stored is not None,
            known_until=None if stored is None else parse_time(stored.updated_at),
            now=self._clock.now(),
        )
        if stored is None:
            about = {"format": "otlp", "conversation": conversation[:200], "trace": span.trace, "agent": agent}
            title = (
                title_of(redacted(first_prompt(request), self._receiving.redact)) or f"{agent}: contents not recorded"
            )
            at = format_time(span.start or self._clock.wall().timestamp())
            new = NewSession(
                id=id, owner=owner, agent=f"{RECEIVED}{agent}", title=title, created_at=at, metadata={"received": about}
            )
            await self._store.add(new)
            self.counts.sessions += 1
        self._sessions[key] = session
        return session

    def _make_room(self) -> list[ReceivedSession]:
        """End and forget the sessions that were idle longest, if there are too many; returns them."""
        gone = []
        while len(self._sessions) > self._receiving.most_open:
            _, session = self._sessions.popitem(last=False)
            self._end(session)
            gone.append(session)
        if self._waiting_size > MAX_SIZE:
            for session in self._sessions.values():
                if session.waiting:
                    self._change(session, session.stop_waiting)
                    gone.append(session)
        return gone

    def _end(self, session: ReceivedSession) -> None:
        self._change(session, session.end)

    def _change(self, session: ReceivedSession, change: Any) -> None:
        """Change a session. An error in reading one session does not keep others from being read."""
        before = session.waiting_size
        try:
            change()
        except Exception as error:
            log_warning("spans could not be read", session_id=session.id, error=error_text(error))
        self._waiting_size += session.waiting_size - before

    # ---- events

    def _on_event(self, session: ReceivedSession, event: Event) -> None:
        """Hand an event to readers and to the store."""
        buffers = self._buffers.setdefault(session.id, [])
        if isinstance(event, ev.RunStarted):
            redact, now = self._receiving.redact, session.clock.text
            buffer = EventBuffer(self._store, session.id, event.run_id, now=now, redact=redact)
            buffers.append(buffer)
            self._active_sessions.add_received(session.id, buffer)
        buffers[-1].write(event)
        if buffers[-1].closed:
            buffers[-1].close()
        if isinstance(event, ev.AlarmRaised):
            self._raise_alarm(session, buffers[-1].run_id, event)

    def _raise_alarm(self, session: ReceivedSession, run_id: str, event: ev.AlarmRaised) -> None:
        self.counts.alarms[event.reason] += 1
        detail = one_line(redacted(event.detail, self._receiving.redact), 300)
        log_warning(
            "alarm: a received run goes on beyond its limits or in circles",
            session_id=session.id,
            run_id=run_id,
            owner=session.owner,
            policy=event.policy,
            reason=event.reason,
            step=event.step,
            detail=detail,
        )

    async def _flush(self, sessions: Any) -> None:
        """Store what these sessions have added. Raises StoreError."""
        results = await asyncio.gather(
            *(self._flush_one(id) for id in dict.fromkeys(session.id for session in sessions)), return_exceptions=True
        )
        failed = [result for result in results if isinstance(result, BaseException)]
        self._unstored = bool(failed)
        for result in failed:
            raise result

    async def _flush_one(self, session_id: str) -> None:
        buffers = self._buffers.get(session_id, [])
        try:
            while buffers:
                await buffers[0].store()
                if not buffers[0].closed:
                    return
                self._active_sessions.remove_received(session_id, buffers.pop(0).run_id)
        except RunLost as lost:
            self._drop(session_id)
            raise StoreError(f"a received run was lost, and goes on in another one: {lost}") from None
        except StoreError:
            if await self._store.session(session_id) is None:  # it was deleted
                self._drop(session_id)
            raise
        self._buffers.pop(session_id, None)

    def _drop(self, session_id: str) -> None:
        """Forget a session whose run cannot be written any more. Its next spans continue it from the store."""
        for buffer in self._buffers.pop(session_id, []):
            self._active_sessions.remove_received(session_id, buffer.run_id)
        for key, session in list(self._sessions.items()):
            if session.id == session_id:
                del self._sessions[key]
