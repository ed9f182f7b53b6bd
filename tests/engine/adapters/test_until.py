"""`until` in each framework: an agent ends once its work is right, and not before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from endstop import Impossible, Limits, NotMet, Policy, Until, WrongUse
from endstop.decision import Outcome
from endstop.decision import events as ev
from msgspec.structs import replace

from . import loops, records
from .checked_work import CHECK, GOAL, CheckedWork
from .endless_model import serving
from .frameworks import FRAMEWORKS, skip_without
from .until_model import SAID, TOLD, CheckedModel

MOST = 14
"""Requests after which a framework gives up."""
WARNS = {"google_adk": [pytest.mark.filterwarnings("ignore")]}
"""Its models are reached through litellm, which warns of its own types."""
ON_EACH = pytest.mark.parametrize("framework", [pytest.param(one, marks=WARNS.get(one, [])) for one in loops.LOOPS])
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
CLAIMS = pytest.mark.parametrize("model", ["texter", "claimer"])


class Agent(CheckedWork):
    """An agent with a tool for its work, and what its record says of it."""

    def __init__(self, framework: str, folder: Path) -> None:
        super().__init__(folder)
        self.framework, self.records = framework, folder / "records"
        self.model = CheckedModel()
        self.tools: dict[str, Callable[[str, dict[str, Any]], tuple[str, bool]]] = {
            "work": lambda call_id, arguments: (self.work(1), False),
            "finish_task": lambda call_id, arguments: ("noted", False),
        }

    def run(self, name: str, until: Any, *, stream: bool = False, policy: Policy | str = "agent") -> str:
        """How it ends with a model of this name and a check."""
        adapter = import_module(f"endstop.adapters.{self.framework}")
        endstop = adapter.Endstop(policy, completion=("finish_task",), record=self.records, until=until)
        with serving(self.model) as model:
            ended = loops.run(self.framework, loops.Play(model.url, name, self.tools, "go", MOST, stream), endstop)
            endstop.runs.close()
        return ended

    @property
    def events(self) -> list[Any]:
        """The events of its only run."""
        (run,) = records.runs_in(self.records)
        return list(run.events)

    @property
    def outcome(self) -> Outcome:
        """The outcome of its only run."""
        (run,) = records.runs_in(self.records)
        assert run.finished is not None
        return run.finished.outcome

    def count(self, kind: type) -> int:
        """How many events of a kind its run has."""
        return sum(isinstance(event, kind) for event in self.events)

    @property
    def replays(self) -> bool:
        """Whether its record decides the same again."""
        return asyncio.run(records.replays(self.records))


@pytest.fixture
def agent(framework: str, tmp_path: Path) -> Agent:
    skip_without(framework)
    return Agent(framework, tmp_path)


@STREAMS
@ON_EACH
def test_an_agent_that_would_work_for_ever_ends_as_completed_once_its_work_is_right(
    agent: Agent, framework: str, stream: bool
) -> None:
    def check(run: Any) -> bool:
        return agent.lines >= GOAL

    ended = agent.run("worker", Until(check, folder=agent.folder), stream=stream)
    assert "The task is complete" in ended
    outcome = agent.outcome
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    assert outcome.checked_by == "check"
    assert agent.lines < MOST - 1
    assert agent.count(ev.CheckStarted) <= agent.lines + 1
    assert agent.replays


@CLAIMS
@STREAMS
@ON_EACH
def test_a_claim_that_comes_too_early_is_handed_back_and_the_agent_goes_on(
    agent: Agent, framework: str, stream: bool, model: str
) -> None:
    ended = agent.run(model, agent.until(), stream=stream)
    assert agent.lines == GOAL
    told = [str(body) for body in agent.model.requests if TOLD in str(body)]
    assert "1 passed, 2 failed" in told[0]
    outcome = agent.outcome
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    rejected = [event for event in agent.events if isinstance(event, ev.CompletionRejected)]
    assert [event.by for event in rejected] == ["until", "until"]
    assert SAID in ended or "The task is complete" in ended
    assert agent.count(ev.CheckStarted) <= GOAL + 1  # each state of the work once
    assert agent.replays


@ON_EACH
def test_work_that_does_not_change_is_checked_once(agent: Agent, framework: str) -> None:
    agent.tools["work"] = lambda call_id, arguments: ("nothing to do", False)
    counted = agent.folder.parent / "checks"
    agent.run("worker", agent.until(f"echo one >> {counted}; exit 1"), policy=Policy(limits=Limits(steps=5)))
    assert agent.outcome.stop_reason == "step_limit"
    assert agent.outcome.work == "wrong"
    assert counted.read_text().split() == ["one"]


@ON_EACH
def test_an_agent_whose_check_is_met_at_the_start_makes_no_request(agent: Agent, framework: str) -> None:
    for _ in range(GOAL):
        agent.work(1)
    ended = agent.run("worker", agent.until())
    assert agent.model.requests == []
    assert "already passed" in ended
    assert (agent.outcome.stop_reason, agent.outcome.steps) == ("until_met", 0)
    assert agent.replays


@ON_EACH
def test_work_that_cannot_be_done_ends_the_agent_as_blocked(agent: Agent, framework: str) -> None:
    def check(run: Any) -> Any:
        return Impossible("there is no disk") if agent.lines else NotMet("no line yet")

    ended = agent.run("worker", Until(check, folder=agent.folder))
    assert "there is no disk" in ended
    assert (agent.outcome.status, agent.outcome.stop_reason) == ("exhausted", "blocked")
    assert agent.lines < MOST - 1


@ON_EACH
def test_changes_that_bring_the_check_no_further_end_the_agent_as_stalled(agent: Agent, framework: str) -> None:
    policy = Policy(patience=replace(Policy().patience, checks_untold=1, checks=2))

    def check(run: Any) -> Any:
        return NotMet("always the same")

    ended = agent.run("worker", Until(check, folder=agent.folder), policy=policy)
    assert (agent.outcome.status, agent.outcome.stop_reason) == ("exhausted", "until_stalled")
    assert "was no better after" in ended
    assert any("always the same" in str(body) for body in agent.model.requests)


@CLAIMS
@ON_EACH
def test_claims_without_progress_end_the_agent(agent: Agent, framework: str, model: str) -> None:
    agent.tools["work"] = lambda call_id, arguments: ("nothing to do", False)
    agent.run(model, agent.until("echo 'FAILED: always'; exit 1"))
    assert (agent.outcome.status, agent.outcome.stop_reason) == ("exhausted", "completion_rejected")
    assert agent.outcome.work == "wrong"


@ON_EACH
def test_a_guarded_file_that_the_agent_changes_does_not_make_its_work_right(agent: Agent, framework: str) -> None:
    (agent.folder / "check.sh").write_text(f"echo 'FAILED: too few'; {CHECK}")

    def cheat(call_id: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        (agent.folder / "check.sh").write_text("exit 0")
        return "ok", False

    agent.tools["work"] = cheat
    agent.run("texter", agent.until("sh check.sh", guard=["check.sh"]))
    assert agent.outcome.stop_reason == "completion_rejected"
    assert agent.outcome.work == "wrong"
    assert any("check.sh" in str(body) and TOLD in str(body) for body in agent.model.requests)


@ON_EACH
def test_a_check_that_cannot_tell_lets_the_agent_end(agent: Agent, framework: str) -> None:
    assert SAID in agent.run("texter", agent.until("exit 125"))
    assert agent.lines == 1
    assert agent.outcome.work != "checked"


@pytest.mark.parametrize("module", FRAMEWORKS)
def test_a_check_that_cannot_work_is_refused_when_the_adapter_is_made(module: str) -> None:
    skip_without(module)
    adapter = import_module(f"endstop.adapters.{module}")
    with pytest.raises(WrongUse, match=re.escape("command not found: 'no-such-command'")):
        adapter.Endstop(until="no-such-command")
