"""Spans of runs, with OpenTelemetry's own SDK: what they say, and that they belong to the run."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from endstop import Completion, Engine, ModelOptions, RecordOptions, Redaction, Runtime, Tool, tool
from endstop.decision import (
    Compaction,
    Image,
    Limits,
    Outcome,
    Policy,
    Status,
    ToolCall,
    Usage,
    UsageReport,
    WrongUse,
)
from endstop.formats.genai_attributes import agent_finish_reason, call_attributes
from endstop.observers import traced
from endstop.observers.otel.attributes import provider_attributes, provider_name
from endstop.providers import (
    Chaos,
    Fallback,
    LiteLLM,
    OpenAICompatible,
    Race,
    RateLimited,
    Retry,
    Scripted,
    Unauthorized,
    call,
    say,
)
from endstop.testing import FakeClock, settle
from endstop.tools import ask_user, finish_task
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from ...captured_logs import capture_logs


class Seen:
    """The spans of one test."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("the test's own")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def tree(self) -> list[str]:
        """`child < parent` in the order in which spans began."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        told = []
        for span in sorted(self.spans, key=lambda span: span.start_time or 0):
            told.append(f"{span.name} < {names[span.parent.span_id]}" if span.parent else span.name)
        return told


@pytest.fixture
def seen(caplog: pytest.LogCaptureFixture) -> Iterator[Seen]:
    """Spans, and no complaint of OpenTelemetry's by the end."""
    with caplog.at_level(logging.WARNING, logger="opentelemetry"):
        yield Seen()
    assert [record.message for record in caplog.records if record.name.startswith("opentelemetry")] == []


def of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@tool(reads=True)
async def read_file(path: str) -> str:
    """Read a file."""
    return f"the text of {path}"


async def test_a_run_its_requests_and_its_calls_are_spans_of_the_conventions(seen: Seen) -> None:
    provider = Scripted(
        [say("I look."), call("read_file", id="c1", path="a.txt")],
        [call("finish_task", id="c2", summary="All is read.")],
        model="some-model",
        usage=Usage(input_tokens=100, output_tokens=20, cached_tokens=60, reasoning_tokens=5),
    )
    settings = {"temperature": 1, "max_tokens": 500, "stop": "END", "seed": 7, "unknown": "x"}
    engine = Engine(provider, tools=[read_file], model_options=ModelOptions(settings=settings))
    outcome = await traced(engine, seen.provider, agent_name="porter", agent_id="a1").run("Read it.")
    assert seen.tree() == [
        "invoke_agent porter",
        "chat some-model < invoke_agent porter",
        "execute_tool read_file < invoke_agent porter",
        "chat some-model < invoke_agent porter",
        "execute_tool finish_task < invoke_agent porter",
    ]
    run, read = seen.one("invoke_agent porter"), seen.one("execute_tool read_file")
    first, second = sorted((s for s in seen.spans if s.name == "chat some-model"), key=lambda s: s.start_time or 0)
    assert (run.kind, first.kind, read.kind) == (SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL)
    estimated = outcome.usage.input_tokens - 100, outcome.usage.output_tokens - 20
    assert of(run) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.agent.name": "porter",
        "gen_ai.agent.id": "a1",
        "gen_ai.conversation.id": outcome.session_id,
        "gen_ai.request.model": "some-model",
        "gen_ai.usage.input_tokens": 100 + estimated[0],
        "gen_ai.usage.output_tokens": 20 + estimated[1],
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.agent.finish_reason": "completed",
        "endstop.run_id": outcome.run_id,
        "endstop.stop_reason": "completed",
        "endstop.status": "completed",
        "endstop.steps": 2,
        "endstop.verdict": "not_run",
        "endstop.work": "said",
        "endstop.estimated": True,
    }
    assert of(first).pop("gen_ai.response.time_to_first_chunk") >= 0
    assert {k: v for k, v in of(first).items() if k != "gen_ai.response.time_to_first_chunk"} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.conversation.id": outcome.session_id,
        "gen_ai.request.model": "some-model",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.max_tokens": 500,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.seed": 7,
        "gen_ai.response.model": "some-model",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "endstop.attempt": "1.1",
        "endstop.cut": False,
        "endstop.estimated": False,
    }
    cut = of(second)
    assert (cut["endstop.cut"], cut["endstop.estimated"]) == (True, True)
    assert (cut["gen_ai.usage.input_tokens"], cut["gen_ai.usage.output_tokens"]) == estimated
    assert "gen_ai.response.finish_reasons" not in cut
    assert of(read) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read_file",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "endstop.tool.kind": "ordinary",
        "endstop.tool.status": "ok",
    }
    completion = of(seen.one("execute_tool finish_task"))
    assert (completion["endstop.tool.kind"], completion["endstop.tool.status"]) == ("completion", "ok")
    assert {span.status.status_code for span in seen.spans} == {StatusCode.UNSET}
    scope = run.instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == ("endstop", "https://opentelemetry.io/schemas/1.41.1")


