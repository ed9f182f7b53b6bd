"""A system prompt that a function makes: asked before each step, recorded when it changes, never asked again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Progress, RecordOptions, Redaction, WrongUse, read_record
from endstop.decision import Message, Policy, SystemMessage, UserMessage
from endstop.decision import events as ev
from endstop.formats.export_atif import export as export_atif
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import check_transcript

from .test_fork import decisions, finish
from .test_resume import Script, check, eventful, killed_after


def verdicts(path: Path, run: int = -1) -> list[tuple[str, str]]:
    events = read_record(path).runs[run].events
    return [(e.said, e.detail) for e in events if isinstance(e, ev.VerdictGiven) and e.role == "system"]


class Listening:
    """A model that reads twice and ends, and the system prompts that it was sent."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.requests: list[list[Message]] = []

    def engine(self, system: Any, **options: Any) -> Engine:
        script = Script()
        tools = script.engine(0).config.toolbox
        return Engine(Scripted(self._answer), tools=[tools["read"]], presets=(), system=system, **options)

    def _answer(self, request: Any) -> Any:
        self.requests.append(list(request.messages))
        first = request.messages[0]
        self.heard.append(first.text if isinstance(first, SystemMessage) else "")
        return [call("read", path=str(len(self.heard)))] if len(self.heard) % 3 else "done"


async def test_a_function_is_asked_before_each_step_and_each_request_has_its_answer(tmp_path: Path) -> None:
    path, listening = tmp_path / "r.jsonl", Listening()

    async def system(run: Progress) -> str:
        return f"Step {run.facts.steps + 1}, {len(run.messages)} messages."

    outcome = await listening.engine(system).run("go", record=path)
    assert outcome.status == "completed"
    assert listening.heard == ["Step 1, 1 messages.", "Step 2, 4 messages.", "Step 3, 6 messages."]
    assert verdicts(path) == [("changed", text) for text in listening.heard]
    assert read_record(path).runs[0].started.system == ""
    report = await replay(path)
    assert report.same
    assert report.runs[0].difference is None
    check_transcript(listening.requests[-1])


async def test_an_answer_that_stays_is_recorded_once_also_over_runs_and_a_plain_function_will_do(
    tmp_path: Path,
) -> None:
    path, listening = tmp_path / "r.jsonl", Listening()
    session = listening.engine(lambda run: "Be brief.").session(record=path)
    await session.run("one")
    await session.run("two")
    assert set(listening.heard) == {"Be brief."}
    assert verdicts(path, 0) == [("changed", "Be brief."), ("unchanged", ""), ("unchanged", "")]
    assert verdicts(path, 1) == [("unchanged", "")] * 3
    assert session.messages()[0] == SystemMessage("Be brief.")
    assert (await replay(path)).same


async def test_it_sees_what_belongs_to_the_run_and_may_take_the_prompt_away() -> None:
    @dataclass
    class Deps:
        name: str

    listening = Listening()

    def system(run: Progress[Deps]) -> str:
        return f"The user is {run.context.deps.name}." if run.facts.steps == 0 else ""

    await listening.engine(system).run("go", deps=Deps("Ada"))
    assert listening.heard == ["The user is Ada.", "", ""]
    assert listening.requests[1][0] == UserMessage("go")


async def test_a_function_goes_before_the_system_prompt_of_a_history() -> None:
    listening = Listening()
    history = [SystemMessage("Theirs."), UserMessage("Hi")]
    await listening.engine(lambda run: "Mine.").run("go", history=history)
    assert listening.requests[0] == [SystemMessage("Mine."), UserMessage("Hi"), UserMessage("go")]


@pytest.mark.parametrize("answer", [ValueError("no database"), None, 3])
async def test_one_that_fails_before_the_first_step_ends_the_run_before_any_request(
    answer: Any, tmp_path: Path
) -> None:
    path, listening = tmp_path / "r.jsonl", Listening()

    def system(run: Progress) -> str:
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    outcome = await listening.engine(system).run("go", record=path)
    assert (outcome.status, outcome.stop_reason) == ("failed", "internal_error")
    assert "no database" in outcome.detail or "a system prompt is a text" in outcome.detail
    assert listening.requests == []
    assert (await replay(path)).same


