"""`endstop import` and `endstop export` as people and scripts use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record

from ...console import endstop

SESSION = {
    "id": "s1",
    "messages": [
        {"role": "user", "content": "Set the port"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "hand_in", "arguments": '{"words": "Done."}'}}]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ],
}  # fmt: skip


def write(path: Path, *sessions: Any) -> Path:
    path.write_text("".join(json.dumps(session) + "\n" for session in sessions))
    return path


async def test_an_import_says_what_it_made_and_what_was_lost(tmp_path: Path) -> None:
    done = await endstop("import", "openai", write(tmp_path / "d.jsonl", SESSION, {"id": "s2"}), "-o", tmp_path / "out")
    assert done.code == 0
    assert done.out == f"1 session (openai; 1 run, 1 step) imported into {tmp_path / 'out'}\n"
    assert f"skipped: {tmp_path / 'd.jsonl'}, line 2: it contains no list of messages" in done.err
    assert "lost: 1 response without token counts: estimated" in done.err
    assert len(done.err.splitlines()) == 4
    assert read_record(tmp_path / "out" / "s1.jsonl").runs[0].finished is not None


async def test_json_is_one_object_with_every_session_and_every_loss(tmp_path: Path) -> None:
    source = write(tmp_path / "d.jsonl", SESSION, {"id": "s2"})
    done = await endstop("import", "auto", source, "-o", tmp_path / "out", "--json", "--quiet")
    assert (done.code, done.err) == (0, "")
    told = done.json
    assert (told["imported"], told["runs"], told["steps"]) == (1, 1, 1)
    assert told["lost"] == {"time": 3, "usage": 1, "finish reason": 1}
    (session,) = told["sessions"]
    assert session == {
        "session_id": "s1", "record": str(tmp_path / "out" / "s1.jsonl"), "format": "openai", "source": str(source),
        "place": "line 1", "runs": 1, "steps": 1, "lost": told["lost"],
    }  # fmt: skip
    (skipped,) = told["skipped"]
    assert (skipped["source"], skipped["place"]) == (str(source), "line 2")


async def test_what_was_imported_can_be_replayed_and_backtested(tmp_path: Path) -> None:
    source = write(tmp_path / "d.json", SESSION)
    await endstop("import", "openai", source, "-o", tmp_path / "out", "--completion", "hand_in", "--compress")
    record = tmp_path / "out" / "s1.jsonl.zst"
    replayed = await endstop("replay", record, "--quiet")
    assert (replayed.code, "the same" in replayed.out) == (0, True)
    tested = (await endstop("backtest", tmp_path / "out", "--policy", "agent", "--json", "--quiet")).json
    assert tested["sessions"] == 1
    assert read_record(record).runs[0].finished.outcome.answer == "Done."  # type: ignore[union-attr]


async def test_it_reads_from_stdin_and_from_folders(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.log", SESSION)
    (folder / "README").write_text("words")
    text = json.dumps([{**SESSION, "id": None}] * 2).encode()
    done = await endstop("import", "auto", "-", folder, "-o", tmp_path / "out", stdin=text)
    assert done.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["s1.jsonl", "stdin.1.jsonl", "stdin.2.jsonl"]
    assert "ignored: 1 file without sessions" in done.err


async def test_a_second_import_changes_nothing_unless_it_is_forced(tmp_path: Path) -> None:
    arguments = ("import", "openai", write(tmp_path / "d.json", SESSION), "-o", tmp_path / "out")
    assert (await endstop(*arguments)).code == 0
    before = (tmp_path / "out" / "s1.jsonl").read_bytes()
    done = await endstop(*arguments)
    assert (done.code, done.out) == (0, f"nothing new: 1 session is there already, in {tmp_path / 'out'}\n")
    assert done.err == "kept: existing records of 1 session (--force replaces them)\n"
    assert (tmp_path / "out" / "s1.jsonl").read_bytes() == before
    assert (await endstop(*arguments, "--force", "--completion", "hand_in")).code == 0
    assert (tmp_path / "out" / "s1.jsonl").read_bytes() != before


async def test_sessions_that_are_there_excuse_none_that_cannot_be_imported(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.json", SESSION)
    arguments = ("import", "openai", folder, "-o", tmp_path / "out")
    assert (await endstop(*arguments)).code == 0
    (folder / "b.json").write_text('{"messages": ')
    done = await endstop(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "nothing was imported" in done.err
    assert "b.json" in done.err
    (folder / "b.json").unlink()
    write(folder / "c.json", {**SESSION, "id": "s2"})
    told = (await endstop(*arguments, "--json")).json
    assert (told["imported"], sum(one["known"] for one in told["skipped"])) == (1, 1)
    again = await endstop(*arguments, "--json")
    assert (again.code, again.json["imported"], len(again.json["skipped"])) == (0, 0, 2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("words", "neither JSON nor JSON Lines"),
        ('{"x": 1}', "in none of the formats"),
        ('{"x": 1}\n{"y": ', "invalid JSON"),
        ('{"messages": ' + "[" * 100_000, "nested too deeply"),
    ],
)
async def test_nothing_imported_is_wrong_use_with_the_reason(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "d").write_text(text)
    done = await endstop("import", "auto", tmp_path / "d", "-o", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].startswith(f"endstop: nothing was imported: {tmp_path / 'd'}")
    assert why in done.err.splitlines()[-1]
    assert len(done.err.splitlines()) == (1 if text.count("\n") == 0 else 3)
    assert "Traceback" not in done.err


async def test_wrong_use_of_an_import_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, why in (
        (("import", "openai", tmp_path / "absent", "-o", tmp_path / "out"), "No such file"),
        (("import", "openai", tmp_path, "-o", tmp_path / "file"), "is a file"),
        (("import", "morse", tmp_path, "-o", tmp_path / "out"), "invalid choice"),
        (("import", "openai", tmp_path), "-o"),
    ):
        done = await endstop(*arguments)
        assert done.code == 2
        assert why in done.err
        assert "Traceback" not in done.err


async def test_a_tool_that_nobody_knows_is_pointed_out(tmp_path: Path) -> None:
    source = write(tmp_path / "d.json", SESSION)
    done = await endstop("import", "openai", source, "-o", tmp_path / "out", "--completion", "handin")
    assert "note: no session has a tool called 'handin'" in done.err


# ---- export


async def test_an_export_goes_to_stdout_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    await endstop("import", "openai", write(tmp_path / "d.json", SESSION), "-o", tmp_path)
    done = await endstop("export", "openai", tmp_path / "s1.jsonl")
    assert done.code == 0
    assert done.json["messages"] == SESSION["messages"]
    assert done.json["id"] == "s1"
    assert "left out: 1 stop reason and policy of a run" in done.err
    assert (await endstop("export", "openai", tmp_path / "s1.jsonl", "--quiet")).err == ""
    atif = (await endstop("export", "atif", tmp_path / "s1.jsonl")).json
    assert atif["schema_version"] == "ATIF-v1.7"


async def test_an_export_never_writes_over_a_file_unasked(tmp_path: Path) -> None:
    await endstop("import", "openai", write(tmp_path / "d.json", SESSION), "-o", tmp_path)
    record, out = tmp_path / "s1.jsonl", tmp_path / "out.json"
    assert (await endstop("export", "atif", record, "-o", out)).code == 0
    before = out.read_bytes()
    again = await endstop("export", "openai", record, "-o", out)
    assert (again.code, out.read_bytes()) == (2, before)
    assert "--force" in again.err
    assert (await endstop("export", "openai", record, "-o", out, "--force")).code == 0
    assert out.read_bytes() != before
    for target in (record, tmp_path):
        assert (await endstop("export", "openai", record, "-o", target, "--force")).code == 2
    assert (await endstop("export", "openai", tmp_path / "d.json")).code == 2


# ---- labels


def messages_of(*texts: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Go"}, *({"role": "assistant", "content": t} for t in texts)]}


def java(folder: Path) -> Path:
    """Sessions of two models, whose names repeat, as files of a folder each."""
    for model in ("gpt", "llama"):
        (folder / model).mkdir(parents=True)
        for name in ("dubbo-1", "dubbo-2"):
            write(folder / model / f"{name}.json", messages_of(f"{model} did {name}"))
    return folder


def verdicts(folder: Path) -> dict[str, Any]:
    """The verdict of each record's last run, by the session's source."""
    runs = [read_record(path).runs[-1] for path in sorted(folder.glob("*.jsonl"))]
    return {
        run.started.source.file.removesuffix(".json"): run.finished.outcome.verdict
        for run in runs
        if run.started.source is not None and run.finished is not None
    }


async def test_labels_become_verdicts_of_the_records_with_the_file_that_said_them(tmp_path: Path) -> None:
    source = java(tmp_path / "java")
    labels = source / "labels.json"
    given = {"gpt/dubbo-1": True, "gpt/dubbo-2": False, "llama/dubbo-1": {"resolved": False, "model": "llama"}}
    labels.write_text(json.dumps({**given, "gpt/dubbo-3": True}))
    done = await endstop("import", "auto", source, "-o", tmp_path / "out", "--labels", labels)
    assert done.code == 0
    assert "skipped" not in done.err, "the labels are no session"
    assert done.err.splitlines()[-2:] == [
        "labels: 1 good, 2 bad; 1 session without a label",
        f"warning: {labels}: 1 of 4 labels matches no session: gpt/dubbo-3",
    ]
    assert verdicts(tmp_path / "out") == {
        "java/gpt/dubbo-1": "passed", "java/gpt/dubbo-2": "failed",
        "java/llama/dubbo-1": "failed", "java/llama/dubbo-2": "not_run",
    }  # fmt: skip
    (first,) = read_record(tmp_path / "out" / "dubbo-1.jsonl").runs
    assert first.finished is not None
    assert first.finished.outcome.evaluation == {"name": "label:labels.json", "id": "gpt/dubbo-1", "label": True}
    assert read_record(tmp_path / "out" / "dubbo-1-2.jsonl").runs[0].started.model == "llama"


async def test_a_model_that_no_session_names_tells_equal_ids_apart(tmp_path: Path) -> None:
    source = java(tmp_path / "java")
    labels = tmp_path / "labels.csv"
    labels.write_text("instance_id,model,resolved\ndubbo-1,gpt-4o,true\ndubbo-1,llama,false\n")
    options = ("-o", tmp_path / "out", "--labels", labels)
    done = await endstop("import", "openai", source / "gpt", *options, "--model", "gpt-4o", "--json")
    assert done.code == 0
    assert done.json["labels"] == {
        "file": str(labels), "given": 2, "used": 1, "unmatched": ["dubbo-1"], "sessions": 2, "unlabelled": 1,
    }  # fmt: skip
    assert verdicts(tmp_path / "out") == {"gpt/dubbo-1": "passed", "gpt/dubbo-2": "not_run"}
    assert read_record(tmp_path / "out" / "dubbo-2.jsonl").runs[0].started.model == "gpt-4o"


async def test_sessions_of_stdin_find_their_labels(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"session_id": "s1", "reward": 1.0}\n{"id": "stdin.2", "reward": 0.4}\n')
    text = "".join(json.dumps(one) + "\n" for one in (SESSION, messages_of("Done.")))
    done = await endstop("import", "openai", "-", "-o", tmp_path / "out", "--labels", labels, stdin=text.encode())
    assert (done.code, done.err.splitlines()[-1]) == (0, "labels: 1 good, 1 bad")


async def test_a_reward_that_stands_in_the_session_agrees_with_its_label(tmp_path: Path) -> None:
    source = tmp_path / "airline.json"
    traj = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Bye"}]
    source.write_text(json.dumps([{"task_id": 4, "trial": 0, "reward": 1.0, "traj": traj}]))
    done = await endstop("import", "tau-bench", source, "-o", tmp_path / "out", "--labels", source)
    assert (done.code, done.err.splitlines()[-1]) == (0, "labels: 1 good, 0 bad")
    (run,) = read_record(tmp_path / "out" / "airline.task-4.trial-0.jsonl").runs
    assert run.finished is not None
    assert (run.finished.outcome.evaluation or {})["name"] == "tau-bench:reward", "its own verdict stays"
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("task_id,trial,reward\n4,0,0.0\n")
    done = await endstop("import", "tau-bench", source, "-o", tmp_path / "no", "--labels", wrong)
    assert done.code == 2
    where = f"{source}, element 1 (session airline.task-4.trial-0)"
    assert f"{where} passed its evaluation, but task-4.trial-0 is bad in {wrong}, line 2" in done.err


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ('{"dubbo-1": true}', "the label dubbo-1 is good in"),
        ('{"dubbo-1": true}', "matches two sessions: {java}/gpt/dubbo-1.json (session dubbo-1) and {java}/llama/dubbo"),
        ('{"gpt/dubbo-1": true, "dubbo-1.json": false}', "has two labels that contradict each other"),
        (
            '{"dubbo-7": true}',
            "none of its 1 labels matches a session. Labels are for dubbo-7; the sessions are {java}",
        ),
        ('{"dubbo-1": [1]}', "not in a known form of labels"),
        ("some words\n", "not in a known form of labels"),
    ],
)
async def test_labels_that_are_wrong_end_an_import_before_it_writes(tmp_path: Path, labels: str, words: str) -> None:
    source = java(tmp_path / "java")
    (tmp_path / "labels").write_text(labels)
    done = await endstop("import", "auto", source, "-o", tmp_path / "out", "--labels", tmp_path / "labels")
    assert (done.code, done.out) == (2, "")
    assert words.replace("{java}", str(source)) in done.err
    assert not list((tmp_path / "out").glob("*"))


async def test_an_import_without_a_file_of_labels_says_so(tmp_path: Path) -> None:
    done = await endstop("import", "auto", java(tmp_path), "-o", tmp_path / "out", "--labels", tmp_path / "nowhere")
    assert (done.code, f"cannot read the labels {tmp_path / 'nowhere'}: No such file" in done.err) == (2, True)
