"""Spans that cannot hurt. The only module that imports OpenTelemetry, when the first engine is traced.

Whatever a tracer, a processor or an exporter raises is complained of once for each engine, and the run goes on. A span
is made current around the whole run, one response or one call; the task that sets it takes it back, on every way out,
so nothing is ever "created in a different Context".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Token
from typing import TYPE_CHECKING, Any

from ..._logging import log_warning
from ..._version import __version__
from ...decision import WrongUse
from ...decision.errors import error_text

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider as TracerProvider

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
"""The latest release of the conventions that holds those for generative AI; see `tracing.py`."""

Attributes = Mapping[str, Any]


class SafeTracer:
    """Starts spans. Raises WrongUse if OpenTelemetry is not installed, or the tracer provider is none."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import context, trace
        except ImportError as error:
            raise WrongUse(f'traced: OpenTelemetry is not installed ({error}): pip install "endstop[otel]"') from None
        if tracer_provider is not None and not callable(getattr(tracer_provider, "get_tracer", None)):
            raise WrongUse(f"traced: tracer_provider {tracer_provider!r} has no method `get_tracer`")
        self.trace = trace
        self.context = context
        self._tracer = trace.get_tracer("endstop", __version__, tracer_provider, SCHEMA_URL)
        self._warned = False

    def start_span(
        self, name: str, attributes: Callable[[], Attributes], *, client: bool = False, under: SafeSpan | None = None
    ) -> SafeSpan:
        """A span under another one, or else under the one that is current. It is not made current by this."""
        try:
            kind = self.trace.SpanKind.CLIENT if client else self.trace.SpanKind.INTERNAL
            parent = None if under is None else under.context
            span = self._tracer.start_span(name, parent, kind, _without_none(attributes()))
            return SafeSpan(self, span, self.trace.set_span_in_context(span, parent))
        except Exception as error:
            self.warn_once(error)
            return SafeSpan(self, None, None)

    def warn_once(self, error: Exception) -> None:
        """Say that tracing failed, the first time."""
        if self._warned:
            return
        self._warned = True
        log_warning("tracing failed, and the run goes on without", error=error_text(error))


class SafeSpan:
    """One span, or none if it could not be started."""

    __slots__ = ("_ended", "_recording", "_span", "_tracer", "context")

    def __init__(self, tracer: SafeTracer, span: Any, context: Any) -> None:
        self._tracer = tracer
        self._span = span
        self.context = context
        self._recording = span is not None and span.is_recording()
        self._ended = False

    @property
    def recording(self) -> bool:
        """Whether anything that it is told is kept: not if it was sampled out."""
        return self._recording and not self._ended

    def attach(self) -> Any:
        """Make it current; what this gives goes to `leave`, in the same task."""
        if self.context is None:
            return None
        try:
            return self._tracer.context.attach(self.context)
        except Exception as error:
            self._tracer.warn_once(error)
            return None

    def detach(self, token: Any) -> None:
        """Make current what was before, whatever has been made current since.

        In another task than the one that entered there is nothing to take back: so it is where a task died half-way
        and its frames are swept up elsewhere. OpenTelemetry's own `detach` would log an error.
        """
        try:
            if isinstance(token, Token):
                with suppress(ValueError):
                    token.var.reset(token)
            elif token is not None:
                self._tracer.context.detach(token)
        except Exception as error:
            self._tracer.warn_once(error)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it current for a block."""
        token = self.attach()
        try:
            yield
        finally:
            self.detach(token)

    def set_attributes(self, attributes: Callable[[], Attributes]) -> None:
        """Add attributes; those that are None are left out."""
        if self.recording:
            self._safely(lambda: self._span.set_attributes(_without_none(attributes())))

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Add an event, dated now."""
        if self.recording:
            self._safely(lambda: self._span.add_event(name, _without_none(attributes)))

    def end(self, error: str | None = None, *, detail: str | None = None, at: int | None = None) -> None:
        """End it, once. `error`: what went wrong, in a word; `at`: nanoseconds since the epoch, if not now."""
        if self._span is None or self._ended:
            return
        if error is not None:
            self.set_attributes(lambda: {"error.type": error})
            self._safely(lambda: self._span.set_status(self._tracer.trace.StatusCode.ERROR, detail))
        self._ended = True
        self._safely(lambda: self._span.end(at))

    def _safely(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:
            self._tracer.warn_once(error)


def _without_none(attributes: Attributes) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}
