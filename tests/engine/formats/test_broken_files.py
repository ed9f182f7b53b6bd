"""Files that are broken, or written otherwise, in each format: they end as they say, and say no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from endstop.formats import FoundSession, SkippedSession, events_of, find_sessions

from ...promises.test_losses_formats import COMPARED

LINES = ("claude-code", "codex", "copilot-cli", "kimi-cli", "openhands", "openhands-sdk", "pi", "qwen-code")
WITH_IDS = ("claude-code", "codex", "copilot-cli", "kimi-cli", "openhands", "qwen-code")
"""Formats of lines whose session made by hand has an id, or a place in a tree, in each line."""


def content(name: str) -> bytes:
    data = COMPARED[name].data()
    text = "".join(json.dumps(line) + "\n" for line in data) if name in LINES else json.dumps(data, indent=1)
    return text.encode()


def ends(path: Path, content: bytes) -> list[tuple[str, str, int]]:
    """How each session of a file ended, and its number of responses."""
    path.write_bytes(content)
    found = []
    for one in find_sessions(path):
        if isinstance(one, FoundSession):
            events = events_of(one.session, "s", one.format)
            responses = sum(type(event).__name__ == "ResponseFinished" for event in events)
            found.append((one.format, events[-1].outcome.stop_reason, responses))  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: b"\xef\xbb\xbf" + text, id="a byte order mark"),
        pytest.param(lambda text: text.replace(b"\n", b"\r\n"), id="carriage returns"),
        pytest.param(lambda text: text.replace(b"\n", b"\n\r\n"), id="blank lines"),
    ],
)
def test_how_lines_end_does_not_matter(name: str, change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    whole = ends(tmp_path / "whole.json", content(name))
    assert len(whole) == 1
    assert ends(tmp_path / "changed.json", change(content(name))) == whole


@pytest.mark.parametrize("name", COMPARED)
def test_utf_16_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content(name).decode().encode("utf-16"))
    (skipped,) = find_sessions(tmp_path / "a.json")
    assert isinstance(skipped, SkippedSession)
    assert skipped.why.startswith("text in UTF-16")


@pytest.mark.parametrize("name", sorted(COMPARED.keys() - set(LINES)))
@pytest.mark.parametrize("part", [0.3, 0.6, 0.97])
def test_a_torn_file_of_json_is_no_session(name: str, part: float, tmp_path: Path) -> None:
    whole = content(name).rstrip()
    assert ends(tmp_path / "a.json", whole[: int(part * len(whole))]) == []


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("part", [0.5, 0.7, 0.9, 0.98])
def test_torn_lines_do_not_say_how_their_session_ended(name: str, part: float, tmp_path: Path) -> None:
    whole = content(name).rstrip()
    cut = whole[: int(part * len(whole))].rstrip(b'}\n "')
    assert {reason for _, reason, _ in ends(tmp_path / "a.jsonl", cut)} <= {"custom:unfinished"}


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_torn_in_the_middle_costs_that_line(name: str, tmp_path: Path) -> None:
    lines = content(name).splitlines(keepends=True)
    whole = ends(tmp_path / "whole.jsonl", b"".join(lines))
    torn = ends(tmp_path / "torn.jsonl", b"".join([*lines[:-1], b'{"type": "to\n', lines[-1]]))
    assert torn == whole


@pytest.mark.parametrize("name", LINES)
def test_a_header_is_no_session(name: str, tmp_path: Path) -> None:
    assert ends(tmp_path / "a.jsonl", content(name).splitlines(keepends=True)[0]) == []


@pytest.mark.parametrize("name", WITH_IDS)
def test_lines_that_stand_twice_count_once(name: str, tmp_path: Path) -> None:
    lines = content(name).splitlines(keepends=True)
    once = ends(tmp_path / "once.jsonl", b"".join(lines))
    assert ends(tmp_path / "twice.jsonl", b"".join(line + line for line in lines)) == once
