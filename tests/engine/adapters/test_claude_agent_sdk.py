"""The hooks in sessions of Claude Code, before a model that never stops."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record

from . import records
from .broken_follower import broken
from .claude_code import environment, foreign_variables
from .endless_model import AFTER, EndlessModel, ScriptedModel, serving
from .proxied import proxied

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed: `make test-adapters` installs it")
from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    ResultMessage,
    SystemMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from endstop.adapters.claude_agent_sdk import Endstop

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # the SDK leaves pipes of a Claude Code that has ended with an error to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
MOST = 15
"""Turns after which Claude Code gives up."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[EndlessModel]:
    for name in foreign_variables():
        monkeypatch.delenv(name)
    with serving() as served:
        yield served
    gc.collect()  # within the test whose warnings they are


def answer(text: str, *, failed: bool = False) -> Any:
    return {"content": [{"type": "text", "text": text}], "is_error": failed}


def options(model: EndlessModel, name: str, folder: Path, endstop: Endstop | None, **more: Any) -> ClaudeAgentOptions:
    failing = more.pop("failing", False)

    @tool("work", "Work.", {"n": int})
    async def work(arguments: Any) -> Any:
        return answer("no such file" if failing else "ok", failed=failing)

    @tool("finish_task", "Finish.", {"summary": str})
    async def finish_task(arguments: Any) -> Any:
        return answer("noted")

    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    hooks = {"hooks": endstop.hooks()} if endstop else {}
    mine: Any = {
        "model": name,
        "tools": [],
        "mcp_servers": {"mine": create_sdk_mcp_server("mine", tools=[work, finish_task])},
        "allowed_tools": ["mcp__mine__work", "mcp__mine__finish_task", "Agent"],
        "max_turns": MOST,
        "max_buffer_size": 2**24,  # bytes: the model is talkative
        "setting_sources": [],
        "cwd": home,
        "env": environment(model.url, home),
    }
    return ClaudeAgentOptions(**{**mine, **hooks, **more})


async def run(asked: ClaudeAgentOptions) -> tuple[str, ResultMessage]:
    """What the session says of its hooks' words, and how it ended."""
    said, ended = [], None
    async for message in query(prompt="go", options=asked):
        if isinstance(message, SystemMessage) and message.subtype == "informational":
            said.append(message.data["content"])
        ended = message if isinstance(message, ResultMessage) else ended
    assert ended is not None
    return "\n".join(said), ended


def endstop(folder: Path, **more: Any) -> Endstop:
    return Endstop(policy="agent", completion=("finish_task",), record=folder / "runs", **more)


def last_result(model: EndlessModel, number: int = -1) -> str:
    """What a request says to the model last: words of hooks are in the result of the last call."""
    return json.dumps(model.requests[number]["messages"][-1])


async def test_a_completion_ends_the_session_with_its_summary(model: EndlessModel, tmp_path: Path) -> None:
    said, ended = await run(options(model, "finisher", tmp_path, endstop(tmp_path)))
    assert said == "PostToolBatch says: port is 8080"
    assert (ended.is_error, len(model.requests)) == (False, 3)
    assert model.chunks_after >= AFTER  # hooks see no stream
    assert records.ends(tmp_path / "runs") == [("completed", 3)]
    assert await records.replays(tmp_path / "runs")


async def test_with_the_proxy_beside_them_the_response_is_cut_at_the_completion(
    model: EndlessModel, tmp_path: Path
) -> None:
    with proxied(model.url, ("mcp__mine__finish_task",)) as url:
        asked = options(model, "finisher", tmp_path, endstop(tmp_path))
        asked.env["ANTHROPIC_BASE_URL"] = url.removesuffix("/v1")
        said, _ = await run(asked)
    assert said == "PostToolBatch says: port is 8080"
    assert len(model.requests) == 3
    assert model.chunks_after < AFTER / 2
    assert records.ends(tmp_path / "runs") == [("completed", 3)]


async def test_a_circle_is_nudged_once_and_ends_with_a_marked_text(model: EndlessModel, tmp_path: Path) -> None:
    said, _ = await run(options(model, "circle", tmp_path, endstop(tmp_path)))
    assert said.startswith("PostToolBatch says: [endstop stopped this run: the call ")
    assert len(model.requests) == 6
    nudges = records.nudges(tmp_path / "runs")
    assert len(nudges) == len(set(nudges)) == 3
    whole = json.dumps(model.requests[-1])
    assert [whole.count(json.dumps(nudge)[1:-1]) for nudge in nudges] == [1, 1, 1]


async def test_without_the_hooks_it_goes_on(model: EndlessModel, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="maximum number of turns"):
        await run(options(model, "circle", tmp_path, None))
    assert len(model.requests) == MOST


async def test_an_announcement_in_place_of_a_call_is_nudged_and_the_session_goes_on(
    model: EndlessModel, tmp_path: Path
) -> None:
    said, _ = await run(options(model, "forgetful", tmp_path, endstop(tmp_path)))
    assert said == "PostToolBatch says: port is 8080"
    assert records.ends(tmp_path / "runs") == [("completed", 4)]
    (nudge,) = records.nudges(tmp_path / "runs")
    assert json.dumps(nudge)[1:-1] in last_result(model, 2)


