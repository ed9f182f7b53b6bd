"""AG-UI: what a client sees of a run, checked with the official models and the protocol's rules of order."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Engine, Tool, read_record
from endstop.decision import (
    AssistantMessage,
    Event,
    Image,
    Outcome,
    Policy,
    Reasoning,
    ReasoningDelta,
    ToolResult,
    Transcript,
    Usage,
    WrongUse,
)
from endstop.decision import events as ev
from endstop.decision.call_arguments import count_members
from endstop.providers import Chaos, Interrupted, Retry, Scripted, Unavailable, call, say
from endstop.tools import ask_user, task_done
from endstop.web.ag_ui import AgUiTranslator, to_sse
from hypothesis import given
from hypothesis import strategies as st

from ...properties.scripts import FAULTS, POLICIES, SCRIPTS, TOOLS, World
from ...shared_data import recorded, sessions
from ..formats.heard import hear
from .ag_ui_reader import Reader

RECORDS = Path(__file__).parents[2] / "records"
STARTED = ev.RunStarted(seq=1, run_id="run_a", session_id="s", prompt="go", model="m", policy=Policy())


def read(events: Any, **options: Any) -> Reader:
    """The stream of these events, read."""
    translator, reader = AgUiTranslator(**options), Reader()
    for event in events:
        reader.read(translator.translate(event))
    return reader


def numbered(*events: Any) -> list[Any]:
    """A run that begins as STARTED and goes on with these."""
    return [STARTED, *(msgspec.structs.replace(event, seq=number) for number, event in enumerate(events, 2))]


async def live(provider: Any, *, prompt: str = "go", **options: Any) -> tuple[list[Any], Any]:
    """Events and session of one run."""
    session = Engine(provider, **options).session()
    async with session.start(prompt) as run:
        return [event async for event in run], session


def check_chat(reader: Reader, events: Any) -> None:
    """Raise AssertionError unless the client's chat is the transcript: each text and call, none twice, none void."""
    transcript = Transcript()
    for event in events:
        transcript.feed(event)
    texts = [text for id, text in reader.messages.items() if reader.roles[id] == "assistant" and id not in reader.void]
    calls = [tuple(c[:2]) for id, c in reader.calls.items() if id not in reader.void]
    heard = [event.message for event in events if isinstance(event, ev.ResponseFinished)]
    extra = [event.answer for event in events if isinstance(event, ev.CompletionAccepted) and event.answer]
    extra += [
        e.detail for e in events if isinstance(e, ev.VerdictGiven) and (e.role, e.said) == ("handler", "answered")
    ]
    assert sorted(texts) == sorted([*(message.text for message in heard if message.text), *extra])
    made = [call for message in heard for call in message.calls]
    assert [name for name, _ in calls] == [call.name for call in made]
    for (_, shown), one in zip(calls, made, strict=True):
        if one.arguments != shown:  # what came after the end of the arguments has no place in this protocol
            assert one.arguments.startswith(shown)
            assert count_members(shown)
            assert count_members(one.arguments) is None
    edited = {e.call_id for e in events if isinstance(e, ev.QuestionAnswered) and e.arguments is not None}
    for message in transcript.messages:
        if isinstance(message, ToolResult) and not message.images:
            # the model alone reads that the user has changed the arguments, in a line of its own
            told = message.content.partition("\n")[2] if message.call_id in edited else message.content
            assert told in reader.results.values() or message.status == "unanswered"


# ---- whole runs


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDS.glob("*.jsonl")))
def test_a_golden_record_is_a_legal_stream_that_holds_its_chat(name: str) -> None:
    events = [event for run in read_record(RECORDS / f"{name}.jsonl").runs for event in run.events]
    reader = read(events)
    assert reader.running is None
    check_chat(reader, events)
    assert len(reader.of("RUN_STARTED")) == sum(isinstance(event, ev.RunStarted) for event in events)
    assert all(event.timestamp for event in reader.events)


@pytest.mark.parametrize("path", recorded(sessions("tau-bench", "*.jsonl")))
def test_sessions_of_tau_bench_are_legal_streams_though_nothing_was_streamed(path: Path) -> None:
    for line in path.read_text().splitlines():
        heard = hear("tau-bench", msgspec.json.decode(line))
        reader = read(heard.events)
        assert reader.running is None
        check_chat(reader, heard.events)