async def test_nothing_that_was_said_is_in_a_span(seen: Seen) -> None:
    @tool
    async def leak(word: str) -> str:
        """Raise a secret."""
        raise ValueError(f"secret {word}")

    provider = Scripted(
        [say("secret text"), call("leak", word="secret")], [call("leak", word="secret")], Unauthorized("secret key")
    )
    outcome = await traced(Engine(provider, tools=[leak], system="secret rule"), seen.provider).run("secret prompt")
    assert outcome.stop_reason == "provider_error"
    assert len(seen.spans) == 6
    assert "secret" not in "".join(span.to_json() for span in seen.spans)


async def test_what_was_said_is_there_if_it_is_asked_for_and_redacted_as_in_records(seen: Seen) -> None:
    @tool(reads=True)
    async def look(mail: str) -> list[Any]:
        """Look at somebody."""
        return [f"{mail} waves", Image(b"12345")]

    provider = Scripted(
        [say("I look."), call("look", id="c1", mail="jane@example.com")],
        [say("jane@example.com waves.")],
    )
    engine = Engine(
        provider,
        tools=[look],
        system="Be brief.",
        record_options=RecordOptions(redact=Redaction(key=b"0123456789abcdef")),
    )
    await traced(engine, seen.provider, content=True).run("What does jane@example.com do?")
    told = "".join(span.to_json() for span in seen.spans)
    assert "jane" not in told
    assert "[redacted:email:" in told
    chat = max((s for s in seen.spans if s.name == "chat scripted"), key=lambda s: s.start_time or 0)
    asked = msgspec.json.decode(of(chat)["gen_ai.input.messages"])
    assert [message["role"] for message in asked] == ["system", "user", "assistant", "tool"]
    assert asked[0]["parts"] == [{"type": "text", "content": "Be brief."}]
    assert [part["type"] for part in asked[2]["parts"]] == ["text", "tool_call"]
    assert list(asked[2]["parts"][1]["arguments"]) == ["mail"]
    assert asked[3]["parts"][0]["id"] == "c1"
    assert asked[3]["parts"][1] == {"type": "text", "content": "[image: image/png, 5 bytes]"}
    (said,) = msgspec.json.decode(of(chat)["gen_ai.output.messages"])
    assert (said["role"], said["finish_reason"]) == ("assistant", "stop")
    looked = of(seen.one("execute_tool look"))
    assert looked["gen_ai.tool.call.arguments"].startswith('{"mail":"[redacted:email:')
    assert "waves" in looked["gen_ai.tool.call.result"]
    run = of(seen.one("invoke_agent endstop"))
    assert {"gen_ai.input.messages", "gen_ai.output.messages"} <= set(run)


