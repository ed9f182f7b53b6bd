"""Redaction where records are written: nothing of a secret reaches the disk, and the record replays the same."""

from __future__ import annotations

import asyncio
import json
import typing
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from endstop import Completion, Engine, Hooks, RecordOptions, read_record, tool
from endstop.decision import Event, Policy, ReasoningDelta, ToolSpec
from endstop.decision import events as ev
from endstop.decision.chunks import AttemptEnded, ProviderToolReport, TextDelta, ToolCallDelta
from endstop.decision.decisions import GoOn, Pause, Stop, TraceEntry
from endstop.decision.messages import (
    AssistantMessage,
    Image,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from endstop.decision.outcome import Outcome, Question
from endstop.hooks import Reject
from endstop.providers import RateLimited, Scripted, call, say
from endstop.records.event_redaction import REDACTION_FAILED, TEXT_FIELDS, StreamRedactor, TextRedactor
from endstop.records.format import DrainedChunk, encode_line
from endstop.replay import replay
from endstop.tools import ask_user, finish_task, think
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

SECRET = "Sesame-Open-0815"
MARK = "[gone]"


def redact(text: str) -> str:
    return text.replace(SECRET, MARK)


def leaks(content: bytes, length: int = 5) -> list[str]:
    """Pieces of the secret of so many letters that can be read."""
    text = content.decode()
    return [piece for i in range(len(SECRET) - length + 1) if (piece := SECRET[i : i + length]) in text]


# ---- the table of texts

OURS = {
    "RunStarted": "run_id session_id model tool_choice prices endpoint finish_words continues started_at engine origin "
    "parent",
    "Origin": "session_id run_id edited changed",
    "SessionSource": "place",
    "Policy": "name text completion mixed after_question closing_after required_text degeneration interrupted_calls "
    "rules guards limits session_limits patience repetition question stagnation "
    "compaction deadlines",
    "Degeneration": "unwatched",
    "Echo": "beside",
    "Carried": "reminded usage subagents saved grants",
    "Extend": "when",
    "MessageAdded": "origin topics message_id",
    "ResumeDiverged": "recorded now",
    "AlarmRaised": "policy rule reason",
    "AttemptStarted": "attempt model",
    "AttemptFailed": "attempt model kind usage",
    "AttemptRetracted": "attempt by",
    "ResponseFinished": "attempt model deltas finish raw_finish usage cut_at truncated without_arguments cut_for "
    "after_cut",
    "StepFinished": "cut_by judged",
    "StepJudgement": "brought text_kind",
    "TextMessageContent": "attempt",
    "ReasoningMessageContent": "attempt signature vendor",
    "ToolCallStart": "attempt call_id name",
    "ToolCallArgs": "attempt call_id",
    "ToolCallEnd": "attempt call_id",
    "ProviderToolReported": "attempt id name",
    "FinishReported": "attempt reason raw",
    "UsageReported": "attempt usage",
    "ToolExecutionStarted": "call_id name",
    "ToolCallResult": "call_id name status fingerprint attached",
    "CompletionAccepted": "call_id name",
    "CompletionRejected": "call_id name by",
    "PhaseReported": "call_id",
    "QuestionAsked": "call_id tool expires_at asker",
    "QuestionAnswered": "call_id says",
    "ThoughtRecorded": "call_id",
    "VerdictGiven": "role said call_id usage",
    "ContextCompacted": "strategy",
    "StageFinished": "stage status",
    "EvaluationFinished": "verdict",
    "BudgetRefused": "limit",
    "LimitReached": "limit scope attempt",
    "ParentCall": "session_id run_id call_id",
    "SubagentStarted": "call_id name run_id session_id model continues",
    "Asker": "call_id session_id run_id names",
    "SubagentUsed": "call_id run_id usage",
    "SubagentUse": "usage",
    "ToolProgress": "call_id name",
    "DrainedChunk": "attempt",
    "CutOff": "calls",
    "ToolCallDelta": "id name arguments",
    "TextDelta": "text",
    "ReasoningDelta": "text signature vendor",
    "ProviderToolReport": "id name",
    "FinishReport": "reason raw",
    "UsageReport": "usage",
    "ModelSelected": "model",
    "AttemptEnded": "model kind usage",
    "Outcome": "run_id session_id status stop_reason answer_from usage subagents saved limits verdict work "
    "failed_calls",
    "Question": "call_id tool expires_at asker",
    "ToolResult": "call_id name status",
    "ToolCall": "id name",
    "Reasoning": "signature vendor",
    "Image": "data media_type",
    "ToolSpec": "name kind",
    "GoOn": "rule topics",
    "Pause": "rule questions",
    "Stop": "rule reason status",
    "TraceEntry": "rule",
}
"""Fields that are never redacted: names, ids, words of ours; deltas of chunks are redacted as whole texts."""


NUMBERS = {"Limits", "SessionLimits", "Patience", "Repetition", "Compaction", "Deadlines", "Usage", "Price", "LimitUse"}


def structs_of(kind: Any, seen: set[type]) -> Iterator[type]:
    for part in typing.get_args(kind):
        yield from structs_of(part, seen)
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in seen:
        seen.add(kind)
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs_of(field.type, seen)


def holds_text(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return True
    if kind in (str, bytes, Any, dict, list) or kind is typing.Mapping:
        return True
    if typing.get_origin(kind) is typing.Literal:
        return True
    return any(holds_text(part) for part in typing.get_args(kind))


def test_every_field_that_can_hold_a_text_is_redacted_or_named_as_ours() -> None:
    wrong = []
    for kind in structs_of(DrainedChunk | Event, set()):
        redacted = set(TEXT_FIELDS.get(kind, {}))
        ours = set(OURS.get(kind.__name__, "").split())
        for field in msgspec.structs.fields(kind):
            if holds_text(field.type) and kind.__name__ not in NUMBERS and field.name not in redacted | ours:
                wrong.append(f"{kind.__name__}.{field.name}: {field.type}")
            if field.name in ours and TEXT_FIELDS.keys() & set(structs_of(field.type, set())):
                wrong.append(f"{kind.__name__}.{field.name} holds what is redacted elsewhere")
        wrong += [f"{kind.__name__}.{name} is both" for name in redacted & ours]
        wrong += [f"{kind.__name__} has no {name}" for name in (redacted | ours) - set(kind.__struct_fields__)]
    assert not wrong, "\n".join(wrong)


S = f"it is {SECRET}, isn't it"
NESTED: dict[str, Any] = {"a": [S, {"b": S, S: 1}], "n": 5, "t": None, "f": 0.5}
QUESTION = Question("c", S, S, (S,), tool="t", arguments=NESTED)
MESSAGE = AssistantMessage(S, (ToolCall("c", "t", json.dumps(NESTED)),), (Reasoning(S, "sig"),))
CARRIED = ev.Carried(phases=(NESTED,), questions=(QUESTION,))
SAW = TraceEntry("rule", {"text": S, "questions": [NESTED]}, S)
PICTURES = (Image(url=f"https://example.com/{SECRET}"),)
SPEC = ToolSpec(name="t", description=S, parameters={"properties": {"x": {"type": "string", "default": S}}})
EVENTS: list[Event] = [
    ev.RunStarted(run_id="r", session_id="s", prompt=S, system=S, policy=Policy(), tools=(SPEC,), settings=NESTED,
                  functions={"gate": (f"m:CommandGate({S!r})",)}, carried=CARRIED, before=CARRIED,
                  source=ev.SessionSource(file=S, id=S), images=PICTURES, history=(UserMessage(S, PICTURES), MESSAGE)),
    ev.MessageAdded(text=S, origin="user", images=PICTURES),
    ev.CancelRequested(cause=S),
    ev.AttemptFailed(attempt="1.1", kind="unavailable", message=S, text=S),
    ev.ResponseFinished(step=1, message=MESSAGE, finish="stop"),
    ev.DecisionMade(round=1, decision=GoOn(rule="r", say=S, why=S, remind=S, trace=(SAW,))),
    ev.DecisionMade(round=1, decision=Pause(rule="r", questions=("c",), extend=1, say=S, trace=(SAW,))),
    ev.DecisionMade(round=1, decision=Stop(rule="r", reason="completed", detail=S, trace=(SAW,))),
    ev.ProviderToolReported(attempt="1.1", id="p", name="search", arguments=json.dumps(NESTED), result=S),
    ev.ToolCallResult(call_id="c", name="t", content=S, fingerprint="00ff", images=PICTURES),
    ev.ToolProgress(call_id="c", name="t", text=S),
    ev.AlarmRaised(policy="p", rule="r", reason="stuck", detail=S, step=1),
    ev.CompletionAccepted(call_id="c", name="t", answer=S, pending_issues=(S,)),
    ev.CompletionRejected(call_id="c", name="t", reason=S, by=f"m:CommandGate({S!r})"),
    ev.PhaseReported(call_id="c", percentage=3, summary=S, next_phase=S),
    ev.QuestionAsked(call_id="c", text=S, confirms=S, pending_issues=(S,), tool="t", arguments=NESTED),
    ev.QuestionAnswered(call_id="c", text=S, arguments=NESTED, images=PICTURES),
    ev.ThoughtRecorded(call_id="c", text=S),
    ev.VerdictGiven(role="gate", name=f"m:CommandGate({S!r})", said="reject", detail=S),
    ev.VerdictGiven(role="handler", name="m:h", said="prepared", detail=json.dumps({"messages": [S], "n": False})),
    ev.ContextCompacted(strategy="summarise", before_tokens=2, after_tokens=1,
                        put_first=(SystemMessage(S), UserMessage(S), MESSAGE, ToolResult("c", "t", S, "ok", PICTURES))),
    ev.StageFinished(stage="run", status="ok", detail=S),
    ev.EvaluationFinished(verdict="passed", name=S, details=NESTED),
    ev.SubagentStarted(call_id="c", name="t", run_id="r", session_id="s", record=S),
    ev.RunFinished(outcome=Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed", detail=S,
                                   answer=S, evaluation=NESTED, phases=(NESTED,), pending_issues=(S,),
                                   questions=(QUESTION,), accepted_by=(S,))),
]  # fmt: skip
CHUNKS = [
    TextDelta(S), ReasoningDelta(S), ToolCallDelta(0, "c", "t", json.dumps({"x": S})),
    ProviderToolReport("p", "search", json.dumps({"x": S}), S),
    AttemptEnded(model="m", kind="unavailable", message=S, text=S),
]  # fmt: skip


@pytest.mark.parametrize("event", [*EVENTS, *(DrainedChunk(attempt="1.1", chunk=chunk) for chunk in CHUNKS)])
def test_no_text_of_an_event_is_left_out(event: Event | DrainedChunk) -> None:
    assert leaks(encode_line(event))
    redactor = StreamRedactor(redact)
    (redacted,) = (*redactor.feed(event), *redactor.flush())
    assert leaks(encode_line(redacted)) == []
    assert MARK.encode() in encode_line(redacted)
    assert type(redacted) is type(event)
    again = msgspec.json.decode(encode_line(redacted), type=DrainedChunk | Event)
    assert again.__struct_fields__ == event.__struct_fields__


def test_each_text_of_the_table_has_an_event_that_shows_it() -> None:
    shown: set[tuple[str, str]] = set()

    class Watch(TextRedactor):
        def struct(self, struct: Any) -> Any:
            for name in TEXT_FIELDS.get(type(struct), {}):
                if getattr(struct, name):
                    shown.add((type(struct).__name__, name))
            return super().struct(struct)

    watch = Watch(redact)
    for event in (*EVENTS, *(DrainedChunk(attempt="1.1", chunk=chunk) for chunk in CHUNKS)):
        watch.struct(event)
    deltas = {("TextMessageContent", "delta"), ("ReasoningMessageContent", "delta"), ("ToolCallArgs", "delta")}
    defaults = {("Echo", "announcements")}
    named = {(kind.__name__, name) for kind, names in TEXT_FIELDS.items() for name in names}
    assert named - shown <= deltas | defaults | {("Prompts", "next_step")}


# ---- whole runs

LOOK = "look"


def engine_of(script: list[Any], **options: Any) -> Engine:
    @tool(reads=True)
    async def look(path: str) -> str:
        """Look."""
        return f"{path}: password={SECRET}"

    @tool
    async def fail(path: str) -> str:
        """Fail."""
        raise ValueError(f"no {SECRET} there")

    return Engine(
        Scripted(*script),
        tools=[look, fail, think, finish_task, ask_user],
        presets=(),
        **{"record_options": RecordOptions(redact=redact), **options},
    )


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted(cuts), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


def run_of(script: list[Any], path: Path, **options: Any) -> Any:
    return asyncio.run(engine_of(script, **options).run(f"Use {SECRET} for it.", record=path))


def check(path: Path) -> None:
    """No piece of the secret, the same events as ever, and the same decisions again."""
    assert leaks(path.read_bytes()) == []
    record = read_record(path)
    for run in record.runs:
        assert [event.seq for event in run.events] == list(range(1, len(run.events) + 1))
    report = asyncio.run(replay(str(path)))
    assert report.same, [run.divergence for run in report.runs]


@pytest.mark.parametrize("at", range(1, len(SECRET)))
def test_a_secret_that_is_cut_anywhere_does_not_leak_in_pieces(at: int, tmp_path: Path) -> None:
    text = f"The word is {SECRET}. I go on."
    cut = text.index(SECRET) + at
    arguments = json.dumps({"path": text})
    inside = arguments.index(SECRET) + at
    response = [
        *(ReasoningDelta(piece) for piece in pieces(text, [cut])),
        ReasoningDelta("", signature="signed"),
        *(TextDelta(piece) for piece in pieces(text, [cut])),
        ToolCallDelta(0, "c1", "look"),
        *(ToolCallDelta(0, arguments=piece) for piece in pieces(arguments, [inside])),
        ToolCallDelta(1, "c2", "fail"),
        *(ToolCallDelta(1, arguments=piece) for piece in pieces(arguments, [inside])),
    ]
    path = tmp_path / "r.jsonl"
    outcome = run_of([response, [call("finish_task", summary=text)]], path)
    assert outcome.answer == text, "what the model said is only changed on disk"
    check(path)
    events = read_record(path).runs[0].events
    deltas = [event.delta for event in events if isinstance(event, ev.TextMessageContent)]
    assert len(deltas) == 2, "as many as there were"
    assert "".join(deltas) == redact(text)
    (reasoned,) = [e.message.reasoning for e in events if isinstance(e, ev.ResponseFinished)][:1]
    assert reasoned == (Reasoning(redact(text)),), "its signature was for another text"


WHOLE = st.sampled_from([SECRET, f"a {SECRET} b", f"{SECRET}{SECRET}", "nothing", f"äöü {SECRET}\n漢字", ""])


@st.composite
def responses(draw: st.DrawFn) -> list[Any]:
    """A response with texts, reasoning and calls that are cut anywhere and mixed."""
    text, reasoning = draw(WHOLE), draw(WHOLE)
    signed = [ReasoningDelta("", signature="s")] * draw(st.integers(0, 1))
    streams: list[list[Any]] = [
        [TextDelta(piece) for piece in _cut(draw, text)],
        [*(ReasoningDelta(piece) for piece in _cut(draw, reasoning)), *signed],
    ]
    for number, name in enumerate(draw(st.lists(st.sampled_from(["look", "fail", "think", "broken"]), max_size=3))):
        parameter = "thought" if name == "think" else "path"
        whole = json.dumps({parameter: draw(WHOLE)}, ensure_ascii=draw(st.booleans()))
        arguments = _cut(draw, '{"path": "' + draw(WHOLE) if name == "broken" else whole)
        head = ToolCallDelta(number, "", "look" if name == "broken" else name)
        streams.append([head, *(ToolCallDelta(number, arguments=piece) for piece in arguments)])
    mixed = []
    while streams:
        stream = draw(st.sampled_from(streams))
        mixed.append(stream.pop(0))
        streams = [one for one in streams if one]
    if draw(st.integers(0, 5)) == 0:
        mixed.append(RateLimited(f"not you, {SECRET}"))
    return mixed


def _cut(draw: st.DrawFn, text: str) -> list[str]:
    return [piece for piece in pieces(text, draw(st.lists(st.integers(0, len(text)), max_size=6))) if piece] or [" "]


@settings(max_examples=150, deadline=None)
@given(script=st.lists(responses(), min_size=1, max_size=3), drain=st.booleans())
def test_however_responses_are_cut_and_mixed_nothing_leaks_and_the_replay_is_the_same(
    script: list[Any], drain: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("mixed") / "r.jsonl"
    ends = [
        [call("finish_task", summary=f"Done with {SECRET}."), say(f"and then {SECRET}", 5), call("look", path=SECRET)]
    ]
    engine = engine_of([*script, *ends * 3], policy=Policy(reminder=None))
    asyncio.run(engine.run(SECRET, record=path, drain=drain))
    check(path)


async def test_nothing_of_a_response_is_on_disk_before_it_is_whole_and_the_rest_is(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    half = anyio.Event()
    seen: list[bytes] = []

    @tool(reads=True)
    async def peek(at: str) -> str:
        """Look into the record."""
        seen.append(path.read_bytes())
        half.set()
        return "ok"

    script = [[say(SECRET[:8]), call("peek", at="it"), half, say(SECRET[8:])], [call("finish_task", summary="x")]]
    engine = Engine(Scripted(*script), tools=[peek], record_options=RecordOptions(redact=redact))
    await engine.run("go", record=path)
    assert seen[0].splitlines()[-1].startswith(b'{"type":"ATTEMPT_STARTED"')
    check_bytes = path.read_bytes()
    assert leaks(check_bytes) == []
    types_of = [msgspec.json.decode(line)["type"] for line in check_bytes.splitlines()]
    assert types_of.index("TOOL_EXECUTION_STARTED") < types_of.index("RESPONSE_FINISHED")


async def test_a_run_that_is_killed_in_the_middle_of_a_response_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    stalled = anyio.Event()
    engine = Engine(Scripted([say(SECRET[:8], 2), stalled, say("never")]), record_options=RecordOptions(redact=redact))
    async with engine.start("go", record=path) as run:
        while run.bus.last < 6:
            await anyio.lowlevel.checkpoint()
        killed = path.read_bytes()
    (tmp_path / "killed.jsonl").write_bytes(killed)
    assert leaks(killed) == []
    record = read_record(tmp_path / "killed.jsonl")
    again = Engine(Scripted("All is well."), record_options=RecordOptions(redact=redact))
    session = again.session(record.header.session_id, record=tmp_path / "killed.jsonl")
    session.load(record.runs)
    async with session.start_resumed() as resumed:
        outcome = await resumed.wait()
    assert outcome.answer == "All is well."
    assert (await replay(str(tmp_path / "killed.jsonl"))).same


def test_gates_questions_and_verdicts_replay_without_their_secrets(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    told: list[str] = []

    def gate(completion: Completion, progress: Any) -> Any:
        told.append(completion.answer)
        return Reject(f"{SECRET} is missing") if len(told) == 1 else True

    script = [[call("finish_task", summary=f"first {SECRET}")], [call("ask_user", question=f"Is it {SECRET}?")]]

    async def main() -> None:
        session = engine_of([*script, "fine"], hooks=Hooks(gates=[gate])).session(record=path)
        outcome = await session.run("go")
        await session.answer(outcome.questions[0].call_id, f"no, {SECRET}2")

    asyncio.run(main())
    check(path)


def test_what_differs_only_in_what_was_redacted_is_no_repetition_in_the_replay(tmp_path: Path) -> None:
    def blunt(text: str) -> str:
        return "".join("x" if letter.isdigit() else letter for letter in text)

    @tool
    async def look(path: str) -> str:
        """Look."""
        return f"row {path}"

    script = [[call("look", path=f"{number:05}")] for number in range(12)]
    engine = Engine(
        Scripted(*script, [call("finish_task", summary="x")]), tools=[look], record_options=RecordOptions(redact=blunt)
    )
    outcome = asyncio.run(engine.run("go", record=tmp_path / "r.jsonl"))
    assert outcome.stop_reason == "completed"
    report = asyncio.run(replay(str(tmp_path / "r.jsonl")))
    assert report.same, [run.divergence for run in report.runs]


def test_marks_of_results_cannot_be_guessed(tmp_path: Path) -> None:
    marks = []
    for name in ("a.jsonl", "b.jsonl"):
        run_of([[call("look", id="c", path="a"), call("look", id="d", path="a")], "done"], tmp_path / name)
        events = read_record(tmp_path / name).runs[0].events
        marks.append([event.fingerprint for event in events if isinstance(event, ev.ToolCallResult)])
    assert marks[0][0] == marks[0][1] != marks[1][0]


@pytest.mark.parametrize("broken", [lambda text: None, lambda text: 1 / 0, lambda text: text.encode()])
def test_a_function_that_fails_leaves_nothing(broken: Any, tmp_path: Path) -> None:
    script = [[say(SECRET), call("look", path=SECRET)], [call("finish_task", summary=SECRET)]]
    engine = engine_of(script, record_options=RecordOptions(redact=broken))
    outcome = asyncio.run(engine.run(SECRET, record=tmp_path / "r.jsonl"))
    assert outcome.answer == SECRET
    assert leaks((tmp_path / "r.jsonl").read_bytes()) == []
    assert REDACTION_FAILED.encode() in (tmp_path / "r.jsonl").read_bytes()


PLAIN_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WHOLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WHOLE, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["path", "text", SECRET]), PLAIN_JSON, max_size=3))
def test_arguments_stay_json_with_the_same_names_of_parameters(arguments: dict[str, Any]) -> None:
    text = json.dumps(arguments)
    redacted = TextRedactor(redact).arguments(text)
    assert list(json.loads(redacted)) == list(arguments)
    values = json.dumps(list(json.loads(redacted).values()), ensure_ascii=False)
    assert SECRET not in values
    if SECRET not in json.dumps(list(arguments.values())):
        assert redacted == text, "letter for letter"


def test_a_number_that_is_a_secret_becomes_a_text() -> None:
    texts = TextRedactor(lambda text: text.replace("4111111111111111", "[card]"))
    assert texts.arguments('{"n": 4111111111111111, "m": 41, "b": true}') == '{"n":"[card]","m":41,"b":true}'


def test_nothing_is_redacted_without_being_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    asyncio.run(Engine(Scripted([say(SECRET, 3)])).run(SECRET, record=path))
    assert SECRET.encode() in path.read_bytes()


def test_what_is_no_function_is_refused() -> None:
    from endstop.decision import WrongUse

    with pytest.raises(WrongUse, match="redact: 'all' is not a function"):
        Engine(Scripted("x"), record_options=RecordOptions(redact="all"))  # type: ignore[arg-type]