@pytest.mark.parametrize("path", recorded([*sessions("cline"), *sessions("swe-agent", "*.traj")]))
def test_sessions_of_other_loops_are_legal_streams(path: Path) -> None:
    heard = hear("cline" if path.suffix == ".json" else "swe-agent", msgspec.json.decode(path.read_bytes()))
    reader = read(heard.events)
    assert reader.running is None
    check_chat(reader, heard.events)


def drive(engine: Engine, **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        async with engine.session(**options).start("go") as run:
            return [event async for event in run]

    return asyncio.run(main())


def retried(script: Any, policy: Policy, faults: Any) -> Engine:
    """A world whose provider tries again, so that attempts are retracted."""
    provider = Retry(Chaos(Scripted(*script), seed=7, **faults), first_wait=0, longest_wait=0)
    return Engine(provider, tools=TOOLS, policy=policy, presets=())


@given(SCRIPTS, POLICIES, FAULTS, st.booleans())
def test_every_run_is_a_legal_stream_that_holds_its_chat(script: Any, policy: Policy, faults: Any, retry: bool) -> None:
    events = drive(retried(script, policy, faults) if retry else World(script, policy, faults).engine)
    reader = read(events)
    assert reader.running is None
    check_chat(reader, events)
    (finished,) = (event for event in events if isinstance(event, ev.RunFinished))
    used = [one for end in (*reader.of("RUN_FINISHED"), *reader.of("RUN_ERROR")) for one in end.usage or ()]
    assert sum(one.input_tokens for one in used) == finished.outcome.usage.input_tokens
    assert sum(one.output_tokens for one in used) == finished.outcome.usage.output_tokens


@given(SCRIPTS, POLICIES, FAULTS, st.floats(0, 1))
def test_a_reader_that_resumes_anywhere_gets_the_rest_letter_for_letter(
    script: Any, policy: Policy, faults: Any, place: float
) -> None:
    events = drive(retried(script, policy, faults))
    whole, later = AgUiTranslator(), AgUiTranslator()
    had = int(place * len(events))
    for number, event in enumerate(events):
        told = whole.translate(event)
        assert later.translate(event, skip=number < had) == ([] if number < had else told)


@given(SCRIPTS, POLICIES, FAULTS, st.floats(0, 1), st.integers(1, 40))
def test_a_reader_that_lagged_anywhere_is_told_and_reads_a_legal_stream_on(
    script: Any, policy: Policy, faults: Any, place: float, many: int
) -> None:
    events = drive(retried(script, policy, faults))
    first = int(place * (len(events) - 1))
    after = min(first + many, len(events) - 1)  # the terminal event is never lost
    translator, reader = AgUiTranslator(thread_id="thread"), Reader()
    for event in events[:first]:
        reader.read(translator.translate(event))
    reader.read(translator.lagged(events[0].run_id, after - first, events[after].seq))
    for event in events[after:]:
        reader.read(translator.translate(event))
    assert reader.running is None
    (lagged,) = reader.customs("endstop.lagged")
    assert lagged.value == {"run_id": events[0].run_id, "missed": after - first, "next_seq": after + 1}


@given(SCRIPTS, POLICIES, st.floats(0, 1))
def test_a_run_that_was_killed_and_resumed_is_one_run_in_the_stream(script: Any, policy: Policy, place: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        drive(World(script, policy).engine, record=path)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: 2 + int(place * (len(lines) - 3))]))
        asyncio.run(_resumed(World(script, policy), path))
        (run,) = read_record(path).runs
    reader = read(run.events)
    assert reader.running is None
    assert [event.run_id for event in reader.of("RUN_STARTED")] == [run.events[0].run_id]  # type: ignore[union-attr]
    check_chat(reader, run.events)
    resumed = next(n for n, event in enumerate(reader.events) if getattr(event, "name", "") == "endstop.run_resumed")
    assert all(event.timestamp is None for event in reader.events[resumed:]), "how long nobody ran it is not known"


async def _resumed(world: World, path: Path) -> None:
    record = read_record(path)
    session = world.engine.session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        await run.wait()


