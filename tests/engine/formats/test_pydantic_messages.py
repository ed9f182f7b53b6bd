"""Messages of Pydantic AI, made by hand in the shapes that its version 2.68 writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Image
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import FoundSession, detect_format, find_sessions

from .heard import called, hear

T = "2026-01-01T10:00:00Z"


def part(kind: str, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"part_kind": kind, "content": content, **more}


def asks(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "request", "parts": list(parts), "timestamp": T, "state": "complete", **more}


def says(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "response", "parts": list(parts), "model_name": "m", "timestamp": T, "state": "complete", **more}


def calls(id: str, args: Any, name: str = "look") -> dict[str, Any]:
    return {"part_kind": "tool-call", "tool_name": name, "args": args, "tool_call_id": id}


def returns(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return part("tool-return", content, tool_name="look", tool_call_id=id, timestamp=T, **more)


def test_a_response_is_a_step_with_its_parts_and_the_results_of_the_next_request() -> None:
    usage = {"input_tokens": 10, "output_tokens": 4, "cache_read_tokens": 3, "output_reasoning_tokens": 2}
    data = [
        asks(part("system-prompt", "Be brief."), part("user-prompt", "Go"), instructions="Be kind."),
        says(
            part("thinking", "Hm.", signature="s"),
            part("text", "Look."),
            calls("a", {"at": 1}),
            calls("b", '{"at": 2}'),
            calls("c", None),
            usage=usage,
            finish_reason="tool_call",
        ),
        asks(
            returns("a", {"sky": "blue"}, outcome="success"),
            returns("b", "no", outcome="retried"),
            part("retry-prompt", [{"type": "missing"}], tool_name="look", tool_call_id="c"),
            instructions="Be kind.",
        ),
        says(part("text", "Blue."), usage={"request_tokens": 20, "response_tokens": 2}),
    ]
    assert detect_format(data) == "pydantic-ai"
    heard = hear("pydantic-ai", data)
    assert (heard.session.model, heard.session.system) == ("m", "Be kind.\n\nBe brief.")
    first, last = heard.of(ev.ResponseFinished)
    assert (first.message.text, first.message.reasoning) == ("Look.", (Reasoning("Hm.", "s"),))
    assert first.message.calls[:2] == (called("a", "look", '{"at":1}'), called("b", "look", '{"at": 2}'))
    assert first.usage == Usage(input_tokens=10, output_tokens=4, cached_tokens=3, reasoning_tokens=2)
    assert (first.raw_finish, last.usage.input_tokens) == ("tool_call", 20)
    assert [(one.content, one.status) for one in heard.results] == [
        ('{"sky":"blue"}', "ok"),
        ("no", "error"),
        ('[{"type":"missing"}]', "error"),
    ]
    assert heard.stops == ["text_final"]
    assert not any(kind.startswith(("message field", "part field")) for kind in heard.session.losses)


def test_a_retry_without_a_call_is_the_librarys_word_and_the_output_tool_completes() -> None:
    data = [
        asks(part("user-prompt", "Go")),
        says(part("text", "Hm.")),
        asks(part("retry-prompt", "Call a tool.")),
        says(calls("a", {"text": "Done."}, "final_result")),
        asks(returns("a", "Final result processed.")),
    ]
    heard = hear("pydantic-ai", data)
    assert [one.origin for one in heard.session.messages if isinstance(one.message, UserMessage)] == ["user", "nudge"]
    assert heard.stops == ["completed"]


def test_pictures_are_kept_and_what_is_not_read_is_counted() -> None:
    prompt = [
        "See",
        {"kind": "image-url", "url": "https://x.example/a.png"},
        {"kind": "binary", "data": "QUJD__4=", "media_type": "image/png"},
        {"kind": "text-content", "content": "and say"},
        {"kind": "audio-url", "url": "https://x.example/a.wav"},
    ]
    server = [{"part_kind": "builtin-tool-call"}, {"part_kind": "builtin-tool-return"}]
    data = [asks(part("user-prompt", prompt)), says(*server, part("compaction", "short"), part("text", "Seen.", odd=1))]
    heard = hear("pydantic-ai", [*data, {"kind": "note"}, says(part("text", "On."), state="interrupted")])
    assert [image.url or image.data for image in heard.of(ev.RunStarted)[0].images] == [
        "https://x.example/a.png",
        b"ABC\xff\xfe",
    ]
    assert isinstance(heard.of(ev.RunStarted)[0].images[0], Image)
    lost = heard.session.losses
    assert lost["provider tool"] == 2
    assert {
        "content part: audio-url",
        "content part: compaction",
        "part field: text.odd",
        "role: note",
        "message field: response.state",
    } <= set(lost)


@pytest.mark.parametrize("name", ["messages", "all_messages", "message_history"])
def test_lists_in_objects_and_lines_are_read_too(tmp_path: Path, name: str) -> None:
    data = [asks(part("user-prompt", "Go")), says(part("text", "Done."))]
    heard = hear("pydantic-ai", {name: data, "conversation_id": "c1", "odd": 1})
    assert (heard.session.id, heard.session.losses["field: odd"], heard.stops) == ("c1", 1, ["text_final"])
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, data)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, len(found.session.messages)) == ("pydantic-ai", 2)
