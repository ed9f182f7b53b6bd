"""Messages from elsewhere at the beginning of a session, and its messages for elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Image, RecordOptions, Redaction, WrongUse, read_record
from endstop.decision import (
    AssistantMessage,
    Compaction,
    Message,
    Policy,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from endstop.decision import events as ev
from endstop.formats.export_openai import export
from endstop.providers import Scripted, call, say
from endstop.replay import replay
from endstop.testing import check_transcript
from endstop.tools import ask_user
from hypothesis import given
from hypothesis import strategies as st

from .test_fork import decisions, finish
from .test_resume import Script, check, eventful, killed_after

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
CALLS: list[dict[str, Any]] = [
    {"id": "old1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
    {"id": "old2", "type": "function", "function": {"name": "write", "arguments": '{"path":"b"}'}},
]
OPENAI: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Read a, write b."},
    {"role": "assistant", "content": "At once.", "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "old1", "content": "alpha"},
    {"role": "tool", "tool_call_id": "old2", "content": "done"},
    {"role": "assistant", "content": "It is done."},
]
ANTHROPIC: list[Any] = [
    {"role": "user", "content": "Read a, write b."},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "First a.", "signature": "sig=="},
            {"type": "redacted_thinking", "data": "opaque=="},
            {"type": "text", "text": "At once."},
            {"type": "tool_use", "id": "old1", "name": "read", "input": {"path": "a"}},
            {"type": "tool_use", "id": "old2", "name": "write", "input": {"path": "b"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "old1", "content": "alpha"},
            {"type": "tool_result", "tool_use_id": "old2", "content": "disk full", "is_error": True},
        ],
    },
    {"role": "assistant", "content": "It is half done."},
]
OURS: list[Message] = [
    UserMessage("Read a, write b."),
    AssistantMessage("At once.", (ToolCall("old1", "read", '{"path":"a"}'), ToolCall("old2", "write", '{"path":"b"}'))),
    ToolResult("old1", "read", "alpha"),
    ToolResult("old2", "write", "done"),
    AssistantMessage("It is done."),
]


class Asked:
    """A model that answers `ok`, and the messages of its requests."""

    def __init__(self) -> None:
        self.requests: list[list[Message]] = []

    def engine(self, **options: Any) -> Engine:
        return Engine(Scripted(self._answer), **options)

    def _answer(self, request: Any) -> str:
        self.requests.append(list(request.messages))
        return "ok"


# ---- in


async def test_a_history_in_openais_form_comes_before_the_prompt_and_brings_its_system_prompt() -> None:
    asked = Asked()
    outcome = await asked.engine().run("And c?", history=OPENAI)
    assert outcome.answer == "ok"
    assert asked.requests == [[SystemMessage("Be brief."), *OURS, UserMessage("And c?")]]


async def test_a_history_in_anthropics_form_keeps_thinking_with_signatures_and_failed_results() -> None:
    asked = Asked()
    await asked.engine(system="Mine.").run("And c?", history=ANTHROPIC)
    assert asked.requests == [
        [
            SystemMessage("Mine."),
            OURS[0],
            AssistantMessage(
                "At once.", OURS[1].calls, (Reasoning("First a.", "sig=="), Reasoning("", "opaque==", redacted=True))
            ),  # type: ignore[union-attr]
            OURS[2],
            ToolResult("old2", "write", "disk full", "error"),
            AssistantMessage("It is half done."),
            UserMessage("And c?"),
        ]
    ]


@pytest.mark.parametrize(("system", "read"), [(None, "Be brief."), ("Mine.", "Mine."), ("", None)])
async def test_the_engines_own_system_prompt_goes_before_that_of_a_history(system: str | None, read: str) -> None:
    asked = Asked()
    await asked.engine(system=system).run("And c?", history=[SystemMessage("Be brief."), *OURS])
    begins = [SystemMessage(read)] if read else []
    assert asked.requests == [[*begins, *OURS, UserMessage("And c?")]]


async def test_results_come_in_the_order_of_their_calls_whatever_the_order_given() -> None:
    asked = Asked()
    await asked.engine(system="").run("x", history=[*OPENAI[:3], OPENAI[4], OPENAI[3], OPENAI[5]])
    assert asked.requests[0][:-1] == OURS


async def test_models_of_an_sdk_are_read_as_the_dicts_that_they_dump() -> None:
    from pydantic import BaseModel

    class Block(BaseModel):
        type: str = "text"
        text: str

    class Said(BaseModel):
        role: str
        content: list[Block]
        refusal: None = None

    asked = Asked()
    given = [Said(role="user", content=[Block(text="Hi")]), {"role": "assistant", "content": [Block(text="Hello")]}]
    await asked.engine(system="").run("x", history=given)
    assert asked.requests[0][:-1] == [UserMessage("Hi"), AssistantMessage("Hello")]


async def test_a_call_of_the_run_never_has_the_id_of_one_in_the_history() -> None:
    script = Script([call("read", path="a", id="old1")], [call("finish_task", summary="done", id="f")])
    session = script.engine(0).session(history=OPENAI)
    await session.run("go")
    ids = [call.id for message in session.messages() if isinstance(message, AssistantMessage) for call in message.calls]
    assert len(ids) == len(set(ids)) == 4
    check_transcript(session.messages())


async def test_a_history_over_the_threshold_is_compacted_before_the_first_request() -> None:
    asked = Asked()
    policy = Policy(compaction=Compaction(window=1000, threshold=0.5, strategies=("drop_oldest",), keep_messages=1))
    session = asked.engine(policy=policy, system="S").session(history=[UserMessage("long " * 2000), *OURS])
    await session.run("go")
    assert UserMessage("long " * 2000) not in asked.requests[0]
    assert asked.requests[0][-1] == UserMessage("go")


RESULT = OPENAI[3]
WRONG: dict[str, tuple[list[Any], str]] = {
    "a call without a result": (OPENAI[:4], "history[2] makes calls without results: old2"),
    "a call whose result never comes": ([*OPENAI[:4], OPENAI[5]], "history[2] makes calls without results: old2"),
    "calls of Anthropic without results": ([*ANTHROPIC[:2], ANTHROPIC[0]], "history[1] makes calls without results"),
    "our call without a result": (OURS[:3], "history[1] makes calls without results: old2"),
    "a result without a call": ([OPENAI[1], RESULT], "history[1] is a result of a call that"),
    "a result of a call before the last response": (
        [*OPENAI, RESULT],
        "history[6] is a second result of one call",
    ),
    "a second result": ([*OPENAI[:4], RESULT], "history[4] is a second result"),
    "our result without a call": ([OURS[2]], "history[0] is a result of a call that"),
    "a second result of ours": ([*OURS[:3], OURS[2]], "history[3] is a second result"),
    "one id for two calls": ([*OURS, *OURS[1:]], "history[5] makes a call with an id that another call has"),
    "one id for two calls of OpenAI": ([*OPENAI, *OPENAI[2:]], "history[6] makes a call with an id that another"),
    "a system message in the middle": ([*OPENAI[1:], OPENAI[0]], "history[5] is a system message after the beginning"),
    "our system message in the middle": ([*OURS, SystemMessage("x")], "history[5] is a system message after"),
    "an unknown role": ([{"role": "critic", "content": "x"}], "history[0] has a role that is not known here: critic"),
    "an unknown part": (
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}],
        "history[0] has a part of a kind that is not known here: input_audio",
    ),
    "a text": (["Hello"], "history[0] is not a message"),
    "an object": ([object()], "history[0] is not a message"),
    "a message without content": ([{"role": "user", "name": "x"}], "history[0] says nothing"),
    "a blank message": ([UserMessage(" \n")], "history[0] says nothing"),
    "an error": ([OPENAI[1], {"role": "assistant", "error": "overloaded"}], "history[1] is the error of a request"),
    "two forms": ([OURS[0], OPENAI[5]], "history[1] has a different form"),
    "an image of this host": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://localhost/a.png"}}]}],
        "history[0]: 'http://localhost/a.png' is on this host",
    ),
    "an image of the model": (
        [{"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}],
        "history[0] holds an image",
    ),
    "a call of a tool of the provider": (
        [{"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}],
        "history[0] holds a call of a tool that the provider ran",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_history_that_no_provider_takes_is_refused_with_its_place_before_any_request(
    wrong: str, tmp_path: Path
) -> None:
    asked, path = Asked(), tmp_path / "r.jsonl"
    history, why = WRONG[wrong]
    with pytest.raises(WrongUse) as refused:
        await asked.engine().run("go", history=history, record=path)
    assert str(refused.value).startswith(why)
    assert asked.requests == []
    assert not path.exists()


# ---- recorded


async def test_a_history_is_recorded_once_and_replays(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    session = Asked().engine().session(history=OPENAI, record=path)
    assert session.messages() == [SystemMessage("Be brief."), *OURS]
    await session.run("one")
    await session.run("two")
    first, second = (run.started for run in read_record(path).runs)
    assert (first.history, first.system) == ((SystemMessage("Be brief."), *OURS), "Be brief.")
    assert second.history == ()
    report = await replay(path)
    assert report.same
    loaded = Asked().engine().session(history=(), record=path)
    loaded.load(read_record(path).runs)
    assert loaded.messages() == session.messages()
    exported, _ = export("s", [event for run in read_record(path).runs for event in run.events])
    assert [message["content"] for message in exported["messages"]][:3] == ["Be brief.", "Read a, write b.", "At once."]


async def test_a_run_with_a_history_killed_after_any_of_its_events_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    script, options = eventful()
    expected = await script.engine(0, **options).run("go", history=OPENAI, record=whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    (unbroken,) = read_record(whole).runs
    for kept in range(2, len(lines), 3):
        where = f"killed after line {kept} of {len(lines)}"
        again, options = eventful()
        outcome, session = await killed_after(path, lines[:kept], again, options)
        assert session.transcript.messages[: len(OURS) + 1] == [SystemMessage("Be brief."), *OURS], where
        (run,) = read_record(path).runs
        assert run.started.history == unbroken.started.history, where
        check(run.events, session, unbroken.started.run_id, where)
        assert outcome.status == expected.status, where
        assert (await replay(path)).same, where


async def test_a_fork_begins_with_the_history_and_may_bring_another_system_prompt(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = Script([call("read", path="a", id="r1")], [call("finish_task", summary="done", id="end")])
    await script.engine(0, policy=Policy(max_inner_steps=1)).run("go", history=OPENAI, record=origin)
    at = decisions(origin)[0].seq
    for system, read in ((None, "Be brief."), ("Mine.", "Mine.")):
        other = Script(*[[call("finish_task", summary="forked", id="end")]] * 2)
        engine = other.engine(1, policy=Policy(max_inner_steps=1), system=system)
        path = tmp_path / f"{read}.jsonl"
        forked = script.engine(0).session(record=origin).fork(at=at, engine=engine, record=path)
        assert (await finish(forked)).answer == "forked"
        assert forked.messages()[: len(OURS) + 1] == [SystemMessage(read), *OURS]
        assert (await replay(path)).same


async def test_a_history_is_redacted_in_the_record_and_not_for_the_model(tmp_path: Path) -> None:
    asked, path, secret = Asked(), tmp_path / "r.jsonl", "sk-proj-" + "Ab1" * 16
    result = [{"role": "tool", "tool_call_id": "old1", "content": f"key {secret}"}]
    given = [OPENAI[1], {**OPENAI[2], "tool_calls": CALLS[:1]}, *result]
    engine = asked.engine(record_options=RecordOptions(redact=Redaction()))
    await engine.run("go", history=given, record=path)
    assert secret in str(asked.requests[0])
    assert secret.encode() not in path.read_bytes()
    assert "[redacted:" in str(read_record(path).runs[0].started.history)
    assert (await replay(path)).same


# ---- out


async def test_messages_come_back_in_three_forms_and_go_in_again() -> None:
    script = Script(
        [say("I look."), call("read", path="a", id="r1"), call("write", path="b", id="w1")],
        [call("finish_task", summary="done", id="end")],
    )
    session = script.engine(0).session()
    async with session.start(["What is this?", Image(PNG), "And this?"]) as run:
        await run.wait()
    assert run.messages() == session.messages()
    for form in (None, "openai", "anthropic"):
        out = session.messages(format=form)  # type: ignore[arg-type]
        again = script.engine(0).session(history=out)
        assert again.messages(format=form) == out  # type: ignore[arg-type]
    openai, anthropic = session.messages(format="openai"), session.messages("anthropic")
    assert [message["role"] for message in openai] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool"),
    ]
    assert [message["role"] for message in anthropic] == ["user", "assistant", "user", "assistant", "user"]
    assert [part["type"] for part in openai[1]["content"]] == ["text", "image_url", "text"]
    assert [part["type"] for part in anthropic[0]["content"]] == ["text", "image", "text"]
    assert anthropic[1]["content"] == [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "r1", "name": "read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "w1", "name": "write", "input": {"path": "b"}},
    ]
    json.dumps([openai, anthropic])


async def test_a_session_without_messages_has_none_in_any_form() -> None:
    session = Asked().engine(system="").session()
    assert [session.messages(form) for form in (None, "openai", "anthropic")] == [[], [], []]  # type: ignore[arg-type]


async def test_in_anthropics_form_thinking_goes_back_with_its_signature_and_none_without_one() -> None:
    thoughts = (Reasoning("a", "sig"), Reasoning("b"), Reasoning("", "opaque", redacted=True))
    given = [UserMessage("x"), AssistantMessage("y", (), thoughts)]
    out = Asked().engine().session(history=given).messages("anthropic")
    assert out[1]["content"] == [
        {"type": "thinking", "thinking": "a", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "y"},
    ]


async def test_in_openais_form_pictures_of_results_follow_the_last_result_and_in_anthropics_they_are_in_it() -> None:
    call_ids = ToolCall("c1", "look", "{}"), ToolCall("c2", "look", "{}")
    given = [
        UserMessage("x"),
        AssistantMessage("", call_ids),
        ToolResult("c1", "look", "[image]", images=(Image(PNG),)),
        ToolResult("c2", "look", "nothing"),
    ]
    session = Asked().engine(system="").session(history=given)
    openai, anthropic = session.messages("openai"), session.messages("anthropic")
    assert [message["role"] for message in openai] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in openai[-1]["content"]] == ["text", "image_url"]
    assert [part["type"] for part in anthropic[-1]["content"][0]["content"]] == ["text", "image"]


async def test_a_paused_session_gives_its_messages_and_says_what_to_do_if_they_begin_another() -> None:
    engine = Engine(Scripted([call("ask_user", question="Which?", id="q1")]), tools=[ask_user])
    session = engine.session()
    await session.run("go")
    with pytest.raises(WrongUse, match=r"history\[2\] makes calls without results: q1.*session.answer"):
        engine.session(history=session.messages())


def texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map(lambda text: f"t{text}")


IMAGES = st.sampled_from([Image(PNG), Image(PNG + b"1"), Image(url="https://example.com/a.png")])
ROUNDS = st.tuples(
    st.lists(texts() | IMAGES, min_size=1, max_size=4).map(UserMessage.of),
    texts() | st.just(""),
    st.lists(texts(), max_size=3),
    texts(),
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Conversations as sessions have them: calls with results that are fine, and no reasoning."""
    messages: list[Message] = [SystemMessage(draw(texts()))]
    for number, (said, text, results, answer) in enumerate(draw(st.lists(ROUNDS, max_size=4))):
        messages.append(said)
        calls = [ToolCall(f"c{number}.{place}", "look", '{"at":1}') for place in range(len(results))]
        if calls:
            messages.append(AssistantMessage(text, tuple(calls)))
            messages += [ToolResult(one.id, "look", result) for one, result in zip(calls, results, strict=True)]
        messages.append(AssistantMessage(answer))
    return messages


@given(conversations())
def test_what_goes_out_in_any_form_is_the_same_conversation_when_it_comes_in(messages: list[Message]) -> None:
    engine = Engine(Scripted("ok"))
    session = engine.session(history=messages)
    assert session.messages() == messages
    assert engine.session(history=session.messages("openai")).messages() == messages
    assert engine.session(history=session.messages("anthropic")).messages()[1:] == messages[1:]


@given(st.lists(texts() | IMAGES, min_size=1, max_size=6))
def test_the_parts_of_a_message_make_the_same_message(parts: list[Any]) -> None:
    message = UserMessage.of(parts)
    assert UserMessage.of(message.parts) == message
    assert [part for part in message.parts if isinstance(part, Image)] == list(message.images)


def test_an_image_whose_mark_is_gone_comes_last() -> None:
    message = UserMessage(
        "Look:\n[image 2: https://example.com/b.png]", (Image(PNG), Image(url="https://example.com/b.png"))
    )
    assert message.parts == ("Look:", Image(url="https://example.com/b.png"), Image(PNG))


def test_a_record_of_before_has_no_history() -> None:
    assert ev.RunStarted(run_id="r", session_id="s", policy=Policy()).history == ()
