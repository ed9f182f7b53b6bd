"""The check as data: what a policy file and a client may write, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Until
from endstop.decision import WrongUse
from endstop.until_settings import (
    OPERATOR_ONLY,
    UntilSettings,
    session_until,
    until_settings_from,
    with_session_until,
)
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@pytest.mark.parametrize("data", ["pytest -q", ["pytest -q"], {"commands": "pytest -q"}, {"commands": ["pytest -q"]}])
def test_one_command_can_be_written_in_four_ways(data: object) -> None:
    assert until_settings_from(data, "until") == UntilSettings(commands=("pytest -q",))


def test_every_field_reaches_the_check(tmp_path: Path) -> None:
    table = {
        "commands": ["pytest -q", "ruff check ."],
        "guard": ["tests/**"],
        "score": r"(\d+) passed",
        "timeout": 60,
        "share": 0.5,
        "copy": True,
        "from_failing": False,
        "env": ["CI"],
        "inside": "docker run box",
    }
    assert table.keys() == set(UntilSettings.__struct_fields__)
    until = until_settings_from(table, "until").build(str(tmp_path))
    assert isinstance(until, Until)
    assert (until.name, until.folder, until.guard) == ("pytest -q && ruff check .", str(tmp_path), ("tests/**",))
    assert (until.timeout, until.share, until.copy, until.from_failing) == (60, 0.5, True, False)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (7, "until is 7: write a command"),
        ("  ", "commands needs a command"),
        ([], "commands needs a command"),
        ({}, "missing required field `commands`"),
        ({"guard": ["tests/**"]}, "missing required field `commands`"),
        ({"commands": ["true", ""]}, "none may be empty"),
        ({"command": "pytest"}, "unknown key 'command' (did you mean 'commands'?)"),
        ({"commands": "true", "timeout": "long"}, "$.timeout"),
        ({"commands": "true", "timeout": 0}, "timeout is 0"),
        ({"commands": "true", "share": 2}, "share is 2"),
        ({"commands": "true", "score": "("}, "score"),
        ({"commands": "true", "guard": "tests"}, "$.guard"),
        ({"commands": {"a": 1}}, "$.commands"),
    ],
)
def test_what_cannot_work_is_refused_with_the_place(data: Any, told: str) -> None:
    with pytest.raises(WrongUse) as error:
        until_settings_from(data, "mine.toml, [until]" if data != 7 else "until")
    assert told in str(error.value)


@pytest.mark.parametrize("name", OPERATOR_ONLY)
def test_a_client_may_not_say_where_its_commands_run_and_what_they_see(name: str) -> None:
    with pytest.raises(WrongUse, match=f"unknown key '{name}'"):
        until_settings_from({"commands": "true", name: ["X"]}, "until", refused=OPERATOR_ONLY)


@given(st.lists(TEXTS, min_size=1), st.lists(TEXTS), st.floats(0.01, 1), st.booleans())
def test_what_a_session_keeps_is_read_as_it_was_asked_for(
    commands: list[str], guard: list[str], share: float, copy: bool
) -> None:
    settings = UntilSettings(commands=tuple(commands), guard=tuple(guard), share=share, copy=copy)
    kept = msgspec.json.decode(msgspec.json.encode(with_session_until({"user": 7}, settings)))
    assert kept["user"] == 7
    assert session_until(kept) == settings


def test_a_session_without_a_check_keeps_only_its_own_metadata() -> None:
    assert with_session_until({"user": 7}, None) == {"user": 7}
    assert session_until({"user": 7}) is None


def test_a_client_cannot_bring_a_check_by_its_metadata() -> None:
    with pytest.raises(WrongUse, match="reserved"):
        with_session_until({"endstop.until": {"commands": ["true"]}}, None)
