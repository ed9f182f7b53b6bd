"""`POST /v1/traces` over real HTTP: OpenTelemetry's own exporter, its encodings, and what is refused."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from endstop import Engine, tool
from endstop.decision import POLICIES, Limits, Policy
from endstop.formats.otlp_protobuf import write_partial_success, write_status
from endstop.observers import traced
from endstop.providers import Scripted, call
from endstop.service import Receiving, Service
from endstop.testing import FakeClock
from endstop.tools import finish_task
from endstop.web import BearerTokens, WebLimits
from msgspec.structs import replace

from ..formats.test_otlp_spans import bare, file, openinference, openllmetry, span, today
from ..temporary_store import TemporaryStore
from .site import site

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the OTLP exporter is not installed")
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b716920333{}"
JSON = {"Content-Type": "application/json"}


def service(clock: FakeClock, **more: Any) -> Service:
    return Service({}, store=TemporaryStore(), receiving=Receiving(clock=clock, **more))


@contextmanager
def exporting(port: int, **more: Any) -> Iterator[TracerProvider]:
    """A tracer provider of OpenTelemetry's SDK, whose exporter sends to the server."""
    exporter = OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces", timeout=20, **more)
    provider = TracerProvider(resource=Resource.create({"service.name": "porter"}))
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100_000))
    try:
        yield provider
    finally:
        provider.shutdown()


@tool(reads=True)
def look(at: int) -> str:
    """Look at something."""
    return f"blue {at}"


def engine(provider: TracerProvider, content: bool) -> Engine:
    script = Scripted(*(call("look", at=at) for at in range(4)), call("finish_task", summary="All blue."))
    return traced(
        Engine(script, tools=[look, finish_task], policy=POLICIES["agent"]),
        provider,
        agent_name="painter",
        content=content,
    )


@pytest.mark.parametrize("packing", [Compression.NoCompression, Compression.Gzip])
@pytest.mark.parametrize("content", [True, False])
async def test_a_traced_run_sent_by_the_real_exporter_is_the_same_run_here(content: bool, packing: Any) -> None:
    clock = FakeClock()
    async with site(service(clock, policy=replace(Policy(), limits=Limits(steps=3)))) as at:
        with exporting(at.port, compression=packing) as provider:
            outcome = await engine(provider, content).run("What colour is it?")
            assert await asyncio.to_thread(provider.force_flush)
            assert at.service.receiver is not None
            await clock.advance(6)
            await at.service.receiver.sweep()
        metrics = (await at.client.get("/metrics")).text
        assert 'endstop_received_alarms_total{reason="step_limit"} 1\n' in metrics
        assert 'endstop_received_spans_total{kind="request"} 5\n' in metrics
        (session,) = (await at.client.get("/sessions")).json()["sessions"]
        assert (session["agent"], session["status"], session["steps"]) == ("otlp:porter", "completed", outcome.steps)
        assert session["title"] == ("What colour is it?" if content else "porter: contents not recorded")
        assert not session["can_resume"]
        run = (await at.client.get(f"/runs/{session['run_id']}")).json()
        assert run["outcome"]["usage"]["input_tokens"] == outcome.usage.input_tokens
        assert run["outcome"]["requests"] == outcome.requests
        if content:
            assert run["outcome"]["answer"] == outcome.answer
        async with at.stream(f"/runs/{run['id']}/events") as events:
            kinds = [event.data["type"] for event in await events.all()]
        assert kinds.count("ALARM_RAISED") == 1
        assert kinds[-1] == "RUN_FINISHED"
        record = await at.client.get(f"/sessions/{session['id']}/record")
        assert record.text.count('"type":"STEP_FINISHED"') == outcome.steps


def sent(*spans: dict[str, Any]) -> dict[str, Any]:
    """A request with these spans, each with ids of its own."""
    return file(*({**one, "traceId": TRACE, "spanId": SPAN.format(n)} for n, one in enumerate(spans)))


@pytest.mark.parametrize("form", [today, openllmetry, openinference])
async def test_the_three_conventions_in_json_are_one_session_each(form: Any) -> None:
    async with site(service(FakeClock())) as at:
        response = await at.client.post("/v1/traces", json=sent(span(10, form(1)), span(20, form(3))))
        assert (response.status_code, response.json()) == (200, {})
        (session,) = (await at.client.get("/sessions")).json()["sessions"]
        assert (session["status"], session["steps"], session["title"]) == ("running", 1, "Sky?")
        again = await at.client.post("/v1/traces", json=sent(span(10, form(1)), span(20, form(3))))
        assert again.status_code == 200
        assert at.service.receiver is not None
        assert at.service.receiver.counts.spans == {"request": 2, "repeated": 2}


