"""Spans whose errors do not reach the run. Only this module imports OpenTelemetry, when it is first used.

What a tracer, a span processor or an exporter raises is logged once per engine, and the run goes on. A span is made
current around a whole run, one response or one call, and detached by the same task on every way out, so that
OpenTelemetry never logs "created in a different Context".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Token
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from ...base.version import __version__
from ...decision import WrongUse
from ...decision.errors import error_text, missing_extra
from ...formats.genai_attributes import SCHEMA_URL
from ...providers._logging import log_warning

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider as MeterProvider
    from opentelemetry.trace import TracerProvider as TracerProvider

EXPORTERS = "opentelemetry_traces_exporter"
"""The entry points under which OpenTelemetry's packages offer exporters."""

Attributes = Mapping[str, Any]


class SafeTracer:
    """Tracer that starts spans and never raises.

    Creating it raises WrongUse if OpenTelemetry is not installed or `tracer_provider` is not a tracer provider.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import context, propagate, trace
        except ImportError as error:
            raise missing_extra("traced: OpenTelemetry is not installed", "otel", error) from None
        if tracer_provider is not None and not callable(getattr(tracer_provider, "get_tracer", None)):
            raise WrongUse(f"traced: tracer_provider {tracer_provider!r} has no method `get_tracer`")
        self.trace = trace
        self.context = context
        self.propagate = propagate
        self._tracer = trace.get_tracer("endstop", __version__, tracer_provider, SCHEMA_URL)
        self._warned = False

    def start_span(
        self, name: str, attributes: Callable[[], Attributes], *, client: bool = False, under: SafeSpan | None = None
    ) -> SafeSpan:
        """Start a span below `under`, or below the current span if that is None. The new span is not made current."""
        try:
            kind = self.trace.SpanKind.CLIENT if client else self.trace.SpanKind.INTERNAL
            parent = None if under is None else under.context
            span = self._tracer.start_span(name, parent, kind, _without_none(attributes()))
            return SafeSpan(self, span, self.trace.set_span_in_context(span, parent))
        except Exception as error:
            self.warn_once(error)
            return SafeSpan(self, None, None)

    def remote_span(self, headers: Mapping[str, str]) -> SafeSpan | None:
        """Return the parent span named by the headers of a request (`traceparent`); None without one."""
        try:
            context = self.propagate.extract(headers, self.context.Context())
            if not self.trace.get_current_span(context).get_span_context().is_valid:
                return None
            return SafeSpan(self, None, context)
        except Exception as error:
            self.warn_once(error)
            return None

    def warn_once(self, error: Exception) -> None:
        """Log the first error of tracing."""
        if self._warned:
            return
        self._warned = True
        log_warning("tracing failed, and the run continues without it", error=error_text(error))


def open_meter(meter_provider: MeterProvider | None) -> tuple[Any, Callable[..., Any]]:
    """Return a meter of OpenTelemetry, and the class of its observations. meter_provider: None for the global one.

    Raises WrongUse if OpenTelemetry is not installed or `meter_provider` is not a meter provider.
    """
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise missing_extra("export_metrics: OpenTelemetry is not installed", "otel", error) from None
    if meter_provider is not None and not callable(getattr(meter_provider, "get_meter", None)):
        raise WrongUse(f"export_metrics: meter_provider {meter_provider!r} has no method `get_meter`")
    return metrics.get_meter("endstop", __version__, meter_provider), metrics.Observation


class SafeSpan:
    """A span that never raises; it does nothing if it could not be started."""

    __slots__ = ("_ended", "_recording", "_span", "_tracer", "context")

    def __init__(self, tracer: SafeTracer, span: Any, context: Any) -> None:
        self._tracer = tracer
        self._span = span
        self.context = context
        self._recording = span is not None and span.is_recording()
        self._ended = False

    @property
    def recording(self) -> bool:
        """Whether attributes and events are kept: not if the span was sampled out or has ended."""
        return self._recording and not self._ended

    def attach(self) -> Any:
        """Make the span current. Returns the token for `detach`, which the same task must call."""
        if self.context is None:
            return None
        try:
            return self._tracer.context.attach(self.context)
        except Exception as error:
            self._tracer.warn_once(error)
            return None

    def detach(self, token: Any) -> None:
        """Make the previous span current again.

        In another task than that of `attach` this does nothing. That happens when a task died and its frames are
        finalised elsewhere; OpenTelemetry's own `detach` would log an error.
        """
        try:
            if isinstance(token, Token):
                with suppress(ValueError):
                    token.var.reset(token)
            elif token is not None:
                self._tracer.context.detach(token)
        except Exception as error:
            self._tracer.warn_once(error)

    def current(self) -> _Current:
        """Make the span current inside a `with` block."""
        return _Current(self)

    def set_attributes(self, attributes: Callable[[], Attributes]) -> None:
        """Set attributes, except those that are None. Not called if the span is not recording."""
        if self.recording:
            self._safely(lambda: self._span.set_attributes(_without_none(attributes())))

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Add an event with the current time."""
        if self.recording:
            self._safely(lambda: self._span.add_event(name, _without_none(attributes)))

    def end(
        self,
        error: str | None = None,
        *,
        detail: str | None = None,
        at: int | None = None,
        attributes: Callable[[], Attributes] | None = None,
    ) -> None:
        """End the span; later calls do nothing.

        error: the type of the error, if there was one. detail: the message of the error. at: the time in nanoseconds
        since the epoch, if not now. attributes: set before that, as by `set_attributes`; setting all in one call costs
        less.
        """
        if self._span is None or self._ended:
            return
        if attributes is not None:
            self.set_attributes(attributes)
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


class _Current:
    """Context manager that makes a span current. A generator would do the same at twice the cost."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: SafeSpan) -> None:
        self._span = span

    def __enter__(self) -> None:
        self._token = self._span.attach()

    def __exit__(self, *exc: object) -> None:
        self._span.detach(self._token)


def environment_provider(option: str) -> tuple[TracerProvider, Callable[[], None]]:
    """Return the tracer provider of a command and a function that exports its last spans at the end.

    option: the option that asks for spans, named in messages. `OTEL_TRACES_EXPORTER` names the exporter (`otlp`, which
    sends to `OTEL_EXPORTER_OTLP_ENDPOINT` over HTTP, or `console`, ...). Raises WrongUse if a package that it needs is
    not installed.
    """
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise missing_extra(f"{option}: OpenTelemetry is not installed", "otel", error) from None
    provider = trace.get_tracer_provider()
    if not isinstance(provider, trace.ProxyTracerProvider):
        return provider, lambda: None  # whoever set it up ends it
    try:
        from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise WrongUse(
            f"{option} needs OpenTelemetry's SDK: pip install opentelemetry-sdk, with an exporter such as "
            "opentelemetry-exporter-otlp-proto-http"
        ) from None
    name = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    found = list(entry_points(group=EXPORTERS, name="otlp_proto_http" if name == "otlp" else name))
    if not found:
        raise WrongUse(
            f"{option}: no exporter {name!r} (OTEL_TRACES_EXPORTER) is installed: pip install "
            "opentelemetry-exporter-otlp-proto-http, or set OTEL_TRACES_EXPORTER=console"
        )
    made = SdkTracerProvider()
    made.add_span_processor(BatchSpanProcessor(found[0].load()()))
    return made, made.shutdown


def _without_none(attributes: Attributes) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}
