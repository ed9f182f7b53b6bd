"""A4: a provider's failure is a failure in whatever format it is imported, and never a completion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop.decision import events as ev
from endstop.formats import FORMATS, detect_format
from endstop.replay import replay

from ..console import endstop
from ..engine.formats.heard import answer, call, hear, says, user
from ..shared_data import SHARED

CC_ERROR = SHARED / "data" / "foreign_made" / "cc_apierror.jsonl"
OVERLOADED = 'API Error: 529 {"type":"error","error":{"type":"overloaded_error"}}'


def line(role: str, content: Any, *, model: str = "claude", **more: Any) -> dict[str, Any]:
    """A line of Claude Code's."""
    message: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        message |= {"model": model, "stop_reason": "stop_sequence" if model == "<synthetic>" else "end_turn"}
    return {"type": role, "sessionId": "s", "message": message, **more}


def api_error(text: str = OVERLOADED, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return line("assistant", content, model="<synthetic>", isApiErrorMessage=True, **more)


HELLO, DONE = line("user", "fix the bug"), line("assistant", [{"type": "text", "text": "Fixed."}])


def test_A4_an_api_error_in_a_transcript_of_claude_code_is_a_failed_request() -> None:
    heard = hear("claude-code", [HELLO, api_error()])
    assert [(outcome.status, outcome.stop_reason) for outcome in heard.outcomes] == [("failed", "provider_error")]
    (failed,) = heard.of(ev.AttemptFailed)
    assert (failed.kind, failed.status, failed.message) == ("server", 529, OVERLOADED)
    assert heard.outcomes[0].answer == ""


def test_A4_a_run_that_failed_so_is_followed_by_one_that_did_not() -> None:
    heard = hear("claude-code", [HELLO, api_error(), line("user", "go on"), DONE])
    assert heard.stops == ["provider_error", "text_final"]
    assert [outcome.steps for outcome in heard.outcomes] == [1, 1]


def test_A4_a_request_that_was_made_again_is_one_step_with_the_failure_in_it() -> None:
    heard = hear("claude-code", [HELLO, api_error(), api_error("API Error: Request timed out."), DONE])
    assert heard.stops == ["text_final"]
    assert [event.attempt for event in heard.of(ev.AttemptFailed)] == ["1.1", "1.2"]
    assert [event.attempt for event in heard.of(ev.ResponseFinished)] == ["1.3"]
    assert heard.outcomes[0].steps == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("API Error: 401 invalid x-api-key", "auth"),
        ("API Error: 429 rate limited", "rate_limit"),
        ("API Error (Connection error.)", "server"),
        ("Claude AI usage limit reached|1750000000", "quota"),
    ],
)
def test_A4_the_kind_of_a_failure_is_read_from_its_status_or_its_words(text: str, kind: str) -> None:
    (failed,) = hear("claude-code", [HELLO, api_error(text)]).of(ev.AttemptFailed)
    assert (failed.kind, failed.message) == (kind, text)


def test_A4_the_older_lines_without_a_mark_are_known_by_their_words() -> None:
    content = [{"type": "text", "text": "API Error: 500 internal"}]
    assert hear("claude-code", [HELLO, line("assistant", content, model="<synthetic>")]).stops == ["provider_error"]


# ---- the other formats

