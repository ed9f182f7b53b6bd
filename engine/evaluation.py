"""Evaluation of a finished run: whether the work was good, independently of how the run ended.

Completed and exhausted runs are evaluated, so a run that hit a limit can still pass. The verdict is separate from the
status. If an evaluator raises, hangs or returns something invalid, the verdict is `not_run`, with the reason.

A command gets `--res_log_file`, `--agent_workspace`, `--groundtruth_workspace` and `--launch_time` (those that are
known), and passes with exit code 0. A plain command gets no arguments and goes through the shell. Both find the same
four values in their environment, as `ENDSTOP_RES_LOG_FILE` and so on.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic

from .decision import Outcome, Status
from .decision.wrong_calls import checked
from .tools.child_process import run_command
from .tools.run_context import DepsT, RunContext

EVALUATED_STATUSES: frozenset[Status] = frozenset({"completed", "exhausted"})
"""Statuses of runs whose work is evaluated. A run that ended on a question in its text is also evaluated."""
VARIABLES = {
    name: f"ENDSTOP_{name.upper()}"
    for name in ("res_log_file", "agent_workspace", "groundtruth_workspace", "launch_time")
}
"""Environment variables of a command: the record, the two folders, and when the run began (ISO 8601). Unknown values
are not set."""
MAX_OUTPUT_CHARACTERS = 20_000
"""Most characters of a command's output that are kept, from its end."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationInput(Generic[DepsT]):
    """Input of an evaluator."""

    outcome: Outcome
    """The outcome of the run, without this evaluation."""
    record: str | None
    """Path of the record so far, if one is kept."""
    started_at: str
    """Start of the run, ISO 8601."""
    context: RunContext[DepsT] = field(default_factory=RunContext)
    """Ids and dependencies of the run, and the owner and metadata of its session."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Answer of an evaluator."""

    passed: bool
    """Whether the work is good: the outcome's verdict is then `passed`, else `failed`."""
    details: dict[str, Any] = field(default_factory=dict)
    """Anything else that is known, as JSON values; the outcome holds it as `evaluation`."""


EvaluatorAnswer = Evaluation | bool | Mapping[str, Any]
"""Answer of an evaluator. A mapping has the verdict in `pass` (or `passed`): True, False, or None if the work could not
be judged. Its other members are kept as the details."""
Evaluator = Callable[[EvaluationInput], Awaitable[EvaluatorAnswer] | EvaluatorAnswer]


class CommandEvaluator:
    """An evaluator that runs a command, as benchmarks of agents do.

    The command gets this process's whole environment, including keys, because an evaluator may ask a model. If it
    executes what the model wrote, it should not pass the keys on.

    workspace: the folder that the agent worked in. reference: a folder with the expected result.
    """

    def __init__(
        self, command: str, *, workspace: str | None = None, reference: str | None = None, plain: bool = False
    ) -> None:
        self.command = command
        self.plain = plain
        """Whether the command is a shell line without arguments: `grep -q 80 "$ENDSTOP_AGENT_WORKSPACE/a.ini"`."""
        self.workspace = workspace
        self.reference = reference
        self.__qualname__ = f"CommandEvaluator({command!r})"

    async def __call__(self, evaluated: EvaluationInput) -> Evaluation:
        """Run the command; exit code 0 passes."""
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
