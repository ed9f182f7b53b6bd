"""Metrics by OpenTelemetry, with its own SDK: the same names and numbers as in Prometheus' text."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from endstop import Engine
from endstop.decision import WrongUse
from endstop.observers import export_metrics
from endstop.providers import Scripted, call
from endstop.service.service import Service
from endstop.tools import finish_task
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ...prometheus_format import read
from ..temporary_store import TemporaryStore


def service() -> Service:
    provider = Scripted(lambda request: call("finish_task", summary="Done."))
    return Service(Engine(provider, presets=(finish_task,)), store=TemporaryStore(), grace=0)


def exported(reader: InMemoryMetricReader) -> dict[tuple[str, frozenset[Any]], float]:
    """Each number by name and labels; of histograms, how many values and their sum."""
    data, found = reader.get_metrics_data(), {}
    assert data is not None
    for metric in (m for r in data.resource_metrics for scope in r.scope_metrics for m in scope.metrics):
        for point in metric.data.data_points:
            labels = frozenset((point.attributes or {}).items())
            if hasattr(point, "bucket_counts"):
                found[f"{metric.name}_count", labels] = point.count
                found[f"{metric.name}_sum", labels] = point.sum
            else:
                found[metric.name, labels] = point.value
    return found


async def test_every_number_is_the_one_of_the_text() -> None:
    reader, measured = InMemoryMetricReader(), service()
    export_metrics(measured, MeterProvider([reader]))
    async with measured:
        for _ in range(2):
            session = await measured.start("Set the port")
            await measured.outcome(session.run_id or "", wait=60)
        async with asyncio.timeout(60):
            while measured.running:
                await asyncio.sleep(0.002)
        text = read(await measured.metrics.current_text())
        numbers = exported(reader)
    assert numbers["endstop_runs_ended_total", frozenset({("status", "completed"), ("reason", "completed")})] == 2
    assert numbers["endstop_store_reachable", frozenset()] == 1
    samples = {key: value for key, value in text.samples.items() if not key[0].endswith("_bucket")}
    empty = {key for key, value in samples.items() if key[0].endswith(("_count", "_sum")) and not value}
    assert {key: value for key, value in numbers.items() if key not in empty} == pytest.approx(
        {key: value for key, value in samples.items() if key not in empty}
    )


async def test_an_error_of_opentelemetry_is_logged_once_and_reaches_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Histogram:
        def record(self, *_: object) -> None:
            raise RuntimeError("no more memory")

    class Provider(MeterProvider):
        def get_meter(self, *given: Any, **named: Any) -> Any:
            meter = super().get_meter(*given, **named)
            meter.create_histogram = lambda *_, **__: Histogram()  # type: ignore[method-assign,assignment,return-value]
            return meter

    measured = service()
    export_metrics(measured, Provider([InMemoryMetricReader()]))
    with caplog.at_level(logging.WARNING, "endstop"):
        async with measured:
            session = await measured.start("Set the port")
            outcome = await measured.outcome(session.run_id or "", wait=60)
    assert outcome is not None
    assert outcome.status == "completed"
    assert [record.message.startswith("a metric could not be exported") for record in caplog.records].count(True) == 1


def test_what_is_no_meter_provider_is_refused() -> None:
    with pytest.raises(WrongUse, match="has no method `get_meter`"):
        export_metrics(service(), "http://collector")  # type: ignore[arg-type]