ATTEMPTS, CALLS, TEXTS = st.sampled_from(["1.1", "1.2", "2.1"]), st.sampled_from(["a", "b", "c"]), st.text(max_size=3)
PARTS = st.one_of(
    st.builds(ev.StepStarted, step=st.integers(1, 2), round=st.just(1), closing=st.booleans()),
    st.builds(ev.StepFinished, step=st.integers(1, 2)),
    st.builds(ev.AttemptStarted, attempt=ATTEMPTS),
    st.builds(ev.AttemptFailed, attempt=ATTEMPTS, kind=st.just("cut"), message=TEXTS, beside=st.booleans()),
    st.builds(ev.AttemptRetracted, attempt=ATTEMPTS),
    st.builds(ev.TextMessageContent, attempt=ATTEMPTS, delta=TEXTS),
    st.builds(ev.ReasoningMessageContent, attempt=ATTEMPTS, delta=TEXTS, signature=TEXTS, redacted=st.booleans()),
    st.builds(ev.ToolCallStart, attempt=ATTEMPTS, call_id=CALLS, name=TEXTS),
    st.builds(ev.ToolCallArgs, attempt=ATTEMPTS, call_id=CALLS, delta=TEXTS),
    st.builds(ev.ToolCallEnd, attempt=ATTEMPTS, call_id=CALLS),
    st.builds(ev.ToolCallResult, call_id=CALLS, name=TEXTS, content=TEXTS),
    st.builds(ev.QuestionAnswered, call_id=CALLS, text=TEXTS),
    st.builds(ev.MessageAdded, text=TEXTS, origin=st.sampled_from(["user", "nudge"])),
    st.builds(ev.RunResumed, interrupted_step=st.none() | st.just(1)),
    st.builds(ev.CompletionAccepted, call_id=CALLS, name=TEXTS, answer=TEXTS),
    st.just(ev.RunStarted(run_id="run_b", session_id="s", policy=Policy())),
)


@given(st.lists(PARTS, max_size=30))
def test_the_order_is_legal_whatever_the_events_say(parts: list[Any]) -> None:
    events = numbered(*parts)
    seq, run = 0, 0
    for place, event in enumerate(events):
        begins = isinstance(event, ev.RunStarted)
        seq, run = (1, run + 1) if begins else (seq + 1, run)
        events[place] = msgspec.structs.replace(event, seq=seq, **({"run_id": f"run_{run}"} if begins else {}))
    outcome = ended("cancelled", "cancelled")
    reader = read([*events, msgspec.structs.replace(outcome, seq=seq + 1)])
    assert reader.running is None


def ended(status: Any, reason: str, **more: Any) -> Any:
    return ev.RunFinished(outcome=Outcome(run_id="run_a", session_id="s", status=status, stop_reason=reason, **more))


# ---- one thing each


async def test_a_retracted_attempt_is_closed_and_void_and_the_next_one_has_another_message() -> None:
    begun = [*say("I be"), *call("look", path="a", id="c1"), Interrupted("cut")]
    provider = Retry(Scripted(begun, "I begin."), first_wait=0, longest_wait=0)
    events, _ = await live(provider, presets=())
    reader = read(events)
    void, kept = (id for id, role in reader.roles.items() if role == "assistant")
    assert (reader.messages[void], reader.messages[kept]) == ("I be", "I begin.")
    assert reader.void == {void, "c1"}
    (failed,), (retracted,) = reader.customs("endstop.attempt_failed"), reader.customs("endstop.attempt_retracted")
    assert failed.metadata == retracted.metadata == {"endstop": {"void": {"messageIds": [void], "toolCallIds": ["c1"]}}}
    assert reader.results["c1"] == "Void: the attempt at this response failed (interrupted)."


