"""Sessions of Kimi CLI, made by hand: the wire, and the context of older versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions

from .heard import called, hear
from .heard import user as spoken

METADATA = {"type": "metadata", "protocol_version": "1.4", "created_at": 1785612803281}


def line(type: str, **more: Any) -> dict[str, Any]:
    return {"type": type, "time": 1785612803281, **more}


def step(type: str, **more: Any) -> dict[str, Any]:
    return line("context.append_loop_event", event={"type": type, "step": 1, **more})


def said(text: str, kind: str = "user") -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return line("context.append_message", message={"role": "user", "content": content, "origin": {"kind": kind}})


def part(type: str, text: str) -> dict[str, Any]:
    return step("content.part", part={"type": type, ("think" if type == "think" else "text"): text})


COUNTED = {"inputOther": 3, "output": 4, "inputCacheRead": 20, "inputCacheCreation": 7}
END = step("step.end", usage=COUNTED, finishReason="tool_use")


def test_a_step_of_the_wire_is_a_response_with_its_results(tmp_path: Path) -> None:
    lines = [
        METADATA,
        line("config.update", systemPrompt="Be brief."),
        line("turn.prompt", input=[{"type": "text", "text": "Read"}]),
        said("Read"),
        step("step.begin"),
        line("llm.request", model="k", kind="loop"),
        part("think", "Hm."),
        step("tool.call", toolCallId="c1", name="Read", args={"path": "a"}),
        step("tool.call", toolCallId="c2", name="Read", args={"path": "b"}),
        step("tool.result", toolCallId="c2", result={"output": "no", "isError": True}),
        step("tool.result", toolCallId="c1", result={"output": [{"type": "text", "text": "A"}]}),
        END,
        line("usage.record", usage=COUNTED),
        said("A task is done.", "system_trigger"),
        step("step.begin"),
        part("text", "Done."),
        step("step.end", finishReason="end_turn"),
    ]
    file = tmp_path / "wire.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.session.model) == ("kimi-cli", "wire", "k")
    heard = hear("kimi-cli", lines)
    assert detect_format(lines) == "kimi-cli"
    assert heard.session.system == "Be brief."
    assert [event.prompt for event in heard.of(ev.RunStarted)] == ["Read"]
    first = heard.of(ev.ResponseFinished)[0]
    assert first.message.reasoning == (Reasoning("Hm."),)
    assert first.message.calls[0] == called("c1", "Read", '{"path":"a"}')
    assert first.usage == Usage(input_tokens=30, output_tokens=4, cached_tokens=20)
    assert [(one.content, one.status) for one in heard.results] == [("A", "ok"), ("no", "error")]
    assert [(one.text, one.origin) for one in heard.of(ev.MessageAdded)] == [("A task is done.", "nudge")]
    assert heard.stops == ["text_final"]
    assert heard.session.losses["line: usage.record"] == heard.session.losses["line: turn.prompt"] == 1


def test_a_cancelled_step_that_brought_nothing_is_no_response() -> None:
    lines = [METADATA, said("Go"), step("step.begin"), line("turn.cancel"), said("On"), step("step.begin")]
    lines += [
        part("text", "Well"),
        line("turn.cancel"),
        line("context.apply_compaction", summary="The end.", tokensBefore=9),
    ]
    heard = hear("kimi-cli", lines)
    assert len(heard.of(ev.ResponseFinished)) == 1
    assert heard.stops == ["cancelled"]
    assert [(one.before_tokens, one.put_first) for one in heard.of(ev.ContextCompacted)] == [
        (9, (UserMessage("The end."),))
    ]


def test_a_context_has_messages_among_other_lines(tmp_path: Path) -> None:
    thought = {"type": "think", "think": "Hm.", "encrypted": "sig"}
    call = {"type": "function", "id": "c1", "function": {"name": "Read", "arguments": "{}"}}
    lines: list[dict[str, Any]] = [
        {"role": "_system_prompt", "content": "Be brief."},
        {"role": "_checkpoint", "id": 0},
        spoken("Read"),
        {"role": "assistant", "content": [thought], "tool_calls": [call]},
        {"role": "_usage", "token_count": 7},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "<system>ERROR: no</system>"}]},
        {"role": "assistant", "content": "Done."},
    ]
    file = tmp_path / "context.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.place) == ("kimi-cli", "")
    heard = hear("kimi-cli", lines)
    assert heard.session.system == "Be brief."
    assert heard.of(ev.ResponseFinished)[0].message.reasoning == (Reasoning("Hm.", "sig"),)
    assert [one.status for one in heard.results] == ["error"]
    assert heard.session.losses["role: _usage"] == 1


def test_other_lines_are_refused() -> None:
    with pytest.raises(Unreadable, match="not a Kimi CLI session"):
        list(FORMATS["kimi-cli"].sessions([METADATA]))
