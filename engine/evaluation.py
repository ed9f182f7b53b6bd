"""Evaluates the work of a finished run: whether it was good, independently of how the run ended.

Completed and exhausted runs are evaluated, so a run that hit a limit can still pass. The verdict is separate from the
status. If an evaluator raises, hangs or returns something invalid, the verdict is `not_run`, with the reason.

A command gets `--res_log_file`, `--agent_workspace`, `--groundtruth_workspace` and `--launch_time` (those that are
known), and passes with exit code 0. A plain one gets no arguments and goes through the shell. Both find the same four
in their environment, as `ENDSTOP_RES_LOG_FILE` and so on.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic

from msgspec.structs import replace

from .context import Context
from .decision import EvaluationVerdict, Outcome, Status
from .decision.events import EvaluationFinished, StageFinished
from .decision.outcome import RUN_STAGE_STATUS, StageStatus
from .effects import EffectKey
from .hooks import qualified_name, run_command
from .tools.results import to_jsonable
from .tools.run_context import DepsT, RunContext
from .tools.user_functions import call_user_function, describe_error, run_in_own_task

EVALUATED_STATUSES: frozenset[Status] = frozenset({"completed", "exhausted"})
"""The statuses of runs whose work is evaluated. One that ended on a question in its text is evaluated, too."""
VARIABLES = {
    name: f"ENDSTOP_{name.upper()}"
    for name in ("res_log_file", "agent_workspace", "groundtruth_workspace", "launch_time")
}
"""What a command finds in its environment: the record, the two folders, and when the run began (ISO 8601). What is not
known is not set."""
MAX_OUTPUT_CHARACTERS = 20_000
"""Characters of a command's output that are kept, from its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationInput(Generic[DepsT]):
    """What an evaluator is called with."""

    outcome: Outcome
    record: str | None
    """Path of the record so far, if one is kept."""
    started_at: str
    """When the run began, ISO 8601."""
    context: RunContext[DepsT] = field(default_factory=RunContext)
    """Ids and dependencies of the run, and the owner and metadata of its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What an evaluator returns."""

    passed: bool
    details: dict[str, Any] = field(default_factory=dict)


EvaluatorAnswer = Evaluation | bool | Mapping[str, Any]
"""A mapping says the verdict with `pass` (or `passed`): True, False, or None if the work could not be judged. What else
it holds is kept as the details."""
Evaluator = Callable[[EvaluationInput], Awaitable[EvaluatorAnswer] | EvaluatorAnswer]


class CommandEvaluator:
    """An evaluator that runs a command, as benchmarks of agents do.

    The command sees our whole environment, including keys, because an evaluator may ask a model. If it executes what
    the model wrote, it should not pass the keys on.

    workspace: the folder that the agent worked in. reference: a folder with the expected result.
    """

    def __init__(
        self, command: str, *, workspace: str | None = None, reference: str | None = None, plain: bool = False
    ) -> None:
        self.command = command
        self.plain = plain
        """Whether it is a line for the shell that gets no arguments: `grep -q 80 "$ENDSTOP_AGENT_WORKSPACE/a.ini"`."""
        self.workspace = workspace
        self.reference = reference
        self.__qualname__ = f"CommandEvaluator({command!r})"

    async def __call__(self, evaluated: EvaluationInput) -> Evaluation:
        """Run the command; it passes with exit code 0."""
        given = {
            "res_log_file": evaluated.record,
            "agent_workspace": self.workspace,
            "groundtruth_workspace": self.reference,
            "launch_time": evaluated.started_at,
        }
        known = {name: value for name, value in given.items() if value is not None}
        env = {name: value for name, value in os.environ.items() if name not in VARIABLES.values()}
        env |= {VARIABLES[name]: value for name, value in known.items()}
        arguments = [part for name, value in known.items() for part in (f"--{name}", value)]
        command = self.command if self.plain else [*shlex.split(self.command), *arguments]
        code, output = await run_command(command, None, env)
        details = {"command": self.command, "exit_code": code, "output": output[-MAX_OUTPUT_CHARACTERS:]}
        return Evaluation(passed=code == 0, details=details)