async def test_text_reasoning_and_calls_are_opened_and_closed_around_what_is_streamed() -> None:
    async def look(path: str) -> str:
        return path

    thinking = [ReasoningDelta("Let me "), ReasoningDelta("see.", "signed")]
    script = [[*thinking, *say("I look."), *call("look", path="a", id="c1", pieces=2)], [*say("Done.")]]
    events, _ = await live(Scripted(*script), tools=[Tool(look, description="Look.")], presets=())
    kinds = [event.type.value for event in read(events).events if event.type.value != "CUSTOM"]
    assert kinds == [
        "RUN_STARTED",
        "STEP_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        *["TEXT_MESSAGE_CONTENT"] * kinds[: kinds.index("TOOL_CALL_START")].count("TEXT_MESSAGE_CONTENT"),
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        *["TEXT_MESSAGE_CONTENT"] * kinds[kinds.index("TOOL_CALL_RESULT") :].count("TEXT_MESSAGE_CONTENT"),
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert b"signed" not in b"".join(all_said(events))


def all_said(events: Any) -> list[bytes]:
    translator = AgUiTranslator()
    return [one for event in events for one in translator.translate(event)]


async def test_a_question_ends_the_run_with_an_interrupt_and_its_answer_is_the_calls_result() -> None:
    provider = Scripted([call("ask_user", question="Which?", id="q1")], "Good.")
    events, session = await live(provider, presets=[ask_user])
    translator, reader = AgUiTranslator(), Reader()
    for event in events:
        reader.read(translator.translate(event))
    (end,) = reader.of("RUN_FINISHED")
    (interrupt,) = end.outcome.interrupts
    assert (interrupt.id, interrupt.tool_call_id, interrupt.message) == ("q1", "q1", "Which?")
    assert (interrupt.reason, interrupt.response_schema) == ("input_required", {"type": "string"})
    assert end.result["status"] == "awaiting_input"
    async with session.start_answer("q1", "That.") as run:
        async for event in run:
            reader.read(translator.translate(event))
    assert reader.results == {"q1": "That."}
    again = reader.of("RUN_STARTED")[1]
    assert (again.input, again.parent_run_id) == (None, None)
    assert reader.of("RUN_FINISHED")[1].outcome.type == "success"


async def test_a_completion_that_waits_for_a_yes_is_a_confirmation() -> None:
    done = [call("task_done", summary="All set.", requires_user_confirmation=True, id="d1")]
    events, _ = await live(Scripted(done), presets=[task_done])
    ((interrupt,),) = (end.outcome.interrupts for end in read(events).of("RUN_FINISHED"))
    assert (interrupt.reason, interrupt.response_schema) == ("confirmation", {"type": ["boolean", "string"]})
    assert interrupt.metadata["endstop"]["confirms"] == "All set."


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        ("completed", "text_final", "success"),
        ("exhausted", "step_limit", "cancelled"),
        ("cancelled", "cancelled", "cancelled"),
        ("awaiting_input", "custom:wait", "interrupt"),
    ],
)
def test_how_a_run_ended_is_the_protocols_outcome(status: Any, reason: str, outcome: str) -> None:
    reader = read(numbered(ended(status, reason, detail="Because.")))
    (end,) = reader.of("RUN_FINISHED")
    assert end.outcome.type == outcome
    assert reader.customs("endstop.run_finished")[0].value["outcome"]["stop_reason"] == reason


async def test_a_failed_run_is_an_error_with_our_stop_reason_as_its_code() -> None:
    events, _ = await live(Scripted([*say("I be"), Unavailable("overloaded")]))
    reader = read(events)
    (end,) = reader.of("RUN_ERROR")
    assert end.code == "provider_error"
    assert "overloaded" in end.message
    assert not reader.of("RUN_FINISHED")


def test_the_answer_of_a_completion_is_a_message_that_every_client_shows() -> None:
    reader = read(numbered(ev.CompletionAccepted(call_id="c", name="finish_task", answer="All set.")), run_id="mine")
    assert list(reader.messages.values()) == ["All set."]
    (custom,) = reader.customs("endstop.completion_accepted")
    assert custom.value["answer"] == "All set."


def test_the_answer_of_an_intents_handler_is_a_message_too() -> None:
    answered = ev.VerdictGiven(role="handler", name="clock", said="answered", detail="It is noon.")
    reader = read(numbered(answered, ended("completed", "handled", answer="It is noon.")), run_id="mine")
    assert list(reader.messages.values()) == ["It is noon."]


def test_what_a_user_says_while_it_runs_is_a_message_and_what_the_loop_says_is_not() -> None:
    said = [ev.MessageAdded(text=origin, origin=origin) for origin in ("user", "nudge", "reminder")]  # type: ignore[arg-type]
    reader = read(numbered(*said, ended("cancelled", "cancelled")), run_id="mine")
    assert list(zip(reader.messages.values(), reader.roles.values(), strict=True)) == [("user", "user")]
    assert [one.value["origin"] for one in reader.customs("endstop.message_added")] == ["user", "nudge", "reminder"]


