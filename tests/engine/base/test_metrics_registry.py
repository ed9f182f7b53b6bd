"""The registry of metrics: values, and the text that Prometheus reads."""

from __future__ import annotations

import pytest
from endstop.base.metrics_registry import Metric, Metrics
from hypothesis import given
from hypothesis import strategies as st

from ...prometheus_format import read

COUNTER = Metric(name="c_total", kind="counter", labels=("a", "b"), meaning="A counter")
GAUGE = Metric(name="g", kind="gauge", labels=("a",), meaning="A gauge")
PLAIN = Metric(name="plain_total", kind="counter", meaning="A counter without labels")
HISTOGRAM = Metric(name="h_seconds", kind="histogram", labels=("a",), meaning="A histogram", buckets=(0.5, 1.0))
TABLE = (COUNTER, GAUGE, PLAIN, HISTOGRAM)


def test_a_counter_without_labels_is_there_from_the_beginning_and_others_once_they_have_a_value() -> None:
    assert read(Metrics(TABLE).text()).samples == {("plain_total", frozenset()): 0.0}


@given(st.text(), st.text())
def test_any_text_is_a_label(first: str, second: str) -> None:
    metrics = Metrics(TABLE)
    metrics.add(COUNTER, first, second, amount=2)
    assert read(metrics.text()).value("c_total", a=first, b=second) == 2


@given(st.lists(st.tuples(st.sampled_from("xy"), st.floats(0, 10))))
def test_a_histogram_counts_each_value_in_the_buckets_that_it_fits(given_values: list[tuple[str, float]]) -> None:
    metrics = Metrics(TABLE)
    for label, value in given_values:
        metrics.observe(HISTOGRAM, value, label)
    seen = read(metrics.text())
    for label in {label for label, _ in given_values}:
        values = [value for of, value in given_values if of == label]
        assert seen.value("h_seconds_bucket", a=label, le="0.5") == sum(value <= 0.5 for value in values)
        assert seen.value("h_seconds_bucket", a=label, le="1.0") == sum(value <= 1.0 for value in values)
        assert seen.value("h_seconds_count", a=label) == len(values)
        assert seen.value("h_seconds_sum", a=label) == pytest.approx(sum(values))


def test_setting_a_gauge_replaces_all_its_values_and_no_values_leave_it_out() -> None:
    metrics = Metrics(TABLE)
    metrics.set(GAUGE, {("x",): 1, ("y",): 2})
    metrics.set(GAUGE, {("y",): 3})
    assert read(metrics.text()).by("g", "a") == {"y": 3}
    metrics.set(GAUGE, {})
    assert "g" not in read(metrics.text()).kinds


def test_who_listens_gets_values_of_histograms_with_their_labels() -> None:
    metrics, seen = Metrics(TABLE), []
    metrics.listen(lambda metric, labels, value: seen.append((metric.name, labels, value)))
    metrics.observe(HISTOGRAM, 0.25, "x")
    metrics.add(PLAIN)
    assert seen == [("h_seconds", ("x",), 0.25)]
