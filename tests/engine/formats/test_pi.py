"""Sessions of pi, made by hand: lines in a row, and lines in a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Image, Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions

from .heard import Heard, called, hear

HEADER = {"type": "session", "version": 3, "id": "abc", "timestamp": "2026-01-01T10:00:00Z", "cwd": "/x"}
COUNTED = {"input": 3, "output": 4, "cacheRead": 20, "cacheWrite": 7, "reasoning": 1, "cost": {"total": 0.5}}


def line(type: str, **more: Any) -> dict[str, Any]:
    return {"type": type, "timestamp": "2026-01-01T10:00:01Z", **more}


def message(role: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    return line("message", message={"role": role, "content": list(blocks), **more})


def user(text: str) -> dict[str, Any]:
    return message("user", {"type": "text", "text": text})


def says(text: str, stop: str = "stop", *blocks: Any, **more: Any) -> dict[str, Any]:
    texts = [{"type": "text", "text": text}] if text else []
    return message("assistant", *texts, *blocks, model="m", usage=COUNTED, stopReason=stop, **more)


def asks(id: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": "read", "arguments": {"path": id}}


def answers(id: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    return message("toolResult", *blocks, toolCallId=id, toolName="read", **more)


def tree(*lines: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines with ids, each after the one before it unless it says `after`."""
    return [{"id": f"n{number}", "parentId": f"n{number - 1}" if number else None, **one}
            for number, one in enumerate(lines)]  # fmt: skip


def prompts(heard: Heard) -> list[str | None]:
    return [event.prompt for event in heard.of(ev.RunStarted)]


def test_lines_become_prompts_responses_and_results(tmp_path: Path) -> None:
    picture = {"type": "image", "data": "AAEC", "mimeType": "image/png"}
    lines = [
        HEADER,
        user("Read"),
        line("model_change", modelId="m"),
        says(
            "", "toolUse", {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "sig"}, asks("c1"), asks("c2")
        ),
        answers("c1", {"type": "text", "text": "A"}, picture, isError=False),
        answers("c2", {"type": "text", "text": "no"}, isError=True),
        says("Done."),
    ]
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.place) == ("pi", "abc", "")
    heard = hear("pi", lines)
    assert detect_format(lines) == "pi"
    assert prompts(heard) == ["Read"]
    first = heard.of(ev.ResponseFinished)[0]
    assert first.message.reasoning == (Reasoning("Hm.", "sig"),)
    assert first.message.calls[0] == called("c1", "read", '{"path":"c1"}')
    assert first.usage == Usage(input_tokens=30, output_tokens=4, cached_tokens=20, reasoning_tokens=1, cost_usd=0.5)
    assert first.finish == "tool_calls"
    assert [(one.content, one.status) for one in heard.results] == [("A\n[image]", "ok"), ("no", "error")]
    assert heard.results[0].images == (Image(data=b"\0\1\2", media_type="image/png"),)
    assert heard.session.losses["line: model_change"] == 1


def test_what_is_not_on_the_way_to_the_last_line_was_left() -> None:
    lines = [HEADER, *tree(user("Go"), says("Left."), {**says("Kept."), "parentId": "n0"})]
    heard = hear("pi", lines)
    assert [getattr(one, "text", "") for one in heard.said] == ["Go", "Kept."]
    assert heard.session.losses["rewound"] == 1
    assert heard.session.losses["characters"] == len("Left.")


def test_an_aborted_response_is_cancelled_and_a_failed_one_is_a_failure() -> None:
    lines = [HEADER, user("Go"), says("Well", "aborted"), user("On")]
    failed = says("Half", "error", asks("c1"), errorMessage="429 slow down")
    heard = hear("pi", [*lines, failed])
    assert heard.stops == ["cancelled", "provider_error"]
    assert heard.session.losses["failed response"] == heard.session.losses["call"] == 1


def test_commands_and_summaries_are_words_of_the_loop() -> None:
    command = {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0}
    heard = hear(
        "pi",
        [
            HEADER,
            user("Go"),
            says("", "toolUse", asks("c1")),
            answers("c1", {"type": "text", "text": "A"}),
            line("compaction", summary="It did a lot.", tokensBefore=9),
            says("Gone."),
            line("message", message=command),
            line("message", message={**command, "excludeFromContext": True}),
            user("On"),
            line("custom", customType="x", data={"text": "y"}),
            says("Yes."),
            line("compaction", summary="The end."),
        ],
    )
    assert [(one.text, one.origin) for one in heard.of(ev.MessageAdded)] == [("ls\na", "nudge")]
    first, _ = heard.of(ev.ContextCompacted)
    assert (first.before_tokens, first.dropped, first.put_first) == (9, 3, (UserMessage("It did a lot."),))
    assert [one.text for one in heard.said if isinstance(one, UserMessage)] == ["The end."]
    losses = heard.session.losses
    assert losses["local command"] == losses["line: custom"] == 1


def test_other_lines_are_refused() -> None:
    with pytest.raises(Unreadable, match="not a pi session"):
        list(FORMATS["pi"].sessions([user("Go")]))
