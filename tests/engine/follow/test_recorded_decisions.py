"""A follower decides as the engine did: each recorded session is told to it step by step, and asked after each round.

A prompt handler answers without the model, which no loop of others does: these decisions are left out. So is the
record in which a person approves calls: another loop asks by itself, and tells the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Limits, read_record
from endstop.decision import Decision, GoOn, Pause, Stop
from endstop.decision.decisions import made_by_policy
from endstop.decision.events import (
    AttemptFailed,
    DecisionMade,
    MessageAdded,
    ResponseFinished,
    RunStarted,
    StepStarted,
    ToolCallResult,
)
from endstop.decision.messages import ToolResult
from endstop.follow import Follower
from endstop.records.reader import RecordedRun
from endstop.testing import FakeClock
from msgspec.structs import replace

RECORDS = Path(__file__).parents[2] / "records"
NAMES = sorted(path.stem for path in RECORDS.glob("*.jsonl") if path.stem != "approval")


async def follow(run: RecordedRun) -> list[tuple[Decision, Decision]]:
    """Tell a run to a follower. Returns each recorded decision of a policy with the follower's.

    Where it leaves it to the loop whether a text is the end, that is the decision that stands in its own record.
    """
    started, clock, decisions = run.started, FakeClock(), []
    made: list[Decision] = []
    follower = Follower(
        started.policy,
        tools=started.tools,
        model=started.model,
        system=started.system,
        clock=clock,
        on_event=lambda event: made.append(event.decision) if isinstance(event, DecisionMade) else None,
    )
    closing = False
    for event in run.events:
        await clock.advance(max(0.0, event.t / 1000 - clock.now()))
        match event:
            case RunStarted():
                follower.prompt(started.prompt or "")
            case MessageAdded(origin="user"):
                follower.prompt(event.text)
            case StepStarted():
                closing = event.closing
            case AttemptFailed(beside=False) if not closing:
                follower.failed(event.message, kind=event.kind, status=event.status)
            case ResponseFinished() if not closing:
                follower.response(
                    event.message.text,
                    event.message.calls,
                    reasoning=event.message.reasoning,
                    usage=event.usage,
                    finish=event.finish,
                    raw_finish=event.raw_finish,
                )
            case ToolCallResult() if not closing:
                follower.result(ToolResult(event.call_id, event.name, event.content, event.status))
            case DecisionMade() if made_by_policy(event.decision):
                decision = follower.decide()
                decisions.append((event.decision, made[-1] if decision.rule == "followed" else decision))
            case _:
                pass
    return decisions


def essence(decision: Decision) -> tuple[Any, ...]:
    """What a loop acts on."""
    match decision:
        case GoOn():
            return ("go on", decision.say, decision.remind)
        case Pause():
            return ("pause", decision.questions)
        case Stop(reason="provider_error"):
            return ("stop", decision.reason)  # what is said of it has changed since some records were made
        case Stop():
            return ("stop", decision.reason, decision.detail)


@pytest.mark.parametrize("name", NAMES)
async def test_a_follower_decides_as_the_engine_did(name: str) -> None:
    compared = [pair for run in read_record(RECORDS / f"{name}.jsonl").runs for pair in await follow(run)]
    compared = [pair for pair in compared if pair[0].rule != "control_flow" or essence(pair[0])[1] != "handled"]
    assert compared
    assert [essence(followed) for _, followed in compared] == [essence(recorded) for recorded, _ in compared]


async def test_another_policy_decides_otherwise() -> None:
    (run,) = read_record(RECORDS / "loop.jsonl").runs
    stricter = replace(run.started.policy, limits=Limits(steps=2))
    compared = await follow(replace(run, events=[replace(run.started, policy=stricter), *run.events[1:]]))
    assert any(essence(recorded) != essence(followed) for recorded, followed in compared)
