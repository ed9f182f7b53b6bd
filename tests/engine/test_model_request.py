"""The request of a step, made again from a record, is the one that the model got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, ModelOptions, RecordOptions, Tool, read_record
from endstop.decision import Compaction, Limits, Patience, Policy, SystemMessage, Usage, UsageReport
from endstop.model_request import StepRequest, find_request
from endstop.providers import Request, Scripted, call
from endstop.records.scan import scan
from endstop.tools import finish_task

BIG = "x" * 4000


async def fetch(n: int) -> str:
    return f"{n} {BIG}"


FETCH = Tool(fetch, description="Fetch.")


def sent(request: Request) -> tuple[Any, ...]:
    """What a provider was asked: system prompt, messages, tools, tool choice, settings."""
    messages = (*request.messages, *request.ephemeral)
    system = messages[0].text if isinstance(messages[0], SystemMessage) else ""
    return system, messages[1 if system else 0 :], request.tools, request.tool_choice, dict(request.settings)


def told(found: StepRequest | None) -> tuple[Any, ...]:
    assert found is not None
    return found.system, found.messages, found.tools, found.tool_choice, found.settings


def responses(steps: int) -> Any:
    """A model that fetches in so many steps of each run, and then finishes; it reports the size of its context."""
    done = 0

    def respond(request: Request) -> Any:
        nonlocal done
        if request.attempt == "aside":
            return "They fetched a few things."
        size = sum(len(str(message)) for message in request.messages) // 4
        usage = UsageReport(Usage(input_tokens=size, output_tokens=10))
        done += 1
        if done % (steps + 1) == 0 or request.tool_choice == "none":
            return [call("finish_task", summary="all fetched") if request.tool_choice != "none" else "Enough.", usage]
        return [call("fetch", n=done), usage]

    return respond


@pytest.mark.parametrize("strategy", ["shorten_results", "drop_oldest", "summarise"])
async def test_every_request_of_two_runs_is_found_in_the_record_also_after_a_compaction(
    strategy: Any, tmp_path: Path
) -> None:
    compaction = Compaction(window=5000, strategies=(strategy,), keep_results=1, keep_messages=3)
    policy = Policy(compaction=compaction, limits=Limits(steps=30, soft_steps=5), patience=Patience(compactions=9))
    provider = Scripted(responses(14))
    options = ModelOptions(settings={"temperature": 0.5})
    engine = Engine(
        provider,
        tools=[FETCH, finish_task],
        policy=policy,
        system="Fetch what is asked for.",
        model_options=options,
    )
    session = engine.session(record=tmp_path / "r.jsonl")
    for prompt in ("Fetch all", "And again"):
        assert (await session.run(prompt)).status == "completed"
    record = tmp_path / "r.jsonl"
    assert any(event.__class__.__name__ == "ContextCompacted" for event in scan(record))
    asked = [request for request in provider.requests if request.attempt != "aside"]
    steps = [(run, step) for run in (1, 2) for step in range(1, 16)]
    assert len(asked) == len(steps)
    assert any(request.ephemeral for request in asked), "a reminder of the soft limit"
    for request, (run, step) in zip(asked, steps, strict=True):
        found = find_request(scan(record, attachments=True), run, step)
        assert told(found) == sent(request), (run, step)
        assert (found.source, found.redacted, found.model) == ("recorded", False, "scripted")  # type: ignore[union-attr]


async def test_the_closing_step_allows_no_call_and_its_message_is_sent_once(tmp_path: Path) -> None:
    provider = Scripted(responses(50))
    engine = Engine(provider, tools=[FETCH, finish_task], policy=Policy(limits=Limits(steps=2)))
    session = engine.session(record=tmp_path / "r.jsonl")
    assert (await session.run("Fetch all")).stop_reason == "step_limit"
    closing = find_request(scan(tmp_path / "r.jsonl"), 1, 3)
    assert told(closing) == sent(provider.requests[-1])
    assert closing is not None
    assert closing.tool_choice == "none"


async def test_a_step_that_the_record_does_not_have_is_not_found(tmp_path: Path) -> None:
    engine = Engine(Scripted("Yes."))
    await engine.session(record=tmp_path / "r.jsonl").run("Well?")
    events = read_record(tmp_path / "r.jsonl").runs[0].events
    assert find_request(events, 1, 1) is not None
    assert find_request(events, 1, 2) is None
    assert find_request(events, 2, 1) is None


async def test_a_redacted_record_says_that_the_model_got_other_texts(tmp_path: Path) -> None:
    engine = Engine(Scripted("Yes."), record_options=RecordOptions(redact=lambda text: text.replace("secret", "***")))
    await engine.session(record=tmp_path / "r.jsonl").run("Is it secret?")
    found = find_request(scan(tmp_path / "r.jsonl"), 1, 1)
    assert found is not None
    assert found.redacted
    assert found.messages[-1].text == "Is it ***?"  # type: ignore[union-attr]