async def test_spans_without_ids_are_counted_as_rejected_and_the_others_are_taken() -> None:
    async with site(service(FakeClock())) as at:
        good = sent(span(10, bare("stop")))["resourceSpans"][0]["scopeSpans"][0]["spans"]
        data = file(*good, span(20, bare("stop")), {**good[0], "traceId": "0" * 32})
        response = await at.client.post("/v1/traces", json=data)
        assert response.status_code == 200
        told = response.json()["partialSuccess"]
        assert told["rejectedSpans"] == "2"
        assert "no valid trace id" in told["errorMessage"]
        assert len((await at.client.get("/sessions")).json()["sessions"]) == 1


async def test_what_is_wrong_with_a_body_is_said_in_its_own_encoding() -> None:
    protobuf = {"Content-Type": "application/x-protobuf"}
    bomb = gzip.compress(b" " * 5_000_000)
    asked: list[tuple[bytes, dict[str, str], int, str]] = [
        (b"{", JSON, 400, "not JSON"),
        (b"[]", JSON, 400, "resourceSpans"),
        (b"\x0a\xff", protobuf, 400, "ExportTraceServiceRequest"),
        (b"x", {**JSON, "Content-Encoding": "gzip"}, 400, "not gzip"),
        (gzip.compress(b"{}")[:-3], {**JSON, "Content-Encoding": "gzip"}, 400, "cut off"),
        (bomb, {**JSON, "Content-Encoding": "gzip"}, 413, "unpacked"),
        (b" " * 2_000_000, JSON, 413, "larger than"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "application/x-protobuf"),
        (b"{}", {**JSON, "Content-Encoding": "br"}, 415, "gzip or none"),
    ]
    async with site(service(FakeClock()), limits=WebLimits(spans=1_000_000)) as at:
        for body, headers, status, says in asked:
            response = await at.client.post("/v1/traces", content=body, headers=headers)
            assert response.status_code == status, (body[:20], response.text)
            if headers == protobuf:
                assert response.headers["content-type"] == "application/x-protobuf"
                assert says.encode() in response.content
                assert response.content[:2] == b"\x08\x03"
            else:
                assert says in response.json()["message"], response.text
                assert response.json()["code"] == 3
        empty = await at.client.post("/v1/traces", content=b"", headers=protobuf)
        assert (empty.status_code, empty.content) == (200, b"")
        assert (await at.client.get("/v1/traces")).status_code == 405


async def test_tokens_rates_and_a_server_that_stops_are_told_as_exporters_understand_them() -> None:
    auth = BearerTokens({"alice": "a-long-token", "bob": "b-long-token"})
    async with site(service(FakeClock()), auth=auth, limits=WebLimits(requests_per_second=0.5)) as at:
        data = sent(span(10, today(1)))
        refused = await at.client.post("/v1/traces", json=data)
        assert (refused.status_code, refused.json()["code"]) == (401, 16)
        assert refused.headers["www-authenticate"].startswith("Bearer")
        hers = {"Authorization": "Bearer a-long-token"}
        assert (await at.client.post("/v1/traces", json=data, headers=hers)).status_code == 200
        assert len((await at.client.get("/sessions", headers=hers)).json()["sessions"]) == 1
        his = {"Authorization": "Bearer b-long-token"}
        assert (await at.client.get("/sessions", headers=his)).json()["sessions"] == []
        slow = await at.client.post("/v1/traces", json=data, headers=hers)
        while slow.status_code == 200:
            slow = await at.client.post("/v1/traces", json=data, headers=hers)
        assert (slow.status_code, slow.json()["code"]) == (429, 8)
        assert int(slow.headers["retry-after"]) >= 1
        at.service.begin_stopping()
        stopping = await at.client.post("/v1/traces", json=data, headers=his)
        assert (stopping.status_code, stopping.json()["code"]) == (503, 14)


async def test_without_the_option_there_is_no_such_path() -> None:
    async with site(Service({}, store=TemporaryStore())) as at:
        assert (await at.client.post("/v1/traces", json={})).status_code == 404
        shown = (await at.client.get("/metrics")).text
        assert "\nendstop_running_sessions 0\n" in shown
        assert "endstop_received" not in shown


def test_the_answers_in_protobuf_are_ones_that_exporters_can_read() -> None:
    answer = ExportTraceServiceResponse.FromString(write_partial_success(300, "no ids"))
    assert MessageToDict(answer) == {"partialSuccess": {"rejectedSpans": "300", "errorMessage": "no ids"}}
    assert ExportTraceServiceResponse.FromString(write_partial_success(0, "")) == ExportTraceServiceResponse()
    status = Status.FromString(write_status(14, "the server is stopping" * 20))
    assert (status.code, status.message) == (14, "the server is stopping" * 20)
