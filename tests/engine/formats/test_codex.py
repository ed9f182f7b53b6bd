"""Rollouts of Codex, made by hand: the present shape of their lines, and the older one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.decision.events import ParentCall
from endstop.formats import FORMATS, FoundSession, ImportOptions, Unreadable, detect_format, find_sessions
from endstop.formats.content_blocks import OPENAI

from .heard import Heard, called, hear


def line(type: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-01-01T10:00:{second:02}Z", "type": type, "payload": payload}


def item(type: str, **more: Any) -> dict[str, Any]:
    return line("response_item", {"type": type, **more})


def event(type: str, **more: Any) -> dict[str, Any]:
    return line("event_msg", {"type": type, **more})


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def says(role: str, text: str) -> dict[str, Any]:
    return line("response_item", said(role, text))


def asks(id: str, name: str = "shell", arguments: str = "{}") -> dict[str, Any]:
    return item("function_call", call_id=id, name=name, arguments=arguments)


def answers(id: str, output: Any) -> dict[str, Any]:
    return item("function_call_output", call_id=id, output=output)


def counted(input: int, output: int, total: int) -> dict[str, Any]:
    last = {"input_tokens": input, "cached_input_tokens": 2, "output_tokens": output, "reasoning_output_tokens": 1}
    return event("token_count", info={"total_token_usage": {"total_tokens": total}, "last_token_usage": last})


META = line("session_meta", {"id": "abc", "cli_version": "0.40.0", "base_instructions": {"text": "Be brief."}})
CONTEXT = line("turn_context", {"model": "gpt-x", "cwd": "/x"})


def prompts(heard: Heard) -> list[str | None]:
    return [event.prompt for event in heard.of(ev.RunStarted)]


def test_items_become_responses_with_the_token_counts_before_or_after_them() -> None:
    lines = [
        META,
        says("user", "<environment_context>\n<cwd>/x</cwd>\n</environment_context>"),
        says("user", "Fix it"),
        CONTEXT,
        counted(10, 5, 15),  # before its response, as older versions write it
        item("reasoning", summary=[{"type": "summary_text", "text": "Hm."}], encrypted_content="secret"),
        asks("c1", arguments='{"command":["ls"]}'),
        answers("c1", '{"output":"a","metadata":{"exit_code":0}}'),
        asks("c2"),
        item("custom_tool_call", call_id="c3", name="apply_patch", input="*** Begin Patch"),
        counted(20, 6, 41),  # after it, as newer versions do
        counted(20, 6, 41),  # shown again
        answers("c2", "Exit code: 1\nOutput:\nno"),
        item("custom_tool_call_output", call_id="c3", output=[{"type": "input_text", "text": "Done"}]),
        says("assistant", "Fixed."),
        counted(30, 7, 78),
    ]
    heard = hear("codex", lines)
    assert detect_format(lines) == "codex"
    assert (heard.session.id, heard.session.model, heard.session.system) == ("abc", "gpt-x", "Be brief.")
    assert prompts(heard) == ["Fix it"]
    first, second, last = heard.of(ev.ResponseFinished)
    assert first.message.reasoning == (Reasoning("Hm.", "secret", vendor=OPENAI),)
    assert first.message.calls == (called("c1", "shell", '{"command":["ls"]}'),)
    assert [call.arguments for call in second.message.calls] == ["{}", '{"input":"*** Begin Patch"}']
    assert first.usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=2, reasoning_tokens=1)
    assert (second.usage.input_tokens, last.usage.input_tokens) == (20, 30)
    assert [one.status for one in heard.results] == ["ok", "error", "ok"]
    assert heard.stops == ["text_final"]
    assert [(one.text[:20], one.origin) for one in heard.of(ev.MessageAdded)] == [("<environment_context", "nudge")]


def test_token_counts_may_follow_the_results() -> None:
    heard = hear(
        "codex",
        [META, says("user", "Go"), asks("c1"), answers("c1", "A"), counted(10, 5, 15), asks("c2"), answers("c2", "B"),
         counted(20, 6, 41), says("assistant", "Gone."), counted(30, 7, 78)],
    )  # fmt: skip
    assert [event.usage.input_tokens for event in heard.of(ev.ResponseFinished)] == [10, 20, 30]
    assert [one.content for one in heard.results] == ["A", "B"]
    assert not heard.session.losses["usage without a response"]


def test_the_older_shape_has_items_after_a_line_with_the_sessions_id(tmp_path: Path) -> None:
    lines = [
        {"id": "old", "timestamp": "2025-06-01T10:00:00Z", "instructions": "Be brief.", "git": {}},
        {"record_type": "state"},
        said("user", "<user_instructions>\n\nAlways.\n\n</user_instructions>"),
        said("user", "Go"),
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": {"content": "no", "success": False}},
        {"record_type": "state"},
        said("assistant", "Gone."),
    ]
    file = tmp_path / "rollout-1.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.place) == ("codex", "old", "")
    heard = Heard(found.session, "codex", ImportOptions())
    assert prompts(heard) == ["Go"]
    assert [one.status for one in heard.results] == ["error"]
    assert heard.session.losses["line: state"] == 2


def test_what_the_user_typed_is_a_prompt_even_if_it_looks_like_codexs_own_words() -> None:
    tagged = "<b>bold</b>"
    heard = hear(
        "codex", [META, says("user", tagged), event("user_message", message=tagged), says("assistant", "Yes.")]
    )
    assert prompts(heard) == [tagged]


def test_an_aborted_turn_is_cancelled_and_says_nothing() -> None:
    lines = [META, says("user", "Explain"), says("assistant", "Well"), event("turn_aborted", reason="interrupted")]
    heard = hear("codex", [*lines, says("user", "Shorter"), says("assistant", "Yes.")])
    assert heard.stops == ["cancelled", "text_final"]
    assert not heard.of(ev.MessageAdded)
    assert hear("codex", lines).stops == ["cancelled"]


def test_an_error_is_a_failed_request() -> None:
    heard = hear("codex", [META, says("user", "Go"), event("error", message="unexpected status 429: slow down")])
    assert heard.stops == ["provider_error"]


def test_a_compaction_goes_on_with_the_run() -> None:
    compacted = line("compacted", {"message": "It did a lot."})
    done = [META, says("user", "Go"), asks("c1"), answers("c1", "ok")]
    heard = hear("codex", [*done, compacted, says("assistant", "x")])
    assert [(one.dropped, one.put_first) for one in heard.of(ev.ContextCompacted)] == [
        (3, (UserMessage("It did a lot."),))
    ]
    assert heard.stops == ["text_final"]


def test_a_history_in_the_place_of_another_one_is_what_the_model_reads() -> None:
    hidden = {"type": "compaction", "encrypted_content": "x"}
    history = [said("user", "Go"), said("developer", "Be brief."), hidden]
    compacted = line("compacted", {"message": "", "replacement_history": history})
    done = [META, says("user", "Go"), asks("c1"), answers("c1", "ok")]
    heard = hear("codex", [*done, compacted, says("assistant", "x")])
    assert [one.put_first for one in heard.of(ev.ContextCompacted)] == [(UserMessage("Go"),)]
    assert heard.session.losses["item: compacted developer"] == heard.session.losses["item: compacted compaction"] == 1


@pytest.mark.parametrize(
    "meta",
    [
        {"parent_thread_id": "p"},
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}},
    ],
)
def test_a_subagent_names_the_session_that_started_it(meta: dict[str, Any]) -> None:
    spawned = line("session_meta", {"id": "child", "timestamp": "2026-01-01T10:00:00Z", **meta})
    heard = hear("codex", [spawned, says("user", "Go"), says("assistant", "x")])
    assert [one.parent for one in heard.of(ev.RunStarted)] == [ParentCall(session_id="p")]
    assert not hear("codex", [META, says("user", "Go"), says("assistant", "x")]).of(ev.RunStarted)[0].parent


def test_what_is_not_read_is_named() -> None:
    lines = [
        META,
        says("user", "Go"),
        item("web_search_call", status="completed"),
        item("ghost_snapshot", ghost_commit={"id": "1"}),
        line("world_state", {"text": "all of it"}),
        event("exec_command_end", stdout="x"),
        counted(1, 1, 2),
        counted(2, 1, 5),
        says("assistant", "Gone."),
        counted(3, 1, 9),
    ]
    losses = hear("codex", lines).session.losses
    assert losses["provider tool"] == losses["item: ghost_snapshot"] == losses["line: world_state"] == 1
    assert losses["line: event_msg (exec_command_end)"] == 1
    assert losses["item field: ghost_commit"] == 1
    assert losses["usage without a response"] == 2


def test_a_rollout_in_which_nothing_was_said_is_named_with_its_version() -> None:
    with pytest.raises(Unreadable, match=r"of version 0\.40\.0"):
        list(FORMATS["codex"].sessions([META, CONTEXT]))
