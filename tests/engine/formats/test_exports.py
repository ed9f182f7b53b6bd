"""Records as other programs read them, and what they leave out."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Engine, read_record, tool
from endstop.decision import Event
from endstop.formats import export_atif as to_atif
from endstop.formats import export_openai as to_openai
from endstop.formats.exports import EXPORT_LOSSES
from endstop.providers import Scripted
from endstop.providers import call as call_for

from .heard import answer, call, hear, says, user

RECORDS = sorted((Path(__file__).parents[2] / "records").glob("*.jsonl"))
"""Sessions of the engine's own."""

SESSION = [
    {"role": "system", "content": "Be brief."},
    user("go", timestamp="2026-01-01T10:00:00Z"),
    says("Look.", call("c1", "read", '{"path": "a"}'), call("c2", "read", "{broken"), reasoning_content="Hm."),
    answer("c1", "A", timestamp="2026-01-01T10:00:03Z"),
    answer("c2", "no", is_error=True),
    says(None, call("q", "ask_user", '{"question": "Which?"}')),
    answer("q", "Red"),
    says(None, call("d", "finish_task", '{"summary": "Done."}')),
    answer("d", "ok"),
    user("Thanks"),
    says("Welcome.", usage={"prompt_tokens": 50, "completion_tokens": 2, "cost": 0.01}),
]


def events_in(path: Path) -> list[Event]:
    return [event for run in read_record(path).runs for event in run.events]


