"""Sessions that real loops made: what becomes of them, checked against a naive reading of the same files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.decision import AssistantMessage, ToolResult, Transcript
from endstop.decision import events as ev
from endstop.formats import detect_format, find_sessions
from endstop.formats import export_atif as to_atif
from endstop.formats import export_openai as to_openai
from endstop.formats.importer import ImportedRecord, Importer, RecordFolder
from endstop.replay import replay

from ...shared_data import ABSENT, SESSIONS, events_of_sse, recorded, said_by_chat, sessions
from .heard import hear
from .test_exports import check_atif, plain

TAU = sessions("tau-bench", "*.jsonl")
CLINE = sessions("cline")
SWE = sessions("swe-agent", "*.traj")


def results_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("path", recorded(TAU))
def test_every_session_of_tau_bench_comes_through_whole(path: Path) -> None:
    for data in results_of(path):
        assert detect_format(data) == "tau-bench"
        heard = hear("tau-bench", data)
        stopped = "###STOP###" in (data["traj"][-1]["content"] or "")
        messages = data["traj"][:-1] if stopped else data["traj"]
        assert len(heard.messages) == len(messages)
        for message, raw in zip(heard.messages, messages, strict=True):
            assert getattr(message, "content", getattr(message, "text", None)) == (raw["content"] or "")
            if isinstance(message, AssistantMessage):
                told = [(call.name, call.arguments) for call in message.calls]
                calls = [call["function"] for call in raw.get("tool_calls") or []]
                assert told == [(call["name"], call["arguments"]) for call in calls]
        roles = Counter(raw["role"] for raw in messages)
        assert len(heard.outcomes) == roles["user"]
        assert sum(outcome.steps for outcome in heard.outcomes) == roles["assistant"]
        assert heard.outcomes[-1].verdict == ("passed" if data["reward"] == 1 else "failed")
        assert (heard.stops[-1] == "custom:user_stop") is stopped
        transferred = any(message.name == "transfer_to_human_agents" for message in heard.results)
        assert (heard.stops[-1] == "completed") is transferred
        check_atif(plain(to_atif.export("s", heard.events)[0]))


@pytest.mark.parametrize("path", recorded(CLINE))
def test_every_reply_of_a_recording_is_a_step(path: Path) -> None:
    recording = json.loads(path.read_text())
    assert detect_format(recording) == "cline"
    heard = hear("cline", recording)
    replies = [entry for entry in recording if entry["path"].endswith("/chat/completions")]
    responses = heard.of(ev.ResponseFinished)
    assert len(responses) == len(replies)
    for response, entry in zip(responses, replies, strict=True):
        said = said_by_chat(events_of_sse([entry["response"].encode()]))
        assert response.message.text == said.text
        told = [(call.id, call.name, call.arguments) for call in response.message.calls]
        assert told == said.calls
        assert (response.usage.input_tokens, response.usage.output_tokens) == (said.input_tokens, said.output_tokens)
        assert response.usage.cost_usd
        assert not response.usage.estimated
    completions = sum(call.name == "attempt_completion" for r in responses for call in r.message.calls)
    assert heard.stops.count("completed") == completions
    assert heard.of(ev.RunStarted)[0].started_at.startswith("2026-")


@pytest.mark.parametrize("path", recorded(SWE))
def test_every_entry_of_a_trajectory_is_heard_and_it_ends_on_submit(path: Path) -> None:
    data = json.loads(path.read_text())
    assert detect_format(data) == "swe-agent"
    heard = hear("swe-agent", data)
    acted = [entry for entry in data["history"] if entry["role"] == "assistant"]
    said = [message for message in heard.messages if isinstance(message, AssistantMessage)]
    assert [message.text for message in said] == [entry["thought"] for entry in acted]
    assert all(len(message.calls) == 1 for message in said)
    assert heard.stops == ["completed"]
    assert said[-1].calls[0].name == "submit"
    assert heard.outcomes[0].answer
    assert len(heard.results) == len(acted)
    assert "result" not in heard.session.losses


@pytest.mark.parametrize("path", recorded([*TAU, *CLINE, *SWE]))
async def test_a_record_of_a_real_session_is_read_exported_and_replayed(path: Path, tmp_path: Path) -> None:
    results = list(Importer(RecordFolder(tmp_path)).import_all(find_sessions(path)))
    assert all(isinstance(result, ImportedRecord) for result in results)
    for result in results[:10]:
        assert isinstance(result, ImportedRecord)
        record = read_record(result.record)
        assert record.header.session_id == result.session_id
        assert not record.damaged
        events = [event for run in record.runs for event in run.events]
        whole, _ = to_openai.export("s", events)
        again = hear("openai", plain(whole))
        assert [_bare(message) for message in again.messages] == [_bare(message) for message in _messages(events)]
        report = await replay(result.record)
        assert len(report.runs) == result.runs


def _messages(events: list[Any]) -> list[Any]:
    transcript = Transcript()
    for event in events:
        transcript.feed(event)
    return transcript.messages


def _bare(message: Any) -> Any:
    if isinstance(message, ToolResult):
        return (message.call_id, message.name, message.content)
    return message


@ABSENT
def test_all_of_them_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    results = [
        result
        for result in Importer(RecordFolder(tmp_path)).import_all(find_sessions(SESSIONS))
        if isinstance(result, ImportedRecord)
    ]
    assert Counter(result.format for result in results) == {
        "tau-bench": sum(len(results_of(path)) for path in TAU), "cline": len(CLINE), "swe-agent": len(SWE),
    }  # fmt: skip
