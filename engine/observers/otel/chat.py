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
        content = self._content
        messages = {} if content is None else content.request([*request.messages, *request.ephemeral])
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
        self._finish: FinishReport | None = None
        self._usage: UsageReport | None = None

    async def watch(self, chunks: AsyncIterator[AnyChunk]) -> AsyncGenerator[AnyChunk]:
        """Pass on the chunks of the response, and keep what the span reports: model, failures, finish and usage."""
        first = True
        async for chunk in chunks:
            if first:
                first = False
                self._set_time_to_first_chunk()
            if type(chunk) in _RESPONSE_CHUNKS:
                self._note(chunk)
            yield chunk

    def _set_time_to_first_chunk(self) -> None:
        seconds = monotonic() - self._began
        self._span.set_attributes(lambda: {"gen_ai.response.time_to_first_chunk": seconds})

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
        if not self._span.recording:
            self._end_span(None)
        elif response is None:
            usage = {} if self._usage is None else usage_attributes(self._usage.usage)
            self._span.set_attributes(lambda: {"gen_ai.response.finish_reasons": self._finish_reasons, **usage})
            self._end_span(None)
        else:
            cut = response.cut_at is not None
            self._span.set_attributes(
                lambda: {
                    "gen_ai.response.finish_reasons": self._finish_reasons,
                    "endstop.cut": cut,
                    **usage_attributes(response.usage),
                }
            )
            if self._content is not None:
                response_attributes = self._content.response
                self._span.set_attributes(lambda: response_attributes(response.message, response.finish))
            self._end_span(None)

    @property
    def _finish_reasons(self) -> list[str] | None:
        """The model's finish reason; None if the response was cut before it came."""
        return None if self._finish is None else [self._finish.reason]

    def _add_failed_attempt(self, ended: AttemptEnded | ev.AttemptFailed) -> None:
        message = None if self._content is None else self._content.detail(ended.message)
        self._span.add_event(FAILED_ATTEMPT, failed_attempt_attributes(ended, message))

    def _end_span(self, error: str | None, detail: str = "") -> None:
        self._span.set_attributes(lambda: {"gen_ai.response.model": self._model})
        redacted = None if error is None or self._content is None else self._content.detail(detail)
        self._span.end(error, detail=redacted)
