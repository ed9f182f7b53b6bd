"""A hand-written loop around the OpenAI SDK, before a model that never stops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import records
from .broken_follower import METHODS, broken
from .checked_work import GOAL, CheckedWork
from .endless_model import AFTER, EndlessModel, serving
from .loops import joined
from .until_model import SAID, TOLD, CheckedModel

pytest.importorskip("openai", reason="openai is not installed: `make test-adapters` installs it")
from endstop.adapters.openai import Endstop
from openai import AsyncOpenAI, OpenAI

MOST = 15
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in ("work", "finish_task")
]
RUN = {"work": lambda arguments: "ok", "finish_task": lambda arguments: "noted"}


@pytest.fixture
def model() -> Iterator[EndlessModel]:
    with serving() as served:
        yield served


def endstop(folder: Path, **more: Any) -> Endstop:
    return Endstop(policy="agent", completion=("finish_task",), record=folder, **more)


def answer(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": RUN[call["function"]["name"]](json.loads(call["function"]["arguments"])),
        }
        for call in message.get("tool_calls", [])
    ]


def loop(client: Any, name: str, *, stream: bool) -> tuple[str, list[dict[str, Any]]]:
    """A loop whose rule is "no calls: the end". Returns its answer, and its messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(MOST):
        reply = client.chat.completions.create(model=name, messages=messages, tools=TOOLS, stream=stream)
        message = joined(list(reply)) if stream else reply.choices[0].message.model_dump(exclude_none=True)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"], messages
        messages += answer(message)
    return "went on", messages


async def aloop(client: Any, name: str, *, stream: bool) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for _ in range(MOST):
        reply = await client.chat.completions.create(model=name, messages=messages, tools=TOOLS, stream=stream)
        if stream:
            message = joined([chunk async for chunk in reply])
        else:
            message = reply.choices[0].message.model_dump(exclude_none=True)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        messages += answer(message)
    return "went on"


