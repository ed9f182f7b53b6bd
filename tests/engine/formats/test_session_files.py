"""JSON or JSON Lines, by what stands in a file; what is broken costs itself only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop.formats import Unreadable
from endstop.formats import file_values as source
from endstop.formats.file_values import FileValue, read_values
from endstop.formats.session_files import list_files

ONE = {"messages": [{"role": "user", "content": "a"}]}
TEXT = json.dumps(ONE).encode()
MESSAGES = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
Read = Callable[[bytes], list[FileValue]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def values(text: bytes) -> list[FileValue]:
        path = tmp_path / "data.txt"
        path.write_bytes(text)
        with open(path, "rb") as file:
            return list(read_values(file))

    return values


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (TEXT, [""]),
        (TEXT + b"\n", [""]),
        (b"\xef\xbb\xbf" + TEXT, [""]),
        (json.dumps(ONE, indent=1).encode(), [""]),
        (TEXT + b"\n" + TEXT, ["line 1", "line 2"]),
        (TEXT + b"\r\n\r\n" + TEXT + b"\r\n", ["line 1", "line 3"]),
        (b"[" + TEXT + b"]", ["element 1"]),
        (b"[\n" + TEXT + b"\n]", ["element 1"]),
        (b"[" + TEXT + b",\n" + TEXT + b"]", ["element 1", "element 2"]),
        (json.dumps([ONE, ONE], indent=1).encode(), ["element 1", "element 2"]),
        (json.dumps(ONE, indent=1).encode() * 2, ["element 1", "element 2"]),
        (b"[" + TEXT + b"][" + TEXT + b"]", ["element 1", "element 2"]),
        (
            b"[" + TEXT + b"," + TEXT + b"]\n[" + TEXT + b"]",
            [f"line {n}, element {m}" for n, m in ((1, 1), (1, 2), (2, 1))],
        ),
    ],
)
def test_sessions_are_found_in_json_and_in_json_lines(read: Read, text: bytes, places: list[str]) -> None:
    values = read(text)
    assert [value.place for value in values] == places
    assert [value.data for value in values] == [ONE] * len(places)


def test_messages_are_one_session_as_an_array_and_line_by_line(read: Read) -> None:
    lines = b"\n".join(json.dumps(message).encode() for message in MESSAGES)
    for text in (json.dumps(MESSAGES).encode(), json.dumps(MESSAGES, indent=2).encode(), lines):
        assert [(value.place, value.data) for value in read(text)] == [("", MESSAGES)]
    assert [(value.place, value.data) for value in read(lines + b"\n" + TEXT + b"\n" + lines)] == [
        ("lines 1 to 2", MESSAGES), ("line 3", ONE), ("lines 4 to 5", MESSAGES),
    ]  # fmt: skip


def test_a_list_of_replies_is_one_session(read: Read) -> None:
    replies = [{"path": "/", "status": 200, "response": ""}] * 2
    assert [value.data for value in read(json.dumps(replies).encode())] == [replies]


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (TEXT + b'\n{"torn": "a\n' + TEXT, ["line 1", "line 3"], ["line 2"]),
        (b'{"torn": "a\n' + TEXT + b"\n" + TEXT, ["line 2", "line 3"], ["line 1"]),
        (b"garbage\n" + TEXT, ["line 2"], ["line 1"]),
        (TEXT + b"\n\x00\xff\xfe\n" + TEXT, ["line 1", "line 3"], ["line 2"]),
        (TEXT + b"\n" + DEEP + b"\n" + TEXT, ["line 1", "line 3"], ["line 2"]),
        (TEXT + b'\n{"messages": [{"ro', ["line 1"], ["line 2"]),
        (b"[" + TEXT + b',{"messages": [{"ro', ["element 1"], ["element 2"]),
        (b"[" + TEXT + b"," + DEEP + b"," + TEXT + b"]", ["element 1", "element 3"], ["element 2"]),
        (b"[" + TEXT + b",{]}," + TEXT + b"]", ["element 1"], ["element 2"]),
    ],
)
def test_what_is_broken_is_named_with_its_place_and_the_rest_goes_on(
    read: Read, text: bytes, good: list[str], bad: list[str]
) -> None:
    values = read(text)
    assert [value.place for value in values if not value.error][: len(good)] == good
    assert [value.place for value in values if value.error] == bad


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"garbage", "neither JSON nor JSON Lines"),
        (b"\x00\x01\x02\xff" * 1000, "neither JSON nor JSON Lines"),
        (b"1\n2\n", "neither JSON nor JSON Lines"),
        (b"[]", "an empty array"),
        (json.dumps(ONE).encode("utf-16"), "UTF-16"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"a.json".ljust(257, b"\0") + b"ustar", "tar"),
        (b'{"type":"HEADER","format":"endstop-record","version":"1.0"}\n', "already"),
    ],
)
def test_what_is_neither_is_refused_in_a_line(read: Read, text: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read(text)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        (b'{"a": NaN, "b": [Infinity]}', lambda a: a["a"] != a["a"]),
        (b'{"a": "\\ud83d x", "\\ude00": 1}', lambda a: a == {"a": "? x", "?": 1}),
        (b'{"a": "caf\xe9"}', lambda a: a == {"a": "caf\N{REPLACEMENT CHARACTER}"}),
        ('{"a": "\N{GRINNING FACE}"}'.encode(), lambda a: a == {"a": "\N{GRINNING FACE}"}),
        (b'{"a": 1e999}', lambda a: a["a"] == float("inf")),
    ],
)
def test_what_other_programs_write_is_read_as_far_as_it_can_be(
    read: Read, written: bytes, read_as: Callable[[Any], bool]
) -> None:
    assert read_as(read(written)[0].data)
    assert read_as(read(b"[" + TEXT + b"," + written + b"]")[1].data)


def test_a_line_that_is_too_long_is_passed_over_without_being_held(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_SESSION_BYTES", 1000)
    values = read(TEXT + b"\n" + b'{"a":"' + b"x" * 5000 + b'"}\n' + TEXT)
    assert [(value.place, bool(value.error)) for value in values] == [
        ("line 1", False),
        ("line 2", True),
        ("line 3", False),
    ]
    assert "larger than" in values[1].error
    values = read(b"[" + TEXT + b',{"a":"' + b"x" * 5000 + b'"}]')
    assert [bool(value.error) for value in values] == [False, True]


def test_files_of_a_folder_come_in_order_and_hidden_ones_not_at_all(tmp_path: Path) -> None:
    for name in ("b.json", "a/c.jsonl", ".hidden/x.json", "a/.y.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(TEXT)
    assert [file.relative_to(tmp_path).as_posix() for file, _ in list_files(tmp_path)] == ["a/c.jsonl", "b.json"]
    assert [file.name for file, _ in list_files(tmp_path / ".hidden")] == ["x.json"], "unless it is named"
    assert list_files(tmp_path / "absent") == [(tmp_path / "absent", None)]
