"""OpenAI's messages, as they are and as they should not be."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import AssistantMessage, Image, Reasoning, SystemMessage, ToolResult, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import FORMATS, Unreadable, detect_format

from .heard import answer, call, called, hear, says, user

TOOLS = [
    {"type": "function", "function": {"name": "read", "description": "Read.", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "hand_in", "description": "Done.", "parameters": {"type": "object"}}},
]


def test_a_list_of_messages_is_one_session_and_comes_back_letter_for_letter() -> None:
    arguments = '{"path":  "a.txt"}'
    heard = hear(
        "openai",
        [
            {"role": "system", "content": "Be brief."},
            user("Read a.txt"),
            says(None, call("c1", "read", arguments)),
            answer("c1", "A"),
            says("It says A."),
        ],
    )
    assert heard.messages == [
        SystemMessage("Be brief."),
        UserMessage("Read a.txt"),
        AssistantMessage("", (called("c1", "read", arguments),)),
        ToolResult("c1", "read", "A"),
        AssistantMessage("It says A."),
    ]
    assert heard.stops == ["text_final"]
    assert heard.outcomes[0].answer == "It says A."


@pytest.mark.parametrize(
    "data",
    [
        {"id": "s", "model": "m", "messages": [user("Hi"), says("Hello")]},
        {"request": {"model": "m", "messages": [user("Hi")]}, "id": "s",
         "response": {"choices": [{"message": says("Hello"), "finish_reason": "stop"}]}},
        {"custom_id": "s", "body": {"model": "m", "messages": [user("Hi")]},
         "response": {"status_code": 200, "body": {"choices": [{"message": says("Hello")}]}}},
        {"id": "s", "model": "m", "conversation": [user("Hi")], "choices": [{"message": says("Hello")}]},
    ],
)  # fmt: skip
def test_the_messages_are_found_wherever_a_log_puts_them(data: dict[str, Any]) -> None:
    heard = hear("openai", data)
    assert heard.said == [UserMessage("Hi"), AssistantMessage("Hello")]
    assert (heard.session.id, heard.session.model) == ("s", "m")
    assert detect_format(data) == "openai"


def test_a_list_of_sessions_is_as_many_sessions() -> None:
    data = [{"id": name, "messages": [user("Hi"), says("Hello")]} for name in "ab"] + [[user("Hi"), says("Yo")]]
    assert [foreign.id for foreign in FORMATS["openai"].sessions(data)] == ["a", "b", ""]


def test_what_is_known_beside_the_messages_stands_in_the_record() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}, "cost": 0.5}
    heard = hear(
        "openai",
        {
            "model": "gpt-4o",
            "temperature": 0,
            "tools": TOOLS,
            "messages": [
                user("Hi", timestamp="2026-01-01T10:00:00Z"),
                says("Hello", usage=usage, finish_reason="stop", timestamp="2026-01-01T10:00:02.500Z"),
            ],
        },
    )
    (started,) = heard.of(ev.RunStarted)
    assert (started.model, started.settings, started.engine) == ("gpt-4o", {"temperature": 0}, "import:openai")
    assert [spec.name for spec in started.tools] == ["read", "hand_in"]
    assert started.started_at == "2026-01-01T10:00:00.000+00:00"
    assert started.policy.name == "imported"
    (response,) = heard.of(ev.ResponseFinished)
    assert (response.t, response.raw_finish) == (2500, "stop")
    assert response.usage == Usage(input_tokens=100, output_tokens=7, cached_tokens=60, cost_usd=0.5)
    assert heard.outcomes[0].duration_ms == 2500
    assert not heard.session.losses


def test_what_is_lost_is_counted_by_kind() -> None:
    heard = hear(
        "openai",
        {
            "metadata": {"who": "me"},
            "messages": [
                user([{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]),
                says(
                    [{"type": "text", "text": "I see"}, {"type": "image_url", "image_url": {"url": "http://x/z.png"}}],
                    call(None, "look"),
                ),
                answer("nobody's"),
                answer(None, [{"type": "text", "text": "ok"}, {"type": "input_audio", "input_audio": {}}]),
                answer(None, "again"),
                {"role": "critic", "content": "bad"},
                {"role": "system", "content": "Be polite."},
                "nonsense",
                says("Fine."),
            ],
        },
    )
    assert heard.session.losses == {
        "field: metadata": 1,
        "image": 1,
        "call id": 1,
        "result without a call": 1,
        "second result": 1,
        "content part: input_audio": 1,
        "role: critic": 1,
        "characters": 10,
        "system in the middle": 1,
        "no message": 1,
        "time": 5,
        "usage": 2,
        "finish reason": 2,
    }
    assert heard.said == [
        UserMessage("Look\n[image 1: http://x/y.png]", (Image(url="http://x/y.png"),)),
        AssistantMessage("I see\n[image]", (called("1.0", "look"),)),
        ToolResult("1.0", "look", "ok\n[input_audio]"),
        UserMessage("Be polite."),
        AssistantMessage("Fine."),
    ]


def test_ids_that_are_missing_or_doubled_are_numbered_and_results_find_their_calls() -> None:
    heard = hear(
        "openai",
        [
            user("go"),
            says(None, call("x", "a"), call("x", "b"), call(None, "c"), call("", "d")),
            answer("x", "1"),
            answer("x", "2"),
            answer(None, "4", name="d"),
            answer(None, "3"),
            says(None, call("x", "a"), call("1.1", "b")),
            answer("1.1", "6"),
            answer("x", "5"),
            answer("x", "one too many"),
            says("done"),
        ],
    )
    assert [(result.call_id, result.name, result.content) for result in heard.results] == [
        ("x", "a", "1"), ("1.1", "b", "2"), ("1.2", "c", "3"), ("1.3", "d", "4"), ("2.0", "a", "5"), ("2.1", "b", "6"),
    ]  # fmt: skip
    assert heard.session.losses["doubled call id"] == 3
    assert heard.session.losses["call id"] == 2
    assert heard.session.losses["second result"] == 1


@pytest.mark.parametrize(
    ("arguments", "written"),
    [({"a": 1}, '{"a":1}'), (None, ""), ("", ""), ("{not json", "{not json"), ([1], "[1]"), (3, "3")],
)
def test_arguments_may_be_anything(arguments: Any, written: str) -> None:
    heard = hear("openai", [user("go"), says(None, call("c", "t", arguments)), answer("c"), says("ok")])
    assert heard.said[1].calls[0].arguments == written  # type: ignore[union-attr]


def test_the_old_function_call_is_a_call_and_its_result_goes_by_the_name() -> None:
    heard = hear(
        "openai",
        [
            user("go"),
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
            {"role": "function", "name": "f", "content": "7"},
            says("7"),
        ],
    )
    assert heard.said[1:3] == [
        AssistantMessage("", (called("1.0", "f", '{"a": 1}'),)),
        ToolResult("1.0", "f", "7"),
    ]


def test_reasoning_refusals_and_failed_results_keep_their_meaning() -> None:
    heard = hear(
        "openai",
        [
            user("go"),
            says(None, call("c", "t"), reasoning_content="Hm."),
            answer("c", "no such file", is_error=True),
            says(None, refusal="I cannot do that."),
        ],
    )
    assert heard.said[1].reasoning == (Reasoning("Hm."),)  # type: ignore[union-attr]
    assert heard.results[0].status == "error"
    assert heard.said[-1] == AssistantMessage("I cannot do that.")
    assert heard.stops == ["refusal"]


def test_pictures_of_results_are_kept_as_bytes_or_by_their_address() -> None:
    png = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}}
    far = {"type": "image_url", "image_url": {"url": "http://host/x.png"}}
    heard = hear("openai", [user("go"), says(None, call("c", "t")), answer("c", [png, far]), says("ok")])
    assert heard.results[0].images == (Image(data=b"\0\1\2"), Image(url="http://host/x.png"))
    assert "image" not in heard.session.losses


@pytest.mark.parametrize(("reward", "verdict"), [(1, "passed"), (0.5, "failed"), (float("nan"), "not_run")])
def test_a_reward_is_a_verdict(reward: float, verdict: str) -> None:
    assert hear("openai", {"messages": [user("a"), says("b")], "reward": reward}).outcomes[0].verdict == verdict


@pytest.mark.parametrize(
    "data", [{}, {"messages": []}, {"messages": "text"}, {"messages": [1, 2]}, {"traj": {}}, 7, "x"]
)
def test_what_holds_no_messages_is_refused(data: Any) -> None:
    with pytest.raises(Unreadable, match="no list of messages"):
        list(FORMATS["openai"].sessions(data))


def test_reasoning_that_openai_encrypted_names_it_so_that_no_other_vendor_is_sent_it() -> None:
    heard = hear(
        "openai",
        [
            user("Read a.txt"),
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Look first."}],
                "encrypted_content": "gA",
            },
            {"type": "reasoning", "summary": [], "encrypted_content": "gB"},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "A"},
            says("It says A."),
        ],
    )
    response = heard.messages[1]
    assert isinstance(response, AssistantMessage)
    assert response.reasoning == (
        Reasoning("Look first.", "gA", vendor="openai"),
        Reasoning("", "gB", redacted=True, vendor="openai"),
    )


@pytest.mark.parametrize(
    ("response", "status", "kind"),
    [
        ({"error": {"message": "it broke"}}, None, "server"),
        ({"error": {"message": "You are out of extra usage"}}, None, "server"),
        ({"error": {"message": "API Error: 529 overloaded"}}, 529, "server"),
        ({"error": {"message": "slow down", "code": 429}}, 429, "rate_limit"),
        ({"status_code": 401, "body": {"error": {"message": "no"}}}, 401, "auth"),
        ({"status_code": 503}, 503, "server"),
    ],
)
def test_a_failed_request_has_the_status_that_was_recorded_or_none(
    response: dict[str, Any], status: int | None, kind: str
) -> None:
    heard = hear("openai", {"messages": [user("Hi")], "response": response})
    (failed,) = heard.of(ev.AttemptFailed)
    assert (failed.status, failed.kind) == (status, kind)
