"""The builder of imported sessions: where a message of the loop stands that was held back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from endstop.decision import UserMessage
from endstop.formats import FORMATS, detect_format, events_of
from endstop.formats.imported_session import ImportedSession
from endstop.formats.session_builder import SessionBuilder

BEFORE: dict[str, Callable[[SessionBuilder], None]] = {
    "a response": lambda builder: builder.add_response("done"),
    "a failed request": lambda builder: builder.add_failure("overloaded"),
}
STAYS: dict[str, Callable[[SessionBuilder], None]] = {
    "an interruption": lambda builder: builder.add_user((), "interrupt"),
    "another nudge": lambda builder: builder.add_user(["go on"], "nudge"),
}


def begun() -> SessionBuilder:
    builder = SessionBuilder(ImportedSession())
    builder.add_user(["Set the port"])
    builder.hold(UserMessage("remember the tests"), 7.0)
    return builder


def places(builder: SessionBuilder) -> list[tuple[str, str]]:
    return [(one.origin, getattr(one.message, "text", "")) for one in builder.session.messages]


@pytest.mark.parametrize("name", BEFORE)
def test_a_message_that_is_held_back_comes_before_what_the_model_does_next(name: str) -> None:
    builder = begun()
    BEFORE[name](builder)
    assert places(builder)[1] == ("nudge", "remember the tests")
    assert len(builder.session.messages) == 3
    assert builder.session.messages[1].t == 7.0


def test_it_comes_after_the_next_prompt_because_it_belongs_to_that_run() -> None:
    builder = begun()
    builder.add_user(["And the host"])
    builder.add_response("done")
    assert places(builder)[1:3] == [("user", "And the host"), ("nudge", "remember the tests")]
    assert not builder.session.losses


@pytest.mark.parametrize("name", STAYS)
def test_nothing_else_releases_it_and_at_the_end_it_is_counted(name: str) -> None:
    builder = begun()
    STAYS[name](builder)
    assert ("nudge", "remember the tests") not in places(builder)
    events_of(builder.session, "s", "x")
    assert {name: builder.session.losses[name] for name in ("last words", "characters")} == {
        "last words": 1,
        "characters": 16,
    }


def test_an_empty_message_is_not_held_back() -> None:
    builder = SessionBuilder(ImportedSession())
    builder.hold(UserMessage(""))
    builder.add_response("done")
    assert len(builder.session.messages) == 1
    assert not builder.session.losses


CONTENT: list[dict[str, object]] = [
    {"type": "text", "text": "Set the port"},
    {"type": "tool_use", "id": "c1", "name": "bash", "input": {}},
    {"type": "tool_result", "tool_use_id": "c1", "content": "8080"},
    {"type": "thinking", "thinking": "hm"},
]


@pytest.mark.parametrize(
    "data",
    [
        [{"type": "human", "data": {"content": CONTENT}}],
        {"schema_version": "ATIF-v1.7", "steps": [{"source": "user", "message": CONTENT}]},
    ],
    ids=["langchain", "atif"],
)
def test_what_a_prompt_cannot_hold_is_counted_whatever_the_format(data: object) -> None:
    name = detect_format(data)
    assert name is not None
    (session,) = FORMATS[name].sessions(data)
    (prompt,) = session.messages
    assert prompt.message == UserMessage("Set the port")
    assert {kind: session.losses[kind] for kind in ("call", "answer", "thought", "characters")} == {
        "call": 1,
        "answer": 1,
        "thought": 1,
        "characters": 4,
    }
