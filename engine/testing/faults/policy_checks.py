"""Makes runs of random models under a policy, and checks that its decisions are pure, do not raise, and end the run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ...decision import Facts, FinishReport, Policy, ReasoningDelta, ToolCallDelta, WrongUse, decide, fold
from ...decision import events as ev
from ...decision.errors import error_text
from ...decision.rules import Rule
from ...decision.wrong_calls import explained
from ...engine import Engine
from ...option_groups import Decide, Hooks, Runtime
from ...providers import Request, Scripted, Unavailable, call, say
from ...records.reader import read_record
from ...run import Run
from ...tools.tool import Tool
from ..fakes import LoopClock
from .cancel_points import Attempt
from .invariants import Broken
from .simulated_loop import check_no_loop
from .violations import FaultReport, Points, Stopwatch, chosen, record_in

MODELS = 10_000
"""Number of random models."""
REQUESTS_PER_STEP = 4
"""Maximum number of requests per allowed step; a policy that makes more does not end."""
MORE_REQUESTS = 20
"""Number of additional requests, such as for a closing step."""
FEW_STEPS = 3
"""Number of steps or rounds up to which a completing model completes in its first step, because no more are allowed."""
COMPLETED = ("completed", "text_final", "token_limit", "cost_limit", "time_limit", "tool_call_limit")
"""How a run may end whose model completes in each step: as completed, or by a limit that is used up by then."""
_WORDS = ("", " ", "Done.", "I look into it.", "What shall I do?", "äöü 漢字", "word " * 200)
_BROKEN_ARGUMENTS = ("", "{", "[]", "null", '{"other": 1}', '{"path": 3}')
_FINISHES = ("stop", "tool_calls", "length", "content_filter", "context_full")


@explained
def check_policy(
    policy: Policy,
    *,
    rules: Sequence[Rule] = (),
    points: Points = 200,
    seed: int = 0,
    seconds: float | None = None,
) -> FaultReport:
    """Make runs of random models under a policy and check each decision, and every invariant.

    Most models mix texts, calls that work, fail or cannot be read, and broken responses, until they happen to complete.
    One in five calls tools forever, so that the policy must end it. One in five works for one step and then completes
    in each, so that the policy must accept it. Time is simulated.

    rules: your own rules and guards, which the policy names.
    points: how many of the 10,000 models to try, chosen with `seed`; or exactly these; None for all. seconds: real
    seconds after which no further model is tried; None for no limit.

    Raises WrongUse inside a running event loop, for arguments that cannot work, and for a policy that names unknown
    rules.
    """
    check_no_loop("check_policy")
    if not isinstance(policy, Policy):
        raise WrongUse(f"check_policy: {policy!r} is not a policy: give Policy(...), or policies['strict']")
    report, watch = FaultReport("check_policy", of=MODELS), Stopwatch(seconds)
    _engine(policy, rules, _Model(1, policy))  # an unusable policy is rejected here
    judged = partial(decide, user_rules=tuple(rules))
    with tempfile.TemporaryDirectory(prefix="endstop_faults") as folder, asyncio.Runner() as checks:
        for point in chosen(points, range(1, MODELS + 1), seed):
            if report.full or watch.up:
                break
            model, path = _Model(point, policy), record_in(folder)
            attempt = Attempt(partial(_start, policy, rules, model), path)
            report.tried += 1
            report.ends[attempt.ended] += 1
            broken = checks.run(attempt.check())
            if attempt.raised is not None:
                broken.append(("passed_on", error_text(attempt.raised)))
            if model.endless:
                broken.append(("ends", f"the model was asked {model.asked} times"))
            elif model.completes and attempt.ended not in COMPLETED:
                broken.append(("completes", f"it completed in each step, but the run ended as {attempt.ended}"))
            broken += _impure(path, policy, judged)
            report.add(f"a model that {model.kind}", point, broken, f"points=[{point}]")
    report.seconds = watch.passed
    return report


def _start(policy: Policy, rules: Sequence[Rule], model: _Model, record: Path) -> Run[Any]:
    return _engine(policy, rules, model).start("Begin", record=record)


def _engine(policy: Policy, rules: Sequence[Rule], model: _Model) -> Engine:
    async def look(path: str) -> str:
        await asyncio.sleep(0.1)
        return f"read {path}"

    async def change(path: str) -> str:
        await asyncio.sleep(0.1)
        return f"changed {path}"

    async def fail(path: str) -> str:
        raise ValueError(f"no {path}")

    tools = [
        Tool(look, description="Look.", reads=True),
        Tool(change, description="Change."),
        Tool(fail, description="Fail."),
    ]
    hooks, runtime = Hooks(rules=tuple(rules)), Runtime(clock=LoopClock())
    return Engine(Scripted(model.respond), tools=tools, policy=policy, hooks=hooks, runtime=runtime)


class _Model:
    """One of the random models."""

    def __init__(self, number: int, policy: Policy) -> None:
        self.asked = 0
        """Number of requests that it got."""
        self.endless = False
        """Whether it got more requests than any policy that ends makes."""
        self.completes = number % 5 == 0
        """Whether it completes in each step, after the first one if there are enough steps."""
        self._never = number % 5 == 1
        self.kind = "completes at once" if self.completes else "only calls tools" if self._never else "does anything"
        self._chance = Random(number)
        steps = min(policy.limits.most_steps, policy.limits.rounds or policy.limits.most_steps)
        self._works_first = steps > FEW_STEPS
        self._by_text = policy.completion == "none"
        self._most = REQUESTS_PER_STEP * policy.limits.most_steps + MORE_REQUESTS

    def respond(self, request: Request) -> Any:
        """Return the next response."""
        self.asked += 1
        if self.asked > self._most:
            self.endless = True
            raise RuntimeError("this run does not end")
        if self._never:
            return self._working_call()
        if self.completes:
            return self._working_call() if self.asked == 1 and self._works_first else self._completion()
        return [part for _ in range(self._chance.randint(1, 3)) for part in self._part()]

    def _working_call(self) -> list[Any]:
        return call(self._chance.choice(("look", "change")), path=f"{self._chance.randrange(10**6)}.txt")

    def _completion(self) -> list[Any]:
        return say("The work is done.") if self._by_text else call("finish_task", summary="The work is done.")

    def _part(self) -> Sequence[Any]:
        chance = self._chance
        match chance.randrange(9):
            case 0:
                return say(chance.choice(_WORDS), chance.randint(1, 3))
            case 1:
                return [ReasoningDelta(chance.choice(_WORDS))]
            case 2 | 3:
                return self._working_call()
            case 4:
                return call("fail", path=chance.choice(_WORDS))
            case 5:
                return [ToolCallDelta(90, f"call_{self.asked}_x", "look", chance.choice(_BROKEN_ARGUMENTS))]
            case 6:
                return [FinishReport(chance.choice(_FINISHES), "made up")]  # type: ignore[arg-type]
            case 7:
                return [Unavailable("overloaded")] if chance.random() < 0.3 else call("nobody", path="x")
            case _:
                return self._completion()


def _impure(path: Path, policy: Policy, judged: Decide) -> Iterator[Broken]:
    """Decide twice at each point where the run decided, and yield the differences."""
    try:
        record = read_record(path)
    except WrongUse:
        return  # an unreadable record is already a violation
    for run in record.runs:
        facts = Facts()
        for event in run.events:
            if isinstance(event, ev.StepFinished | ev.DecisionMade):
                try:
                    first, second = judged(facts, policy), judged(facts, policy)
                except Exception as error:
                    yield "pure", f"at event {event.seq}: {error_text(error)}"
                    return
                if first != second:
                    yield "pure", f"at event {event.seq} it decided {first!r}, and then {second!r}"
                    return
            facts = fold(facts, event)
