"""What a client of AG-UI asks for: every good input is one by the official model too, and every bad one is refused."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from endstop import Image
from endstop.decision import Question, WrongUse
from endstop.user_message import MAX_IMAGE_BYTES
from endstop.web.ag_ui import AgUiInput, QuestionAnswer, read_input
from hypothesis import given
from hypothesis import strategies as st

USER = {"id": "m1", "role": "user", "content": "Set the port."}
GIF, URL = b"GIF89a...", "https://example.org/a.png"
OPEN = (Question("q1", "Which?"), Question("q2", "When?"))


def body(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"threadId": "t", "runId": "r", "messages": list(messages), **fields}).encode()


def good(*messages: Any, **fields: Any) -> AgUiInput:
    """What an input asks for that is one by the official model."""
    RunAgentInput.model_validate_json(body(*messages, **fields))
    return read_input(body(*messages, **fields))


def tool(call: str, text: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "m9", "role": "tool", "toolCallId": call, "content": text, **fields}


def test_the_last_user_message_is_the_prompt_and_the_history_is_the_servers() -> None:
    before = [{"id": "m0", "role": "user", "content": "Hi."}, {"id": "a0", "role": "assistant", "content": "Hello."}]
    got = good(*before, USER, state={}, tools=[], context=[], forwardedProps={})
    assert got == AgUiInput(thread_id="t", run_id="r", prompt="Set the port.", user_text="Set the port.")


def test_texts_and_images_of_a_message_are_read_in_their_order() -> None:
    data = {"type": "data", "value": b64encode(GIF).decode(), "mimeType": "image/png"}
    pictures = [{"type": "image", "source": source} for source in ({"type": "url", "value": URL}, data)]
    parts = [{"type": "text", "text": "What"}, *pictures, {"type": "text", "text": "is this?"}]
    got = good({**USER, "content": parts}, context=[{"description": "The page", "value": "settings"}])
    assert got.message.parts == (
        "What",
        Image(url=URL),
        Image(data=GIF, media_type="image/gif"),
        "is this?\n\nContext from the application:\n- The page: settings",
    )
    assert got.answers_to(OPEN)[0].said.parts == (*got.message.parts[:3], "is this?")
    assert got.ignored == ()


def test_a_message_may_be_an_image_alone() -> None:
    got = good({**USER, "content": [{"type": "image", "source": {"type": "url", "value": URL}}]})
    assert got.message.parts == (Image(url=URL),)


@pytest.mark.parametrize("kept", [{"url": URL}, {"data": b64encode(GIF).decode()}])
def test_an_image_in_the_form_before_version_1_is_read(kept: dict[str, str]) -> None:
    got = read_input(body({**USER, "content": [{"type": "binary", "mimeType": "image/gif", **kept}]}))
    assert got.images == (Image(url=URL) if "url" in kept else Image(data=GIF, media_type="image/gif"),)


def test_sounds_and_files_of_a_provider_are_passed_over_with_a_word() -> None:
    sound = {"type": "audio", "source": {"type": "url", "value": "https://example.org/a.wav"}}
    file = {"type": "image", "source": {"type": "file", "value": "file_1"}}
    got = good({**USER, "content": [{"type": "text", "text": "What is this?"}, sound, file]})
    assert (got.prompt, got.images) == ("What is this?", ())
    assert got.ignored == (
        "messages: a part of type 'audio'",
        "messages: an image that is only a file id of a provider",
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"type": "url", "value": "http://127.0.0.1/a.png"}, "private network"),
        ({"type": "url", "value": "file:///etc/passwd"}, "not the URL of an image"),
        ({"type": "data", "value": "###", "mimeType": "image/png"}, "not valid base64"),
        ({"type": "data", "value": "aGVsbG8=", "mimeType": "image/png"}, "not an image of a known type"),
        ({"type": "data", "value": b64encode(GIF + bytes(MAX_IMAGE_BYTES)).decode(), "mimeType": "image/gif"}, "bytes"),
    ],
)
def test_an_image_that_no_provider_could_read_is_refused(source: dict[str, str], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        read_input(body({**USER, "content": [{"type": "image", "source": source}]}))


def test_answers_may_hold_images() -> None:
    parts = [{"type": "text", "text": "This one."}, {"type": "image", "source": {"type": "url", "value": URL}}]
    (told,) = good(USER, tool("q1", parts)).answers
    (resumed,) = good(resume=[{"interruptId": "q1", "status": "resolved", "payload": parts}]).answers
    assert told == resumed
    assert told.said.parts == ("This one.", Image(url=URL))


def test_tools_of_the_client_and_its_state_are_passed_over_with_a_word() -> None:
    offered = [{"name": "paint", "description": "Paint."}]
    got = good(USER, tools=offered, state={"colour": "red"}, resume=[], parentRunId="r0", protocolVersion="1.0")
    assert [one.split(":")[0] for one in got.ignored] == ["tools", "state"]
    assert got.prompt == "Set the port."


def test_context_stands_below_the_prompt_but_not_in_an_answer() -> None:
    got = good(USER, context=[{"description": "The page", "value": "settings"}])
    assert got.prompt == "Set the port.\n\nContext from the application:\n- The page: settings"
    assert got.answers_to(OPEN) == (QuestionAnswer("q1", "Set the port."),)


def test_the_agent_is_named_in_the_forwarded_props() -> None:
    assert good(USER, forwardedProps={"agent": "writer", "other": 1}).agent == "writer"
    assert [good(USER, forwardedProps=props).agent for props in ({}, {"agent": 3}, [], "agent")] == [None] * 4


def test_metadata_is_an_object_in_the_forwarded_props() -> None:
    got = good(USER, forwardedProps={"metadata": {"plan": "free"}, "token": "secret"})
    assert (got.metadata, got.ignored) == ({"plan": "free"}, ())
    assert got.ignored_by({"plan": "free"}) == ()
    assert got.ignored_by({"plan": "paid"}) == ("forwardedProps.metadata: the session has its own since it began",)
    assert good(USER, forwardedProps={}).ignored_by({"plan": "paid"}) == ()
    for props in ({}, {"metadata": None}, [], "metadata", None):
        assert (good(USER, forwardedProps=props).metadata, good(USER, forwardedProps=props).ignored) == ({}, ())
    wrong = good(USER, forwardedProps={"metadata": ["free"]})
    assert (wrong.metadata, wrong.ignored) == ({}, ("forwardedProps.metadata: it is not an object, but a list",))


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("80", "80"),
        (True, "yes"),
        (False, "no"),
        ({"approved": True}, "yes"),
        ({"answer": "80"}, "80"),
        ({"text": "80"}, "80"),
        ({"port": 80}, '{"port":80}'),
        (80, "80"),
    ],
)
def test_resume_entries_answer_questions(payload: Any, text: str) -> None:
    got = good(USER, resume=[{"interruptId": "q2", "status": "resolved", "payload": payload}])
    assert got.prompt is None
    (answer,) = got.answers
    assert (answer.call_id, answer.text) == ("q2", text)
    assert got.answers_to(OPEN) == got.answers


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (True, QuestionAnswer("q2", "yes", True)),
        ({"approved": True, "editedArgs": {"a": 1}}, QuestionAnswer("q2", "yes", True, {"a": 1})),
        ({"approved": False, "reason": "later"}, QuestionAnswer("q2", "later", False)),
        ({"approved": False}, QuestionAnswer("q2", "no", False)),
    ],
)
def test_resume_entries_approve_and_deny_calls(payload: Any, answer: QuestionAnswer) -> None:
    assert good(resume=[{"interruptId": "q2", "status": "resolved", "payload": payload}]).answers == (answer,)


@pytest.mark.parametrize("payload", [{"approved": True, "editedArgs": 7}, {"approved": False, "editedArgs": {}}])
def test_edited_arguments_go_with_a_yes_and_are_an_object(payload: Any) -> None:
    with pytest.raises(WrongUse, match="editedArgs"):
        read_input(body(resume=[{"interruptId": "q2", "status": "resolved", "payload": payload}]))


def test_an_abandoned_question_is_answered_by_saying_so() -> None:
    got = good(resume=[{"interruptId": "q1", "status": "cancelled"}])
    assert got.answers[0].call_id == "q1"
    assert "does not answer" in got.answers[0].text


def test_tool_messages_at_the_end_answer_questions_in_their_order() -> None:
    parts = [{"type": "text", "text": "Noon."}]
    got = good(USER, tool("q1", "80"), tool("q2", parts), tool("q3", "", error="No idea."))
    assert got.answers == (QuestionAnswer("q1", "80"), QuestionAnswer("q2", "Noon."), QuestionAnswer("q3", "No idea."))
    assert got.answers_to(OPEN) == (QuestionAnswer("q1", "80"), QuestionAnswer("q2", "Noon.")), (
        "what nobody asked is passed over"
    )


def test_a_user_message_answers_the_question_that_is_open_and_is_a_prompt_where_none_is() -> None:
    got = good(USER)
    assert got.answers_to(OPEN) == (QuestionAnswer("q1", "Set the port."),)
    assert got.answers_to(()) == ()


def test_the_answer_to_a_pause_that_asked_nothing_is_a_prompt() -> None:
    got = good(resume=[{"interruptId": "endstop:paused", "status": "resolved", "payload": "Go on."}])
    assert (got.prompt, got.answers) == ("Go on.", ())


def test_answers_to_no_open_question_are_refused_with_those_that_are_open() -> None:
    got = good(resume=[{"interruptId": "q9", "status": "resolved", "payload": "x"}])
    with pytest.raises(WrongUse, match=r"no open question q9 \(open: q1, q2\)"):
        got.answers_to(OPEN)
    with pytest.raises(WrongUse, match=r"\(open: none\)"):
        got.answers_to(())


@pytest.mark.parametrize(
    ("given_body", "words"),
    [
        (b"", "not a RunAgentInput"),
        (b"\xff", "not a RunAgentInput"),
        (b"[" * 100_000, "not a RunAgentInput"),
        (b"[]", "not a RunAgentInput"),
        (b'{"threadId":"t","messages":[]}', "runId"),
        (body(USER, runId=" "), "`runId` is empty"),
        (body(USER, threadId=""), "`threadId` is empty"),
        (body(USER, threadId=3), "threadId"),
        (body(), "there are none"),
        (body({"id": "a", "role": "assistant", "content": "Hi."}), "'assistant'"),
        (body({**USER, "content": " "}), "neither text nor image"),
        (body({**USER, "content": []}), "neither text nor image"),
        (body({**USER, "content": [{"type": "text"}]}), "content part"),
        (body({**USER, "content": ["text"]}), "content part"),
        (body({**USER, "content": {"text": "x"}}), "content"),
        (body({"id": "x", "role": "tool", "content": "80"}), "toolCallId"),
        (body(tool("q1", "")), "the tool message for q1"),
        (body(USER, resume=[{"interruptId": "q1", "status": "resolved"}]), "has no answer"),
        (body(USER, resume=[{"interruptId": "q1", "status": "maybe"}]), "resume"),
        (body(USER, context=[{"description": "x"}]), "context"),
    ],
)
def test_a_bad_input_is_refused_with_what_is_wrong_and_where(given_body: bytes, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        read_input(given_body)


NAMES = """
    threadId runId messages tools context state forwardedProps resume role content type text toolCallId interruptId
    status payload agent description value error id
"""
FIELDS = st.sampled_from(NAMES.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(FIELDS, JSON, max_size=8))
def test_any_json_is_an_input_or_refused(fields: Any) -> None:
    try:
        got = read_input(json.dumps({"threadId": "t", "runId": "r", "messages": [USER], **fields}).encode())
    except WrongUse:
        return
    assert got.prompt or got.answers
    assert (got.prompt is None) is bool(got.answers)
