"""Sessions of Copilot CLI, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.decision.events import ParentCall
from endstop.formats import FORMATS, FoundSession, detect_format, find_sessions

from .heard import called, hear


def event(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data, "id": "e", "timestamp": "2026-01-01T10:00:00Z", "parentId": None}


def says(api: str, text: str, *calls: str, **more: Any) -> dict[str, Any]:
    requests = [{"toolCallId": id, "name": "bash", "arguments": {"command": id}, "type": "function"} for id in calls]
    return event("assistant.message", content=text, toolRequests=requests, apiCallId=api, model="m", **more)


def answers(id: str, content: str, **more: Any) -> dict[str, Any]:
    return event("tool.execution_complete", toolCallId=id, result={"content": content}, **{"success": True, **more})


START = event("session.start", sessionId="abc", copilotVersion="1.0.95", selectedModel="m")


def test_events_become_prompts_responses_and_results(tmp_path: Path) -> None:
    counted = {"apiCallId": "r1", "inputTokens": 30, "outputTokens": 4, "cacheReadTokens": 20, "reasoningTokens": 1}
    lines = [
        START,
        event("system.message", content="Be brief.", role="system"),
        event("user.message", content="List", transformedContent="<now/> List", attachments=[]),
        event("assistant.turn_start", turnId="0"),
        event("session.usage_record", usage=counted),
        says("r1", "I list.", "c1", reasoningText="Hm.", reasoningOpaque="sig"),
        says("r1", "", "c2"),
        event("tool.execution_start", toolCallId="c1", toolName="bash"),
        answers("c2", "no", shellExecution={"exitCode": 1}),
        answers("c1", "A", toolTelemetry={"metrics": {"x": 1}}),
        event("system.notification", content="An agent is done."),
        says("r2", "Done."),
    ]
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, found.session.system) == ("copilot-cli", "abc", "Be brief.")
    heard = hear("copilot-cli", lines)
    assert detect_format(lines) == "copilot-cli"
    first, last = heard.of(ev.ResponseFinished)
    assert first.message.reasoning == (Reasoning("Hm.", "sig", vendor="copilot"),)
    assert first.message.calls[0] == called("c1", "bash", '{"command":"c1"}')
    assert first.usage == Usage(input_tokens=30, output_tokens=4, cached_tokens=20, reasoning_tokens=1)
    assert last.usage.estimated
    assert [(one.content, one.status) for one in heard.results] == [("A", "ok"), ("no", "error")]
    assert [(one.text, one.origin) for one in heard.of(ev.MessageAdded)] == [("An agent is done.", "nudge")]
    losses = heard.session.losses
    assert losses["line: tool.execution_start"] == losses["line field: tool.execution_complete.toolTelemetry"] == 1


def test_an_abort_is_cancelled_and_an_error_is_a_failed_request() -> None:
    lines = [START, event("user.message", content="Go"), says("r1", "Well"), event("abort", reason="user")]
    lines += [event("user.message", content="On"), event("session.error", message="slow down", statusCode=429)]
    heard = hear("copilot-cli", [*lines, event("system.notification", content="The end.")])
    assert heard.stops == ["cancelled", "provider_error"]
    assert [one.status for one in heard.of(ev.AttemptFailed)] == [429]
    assert heard.session.losses["last words"] == 1


def test_a_sub_agent_is_a_session_of_its_own() -> None:
    lines = [
        START,
        event("user.message", content="Go"),
        event(
            "assistant.message",
            content="",
            apiCallId="r1",
            toolRequests=[{"toolCallId": "task", "name": "task", "arguments": {"prompt": "Look."}}],
        ),
        says("s1", "", "c1", parentToolCallId="task"),
        answers("c1", "A", parentToolCallId="task"),
        says("s2", "Seen.", parentToolCallId="task"),
        answers("task", "Seen."),
        says("r2", "Done."),
    ]
    main, agent = FORMATS["copilot-cli"].sessions(lines)
    assert (main.id, agent.id) == ("abc", "abc.task")
    assert (len(main.messages), len(agent.messages)) == (4, 4)
    assert agent.messages[0].message == UserMessage("Look.")
    assert (main.parent, agent.parent) == (None, ParentCall(session_id="abc", call_id="task"))


def test_the_prompt_of_a_sub_agent_is_its_own_and_a_systems_is_the_loops() -> None:
    task = {"toolCallId": "task", "name": "task", "arguments": {"prompt": "Look."}}
    lines = [
        START,
        event("user.message", content="Go"),
        event("user.message", content="Tools are deferred.", source="system"),
        event("assistant.message", content="", apiCallId="r1", toolRequests=[task]),
        {**event("subagent.started", toolCallId="task"), "agentId": "task"},
        {**event("user.message", content="Look well.", source="agent-abc"), "agentId": "task"},
        {**says("s1", "Seen.", parentToolCallId="task"), "agentId": "task"},
        answers("task", "Seen."),
        says("r2", "Done."),
    ]
    main, agent = FORMATS["copilot-cli"].sessions(lines)
    said = [[(one.message.text, one.origin) for one in found.messages if isinstance(one.message, UserMessage)]
            for found in (main, agent)]  # fmt: skip
    assert said == [[("Go", "user"), ("Tools are deferred.", "nudge")], [("Look well.", "user")]]


def test_the_system_prompt_that_comes_with_each_prompt_is_no_word_of_the_loop() -> None:
    system = event("system.message", content="Be brief.", role="system")
    changed = event("system.message", content="Be very brief.", role="system")
    turns = [[one, event("user.message", content="Go"), says(f"r{n}", "Gone.")] for n, one in enumerate([system] * 2)]
    heard = hear(
        "copilot-cli", [START, *turns[0], *turns[1], changed, event("user.message", content="On"), says("r", "So.")]
    )
    assert heard.session.system == "Be brief."
    assert not heard.of(ev.MessageAdded)
    assert heard.session.losses["line: system.message (changed)"] == 1


def test_what_is_said_while_a_compaction_runs_stays_in_the_context() -> None:
    lines = [
        START,
        event("user.message", content="Go"),
        says("r1", "", "c1"),
        answers("c1", "A"),
        event("session.compaction_start", conversationTokens=80),
        says("r2", "", "c2"),
        answers("c2", "B"),
        event("session.compaction_complete", success=True, preCompactionTokens=90, summaryContent="It read A."),
        says("r3", "Done."),
    ]
    heard = hear("copilot-cli", lines)
    assert [(one.before_tokens, one.dropped) for one in heard.of(ev.ContextCompacted)] == [(90, 3)]
    assert [one.content for one in heard.results] == ["B"]
    failed = event("session.compaction_complete", success=False, error="no")
    heard = hear("copilot-cli", [*lines[:7], failed, lines[-1]])
    assert not heard.of(ev.ContextCompacted)
    assert heard.session.losses["line: session.compaction_complete"] == 1


def test_the_token_counts_at_the_end_are_split_over_responses_that_have_none() -> None:
    counted = {"inputTokens": 90, "outputTokens": 12, "cacheReadTokens": 40}
    end = event("session.shutdown", modelMetrics={"m": {"usage": counted}, "n": {"usage": counted}})
    lines = [
        START,
        event("user.message", content="Go"),
        says("r1", "", "c1"),
        answers("c1", "A"),
        says("r2", "So."),
        end,
    ]
    heard = hear("copilot-cli", lines)
    used = [one.usage for one in heard.of(ev.ResponseFinished)]
    assert [sum(one.input_tokens for one in used), sum(one.output_tokens for one in used)] == [180, 24]
    assert heard.session.losses["usage split"] == 1
    heard = hear("copilot-cli", [*lines, event("session.resume")])
    assert all(one.usage.estimated for one in heard.of(ev.ResponseFinished)), "what follows is not counted"
    assert not heard.session.losses["usage split"]
