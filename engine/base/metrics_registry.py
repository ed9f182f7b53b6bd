"""Metrics of a process: their definitions, their values, and Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of durations, in seconds."""
OTHER = "other"
"""Value of a label for everything that is not one of its known values."""

Labels: TypeAlias = tuple[str, ...]
"""Values of a metric's labels, in the order of `Metric.labels`."""


class Metric(Struct, frozen=True, kw_only=True):
    """The definition of a metric."""

    name: str
    """Its full name; that of a counter ends with `_total`."""
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    """One sentence for people, without a full stop."""
    labels: tuple[str, ...] = ()
    """Names of its labels. Each has few values: never an id, an owner or a text of a user or a model."""
    unit: str = ""
    """What its values count, where the name does not say it: `USD`, for example."""
    buckets: tuple[float, ...] = ()
    """Of a histogram: the upper bounds of its buckets, ascending."""


class ValueHistogram:
    """How often values were at most so large. bounds: upper bounds of the buckets, ascending."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Yield each upper bound, as text, with the number of values up to it; the last one is `+Inf`."""
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield bound, total


OnValue = Callable[[Metric, Labels, float], None]
"""Receives each value that is observed in a histogram."""


class Metrics:
    """The values of some metrics in this process. For one thread.

    table: the metrics. A counter or histogram without labels exists from the beginning, with 0; one with labels once it
    has a value; a gauge once it is set.
    """

    def __init__(self, table: Sequence[Metric]) -> None:
        self.table = tuple(table)
        self._values: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, ValueHistogram]] = {}
        self._on_value: tuple[OnValue, ...] = ()
        for metric in self.table:
            first: tuple[Labels, ...] = () if metric.labels or metric.kind == "gauge" else ((),)
            if metric.kind == "histogram":
                self._histograms[metric.name] = {labels: ValueHistogram(metric.buckets) for labels in first}
            else:
                self._values[metric.name] = dict.fromkeys(first, 0)

    def listen(self, on_value: OnValue) -> None:
        """Call `on_value` with each value of a histogram from now on. It must neither wait nor raise."""
        self._on_value = (*self._on_value, on_value)

    def add(self, metric: Metric, *labels: str, amount: float = 1) -> None:
        """Add an amount, 0 or more, to a counter."""
        values = self._values[metric.name]
        values[labels] = values.get(labels, 0) + amount

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add a value to a histogram."""
        histograms = self._histograms[metric.name]
        histogram = histograms.get(labels)
        if histogram is None:
            histogram = histograms[labels] = ValueHistogram(metric.buckets)
        histogram.add(value)
        for on_value in self._on_value:
            on_value(metric, labels, value)

    def set(self, metric: Metric, values: Mapping[Labels, float]) -> None:
        """Replace all values of a gauge, or of a counter that is counted elsewhere. Empty: they are not known."""
        self._values[metric.name] = dict(values)

    def values(self, metric: Metric) -> Mapping[Labels, float]:
        """Return the values of a counter or gauge."""
        return self._values[metric.name]

    def histogram(self, metric: Metric, *labels: str) -> ValueHistogram:
        """Return a histogram; an empty one if it has no value yet."""
        return self._histograms[metric.name].get(labels) or ValueHistogram(metric.buckets)

    def text(self) -> str:
        """Return all values in Prometheus' text format."""
        return "".join(line for metric in self.table for line in self._lines(metric))

    def _lines(self, metric: Metric) -> Iterator[str]:
        if not (self._histograms if metric.kind == "histogram" else self._values)[metric.name]:
            return
        name = metric.name
        yield f"# HELP {name} {_escaped(metric.meaning)}.\n# TYPE {name} {metric.kind}\n"
        if metric.kind != "histogram":
            for labels, value in sorted(self._values[name].items()):
                yield f"{name}{_written(metric.labels, labels)} {value}\n"
            return
        for labels, histogram in sorted(self._histograms[name].items()):
            for bound, count in histogram.buckets():
                yield f"{name}_bucket{_written((*metric.labels, 'le'), (*labels, bound))} {count}\n"
            written = _written(metric.labels, labels)
            yield f"{name}_sum{written} {histogram.sum}\n{name}_count{written} {histogram.count}\n"


def known(value: str, among: Mapping[str, object] | frozenset[str]) -> str:
    """Return the value of a label if it is one of those that are known, and `OTHER` if it is not."""
    return value if value in among else OTHER


def _written(names: Sequence[str], values: Labels) -> str:
    pairs = ",".join(
        f'{name}="{quoted}"'
        for name, value in zip(names, values, strict=True)
        for quoted in [_escaped(value).replace('"', '\\"')]
    )
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
