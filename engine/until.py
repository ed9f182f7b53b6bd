"""`Until`: the check that says when the work of a run is done (`Engine(until=...)`).

    Engine(model, tools=workspace_tools("."), until="pytest -q")
    Engine(model, tools=tools, until=Until("pytest -q", "ruff check .", folder=repo, guard=["tests/**"]))

The run ends as `until_met` at the step where all checks are met, in the middle of a response if need be. Until then no
completion, final text or question ends it. `until_background.py` runs the checks, `decision/until_rules.py` decides.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, cast

from .check_answers import Check, CommandCheck
from .decision import Policy, WrongUse
from .decision.errors import function_name
from .decision.until_rules import policy_for_until
from .decision.wrong_calls import checked
from .tools.control import report_blocked
from .tools.tool import Tool, Toolbox
from .tools.user_functions import check_functions
from .work.guarded_files import GuardedFiles

CHECK_SECONDS = 600.0
"""Default of `Until.timeout`."""
SHARE = 0.25
"""Default of `Until.share`."""


@checked
class Until:
    """When the work of a run is done: once all these checks are met, which are asked in order.

    checks: commands, or functions of the run (`check_answers.py`).
    folder: where commands run, whose files are the work; None for the folder of the workspace tools. With neither,
        commands run in this process's folder, and each call that may write counts as a change of the work.
    guard: patterns of files, as in .gitignore, that the agent must not change. If it does, commands run in a copy of
        the folder in which these files are as they were. Files that a command names are guarded, too.
    score: a regular expression for the score in a command's output (`CommandCheck`).
    timeout: seconds for all checks together; after that they count as not met.
    share: share of the run's time that checks may take, above 0 and at most 1, once they have taken half a minute. What
        that holds back is checked before a completion is answered and before the run ends.
    copy: run commands in a copy of the folder, so that calls that write need not wait for a running check.
    env: names of environment variables that commands see in addition to those that the model's commands see.
    inside: a command that runs a shell command elsewhere, such as a container (`CommandCheck`).
    from_failing: whether a run ends without a request if the checks are met at its start. If False, the work has to
        change first.

    Raises WrongUse for values that cannot work.
    """

    def __init__(
        self,
        *checks: str | Check,
        folder: str | os.PathLike[str] | None = None,
        guard: Sequence[str] = (),
        score: str | None = None,
        timeout: float = CHECK_SECONDS,
        share: float = SHARE,
        copy: bool = False,
        env: Collection[str] = (),
        inside: str = "",
        from_failing: bool = True,
    ) -> None:
        if not checks:
            raise WrongUse("Until needs a check: a command, as in Until('pytest -q'), or a function of the run")
        self.folder = None if folder is None else os.path.realpath(folder)
        if self.folder is not None and not os.path.isdir(self.folder):
            raise WrongUse(f"until: folder {os.fspath(folder or '')!r} is not a folder: name the folder of the work")
        self.checks = tuple(_check_of(check, env, score, inside) for check in checks)
        if isinstance(guard, str):
            raise WrongUse(f"until: guard takes several patterns: write guard=[{guard!r}]")
        self.guard = tuple(guard)
        self.timeout, self.share = timeout, share
        self.copy, self.from_failing = copy, from_failing
        if not timeout > 0:
            raise WrongUse(f"until: timeout is {timeout!r}: use seconds above 0")
        if not 0 < share <= 1:
            raise WrongUse(f"until: share is {share!r}: use a number above 0 and at most 1")
        for name, given in (("guard", guard), ("score", score), ("inside", inside), ("copy", copy)):
            if given and not self.commands:
                raise WrongUse(f"until: {name} is for commands, and there is none")

    @property
    def commands(self) -> tuple[CommandCheck, ...]:
        """The checks that are commands."""
        return tuple(check for check in self.checks if isinstance(check, CommandCheck))

    @property
    def in_background(self) -> bool:
        """Whether the checks are asked beside a run, after each change; if not, only where an answer is needed."""
        return any(getattr(check, "in_background", True) for check in self.checks)

    @property
    def name(self) -> str:
        """The name of the check in records and messages: its commands, or the names of its functions."""
        return " && ".join(map(name_of, self.checks))

    def work_folder(self, tools: Sequence[Tool]) -> str | None:
        """Return the folder whose files are the work; None if it has none that is known."""
        if self.folder is not None:
            return self.folder
        folders = dict.fromkeys(tool.folder for tool in tools if tool.folder is not None)
        if len(folders) > 1:
            raise WrongUse(f"until: the tools work in {len(folders)} folders: say which with Until(..., folder=...)")
        return next(iter(folders), os.getcwd() if self.commands else None)

    def prepare(self, policy: Policy, tools: Toolbox) -> tuple[Policy, Toolbox]:
        """Return the policy and the tools of a run with this check: its rule and guard, and `report_blocked`.

        Raises WrongUse for a check that cannot work with the tools.
        """
        self.verify(tuple(tools.values()))
        presets = [] if report_blocked.name in tools else [report_blocked]
        return policy_for_until(policy), Toolbox([*tools.values(), *presets])

    def verify(self, tools: Sequence[Tool]) -> None:
        """Refuse commands that cannot be executed in the folder of the work, and patterns that fit no file there.

        Raises WrongUse.
        """
        folder = self.work_folder(tools)
        for command in self.commands:
            command.verify(folder)
        if folder is not None and self.guard:
            GuardedFiles(folder, self.guard).close()


def _check_of(check: Any, env: Collection[str], score: str | None, inside: str) -> CommandCheck | Check:
    if isinstance(check, list | tuple):
        raise WrongUse(f"until: {check!r} is a list: write until=Until({', '.join(map(repr, check))})")
    if isinstance(check, str):
        return CommandCheck(check, env=env, score=score, inside=inside)
    check_functions(until=check)
    return cast(Check, check)


def name_of(check: CommandCheck | Check) -> str:
    """Return the command of a check, or the name of its function."""
    if isinstance(check, CommandCheck):
        return check.command
    return function_name(check)


def until_of(until: Until | str | Check) -> Until:
    """Return the `Until` for a parameter `until`. Raises WrongUse."""
    return until if isinstance(until, Until) else Until(until)
