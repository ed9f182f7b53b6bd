"""The capability in Pydantic AI's own agents, before a model that never stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from . import records
from .broken_follower import METHODS, broken
from .checked_work import CheckedWork
from .endless_model import AFTER, EndlessModel, serving_clients
from .tools import finish_task, work

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: `make test-adapters` installs it")
from endstop.adapters.pydantic_ai import Endstop
from openai import AsyncOpenAI
from pydantic_ai import Agent, UsageLimitExceeded, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

MOST = UsageLimits(request_limit=15)


@pytest.fixture
async def model() -> AsyncIterator[EndlessModel]:
    async with serving_clients() as served:
        yield served


def agent(model: EndlessModel, name: str, *capabilities: Any, kind: Any = OpenAIChatModel, **more: Any) -> Any:
    client = AsyncOpenAI(base_url=model.url, api_key="x", max_retries=0)
    model.to_close.append(client.close)
    real = kind(name, provider=OpenAIProvider(openai_client=client))
    return Agent(real, **{"tools": [work, finish_task], **more}, capabilities=capabilities)


def endstop(folder: Path, **more: Any) -> Endstop:
    return Endstop(policy="agent", completion=("finish_task",), record=folder, **more)


@pytest.mark.parametrize("kind", [OpenAIChatModel, OpenAIResponsesModel])
async def test_a_completion_is_cut_and_ends_the_agent_with_its_summary(
    model: EndlessModel, tmp_path: Path, kind: Any
) -> None:
    mine = agent(model, "finisher", endstop(tmp_path), kind=kind)
    result = await mine.run("go", usage_limits=MOST)
    assert result.output == "port is 8080"
    assert result.all_messages()[-1].metadata["endstop"]["stop"] == "completed"
    async with mine.run_stream_events("go", usage_limits=MOST) as events:
        streamed = [event async for event in events]
    assert streamed[-1].result.output == "port is 8080"
    assert len(model.requests) == 6
    assert model.chunks_after < AFTER
    assert records.ends(tmp_path) == [("completed", 3)] * 2
    assert await records.replays(tmp_path)


def test_it_runs_without_async(model: EndlessModel, tmp_path: Path) -> None:
    assert agent(model, "finisher", endstop(tmp_path)).run_sync("go").output == "port is 8080"
    assert records.ends(tmp_path) == [("completed", 3)]


async def test_a_circle_is_nudged_once_and_ends_with_a_marked_text(model: EndlessModel, tmp_path: Path) -> None:
    result = await agent(model, "circle", endstop(tmp_path)).run("go", usage_limits=MOST)
    assert result.output.startswith("[endstop stopped this run: the call ")
    assert len(model.requests) == 6
    assert len(model.nudges()) == len(set(model.nudges())) == 3
    assert records.nudges(tmp_path) == model.nudges()


async def test_without_the_capability_it_goes_on(model: EndlessModel) -> None:
    with pytest.raises(UsageLimitExceeded):
        await agent(model, "circle").run("go", usage_limits=MOST)
    assert len(model.requests) == 15


async def test_an_announcement_in_place_of_a_call_is_nudged_and_the_agent_goes_on(
    model: EndlessModel, tmp_path: Path
) -> None:
    result = await agent(model, "forgetful", endstop(tmp_path)).run("go", usage_limits=MOST)
    assert result.output == "port is 8080"
    assert records.ends(tmp_path) == [("completed", 4)]


async def test_text_ends_the_agent_as_ever(model: EndlessModel, tmp_path: Path) -> None:
    assert (await agent(model, "talker", endstop(tmp_path)).run("go")).output == "The port is 8080."
    assert records.ends(tmp_path) == [("text_final", 1)]


async def test_many_runs_of_one_capability_at_once_are_kept_apart(model: EndlessModel, tmp_path: Path) -> None:
    capability = endstop(tmp_path)
    agents = [agent(model, name, capability) for name in ("finisher", "circle", "talker")]
    await asyncio.gather(*(one.run("go", usage_limits=MOST) for one in agents for _ in range(4)))
    assert records.ends(tmp_path) == [("completed", 3)] * 4 + [("stuck", 6)] * 4 + [("text_final", 1)] * 4


async def test_a_conversation_that_goes_on_is_another_run(model: EndlessModel, tmp_path: Path) -> None:
    mine = agent(model, "talker", endstop(tmp_path))
    first = await mine.run("go")
    await mine.run("again", message_history=first.all_messages())
    assert sorted(run.started.prompt or "" for run in records.runs_in(tmp_path)) == ["again", "go"]


async def test_a_model_that_is_not_to_stream_is_followed_whole_with_its_usage(
    model: EndlessModel, tmp_path: Path
) -> None:
    result = await agent(model, "finisher", endstop(tmp_path, stream=False)).run("go", usage_limits=MOST)
    assert result.output == "port is 8080"
    assert not any(request.get("stream") for request in model.requests)
    (run,) = records.runs_in(tmp_path)
    assert [(usage.input_tokens, usage.estimated) for usage in records.usages(run)] == [(100, False)] * 3


async def test_a_tool_that_asks_for_another_try_is_an_error_in_the_record(model: EndlessModel, tmp_path: Path) -> None:
    from pydantic_ai import ModelRetry

    def work(n: int) -> str:
        """Work."""
        raise ModelRetry("no such file")

    mine = agent(model, "finisher", endstop(tmp_path), tools=[work, finish_task], retries=5)
    await mine.run("go", usage_limits=MOST)
    (run,) = records.runs_in(tmp_path)
    found = [event.status for event in run.events if type(event).__name__ == "ToolCallResult"]
    assert found == ["error", "error", "ok"]


async def test_structured_output_is_a_completion(model: EndlessModel, tmp_path: Path) -> None:
    from pydantic import BaseModel
    from pydantic_ai import ToolOutput

    class Summary(BaseModel):
        summary: str

    typed = agent(
        model, "finisher", Endstop(record=tmp_path), tools=[work], output_type=ToolOutput(Summary, name="finish_task")
    )
    assert (await typed.run("go", usage_limits=MOST)).output == Summary(summary="port is 8080")
    assert len(model.requests) == 3
    assert records.ends(tmp_path) == [("completed", 3)]


@pytest.mark.parametrize("method", METHODS)
async def test_a_follower_that_fails_lets_the_agent_go_on(
    model: EndlessModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with broken(method):
        assert (await agent(model, "talker", endstop(tmp_path)).run("go")).output == "The port is 8080."
    assert "broken" in caplog.text
    assert len(model.requests) == 1


async def test_a_request_that_fails_is_raised_as_ever_and_ends_the_run(tmp_path: Path) -> None:
    async with AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="x", max_retries=0) as client:
        nowhere = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
        with pytest.raises(Exception, match="Connection error"):
            await Agent(nowhere, capabilities=[endstop(tmp_path)]).run("go")
    assert records.ends(tmp_path) == [("provider_error", 1)]


@pytest.mark.parametrize(("code", "end"), [(1, ("completed", "wrong")), (0, ("until_met", "checked"))])
async def test_structured_output_ends_the_agent_and_the_record_says_what_its_check_says(
    model: EndlessModel, tmp_path: Path, code: int, end: tuple[str, str]
) -> None:
    from pydantic import BaseModel
    from pydantic_ai import ToolOutput

    class Summary(BaseModel):
        summary: str

    checked = CheckedWork(tmp_path)
    until = checked.until(f"test -s work.txt && exit {code}")
    hooks = Endstop(record=tmp_path / "records", until=until)
    typed = agent(model, "finisher", hooks, tools=[checked.work], output_type=ToolOutput(Summary, name="finish_task"))
    output = (await typed.run("go", usage_limits=MOST)).output
    assert not code or output == Summary(summary="port is 8080")
    assert records.works(tmp_path / "records") == [end]
