"""A run that is resumed with another policy or hook goes on, and says where it differs; or it refuses (`strict`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Engine, ResumeRefused, read_record
from endstop.decision import Limits, Policy
from endstop.decision import events as ev
from endstop.hooks import Accept, Progress
from endstop.providers import call
from endstop.replay import replay

from .test_resume import Script
from .test_resume_point import up_to

WRITE = [call("write", path="a", id="w1")]
SHORT_ROUNDS = Policy(max_inner_steps=1)
LIMITED = Policy(max_inner_steps=1, limits=Limits(steps=1))
END = [call("finish_task", summary="done", id="end")]


def first_rule(text: str, calls: Sequence[Any]) -> None:
    return None


def second_rule(text: str, calls: Sequence[Any]) -> None:
    return None


async def recorded(path: Path, rule: Any) -> list[bytes]:
    """The lines of a run of two steps."""
    await Script(WRITE, END).engine(0, text_rule=rule, policy=SHORT_ROUNDS).run("go", record=path)
    return path.read_bytes().splitlines(keepends=True)


async def resume(path: Path, lines: Sequence[bytes], engine: Engine) -> Any:
    path.write_bytes(b"".join(lines))
    session = engine.session(read_record(path).header.session_id, record=path)
    session.load(read_record(path).runs)
    async with session.start_resumed() as run:
        outcome = await run.wait()
    assert (await replay(path)).same
    return outcome


def divergences(path: Path) -> list[tuple[int, str, str]]:
    events = read_record(path).runs[-1].events
    return [(e.at, e.recorded, e.now) for e in events if isinstance(e, ev.ResumeDiverged)]


async def test_a_hook_that_was_replaced_is_asked_and_the_record_says_so(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = up_to(await recorded(path, first_rule), "VERDICT_GIVEN")
    script = Script(WRITE, END)
    outcome = await resume(path, lines, script.engine(1, text_rule=second_rule, policy=SHORT_ROUNDS))
    assert (outcome.status, outcome.steps, script.done) == ("completed", 2, ["a"])
    ((at, then, now),) = divergences(path)
    assert at == json.loads(lines[-1])["seq"]
    assert then == f"VERDICT_GIVEN text_rule {__name__}:first_rule"
    assert now == f"VERDICT_GIVEN text_rule {__name__}:second_rule"


async def test_a_policy_that_would_have_decided_otherwise_is_seen_and_the_recorded_decision_holds(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.jsonl"
    lines = up_to(await recorded(path, first_rule), "DECISION_MADE")
    changed = Script(WRITE, END).engine(1, text_rule=first_rule, policy=LIMITED)
    outcome = await resume(path, lines, changed)
    assert (outcome.status, outcome.steps) == ("completed", 2)
    ((at, then, now),) = divergences(path)
    assert at == json.loads(lines[-1])["seq"]
    assert then.startswith("DECISION_MADE go on by ")
    assert now == "DECISION_MADE stop(step_limit) by step_limit"


@pytest.mark.parametrize("kept", ["VERDICT_GIVEN", "DECISION_MADE"])
async def test_a_strict_engine_refuses_and_nothing_is_written(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "r.jsonl"
    lines = up_to(await recorded(path, first_rule), kept)
    script = Script(WRITE, END)
    changed = {"text_rule": second_rule, "policy": LIMITED, "strict_resume": True}
    with pytest.raises(ResumeRefused, match=r"from its record: event \d+ is [A-Z_]+ .* Nothing was written"):
        await resume(path, lines, script.engine(1, **changed))
    assert path.read_bytes() == b"".join(lines)
    assert script.done == []
    outcome = await resume(path, lines, script.engine(1, text_rule=first_rule, policy=SHORT_ROUNDS))
    assert (outcome.status, divergences(path)) == ("completed", [])


async def first_gate(completion: Completion, run: Progress) -> Accept:
    return Accept()


async def second_gate(completion: Completion, run: Progress) -> Accept:
    return Accept()


async def test_a_strict_engine_refuses_another_gate_about_a_call_before_anything_is_written(tmp_path: Path) -> None:
    path, script = tmp_path / "r.jsonl", Script(END)
    await script.engine(0, gates=[first_gate]).run("go", record=path)
    lines = up_to(path.read_bytes().splitlines(keepends=True), "VERDICT_GIVEN")
    asked = r"is VERDICT_GIVEN gate \S+:first_gate end, and now it would be \S+ gate \S+:second_gate\. Nothing"
    with pytest.raises(ResumeRefused, match=asked):
        await resume(path, lines, script.engine(1, gates=[second_gate], strict_resume=True))
    assert path.read_bytes() == b"".join(lines)
    outcome = await resume(path, lines, script.engine(1, gates=[first_gate], strict_resume=True))
    assert (outcome.status, divergences(path)) == ("completed", [])
    outcome = await resume(path, lines, script.engine(1, gates=[second_gate]))
    assert outcome.status == "completed"
    ((at, _, _),) = divergences(path)
    assert at == json.loads(lines[-1])["seq"]
