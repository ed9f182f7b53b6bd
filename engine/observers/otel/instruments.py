"""`export_metrics`: the metrics of a service as OpenTelemetry's, under the same names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ...base.metrics_registry import Labels, Metric
from ...decision.errors import error_text
from ...decision.wrong_calls import explained
from ...providers._logging import log_warning
from .spans import open_meter

if TYPE_CHECKING:
    from .spans import MeterProvider

REFRESH_SECONDS = 15.0
"""How often the numbers are asked for that are not counted as things happen, such as those of the store."""


class RefreshedMetrics(Protocol):
    """Metrics some of which are only set when they are asked for."""

    @property
    def table(self) -> tuple[Metric, ...]:
        """The metrics."""
        ...

    def values(self, metric: Metric) -> Mapping[Labels, float]:
        """Return the values of a counter or gauge."""
        ...

    def listen(self, on_value: Callable[[Metric, Labels, float], None]) -> None:
        """Call `on_value` with each value of a histogram."""
        ...

    async def refresh(self) -> None:
        """Set those that are not counted as things happen."""
        ...


class Measured(Protocol):
    """A service: what has metrics, and enters contexts while it is open."""

    @property
    def metrics(self) -> RefreshedMetrics:
        """Its metrics."""
        ...

    def add_context(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        """Enter a context manager made by `make` each time it opens, and leave it when it closes."""
        ...


@explained
def export_metrics(service: Measured, meter_provider: MeterProvider | None = None) -> None:
    """Let OpenTelemetry export the metrics of a service. Call it once, before the service opens.

    meter_provider: where they go; OpenTelemetry's global provider if left out. Numbers of the store are up to
    `REFRESH_SECONDS` old. An error of OpenTelemetry is logged once and does not reach a run.

    Raises WrongUse if OpenTelemetry is not installed.
    """
    meter, observation = open_meter(meter_provider)
    histograms: dict[str, Any] = {}

    def observe(metric: Metric, _options: Any) -> Iterable[Any]:
        values = tuple(service.metrics.values(metric).items())  # at once: this may be another thread
        return [observation(value, dict(zip(metric.labels, labels, strict=True))) for labels, value in values]

    for metric in service.metrics.table:
        about = {"unit": _unit(metric), "description": metric.meaning}
        if metric.kind == "histogram":
            histograms[metric.name] = meter.create_histogram(
                metric.name, **about, explicit_bucket_boundaries_advisory=metric.buckets
            )
        elif metric.kind == "gauge":
            meter.create_observable_gauge(metric.name, [partial(observe, metric)], **about)
        else:
            meter.create_observable_counter(metric.name, [partial(observe, metric)], **about)
    service.metrics.listen(_Recorder(histograms).record)
    service.add_context(partial(_kept_fresh, service.metrics.refresh))


class _Recorder:
    """Records the values of histograms; what OpenTelemetry raises is logged once."""

    def __init__(self, histograms: Mapping[str, Any]) -> None:
        self._histograms = histograms
        self._warned = False

    def record(self, metric: Metric, labels: Labels, value: float) -> None:
        histogram = self._histograms.get(metric.name)
        if histogram is None:
            return
        try:
            histogram.record(value, dict(zip(metric.labels, labels, strict=True)))
        except Exception as error:
            if not self._warned:
                self._warned = True
                log_warning("a metric could not be exported", name=metric.name, error=error_text(error))


@contextmanager
def _kept_fresh(refresh: Callable[[], Awaitable[None]]) -> Iterator[None]:
    task = asyncio.create_task(_refresh_forever(refresh), name="endstop metrics")
    try:
        yield
    finally:
        task.cancel()


async def _refresh_forever(refresh: Callable[[], Awaitable[None]]) -> None:
    while True:
        await refresh()
        await asyncio.sleep(REFRESH_SECONDS)


def _unit(metric: Metric) -> str:
    return metric.unit or ("s" if metric.name.endswith("_seconds") else "")
