"""`endstop redact`, and redaction where commands write records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from endstop import Engine, RecordOptions, read_record
from endstop.providers import Scripted, call, say
from endstop.records.attachments import attachments_folder
from endstop.records.event_redaction import redact_file
from endstop.records.redaction import Redaction
from endstop.records.scan import scan
from endstop.replay import replay

from ...console import endstop
from ...servers import ChatServer
from ...servers import call as served_call

MAIL = "jane.doe@example.com"
KEY = "sk-" + "a1B2" * 10


async def played(path: Path, said: str = f"Write to {MAIL} with {KEY}.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    script = [[say(said, 7), call("finish_task", summary=said, pieces=9)]]
    await Engine(Scripted(*script)).run(f"It is for Jane Doe, {MAIL}. Ticket T-1234.", record=path)
    return path


async def test_records_are_written_again_without_what_is_secret_and_replay_the_same(tmp_path: Path) -> None:
    await played(tmp_path / "in" / "a.jsonl")
    await played(tmp_path / "in" / "more" / "b.jsonl")
    out = tmp_path / "out"
    done = await endstop("redact", tmp_path / "in", "-o", out, "--word", "Jane Doe", "--pattern", "ticket=T-[0-9]+")
    assert (done.code, done.out) == (0, f"2 records redacted into {out}\n")
    for name in ("a.jsonl", "more/b.jsonl"):
        text = (out / name).read_text()
        assert not [secret for secret in (MAIL, KEY, "Jane", "T-1234") if secret in text]
        assert [kind for kind in ("email", "api_key", "word", "ticket") if f"[redacted:{kind}:" not in text] == []
        assert (await replay(str(out / name))).same
    replayed = await endstop("replay", out / "a.jsonl", "--quiet")
    assert replayed.code == 0


async def test_a_copy_has_the_same_events_at_the_same_times(tmp_path: Path) -> None:
    path = await played(tmp_path / "a.jsonl")
    redact_file(path, tmp_path / "copy.jsonl.zst", Redaction())
    (before,), (after,) = read_record(path).runs, read_record(tmp_path / "copy.jsonl.zst").runs
    assert [(type(e), e.seq, e.t) for e in after.events] == [(type(e), e.seq, e.t) for e in before.events]


async def test_damaged_lines_are_left_out_and_files_that_are_none_are_named(tmp_path: Path) -> None:
    path = await played(tmp_path / "in" / "a.jsonl")
    path.write_bytes(path.read_bytes() + f'{{"type":"TEXT_MESS {MAIL}\n{{"type":"NEWER","text":"{MAIL}"}}\n'.encode())
    (tmp_path / "in" / "b.jsonl").write_text(f"no record, {MAIL}")
    done = await endstop("redact", tmp_path / "in", "-o", tmp_path / "out", "--json")
    assert done.code == 1
    assert f"not written: {tmp_path / 'in' / 'b.jsonl'}: " in done.err
    assert "a.jsonl: left out 2 lines that could not be read" in done.err
    assert done.json["written"][str(path)]["left_out"] == 2
    assert list(done.json["failed"]) == [str(tmp_path / "in" / "b.jsonl")]
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a.jsonl"]
    assert MAIL not in (tmp_path / "out" / "a.jsonl").read_text()


async def test_nothing_is_written_over_and_no_copy_is_taken_for_a_record(tmp_path: Path) -> None:
    path = await played(tmp_path / "in" / "a.jsonl")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.jsonl").write_text("mine")
    done = await endstop("redact", path, "-o", tmp_path / "out")
    assert (done.code, (tmp_path / "out" / "a.jsonl").read_text()) == (1, "mine")
    assert "exists already" in done.err
    inside = await endstop("redact", tmp_path / "in", "-o", tmp_path / "in" / "out")
    assert inside.code == 2
    assert "name another folder" in inside.err
    await played(tmp_path / "other" / "a.jsonl")
    twice = await endstop("redact", path, tmp_path / "other" / "a.jsonl", "-o", tmp_path / "new")
    assert twice.code == 2
    assert "would both be written to" in twice.err


async def test_a_text_that_lies_beside_a_record_is_redacted_too(tmp_path: Path) -> None:
    from endstop import tool

    @tool
    async def read_all() -> str:
        """Read it all."""
        return f"{MAIL}\n" * 3000

    path = tmp_path / "a.jsonl"
    await Engine(
        Scripted([call("read_all")], "ok"), tools=[read_all], record_options=RecordOptions(attach_above=10_000)
    ).run("go", record=path)
    (plain,) = attachments_folder(path).iterdir()
    assert MAIL in plain.read_text()
    redact_file(path, tmp_path / "copy.jsonl", Redaction(), attach_above=10_000)
    (copied,) = attachments_folder(tmp_path / "copy.jsonl").iterdir()
    assert MAIL not in copied.read_text() + (tmp_path / "copy.jsonl").read_text()
    assert read_record(tmp_path / "copy.jsonl").missing == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pattern", "no name"), "write NAME=REGEX"),
        (("--pattern", "x=("), "is not a valid regular expression"),
        (("--output", "x"), None),
    ],
)
async def test_what_cannot_work_is_refused(tmp_path: Path, options: tuple[str, ...], said: str | None) -> None:
    path = await played(tmp_path / "a.jsonl")
    done = await endstop("redact", path, "-o", tmp_path / "out", *options, cwd=tmp_path)
    assert (done.code == 2) == (said is not None), done.err
    assert (said or "") in done.err


async def test_a_run_on_the_command_line_keeps_secrets_out_of_its_record(tmp_path: Path) -> None:
    async with ChatServer([f"I ask {MAIL}. ", served_call("finish_task", summary=f"Asked {MAIL}.")]) as server:
        done = await endstop(
            "run", f"Ask {MAIL} for T-77", "--model", "m", "--api-base", server.url, "--record", tmp_path / "r.jsonl",
            "--redact", "--redact-pattern", "ticket=T-[0-9]+",
        )  # fmt: skip
        asked = json.dumps(server.requests)
    assert (done.code, done.out) == (0, f"Asked {MAIL}.\n")
    assert MAIL in asked, "the model sees all of it"
    text = (tmp_path / "r.jsonl").read_text()
    assert not [secret for secret in (MAIL, "T-77") if secret in text]
    assert (await endstop("replay", tmp_path / "r.jsonl", "--quiet")).code == 0


async def test_a_redacted_record_goes_on_redacted_or_not_at_all(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    async with ChatServer([served_call("ask_user", question=f"Is it {MAIL}?")], [f"Then {MAIL} it is."]) as server:
        reach = ("--model", "m", "--api-base", server.url)
        asked = await endstop("run", "Ask", *reach, "--record", record, "--redact", "--redact-word", "Jane")
        assert asked.code == 5
        assert "--redact --redact-word Jane" in asked.err
        refused = await endstop("run", "--resume", record, "--answer", "yes", *reach)
        assert (refused.code, "give --redact again" in refused.err) == (2, True)
        done = await endstop("run", "--resume", record, "--answer", f"yes, {MAIL}", *reach, "--redact")
    assert (done.code, done.out) == (0, f"Then {MAIL} it is.\n")
    assert MAIL not in record.read_text()
    assert (await replay(str(record))).same


async def test_an_import_keeps_secrets_out_and_its_attachments_together(tmp_path: Path) -> None:
    large = f"{MAIL} and more\n" * 30_000
    session = {
        "id": "s1",
        "messages": [
            {"role": "user", "content": f"Ask {MAIL}"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": json.dumps({"to": MAIL})}}]},
            {"role": "tool", "tool_call_id": "c", "content": large},
            {"role": "assistant", "content": f"Asked {MAIL}."},
        ],
    }  # fmt: skip
    (tmp_path / "d.json").write_text(json.dumps(session))
    for name, options in (("plain", ()), ("clean", ("--redact",)), ("packed", ("--compress",))):
        done = await endstop("import", "openai", tmp_path / "d.json", "-o", tmp_path / name, *options)
        assert done.code == 0, done.err
        (record,) = (path for path in (tmp_path / name).iterdir() if path.is_file())
        assert [file.name for file in sorted((tmp_path / name).iterdir())] == ["s1.files", record.name]
        assert read_record(record).missing == []
        texts = [str(event) for event in scan(record, attachments=True)]
        assert any(MAIL in text for text in texts) == (name != "clean")
        assert any(len(text) > 400_000 for text in texts)
