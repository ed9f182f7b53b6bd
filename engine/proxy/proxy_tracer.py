"""OpenTelemetry spans of the proxy: one for each request that it follows, and one for each run.

A request's span is a child of the agent's own if its request has a `traceparent`, otherwise of its run's span. It says
what the proxy did, and why. Spans contain no texts. An error in a tracer is logged once, and requests go on without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..formats.genai_attributes import outcome_attributes, setting_attributes, usage_attributes
from ..observers.otel.attributes import server_attributes, vendor_at
from ..observers.otel.spans import SafeSpan, SafeTracer
from ..records.format import Redact
from .agent_runs import AgentRun
from .exchange import BUDGET, FollowedExchange

if TYPE_CHECKING:
    from ..observers.otel.spans import TracerProvider

WIRE_PROVIDERS = {"anthropic": "anthropic", "gemini": "gcp.gemini", "openai": "openai", "responses": "openai"}
"""`gen_ai.provider.name` by the wire, for providers that are in none of our lists."""


class ProxyTracer:
    """Tracer of requests and runs.

    upstream: the provider's URL. tracer_provider: where spans go; OpenTelemetry's global provider if omitted. Raises
    WrongUse if OpenTelemetry is not installed.
    """

    def __init__(self, upstream: str, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = SafeTracer(tracer_provider)
        self._upstream = upstream
        self._runs: dict[int, SafeSpan] = {}
        """Spans of the current runs, by the id of the `AgentRun`."""

    @contextmanager
    def request(self, exchange: FollowedExchange, headers: Mapping[str, str], agent: str) -> Iterator[None]:
        """Open a span around the handling of a request. headers: the agent's."""
        run = self._run_span(exchange, agent)
        above = self._tracer.remote_span(headers) or run
        model = exchange.request.model
        span = self._tracer.start_span(
            exchange.hide(f"chat {model}" if model else "chat"),
            lambda: _hidden(self._request_attributes(exchange), exchange.hide),
            client=True,
            under=above,
        )
        try:
            yield
        finally:
            span.set_attributes(lambda: _hidden(_result_attributes(exchange), exchange.hide))
            failure = exchange.failure
            span.end(None if failure is None or failure.kind == "cancelled" else failure.kind)
            if not exchange.run.follower.running:
                self.end_run(exchange.run)

    def end_run(self, run: AgentRun) -> None:
        """Note that a run has ended or is dropped."""
        span = self._runs.pop(id(run), None)
        if span is None:
            return
        outcome = run.follower.outcome
        if outcome is None:
            span.end()
            return
        span.set_attributes(lambda: outcome_attributes(outcome))
        span.end(outcome.stop_reason if outcome.status == "failed" else None)

    def _run_span(self, exchange: FollowedExchange, agent: str) -> SafeSpan | None:
        run, hide = exchange.run, exchange.hide
        if id(run) not in self._runs and run.follower.running:
            name = f"invoke_agent {agent}" if agent else "invoke_agent"
            self._runs[id(run)] = self._tracer.start_span(
                hide(name), lambda: _hidden(self._run_attributes(run, agent), hide)
            )
        return self._runs.get(id(run))

    def _run_attributes(self, run: AgentRun, agent: str) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": run.follower.session_id,
            "gen_ai.agent.name": agent or None,
            "gen_ai.request.model": run.follower.model or None,
            "gen_ai.provider.name": vendor_at(self._upstream) or None,
            **server_attributes(self._upstream),
        }

    def _request_attributes(self, exchange: FollowedExchange) -> dict[str, Any]:
        request = exchange.request
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": exchange.run.follower.session_id,
            "gen_ai.provider.name": vendor_at(self._upstream) or WIRE_PROVIDERS[exchange.wire.name],
            "gen_ai.request.model": request.model or None,
            "gen_ai.request.stream": request.streams,
            **server_attributes(self._upstream),
            **setting_attributes(exchange.wire.settings(request.body)),
        }


def _hidden(attributes: Mapping[str, Any], hide: Redact) -> dict[str, Any]:
    """Return the attributes without known secrets, because models, finish words and the like come from elsewhere."""
    return {name: _without_secrets(value, hide) for name, value in attributes.items()}


def _without_secrets(value: Any, hide: Redact) -> Any:
    match value:
        case str():
            return hide(value)
        case list() | tuple():
            return [_without_secrets(part, hide) for part in value]
        case _:
            return value


def _result_attributes(exchange: FollowedExchange) -> dict[str, Any]:
    """Return the result of a request: what the proxy did, why, and what the response used."""
    response = exchange.response
    said: dict[str, Any] = {
        "endstop.action": exchange.action,
        "endstop.reason": exchange.reason or None,
        "endstop.step": exchange.run.follower.facts.steps,
        "endstop.cut": exchange.cut is not None,
        "endstop.assembled": exchange.assembles,
        "endstop.budget_open": BUDGET in exchange.said,
    }
    if exchange.failure is not None:
        said["http.response.status_code"] = exchange.failure.status
    if response is None:
        return said
    finish = None if response.cut_at is not None else [response.finish]
    return {
        **said,
        "gen_ai.response.model": response.model or None,
        "gen_ai.response.finish_reasons": finish,
        **usage_attributes(response.usage),
    }
