"""The line that is logged when a run ends."""

from __future__ import annotations

from typing import Any

from endstop import Engine, Policy
from endstop.decision import Limits
from endstop.providers import Scripted, call
from endstop.providers.errors import Unauthorized
from endstop.service.service import Service
from endstop.store.base import StoreError

from ...captured_logs import capture_logs
from .stage import Stage


async def lines_of(engine: Engine, store: Stage, *prompts: str) -> list[dict[str, Any]]:
    """The lines of the ends of the runs of one session, with these prompts."""
    with capture_logs() as logs:
        async with Service({"builder": engine}, store=store, grace=0) as service:
            session = await service.start(prompts[0], owner="alice")
            await service.outcome(session.run_id or "", wait=30)
            for prompt in prompts[1:]:
                session = await service.start_run(session.id, prompt)
                await service.outcome(session.run_id or "", wait=30)
    return [log for log in logs if log["event"] == "run ended"]


async def test_each_run_leaves_one_line_with_ids_status_steps_time_and_tokens() -> None:
    lines = await lines_of(Engine(Scripted(call("finish_task", summary="Done."), "Hello.")), Stage(), "Go", "Hi")
    assert [(line["status"], line["reason"]) for line in lines] == [
        ("completed", "completed"),
        ("completed", "text_final"),
    ]
    first = lines[0]
    assert first["log_level"] == "info"
    assert (first["owner"], first["agent"], first["steps"], first["cost_usd"]) == ("alice", "builder", 1, "unknown")
    assert first["session_id"] == lines[1]["session_id"]
    assert first["run_id"] != lines[1]["run_id"]
    assert {"seconds", "input_tokens", "output_tokens"} <= first.keys()


async def test_a_failed_run_is_a_warning_with_the_kind_of_its_error() -> None:
    (line,) = await lines_of(Engine(Scripted(Unauthorized("no such key"))), Stage(), "Go")
    assert (line["log_level"], line["status"], line["kind"]) == ("warning", "failed", "auth")
    assert "no such key" in line["detail"]


async def test_a_run_that_ends_at_a_limit_is_no_warning() -> None:
    engine = Engine(Scripted(call("think", thought="a")), policy=Policy(limits=Limits(steps=1), closing=False))
    (line,) = await lines_of(engine, Stage(), "Go")
    assert (line["log_level"], line["status"]) == ("info", "exhausted")
    assert "kind" not in line


async def test_an_end_that_is_stored_at_the_third_attempt_is_one_line() -> None:
    store = Stage()
    store.fail("commit", 2, 3, 4, error=StoreError("no space left"))
    lines = await lines_of(Engine(Scripted("Hello.")), store, "Go")
    assert len(lines) == 1
    assert store.calls["commit"] > 3
