"""Trajectories in ATIF, made by hand, and our own exports read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Image, read_record
from endstop.decision import Event, Reasoning, Transcript, Usage, UserMessage
from endstop.decision import events as ev
from endstop.decision.events import ParentCall
from endstop.formats import FORMATS, Unreadable, detect_format
from endstop.formats import export_atif as to_atif

from .heard import Heard, called, hear, user

RECORDS = sorted((Path(__file__).parents[2] / "records").glob("*.jsonl"))


def step(source: str, message: Any = "", **more: Any) -> dict[str, Any]:
    return {"step_id": 1, "source": source, "message": message, **more}


def observed(*results: dict[str, Any]) -> dict[str, Any]:
    return {"results": list(results)}


def trajectory(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    agent = {"name": "harbor-agent", "version": "1", "model_name": "m"}
    return {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": list(steps), **more}


CALLS = [{"tool_call_id": "c1", "function_name": "read", "arguments": {"path": "a"}}]


def origins(heard: Heard) -> list[str]:
    return [one.origin for one in heard.session.messages if isinstance(one.message, UserMessage)]


def test_a_step_of_the_agent_is_a_response_with_its_results_and_tokens() -> None:
    metrics = {"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 3, "cost_usd": 0.5}
    data = trajectory(
        step("system", "Be brief."),
        step("user", "Go", timestamp="2026-01-01T10:00:00Z"),
        step(
            "agent",
            "Look.",
            reasoning_content="Hm.",
            tool_calls=CALLS,
            metrics=metrics,
            observation=observed({"source_call_id": "c1", "content": "A"}),
        ),
        step("agent", "Done.", model_name="other"),
    )
    assert detect_format(data) == "atif"
    heard = hear("atif", data)
    assert (heard.session.id, heard.session.model, heard.session.system) == ("s", "m", "Be brief.")
    first, last = heard.of(ev.ResponseFinished)
    assert first.message.calls == (called("c1", "read", '{"path":"a"}'),)
    assert first.message.reasoning == (Reasoning("Hm."),)
    assert first.usage == Usage(input_tokens=10, output_tokens=4, cached_tokens=3, cost_usd=0.5)
    assert [one.model for one in heard.of(ev.AttemptStarted)] == ["m", "other"]
    assert (heard.results[0].content, last.message.text, heard.stops) == ("A", "Done.", ["text_final"])


def test_what_was_observed_without_a_call_is_the_loops_word() -> None:
    shown = observed({"content": "$ ls"}, {"content": [{"type": "text", "text": "a.txt"}]})
    heard = hear("atif", trajectory(step("user", "Go"), step("agent", "ls", observation=shown), step("agent", "Done.")))
    assert origins(heard) == ["user", "nudge", "nudge"]
    assert len(heard.of(ev.RunStarted)) == 1


def test_copied_steps_and_agents_without_a_model_are_left_out_and_counted() -> None:
    data = trajectory(
        step("user", "Go", is_copied_context=True),
        step("agent", "Old words", is_copied_context=True),
        step("agent", "by rule", llm_call_count=0, tool_calls=CALLS, observation=observed({"content": "xy"})),
        step("agent", "Done.", llm_call_count=2),
        step("robot", "?"),
    )
    heard = hear("atif", data)
    assert [one.message.text for one in heard.of(ev.ResponseFinished)] == ["Done."]
    lost = heard.session.losses
    assert (lost["copied step"], lost["own words"], lost["role: robot"]) == (1, 1, 1)
    assert (lost["characters"], lost["call"], lost["answer"]) == (len("Oldwordsbyrulexy?"), 1, 1)
    assert lost["message field: llm_call_count"] == 1


def test_pictures_are_kept_by_address_and_lost_as_files() -> None:
    parts = [
        {"type": "text", "text": "See"},
        {"type": "image", "source": {"media_type": "image/jpeg", "path": "https://x.example/a.jpg"}},
        {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}},
    ]
    heard = hear("atif", trajectory(step("user", parts), step("agent", "Seen.")))
    assert heard.of(ev.RunStarted)[0].images == (Image(url="https://x.example/a.jpg", media_type="image/jpeg"),)
    assert heard.session.losses["image"] == 1


def test_token_counts_of_the_whole_are_split_and_other_fields_are_counted() -> None:
    total = {"total_prompt_tokens": 90, "total_completion_tokens": 10, "total_cost_usd": 0.5}
    data = trajectory(
        step("user", "Go"),
        step("agent", "A", metrics={"logprobs": [1.0]}, odd=1, extra={"odder": 1}),
        step("system", observation=observed({"subagent_trajectory_ref": [{"trajectory_id": "t"}]})),
        final_metrics=total,
        notes="n",
    )
    heard = hear("atif", data)
    usage = heard.outcomes[0].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (90, 10, 0.5)
    assert {
        "field: agent.name",
        "field: notes",
        "message field: metrics.logprobs",
        "message field: odd",
        "message field: extra.odder",
        "part field: observation.subagent_trajectory_ref",
    } <= set(heard.session.losses)


def test_subagents_are_sessions_of_their_own() -> None:
    inner = trajectory(step("user", "Sub"), step("agent", "Sub done.")) | {"trajectory_id": "t1"}
    found = list(FORMATS["atif"].sessions(trajectory(step("agent", "A"), subagent_trajectories=[inner])))
    assert [one.parent for one in found] == [None, ParentCall(session_id=found[0].id)]
    assert [one.id for one in found] == ["s", "s.t1"]


def test_another_version_is_named_and_not_misread() -> None:
    data = trajectory(step("agent", "A")) | {"schema_version": "ATIF-v2.0"}
    assert detect_format(data) == "atif"
    with pytest.raises(Unreadable, match=r"ATIF-v2\.0"):
        list(FORMATS["atif"].sessions(data))
    newer = hear("atif", trajectory(step("agent", "A")) | {"schema_version": "ATIF-v1.9"})
    assert newer.session.losses["field: schema_version ATIF-v1.9"] == 1


def export(events: list[Event]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(to_atif.export("s", events)[0]))


def comparable(messages: list[Any]) -> list[Any]:
    """Messages without signatures of reasoning, and with arguments as values: ATIF has no text for them."""
    plain = [msgspec.to_builtins(message) for message in messages]
    for message in plain:
        message["reasoning"] = "".join(block["text"] for block in message.get("reasoning", ()))
        for one in message.get("calls", ()):
            one["arguments"] = msgspec.json.decode(one["arguments"] or "{}")
    return plain


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_of_ours_comes_back_from_its_export(path: Path) -> None:
    events = [event for run in read_record(path).runs for event in run.events]
    transcript = Transcript()
    for event in events:
        transcript.feed(event)
    again = hear("atif", export(events))
    last = [event.outcome for event in events if isinstance(event, ev.RunFinished)][-1]
    handled = [one.detail for one in events if isinstance(one, ev.VerdictGiven) and one.said == "answered"]
    told = [message for message in transcript.messages if getattr(message, "text", None) not in handled]
    assert comparable(again.messages) == comparable(told)
    assert again.session.losses["own words"] == len(transcript.messages) - len(told)
    assert (again.outcomes[-1].stop_reason, again.outcomes[-1].verdict) == (last.stop_reason, last.verdict)
    assert sum(one.usage.input_tokens for one in again.outcomes) == sum(
        event.usage.input_tokens for event in events if isinstance(event, ev.ResponseFinished)
    )


def test_pictures_of_a_prompt_come_back_by_address_and_are_counted_as_bytes() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    bytes_ = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    for parts, lost in (([picture], 0), ([bytes_], 1), ([picture, bytes_], 1)):
        data = [user([{"type": "text", "text": "See"}, *parts]), {"role": "assistant", "content": "Seen."}]
        events = hear("openai", data).events
        assert to_atif.export("s", events)[1]["image"] == lost
        again = hear("atif", export(events))
        assert len(again.of(ev.RunStarted)[0].images) == len(parts) - lost


@pytest.mark.parametrize("steps", [[1, {}, {"source": "agent", "message": 3, "tool_calls": [1], "metrics": 4}]])
def test_broken_steps_are_read_as_far_as_they_can_be(steps: list[Any]) -> None:
    heard = hear("atif", trajectory(*steps))
    assert len(heard.of(ev.ResponseFinished)) == 1
    assert heard.session.losses["role: none"] == 2