async def test_what_a_tool_and_the_provider_do_lies_below_their_spans_and_the_run_below_its_caller(seen: Seen) -> None:
    @tool
    async def outer(path: str) -> str:
        """Do something that is traced itself."""
        with seen.tracer.start_as_current_span("in the tool"):
            await asyncio.sleep(0)
        return "done"

    @tool
    def threaded(path: str) -> str:
        """The same, in a thread."""
        with seen.tracer.start_as_current_span("in the thread"):
            return "done"

    class Wired(Scripted):
        def _play(self, response: Any, number: int) -> Any:
            async def play() -> Any:
                with seen.tracer.start_as_current_span("over the wire"):
                    async for chunk in Scripted._play(self, response, number):
                        yield chunk

            return play()

    provider = Wired([call("outer", path="a"), call("threaded", path="b")], "Done.")
    with seen.tracer.start_as_current_span("the caller"):
        await traced(Engine(provider, tools=[outer, threaded]), seen.provider).run("Go")
        assert trace.get_current_span().name == "the caller"  # type: ignore[attr-defined]
    assert seen.tree() == [
        "the caller",
        "invoke_agent endstop < the caller",
        "chat scripted < invoke_agent endstop",
        "over the wire < chat scripted",
        "execute_tool outer < invoke_agent endstop",
        "in the tool < execute_tool outer",
        "execute_tool threaded < invoke_agent endstop",
        "in the thread < execute_tool threaded",
        "chat scripted < invoke_agent endstop",
        "over the wire < chat scripted",
    ]
    assert len({span.context.trace_id for span in seen.spans if span.context}) == 1


async def test_reading_tools_that_start_while_the_response_streams_are_siblings(seen: Seen) -> None:
    gate, both = anyio.Event(), anyio.Event()
    running: list[str] = []

    @tool(reads=True)
    async def wait_for(name: str) -> str:
        """Wait for the other one."""
        running.append(name)
        if len(running) == 2:
            both.set()
        await both.wait()
        with seen.tracer.start_as_current_span(f"in {name}"):
            return name

    class Gate:
        async def wait(self) -> None:
            await both.wait()
            gate.set()

    provider = Scripted([call("wait_for", name="a"), call("wait_for", name="b"), say("."), Gate()], "Done.")
    await traced(Engine(provider, tools=[wait_for]), seen.provider).run("Go")
    assert gate.is_set(), "both ran while the response was still streaming"
    tree = seen.tree()
    assert tree.count("execute_tool wait_for < invoke_agent endstop") == 2
    parents = {s.name: s.parent.span_id for s in seen.spans if s.name.startswith("in ") and s.parent}
    assert parents["in a"] != parents["in b"]


async def test_a_run_inside_a_tool_lies_below_its_call(seen: Seen) -> None:
    inner = traced(Engine(Scripted("inner answer", model="inner")), seen.provider, agent_name="helper")

    @tool
    async def ask_helper(question: str) -> str:
        """Ask another agent."""
        return (await inner.run(question)).answer

    outer = Engine(Scripted([call("ask_helper", question="?")], "Done.", model="outer"), tools=[ask_helper])
    await traced(outer, seen.provider, agent_name="chief").run("Go")
    assert "invoke_agent helper < execute_tool ask_helper" in seen.tree()
    assert "chat inner < invoke_agent helper" in seen.tree()


async def test_runs_side_by_side_do_not_mix(seen: Seen) -> None:
    def script(request: Any) -> Any:
        return say("Done.") if len(request.messages) > 2 else call("read_file", path=request.messages[-1].text)

    engine = traced(Engine(Scripted(script), tools=[read_file], system=""), seen.provider)
    outcomes = await asyncio.gather(*(engine.run(f"file {n}") for n in range(20)))
    by_trace: dict[int, list[ReadableSpan]] = {}
    for span in seen.spans:
        assert span.context is not None
        by_trace.setdefault(span.context.trace_id, []).append(span)
    assert len(by_trace) == 20
    found = set()
    for spans in by_trace.values():
        (root,) = [span for span in spans if span.parent is None]
        assert root.context is not None
        assert sorted(s.name for s in spans) == [
            "chat scripted",
            "chat scripted",
            "execute_tool read_file",
            "invoke_agent endstop",
        ]
        assert {s.parent.span_id for s in spans if s.parent} == {root.context.span_id}
        sessions = {of(s)["gen_ai.conversation.id"] for s in spans if "gen_ai.conversation.id" in of(s)}
        assert sessions == {of(root)["gen_ai.conversation.id"]}
        found |= sessions
    assert found == {outcome.session_id for outcome in outcomes}


