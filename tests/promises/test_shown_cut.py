"""Rows A6 and F10 in the terminal: the completion call, what is known of the cut, thoughts, rounds, states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks, Tool, read_record
from endstop.decision import AssistantMessage, FinishReport, TextDelta, ToolCallDelta
from endstop.decision import events as ev
from endstop.plan_execute_think import plan_execute_think
from endstop.providers import Scripted, call, say
from endstop.replay import replay
from endstop.tools import finish_task, task_done, think

from ..console import endstop

SUMMARY = "The port in config.ini is 8080 now; it was 3000."
DONE = call("finish_task", summary=SUMMARY)
UNKNOWN = "Cut at finish_task: whether anything would have followed is unknown"


async def record_of(tmp_path: Path, script: list[Any], *, drain: bool = False, **options: Any) -> Path:
    options = {"presets": (finish_task, task_done, think), **options}
    path = tmp_path / "r.jsonl"
    await Engine(Scripted(*script), **options).run("go", record=path, drain=drain)
    return path


def response(path: Path) -> ev.ResponseFinished:
    (found,) = (e for e in read_record(path).runs[0].events if isinstance(e, ev.ResponseFinished))
    return found


async def told(path: Path) -> str:
    done = await endstop("replay", path)
    assert done.code == 0, done.err
    return done.err


# ---- A6


async def test_A6_after_a_cut_it_is_said_that_nobody_knows_what_would_have_come(tmp_path: Path) -> None:
    path = await record_of(tmp_path, [[DONE, say("and on and on", 5)]])
    assert (response(path).cut_at_end, response(path).after_cut) == (False, None)
    lines = await told(path)
    assert "finish_task -> accepted" in lines
    assert UNKNOWN in lines


async def test_A6_what_a_cut_saved_is_said_where_the_rest_was_drained(tmp_path: Path) -> None:
    rest = [say("Let me also read the README, and then say it all once more.", 5), call("read_file", path="README.md")]
    path = await record_of(tmp_path, [[DONE, *rest]], drain=True)
    after = response(path).after_cut
    assert after is not None
    assert (after.calls, after.whole) == (("read_file",), True)
    assert 10 <= after.output_tokens <= 40
    lines = await told(path)
    assert f"Cut at finish_task, which saved about {after.output_tokens} output tokens and 1 tool call" in lines
    assert UNKNOWN not in lines


async def test_A6_a_drained_response_in_which_nothing_came_after_is_said_to_have_ended_there(tmp_path: Path) -> None:
    path = await record_of(tmp_path, [[DONE]], drain=True)
    assert response(path).after_cut == ev.CutOff()
    assert "The response ended with finish_task: nothing was cut off" in await told(path)


async def test_A6_a_completion_that_is_whole_only_at_the_finish_is_no_cut(tmp_path: Path) -> None:
    async def done() -> str:
        return "It is done."

    tools = [Tool(done, kind="completion", description="Done.")]
    chunks = [ToolCallDelta(0, "c", "done", "{}"), FinishReport("tool_calls", "tool_calls")]
    path = await record_of(tmp_path, [chunks], tools=tools)
    assert response(path).cut_at_end
    assert "The response ended with done: nothing was cut off" in await told(path)


async def test_A6_what_was_drained_stands_in_the_events_of_a_replay_too(tmp_path: Path) -> None:
    path = await record_of(tmp_path, [[DONE, say("and on and on", 5)]], drain=True)
    known = response(path).after_cut
    # as an older version wrote it: the chunks alone
    lines = path.read_text().replace(f',"after_cut":{{"output_tokens":{known.output_tokens}}}', "")  # type: ignore[union-attr]
    assert lines != path.read_text()
    path.write_text(lines)
    assert response(path).after_cut is None
    assert "which saved about" in await told(path)
    assert (await replay(path)).same


async def test_A6_a_rest_that_was_not_read_to_its_end_is_a_least() -> None:
    from endstop.cli.views.text import cut_words
    from endstop.records.format import summarize_drained

    rest = summarize_drained([TextDelta("word " * 40)])
    assert not rest.whole
    answer = ev.ResponseFinished(step=1, message=AssistantMessage(""), finish="tool_calls", cut_at="c", after_cut=rest)
    assert cut_words("finish_task", answer) == "Cut at finish_task, which saved at least about 50 output tokens"


async def test_A6_calls_after_a_cut_are_counted_each_whatever_index_they_bear() -> None:
    from endstop.records.format import summarize_drained

    chunks = [ToolCallDelta(0, "a", "read_file", "{}"), ToolCallDelta(0, "b", "read_file", "{}")]
    assert summarize_drained(chunks).calls == ("read_file", "read_file")


async def test_A6_a_completion_that_is_handed_back_is_shown_with_its_reason(tmp_path: Path) -> None:
    from endstop.hooks import Reject

    said: list[Any] = [Reject("The README is missing."), True]
    path = await record_of(tmp_path, [[DONE], [DONE]], hooks=Hooks(gates=[lambda completion, progress: said.pop(0)]))
    lines = await told(path)
    assert "-> rejected" in lines
    assert "not accepted as complete" in lines
    assert lines.count("finish_task -> accepted") == 1


# ---- F10


async def test_F10_a_thought_stands_apart_and_a_confirmation_that_was_given_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.jsonl"
    asks = call("task_done", summary=SUMMARY, requires_user_confirmation=True)
    script = Scripted([call("think", thought="There is one port.")], [asks])
    session = Engine(script, presets=(task_done, think)).session(record=path)
    asked = await session.run("go")
    await session.answer(asked.questions[0].call_id, "yes")
    lines = await told(path)
    assert "think: There is one port." in lines
    assert "task_done -> waits for your answer" in lines
    assert "accepted by the user" in lines
    assert "running" not in lines


@pytest.mark.parametrize("name", ["plan_and_execute", "renamed"])
async def test_F10_plan_execute_and_think_are_told_as_a_round(tmp_path: Path, name: str) -> None:
    async def write(text: str) -> str:
        if text == "bad":
            raise OSError("disk full")
        return f"wrote {text}"

    def plan(goal: str, *texts: str) -> Any:
        steps = [{"tool": "write", "arguments": {"text": text}} for text in texts]
        return call(name, goal=goal, steps=steps)

    script = Scripted(
        [plan("the first two", "a", "bad")],
        [call("think_and_decide", summary="One is missing.", decision="go on", next_goal="the second")],
        [plan("the second", "b")],
        [call("think_and_decide", summary="Both are written.", decision="done")],
    )
    engine = plan_execute_think(script, [Tool(write, description="Write.")])
    tools = [tool.renamed(name) if tool.name == "plan_and_execute" else tool for tool in engine.config.toolbox.values()]
    path = tmp_path / "r.jsonl"
    await Engine(script, tools=tools, presets=(), policy=engine.config.policy).run("go", record=path)
    lines = await told(path)
    assert "round 1: the first two\n    write a -> ok: wrote a\n    write bad -> error: OSError: disk full" in lines
    assert "    think: One is missing.\n    next: the second" in lines
    assert "round 2: the second\n    write b -> ok: wrote b" in lines
    assert '[{"step"' not in lines
