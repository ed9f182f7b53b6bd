"""The model and the hooks in runs of the OpenAI Agents SDK, before a model that never stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from . import records, tools
from .broken_follower import METHODS, broken
from .checked_work import GOAL, CheckedWork
from .endless_model import AFTER, EndlessModel, serving, serving_clients
from .until_model import TOLD, CheckedModel

pytest.importorskip("agents", reason="openai-agents is not installed: `make test-adapters` installs it")
from agents import (
    Agent,
    MaxTurnsExceeded,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from endstop.adapters.openai_agents import Endstop
from openai import AsyncOpenAI

set_tracing_disabled(True)
MOST = 15
"""Turns after which the SDK gives up."""
work, finish_task = function_tool(tools.work), function_tool(tools.finish_task)


@pytest.fixture
async def model() -> AsyncIterator[EndlessModel]:
    async with serving_clients() as served:
        yield served


def real(model: EndlessModel, name: str, kind: Any = OpenAIChatCompletionsModel) -> Any:
    client = AsyncOpenAI(base_url=model.url, api_key="x", max_retries=0)
    model.to_close.append(client.close)
    return kind(name, client)


def endstop(folder: Path, **more: Any) -> Endstop:
    return Endstop(policy="agent", completion=("finish_task",), record=folder, **more)


async def run(model: EndlessModel, name: str, hooks: Endstop, *, streamed: bool = False, **more: Any) -> Any:
    kind = more.pop("kind", OpenAIChatCompletionsModel)
    tools = more.pop("tools", [work, finish_task])
    agent = Agent(name="mine", model=hooks.model(real(model, name, kind)), tools=tools, **more)
    if not streamed:
        return await Runner.run(agent, "go", hooks=hooks, max_turns=MOST)
    result = Runner.run_streamed(agent, "go", hooks=hooks, max_turns=MOST)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_completion_is_cut_and_ends_the_run_with_its_summary(
    model: EndlessModel, tmp_path: Path, streamed: bool, kind: Any
) -> None:
    result = await run(model, "finisher", endstop(tmp_path), streamed=streamed, kind=kind)
    assert result.final_output == "port is 8080"
    assert len(model.requests) == 3
    assert model.chunks_after < AFTER / 2
    assert records.ends(tmp_path) == [("completed", 3)]
    assert await records.replays(tmp_path)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_circle_is_nudged_once_and_ends_with_a_marked_text(
    model: EndlessModel, tmp_path: Path, streamed: bool
) -> None:
    result = await run(model, "circle", endstop(tmp_path), streamed=streamed)
    assert result.final_output.startswith("[endstop stopped this run: the call ")
    assert len(model.requests) == 6
    assert len(model.nudges()) == len(set(model.nudges())) == 3
    kept = [model.nudges(number) for number in range(6)]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(kept))
    assert records.nudges(tmp_path) == model.nudges()


async def test_without_it_the_run_goes_on(model: EndlessModel) -> None:
    agent = Agent(name="mine", model=real(model, "circle"), tools=[work, finish_task])
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, "go", max_turns=MOST)
    assert len(model.requests) == MOST


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_announcement_in_place_of_a_call_is_nudged_and_the_run_goes_on(
    model: EndlessModel, tmp_path: Path, streamed: bool
) -> None:
    result = await run(model, "forgetful", endstop(tmp_path), streamed=streamed)
    assert result.final_output == "port is 8080"
    assert records.ends(tmp_path) == [("completed", 4)]
    roles = [one["role"] for one in model.items(model.requests[-1])]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]


async def test_text_ends_the_run_as_ever(model: EndlessModel, tmp_path: Path) -> None:
    assert (await run(model, "talker", endstop(tmp_path))).final_output == "The port is 8080."
    assert records.ends(tmp_path) == [("text_final", 1)]


async def test_many_runs_at_once_are_kept_apart(model: EndlessModel, tmp_path: Path) -> None:
    hooks = endstop(tmp_path)
    await asyncio.gather(*(run(model, name, hooks) for name in ("finisher", "circle", "talker") for _ in range(4)))
    assert records.ends(tmp_path) == [("completed", 3)] * 4 + [("stuck", 6)] * 4 + [("text_final", 1)] * 4


async def test_a_model_that_is_not_to_stream_is_followed_whole_with_its_usage(
    model: EndlessModel, tmp_path: Path
) -> None:
    result = await run(model, "finisher", endstop(tmp_path, stream=False))
    assert result.final_output == "port is 8080"
    assert not any(request.get("stream") for request in model.requests)
    (one,) = records.runs_in(tmp_path)
    assert [(usage.input_tokens, usage.estimated) for usage in records.usages(one)] == [(100, False)] * 3
    assert result.context_wrapper.usage.input_tokens == 300


async def test_a_tool_that_fails_is_an_error_in_the_record(model: EndlessModel, tmp_path: Path) -> None:
    @function_tool
    def work(n: int) -> str:
        """Work."""
        raise ValueError("no such file")

    await run(model, "finisher", endstop(tmp_path), tools=[work, finish_task])
    (one,) = records.runs_in(tmp_path)
    found = [event.status for event in one.events if type(event).__name__ == "ToolCallResult"]
    assert found == ["error", "error", "ok"]


@pytest.mark.parametrize("method", METHODS)
async def test_a_follower_that_fails_lets_the_run_go_on(
    model: EndlessModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with broken(method):
        assert (await run(model, "talker", endstop(tmp_path))).final_output == "The port is 8080."
    assert "broken" in caplog.text
    assert len(model.requests) == 1


async def test_a_request_that_fails_is_raised_as_ever(tmp_path: Path) -> None:
    hooks = endstop(tmp_path)
    async with AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="x", max_retries=0) as client:
        nowhere = hooks.model(OpenAIChatCompletionsModel("m", client))
        with pytest.raises(Exception, match="Connection error"):
            await Runner.run(Agent(name="mine", model=nowhere), "go", hooks=hooks)
    hooks.close()
    assert records.ends(tmp_path) == [("provider_error", 1)]


async def test_a_run_without_the_hooks_is_left_alone(model: EndlessModel, tmp_path: Path) -> None:
    hooks = endstop(tmp_path)
    agent = Agent(name="mine", model=hooks.model(real(model, "talker")))
    assert (await Runner.run(agent, "go")).final_output == "The port is 8080."
    assert records.runs_in(tmp_path) == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_structured_output_that_comes_too_early_is_handed_back(tmp_path: Path, streamed: bool) -> None:
    from pydantic import BaseModel

    class Summary(BaseModel):
        summary: str

    checked, served = CheckedWork(tmp_path), CheckedModel()
    served.said = '{"summary": "done"}'
    hooks = endstop(tmp_path / "records", until=checked.until())
    with serving(served):
        more: Any = {"tools": [function_tool(checked.work)], "output_type": Summary}
        result = await run(served, "texter", hooks, streamed=streamed, **more)
        await served.to_close.pop()()
    assert (result.final_output, checked.lines) == (Summary(summary="done"), GOAL)
    assert TOLD in str(served.requests)
    assert records.works(tmp_path / "records") == [("until_met", "checked")]