async def test_failed_attempts_are_events_of_their_request(seen: Seen) -> None:
    provider = Retry(
        Scripted(RateLimited("slow down", status=429, retry_after=0), "Done.", model="a"), first_wait=0, longest_wait=0
    )
    await traced(Engine(provider), seen.provider).run("Go")
    chat = seen.one("chat a")
    (event,) = chat.events
    assert event.name == "endstop.attempt_failed"
    assert dict(event.attributes or {}) == {
        "gen_ai.request.model": "a",
        "error.type": "rate_limit",
        "http.response.status_code": 429,
        "endstop.retry_after": 0,
        "endstop.beside": False,
    }
    assert chat.status.status_code is StatusCode.UNSET
    assert of(chat)["gen_ai.response.finish_reasons"] == ("stop",)


async def test_the_model_that_was_heard_is_named_where_several_were_asked(seen: Seen) -> None:
    provider = Fallback(Scripted(Unauthorized("no"), model="a"), Scripted("Done.", model="b"))
    await traced(Engine(provider), seen.provider).run("Go")
    chat = of(seen.one("chat a"))
    assert (chat["gen_ai.request.model"], chat["gen_ai.response.model"]) == ("a", "b")


async def test_a_provider_that_gives_up_is_an_error_of_request_and_run(seen: Seen) -> None:
    outcome = await traced(Engine(Scripted(Unauthorized("bad", status=401))), seen.provider).run("Go")
    assert outcome.status == "failed"
    chat, run = seen.one("chat scripted"), seen.one("invoke_agent endstop")
    assert (of(chat)["error.type"], chat.status.status_code) == ("auth", StatusCode.ERROR)
    assert (of(run)["error.type"], run.status.status_code) == ("provider_error", StatusCode.ERROR)
    assert (chat.status.description, run.status.description) == (None, None)
    assert len(chat.events) == 1


async def test_a_stream_that_ends_without_a_finish_is_an_error_of_the_request(seen: Seen) -> None:
    class Short(Scripted):
        def _play(self, response: Any, number: int) -> Any:
            async def play() -> Any:
                for chunk in response:
                    yield chunk

            return play()

    await traced(Engine(Short(say("half"))), seen.provider).run("Go")
    chat = seen.one("chat scripted")
    assert (of(chat)["error.type"], chat.status.status_code) == ("interrupted", StatusCode.ERROR)


@pytest.mark.parametrize("moment", ["the response", "a tool"])
async def test_a_cancelled_run_leaves_no_span_open_and_none_current(seen: Seen, moment: str) -> None:
    there = anyio.Event()

    @tool
    async def hang(why: str) -> str:
        """Wait for ever."""
        there.set()
        await anyio.sleep_forever()
        return ""

    class Stall:
        async def wait(self) -> None:
            there.set()
            await anyio.sleep_forever()

    script = Scripted([say("a"), Stall()]) if moment == "the response" else Scripted([call("hang", why="x")])
    async with traced(Engine(script, tools=[hang]), seen.provider).start("Go") as run:
        await there.wait()
        run.cancel("disconnect")
        outcome = await run.wait()
    assert outcome.status == "cancelled"
    assert not trace.get_current_span().get_span_context().is_valid
    root = seen.one("invoke_agent endstop")
    assert of(root)["endstop.status"] == "cancelled"
    assert {span.status.status_code for span in seen.spans} == {StatusCode.UNSET}
    if moment == "a tool":
        assert of(seen.one("execute_tool hang"))["endstop.tool.status"] == "cancelled"
    else:
        assert [event.name for event in seen.one("chat scripted").events] == ["endstop.cancelled"]


async def test_a_run_whose_task_is_cancelled_from_outside_ends_its_spans(seen: Seen) -> None:
    there = anyio.Event()

    class Stall:
        async def wait(self) -> None:
            there.set()
            await anyio.sleep_forever()

    async def main() -> None:
        await traced(Engine(Scripted([Stall()])), seen.provider).run("Go")

    task = asyncio.create_task(main())
    await there.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert of(seen.one("invoke_agent endstop"))["endstop.stop_reason"] == "cancelled"
    assert seen.one("chat scripted").end_time is not None


async def test_a_crash_is_an_error_of_the_run(seen: Seen) -> None:
    @tool
    async def misuse(x: str) -> str:
        """Raise what is nobody's result."""
        raise WrongUse("wrong")

    outcome = await traced(Engine(Scripted([call("misuse", x="a")]), tools=[misuse]), seen.provider).run("Go")
    assert outcome.stop_reason == "internal_error"
    run = seen.one("invoke_agent endstop")
    assert (of(run)["error.type"], run.status.status_code) == ("internal_error", StatusCode.ERROR)
    assert seen.one("execute_tool misuse").end_time is not None