def test_a_reader_that_asked_reads_its_own_ids_and_one_that_did_not_is_told_the_prompt() -> None:
    events = numbered(ended("cancelled", "cancelled"))
    mine = read(events, thread_id="t", run_id="r", ignored=["tools: 2"])
    (started,), (end,) = mine.of("RUN_STARTED"), mine.of("RUN_FINISHED")
    assert (started.thread_id, started.run_id, end.thread_id, end.run_id, started.input) == ("t", "r", "t", "r", None)
    assert mine.customs("endstop.input_ignored")[0].value == ["tools: 2"]
    assert mine.customs("endstop.run_started")[0].value["run_id"] == "run_a"
    (started,) = read(events).of("RUN_STARTED")
    assert (started.thread_id, started.run_id) == ("s", "run_a")
    assert [(m.role, m.content) for m in started.input.messages] == [("user", "go")]


def test_only_the_run_that_was_asked_for_bears_the_inputs_id() -> None:
    translator, reader = AgUiTranslator(run_id="first"), Reader()
    run = numbered(ended("cancelled", "cancelled"))
    for next_one in (None, "third"):
        for event in run:
            reader.read(translator.translate(event))
        translator.run_id = next_one
    for event in run:
        reader.read(translator.translate(event))
    assert [event.run_id for event in reader.of("RUN_STARTED")] == ["first", "run_a", "third"]


def test_pictures_of_a_result_are_parts_and_its_status_is_in_the_metadata() -> None:
    pictures = (Image(b"\x89PNG"), Image(url="https://example.org/a.png"))
    result = ev.ToolCallResult(call_id="c", name="see", content="Two.", status="error", images=pictures)
    (told,) = read(numbered(result, ended("cancelled", "cancelled"))).of("TOOL_CALL_RESULT")
    assert [part.type for part in told.content] == ["text", "image", "image"]
    assert (told.content[1].source.value, told.content[1].source.mime_type) == ("iVBORw==", "image/png")
    assert told.content[2].source.value == "https://example.org/a.png"
    assert told.metadata == {"endstop": {"status": "error"}}


def test_a_response_that_was_not_streamed_is_told_when_it_is_there() -> None:
    thoughts = (Reasoning("Hm.", "s"), Reasoning("", "s", True), Reasoning("So."))
    message = AssistantMessage("Hello.", reasoning=thoughts)
    response = ev.ResponseFinished(step=1, message=message, finish="stop", usage=Usage(output_tokens=3))
    reader = read(numbered(response, ended("completed", "text_final")), run_id="mine")
    assert list(reader.messages.values()) == ["Hm.", "So.", "Hello."]
    assert reader.customs("endstop.response_finished")[0].value["message"] == {"role": "assistant"}


def test_a_run_of_a_session_that_broke_off_ends_as_an_error_before_the_next_begins() -> None:
    open_text = ev.TextMessageContent(attempt="1.1", delta="I")
    other = msgspec.structs.replace(STARTED, run_id="run_b")
    reader = read([*numbered(open_text), other])
    (end,) = reader.of("RUN_ERROR")
    assert end.code == "interrupted"
    assert reader.running == "run_b"


def test_an_event_of_a_run_whose_beginning_is_not_known_is_refused() -> None:
    with pytest.raises(WrongUse, match="skip=True"):
        AgUiTranslator().translate(ev.RoundStarted(seq=2, round=1))
    with pytest.raises(WrongUse, match="thread_id"):
        AgUiTranslator().lagged("run_a", 1, 2)


def test_what_json_cannot_hold_does_not_break_the_stream() -> None:
    odd = ev.TextMessageContent(attempt="1.1", delta="\ud83d")
    details = ev.EvaluationFinished(verdict="passed", details={"of": object})
    reader = read(numbered(odd, details, ended("completed", "text_final")), run_id="mine")
    assert list(reader.messages.values()) == ["?"]


def test_the_last_frame_of_an_event_bears_its_id_and_lines_end_as_the_binding_wants() -> None:
    assert to_sse("7", []) == b""
    assert to_sse("7", [b"{}"]) == b"id: 7\ndata: {}\n\n"
    assert to_sse("run_a:7", [b"{1}", b"{2}"]) == b"data: {1}\n\nid: run_a:7\ndata: {2}\n\n"


@pytest.mark.parametrize(
    ("wall", "first"),
    [("2026-01-01T00:00:00.000+00:00", 1767225600005), ("2026-01-01T00:00:00Z", 1767225600005), ("", None)],
)
def test_times_are_milliseconds_since_1970_where_they_are_known(wall: str, first: int | None) -> None:
    events: list[Event] = [msgspec.structs.replace(STARTED, started_at=wall, t=5)]
    assert read(events).events[0].timestamp == first
