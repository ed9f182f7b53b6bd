"""Results of tau2-bench, made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import Reasoning, Usage
from endstop.decision import events as ev
from endstop.formats import FORMATS, Unreadable, detect_format

from .heard import called, hear

T = "2026-01-01T10:00:00"


def says(content: str | None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 10, "completion_tokens": 4}
    raw = {"finish_reason": "stop", "message": {"role": "assistant", "reasoning_content": "Hm."}}
    return {"role": "assistant", "content": content, "tool_calls": list(calls) or None, "timestamp": T, "cost": 0.5} | {
        "usage": usage, "raw_data": raw, **more,
    }  # fmt: skip


def user(content: str | None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, "tool_calls": list(calls) or None, "timestamp": T, **more}


def call(id: str, requestor: str = "assistant") -> dict[str, Any]:
    return {"id": id, "name": "look", "arguments": {"who": id}, "requestor": requestor}


def answer(id: str, requestor: str = "assistant", error: bool = False) -> dict[str, Any]:
    return {"id": id, "role": "tool", "content": f"of {id}", "requestor": requestor, "error": error, "timestamp": T}


GREETING = says("Hi!", usage=None, raw_data=None)
STOP = user("Thanks ###STOP###")


def simulation(*messages: dict[str, Any], reason: str = "user_stop", reward: float = 1.0) -> dict[str, Any]:
    return {"id": "u", "task_id": "7", "trial": 1, "termination_reason": reason, "messages": list(messages)} | {
        "reward_info": {"reward": reward}, "seed": 3,
    }  # fmt: skip


def results(*simulations: dict[str, Any]) -> dict[str, Any]:
    info = {"agent_info": {"llm": "vendor/m"}, "seed": 3}
    return {"timestamp": T, "info": info, "tasks": [{}], "simulations": list(simulations)}


def test_a_simulation_is_a_session_with_the_users_words_as_prompts() -> None:
    both = {"role": "tool", "tool_messages": [answer("a"), answer("b", error=True)]}
    data = results(simulation(GREETING, user("Help"), says(None, call("a"), call("b")), both, says("Done."), STOP))
    assert detect_format(data) == "tau2-bench"
    heard = hear("tau2-bench", data)
    assert (heard.session.id, heard.session.model) == ("task-7.trial-1", "vendor/m")
    assert [one.prompt for one in heard.of(ev.RunStarted)] == ["Help"]
    first, last = heard.of(ev.ResponseFinished)
    assert first.message.calls == (called("a", "look", '{"who":"a"}'), called("b", "look", '{"who":"b"}'))
    assert first.message.reasoning == (Reasoning("Hm."),)
    assert first.usage == Usage(input_tokens=10, output_tokens=4, cost_usd=0.5)
    assert [(one.content, one.status) for one in heard.results] == [("of a", "ok"), ("of b", "error")]
    assert (last.raw_finish, heard.stops, heard.outcomes[-1].verdict) == ("stop", ["custom:user_stop"], "passed")
    lost = heard.session.losses
    assert (lost["own words"], lost["last words"], lost["field: simulation.seed"]) == (1, 1, 1)
    assert lost["characters"] == len("Hi!Thanks###STOP###")


def test_the_users_own_tools_are_left_out_and_counted() -> None:
    acts = [user(None, call("u", "user")), answer("u", "user"), user("It blinks.", usage={"prompt_tokens": 1})]
    heard = hear("tau2-bench", simulation(GREETING, user("Help"), says("Look at it."), *acts, says("Good."), STOP))
    assert [one.prompt for one in heard.of(ev.RunStarted)] == ["Help", "It blinks."]
    lost = heard.session.losses
    assert (lost["user's tool"], lost["call"], lost["answer"], lost["message field: user.usage"]) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("reason", "stop", "status"),
    [
        ("max_steps", "step_limit", "exhausted"),
        ("agent_stop", "custom:agent_stop", "completed"),
        ("too_many_errors", "custom:too_many_errors", "exhausted"),
        ("agent_error", "custom:agent_error", "failed"),
    ],
)
def test_the_termination_reason_is_the_end(reason: str, stop: str, status: str) -> None:
    heard = hear("tau2-bench", simulation(user("Help"), says("Hm."), reason=reason, reward=0.5))
    assert (heard.stops, heard.outcomes[0].status, heard.outcomes[0].verdict) == ([stop], status, "failed")


def test_a_transfer_is_a_completion() -> None:
    transfer = {**call("t"), "name": "transfer_to_human_agents"}
    heard = hear("tau2-bench", simulation(user("Help"), says(None, transfer), answer("t")))
    assert len(heard.of(ev.CompletionAccepted)) == 1


def test_simulations_without_a_response_and_by_voice_are_named() -> None:
    found = FORMATS["tau2-bench"].sessions(results(simulation(GREETING, STOP), simulation(user("Help"), says("Hm."))))
    assert next(found).id == "task-7.trial-1"
    with pytest.raises(Unreadable, match="1 simulations"):
        next(found)
    voice = {**simulation(), "messages": None, "ticks": [{}]}
    assert detect_format(voice) == "tau2-bench"
    with pytest.raises(Unreadable, match="by voice"):
        list(FORMATS["tau2-bench"].sessions(voice))