async def test_how_calls_end_is_told_of_each(seen: Seen) -> None:
    clock = FakeClock()

    @tool
    async def fails(x: str) -> str:
        """Fail."""
        raise KeyError("x")

    @tool(timeout=5)
    async def slow(x: str) -> str:
        """Take too long."""
        await clock.sleep(100)
        return ""

    @tool(kind="completion")
    async def submit(text: str) -> Completion:
        """Hand in."""
        return Completion(answer=text, success=text == "good", error="Not good.")

    provider = Scripted(
        [call("fails", x="1"), call("slow", x="2"), call("nobody"), call("fails")],
        [call("submit", text="bad")],
        [call("submit", text="good")],
    )
    engine = traced(Engine(provider, tools=[fails, slow, submit], runtime=Runtime(clock=clock)), seen.provider)
    async with engine.start("Go") as run:
        await settle()
        await clock.advance(6)
        await run.wait()
    calls = [span for span in seen.spans if span.name.startswith("execute_tool")]
    told = [(s.name[13:], of(s)["endstop.tool.status"], of(s).get("error.type")) for s in calls]
    assert told == [
        ("fails", "error", "KeyError"),
        ("slow", "error", "timeout"),
        ("submit", "rejected", None),
        ("submit", "ok", None),
    ]
    assert [s.status.status_code is StatusCode.ERROR for s in calls] == [True, True, False, False]


async def test_a_question_stays_open_and_its_answer_is_another_run_of_the_same_conversation(seen: Seen) -> None:
    provider = Scripted([call("ask_user", id="q", question="Which?")], "Done.")
    session = traced(Engine(provider, tools=[ask_user]), seen.provider).session()
    await session.run("Go")
    assert of(seen.one("execute_tool ask_user"))["endstop.tool.status"] == "open"
    await session.answer("q", "This one.")
    runs = [span for span in seen.spans if span.name == "invoke_agent endstop"]
    assert [of(span)["endstop.status"] for span in runs] == ["awaiting_input", "completed"]
    assert {of(span)["gen_ai.conversation.id"] for span in runs} == {session.id}


async def test_an_early_call_of_a_void_attempt_ends_as_cancelled(seen: Seen) -> None:
    @tool(reads=True)
    async def hang(x: str) -> str:
        """Wait for ever, the first time."""
        if x == "1":
            await anyio.sleep_forever()
        return "ok"

    class Yield:
        async def wait(self) -> None:
            await settle()

    provider = Retry(
        Scripted(
            [call("hang", id="c", x="1"), say("."), Yield(), RateLimited("late")], [call("hang", id="c", x="2")], "D."
        ),
        first_wait=0,
        longest_wait=0,
    )
    await traced(Engine(provider, tools=[hang]), seen.provider).run("Go")
    told = sorted(of(s)["endstop.tool.status"] for s in seen.spans if s.name == "execute_tool hang")
    assert told == ["cancelled", "ok"]


async def test_a_race_of_models_has_one_request_and_the_loser_is_an_event(seen: Seen) -> None:
    stall = anyio.Event()
    provider = Race(Scripted([stall, "late"], model="slow"), Scripted("Done.", model="fast"))
    await traced(Engine(provider), seen.provider).run("Go")
    chat = seen.one("chat slow | fast")
    assert of(chat)["gen_ai.response.model"] == "fast"
    assert [(e.name, (e.attributes or {})["endstop.beside"]) for e in chat.events] == [("endstop.attempt_failed", True)]


async def test_engines_in_a_race_and_a_fleet_are_traced_with_their_own_models(seen: Seen) -> None:
    engine = traced(Engine(Scripted("never asked")), seen.provider)
    await engine.race("Go", [Scripted("Done.", model="a"), Scripted("Done.", model="b")], compare=True)
    assert sorted(s.name for s in seen.spans if s.name.startswith("chat")) == ["chat a", "chat b"]


