"""The plugin in agents of Strands, before a model that never stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import records, tools
from .broken_follower import METHODS, broken
from .checked_work import CheckedWork
from .endless_model import AFTER, EndlessModel, serving

pytest.importorskip("strands", reason="strands-agents is not installed: `make test-adapters` installs it")
from endstop.adapters.strands import Endstop
from endstop.decision import POLICIES, Limits
from endstop.decision.events import MessageAdded
from msgspec.structs import replace
from strands import Agent, tool
from strands.hooks import AfterToolsEvent
from strands.models import Model
from strands.models.openai import OpenAIModel

LIMITS: Any = {"turns": 15}
work, finish_task = tool(tools.work), tool(tools.finish_task)


@pytest.fixture
def model() -> Iterator[EndlessModel]:
    with serving() as served:
        yield served


def real(model: EndlessModel, name: str, **config: Any) -> OpenAIModel:
    return OpenAIModel(client_args={"base_url": model.url, "api_key": "x", "max_retries": 0}, model_id=name, **config)


def agent(model: Any, *plugins: Any, **more: Any) -> Agent:
    return Agent(model, **{"tools": [work, finish_task], **more}, plugins=list(plugins), callback_handler=None)


def endstop(folder: Path, **more: Any) -> Endstop:
    return Endstop(policy="agent", completion=("finish_task",), record=folder, **more)


async def test_a_completion_is_cut_and_ends_the_agent_with_its_summary(model: EndlessModel, tmp_path: Path) -> None:
    mine = agent(real(model, "finisher"), endstop(tmp_path))
    result = await mine.invoke_async("go", limits=LIMITS)
    assert str(result) == "port is 8080\n"
    assert result.state["endstop"]["stop"] == "completed"
    assert mine.messages[-1]["content"] == [{"text": "port is 8080"}]
    assert len(model.requests) == 3
    assert model.chunks_after < AFTER / 2
    assert records.ends(tmp_path) == [("completed", 3)]
    assert await records.replays(tmp_path)


def test_it_runs_without_async_and_for_who_reads_the_events(model: EndlessModel, tmp_path: Path) -> None:
    async def read() -> list[Any]:
        return [event async for event in agent(real(model, "finisher"), plugin).stream_async("go")]

    plugin = endstop(tmp_path)
    assert str(agent(real(model, "finisher"), plugin)("go")) == "port is 8080\n"
    assert str(asyncio.run(read())[-1]["result"]) == "port is 8080\n"
    assert records.ends(tmp_path) == [("completed", 3)] * 2


async def test_a_circle_is_nudged_once_and_ends_with_a_marked_text(model: EndlessModel, tmp_path: Path) -> None:
    result = await agent(real(model, "circle"), endstop(tmp_path)).invoke_async("go", limits=LIMITS)
    assert str(result).startswith("[endstop stopped this run: the call ")
    assert (result.stop_reason, result.state["endstop"]["stop"]) == ("end_turn", "stuck")
    assert len(model.requests) == 6
    assert len(model.nudges()) == len(set(model.nudges())) == 3
    assert records.nudges(tmp_path) == model.nudges()


async def test_without_the_plugin_it_goes_on(model: EndlessModel) -> None:
    result = await agent(real(model, "circle")).invoke_async("go", limits=LIMITS)
    assert (result.stop_reason, len(model.requests)) == ("limit_turns", 15)


async def test_an_announcement_in_place_of_a_call_is_nudged_and_the_agent_goes_on(
    model: EndlessModel, tmp_path: Path
) -> None:
    result = await agent(real(model, "forgetful"), endstop(tmp_path)).invoke_async("go")
    assert str(result) == "port is 8080\n"
    assert records.ends(tmp_path) == [("completed", 4)]
    roles = [one["role"] for one in model.items(model.requests[-1])]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]


async def test_a_reminder_is_at_the_end_of_one_request_and_in_no_message(model: EndlessModel, tmp_path: Path) -> None:
    limited = replace(POLICIES["agent"], limits=Limits(steps=5), reminder=0.2)
    mine = agent(real(model, "finisher"), Endstop(limited, completion=("finish_task",), record=tmp_path))
    await mine.invoke_async("go")
    (run,) = records.runs_in(tmp_path)
    (reminded,) = [one.text for one in run.events if isinstance(one, MessageAdded) and one.origin == "reminder"]
    assert [len(model.said(number)) for number in range(3)] == [1, 2, 1]
    assert model.nudges(1) == [reminded]
    assert not any("text" in block for one in mine.messages[1:-1] for block in one["content"])


async def test_text_ends_the_agent_as_ever(model: EndlessModel, tmp_path: Path) -> None:
    assert str(await agent(real(model, "talker"), endstop(tmp_path)).invoke_async("go")) == "The port is 8080.\n"
    assert records.ends(tmp_path) == [("text_final", 1)]


async def test_many_runs_at_once_are_kept_apart(model: EndlessModel, tmp_path: Path) -> None:
    plugin, state = endstop(tmp_path), {"shared": True}
    agents = [agent(real(model, name), plugin) for name in ("finisher", "circle", "talker") for _ in range(4)]
    await asyncio.gather(*(one.invoke_async("go", invocation_state=state) for one in agents[::2]))
    await asyncio.gather(*(one.invoke_async("go") for one in agents[1::2]))
    assert records.ends(tmp_path) == [("completed", 3)] * 4 + [("stuck", 6)] * 4 + [("text_final", 1)] * 4


async def test_an_agent_that_is_a_tool_has_runs_of_its_own(model: EndlessModel, tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    below = agent(real(model, "circle"), plugin, name="work", description="Works.")
    result = await agent(real(model, "finisher"), plugin, tools=[below.as_tool(), finish_task]).invoke_async("go")
    assert str(result) == "port is 8080\n"
    assert records.ends(tmp_path) == [("completed", 3), ("stuck", 6), ("stuck", 6)]
    above = next(run for run in records.runs_in(tmp_path) if run.started.prompt == "go")
    results = [one.content for one in above.events if type(one).__name__ == "ToolCallResult"]
    assert [text.startswith("[endstop stopped this run: the call ") for text in results] == [True, True, False]


async def test_a_conversation_that_goes_on_is_another_run(model: EndlessModel, tmp_path: Path) -> None:
    mine = agent(real(model, "talker"), endstop(tmp_path))
    await mine.invoke_async("go")
    await mine.invoke_async("again")
    assert sorted(run.started.prompt or "" for run in records.runs_in(tmp_path)) == ["again", "go"]


async def test_a_model_that_is_not_to_stream_is_followed_whole_with_its_usage(
    model: EndlessModel, tmp_path: Path
) -> None:
    mine = agent(real(model, "finisher", stream=False), endstop(tmp_path, stream=False))
    assert str(await mine.invoke_async("go")) == "port is 8080\n"
    assert not any(request.get("stream") for request in model.requests)
    (run,) = records.runs_in(tmp_path)
    assert [(usage.input_tokens, usage.estimated) for usage in records.usages(run)][:2] == [(100, False)] * 2


async def test_a_model_that_does_not_stream_is_asked_for_a_stream_and_cut(model: EndlessModel, tmp_path: Path) -> None:
    asked = real(model, "finisher", stream=False)
    assert str(await agent(asked, endstop(tmp_path)).invoke_async("go")) == "port is 8080\n"
    assert all(request["stream"] for request in model.requests)
    assert model.chunks_after < AFTER / 2
    assert asked.get_config()["stream"] is False


@pytest.mark.filterwarnings("ignore:Agent.structured_output_async method is deprecated")
async def test_a_structured_output_alone_is_left_alone(model: EndlessModel, tmp_path: Path) -> None:
    from pydantic import BaseModel

    class Summary(BaseModel):
        summary: str

    plugin = endstop(tmp_path)
    with pytest.raises(Exception, match=r"Summary|JSON"):
        await agent(real(model, "talker"), plugin).structured_output_async(Summary, "go")
    plugin.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_tool_that_fails_is_an_error_in_the_record(model: EndlessModel, tmp_path: Path) -> None:
    @tool
    def work(n: int) -> str:
        """Work."""
        raise ValueError("no such file")

    await agent(real(model, "finisher"), endstop(tmp_path), tools=[work, finish_task]).invoke_async("go")
    (run,) = records.runs_in(tmp_path)
    found = [event.status for event in run.events if type(event).__name__ == "ToolCallResult"]
    assert found == ["error", "error", "ok"]


async def test_structured_output_is_a_completion(model: EndlessModel, tmp_path: Path) -> None:
    from pydantic import BaseModel

    class finish_task(BaseModel):  # noqa: N801
        summary: str

    mine = agent(real(model, "finisher"), Endstop(record=tmp_path), tools=[work], structured_output_model=finish_task)
    result = await mine.invoke_async("go")
    assert result.structured_output == finish_task(summary="port is 8080")
    assert len(model.requests) == 3
    assert records.ends(tmp_path) == [("completed", 3)]


async def test_a_run_that_was_interrupted_goes_on_as_the_same_run(model: EndlessModel, tmp_path: Path) -> None:
    @tool(context=True)
    def work(n: int, tool_context: Any) -> str:
        """Work."""
        return str(tool_context.interrupt("approve", reason="may it?"))

    mine = agent(real(model, "finisher"), endstop(tmp_path), tools=[work, finish_task])
    result = await mine.invoke_async("go")
    while result.stop_reason == "interrupt":
        answers: Any = [{"interruptResponse": {"interruptId": one.id, "response": "y"}} for one in result.interrupts]
        result = await mine.invoke_async(answers)
    assert str(result) == "port is 8080\n"
    assert records.ends(tmp_path) == [("completed", 3)]


class StreamedCalls(Model):
    """A model whose events stream a call piece by piece, as those of Anthropic and Bedrock do, and then go on."""

    def __init__(self) -> None:
        self.sent = 0

    def update_config(self, **_: Any) -> None:
        """It has none."""

    def get_config(self) -> Any:
        """It has none."""
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """It has none."""
        raise NotImplementedError

    async def stream(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Complete the task, call another tool, and talk."""
        yield {"messageStart": {"role": "assistant"}}
        calls = [("finish_task", '{"summary": ', '"port is 8080"}'), ("work", '{"n"', ": 1}")]
        for name, *pieces in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": name, "name": name}}}}
            for piece in pieces:
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}}}
            yield {"contentBlockStop": {}}
        for _ in range(AFTER):
            self.sent += 1
            yield {"contentBlockDelta": {"delta": {"text": "and now I check again"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


async def test_events_are_cut_at_the_completion_and_calls_behind_it_never_run(tmp_path: Path) -> None:
    talking, ran = StreamedCalls(), []
    mine = agent(talking, endstop(tmp_path))
    mine.add_hook(lambda event: ran.extend(event.message["content"]), AfterToolsEvent)
    assert str(await mine.invoke_async("go")) == "port is 8080\n"
    assert talking.sent == 0
    assert [block["toolResult"]["toolUseId"] for block in ran] == ["finish_task"]
    assert records.ends(tmp_path) == [("completed", 1)]


@pytest.mark.parametrize("method", METHODS)
async def test_a_follower_that_fails_lets_the_agent_go_on(
    model: EndlessModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with broken(method):
        result = await agent(real(model, "talker"), endstop(tmp_path)).invoke_async("go")
    assert str(result) == "The port is 8080.\n"
    assert "broken" in caplog.text
    assert len(model.requests) == 1


async def test_a_request_that_fails_is_raised_as_ever_and_ends_the_run(tmp_path: Path) -> None:
    refused = {"base_url": "http://127.0.0.1:9/v1", "api_key": "x", "max_retries": 0}
    nowhere = OpenAIModel(client_args=refused, model_id="m")
    with pytest.raises(Exception, match="Connection error"):
        await agent(nowhere, endstop(tmp_path)).invoke_async("go")
    assert records.ends(tmp_path) == [("provider_error", 1)]


@pytest.mark.parametrize(("code", "end"), [(1, ("completed", "wrong")), (0, ("until_met", "checked"))])
async def test_structured_output_ends_the_agent_and_the_record_says_what_its_check_says(
    model: EndlessModel, tmp_path: Path, code: int, end: tuple[str, str]
) -> None:
    from pydantic import BaseModel

    class finish_task(BaseModel):  # noqa: N801
        summary: str

    checked = CheckedWork(tmp_path)
    hooks = Endstop(record=tmp_path / "records", until=checked.until(f"test -s work.txt && exit {code}"))
    tools = [tool(checked.work)]
    mine = agent(real(model, "finisher"), hooks, tools=tools, structured_output_model=finish_task)
    result = await mine.invoke_async("go", limits=LIMITS)
    if code:
        assert result.structured_output == finish_task(summary="port is 8080")
    assert records.works(tmp_path / "records") == [end]