async def test_one_that_fails_later_keeps_the_prompt_and_the_record_says_why(tmp_path: Path) -> None:
    path, listening = tmp_path / "r.jsonl", Listening()

    def system(run: Progress) -> str:
        if run.facts.steps == 1:
            raise ValueError("no database")
        return f"At {run.facts.steps}."

    outcome = await listening.engine(system).run("go", record=path)
    assert outcome.status == "completed"
    assert listening.heard == ["At 0.", "At 0.", "At 2."]
    assert [said for said, _ in verdicts(path)] == ["changed", "failed", "changed"]
    assert (await replay(path)).same


async def test_a_run_killed_after_any_of_its_events_has_the_same_prompts_and_asks_for_none_twice(
    tmp_path: Path,
) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    asked: list[int] = []

    def system(run: Progress) -> str:
        asked.append(run.facts.steps)
        return f"Prompt {run.facts.steps // 2}."

    script, options = eventful()
    expected = await script.engine(0, **options, system=system).run("go", record=whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    (unbroken,) = read_record(whole).runs
    recorded = verdicts(whole)
    for kept in range(2, len(lines)):
        where = f"killed after {lines[kept - 1][:60]!r} ({kept} of {len(lines)})"
        again, options = eventful()
        before = sum(b'"role":"system"' in line for line in lines[:kept])
        asked.clear()
        outcome, session = await killed_after(path, lines[:kept], again, {**options, "system": system})
        if outcome.steps == expected.steps:
            assert len(asked) == len(recorded) - before, where
            assert verdicts(path) == recorded, where
        (run,) = read_record(path).runs
        check(run.events, session, unbroken.started.run_id, where)
        assert (await replay(path)).same, where
        path.write_bytes(b"".join(lines[:kept]))
        assert (await replay(path)).same, where


async def test_a_run_does_not_go_on_without_a_function_for_its_system_prompt(tmp_path: Path) -> None:
    path, listening = tmp_path / "r.jsonl", Listening()
    await listening.engine(lambda run: "Mine.").run("go", record=path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))
    session = listening.engine("Fixed.").resume(path)
    with pytest.raises(WrongUse, match=r"the run began with a system, .*give it to the engine again"):
        session.start_resumed()


async def test_a_fork_keeps_the_prompt_of_its_copies_and_asks_its_own_function_from_there(tmp_path: Path) -> None:
    origin, path = tmp_path / "origin.jsonl", tmp_path / "fork.jsonl"
    script = Script([call("read", path="a", id="r1")], [call("finish_task", summary="done", id="end")])
    stepwise = Policy(max_inner_steps=1)
    await script.engine(0, policy=stepwise, system=lambda run: "Origin.").run("go", record=origin)
    at = decisions(origin)[0].seq
    other = Script(*[[call("finish_task", summary="forked", id="end")]] * 2)
    engine = other.engine(1, policy=stepwise, system=lambda run: f"After {run.messages[0].text}")  # type: ignore[union-attr]
    forked = script.engine(0).session(record=origin).fork(at=at, engine=engine, record=path)
    assert (await finish(forked)).answer == "forked"
    assert [detail for _, detail in verdicts(path)] == ["Origin.", "After Origin."]
    assert forked.messages()[0] == SystemMessage("After Origin.")
    assert (await replay(path)).same


async def test_a_secret_in_the_prompt_is_redacted_in_the_record_and_an_export_has_each_prompt(tmp_path: Path) -> None:
    path, listening, secret = tmp_path / "r.jsonl", Listening(), "sk-proj-" + "Ab1" * 16
    engine = listening.engine(lambda run: f"Key {secret}", record_options=RecordOptions(redact=Redaction()))
    await engine.run("go", record=path)
    assert secret in listening.heard[0]
    assert secret.encode() not in path.read_bytes()
    assert (await replay(path)).same
    exported, _ = export_atif("s", read_record(path).runs[0].events)
    assert [step["source"] for step in exported["steps"]].count("system") == 1
