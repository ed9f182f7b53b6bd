"""The span of a request to the model (operation `chat`), around the provider with its retries, fallbacks and races.

The span is current while the response streams, so that spans of the provider's own requests lie below it. A tool that
starts meanwhile still belongs to the run, because its span is started with the run's span as its parent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from ...decision import AnyChunk, AttemptEnded, FinishReport, ModelSelected, UsageReport
from ...decision import events as ev
from ...formats.genai_attributes import (
    FAILED_ATTEMPT,
    ContentAttributes,
    RequestMessages,
    failed_attempt_attributes,
    usage_attributes,
)
from ...providers import Provider, ProviderError, Request, Wrapper
from ...providers.errors import attempt_ended
from .attributes import provider_attributes, request_attributes
from .spans import SafeSpan, SafeTracer

SIDE_REQUEST = "aside"
"""The attempt id of a request that is not part of a step, and has no events."""


_RESPONSE_CHUNKS = frozenset({ModelSelected, AttemptEnded, FinishReport, UsageReport})
"""Chunks that concern the response as a whole."""


class TracedProvider(Wrapper):
    """The provider of a run, with a span for each response. `opened`: called with the span of each step's response."""

    def __init__(
        self,
        provider: Provider,
        tracer: SafeTracer,
        session_id: str,
        content: ContentAttributes | None,
        opened: Callable[[ChatSpan], None],
    ) -> None:
        super().__init__(provider)
        self._tracer = tracer
        self._messages = None if content is None else RequestMessages(content)
        self._content = content
        self._opened = opened
        self._constant_attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": session_id,
            **provider_attributes(provider),
        }

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Stream a response of the wrapped provider inside a span."""
        span = self._tracer.start_span(f"chat {self.model}", lambda: self._attributes_of(request), client=True)
        chat = ChatSpan(span, self.model, self._content)
        if request.attempt != SIDE_REQUEST:
            self._opened(chat)
        try:
            with span.current():
                async with self.provider.stream(request) as chunks:
                    watched = chat.watch(chunks)
                    try:
                        yield watched
                    finally:
                        await watched.aclose()
        except BaseException as error:
            chat.fail(error)
            raise
        chat.closed = True
        if request.attempt == SIDE_REQUEST:
            chat.end(None)

    def _attributes_of(self, request: Request) -> dict[str, Any]:
        known = self._messages
        messages = {} if known is None else known.attributes([*request.messages, *request.ephemeral])
        return {**self._constant_attributes, **request_attributes(request), **messages}


class ChatSpan:
    """The span of one response. It ends when the run has accepted or rejected the response."""

    def __init__(self, span: SafeSpan, model: str, content: ContentAttributes | None) -> None:
        self.closed = False
        """Whether the stream ended without an error. The run decides whether it was a valid response."""
        self._span = span
        self._model = model
        self._content = content
        self._began = monotonic()
        self._seconds: float | None = None
        """Seconds until the first chunk."""
        self._finish: FinishReport | None = None
        self._usage: UsageReport | None = None

    async def watch(self, chunks: AsyncIterator[AnyChunk]) -> AsyncGenerator[AnyChunk]:
        """Pass on the chunks of the response, and keep what the span reports: model, failures, finish and usage."""
        first = True
        async for chunk in chunks:
            if first:
                first = False
                self._seconds = monotonic() - self._began
            if type(chunk) in _RESPONSE_CHUNKS:
                self._note(chunk)
            yield chunk

    def _note(self, chunk: AnyChunk) -> None:
        match chunk:
            case ModelSelected(model):
                self._model = model
            case AttemptEnded():
                self._add_failed_attempt(chunk)
            case FinishReport():
                self._finish = chunk
            case UsageReport():
                self._usage = chunk
            case _:
                pass

    def fail(self, error: BaseException) -> None:
        """End the span of a request that failed or was cancelled."""
        if isinstance(error, ProviderError):
            self._add_failed_attempt(attempt_ended(error, self._model))
            self._end_span(error.kind, str(error))
        elif isinstance(error, Exception):
            self._end_span(type(error).__name__, str(error))
        else:
            self._span.add_event("endstop.cancelled", {})
            self._end_span(None)

    def reject(self, event: ev.AttemptFailed) -> None:
        """End the span of a stream that ended, but that the run did not accept as a response."""
        if self.closed and self._span.recording:
            self._add_failed_attempt(event)
            self._end_span(event.kind, event.message)

    def end(self, response: ev.ResponseFinished | None) -> None:
        """End the span: with the response that the run assembled, or for a side request (None) by its chunks alone."""
        self._end_span(None, said=lambda: self._response_attributes(response))

    def _response_attributes(self, response: ev.ResponseFinished | None) -> dict[str, Any]:
        """Return how a response ended, and its contents if they are written."""
        # Without a finish reason it was cut before one came.
        attributes: dict[str, Any] = {
            "gen_ai.response.finish_reasons": None if self._finish is None else [self._finish.reason]
        }
        if response is not None:
            attributes["endstop.cut"] = response.cut_at is not None
            attributes |= usage_attributes(response.usage)
            if self._content is not None:
                attributes |= self._content.response(response.message, response.finish)
        elif self._usage is not None:
            attributes |= usage_attributes(self._usage.usage)
        return attributes

    def _add_failed_attempt(self, ended: AttemptEnded | ev.AttemptFailed) -> None:
        message = None if self._content is None else self._content.detail(ended.message)
        self._span.add_event(FAILED_ATTEMPT, failed_attempt_attributes(ended, message))

    def _end_span(self, error: str | None, detail: str = "", said: Callable[[], dict[str, Any]] | None = None) -> None:
        redacted = None if error is None or self._content is None else self._content.detail(detail)
        self._span.end(
            error,
            detail=redacted,
            attributes=lambda: {
                "gen_ai.response.model": self._model,
                "gen_ai.response.time_to_first_chunk": self._seconds,
                **({} if said is None else said()),
            },
        )
