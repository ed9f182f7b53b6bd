"""Images in what a user says later: messages to a run that is going on, and answers to questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Engine, Image, RecordOptions, Redaction, WrongUse, read_record, tool
from endstop.decision import Message, ToolResult, UserMessage
from endstop.decision.events import MessageAdded, QuestionAnswered
from endstop.formats import events_of
from endstop.formats.openai import sessions
from endstop.providers import Scripted, call
from endstop.records.scan import scan
from endstop.replay import replay
from endstop.session import Session
from endstop.tools import ask_user
from endstop.user_message import MAX_IMAGE_BYTES

from .held import Held

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
LARGE = PNG + bytes(300_000)
THERE = Image(url="https://example.com/a.png")
SAID = UserMessage.of(["Like this:", Image(LARGE), "or", THERE])
ASK = call("ask_user", question="Which one?")


async def say(path: Path, *parts: Any) -> Scripted:
    """A run that is told this while its tool runs; its model."""
    held = Held()
    model = Scripted([call("look", path="a")], "Done.")
    async with Engine(model, tools=[held.tool]).start("Draw it", record=path) as run:
        await held.called.wait()
        run.say(list(parts))
        held.go.set()
        await run.wait()
    return model


async def asked(path: Path, *then: Any, **options: Any) -> tuple[Scripted, Session]:
    """A session whose run waits for an answer."""
    model = Scripted([ASK], *(then or ["Done."]))
    session = Engine(model, presets=[ask_user], **options).session(record=path)
    assert (await session.run("Draw it")).status == "awaiting_input"
    return model, session


def events(path: Path, kind: type[Any]) -> list[Any]:
    return [event for run in read_record(path).runs for event in run.events if isinstance(event, kind)]


async def test_a_message_holds_texts_and_images_as_a_prompt(tmp_path: Path) -> None:
    path, file = tmp_path / "r.jsonl", tmp_path / "large.png"
    file.write_bytes(LARGE)
    model = await say(path, "Like this:", file, "or", THERE)
    assert model.requests[1].messages[-1] == SAID
    (said,) = events(path, MessageAdded)
    assert (said.text, said.images) == (SAID.text, SAID.images)
    assert LARGE not in path.read_bytes(), "a large image lies beside the record"
    assert [one.images for one in scan(path, attachments=True) if isinstance(one, MessageAdded)] == [SAID.images]
    assert (await replay(path)).same


async def test_a_killed_run_still_has_the_images_that_were_said(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await say(path, "Like this:", Image(LARGE), "or", THERE)
    lines = path.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b'"message_id"' in line)
    path.write_bytes(b"".join(lines[: cut + 1]))
    again = Scripted("Done again.")
    session = Engine(again, tools=[Held().tool]).resume(path)
    async with session.start_resumed() as run:
        await run.wait()
    assert again.requests[0].messages[-1] == SAID
    assert (await replay(path)).same


async def test_an_answer_holds_texts_and_images_which_are_the_result_of_the_question(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    model, session = await asked(path)
    id = session.questions[0].call_id
    assert (await session.answer(id, ["Like this:", Image(LARGE), "or", THERE])).status == "completed"
    result = model.requests[1].messages[-1]
    assert result == ToolResult(id, "ask_user", SAID.text, images=SAID.images)
    (answered,) = events(path, QuestionAnswered)
    assert (answered.text, answered.images) == (SAID.text, SAID.images)
    assert LARGE not in path.read_bytes()
    assert (await replay(path)).same


async def test_an_answer_with_images_is_still_known_after_its_run_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    _, session = await asked(path)
    await session.answer(session.questions[0].call_id, SAID)
    lines = path.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b"QUESTION_ANSWERED" in line)
    for kept in range(cut + 1, len(lines)):
        path.write_bytes(b"".join(lines[:kept]))
        again = Scripted("Done again.")
        session = Engine(again, presets=[ask_user]).resume(path)
        async with session.start_resumed() as run:
            await run.wait()
        (result,) = (one for one in session.messages() if isinstance(one, ToolResult))
        assert result.images == SAID.images, kept
        assert (await replay(path)).same, kept


async def test_messages_with_images_go_out_and_in_again(tmp_path: Path) -> None:
    _, session = await asked(tmp_path / "r.jsonl")
    await session.answer(session.questions[0].call_id, SAID)
    openai = session.messages(format="openai")
    assert [part["type"] for message in openai if isinstance(message["content"], list) for part in message["content"]]
    read: list[Message] = Engine(Scripted("x")).session(history=session.messages(format="anthropic")).messages()
    assert [one.images for one in read if isinstance(one, ToolResult)] == [SAID.images]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Image(b"hello"), r"answer\[1\]: these 5 bytes are not an image of a known type"),
        (Image(PNG + bytes(MAX_IMAGE_BYTES)), "the images of the answer have 20,971,548 bytes"),
        (Image(url="http://localhost/a.png"), r"answer\[1\]: .* is on this host"),
        (3, r"answer\[1\] is 3, of type int"),
    ],
)
async def test_what_no_provider_could_read_is_refused_and_the_question_stays_open(
    part: Any, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl"
    model, session = await asked(path)
    before, id = path.read_bytes(), session.questions[0].call_id
    with pytest.raises(WrongUse, match=why):
        await session.answer(id, ["Look:", part])
    async with Engine(Scripted("x")).start("Go") as run:
        with pytest.raises(WrongUse, match=why.replace("answer", "message")):
            run.say(["Look:", part])
        assert run.undelivered == ()
    assert path.read_bytes() == before
    assert (await session.answer(id, "That one.")).status == "completed"
    assert len(model.requests) == 2


@pytest.mark.parametrize("said", [[], [" "], ["", "\n"]])
async def test_an_answer_of_parts_that_say_nothing_is_refused(said: list[str], tmp_path: Path) -> None:
    _, session = await asked(tmp_path / "r.jsonl")
    with pytest.raises(WrongUse, match="the answer is empty"):
        await session.answer(session.questions[0].call_id, said)


async def test_an_approval_and_a_confirmation_are_answered_in_words(tmp_path: Path) -> None:
    @tool(approval=True)
    def delete(path: str) -> str:
        "Delete a file."
        return "deleted"

    @tool(kind="completion")
    def done(summary: str) -> Completion:
        "Finish."
        return Completion(answer=summary, confirm="Is it good?")

    for model in (Scripted([call("delete", path="a")], "Done."), Scripted([call("done", summary="It is.")])):
        session = Engine(model, tools=[delete, done]).session()
        await session.run("Go")
        (question,) = session.questions
        with pytest.raises(WrongUse, match="answer yes or no in words"):
            await session.answer(question.call_id, ["yes", Image(PNG)])
        assert (await session.answer(question.call_id, ["yes"])).status == "completed"


async def test_urls_of_images_that_were_said_are_redacted(tmp_path: Path) -> None:
    path, secret = tmp_path / "r.jsonl", "sk-proj-" + "Ab1" * 16
    url = Image(url=f"https://example.com/a.png?key={secret}")
    model, session = await asked(path, [ASK], "Done.", record_options=RecordOptions(redact=Redaction()))
    answering = session.start_answer(session.questions[0].call_id, ["This:", url])
    answering.say(["And this:", url])
    async with answering:
        await answering.wait()
    assert secret in str(model.requests[1])
    assert len(events(path, MessageAdded)) == len(events(path, QuestionAnswered)) == 1
    assert secret.encode() not in path.read_bytes()
    assert (await replay(path)).same


def test_an_imported_session_keeps_the_images_of_a_message_beside_the_prompt() -> None:
    content = [{"type": "text", "text": "Like this:"}, {"type": "image_url", "image_url": {"url": THERE.url}}]
    messages = [{"role": "user", "content": "Draw it"}, {"role": "user", "content": content}]
    (session,) = sessions([*messages, {"role": "assistant", "content": "Done."}])
    (said,) = (event for event in events_of(session, "s", "openai") if isinstance(event, MessageAdded))
    assert (said.text, said.images) == (f"Like this:\n[image 1: {THERE.url}]", (THERE,))
    assert "image" not in session.losses
