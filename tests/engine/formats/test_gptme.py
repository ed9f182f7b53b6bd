"""Conversations of gptme 0.35.1, cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import Usage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions
from endstop.formats.known_places import known_places, newest_session

from .heard import hear

WHEN = "2026-11-29T09:22:50.564316"


def line(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": WHEN, **more}


def says(content: str, **usage: int) -> dict[str, Any]:
    counts = {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 50, "reasoning_tokens": 5, **usage}
    metadata = {"model": "openai/gpt-5.5", "served_model": "gpt-5.5", "usage": counts, "cost": 0.5}
    return line("assistant", content, metadata=metadata)


def result(id: str, content: str) -> dict[str, Any]:
    return line("system", content, call_id=id, metadata={"tool": "shell"})


WHOLE = [
    line("system", "You are gptme.", pinned=True, hide=True),
    line("system", "## Current Date", pinned=True, hide=True),
    line("user", "Write one"),
    says('I write.\n@shell(c1): {"command": "echo \\"}\\" > one"}\n@shell(c2): {\n "command": "cat one"\n}'),
    result("c1", "wrote"),
    result("c2", "}"),
    line("system", "Time: noon", hide=True),
    says("\n@complete(c3): {}"),
    result("c3", "Task complete."),
]


def test_a_prompt_is_one_run_with_its_calls_and_results() -> None:
    heard = hear("gptme", WHOLE)
    assert heard.session.system == "You are gptme.\n\n## Current Date"
    assert [(one.prompt, one.model) for one in heard.of(ev.RunStarted)] == [("Write one", "gpt-5.5")]
    assert [(one.call_id, one.name, one.content) for one in heard.results] == [
        ("c1", "shell", "wrote"),
        ("c2", "shell", "}"),
        ("c3", "complete", "Task complete."),
    ]
    first = heard.of(ev.ResponseFinished)[0]
    assert first.usage == Usage(input_tokens=150, output_tokens=20, cached_tokens=50, reasoning_tokens=5, cost_usd=0.5)


def test_a_call_has_the_arguments_and_the_text_is_what_is_left() -> None:
    (session,) = FORMATS["gptme"].sessions(WHOLE)
    said = session.messages[1].message
    assert said.text == "I write."
    commands = [json.loads(call.arguments)["command"] for call in said.calls]
    assert commands == ['echo "}" > one', "cat one"]


@pytest.mark.parametrize(
    "words", ["Write to @me(home): now", "@shell(c1): {not JSON", "```\n @shell(c1): {}\n```", "@shell: {}"]
)
def test_words_that_only_look_like_a_call_stay_words(words: str) -> None:
    (session,) = FORMATS["gptme"].sessions([*WHOLE[:3], says(words)])
    said = session.messages[1].message
    assert (said.text, said.calls) == (words, ())


def test_what_is_only_shown_is_no_message() -> None:
    assert len(hear("gptme", [*WHOLE, line("system", "Saved", ui_only=True)]).said) == len(hear("gptme", WHOLE).said)


def test_only_a_conversation_of_gptme_is_taken_for_one() -> None:
    assert detect_format(WHOLE) == "gptme"
    assert detect_format([line("system", "Be brief."), line("user", "hi"), line("assistant", "ho")]) == "openai"
    with pytest.raises(Unreadable):
        list(FORMATS["gptme"].sessions([line("user", "hi")]))


def test_the_newest_conversation_is_found_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / ".local/share/gptme/logs/2026-11-29-some-fish"
    folder.mkdir(parents=True)
    (folder / "conversation.jsonl").write_text("\n".join(map(json.dumps, WHOLE)))
    logged = {"seq": 1, "ts": WHEN, "type": "message_append", "payload": {"message": WHOLE[2]}}
    (folder / "events.jsonl").write_text(json.dumps(logged))
    newest = newest_session(known_places(tmp_path, {}))
    assert newest.found is not None
    assert newest.found.format == "gptme"
    found = [one for one in find_sessions(folder) if isinstance(one, FoundSession)]
    assert [one.format for one in found] == ["gptme"]
