"""Tests of the command `endstop export html`. tests/engine/web/test_exported_page.py tests the pages that it writes."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64decode
from pathlib import Path
from zlib import decompress

import pytest
from endstop.cli import export_html
from endstop.cli.main import main
from endstop.records.format import encode_line
from endstop.records.reader import read_record

from ...console import endstop

RECORDS = Path(__file__).parents[2] / "records"
CHAT = {
    "id": "chat-1",
    "messages": [
        {"role": "user", "content": "Mail jane@corp.example the report"},
        {"role": "assistant", "content": "It is sent to jane@corp.example."},
    ],
}


ELEMENT = re.compile(r'<script type="application/(json|zlib)" id="held-([^"]*)">(.*?)</script>', re.DOTALL)


def texts(page: Path) -> dict[str, str]:
    """The JSON that a page holds under each name."""
    return {
        name: decompress(b64decode(text, validate=True)).decode() if form == "zlib" else text
        for form, name, text in ELEMENT.findall(page.read_text())
    }


def held(page: Path, name: str) -> object:
    """What a page holds under this name."""
    return json.loads(texts(page)[name])


async def test_a_page_is_written_beside_the_reader_and_never_over_another_file(tmp_path: Path) -> None:
    done = await endstop("export", "html", RECORDS / "port_server.jsonl", cwd=tmp_path)
    assert (done.code, done.out.split(":")[0]) == (0, "port_server.html")
    assert "2 steps" in done.out
    assert "holds all that the record holds" in done.err
    page = (tmp_path / "port_server.html").read_bytes()
    again = await endstop("export", "html", RECORDS / "port_server.jsonl", cwd=tmp_path)
    expected = "endstop: port_server.html exists already: overwrite it with --force, or name another file with -o\n"
    assert (again.code, again.err) == (2, expected)
    quiet = await endstop("export", "html", RECORDS / "port_server.jsonl", "--force", "--quiet", cwd=tmp_path)
    assert (quiet.code, quiet.err) == (0, "")
    assert (tmp_path / "port_server.html").read_bytes() == page, "the same record gives the same page"


async def test_several_records_give_several_pages(tmp_path: Path) -> None:
    records = [RECORDS / "hello.jsonl", RECORDS / "port.jsonl"]
    assert (await endstop("export", "html", *records, "-o", tmp_path)).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hello.html", "port.html"]
    one = await endstop("export", "html", *records, "-o", tmp_path / "one.html")
    assert one.code == 2
    assert "takes one page, not 2" in one.err
    (tmp_path / "below").mkdir()
    shutil.copy(records[0], tmp_path / "below" / "hello.jsonl")
    twice = await endstop("export", "html", records[0], tmp_path / "below" / "hello.jsonl", "-o", tmp_path, "--force")
    assert twice.code == 2
    assert "would both be written" in twice.err


async def test_a_slash_at_the_end_names_a_folder_which_is_made(tmp_path: Path) -> None:
    records = [RECORDS / "hello.jsonl", RECORDS / "port.jsonl"]
    assert (await endstop("export", "html", *records, "-o", "out/pages/", cwd=tmp_path)).code == 0
    assert sorted(path.name for path in (tmp_path / "out" / "pages").iterdir()) == ["hello.html", "port.html"]
    assert (await endstop("export", "html", records[0], "-o", "one/", cwd=tmp_path)).code == 0
    assert (tmp_path / "one" / "hello.html").is_file()
    (tmp_path / "file").write_text("kept")
    done = await endstop("export", "html", records[0], "-o", "file/", cwd=tmp_path)
    assert (done.code, done.err) == (2, "endstop: cannot make the folder file/: File exists\n")
    unreadable = await endstop("export", "html", "none.jsonl", "-o", "never/", cwd=tmp_path)
    assert (unreadable.code, (tmp_path / "never").exists()) == (2, False)


async def test_another_format_takes_no_folder_by_its_slash(tmp_path: Path) -> None:
    done = await endstop("export", "openai", RECORDS / "hello.jsonl", "-o", "out/", cwd=tmp_path)
    assert (done.code, done.err) == (2, "endstop: -o out/ is a folder: name a file in it\n")
    assert list(tmp_path.iterdir()) == []


async def test_a_page_can_go_to_stdout() -> None:
    done = await endstop("export", "html", RECORDS / "hello.jsonl", "-o", "-", "--quiet")
    assert done.out.startswith("<!doctype html>")
    assert done.out.endswith("</script>\n")


async def test_what_cannot_be_read_is_said_and_on_the_page(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl"
    lines = (RECORDS / "port.jsonl").read_bytes().splitlines(keepends=True)
    lines[len(lines) // 2] = b"{this is no JSON\n"
    torn.write_bytes(b"".join(lines)[:-40])
    done = await endstop("export", "html", torn, cwd=tmp_path)
    assert done.code == 0
    notice = "2 of its lines cannot be read"
    assert notice in done.err
    page = tmp_path / "torn.html"
    assert notice in page.read_text()
    (session,) = held(page, "sessions")["sessions"]  # type: ignore[index]
    assert session["status"] == "interrupted"
    assert notice in session["trouble"]

    newer = tmp_path / "newer.jsonl"
    newer.write_bytes((RECORDS / "port.jsonl").read_bytes().replace(b'"version":"', b'"version":"9', 1))
    for wrong, why in ((newer, "upgrade endstop"), (tmp_path / "none.jsonl", "no such file"), (page, "")):
        done = await endstop("export", "html", wrong, cwd=tmp_path)
        assert done.code == 2
        assert why in done.err
        assert "Traceback" not in done.err


async def test_secrets_are_hidden_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    assert (await endstop("import", "openai", tmp_path / "chat.json", "-o", tmp_path)).code == 0
    done = await endstop(
        "export", "html", tmp_path / "chat-1.jsonl", "--redact", "--redact-word", "report", cwd=tmp_path
    )
    assert done.code == 0, done.err
    page = (tmp_path / "chat-1.html").read_text()
    holds = texts(tmp_path / "chat-1.html")
    for name in ("sessions", "events-0", "requests-0"):
        assert re.search(r"Mail \[redacted:email:\w{6}\] the \[redacted:word:\w{6}\]", holds[name])
    assert "jane@corp.example" not in "".join((page, *holds.values()))
    assert "Texts that look like secrets were replaced" in page
    assert "jane@corp.example" in (tmp_path / "chat-1.jsonl").read_text()


async def test_the_history_of_another_agent_is_exported_as_audit_reads_it(tmp_path: Path) -> None:
    two = [
        CHAT,
        {**CHAT, "id": "chat-2", "messages": [{"role": "user", "content": "And this?"}, *CHAT["messages"][1:]]},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in two))
    done = await endstop("export", "html", tmp_path / "log.jsonl", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "holds 2 sessions; exporting the first, chat-1" in done.err
    (session,) = held(tmp_path / "log.html", "sessions")["sessions"]  # type: ignore[index]
    assert (session["agent"], session["file"]) == ("unknown", "log.jsonl")
    chosen = await endstop("export", "html", tmp_path / "log.jsonl", "--session", "chat-2", "--force", cwd=tmp_path)
    assert chosen.code == 0
    assert "<title>And this? · endstop</title>" in (tmp_path / "log.html").read_text()


async def test_options_of_pages_are_wrong_for_other_formats() -> None:
    for options in (["--redact"], ["--session", "x"], ["--completion", "done"]):
        done = await endstop("export", "openai", RECORDS / "hello.jsonl", *options)
        assert done.code == 2
        assert "are for html" in done.err
    done = await endstop("export", "openai", RECORDS / "hello.jsonl", RECORDS / "port.jsonl")
    assert done.code == 2
    assert "takes one record" in done.err


def test_a_page_that_no_browser_shows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export_html, "MOST_BYTES", 5_000)
    monkeypatch.chdir(tmp_path)
    assert main(["export", "html", str(RECORDS / "port.jsonl")]) == 2
    assert "endstop view" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_every_event_of_a_record_is_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "html", str(RECORDS / "scenes.jsonl"), "--quiet"]) == 0
    found = held(tmp_path / "scenes.html", "events-0")["events"]  # type: ignore[index]
    runs = read_record(RECORDS / "scenes.jsonl").runs
    assert found == [json.loads(encode_line(event)) for run in runs for event in run.events]
