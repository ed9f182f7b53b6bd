"""The builder of imported sessions: where a message of the loop stands that was held back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from endstop.decision import UserMessage
from endstop.formats.imported_session import ImportedSession
from endstop.formats.session_builder import SessionBuilder

BEFORE: dict[str, Callable[[SessionBuilder], None]] = {
    "a response": lambda builder: builder.add_response("done"),
    "a failed request": lambda builder: builder.add_failure("overloaded"),
}
STAYS: dict[str, Callable[[SessionBuilder], None]] = {
    "an interruption": lambda builder: builder.add_user(UserMessage(""), "interrupt"),
    "another nudge": lambda builder: builder.add_user(UserMessage("go on"), "nudge"),
}


def begun() -> SessionBuilder:
    builder = SessionBuilder(ImportedSession())
    builder.add_user(UserMessage("Set the port"))
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
    builder.add_user(UserMessage("And the host"))
    builder.add_response("done")
    assert places(builder)[1:3] == [("user", "And the host"), ("nudge", "remember the tests")]
    builder.finish()
    assert not builder.session.losses


@pytest.mark.parametrize("name", STAYS)
def test_nothing_else_releases_it_and_at_the_end_it_is_counted(name: str) -> None:
    builder = begun()
    STAYS[name](builder)
    builder.finish()
    assert ("nudge", "remember the tests") not in places(builder)
    assert builder.session.losses == {"last words": 1, "characters": 16}


def test_an_empty_message_is_not_held_back() -> None:
    builder = SessionBuilder(ImportedSession())
    builder.hold(UserMessage(""))
    builder.add_response("done")
    builder.finish()
    assert len(builder.session.messages) == 1
    assert not builder.session.losses