class Broken(SpanProcessor):
    """Raises wherever it is asked."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("on_start")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("on_end")


class BrokenAtTheEnd(Broken):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        pass


class BrokenExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("export")


@pytest.mark.parametrize(
    "processor", [Broken(), BrokenAtTheEnd(), SimpleSpanProcessor(BrokenExporter())], ids=["start", "end", "export"]
)
async def test_what_collects_spans_cannot_hurt_a_run(processor: SpanProcessor) -> None:
    provider = TracerProvider()
    provider.add_span_processor(processor)
    script = [call("read_file", path="a")], [call("finish_task", summary="Done.")]
    logging.disable(logging.CRITICAL)  # the SDK says of the exporter what is wrong
    try:
        with capture_logs() as logs:
            outcome = await traced(Engine(Scripted(*script), tools=[read_file]), provider).run("Go")
    finally:
        logging.disable(logging.NOTSET)
    assert (outcome.stop_reason, outcome.answer) == ("completed", "Done.")
    assert [line["event"] for line in logs] in ([], ["tracing failed, and the run continues without it"])


async def test_a_run_is_the_same_with_and_without_tracing(seen: Seen) -> None:
    def script() -> Any:
        flaky = Scripted(
            [say("I look."), call("read_file", id="c1", path="a")],
            RateLimited("slow"),
            [call("finish_task", id="c2", summary="Done.")],
        )
        return Engine(Retry(flaky, first_wait=0, longest_wait=0), tools=[read_file], runtime=Runtime(clock=FakeClock()))

    told = []
    for engine in (script(), traced(script(), seen.provider)):
        async with engine.session("s").start("Go") as run:
            events = [event async for event in run]
        told.append([(type(e), getattr(e, "delta", None), getattr(e, "usage", None)) for e in events])
    assert told[0] == told[1]


TENANT: ContextVar[str] = ContextVar("TENANT", default="nobody")


async def test_context_variables_set_before_a_run_are_seen_in_it_and_changes_in_it_stay_in_it() -> None:
    heard: list[tuple[str, str]] = []

    @tool
    async def waiting(x: str) -> str:
        """Look, and change it."""
        heard.append(("async tool", TENANT.get()))
        TENANT.set("changed by a tool")
        return x

    @tool
    def threaded(x: str) -> str:
        """Look in a thread, and change it."""
        heard.append(("thread", TENANT.get()))
        TENANT.set("changed in a thread")
        return x

    def script(request: Any) -> Any:
        heard.append(("provider", TENANT.get()))
        return "Done." if len(request.messages) > 2 else [call("threaded", x="1"), call("waiting", x="2")]

    engine = Engine(Scripted(script), tools=[waiting, threaded])
    TENANT.set("acme")
    async with engine.start("Go") as run:
        TENANT.set("somebody else")
        await run.wait()
    assert TENANT.get() == "somebody else"
    assert heard[:3] == [("provider", "acme"), ("thread", "acme"), ("async tool", "acme")]


async def test_a_tracer_is_refused_that_is_none_and_an_engine_that_is_traced_already(seen: Seen) -> None:
    engine = Engine(Scripted("Done."))
    with pytest.raises(WrongUse, match="no method `get_tracer`"):
        traced(engine, "console")  # type: ignore[arg-type]
    with pytest.raises(WrongUse, match="traced already"):
        traced(traced(engine, seen.provider), seen.provider)


def test_without_opentelemetry_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(WrongUse, match=r'pip install "endstop\[otel\]"'):
        traced(Engine(Scripted("Done.")))


async def test_a_run_that_is_not_sampled_costs_no_attributes_and_passes_its_trace_on(seen: Seen) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    traces = []

    @tool
    async def look(x: str) -> str:
        """Look at the trace."""
        traces.append(trace.get_current_span().get_span_context())
        return x

    outcome = await traced(Engine(Scripted([call("look", x="1")], "Done."), tools=[look]), provider).run("Go")
    assert outcome.status == "completed"
    assert traces[0].is_valid
    assert not traces[0].trace_flags.sampled


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        (LiteLLM("anthropic/claude-sonnet-4-5"), "anthropic"),
        (LiteLLM("bedrock/anthropic.claude-3"), "aws.bedrock"),
        (LiteLLM("claude-sonnet-4-5"), "anthropic"),
        (LiteLLM("gpt-4o"), "openai"),
        (LiteLLM("qwen"), "litellm"),
        (LiteLLM("openai/qwen", api_base="http://127.0.0.1:9/v1"), "openai"),
        (OpenAICompatible("qwen", "http://127.0.0.1:9/v1"), "openai"),
        (OpenAICompatible("mistral-large", "https://api.mistral.ai/v1"), "mistral_ai"),
        (Retry(Chaos(Scripted("x"))), "scripted"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{type(value).__name__} of {value.model}",
)
def test_providers_have_the_conventions_names(provider: Any, name: str) -> None:
    assert provider_name(provider) == name


def test_an_address_that_was_set_by_hand_is_told_without_its_password() -> None:
    told = provider_attributes(OpenAICompatible("qwen", "http://user:pass@127.0.0.1:81/v1"))
    assert (told["server.address"], told["server.port"]) == ("127.0.0.1", 81)
    assert "pass" not in str(told)


def test_tools_whose_names_changed_are_told_by_the_new_one() -> None:
    renamed: Tool = finish_task.renamed("done")
    assert call_attributes(ToolCall("c", "done"), renamed.kind)["gen_ai.tool.name"] == "done"


async def test_a_response_that_is_read_on_after_its_cut_was_cut_all_the_same(seen: Seen, tmp_path: Path) -> None:
    provider = Scripted([call("finish_task", summary="Done."), say(" and more"), UsageReport(Usage(output_tokens=9))])
    engine = traced(Engine(provider), seen.provider)
    await engine.run("Go", record=tmp_path / "r.jsonl", drain=True)
    chat = of(seen.one("chat scripted"))
    assert (chat["endstop.cut"], chat["endstop.estimated"]) == (True, True)
    assert provider.sent == [4], "the rest was read for the record"


async def test_what_is_asked_beside_the_steps_is_a_request_with_what_it_used(seen: Seen) -> None:
    summary = [say("A summary."), UsageReport(Usage(input_tokens=70, output_tokens=3))]

    asked: list[Any] = []

    def script(request: Any) -> Any:
        asked.append(request)
        if request.attempt == "aside":
            return summary
        told = Usage(input_tokens=100 if len(request.messages) < 8 else 900)
        return "Done." if len(asked) > 6 else [call("read_file", path=str(len(asked))), UsageReport(told)]

    compaction = Compaction(window=1000, strategies=("summarise",), keep_messages=2)
    engine = Engine(Scripted(script), tools=[read_file], policy=Policy(compaction=compaction))
    await traced(engine, seen.provider).run("Go")
    asides = [of(s) for s in seen.spans if of(s).get("endstop.attempt") == "aside"]
    assert asides
    assert {(a["gen_ai.usage.input_tokens"], a["gen_ai.response.finish_reasons"]) for a in asides} == {(70, ("stop",))}


async def test_limits_are_no_errors(seen: Seen) -> None:
    provider = Scripted(lambda request: [call("read_file", path="a"), UsageReport(Usage(input_tokens=1))])
    policy = Policy(limits=Limits(steps=2), closing=False)
    await traced(Engine(provider, tools=[read_file], policy=policy), seen.provider).run("Go")
    run = seen.one("invoke_agent endstop")
    assert (of(run)["endstop.status"], of(run)["endstop.stop_reason"]) == ("exhausted", "step_limit")
    assert of(run)["gen_ai.agent.finish_reason"] == "max_iterations"
    assert run.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("stop_reason", "status", "finish_reason"),
    [
        ("text_final", "completed", "completed"),
        ("custom:good_enough", "completed", "completed"),
        ("step_limit", "exhausted", "max_iterations"),
        ("token_limit", "exhausted", "max_tokens"),
        ("time_limit", "exhausted", "time_budget"),
        ("cancelled", "cancelled", "cancelled"),
        ("internal_error", "failed", "error"),
        ("stuck", "exhausted", "stuck"),
        ("awaiting_input", "awaiting_input", "awaiting_input"),
    ],
)
def test_why_an_agent_ended_in_the_words_of_the_proposal(stop_reason: str, status: Status, finish_reason: str) -> None:
    outcome = Outcome(run_id="r", session_id="s", status=status, stop_reason=stop_reason)
    assert agent_finish_reason(outcome) == finish_reason
