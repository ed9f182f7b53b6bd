"""`endstop audit` as people read it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ...console import endstop
from ..analysis import scenes

RECORDS = Path(__file__).parents[2] / "records"


async def test_a_session_is_told_in_few_lines_however_long_it_went_on() -> None:
    done = await endstop("audit", RECORDS / "before" / "A1.jsonl")
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) < 30
    assert "reported as done here (finish_task), not checked" in done.out
    assert "and 26 more steps, the same" in done.out
    assert "continued for 27 steps" in done.out
    assert "ended after step 3, by P0.5 control_flow; 27 steps saved" in " ".join(done.out.split())
    every = await endstop("audit", RECORDS / "before" / "A1.jsonl", "--every-step")
    assert every.out.count("Task finished.") >= 27


async def test_the_steps_of_the_anchors_are_told_and_what_a_run_never_did(tmp_path: Path) -> None:
    done = await endstop("audit", await scenes.changing(tmp_path / "a.jsonl", before=2, after=4, check=True))
    for words in (
        "said that it was done at step 7 (finish_task), 0 steps after it",
        "last changed the work at step 3 (save), 4 steps after it",
        "checked at step 4 (run_tests), 3 steps after it",
        "──── the last change of the work (save) ────",
        "──── checked here (run_tests) ────",
    ):
        assert words in done.out, words
    done = await endstop("audit", await scenes.limited(tmp_path / "b.jsonl"))
    for words in ("never said that it was done", "never changed anything", "never checked"):
        assert f"  {words}\n" in done.out, words


async def test_json_is_one_object_and_a_policy_can_be_chosen() -> None:
    done = await endstop("audit", RECORDS / "loop.jsonl", "--json", "--policy", "agent")
    (run,) = done.json["runs"]
    assert (run["made"], len(run["steps"]), run["stop_reason"]) == (12, 12, "step_limit")
    assert [stopping["policy"] for stopping in run["stoppings"]] == ["agent"]


async def test_what_cannot_be_read_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing of the kind")
    done = await endstop("audit", tmp_path / "x")
    assert (done.code, done.out) == (2, "")
    assert str(tmp_path / "x") in done.err


def chat(*calls: str) -> list[dict[str, object]]:
    """OpenAI messages of a session with these calls, the last of which is answered twice over."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Set the port"}]
    for number, name in enumerate(calls):
        function = {"name": name, "arguments": '{"summary": "set"}'}
        messages.append({"role": "assistant", "tool_calls": [{"id": f"c{number}", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "ok"})
    return messages


async def test_a_transcript_of_another_loop_is_read_by_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(chat("look", "finish_task", "look", "look")))
    done = await endstop("audit", path)
    assert (done.code, done.err) == (0, "")
    assert "reported as done here (finish_task), not checked" in done.out
    assert "would have ended it after step 2, by P0.5 control_flow; 2 steps saved" in " ".join(done.out.split())
    assert "lost in the import" in done.out
    own = await endstop("audit", path, "--completion", "look", "--json")
    assert own.json["runs"][0]["done_at"] == 1


async def test_of_many_sessions_one_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [{"id": name, "messages": chat("finish_task")} for name in ("one", "two")]
    path.write_text("\n".join(map(json.dumps, lines)))
    first = await endstop("audit", path)
    assert "holds 2 sessions" in first.err
    second = await endstop("audit", path, "--session", "two", "--json")
    assert "two" in second.json["session_id"]
    nobody = await endstop("audit", path, "--session", "three")
    assert nobody.code == 2
    assert "has no session 'three'" in nobody.err


async def test_a_record_of_a_newer_version_is_no_foreign_transcript(tmp_path: Path) -> None:
    whole = (RECORDS / "port.jsonl").read_text()
    (tmp_path / "x.jsonl").write_text(whole.replace('"version":"1.0"', '"version":"9.0"'))
    done = await endstop("audit", tmp_path / "x.jsonl")
    assert done.code == 2
    assert "upgrade endstop" in done.err


async def test_the_newest_session_of_the_places_that_are_known_is_shown(tmp_path: Path) -> None:
    variables = ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "CLINE_DATA_DIR", "CONTINUE_GLOBAL_DIR")
    home = {"HOME": str(tmp_path), "MSWEA_GLOBAL_CONFIG_DIR": "", **dict.fromkeys(variables, "")}
    nothing = await endstop("audit", "--last", env=home)
    assert (nothing.code, nothing.out) == (2, "")
    assert f"no session found: looked below {tmp_path}/.claude/projects, {tmp_path}/.codex/sessions" in nothing.err
    assert "no session is left of some runs (Continue: a run of cn that failed or was killed; " in nothing.err
    folder = tmp_path / ".codex" / "sessions"
    folder.mkdir(parents=True)
    for at, name in ((1000, "old"), (2000, "new")):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"id": name, "messages": chat("look", "finish_task")}))
        os.utime(path, (at, at))
    done = await endstop("audit", "--last", env=home)
    assert done.code == 0
    assert done.err.splitlines() == [
        f"endstop: searched {folder} (Codex, 2 files)",
        f"endstop: the newest session is new ({folder}/new.json)",
    ]
    assert "reported as done here (finish_task)" in done.out
    (tmp_path / ".continue").mkdir()
    told = (await endstop("audit", "--last", env=home)).err.splitlines()[-1]
    assert told.startswith("endstop: no session is left of some runs (Continue: ")
    (folder / "new.json").unlink()
    named = await endstop("audit", folder, "--last", "--json")
    assert named.json["session_id"] == "old"
    assert (await endstop("audit", folder)).code == 0, "a folder with one session"
    assert (await endstop("audit")).code == 2
    assert (await endstop("audit", folder, "--last", "--session", "old")).code == 2


async def test_a_sub_agents_session_says_whose_it_is_and_an_imported_one_that_it_is_one(tmp_path: Path) -> None:
    inner = {"schema_version": "ATIF-v1.7", "trajectory_id": "t", "steps": [{"source": "agent", "message": "Seen."}]}
    whole = {**inner, "session_id": "main", "subagent_trajectories": [inner]}
    (tmp_path / "trajectory.json").write_text(json.dumps(whole))
    done = await endstop("import", "atif", tmp_path / "trajectory.json", "-o", tmp_path / "out")
    assert done.code == 0
    child = await endstop("audit", tmp_path / "out" / "main.t.jsonl")
    assert child.out.splitlines()[0] == "It ended with an answer at step 1; not checked."
    assert child.out.splitlines()[1].startswith("main.t · imported (atif) · 1 step · about ")
    assert child.out.splitlines()[2] == "sub-agent of main"
    main = await endstop("audit", tmp_path / "out" / "main.jsonl")
    assert "sub-agent" not in main.out
    shown = await endstop("audit", tmp_path / "trajectory.json", "--session", "main.t")
    assert "lost in the import:\n  1 " in shown.out
    assert "\n  1 message without a time: dated like the message before it\n" in shown.out