def plain(whole: dict[str, Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(whole))


# ---- openai


def test_messages_come_back_from_an_export_as_they_went_into_it() -> None:
    heard = hear("openai", {"id": "s", "model": "m", "messages": SESSION})
    whole, left_out = to_openai.export("s", heard.events)
    again = hear("openai", plain(whole))
    assert (again.session.id, again.session.model) == ("s", "m")
    assert [_bare(message) for message in again.messages] == [_bare(message) for message in heard.messages]
    assert left_out == {"decision": 3, "ending": 3, "usage": 4, "time": 1, "status": 1}


def _bare(message: Any) -> Any:
    """A message without what OpenAI's format has no field for."""
    return msgspec.to_builtins(message) | {"status": "ok"}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_of_ours_can_be_exported_and_imported_again(path: Path) -> None:
    events = events_in(path)
    whole, left_out = to_openai.export("s", events)
    assert set(left_out) <= set(EXPORT_LOSSES)
    again = hear("openai", plain(whole))
    assert plain(to_openai.export("s", again.events)[0])["messages"] == plain(whole)["messages"]


# ---- ATIF, by the rules of RFC 0001 v1.7


_STEP = {"step_id", "timestamp", "source", "model_name", "reasoning_effort", "message", "reasoning_content",
         "tool_calls", "observation", "metrics", "extra", "llm_call_count", "is_copied_context"}  # fmt: skip
_AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
_ROOT = {"schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
         "continued_trajectory_ref", "extra", "subagent_trajectories"}  # fmt: skip
_METRICS = {"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", "prompt_token_ids",
            "completion_token_ids", "logprobs", "extra"}  # fmt: skip
_FINAL = {
    "total_prompt_tokens",
    "total_completion_tokens",
    "total_cached_tokens",
    "total_cost_usd",
    "total_steps",
    "extra",
}


def check_atif(whole: dict[str, Any]) -> None:
    """Raise AssertionError unless the specification allows this."""
    assert whole.keys() <= _ROOT
    assert whole["schema_version"] == "ATIF-v1.7"
    assert isinstance(whole["session_id"], str)
    agent = whole["agent"]
    assert agent.keys() <= {"name", "version", "model_name", "tool_definitions", "extra"}
    assert isinstance(agent["name"], str)
    assert isinstance(agent["version"], str)
    assert [step["step_id"] for step in whole["steps"]] == list(range(1, len(whole["steps"]) + 1))
    for step in whole["steps"]:
        _check_step(step)
    final = whole["final_metrics"]
    assert final.keys() <= _FINAL
    assert final["total_steps"] == len(whole["steps"])
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        assert final[f"total_{name}"] == sum(step.get("metrics", {}).get(name, 0) for step in whole["steps"])


def _check_step(step: dict[str, Any]) -> None:
    assert step.keys() <= _STEP
    assert step["source"] in ("system", "user", "agent")
    assert isinstance(step["message"], str)
    if "timestamp" in step:
        assert datetime.fromisoformat(step["timestamp"]).tzinfo is not None
    if step["source"] != "agent":
        assert not step.keys() & _AGENT_ONLY
    if step.get("llm_call_count") == 0:
        assert not step.keys() & {"metrics", "reasoning_content"}
    assert step.get("metrics", {}).keys() <= _METRICS
    calls = step.get("tool_calls", [])
    for one in calls:
        assert one.keys() <= {"tool_call_id", "function_name", "arguments", "extra"}
        assert isinstance(one["arguments"], dict)
    ids = [one["tool_call_id"] for one in calls]
    assert len(set(ids)) == len(ids)
    for result in step.get("observation", {"results": []})["results"]:
        assert result.keys() <= {"source_call_id", "content", "subagent_trajectory_ref", "extra"}
        assert result["source_call_id"] in ids
        for part in result["content"] if isinstance(result["content"], list) else []:
            assert part["type"] == "text" or part["source"].keys() == {"media_type", "path"}


def test_a_trajectory_holds_each_message_as_a_step_with_its_results_and_costs() -> None:
    heard = hear("openai", {"id": "s", "model": "m", "messages": SESSION, "reward": 1})
    whole, left_out = to_atif.export("s", heard.events)
    whole = plain(whole)
    check_atif(whole)
    assert [step["source"] for step in whole["steps"]] == [
        "system", "user", "agent", "agent", "agent", "user", "agent",
    ]  # fmt: skip
    assert whole["agent"] | {"tool_definitions": 0} == {
        "name": "openai", "version": "unknown", "model_name": "m", "tool_definitions": 0,
        "extra": {"policy": "imported"},
    }  # fmt: skip
    look, asked, done, _, last = whole["steps"][2:]
    assert look["reasoning_content"] == "Hm."
    assert look["timestamp"] == "2026-01-01T10:00:00.000+00:00"
    assert look["tool_calls"][0] == {"tool_call_id": "c1", "function_name": "read", "arguments": {"path": "a"}}
    assert look["tool_calls"][1]["arguments"] == {}
    assert look["tool_calls"][1]["extra"] == {"arguments_text": "{broken"}
    assert look["observation"]["results"] == [
        {"source_call_id": "c1", "content": "A"},
        {"source_call_id": "c2", "content": "no", "extra": {"status": "error"}},
    ]
    assert asked["observation"]["results"] == [{"source_call_id": "q", "content": "Red"}]
    assert done["extra"]["finish_reason"] == "tool_calls"
    assert last["metrics"]["cost_usd"] == 0.01
    assert whole["final_metrics"]["total_cost_usd"] == 0.01
    assert [run["stop_reason"] for run in whole["extra"]["runs"]] == ["awaiting_input", "completed", "text_final"]
    assert whole["extra"]["runs"][-1]["evaluation"] == {"name": "import:reward", "reward": 1.0}
    assert left_out == {"decision": 3, "arguments": 1}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_of_ours_is_a_trajectory_that_the_specification_allows(path: Path) -> None:
    whole, left_out = to_atif.export("s", events_in(path))
    check_atif(plain(whole))
    assert set(left_out) <= set(EXPORT_LOSSES)


def test_pictures_at_an_address_are_named_and_others_are_left_out() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": url}} for url in ("http://h/p.png", "data:image/png;base64,AA==")
    ]
    heard = hear("openai", [user("go"), says(None, call("c", "shot")), answer("c", parts), says("ok")])
    whole, left_out = to_atif.export("s", heard.events)
    check_atif(plain(whole))
    assert whole["steps"][1]["observation"]["results"][0]["content"][1] == {
        "type": "image", "source": {"media_type": "image/png", "path": "http://h/p.png"},
    }  # fmt: skip
    assert left_out["image"] == 1
    assert to_openai.export("s", heard.events)[1]["image"] == 2


async def test_results_of_calls_that_share_an_id_stand_in_the_step_of_their_own_call(tmp_path: Path) -> None:
    @tool
    async def read(path: str) -> str:
        """Read a file."""
        return f"what {path} holds"

    script = Scripted([call_for("read", id="c1", path="a")], [call_for("read", id="c2", path="b")], "Done.")
    record = tmp_path / "run.jsonl"
    await Engine(script, tools=[read]).run("go", record=record)
    record.write_text(record.read_text().replace('"c2"', '"c1"'))  # as a record of another program may have it
    whole, _ = to_atif.export("s", events_in(record))
    assert [(step["tool_calls"], step["observation"]) for step in plain(whole)["steps"] if "tool_calls" in step] == [
        (
            [{"tool_call_id": "c1", "function_name": "read", "arguments": {"path": name}}],
            {"results": [{"source_call_id": "c1", "content": f"what {name} holds"}]},
        )
        for name in "ab"
    ]
