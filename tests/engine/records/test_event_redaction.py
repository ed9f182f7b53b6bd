"""Redaction where records are written: nothing of a secret reaches the disk, and the record replays the same."""

from __future__ import annotations

import asyncio
import builtins
import json
import typing
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from endstop import Completion, Engine, Hooks, RecordOptions, read_record, tool
from endstop.decision import Event, Policy, ReasoningDelta
from endstop.decision import events as ev
from endstop.decision.chunks import TextDelta, ToolCallDelta
from endstop.decision.cost import Price
from endstop.decision.messages import Reasoning, Redacted
from endstop.decision.settings import Settings
from endstop.hooks import Reject
from endstop.providers import RateLimited, Scripted, call, say
from endstop.records.event_redaction import REDACTION_FAILED, StreamRedactor, TextRedactor, redacted_fields
from endstop.records.format import DrainedChunk, encode_line
from endstop.replay import replay
from endstop.tools import ask_user, finish_task, think
from hypothesis import given
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


# ---- the types of fields

WORDS = """
    run_id session_id continues attempt by started_at expires_at engine place endpoint attached fingerprint changed
    recorded now kind reason stop_reason said limit cut_for topics reminded policy rule rules guards unwatched
    data work
""".split()
"""Fields of type `str` or `bytes`: ids and words of endstop itself, and images. Others are `Text`, `Json` or `Name`."""
NESTED: dict[str, Any] = {"a": [SECRET, {"b": f"it is {SECRET}, isn't it", SECRET: 1}], "n": 5, "t": None, "f": 0.5}
SCHEMA = {"properties": {"x": {"type": "string", "default": SECRET}}}
MARKED = {
    Redacted.TEXT: [f"it is {SECRET}, isn't it"],
    Redacted.JSON: [json.dumps(NESTED), f"{SECRET}, and no JSON"],
    Redacted.SCHEMA: [SCHEMA],
    Redacted.NAME: ["name"],
}
GIVEN: dict[str, Any] = {"reason": "completed", "stop_reason": "completed", "by": "tool"}
PLAIN: dict[Any, Any] = {
    str: "word",
    int: 1,
    float: 1.0,
    bool: False,
    bytes: b"",
    Any: NESTED,
    Price: Price(input=1, output=1),
}


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def values(kind: Any) -> list[Any]:
    """Values of a type with the secret wherever a text can be; several if it has several forms."""
    parts = [part for part in typing.get_args(kind) if part not in (type(None), ...)]
    match typing.get_origin(kind):
        case typing.Annotated:
            found = [value for mark in kind.__metadata__ if mark in MARKED for value in MARKED[mark]]
            return found or values(parts[0])
        case typing.Literal:
            return parts[:1]
        case builtins.tuple:
            return [tuple(values(parts[0]))]
        case builtins.dict:
            return [{"key": value} for value in values(parts[1])]
        case None:
            return [PLAIN[kind]] if kind in PLAIN else structs(kind)
        case _:
            return [value for part in parts for value in values(part)]


def structs(kind: type[Struct]) -> list[Struct]:
    """Values of a type in which every form of each field occurs."""
    hints = typing.get_type_hints(kind, include_extras=True)
    names = redacted_fields(kind) if issubclass(kind, Settings) else kind.__struct_fields__
    forms = {name: [GIVEN[name]] if name in GIVEN and hints[name] is str else values(hints[name]) for name in names}
    many = max(map(len, forms.values()), default=1)
    return [kind(**{name: form[turn % len(form)] for name, form in forms.items()}) for turn in range(many)]


def types_in(kind: Any, seen: set[type[Struct]]) -> set[type[Struct]]:
    if is_struct(kind) and kind not in seen:
        seen.add(kind)
        for field in msgspec.structs.fields(kind):
            types_in(field.type, seen)
    for part in typing.get_args(kind):
        types_in(part, seen)
    return seen


def is_plain_text(kind: Any) -> bool:
    match typing.get_origin(kind):
        case typing.Annotated | typing.Literal:
            return False
        case builtins.dict:
            return is_plain_text(typing.get_args(kind)[1])
        case _:
            return kind in (str, bytes) or any(map(is_plain_text, typing.get_args(kind)))


def test_the_type_of_each_field_says_whether_it_holds_a_text() -> None:
    other = [
        f"{kind.__name__}.{name}: say Text, Json or Name, or add it to WORDS"
        for kind in types_in(DrainedChunk | Event, set())
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
        if name in kind.__struct_fields__ and name not in WORDS and is_plain_text(hint)
    ]
    assert not other, "\n".join(other)


@pytest.mark.parametrize("kind", [*Event.__args__, DrainedChunk])
def test_no_text_of_an_event_is_left_out(kind: Any) -> None:
    for event in structs(kind):
        redactor = StreamRedactor(redact)
        (redacted,) = (*redactor.feed(event), *redactor.flush())
        assert leaks(encode_line(redacted)) == []
        assert (MARK.encode() in encode_line(redacted)) == bool(leaks(encode_line(event)))
        assert type(redacted) is type(event)
        again = msgspec.json.decode(encode_line(redacted), type=DrainedChunk | Event)
        assert again.__struct_fields__ == event.__struct_fields__


@pytest.mark.parametrize("kind", [*Event.__args__, DrainedChunk])
def test_what_is_known_to_be_secret_is_hidden_in_names_too(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MARKED, Redacted.NAME, [SECRET])
    for event in structs(kind):
        redactor = StreamRedactor(None, redact)
        (redacted,) = (*redactor.feed(event), *redactor.flush())
        assert leaks(encode_line(redacted)) == []


def test_the_name_of_a_gate_is_redacted_where_it_rejects() -> None:
    event = ev.CompletionRejected(call_id="c", name="t", reason="", by=f"m:CommandGate({SECRET!r})")
    assert TextRedactor(redact).struct(event).by == f"m:CommandGate({MARK!r})"


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


@pytest.mark.parametrize("depth", [100, 300, 950, 3_000, 100_000])
def test_arguments_that_are_nested_deep_are_redacted_and_kept(depth: int) -> None:
    redacted = TextRedactor(redact).arguments('{"a":' * depth + f'"{SECRET}"' + "}" * depth)
    assert SECRET not in redacted
    assert redacted.count("{") == redacted.count("}") == depth


def test_nothing_is_redacted_without_being_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    asyncio.run(Engine(Scripted([say(SECRET, 3)])).run(SECRET, record=path))
    assert SECRET.encode() in path.read_bytes()


def test_what_is_no_function_is_refused() -> None:
    from endstop.decision import WrongUse

    with pytest.raises(WrongUse, match="redact: 'all' is not a function"):
        Engine(Scripted("x"), record_options=RecordOptions(redact="all"))  # type: ignore[arg-type]