FAILED: list[tuple[str, Any]] = [
    ("openai", [user("go"), says("Sorry", error={"message": "overloaded", "code": 529})]),
    ("openai", [user("go"), says("API Error: 500", isApiErrorMessage=True)]),
    ("openai", [user("go"), says("Half", is_error=True)]),
    ("openai", [user("go"), says("Half", status="failed")]),
    ("openai", [user("go"), says("Half"), {"role": "error", "content": "overloaded"}]),
    ("openai", [user("go"), says("Half", finish_reason="error")]),
    ("openai", [user("go"), says("Half", finish_reason="network_error")]),
    ("openai", {"messages": [user("go"), says("Half")], "response": {"error": {"message": "overloaded"}}}),
    ("openai", {"request": {"messages": [user("go"), says("a")]}, "response": {"status_code": 500, "body": {}}}),
    (
        "openai",
        {
            "custom_id": "1",
            "body": {"messages": [user("go"), says("a")]},
            "response": {"status_code": 429, "body": {"error": {"message": "slow down"}}},
        },
    ),
    ("openai", {"messages": [user("go"), says("Half")], "error": "RateLimitError: slow down"}),
    ("openai", {"messages": [user("go"), says("Half")], "info": {"exit_status": "RetryError"}}),
    ("openai", {"messages": [user("go"), says("Half")], "info": {"exit_status": "LimitsExceeded"}}),
    ("openai", {"messages": [user("go"), says("Half")], "status": "failed"}),
    (
        "anthropic",
        {
            "request": {"system": "s", "messages": [user("go"), {"role": "assistant", "content": "a"}]},
            "response": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        },
    ),
    ("anthropic", [user("go"), {"role": "assistant", "content": [{"type": "text", "text": "a"}], "error": "x"}]),
    ("anthropic", {"system": "s", "messages": [user("go"), says("Half", stop_reason="weird")]}),
    ("anthropic", {"system": "s", "messages": [user("go"), says("Half", stop_reason="pause_turn")]}),
    ("cline", [{"path": "/v1/chat/completions", "status": 529, "response": {"error": {"message": "overloaded"}}}] * 1),
    (
        "tau-bench",
        {"task_id": 1, "trial": 0, "reward": 0.0, "info": {"error": "APIError: 500"}, "traj": [user("a"), says("b")]},
    ),
    *(
        (
            "swe-agent",
            {
                "history": [
                    {"role": "user", "content": "go", "agent": "primary"},
                    {"role": "assistant", "content": "I am done.", "agent": "primary", "action": ""},
                ],
                "trajectory": [],
                "info": {"exit_status": status},
            },
        )
        for status in (
            "exit_cost", "exit_error", "exit_context", "exit_api", "exit_format", "exit_environment_error",
            "exit_forfeit", "exit_total_execution_time", "exit_command_timeout", "submitted (exit_error)",
            "submitted (exit_api)", "early_exit", "some_new_error",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("format", "data"), FAILED)
def test_A4_no_failure_of_any_format_is_called_completed(format: str, data: Any) -> None:
    if format == "cline":
        ok = '{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}'
        data = [{"path": "/v1/chat/completions", "status": 200, "response": ok}, *data]
    found = detect_format(data)
    assert found in FORMATS
    for name in {format, found}:
        last = hear(name, data).outcomes[-1]
        assert last.status in ("failed", "exhausted", "cancelled"), last
        assert last.stop_reason not in ("text_final", "completed")


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("stop", "text_final"),
        ("end_turn", "text_final"),
        ("STOP", "text_final"),
        ("insufficient_system_resource", "provider_error"),
        ("abort", "provider_error"),
        ("MALFORMED_FUNCTION_CALL", "provider_error"),
        ("sensitive", "refusal"),
        ("model_context_window_exceeded", "no_answer"),
        ("pause_turn", "custom:unfinished"),
        ("weird", "custom:unfinished"),
    ],
)
def test_A4_importers_read_finish_words_through_the_one_table(word: str, stop: str) -> None:
    for field in ("finish_reason", "stop_reason"):
        assert hear("openai", [user("go"), says("Half", **{field: word})]).stops == [stop]
    assert hear("anthropic", {"system": "s", "messages": [user("go"), says("Half", stop_reason=word)]}).stops == [stop]


def test_A4_words_of_swe_agent_in_the_models_name_are_no_answer_even_without_a_status() -> None:
    history = [
        {"role": "user", "content": "go", "agent": "primary"},
        {"role": "assistant", "content": "Look.", "action": "ls", "thought": "Look.", "agent": "primary"},
        {"role": "user", "content": "a.py", "agent": "primary"},
        {"role": "assistant", "content": "Exit due to cost limit", "action": "", "agent": "primary"},
    ]
    heard = hear("swe-agent", {"history": history, "trajectory": [], "info": {"exit_status": None}})
    assert [(outcome.status, outcome.stop_reason) for outcome in heard.outcomes] == [("exhausted", "custom:exit")]
    assert heard.session.losses["own words"] == 1


def test_A4_whole_calls_count_whatever_the_word() -> None:
    heard = hear("openai", [user("go"), says(None, call("a", "look"), finish_reason="weird"), answer("a"), says("ok")])
    assert heard.stops == ["text_final"]


def test_A4_a_word_can_be_taught_to_an_import() -> None:
    heard = hear("openai", [user("go"), says("Done.", finish_reason="weird")], finish_words={"weird": "stop"})
    assert heard.stops == ["text_final"]


@pytest.mark.skipif(not CC_ERROR.is_file(), reason="the recorded material is not here")
async def test_A4_the_file_that_was_called_completed_is_imported_as_failed(tmp_path: Path) -> None:
    done = await endstop("import", "auto", str(CC_ERROR), "-o", str(tmp_path))
    assert done.code == 0
    told = await endstop("audit", str(tmp_path / "s-edge.jsonl"))
    assert ": error of the provider" in told.out
    assert "completed" not in told.out
    assert (await replay(str(tmp_path / "s-edge.jsonl"))).same


async def test_A4_the_command_line_teaches_an_import_a_word(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('[{"role": "user", "content": "go"}, {"role": "assistant", "content": "a", "finish_reason": "w"}]')
    for words, says_so in ((), "custom:unfinished"), (("--finish-word", "w=stop"), "text_final"):
        folder = str(tmp_path / says_so[:4])
        done = await endstop("import", "auto", str(path), "-o", folder, *words)
        assert done.code == 0
        assert says_so in (tmp_path / says_so[:4] / "s.jsonl").read_text(encoding="utf-8").splitlines()[-1]
