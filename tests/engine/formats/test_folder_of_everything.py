"""`endstop import auto` over a folder with one of everything: what it counts, loses, names and passes over."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from endstop.formats import FORMATS, FoundSession, SkippedSession, find_sessions
from msgspec.structs import replace

from ...console import Done, endstop
from .heard import answer, call, says, user

KEY = "sk-ant-api03-" + "Ab3_" * 20
CHAT = [user(f"my key is {KEY}"), says("Look.", call("c", "read", "{}")), answer("c", KEY), says("Done.")]


def chat(id: str) -> dict[str, Any]:
    return {"id": id, "messages": CHAT}


def claude(number: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    id = {"id": f"m{number}"} if role == "assistant" else {}
    line = {
        "type": role,
        "sessionId": "claude",
        "uuid": str(number),
        "message": {"role": role, "content": content, **id},
    }
    return {**line, "parentUuid": str(number - 1) if number else None, "version": "99.0.0", **more}


CLAUDE = [
    claude(0, "user", "Mend it."),
    {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    claude(1, "assistant", [{"type": "text", "text": "Mended."}], novelty={"of": "a newer version"}),
]
BLOCKS = {"system": "Be brief.", "messages": [user("go"), says("ok")], "id": "blocks"}


HAR = {"log": {"version": "1.2", "creator": {"name": "x"}, "entries": []}}


def lines(*values: Any) -> bytes:
    return b"\n".join(json.dumps(value).encode() for value in values)


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    folder = tmp_path / "everything"
    for name in ("deep/er", ".hidden"):
        (folder / name).mkdir(parents=True)
    files = {
        "a.json": lines(chat("plain")),
        "array.json": json.dumps([chat("first"), chat("second")]).encode(),
        "blocks.json": lines(BLOCKS),
        "deep/er/claude.jsonl": lines(*CLAUDE),
        "mixed.jsonl": lines(*CLAUDE, *CHAT, HAR, chat("after")),
        "torn.jsonl": lines(chat("whole"), chat("lost"))[:-30],
        "torn.json": json.dumps([chat("kept"), chat("gone")]).encode()[:-40],
        "packed.jsonl.gz": gzip.compress(lines(chat("gz"), chat("gz2"))),
        "torn.jsonl.gz": gzip.compress(lines(*(chat(f"gz{n}") for n in range(3))), mtime=0)[:-20],
        "log.har": lines(HAR),
        "settings.json": lines({"theme": "dark"}),
        "LICENSE": b"All rights",
        "image.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        ".hidden/chat.json": lines(chat("hidden")),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("x/zipped.json", lines(chat("zipped")))
        archive.writestr("x/readme.txt", "words")
    with closing(sqlite3.connect(folder / "notes.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()
    (folder / "damaged.db").write_bytes((folder / "notes.db").read_bytes()[:100] + b"\x00" * 900)
    return folder


async def imported(folder: Path, *options: str) -> Done:
    return await endstop("import", "auto", folder, "-o", folder.parent / "out", "--json", *options)


async def test_every_session_is_found_and_everything_else_is_named_once(everything: Path) -> None:
    done = await imported(everything, "--redact")
    assert done.code == 0
    found = [(Path(one["source"]).name, one["place"], one["format"]) for one in done.json["sessions"]]
    assert found == [
        ("a.json", "", "openai"),
        ("all.zip", "x/zipped.json", "openai"),
        ("array.json", "element 1", "openai"),
        ("array.json", "element 2", "openai"),
        ("blocks.json", "", "anthropic"),
        ("claude.jsonl", "", "claude-code"),
        ("mixed.jsonl", "lines 1 to 3", "claude-code"),
        ("mixed.jsonl", "lines 4 to 7", "openai"),
        ("mixed.jsonl", "line 9", "openai"),
        ("packed.jsonl.gz", "line 1", "openai"),
        ("packed.jsonl.gz", "line 2", "openai"),
        ("torn.json", "element 1", "openai"),
        ("torn.jsonl", "line 1", "openai"),
        ("torn.jsonl.gz", "line 1", "openai"),
    ]
    skipped = {(Path(one["source"]).name, one["place"]): one for one in done.json["skipped"]}
    aside = {name for (name, _), one in skipped.items() if one["aside"]}
    assert aside == {"LICENSE", "image.png", "settings.json", "all.zip"}
    errors = {key: one["why"] for key, one in skipped.items() if not one["aside"]}
    assert errors.keys() - {("torn.jsonl.gz", "line 2"), ("torn.jsonl.gz", "line 3")} == {
        ("mixed.jsonl", "line 8"),
        ("notes.db", ""),
        ("damaged.db", ""),
        ("log.har", ""),
        ("torn.json", "element 2"),
        ("torn.jsonl", "line 2"),
        ("torn.jsonl.gz", ""),
    }
    assert "tables: notes" in errors["notes.db", ""]
    assert errors["damaged.db", ""].startswith("an SQLite database that cannot be read: ")
    assert errors["log.har", ""].startswith("this is an HTTP archive (HAR) of version 1.2")
    assert "ends early" in errors["torn.jsonl.gz", ""]
    assert done.json["lost"]["line field: novelty"] == 2, "what a newer version adds is counted"


@pytest.mark.parametrize("asked", ["a folder", "a file"])
def test_a_format_that_fails_where_it_looks_costs_that_place_only(
    everything: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    broken = everything / "deep" if asked == "a folder" else everything / "a.json"

    def fail(path: Path) -> None:
        if path == broken:
            raise KeyError("session")

    before = [one for one in find_sessions(everything) if isinstance(one, FoundSession)]
    monkeypatch.setitem(FORMATS, "opencode", replace(FORMATS["opencode"], store=fail))
    results = list(find_sessions(everything))
    named = [one for one in results if isinstance(one, SkippedSession) and one.source == str(broken)]
    assert [(one.why, one.aside) for one in named] == [
        ("opencode cannot read it: it does not follow its format: KeyError: 'session'", False)
    ]
    left = {one.source for one in before} - ({str(broken)} if asked == "a file" else set())
    assert {one.source for one in results if isinstance(one, FoundSession)} == left


async def test_a_folder_without_sessions_says_so(everything: Path) -> None:
    for path in everything.iterdir():
        if path.name != "settings.json":
            rmtree(path) if path.is_dir() else path.unlink()
    done = await endstop("import", "auto", everything, "-o", everything.parent / "out")
    assert done.code == 2
    assert "nothing was imported: 1 file without sessions that endstop reads" in done.err
    assert "--force" not in done.err


async def test_no_key_is_in_the_records_if_they_are_redacted(everything: Path) -> None:
    await imported(everything, "--redact")
    records = [path.read_text() for path in (everything.parent / "out").rglob("*.jsonl")]
    assert len(records) == 14
    assert not [text for text in records if KEY in text or KEY[-30:] in text]
    await imported(everything, "--force")
    assert any(KEY in path.read_text() for path in (everything.parent / "out").rglob("*.jsonl"))


async def test_a_hidden_folder_is_searched_if_it_is_named(everything: Path) -> None:
    (one,) = (await imported(everything / ".hidden")).json["sessions"]
    assert one["session_id"] == "hidden"
