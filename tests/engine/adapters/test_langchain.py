"""The middleware in LangChain's own agents, before a model that never stops. Needs langchain and langchain-openai."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import records, tools
from .broken_follower import METHODS, broken
from .checked_work import CheckedWork
from .endless_model import AFTER, EndlessModel, serving
from .until_model import CheckedModel

WHY = "is not installed: `make test-adapters` installs it"
pytest.importorskip("langchain.agents", reason=f"langchain {WHY}")
pytest.importorskip("langchain_openai", reason=f"langchain-openai {WHY}")
from endstop.adapters.langchain import Endstop  # noqa: E402
from langchain.agents import create_agent  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402

MOST = 60
"""Steps of the graph after which LangGraph gives up."""
work, finish_task = tool(tools.work), tool(tools.finish_task)


@pytest.fixture
def model() -> Iterator[EndlessModel]:
    with serving() as served:
        yield served


def chat(model: EndlessModel, name: str, **more: Any) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=model.url, api_key="x", max_retries=0, **more)


def agent(model: EndlessModel, name: str, endstop: Endstop, tools: Any = (work, finish_task), **more: Any) -> Any:
    return create_agent(chat(model, name, **more), tools, middleware=[endstop])


def endstop(folder: Path, **more: Any) -> Endstop:
    return Endstop(policy="agent", completion=("finish_task",), record=folder, **more)


def last(state: Any) -> Any:
    return state["messages"][-1]


GO: Any = {"messages": [("user", "go")]}


@pytest.mark.parametrize("responses", [False, True])
async def test_a_completion_is_cut_and_ends_the_agent_with_its_summary(
    model: EndlessModel, tmp_path: Path, responses: bool
) -> None:
    graph = agent(model, "finisher", endstop(tmp_path), use_responses_api=responses)
    for answer in (await graph.ainvoke(GO), graph.invoke(GO)):
        assert last(answer).text == "port is 8080"
        assert last(answer).response_metadata["endstop"]["stop"] == "completed"
    assert len(model.requests) == 6
    assert model.chunks_after < AFTER  # of two times that many: the streams were left
    assert records.ends(tmp_path) == [("completed", 3)] * 2
    assert await records.replays(tmp_path)


async def test_a_circle_is_nudged_once_and_ends_with_a_marked_text(model: EndlessModel, tmp_path: Path) -> None:
    state = await agent(model, "circle", endstop(tmp_path)).ainvoke(GO, {"recursion_limit": MOST})
    assert last(state).text.startswith("[endstop stopped this run: the call ")
    assert last(state).text.endswith("The task may be unfinished.]")
    assert len(model.requests) == 6
    assert len(model.nudges()) == len(set(model.nudges())) == 3
    assert records.nudges(tmp_path) == model.nudges()


def test_without_the_middleware_it_goes_on(model: EndlessModel) -> None:
    from langgraph.errors import GraphRecursionError

    graph = create_agent(chat(model, "circle"), [work, finish_task])
    with pytest.raises(GraphRecursionError):
        graph.invoke(GO, {"recursion_limit": MOST})
    assert len(model.requests) > 20


def test_an_announcement_in_place_of_a_call_is_nudged_and_the_agent_goes_on(
    model: EndlessModel, tmp_path: Path
) -> None:
    state = agent(model, "forgetful", endstop(tmp_path)).invoke(GO)
    assert last(state).text == "port is 8080"
    assert len(model.said(2)) == 2
    assert records.ends(tmp_path) == [("completed", 4)]


def test_text_ends_the_agent_as_ever(model: EndlessModel, tmp_path: Path) -> None:
    state = agent(model, "talker", endstop(tmp_path)).invoke(GO)
    assert [message.text for message in state["messages"]] == ["go", "The port is 8080."]
    assert records.ends(tmp_path) == [("text_final", 1)]


async def test_many_runs_of_one_agent_at_once_are_kept_apart(model: EndlessModel, tmp_path: Path) -> None:
    middleware = endstop(tmp_path)
    graphs = [agent(model, name, middleware) for name in ("finisher", "circle", "talker")]
    await asyncio.gather(*(graph.ainvoke(GO) for graph in graphs for _ in range(4)))
    assert records.ends(tmp_path) == [("completed", 3)] * 4 + [("stuck", 6)] * 4 + [("text_final", 1)] * 4


async def test_a_file_takes_one_run_after_the_other_and_one_beside_it_those_at_once(
    model: EndlessModel, tmp_path: Path
) -> None:
    graph = agent(model, "finisher", endstop(tmp_path / "run.jsonl"))
    for _ in range(2):
        await graph.ainvoke(GO)
    assert [path.name for path in tmp_path.iterdir()] == ["run.jsonl"]
    await asyncio.gather(*(graph.ainvoke(GO) for _ in range(2)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-2.jsonl", "run.jsonl"]
    assert records.ends(tmp_path) == [("completed", 3)] * 4


def test_usage_is_as_reported_where_nothing_was_cut(model: EndlessModel, tmp_path: Path) -> None:
    agent(model, "finisher", endstop(tmp_path), stream_usage=True).invoke(GO)
    (run,) = records.runs_in(tmp_path)
    found = [(usage.input_tokens, usage.output_tokens, usage.estimated) for usage in records.usages(run)]
    assert found[:2] == [(100, 10, False)] * 2
    assert found[2][2]


def test_a_model_that_is_not_to_stream_is_followed_whole(model: EndlessModel, tmp_path: Path) -> None:
    state = agent(model, "finisher", endstop(tmp_path, stream=False)).invoke(GO)
    assert last(state).text == "port is 8080"
    assert not any(request.get("stream") for request in model.requests)
    (run,) = records.runs_in(tmp_path)
    assert not any(usage.estimated for usage in records.usages(run))


def test_a_tool_that_fails_is_an_error_in_the_record(model: EndlessModel, tmp_path: Path) -> None:
    @tool
    def work(n: int) -> str:
        """Work."""
        from langchain_core.tools import ToolException

        raise ToolException("no such file")

    work.handle_tool_error = True
    agent(model, "finisher", endstop(tmp_path), tools=[work, finish_task]).invoke(GO)
    (run,) = records.runs_in(tmp_path)
    found = [(one.status, one.content) for one in run.events if type(one).__name__ == "ToolCallResult"]
    assert found == [("error", "no such file")] * 2 + [("ok", "noted")]


@pytest.mark.parametrize("method", METHODS)
def test_a_follower_that_fails_lets_the_agent_go_on(
    model: EndlessModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with broken(method):
        state = agent(model, "talker", endstop(tmp_path)).invoke(GO)
    assert last(state).text == "The port is 8080."
    assert "broken" in caplog.text
    assert len(model.requests) == 1


def test_a_record_that_cannot_be_written_does_not_keep_the_agent(model: EndlessModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = agent(model, "circle", endstop(tmp_path / "file" / "below")).invoke(GO)
    assert last(state).response_metadata["endstop"]["stop"] == "stuck"


def test_a_request_that_fails_is_raised_as_ever(tmp_path: Path) -> None:
    nowhere = ChatOpenAI(model="talker", base_url="http://127.0.0.1:9/v1", api_key="x", max_retries=0)
    middleware = endstop(tmp_path)
    with pytest.raises(Exception, match="Connection error"):
        create_agent(nowhere, [work], middleware=[middleware]).invoke(GO)
    middleware.close()
    assert records.ends(tmp_path) == [("provider_error", 1)]


def test_a_run_that_was_interrupted_goes_on_as_the_same_run(model: EndlessModel, tmp_path: Path) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    graph = create_agent(
        chat(model, "finisher"),
        [work, finish_task],
        middleware=[endstop(tmp_path)],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    config: Any = {"configurable": {"thread_id": "one"}}
    graph.invoke(GO, config)
    for _ in range(3):
        graph.invoke(None, config)
    assert last(graph.get_state(config).values).text == "port is 8080"
    assert records.ends(tmp_path) == [("completed", 3)]


def test_structured_output_is_a_completion(model: EndlessModel, tmp_path: Path) -> None:
    from langchain.agents.structured_output import ToolStrategy
    from pydantic import BaseModel

    class finish_task(BaseModel):  # noqa: N801
        summary: str

    graph = create_agent(
        chat(model, "finisher"),
        [work],
        middleware=[Endstop(record=tmp_path)],
        response_format=ToolStrategy(finish_task),
    )
    state = graph.invoke(GO)
    assert state["structured_response"].summary == "port is 8080"
    assert len(model.requests) == 3
    assert records.ends(tmp_path) == [("completed", 3)]


CODES = pytest.mark.parametrize(("code", "end"), [(1, ("completed", "wrong")), (0, ("until_met", "checked"))])


@CODES
@pytest.mark.parametrize("waits", [True, False], ids=["ainvoke", "invoke"])
async def test_structured_output_ends_the_agent_and_the_record_says_what_its_check_says(
    model: EndlessModel, tmp_path: Path, code: int, end: tuple[str, str], waits: bool
) -> None:
    from langchain.agents.structured_output import ToolStrategy
    from pydantic import BaseModel

    class finish_task(BaseModel):  # noqa: N801
        summary: str

    checked = CheckedWork(tmp_path)
    until = checked.until(f"test -s work.txt && exit {code}")
    middleware = [Endstop(record=tmp_path / "records", until=until)]
    tools: Any = [tool(checked.work)]
    graph = create_agent(
        chat(model, "finisher"), tools, middleware=middleware, response_format=ToolStrategy(finish_task)
    )
    state = await graph.ainvoke(GO) if waits else graph.invoke(GO)
    if code:
        assert state["structured_response"].summary == "port is 8080"
    assert records.works(tmp_path / "records") == [end]


@pytest.mark.parametrize("name", ["texter", "claimer"])
def test_an_agent_without_an_event_loop_is_checked_in_a_thread_that_ends_with_it(tmp_path: Path, name: str) -> None:
    checked = CheckedWork(tmp_path)
    with serving(CheckedModel()) as model:
        hooks = endstop(tmp_path / "records", until=checked.until())
        agent(model, name, hooks, [tool(checked.work), finish_task]).invoke(GO, {"recursion_limit": MOST})
    assert "endstop check" not in [one.name for one in threading.enumerate()]
    assert records.works(tmp_path / "records") == [("until_met", "checked")]
