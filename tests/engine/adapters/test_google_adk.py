"""The plugin and the model in Google's ADK, before a model that never stops: on Gemini's wire, and through LiteLLM."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from . import records
from .broken_follower import METHODS, broken
from .checked_work import CheckedWork
from .endless_model import AFTER, EndlessModel, serving_clients
from .tools import finish_task, work

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it fetches its list of prices
pytest.importorskip("google.adk", reason="google-adk is not installed: `make test-adapters` installs it")
from endstop.adapters.google_adk import Endstop
from google.adk.agents import Agent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool
from google.genai import Client, types

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*EXPERIMENTAL.*:UserWarning")
MOST = 15
"""Requests after which the framework gives up."""


@pytest.fixture
async def model() -> AsyncIterator[EndlessModel]:
    async with serving_clients() as served:
        yield served


def gemini(model: EndlessModel, name: str) -> Gemini:
    options = types.HttpOptions(base_url=model.url.removesuffix("/v1"))
    client = Client(api_key="x", http_options=options)
    model.to_close.append(client.aio.aclose)
    return Gemini(model=f"gemini-{name}", client=client)


def litellm(model: EndlessModel, name: str) -> LiteLlm:
    return LiteLlm(model=f"openai/{name}", api_base=model.url, api_key="x")


def endstop(folder: Path, **more: Any) -> Endstop:
    return Endstop(policy="agent", completion=("finish_task",), record=folder, **more)


def agent(plugin: Endstop | None, real: Any, name: str = "mine", **more: Any) -> Agent:
    followed = plugin.model(real) if plugin else real
    return Agent(name=name, description=name, model=followed, **{"tools": [work, finish_task], **more})


async def run(
    root: Any, plugin: Endstop | None, *, prompt: str = "go", streamed: bool = False, service: Any = None
) -> list[Any]:
    """The events of an invocation that the framework keeps."""
    runner = InMemoryRunner(app=App(name="app", root_agent=root, plugins=[plugin] if plugin else []))
    config = RunConfig(max_llm_calls=MOST, streaming_mode=StreamingMode.SSE if streamed else StreamingMode.NONE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        events = await runner.run_debug(prompt, run_config=config, quiet=True)
    return [event for event in events if not event.partial]


async def run_followed(real: Any, folder: Path, *, streamed: bool = False) -> list[Any]:
    """The events of one agent that is followed from its first request."""
    plugin = endstop(folder)
    return await run(agent(plugin, real), plugin, streamed=streamed)


def text(event: Any) -> str:
    return "".join(part.text or "" for part in event.content.parts if not part.thought)


@pytest.mark.parametrize("kind", [gemini, litellm])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_completion_is_cut_and_ends_the_agent_with_its_summary(
    model: EndlessModel, tmp_path: Path, kind: Any, streamed: bool
) -> None:
    events = await run_followed(kind(model, "finisher"), tmp_path, streamed=streamed)
    assert text(events[-1]) == "port is 8080"
    assert events[-1].custom_metadata["endstop"]["stop"] == "completed"
    assert [call.args for event in events for call in event.get_function_calls()] == [
        {"n": 0},
        {"n": 1},
        {"summary": "port is 8080"},
    ]
    assert len(model.requests) == 3
    assert model.chunks_after < AFTER / 2
    assert records.ends(tmp_path) == [("completed", 3)]
    assert await records.replays(tmp_path)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_circle_is_nudged_once_and_ends_with_a_marked_text(
    model: EndlessModel, tmp_path: Path, streamed: bool
) -> None:
    events = await run_followed(gemini(model, "circle"), tmp_path, streamed=streamed)
    assert text(events[-1]).startswith("[endstop stopped this run: the call ")
    assert events[-1].custom_metadata["endstop"]["stop"] == "stuck"
    assert len(model.requests) == 6
    assert len(model.nudges()) == len(set(model.nudges())) == 3
    kept = [model.nudges(number) for number in range(6)]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(kept))
    assert records.nudges(tmp_path) == model.nudges()


async def test_without_it_the_agent_goes_on(model: EndlessModel) -> None:
    with pytest.raises(LlmCallsLimitExceededError):
        await run(agent(None, gemini(model, "circle")), None)
    assert len(model.requests) == MOST


@pytest.mark.parametrize("kind", [gemini, litellm])
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_announcement_in_place_of_a_call_is_nudged_and_the_agent_goes_on(
    model: EndlessModel, tmp_path: Path, kind: Any, streamed: bool
) -> None:
    events = await run_followed(kind(model, "forgetful"), tmp_path, streamed=streamed)
    assert text(events[-1]) == "port is 8080"
    assert records.ends(tmp_path) == [("completed", 4)]
    roles = [one["role"] for one in model.items(model.requests[-1]) if one["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]


async def test_text_ends_the_agent_as_ever(model: EndlessModel, tmp_path: Path) -> None:
    events = await run_followed(gemini(model, "talker"), tmp_path)
    assert [text(event) for event in events] == ["The port is 8080."]
    assert records.ends(tmp_path) == [("text_final", 1)]


async def test_many_invocations_at_once_are_kept_apart(model: EndlessModel, tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    agents = [agent(plugin, gemini(model, name)) for name in ("finisher", "circle", "talker")]
    await asyncio.gather(*(run(one, plugin) for one in agents for _ in range(3)))
    assert records.ends(tmp_path) == [("completed", 3)] * 3 + [("stuck", 6)] * 3 + [("text_final", 1)] * 3


async def test_agents_that_work_in_parallel_are_runs_of_their_own(model: EndlessModel, tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    agents = [agent(plugin, gemini(model, name), name) for name in ("finisher", "circle", "talker")]
    events = await run(ParallelAgent(name="all", sub_agents=agents), plugin)
    assert records.ends(tmp_path) == [("completed", 3), ("stuck", 6), ("text_final", 1)]
    assert await records.replays(tmp_path)
    ends = {event.author: text(event)[:20] for event in events if event.is_final_response()}
    assert ends == {"finisher": "port is 8080", "circle": "[endstop stopped thi", "talker": "The port is 8080."}


async def test_agents_one_after_the_other_are_runs_of_one_record(model: EndlessModel, tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    agents = [agent(plugin, gemini(model, name), name) for name in ("finisher", "talker", "circle")]
    await run(SequentialAgent(name="all", sub_agents=agents), plugin)
    assert len(list(tmp_path.iterdir())) == 1
    runs = [one.finished.outcome.stop_reason for one in records.runs_in(tmp_path) if one.finished]
    assert runs == ["completed", "text_final", "stuck"]
    assert await records.replays(tmp_path)


async def test_a_stop_that_is_no_completion_ends_a_loop_of_agents(model: EndlessModel, tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    stuck = agent(plugin, gemini(model, "circle"), "stuck")
    await run(LoopAgent(name="all", sub_agents=[stuck], max_iterations=2), plugin)
    assert records.ends(tmp_path) == [("stuck", 6)]
    other = endstop(tmp_path)
    await run(LoopAgent(name="all", sub_agents=[agent(other, gemini(model, "talker"))], max_iterations=2), other)
    assert records.ends(tmp_path) == [("stuck", 6), ("text_final", 1), ("text_final", 1)]


async def test_an_agent_that_is_a_tool_has_a_run_of_its_own(model: EndlessModel, tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    inner = AgentTool(agent(plugin, gemini(model, "talker"), "work"))
    events = await run(agent(plugin, gemini(model, "finisher"), tools=[inner, finish_task]), plugin)
    assert text(events[-1]) == "port is 8080"
    assert records.ends(tmp_path) == [("completed", 3)] + [("text_final", 1)] * 2


async def test_agents_that_hand_over_to_each_other_for_ever_are_one_run_that_ends(
    model: EndlessModel, tmp_path: Path
) -> None:
    plugin = endstop(tmp_path)
    second = agent(plugin, gemini(model, "to_first"), "second", tools=[])
    first = agent(plugin, gemini(model, "to_second"), "first", tools=[], sub_agents=[second])
    events = await run(first, plugin)
    assert text(events[-1]).startswith("[endstop stopped this run: the call ")
    assert len(model.requests) < MOST
    ((reason, _),) = records.ends(tmp_path)
    assert reason == "stuck"
    assert await records.replays(tmp_path)


async def test_calls_at_once_have_each_their_result(model: EndlessModel, tmp_path: Path) -> None:
    async def work(n: int) -> str:
        """Work."""
        await asyncio.sleep(0)
        return f"result {n}"

    plugin = endstop(tmp_path)
    await run(agent(plugin, gemini(model, "several"), tools=[work, finish_task]), plugin)
    (one,) = records.runs_in(tmp_path)
    found = [event.content for event in one.events if type(event).__name__ == "ToolCallResult"]
    assert found[:3] == ["result 0", "result 1", "result 2"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_model_that_is_not_wrapped_is_followed_whole_and_not_cut(
    model: EndlessModel, tmp_path: Path, streamed: bool
) -> None:
    plugin = endstop(tmp_path)
    events = await run(agent(None, gemini(model, "finisher")), plugin, streamed=streamed)
    assert text(events[-1]) == "port is 8080"
    assert model.chunks_after == AFTER
    events = await run(agent(None, gemini(model, "circle")), plugin, streamed=streamed)
    assert text(events[-1]).startswith("[endstop stopped this run: the call ")
    await run(agent(None, gemini(model, "talker")), plugin, streamed=streamed)
    assert records.ends(tmp_path) == [("completed", 3), ("stuck", 6), ("text_final", 1)]


async def test_a_model_that_is_not_to_stream_is_followed_whole_with_its_usage(
    model: EndlessModel, tmp_path: Path
) -> None:
    plugin = endstop(tmp_path, stream=False)
    events = await run(agent(plugin, gemini(model, "finisher")), plugin)
    assert text(events[-1]) == "port is 8080"
    assert not any(request.get("stream") for request in model.requests)
    (one,) = records.runs_in(tmp_path)
    assert [(usage.input_tokens, usage.estimated) for usage in records.usages(one)] == [(100, False)] * 3


async def test_usage_is_as_reported_where_nothing_was_cut(model: EndlessModel, tmp_path: Path) -> None:
    events = await run_followed(gemini(model, "finisher"), tmp_path)
    (one,) = records.runs_in(tmp_path)
    assert [usage.estimated for usage in records.usages(one)] == [False, False, True]
    assert events[0].usage_metadata.prompt_token_count == 100


async def test_an_error_that_a_tool_reports_is_one_in_the_record(model: EndlessModel, tmp_path: Path) -> None:
    def work(n: int) -> dict[str, str]:
        """Work."""
        return {"error": "no such file"}

    plugin = endstop(tmp_path)
    await run(agent(plugin, gemini(model, "finisher"), tools=[work, finish_task]), plugin)
    (one,) = records.runs_in(tmp_path)
    found = [(event.status, event.content) for event in one.events if type(event).__name__ == "ToolCallResult"]
    assert found == [("error", "no such file")] * 2 + [("ok", "noted")]


async def test_a_tool_that_raises_ends_the_invocation_as_ever_and_the_record(
    model: EndlessModel, tmp_path: Path
) -> None:
    def work(n: int) -> str:
        """Work."""
        raise ValueError("no such file")

    plugin = endstop(tmp_path)
    with pytest.raises(ValueError, match="no such file"):
        await run(agent(plugin, gemini(model, "finisher"), tools=[work, finish_task]), plugin)
    ((_, steps),) = records.ends(tmp_path)
    assert steps == 1


async def test_structured_output_is_a_completion_and_a_stop_in_its_place_an_error(
    model: EndlessModel, tmp_path: Path
) -> None:
    from pydantic import BaseModel

    class Summary(BaseModel):
        summary: str

    plugin = endstop(tmp_path)
    typed = agent(plugin, gemini(model, "structured"), tools=[work], output_schema=Summary)
    assert json.loads(text((await run(typed, plugin))[-1])) == {"summary": "port is 8080"}
    typed = agent(plugin, gemini(model, "circle"), tools=[work], output_schema=Summary)
    last = (await run(typed, plugin))[-1]
    assert last.error_message.startswith("[endstop stopped this run: the call ")
    assert records.ends(tmp_path) == [("completed", 3), ("stuck", 6)]


@pytest.mark.parametrize("method", METHODS)
async def test_a_follower_that_fails_lets_the_agent_go_on(
    model: EndlessModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    plugin = endstop(tmp_path)
    with broken(method):
        events = await run(agent(plugin, gemini(model, "talker")), plugin)
    assert text(events[-1]) == "The port is 8080."
    assert "broken" in caplog.text
    assert len(model.requests) == 1


async def test_a_request_that_fails_is_raised_as_ever(tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    options = types.HttpOptions(base_url="http://127.0.0.1:9")
    nowhere = Gemini(model="gemini-m", client_kwargs={"api_key": "x", "http_options": options})
    with pytest.raises(Exception, match=r"(?i)connect"):
        await run(agent(plugin, nowhere), plugin)
    assert records.ends(tmp_path) == [("provider_error", 1)]


def test_the_followed_model_is_of_the_same_class_and_the_other_is_left_as_it_is(tmp_path: Path) -> None:
    plugin = endstop(tmp_path)
    real = Gemini(model="gemini-m")
    followed = plugin.model(real)
    assert isinstance(followed, Gemini)
    assert (type(real), type(followed) is Gemini, followed.model) == (Gemini, False, "gemini-m")
    assert isinstance(plugin.model("gemini-3.5-flash"), Gemini)


@pytest.mark.parametrize(("code", "end"), [(1, ("completed", "wrong")), (0, ("until_met", "checked"))])
async def test_structured_output_ends_the_agent_and_the_record_says_what_its_check_says(
    model: EndlessModel, tmp_path: Path, code: int, end: tuple[str, str]
) -> None:
    from pydantic import BaseModel

    class Summary(BaseModel):
        summary: str

    checked = CheckedWork(tmp_path)
    plugin = endstop(tmp_path / "records", until=checked.until(f"test -s work.txt && exit {code}"))
    typed = agent(plugin, gemini(model, "structured"), tools=[checked.work], output_schema=Summary)
    events = await run(typed, plugin)
    if code:
        assert json.loads(text(events[-1])) == {"summary": "port is 8080"}
    assert records.works(tmp_path / "records") == [end]


async def test_a_text_of_a_model_that_is_not_wrapped_ends_the_agent_and_the_record_says_what_its_check_says(
    tmp_path: Path,
) -> None:
    checked = CheckedWork(tmp_path)
    plugin = endstop(tmp_path / "records", until=checked.until())
    async with serving_clients() as model:
        unwrapped = Agent(name="mine", model=gemini(model, "talker"), tools=[checked.work])
        assert text((await run(unwrapped, plugin))[-1]) == "The port is 8080."
    assert [work for _, work in records.works(tmp_path / "records")] == ["wrong"]
