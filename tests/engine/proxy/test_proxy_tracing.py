"""Spans of the proxy, with OpenTelemetry's own SDK: what was done with each request and why, and how runs ended."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from endstop.cli.main import main
from endstop.observers.otel.spans import environment_provider
from endstop.providers.prices import Prices
from endstop.proxy.day_budgets import DayBudgets
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from ...console import PATIENCE, started
from .agents import Provider, proxied, run_agent, serving
from .test_proxy_command import url_said_by
from .test_unstreamed_agents import GO, ChatProvider, Sends, endless, run_chat


class Seen:
    """The spans of one test."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def of(self, kind: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith(kind)]


def said(span: ReadableSpan, *names: str) -> tuple[Any, ...]:
    assert span.attributes is not None
    return tuple(span.attributes.get(f"endstop.{name}") for name in names)


@pytest.fixture
def seen() -> Seen:
    return Seen()


async def test_each_request_has_a_span_with_what_was_done_and_why_below_that_of_its_run(
    seen: Seen, tmp_path: Path
) -> None:
    async with proxied(Provider(), tmp_path, tracer_provider=seen.provider) as (url, client, _):
        assert await run_agent(url, client, streams=True) == (4, 200, "port is 8080", "answered")
    requests, (run,) = seen.of("chat m"), seen.of("invoke_agent")
    assert [said(one, "action", "reason", "cut") for one in requests] == [
        ("followed", None, False),
        ("followed", None, False),
        ("followed", "completion", True),
        ("answered", "completed", False),
    ]
    assert {one.parent and one.parent.span_id for one in requests} == {run.context and run.context.span_id}
    assert {one.kind for one in requests} == {SpanKind.CLIENT}
    assert said(run, "stop_reason", "status", "steps") == ("completed", "completed", 3)
    first = requests[0].attributes
    assert run.attributes is not None
    assert first is not None
    assert first["gen_ai.conversation.id"] == run.attributes["gen_ai.conversation.id"]
    assert first["gen_ai.operation.name"] == "chat"
    assert first["gen_ai.provider.name"] == "openai"
    assert (first["gen_ai.request.model"], first["gen_ai.request.stream"]) == ("m", True)
    assert first["server.address"] == "127.0.0.1"
    assert first["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert "gen_ai.response.finish_reasons" not in (requests[2].attributes or {})  # it was cut before it said why
    assert requests[2].attributes is not None
    assert requests[2].attributes["endstop.estimated"] is True
    told = "".join(one.to_json() for one in seen.exporter.get_finished_spans())
    assert not re.search(r"\b8080\b", told)  # as a word: times and ids may have these digits in them


async def test_a_stop_and_a_spent_budget_are_named(seen: Seen, tmp_path: Path) -> None:
    async with proxied(Provider(same=True), tmp_path, tracer_provider=seen.provider) as (url, client, _):
        await run_agent(url, client, streams=True)
    assert said(seen.of("chat")[-1], "action", "reason") == ("stopped", "stuck")
    (run,) = seen.of("invoke_agent")
    assert said(run, "stop_reason") == ("stuck",)
    seen.exporter.clear()
    budgets = DayBudgets({"output_tokens": 1.0}, {}, Prices())
    async with proxied(Provider(), tmp_path, tracer_provider=seen.provider, budgets=budgets) as (url, client, _):
        await run_agent(url, client, streams=True)
    assert said(seen.of("chat")[-1], "action", "reason") == ("stopped", "budget")
    assert len(seen.of("invoke_agent")) == 1  # ended with the proxy


async def test_a_response_for_an_agent_that_does_not_stream_says_that_it_was_assembled(
    seen: Seen, tmp_path: Path
) -> None:
    async with proxied(endless(ChatProvider), tmp_path, tracer_provider=seen.provider) as (url, _, _):
        await run_chat(url, streams=False)
    assert [said(one, "assembled", "cut") for one in seen.of("chat")] == [
        (True, False),
        (True, False),
        (True, True),
        (False, False),
    ]


async def test_a_request_lies_below_the_agents_own_span(seen: Seen, tmp_path: Path) -> None:
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    provider = Provider()
    async with (
        proxied(provider, tmp_path, tracer_provider=seen.provider) as (url, client, _),
        client.post(f"{url}/v1/chat/completions", json={**GO, "stream": True}, headers=headers) as reply,
    ):
        await reply.read()
    (one,) = seen.of("chat")
    assert one.context is not None
    assert one.parent is not None
    assert (f"{one.context.trace_id:032x}", f"{one.parent.span_id:016x}") == (trace_id, span_id)
    (passed,) = provider.headers
    assert {name.lower(): value for name, value in passed.items()}["traceparent"] == headers["traceparent"]


async def test_a_failure_of_the_provider_is_the_spans_error(seen: Seen, tmp_path: Path) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "slow down, sk-1"}}, status=429)

    provider = Sends(b"")
    provider.handle = refuse  # type: ignore[assignment, method-assign]
    async with (
        proxied(provider, tmp_path, tracer_provider=seen.provider) as (url, client, _),
        client.post(f"{url}/v1/chat/completions", json=GO) as reply,
    ):
        assert reply.status == 429
    (one,) = seen.of("chat")
    assert one.attributes is not None
    assert one.status.status_code is StatusCode.ERROR
    assert (one.attributes["error.type"], one.attributes["http.response.status_code"]) == ("rate_limit", 429)
    assert "sk-1" not in one.to_json()


class Raises(SpanProcessor):
    """Fails at each span."""

    def on_start(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    on_end = on_start


async def test_a_tracer_that_raises_is_not_noticed_by_agents(tmp_path: Path) -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(Raises())
    async with proxied(Provider(), tmp_path, tracer_provider=tracers) as (url, client, _):
        assert await run_agent(url, client, streams=True) == (4, 200, "port is 8080", "answered")


async def test_the_command_sends_its_spans_to_where_the_environment_says() -> None:
    provider = Provider()
    async with serving(provider.handle) as upstream, aiohttp.ClientSession() as client:
        options = ("--upstream", upstream, "--port", "0", "--trace")
        async with started("proxy", *options, env={"OTEL_TRACES_EXPORTER": "console"}) as process:
            url = await url_said_by(process)
            assert (await run_agent(url, client, streams=True))[0] == 4
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                _, err = await process.communicate()  # where all goes that is no answer of the command
    assert process.returncode == 0
    assert err.decode().count('"name": "chat m"') == 4
    assert err.decode().count('"name": "invoke_agent') == 1


@contextmanager
def without(monkeypatch: pytest.MonkeyPatch, module: str) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, module, None)
        yield


@pytest.mark.parametrize(
    ("module", "said"),
    [("opentelemetry", 'pip install "endstop[otel]"'), ("opentelemetry.sdk.trace", "needs OpenTelemetry's SDK")],
)
def test_what_is_missing_for_spans_is_said(
    module: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with without(monkeypatch, module):
        assert main(["proxy", "--upstream", "http://127.0.0.1:9", "--trace"]) == 2
    assert said in capsys.readouterr().err


def test_an_exporter_that_is_not_installed_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nowhere")
    assert main(["proxy", "--upstream", "http://127.0.0.1:9", "--trace"]) == 2
    assert "no exporter 'nowhere' (OTEL_TRACES_EXPORTER) is installed" in capsys.readouterr().err


def test_a_provider_that_somebody_set_up_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace

    own = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: own)
    provider, flush = environment_provider("--trace")
    flush()
    assert provider is own