async def test_text_ends_the_session_as_ever(model: EndlessModel, tmp_path: Path) -> None:
    said, ended = await run(options(model, "talker", tmp_path, endstop(tmp_path)))
    assert (said, ended.result) == ("", "The port is 8080.")
    assert records.ends(tmp_path / "runs") == [("text_final", 1)]
    (one,) = records.runs_in(tmp_path / "runs")
    assert one.started.prompt == "go"
    assert [usage.estimated for usage in records.usages(one)] == [True]  # hooks are told no usage


async def test_sessions_at_once_are_kept_apart(model: EndlessModel, tmp_path: Path) -> None:
    mine = endstop(tmp_path)
    names = ("finisher", "circle", "talker")
    await asyncio.gather(*(run(options(model, name, tmp_path / name, mine)) for name in names))
    assert records.ends(tmp_path / "runs") == [("completed", 3), ("stuck", 6), ("text_final", 1)]


async def test_each_prompt_of_a_client_is_a_run(model: EndlessModel, tmp_path: Path) -> None:
    async with ClaudeSDKClient(options(model, "talker", tmp_path, endstop(tmp_path / "x"))) as client:
        for prompt in ("go", "again"):
            await client.query(prompt)
            async for _ in client.receive_response():
                pass
    assert sorted(run.started.prompt or "" for run in records.runs_in(tmp_path / "x" / "runs")) == ["again", "go"]


async def test_a_tool_that_fails_is_an_error_in_the_record(model: EndlessModel, tmp_path: Path) -> None:
    await run(options(model, "finisher", tmp_path, endstop(tmp_path), failing=True))
    (one,) = records.runs_in(tmp_path / "runs")
    found = [(event.status, event.content) for event in one.events if type(event).__name__ == "ToolCallResult"]
    assert found == [("error", "no such file")] * 2 + [("ok", "noted")]


async def test_hooks_of_your_own_stay(model: EndlessModel, tmp_path: Path) -> None:
    seen = []

    async def mine(event: Any, tool_use_id: str | None, context: Any) -> Any:
        seen.append(event["tool_name"])
        return {}

    both = endstop(tmp_path).hooks({"PostToolUse": [HookMatcher(hooks=[mine])]})
    await run(options(model, "finisher", tmp_path, None, hooks=both))
    assert seen == ["mcp__mine__work"] * 2 + ["mcp__mine__finish_task"]
    assert records.ends(tmp_path / "runs") == [("completed", 3)]


BELOW = {
    "helper": AgentDefinition(description="Helps.", prompt="You help.", tools=["mcp__mine__work"], model="inherit")
}


@pytest.mark.parametrize("background", [False, True])
async def test_a_sub_agent_has_a_run_of_its_own_and_the_agent_above_is_told_why_it_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, background: bool
) -> None:
    for name in foreign_variables():
        monkeypatch.delenv(name)

    class AboveAndBelow(ScriptedModel):
        """Replies to the sub-agent with the same call for ever, and to the agent above as the script says."""

        def reply(self, body: dict[str, Any]) -> tuple[int, str, list[tuple[str, str, str]], bool]:
            if "You help." not in json.dumps(body.get("system", "")):
                return super().reply(body)
            with self._lock:
                self.requests.append({})
                return len(self.requests), "", [(f"below_{len(self.requests)}", "work", '{"n": 1}')], False

    task = {"description": "d", "prompt": "Look.", "subagent_type": "helper", "run_in_background": background}
    with serving(AboveAndBelow()) as model:
        assert isinstance(model, ScriptedModel)
        model.scripts["above"] = [("", [("call_1", "Agent", json.dumps(task))])]
        asked = options(model, "above", tmp_path, endstop(tmp_path), tools=["Agent"], agents=BELOW)
        await run(asked)
        above = [request for request in model.requests if request]
    ends = {run.started.prompt: run.finished.outcome for run in records.runs_in(tmp_path / "runs") if run.finished}
    assert (ends["Look."] if background else ends[None]).stop_reason == "stuck"
    assert "[endstop stopped this run: the call " in json.dumps(above[-1]["messages"])
    assert ends["go"].stop_reason == "text_final"


async def test_a_request_that_fails_is_raised_as_ever_and_ends_the_run(model: EndlessModel, tmp_path: Path) -> None:
    asked = options(model, "talker", tmp_path, endstop(tmp_path))
    asked.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    with pytest.raises(Exception, match="error result"):
        await run(asked)
    assert records.ends(tmp_path / "runs") == [("provider_error", 1)]


@pytest.mark.parametrize("method", ["prompt", "decide", "response"])
async def test_a_follower_that_fails_lets_the_session_go_on(
    model: EndlessModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with broken(method):
        _, ended = await run(options(model, "talker", tmp_path, endstop(tmp_path)))
    assert ended.result == "The port is 8080."
    assert "broken" in caplog.text


async def test_a_run_that_no_hook_ends_is_ended_with_the_adapter(model: EndlessModel, tmp_path: Path) -> None:
    mine = endstop(tmp_path)
    with pytest.raises(Exception, match="maximum number of turns"):
        await run(options(model, "circle", tmp_path, mine, max_turns=2))
    (path,) = (tmp_path / "runs").glob("*.jsonl")
    assert read_record(path).runs[0].finished is None
    mine.close()
    assert [steps for _, steps in records.ends(tmp_path / "runs")] == [2]
