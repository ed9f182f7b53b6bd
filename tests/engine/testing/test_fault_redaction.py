"""`check_redaction` and `check_leaks`: ours holds, and a redaction or an engine with a defect is found."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest
import structlog
from endstop import Engine, Observers, RecordOptions, Redaction, Tool, WrongUse
from endstop.decision import events as ev
from endstop.observers.otel import traced
from endstop.providers import Provider
from endstop.records import event_redaction
from endstop.records.event_redaction import StreamRedactor, TextRedactor, redacted_fields
from endstop.testing.faults import (
    HARMLESS,
    SECRETS,
    FaultReport,
    check_leaks,
    check_redaction,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

LONG = pytest.mark.long


def broken(report: FaultReport) -> set[str]:
    assert all(violation.repeat in str(report) and violation.seen for violation in report.violations)
    return {violation.invariant for violation in report.violations}


# ---- the corpus


def test_each_kind_of_secret_is_named_once_and_drawn_anew() -> None:
    assert len({shape.kind for shape in SECRETS}) == len(SECRETS) >= 300
    for shape in SECRETS:
        text, secret = shape.example(Random(1))
        assert secret in text
        assert len(secret) >= 8
        assert (text, secret) == shape.example(Random(1))
    fixed = {shape.kind for shape in SECRETS if shape.example(Random(1))[1] == shape.example(Random(2))[1]}
    assert fixed == {"Basic", "IBAN", "card", "card with dashes", "e-mail"}


def test_the_harmless_texts_are_many_and_each_is_there_once() -> None:
    assert len(set(HARMLESS)) == len(HARMLESS) >= 1000
    assert any("data:image/png;base64," in text for text in HARMLESS)


# ---- a redaction


def test_our_own_redaction_is_within_its_bounds() -> None:
    report = check_redaction(Redaction())
    assert report.ok, report
    assert report.tried == 5 * len(SECRETS) + len(HARMLESS)
    assert report.ends["secrets missed"] < 0.02 * 5 * len(SECRETS)
    assert report.ends["harmless changed"] == 0
    assert "runs ended" not in str(report)


def test_a_redaction_that_finds_no_passwords_is_found() -> None:
    without = Redaction(kinds=["api_key", "token", "credentials", "private_key"])
    report = check_redaction(without, times=1)
    assert broken(report) == {"not_leaked"}
    kind = report.violations[0].fault
    again = check_redaction(without, kinds=[kind], harmless=[], times=1, most_missed=0)
    assert again.violations == [v for v in report.violations if v.fault == kind], "what a violation says repeats it"


def test_a_redaction_that_takes_everything_out_is_found() -> None:
    assert broken(check_redaction(lambda text: "[gone]", times=1)) == {"not_destroyed"}


@pytest.mark.parametrize(
    ("redact", "said"),
    [
        (lambda text: None, "returned NoneType"),
        (lambda text: text + str(id(object())) + str(next(NUMBERS)), "differently the second time"),
        (lambda text: text + "!", "redacted again"),
        (lambda text: text.encode("latin-1").decode(), "UnicodeEncodeError"),
    ],
)
def test_what_is_no_redaction_is_found(redact: Any, said: str) -> None:
    report = check_redaction(redact, times=1, most_missed=1, most_changed=1)
    assert broken(report) == {"redacts"}
    assert said in str(report)


NUMBERS = iter(range(10**9))


@pytest.mark.parametrize(
    ("redact", "options", "said"),
    [
        (None, {}, r"write check_leaks\(make_engine\)|give Redaction\(\)"),
        (Redaction, {}, r"give Redaction\(\)"),
        (Redaction(), {"kinds": ["nothing"]}, "give a list of names in SECRETS"),
        (Redaction(), {"kinds": "GitHub"}, "give a list of names in SECRETS"),
        (Redaction(), {"times": 0}, "1 or more"),
        (Redaction(), {"most_missed": 5}, "a share from 0 to 1"),
        (Redaction(), {"harmless": "a text"}, "must be a list"),
    ],
)
def test_arguments_that_cannot_work_are_refused(redact: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_redaction(redact, **options)


# ---- an engine


def make_engine(provider: Provider, tool: Tool, **options: Any) -> Engine:
    return Engine(provider, tools=[tool], record_options=RecordOptions(redact=Redaction()), **options)


@pytest.mark.parametrize("points", [40, pytest.param(None, marks=LONG)])
def test_nothing_that_the_redaction_finds_reaches_a_record_or_the_log(points: int | None) -> None:
    report = check_leaks(make_engine, points=points)
    print(report)
    assert report.ok, report
    assert report.tried > 0.9 * (points or len(SECRETS))
    assert set(report.ends) == {"completed"}


class Spans:
    """The spans of the runs, with the texts of the model."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def text(self) -> str:
        return "\n".join(span.to_json() for span in self.exporter.get_finished_spans())


def test_nothing_reaches_a_trace_either() -> None:
    spans = Spans()

    def make_traced(provider: Provider, tool: Tool) -> Engine:
        return traced(make_engine(provider, tool), spans.provider, content=True)

    report = check_leaks(make_traced, also=spans.text, points=10)
    assert report.ok, report
    assert "[redacted:" in spans.text()


@pytest.mark.parametrize("event", [ev.RunStarted, ev.ToolCallResult, ev.CompletionAccepted, ev.RunFinished])
def test_a_text_that_the_engine_forgets_to_redact_is_found(event: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_redaction, "redacted_fields", lambda kind: {} if kind is event else redacted_fields(kind))
    report = check_leaks(make_engine, points=3, seed=4)
    assert broken(report) == {"not_leaked"}
    kind = report.violations[0].fault.removeprefix("a secret, ")
    again = check_leaks(make_engine, kinds=[kind], points=[1], seed=4)
    assert [v.seen for v in again.violations] == [v.seen for v in report.violations if v.fault.endswith(kind)]


def test_a_redaction_of_single_pieces_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: StreamRedactor, event: Any) -> Any:
        return [self._texts.struct(event)]

    monkeypatch.setattr(StreamRedactor, "feed", at_once)
    assert "not_leaked" in broken(check_leaks(make_engine, points=5))


@pytest.mark.parametrize("log", [lambda text: structlog.get_logger().info(text), logging.getLogger("mine").error])
def test_a_subscriber_that_logs_the_texts_is_found(log: Any) -> None:
    def tells(event: Any, run: Any) -> None:
        if isinstance(event, ev.ToolCallResult):
            log(event.content)

    def make(provider: Provider, tool: Tool) -> Engine:
        return make_engine(provider, tool, observers=Observers(subscribers=[tells]))

    report = check_leaks(make, points=3)
    assert broken(report) == {"not_leaked"}
    assert all("the log" in violation.seen for violation in report.violations)


def test_an_engine_that_destroys_harmless_texts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextRedactor, "text", lambda self, text: "[gone]")
    assert broken(check_leaks(make_engine, points=3)) == {"not_destroyed"}


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (lambda provider, tool: Engine(provider, tools=[tool]), {}, "redacts nothing"),
        (lambda provider, tool: None, {}, "make_engine returned None"),
        (make_engine, {"points": 0}, "give a number of points"),
        (make_engine, {"kinds": ["nothing"]}, "give a list of names in SECRETS"),
    ],
)
def test_an_engine_that_cannot_be_tried_is_refused(make: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_leaks(make, **options)


async def test_inside_a_running_loop_it_says_what_to_write() -> None:
    with pytest.raises(WrongUse, match=r"asyncio\.to_thread\(check_leaks"):
        check_leaks(make_engine)