@pytest.fixture
def real(model: EndlessModel) -> Iterator[OpenAI]:
    with OpenAI(base_url=model.url, api_key="x", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion_is_cut_and_ends_the_loop_with_its_summary(
    model: EndlessModel, real: OpenAI, tmp_path: Path, stream: bool
) -> None:
    with endstop(tmp_path).client(real) as client:
        assert loop(client, "finisher", stream=stream)[0] == "port is 8080"
    async with AsyncOpenAI(base_url=model.url, api_key="x", max_retries=0) as other:
        with endstop(tmp_path).client(other) as client:
            assert await aloop(client, "finisher", stream=stream) == "port is 8080"
    assert len(model.requests) == 6
    assert model.chunks_after < AFTER
    assert records.ends(tmp_path) == [("completed", 3)] * 2
    assert await records.replays(tmp_path)


@pytest.mark.parametrize("stream", [False, True])
def test_a_circle_is_nudged_once_and_ends_with_a_marked_text(
    model: EndlessModel, real: OpenAI, tmp_path: Path, stream: bool
) -> None:
    with endstop(tmp_path).client(real) as client:
        text, messages = loop(client, "circle", stream=stream)
    assert text.startswith("[endstop stopped this run: the call ")
    assert len(model.requests) == 6
    assert len(model.nudges()) == len(set(model.nudges())) == 3
    assert [one["content"] for one in messages if one["role"] == "user"] == ["go"]  # the loop's own list is its own
    assert records.nudges(tmp_path) == model.nudges()


def test_without_it_the_loop_goes_on(model: EndlessModel, real: OpenAI) -> None:
    assert loop(real, "circle", stream=True)[0] == "went on"
    assert len(model.requests) == MOST


def test_text_ends_the_loop_and_another_prompt_is_another_run(
    model: EndlessModel, real: OpenAI, tmp_path: Path
) -> None:
    with endstop(tmp_path).client(real) as client:
        text, messages = loop(client, "talker", stream=False)
        assert text == "The port is 8080."
        messages.append({"role": "user", "content": "again"})
        client.chat.completions.create(model="talker", messages=messages)
    assert [run.started.prompt for run in records.runs_in(tmp_path)] == ["go", "again"]
    assert records.ends(tmp_path) == [("text_final", 1)] * 2


def test_a_model_that_is_not_to_stream_is_followed_whole_with_its_usage(
    model: EndlessModel, real: OpenAI, tmp_path: Path
) -> None:
    with endstop(tmp_path, stream=False).client(real) as client:
        assert loop(client, "finisher", stream=False)[0] == "port is 8080"
    assert not any(request.get("stream") for request in model.requests)
    (run,) = records.runs_in(tmp_path)
    assert [(usage.input_tokens, usage.estimated) for usage in records.usages(run)] == [(100, False)] * 3


def test_usage_is_as_reported_where_nothing_was_cut(model: EndlessModel, real: OpenAI, tmp_path: Path) -> None:
    with endstop(tmp_path).client(real) as client:
        reply = client.chat.completions.create(model="talker", messages=[{"role": "user", "content": "go"}])
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 100
    (run,) = records.runs_in(tmp_path)
    assert [(usage.input_tokens, usage.estimated) for usage in records.usages(run)] == [(100, False)]


@pytest.mark.parametrize("method", METHODS)
def test_a_follower_that_fails_lets_the_loop_go_on(
    model: EndlessModel, real: OpenAI, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with broken(method), endstop(tmp_path).client(real) as client:
        assert loop(client, "talker", stream=False)[0] == "The port is 8080."
    assert "broken" in caplog.text
    assert len(model.requests) == 1


def test_a_request_that_fails_is_raised_as_ever_and_the_rest_of_the_client_is_its_own(tmp_path: Path) -> None:
    with OpenAI(base_url="http://127.0.0.1:9/v1", api_key="x", max_retries=0) as nowhere:
        with endstop(tmp_path).client(nowhere) as client, pytest.raises(Exception, match="Connection error"):
            loop(client, "talker", stream=False)
        assert client.base_url == nowhere.base_url
        assert client.chat.with_raw_response is not None
    assert records.ends(tmp_path) == [("provider_error", 1)]


@pytest.mark.parametrize("asked", [True, False], ids=["as a stream", "as asked"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_loop_without_an_event_loop_sees_one_response_for_each_text_that_is_handed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: bool, asked: bool
) -> None:
    checked = CheckedWork(tmp_path)
    monkeypatch.setitem(RUN, "work", lambda arguments: checked.work(1))
    hooks = endstop(tmp_path / "records", until=checked.until(), stream=asked)
    with (
        serving(CheckedModel()) as model,
        OpenAI(base_url=model.url, api_key="x", max_retries=0) as client,
        hooks.client(client) as followed,
    ):
        text, messages = loop(followed, "texter", stream=stream)
    assert (text, checked.lines) == (SAID, GOAL)
    assert [one["role"] for one in messages] == ["user", *["assistant", "tool"] * GOAL, "assistant"]
    assert messages[3]["content"].startswith(f"{SAID}\n\n{TOLD}")
    assert len(model.requests) == 2 * GOAL
    assert records.works(tmp_path / "records") == [("until_met", "checked")]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_text_with_a_format_is_the_last_one_alone(tmp_path: Path, stream: bool) -> None:
    served, checked = CheckedModel(), CheckedWork(tmp_path)
    served.said, served.works = '{"done": true}', 1
    hooks = endstop(tmp_path / "records", until=checked.until("test -s work.txt"))
    asked: Any = {"model": "texter", "messages": [{"role": "user", "content": "go"}], "tools": TOOLS}
    with (
        serving(served) as model,
        OpenAI(base_url=model.url, api_key="x", max_retries=0) as client,
        hooks.client(client) as followed,
    ):
        created = followed.chat.completions.create(**asked, stream=stream, response_format={"type": "json_object"})
        message = joined(list(created)) if stream else created.choices[0].message.model_dump(exclude_none=True)
        assert [call["function"]["name"] for call in message["tool_calls"]] == ["work"]  # its first text is handed back
        assert not message.get("content")
