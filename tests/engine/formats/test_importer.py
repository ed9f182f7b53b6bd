"""Records out of foreign files: their names, what is there already, and that one bad session hurts no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.analysis.policy_simulation import backtest
from endstop.base.version import __version__
from endstop.decision import Event, Policy, UserMessage, WrongUse
from endstop.decision.events import ContextCompacted, ParentCall, RunStarted, SessionSource
from endstop.formats import ImportedSession, ImportOptions, SkippedSession, events_of, find_sessions
from endstop.formats.imported_session import describe_losses
from endstop.formats.importer import (
    MAX_NAME_BYTES,
    ImportedRecord,
    Importer,
    RecordExists,
    RecordFolder,
    RecordNames,
    record_name,
    total_losses,
)
from endstop.formats.openai import sessions
from endstop.formats.session_builder import SessionBuilder
from endstop.records.recorder import RecordWriter
from hypothesis import given
from hypothesis import strategies as st

from .heard import says, user

HOSTILE = [
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "...",
    "",
    "a/b\\c",
    "C:\\con",
    "con",
    "NUL.txt",
    "-rf",
    "--output",
    ".hidden",
    "line\nfeed",
    "\x1b[31mred\x07",
    "null\0byte",
    "half \ud83d pair",
    "\u202egnp.exe",
    "x" * 5000,
    "é" * 500,
    " spaces ",
    "ends.",
]


def session(id: Any = None, reply: str = "Hello") -> dict[str, Any]:
    return {**({} if id is None else {"id": id}), "messages": [user("Hi"), says(reply)]}


def write(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def run(source: Path, out: Path, format: str = "auto", **options: Any) -> list[ImportedRecord | SkippedSession]:
    return list(Importer(RecordFolder(out, **options)).import_all(find_sessions(source, format)))


# ---- names


@pytest.mark.parametrize("id", HOSTILE)
def test_a_hostile_id_is_a_harmless_name(id: str, tmp_path: Path) -> None:
    out = tmp_path / "in" / "out"
    (result,) = run(write(tmp_path / "data.json", session(id)), out)
    assert isinstance(result, ImportedRecord)
    record = Path(result.record)
    assert record.resolve().parent == out.resolve()
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] in (
        ["data.json", record.name], [record.name, "data.json"],
    )  # fmt: skip
    assert read_record(record).header.session_id == result.session_id == record.name.removesuffix(".jsonl")


@given(st.text())
def test_a_name_is_nothing_but_a_name_and_stays_the_same(id: str) -> None:
    name = record_name(id)
    assert name == record_name(id)
    assert name
    assert not name.startswith((".", "-"))
    assert not name.endswith(".")
    assert len(name.encode()) <= MAX_NAME_BYTES + len("session_") + 9
    assert all(letter.isalnum() or letter in "._-" for letter in name)


@given(st.lists(st.text(alphabet="aA/é._-\ud800", max_size=4), max_size=30))
def test_names_of_one_import_never_meet_also_where_capitals_do_not_count(ids: list[str]) -> None:
    names = RecordNames()
    given = [names.assign(id).casefold() for id in ids]
    assert len(set(given)) == len(given)


def test_an_ordinary_id_is_its_own_name() -> None:
    for id in ("django__django-1234", "gpt-4o.task-1", "run_5", "größe", "a-2"):
        assert record_name(id) == id
    assert record_name("a/b") != record_name("a_b") != record_name("a\\b")


def test_thousands_of_sessions_of_one_id_get_numbers() -> None:
    names = RecordNames()
    assert [names.assign("x") for _ in range(5000)][-1] == "x-5000"


def test_a_session_without_an_id_is_named_by_its_file_and_its_place(tmp_path: Path) -> None:
    results = run(write(tmp_path / "chat.log.jsonl", session(), session("own"), session()), tmp_path / "out")
    assert [result.session_id for result in results if isinstance(result, ImportedRecord)] == [
        "chat.log.1", "own", "chat.log.3",
    ]  # fmt: skip
    (alone,) = run(write(tmp_path / "one.json", session()), tmp_path / "out")
    assert isinstance(alone, ImportedRecord)
    assert alone.session_id == "one"


def test_two_sessions_of_one_id_are_two_records(tmp_path: Path) -> None:
    results = run(
        write(tmp_path / "d.jsonl", session("x", "a"), session("x", "b"), session("X", "c")), tmp_path / "out"
    )
    assert [result.session_id for result in results if isinstance(result, ImportedRecord)] == ["x", "x-2", "X-3"]


# ---- what is there already


def test_a_second_import_leaves_the_records_as_they_are(tmp_path: Path) -> None:
    source, out = write(tmp_path / "d.jsonl", session("x"), session("y")), tmp_path / "out"
    run(source, out)
    before = {path: path.read_bytes() for path in out.iterdir()}
    write(source, session("x", "changed"), session("y"), session("z"))
    again = run(source, out)
    assert [type(result).__name__ for result in again] == ["SkippedSession", "SkippedSession", "ImportedRecord"]
    assert all(result.known for result in again if isinstance(result, SkippedSession))
    assert {path: path.read_bytes() for path in before} == before
    assert [type(result).__name__ for result in run(source, out, compress=True)] == ["SkippedSession"] * 3


def test_records_are_replaced_where_that_is_asked_for_and_nothing_else_ever_is(tmp_path: Path) -> None:
    source, out = write(tmp_path / "d.jsonl", session("x"), session("y"), session("z")), tmp_path / "out"
    run(source, out)
    (out / "y.jsonl").write_text("my notes")
    results = run(source, out, replace=True, compress=True)
    assert [type(result).__name__ for result in results] == ["ImportedRecord", "SkippedSession", "ImportedRecord"]
    assert sorted(path.name for path in out.iterdir()) == ["x.jsonl.zst", "y.jsonl", "z.jsonl.zst"]
    assert (out / "y.jsonl").read_text() == "my notes"
    run(source, out, replace=True)
    assert sorted(path.name for path in out.iterdir()) == ["x.jsonl", "y.jsonl", "z.jsonl"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.write_text("precious")
    (out / "x.jsonl").symlink_to(victim)
    (out / "y.jsonl").symlink_to(tmp_path / "nowhere")
    for replace in (False, True):
        results = run(write(tmp_path / "d.jsonl", session("x"), session("y")), out, replace=replace)
        assert all(isinstance(result, SkippedSession) and result.known for result in results)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_record_that_breaks_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    def tell(sink: Any) -> None:
        raise RecursionError

    with pytest.raises(RecursionError):
        RecordFolder(tmp_path / "out").write("x", 0.0, tell)
    assert list((tmp_path / "out").iterdir()) == []


def test_who_was_faster_keeps_the_name(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path)

    def tell(sink: Any) -> None:
        (tmp_path / "x.jsonl").write_text("theirs")

    with pytest.raises(RecordExists):
        folder.write("x", 0.0, tell)
    assert (tmp_path / "x.jsonl").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(WrongUse, match="is a file"):
            RecordFolder(place)


# ---- the record itself


def test_a_record_is_byte_for_byte_what_the_writer_of_records_writes(tmp_path: Path) -> None:
    (result,) = run(write(tmp_path / "d.json", session("x")), tmp_path / "out")
    assert isinstance(result, ImportedRecord)
    created = read_record(result.record).header.created_at
    writer = RecordWriter(tmp_path / "own.jsonl", "x", created, __version__)
    imported = next(sessions(session("x")))
    imported.source = SessionSource(file=f"{tmp_path.name}/d.json", id="x")
    events: list[Event] = events_of(imported, "x", "openai", ImportOptions())
    for event in events:
        writer.write(event)
    writer.close()
    assert Path(result.record).read_bytes() == (tmp_path / "own.jsonl").read_bytes()


def test_a_compressed_record_is_the_same_record(tmp_path: Path) -> None:
    source = write(tmp_path / "d.json", session("x"))
    (plain,), (packed,) = run(source, tmp_path / "a"), run(source, tmp_path / "b", compress=True)
    assert isinstance(plain, ImportedRecord)
    assert isinstance(packed, ImportedRecord)
    assert packed.record.endswith("x.jsonl.zst")
    assert read_record(plain.record).runs == read_record(packed.record).runs
    assert (tmp_path / "b" / "x.jsonl.zst").read_bytes()[:4] == b"\x28\xb5\x2f\xfd"


# ---- bad sessions, and files that are none


def test_a_bad_session_is_skipped_with_its_place_and_the_rest_goes_on(tmp_path: Path) -> None:
    source = tmp_path / "d.jsonl"
    bad = [
        '{"messages": [{"ro',
        '{"x": 1}',
        json.dumps({"messages": [user("no answer")]}),
        "[" * 100_000,
        '"text"',
        "7",
    ]
    source.write_text("\n".join([json.dumps(session("a")), *bad, json.dumps(session("b"))]))
    results = run(source, tmp_path / "out")
    assert [result.session_id for result in results if isinstance(result, ImportedRecord)] == ["a", "b"]
    skipped = [result for result in results if isinstance(result, SkippedSession)]
    assert [(result.place, result.why[:25]) for result in skipped] == [
        ("line 2", "invalid JSON: Input data "),
        ("line 4", "it contains no response o"),
        ("line 5", "nested too deeply to be a"),
        ("line 3", "in none of the formats cl"),
    ]
    assert skipped[-1].why.endswith(", nor are 2 more values of the file"), "what nobody knows is named once a file"


def test_what_looks_like_another_format_is_said_to(tmp_path: Path) -> None:
    source = write(tmp_path / "d.json", {"task_id": 1, "reward": 1, "traj": [user("a"), says("b")]})
    (result,) = run(source, tmp_path / "out", "swe-agent")
    assert isinstance(result, SkippedSession)
    assert result.why == "it contains no response of the model (it looks like tau-bench)"


def test_a_folder_is_searched_and_what_holds_no_sessions_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    write(folder / "a.json", session("a"))
    write(folder / "deep" / "b.txt", session("b"), session("c"))
    (folder / "LICENSE").write_text("All rights")
    (folder / "empty").write_text("")
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    results = run(folder, folder / "out")
    assert [result.session_id for result in results if isinstance(result, ImportedRecord)] == ["a", "b", "c"]
    assert [result.aside for result in results if isinstance(result, SkippedSession)] == [True] * 3
    again = run(folder, tmp_path / "out")
    assert len([result for result in again if isinstance(result, ImportedRecord)]) == 3, "records are passed over, too"


def test_progress_is_told_file_by_file(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.json", session(name))
    told: list[tuple[int, int]] = []
    assert len(list(find_sessions(tmp_path, progress=lambda done, total: told.append((done, total))))) == 3
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_a_file_that_is_not_there_is_skipped(tmp_path: Path) -> None:
    (result,) = run(tmp_path / "absent.json", tmp_path / "out")
    assert isinstance(result, SkippedSession)
    assert "No such file" in result.why


def test_what_was_lost_is_added_up(tmp_path: Path) -> None:
    results = run(write(tmp_path / "d.jsonl", session("a"), session("b"), {}), tmp_path / "out")
    assert total_losses(results) == {"time": 4, "usage": 2, "finish reason": 2}


# ---- where a session came from


@pytest.mark.parametrize("given", ["java", "java/gpt", "java/gpt/one.json", "java/gpt/../gpt"])
def test_a_record_says_where_its_session_was_found_and_nothing_above_that(tmp_path: Path, given: str) -> None:
    (tmp_path / "java" / "gpt").mkdir(parents=True)
    write(tmp_path / "java" / "gpt" / "one.json", session("x"))
    (result,) = run(tmp_path / given, tmp_path / "out")
    assert isinstance(result, ImportedRecord)
    (started,) = (one.started for one in read_record(result.record).runs)
    file = "java/gpt/one.json" if given == "java" else "gpt/one.json"
    assert started.source == SessionSource(file=file, id="x")


def test_of_many_sessions_in_a_file_each_record_says_which_it_is(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", session("x"), [user("a"), says("b")])
    results = run(tmp_path / "log.jsonl", tmp_path / "out")
    sources = [read_record(one.record).runs[0].started.source for one in results if isinstance(one, ImportedRecord)]
    file = f"{tmp_path.name}/log.jsonl"
    assert sources == [
        SessionSource(file=file, place="line 1", id="x"),
        SessionSource(file=file, place="line 2", id="log.2"),
    ]


def test_a_sub_agents_record_names_the_record_of_the_session_that_started_it(tmp_path: Path) -> None:
    inner = {"schema_version": "ATIF-v1.7", "trajectory_id": "t", "steps": [{"source": "agent", "message": "Seen."}]}
    whole = {**inner, "session_id": "a/b", "subagent_trajectories": [inner], "trajectory_id": "x"}
    (tmp_path / "trajectory.json").write_text(json.dumps(whole))
    importer = Importer(RecordFolder(tmp_path / "out"))
    main, child = importer.import_all(find_sessions(tmp_path / "trajectory.json"))
    assert isinstance(main, ImportedRecord)
    assert isinstance(child, ImportedRecord)
    first, second = (read_record(one.record).runs[0].events[0] for one in (main, child))
    assert isinstance(first, RunStarted)
    assert isinstance(second, RunStarted)
    assert first.parent is None
    assert second.parent == ParentCall(session_id=first.session_id)


def test_a_compaction_of_another_loop_is_no_choice_of_the_policy_that_is_tried() -> None:
    found = ImportedSession()
    builder = SessionBuilder(found)
    builder.add_user(["Go"])
    builder.add_response("", [("c1", "read", "{}")])
    builder.add_result("c1", "read", "A")
    builder.add_compaction((UserMessage("It read A."),), before_tokens=90)
    builder.add_response("Done.")
    events = events_of(found, "s", "openai")
    assert any(isinstance(event, ContextCompacted) for event in events)
    (result,) = backtest(events, [Policy()])
    assert [finding.parting for finding in result.findings] == ["same"]


def test_losses_of_one_group_are_told_in_one_line() -> None:
    losses = {"line: a": 2, "line: b": 5, "time": 6, "role: x": 1, "other": 3} | {f"field: f{n}": 1 for n in range(14)}
    named = ", ".join(f"f{n} 1" for n in range(12))
    assert describe_losses(losses) == [
        f"14 fields that are not read ({named}, 2 more): left out",
        "7 lines that have no message (b 5, a 2): left out",
        "6 messages without a time: dated like the message before them",
        "3 other items: left out",
        "1 message with an unknown role (x): left out",
    ]