async def run_evaluation(context: Context, evaluator: Evaluator | None, outcome: Outcome) -> Outcome:
    """Evaluate the run if its status allows it, log the stages, and return the outcome with the verdict."""
    context.log.append(StageFinished(stage="run", status=RUN_STAGE_STATUS[outcome.status], detail=outcome.stop_reason))
    if evaluator is None or not _is_evaluated(outcome):
        status: StageStatus = "absent" if evaluator is None else "skipped"
        context.log.append(StageFinished(stage="evaluate", status=status, detail=f"the run is {outcome.status}"))
        return outcome
    began = context.clock.now()
    finished = await _evaluate(context, evaluator, outcome)
    duration = round((context.clock.now() - began) * 1000)
    status = "ok"
    if finished.verdict == "not_run" and "error" in finished.details:
        status = "failed" if context.cancelled is None else "cancelled"
    context.log.append(StageFinished(stage="evaluate", status=status, detail=finished.verdict, duration_ms=duration))
    return replace(outcome, verdict=finished.verdict, evaluation={"name": finished.name, **finished.details})


def _is_evaluated(outcome: Outcome) -> bool:
    """Whether the work is evaluated. A run that a call has paused is not: it goes on once the user has answered."""
    return outcome.status in EVALUATED_STATUSES or (outcome.status == "awaiting_input" and not outcome.questions)


async def _evaluate(context: Context, evaluator: Evaluator, outcome: Outcome) -> EvaluationFinished:
    verdict: EvaluationVerdict = "not_run"
    details: dict[str, Any] = {"error": "cancelled before it had a verdict"}
    name = qualified_name(evaluator)
    with context.cancellable():
        key = EffectKey(outcome.steps, "evaluator", name)
        verdict, details = await context.effects.once(key, partial(_call_evaluator, context, evaluator, outcome))
    return context.log.append(EvaluationFinished(verdict=verdict, name=name, details=details))


async def _call_evaluator(
    context: Context, evaluator: Evaluator, outcome: Outcome
) -> tuple[EvaluationVerdict, dict[str, Any]]:
    await context.flush()
    seconds = context.policy.deadlines.evaluation
    said: Any = None
    with context.clock.deadline(seconds) as deadline:
        try:
            looked_at = EvaluationInput(
                outcome=outcome,
                record=context.record_path,
                started_at=context.started_at,
                context=context.run_context(),
            )
            work = call_user_function(evaluator, looked_at)
            said = await run_in_own_task(work, qualified_name(evaluator), run_id=context.run_id, role="evaluator")
        except Exception as error:
            return "not_run", {"error": describe_error(error)}
    if deadline.cancelled_caught:
        return "not_run", {"error": f"no verdict within {seconds:g} seconds"}
    return _read_answer(said)


def _read_answer(said: Any) -> tuple[EvaluationVerdict, dict[str, Any]]:
    """The verdict and the details of what an evaluator answered; `not_run`, with an error, if it is of another form."""
    if isinstance(said, bool):
        return _VERDICTS[said], {}
    if isinstance(said, Evaluation):
        passed, details, where = said.passed, said.details, "Evaluation.passed"
    elif isinstance(said, Mapping) and (key := next((name for name in _PASSED if name in said), "")):
        passed, details, where = said[key], {name: said[name] for name in said if name != key}, f"{key!r}"
        if passed is None:
            return "not_run", dict(to_jsonable(details))
    else:
        what = f"a mapping without {_PASSED[0]!r}" if isinstance(said, Mapping) else type(said).__name__
        return "not_run", {"error": f"an evaluator answers Evaluation, bool or a mapping with 'pass', not {what}"}
    if not isinstance(passed, bool):
        return "not_run", {"error": f"{where} is True or False, not {passed!r}"}
    return _VERDICTS[passed], dict(to_jsonable(details))


_PASSED = ("pass", "passed")
"""Members of a mapping that say the verdict."""
_VERDICTS: dict[bool, EvaluationVerdict] = {True: "passed", False: "failed"}
